//! Words for the reasons why queries over connections failed.

/// Returns the words for a reason, which is one of the record (`http-503`, `stream-reset-CANCEL`, `closed-early`).
pub(super) fn words(reason: &str) -> String {
    if let Some(status) = reason.strip_prefix("http-") {
        return match status_name(status) {
            Some(name) => format!("HTTP status {status} ({name})"),
            None => format!("HTTP status {status}"),
        };
    }
    if let Some(code) = reason.strip_prefix("stream-reset-") {
        return format!("the server reset their streams ({code})");
    }
    match reason {
        "media-type" => "the responses are not of the type application/dns-message",
        "stream-refused" => "the server refused their streams again and again",
        "incomplete" => "their streams ended without a whole message",
        "oversized" => "their replies are longer than allowed",
        "protocol" => "the server broke the protocol",
        "tls-wanted" => "the server expects TLS",
        "closed-early" => "the server closed their connections",
        "closed-with-error" => "the server closed their connections with an error code",
        "reset" => "the server reset their connections",
        "stalled" => "their connections stayed silent for the timeout",
        "refused" => "nothing listens on the port",
        "unreachable" => "there is no route to the server",
        "connect-stalled" => "the server's host did not accept their connections in time",
        "handshake-stalled" => "the handshakes did not end in time",
        "handshake" => "the handshakes failed",
        "bad-certificate" => "the server's certificate is not trusted",
        "no-port" => "this host has no free port left",
        "no-file" => "this process has reached its limit of open files",
        other => other,
    }
    .to_owned()
}

/// Returns advice about a reason; `None` where none is needed.
pub(super) fn advice(reason: &str) -> Option<&'static str> {
    Some(match reason {
        "http-400" | "http-415" => "is the server one of DNS over HTTPS (RFC 8484)?",
        "http-401" | "http-403" => "is this host allowed to query the server?",
        "http-404" => "is --http-path the path of the server's resource?",
        "http-405" => "try the other --http-method",
        "http-413" | "http-414" => {
            "the server accepts only shorter queries: try the other --http-method, or less --pad"
        }
        "http-421" => "is --tls-name the server's name?",
        "http-429" => {
            "the server limits the rate of a client: raise its limit, or use more --source addresses"
        }
        "http-502" | "http-504" => "the server behind this proxy does not answer",
        "http-503" => "the server, or the one behind this proxy, is overloaded or down",
        "http-500" => "see the log of the server",
        "media-type" => "is --http-path the path of the server's resource?",
        "stream-refused" => {
            "lower --outstanding, or raise the number of streams that the server takes"
        }
        "closed-early" | "reset" | "closed-with-error" => {
            "does the server limit the queries or the age of a connection? --queries-per-connection below its limit \
             ends connections before it does"
        }
        "oversized" => "raise --max-reply",
        "tls-wanted" => "try --transport tls",
        reason if reason.starts_with("stream-reset-") => "see the log of the server",
        _ => return None,
    })
}

/// Returns the name of an HTTP status (RFC 9110 section 15, RFC 6585), if DNS servers use it.
fn status_name(status: &str) -> Option<&'static str> {
    Some(match status {
        "301" => "Moved Permanently",
        "302" => "Found",
        "307" => "Temporary Redirect",
        "308" => "Permanent Redirect",
        "400" => "Bad Request",
        "401" => "Unauthorized",
        "403" => "Forbidden",
        "404" => "Not Found",
        "405" => "Method Not Allowed",
        "408" => "Request Timeout",
        "413" => "Content Too Large",
        "414" => "URI Too Long",
        "415" => "Unsupported Media Type",
        "421" => "Misdirected Request",
        "429" => "Too Many Requests",
        "431" => "Request Header Fields Too Large",
        "500" => "Internal Server Error",
        "501" => "Not Implemented",
        "502" => "Bad Gateway",
        "503" => "Service Unavailable",
        "504" => "Gateway Timeout",
        "505" => "HTTP Version Not Supported",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use crate::Warning;

    #[test]
    fn reasons_are_told_in_words_with_a_hint() {
        let table = [
            (
                "http-503",
                "7 queries failed: HTTP status 503 (Service Unavailable): the server, or the one behind this proxy, \
                 is overloaded or down",
            ),
            ("http-599", "7 queries failed: HTTP status 599"),
            (
                "stream-reset-DOQ_INTERNAL_ERROR",
                "7 queries failed: the server reset their streams (DOQ_INTERNAL_ERROR): see the log of the server",
            ),
            ("stalled", "7 queries failed: their connections stayed silent for the timeout"),
        ];
        for (reason, text) in table {
            let warning = Warning::QueriesFailed { queries: 7, reason: reason.to_owned() };
            assert_eq!(warning.with_advice(), text);
        }
    }
}
