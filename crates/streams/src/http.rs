//! Messages in HTTP requests and responses (RFC 8484): HTTP/2 and HTTP/3 for clients, HTTP/1.1 too for servers.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use measure::HttpMethod;

/// Media type of DNS messages (RFC 8484 section 6).
pub(crate) const MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/dns-message");
/// Usual path of requests (RFC 8484 section 4.1.1 has it as an example).
pub const PATH: &str = "/dns-query";
/// Application protocol of HTTP/2 over TLS (RFC 9113 section 3.2).
pub const ALPN_H2: &[u8] = b"h2";
/// Application protocol of HTTP/1.1 over TLS (RFC 7301 section 6).
pub const ALPN_HTTP1: &[u8] = b"http/1.1";
/// Application protocol of HTTP/3 (RFC 9114 section 3.1).
pub const ALPN_H3: &[u8] = b"h3";
/// URI variable of a GET request, in front of its value.
const VARIABLE: &str = "dns=";
/// Longest message of a GET request in bytes, so that it fits into the usual limits of a URI.
const MAX_GET: usize = 4 << 10;

/// Target of requests, and their method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Name of the server, and its port unless it is 443.
    pub authority: String,
    /// Path of the URI, with its slash.
    pub path: String,
    /// Method, which decides where in the request the message is.
    pub method: HttpMethod,
}

impl Resource {
    /// Returns whether the resource forms a valid URI.
    pub fn is_valid(&self) -> bool {
        self.path.starts_with('/') && self.request(&Bytes::new()).is_some()
    }

    /// Returns the request for `message`, and its body.
    pub(crate) fn request(&self, message: &Bytes) -> Option<(Request<()>, Option<Bytes>)> {
        let Resource { authority, path, method } = self;
        let request = Request::builder().header(header::ACCEPT, MEDIA_TYPE);
        match method {
            HttpMethod::Get => {
                let value = URL_SAFE_NO_PAD.encode(message);
                let uri = format!("https://{authority}{path}?{VARIABLE}{value}");
                Some((request.uri(uri).body(()).ok()?, None))
            }
            HttpMethod::Post => {
                let request = request
                    .method(http::Method::POST)
                    .uri(format!("https://{authority}{path}"))
                    .header(header::CONTENT_TYPE, MEDIA_TYPE)
                    .header(header::CONTENT_LENGTH, message.len());
                Some((request.body(()).ok()?, Some(message.clone())))
            }
        }
    }
}

/// Returns whether a response contains a message.
pub(crate) fn is_message<B>(response: &Response<B>) -> bool {
    has_media_type(response.headers())
}

/// Returns how many seconds a response has been in caches: 0 without an age that is a number, the first of several (RFC 9111
/// section 5.1).
pub(crate) fn age<B>(response: &Response<B>) -> u32 {
    let age = response.headers().get(header::AGE).and_then(|age| age.to_str().ok());
    let first = age.and_then(|age| age.split(',').next()).unwrap_or_default().trim();
    match first.bytes().all(|octet| octet.is_ascii_digit()) {
        true if !first.is_empty() => first.parse().unwrap_or(u32::MAX),
        _ => 0,
    }
}

/// Result of reading a request's head.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RequestHead {
    /// The message is in the URI.
    Message(Vec<u8>),
    /// The message is in the body.
    InBody,
    /// The request is refused with this status.
    Refused(StatusCode),
}

/// Reads a request's head (RFC 8484 section 4.1); bodies may have `max` bytes.
pub(crate) fn read_head<B>(request: &Request<B>, path: &str, max: usize) -> RequestHead {
    if request.uri().path() != path {
        return RequestHead::Refused(StatusCode::NOT_FOUND);
    }
    let headers = request.headers();
    match *request.method() {
        http::Method::GET => {
            let query = request.uri().query().unwrap_or_default();
            let value = query.split('&').find_map(|variable| variable.strip_prefix(VARIABLE));
            let bad = RequestHead::Refused(StatusCode::BAD_REQUEST);
            match value.and_then(percent_decoded) {
                Some(value) if value.len() <= MAX_GET.div_ceil(3) * 4 => {
                    URL_SAFE_NO_PAD.decode(value).map_or(bad, RequestHead::Message)
                }
                Some(_) => RequestHead::Refused(StatusCode::URI_TOO_LONG),
                None => bad,
            }
        }
        http::Method::POST => {
            let length = headers.get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok());
            if !has_media_type(headers) {
                RequestHead::Refused(StatusCode::UNSUPPORTED_MEDIA_TYPE)
            } else if length.and_then(|l| l.parse::<usize>().ok()).is_some_and(|l| l > max) {
                RequestHead::Refused(StatusCode::PAYLOAD_TOO_LARGE)
            } else {
                RequestHead::InBody
            }
        }
        _ => RequestHead::Refused(StatusCode::METHOD_NOT_ALLOWED),
    }
}

/// Decodes octets that are written as `%2D` (RFC 3986 section 2.1), which a client may do with any; `None` if one is incomplete.
fn percent_decoded(text: &str) -> Option<Vec<u8>> {
    let mut parts = text.split('%');
    let mut octets = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        octets.push(u8::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))?);
        octets.extend_from_slice(rest.as_bytes());
    }
    Some(octets)
}

/// Returns the head of a response with a message of `len` bytes that is fresh for `age` seconds, from a server that is
/// also reached at `alternative`.
pub(crate) fn reply(
    len: usize,
    age: Option<u32>,
    alternative: Option<HeaderValue>,
) -> Response<()> {
    let mut response = Response::new(());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, MEDIA_TYPE);
    headers.insert(header::CONTENT_LENGTH, len.into());
    if let Some(age) = age.and_then(|age| HeaderValue::try_from(format!("max-age={age}")).ok()) {
        headers.insert(header::CACHE_CONTROL, age);
    }
    headers.extend(alternative.map(|value| (header::ALT_SVC, value)));
    response
}

/// Returns the head of a response without a message.
pub(crate) fn refusal(status: StatusCode, alternative: Option<HeaderValue>) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    if status == StatusCode::METHOD_NOT_ALLOWED {
        // RFC 9110 section 15.5.6.
        headers.insert(header::ALLOW, HeaderValue::from_static("GET, POST"));
    }
    headers.extend(alternative.map(|value| (header::ALT_SVC, value)));
    response
}

/// Returns whether the content is a DNS message by its media type, which is compared without regard to case and to
/// parameters (RFC 9110 section 8.3.1).
fn has_media_type(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let media_type = content_type.and_then(|value| value.split(|&byte| byte == b';').next());
    media_type.is_some_and(|value| value.trim_ascii().eq_ignore_ascii_case(MEDIA_TYPE.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types_are_compared_as_http_wants_it() {
        let table = [
            ("application/dns-message", true),
            ("Application/DNS-Message", true),
            ("application/dns-message; charset=utf-8", true),
            ("application/dns-message ;q=1", true),
            (" application/dns-message\t", true),
            ("application/dns-json", false),
            ("application/dns-message2", false),
            ("text/html; application/dns-message", false),
            ("", false),
        ];
        for (value, is_message) in table {
            let mut headers = HeaderMap::new();
            let value = HeaderValue::from_bytes(value.as_bytes()).expect("a value");
            headers.insert(header::CONTENT_TYPE, value.clone());
            assert_eq!(has_media_type(&headers), is_message, "{value:?}");
        }
        assert!(!has_media_type(&HeaderMap::new()));
    }

    #[test]
    fn an_age_is_a_number_of_seconds() {
        for (value, expected) in [
            (None, 0),
            (Some("17"), 17),
            (Some("17, 4"), 17),
            (Some("99999999999"), u32::MAX),
            (Some("+4"), 0),
            (Some(""), 0),
        ] {
            let mut response = Response::new(());
            response
                .headers_mut()
                .extend(value.map(|v| (header::AGE, HeaderValue::from_static(v))));
            assert_eq!(age(&response), expected, "{value:?}");
        }
    }

    fn resource(method: HttpMethod) -> Resource {
        Resource { authority: "dns.example:8443".into(), path: PATH.into(), method }
    }

    #[test]
    fn servers_read_the_requests_of_clients() {
        for len in [0, 1, 2, 3, 12, 300] {
            let message = Bytes::from(vec![0xfb; len]);
            let (get, none) = resource(HttpMethod::Get).request(&message).unwrap();
            assert_eq!(
                (read_head(&get, PATH, 512), none),
                (RequestHead::Message(message.to_vec()), None)
            );
            let (post, body) = resource(HttpMethod::Post).request(&message).unwrap();
            assert_eq!((read_head(&post, PATH, 512), body), (RequestHead::InBody, Some(message)));
        }
    }

    #[test]
    fn percent_encoding_changes_nothing() {
        for value in ["-_A", "%2D%5F%41", "%2d_A"] {
            let uri = format!("https://a/dns-query?x=y&dns={value}");
            let request = Request::builder().uri(uri).body(()).unwrap();
            assert_eq!(
                read_head(&request, PATH, 512),
                RequestHead::Message(vec![0xfb, 0xf0]),
                "{value}"
            );
        }
    }

    #[test]
    fn invalid_requests_are_refused() {
        let cases = [
            ("GET", "https://a/dns-query", 400),
            ("GET", "https://a/dns-query?dns=!", 400),
            ("GET", "https://a/dns-query?dns=AA%2", 400),
            ("GET", "https://a/dns-query?dns=AA%+2", 400),
            ("GET", "https://a/dns-query?x=y&dns=AAE=", 400),
            ("GET", "https://a/other?dns=AAE", 404),
            ("PUT", "https://a/dns-query", 405),
            ("POST", "https://a/dns-query", 415),
        ];
        for (method, uri, status) in cases {
            let request = Request::builder().method(method).uri(uri).body(()).unwrap();
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(
                read_head(&request, PATH, 512),
                RequestHead::Refused(status),
                "{method} {uri}"
            );
        }
        let long = format!("https://a/dns-query?dns={}", "A".repeat(8 << 10));
        let request = Request::builder().uri(long).body(()).unwrap();
        assert_eq!(read_head(&request, PATH, 512), RequestHead::Refused(StatusCode::URI_TOO_LONG));
        let (post, _) = resource(HttpMethod::Post).request(&Bytes::from(vec![0; 513])).unwrap();
        assert_eq!(
            read_head(&post, PATH, 512),
            RequestHead::Refused(StatusCode::PAYLOAD_TOO_LARGE)
        );
    }
}
