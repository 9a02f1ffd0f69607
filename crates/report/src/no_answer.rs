//! A load without a valid answer: the reason by its record, in one sentence.

use measure::Transport;
use record::{Conditions, Connections, EngineKind, Trial};

use crate::view::thousands;

/// Returns one sentence on why no query of a trial got a valid answer, with a remedy; `None` if one
/// did, or if the user interrupted the trial.
pub fn no_answer(t: &Trial) -> Option<String> {
    if t.valid > 0 || t.void.0 == Some(measure::Void::Interrupted) {
        return None;
    }
    let target = &t.conditions.target;
    let why = if t.answered > 0 {
        invalid(t, target)
    } else {
        let failed = t.connections.as_ref().and_then(|c| failed(c, &t.conditions));
        failed.unwrap_or_else(|| silent(t, target))
    };
    let cut = if fell_back(t) { "the replies over UDP are cut (TC); over TCP, " } else { "" };
    Some(format!("no valid answer: {cut}{why}"))
}

/// Returns whether queries were repeated over TCP because their replies over UDP were truncated.
fn fell_back(t: &Trial) -> bool {
    t.connections.as_ref().is_some_and(|c| c.asked_over_tcp > 0)
}

/// Returns the only response code of a trial's replies, if it is an error; `None` without replies.
pub fn only_error_code(t: &Trial) -> Option<&str> {
    match t.rcodes.iter().collect::<Vec<_>>()[..] {
        [(code, _)] if code != "NOERROR" => Some(code),
        _ => None,
    }
}

/// Explains why no reply is valid. A replay has no options for queries and expected replies.
fn invalid(t: &Trial, target: &str) -> String {
    let replayed = t.conditions.pacing.get().is_none();
    if let Some(code) = only_error_code(t) {
        let hint = match code {
            _ if replayed && code != "BADCOOKIE" => "does it serve the names in the capture?",
            "REFUSED" => {
                "does it allow this host to query, and does it serve these names? (--expect refused measures it)"
            }
            "NXDOMAIN" => "does it serve these names, and should its answers match --expect?",
            "SERVFAIL" => "see its log",
            "BADCOOKIE" => "it requires a cookie that it has issued: try --cookies",
            "NOTIMP" | "FORMERR" => "does the server know this type and these options?",
            _ => "does it serve these names?",
        };
        return format!("{target} answers every query with {code}: {hint}");
    }
    let most = t.invalid.iter().max_by_key(|(_, count)| **count);
    let Some((reason, count)) = most else {
        return format!("the replies of {target} are not valid");
    };
    let hint = match reason.as_str() {
        "not-a-response" => "the program that listens there is not a DNS server",
        "malformed" => "the replies are not DNS messages",
        "wrong-question" => "the replies belong to other queries",
        "truncated" if fell_back(t) => "they are cut (TC) again",
        "truncated" if replayed => "the replies are cut (TC): try --transport tcp",
        _ if replayed => "does it serve the names in the capture?",
        "truncated" => "the replies are cut (TC): try --transport tcp, or a larger --edns",
        "wrong-address" => "does the server have this --expect-pref64 and this namespace?",
        "no-answer" | "wrong-type" => {
            "does it have records of this --type, and should its answers match --expect?"
        }
        "unexpected-answer" => "should its answers match --expect?",
        _ => "should its answers match --expect?",
    };
    let (count, all) = (thousands(*count as f64), thousands(t.answered as f64));
    format!("{count} of {all} replies of {target} are {reason}: {hint}")
}

/// Describes the failures of connections; `None` without failures.
fn failed(c: &Connections, conditions: &Conditions) -> Option<String> {
    let target = &conditions.target;
    let most = |counts: &std::collections::BTreeMap<String, u64>| {
        let most = counts.iter().max_by_key(|(_, count)| **count);
        most.map(|(reason, _)| reason.clone())
    };
    let reason = most(&c.queries_failed).or_else(|| most(&c.failed))?;
    let transport = Transport::named(&conditions.transport);
    let ended = ["handshake-stalled", "stalled", "closed-early", "reset", "protocol"];
    let ended = ended.contains(&reason.as_str());
    Some(match reason.as_str() {
        _ if ended && transport == Some(Transport::Https) && c.established > 0 => format!(
            "{target} speaks TLS, but does not answer HTTP/2 ({reason}): is it DNS over TLS (--transport tls)?"
        ),
        _ if ended && transport.is_some_and(is_tls_over_tcp) && c.established == 0 => format!(
            "no TLS answer from {target} ({reason}): it is probably plain TCP, try --transport tcp"
        ),
        "refused" => format!(
            "nothing listens at {target}, connections are refused: is the server up, and is this its port?"
        ),
        "unreachable" => format!("there is no route to {target}"),
        "connect-stalled" => format!(
            "{target} does not accept connections: is it the server's address, and does a firewall let them through?"
        ),
        "tls-wanted" => {
            format!("{target} expects TLS: try --transport tls, or https")
        }
        "handshake" | "handshake-stalled" => format!(
            "the handshake with {target} does not succeed ({reason}): does it speak this transport on this port?"
        ),
        "bad-certificate" => format!(
            "the certificate of {target} is not trusted: is --tls-name a name of it, and --ca its authority?"
        ),
        "protocol" | "oversized" => {
            format!("{target} does not send DNS over this transport ({reason}): is this its port?")
        }
        "closed-early" | "closed-with-error" | "reset" => format!(
            "{target} closes every connection without a reply: is it a DNS server, and does it expect TLS on this port (--transport tls)?"
        ),
        reason => {
            let warning =
                measure::Warning::QueriesFailed { queries: c.attempts, reason: reason.to_owned() };
            let words = warning.with_advice();
            let why = words.split_once("failed: ").map_or(reason, |(_, why)| why);
            format!("every query to {target} failed: {why}")
        }
    })
}

/// Returns whether a transport has TLS on a TCP connection.
fn is_tls_over_tcp(transport: Transport) -> bool {
    transport.uses_tls() && transport.uses_tcp()
}

/// Describes the events in place of replies in time.
fn silent(t: &Trial, target: &str) -> String {
    let refused =
        |warning: &measure::Warning| matches!(warning, measure::Warning::NobodyListens { .. });
    if t.warnings.iter().any(refused) {
        return format!(
            "nothing listens at {target} (ICMP): is the server up, and is this its port?"
        );
    }
    if t.late > 0 {
        let late = thousands(t.late as f64);
        let timeout = t.conditions.timeout_s;
        return format!(
            "{late} replies of {target} came after the timeout of {timeout} s: take a longer --timeout or a lower rate"
        );
    }
    if t.unexpected > 0 {
        return format!("{target} sends messages that belong to no query: it is not a DNS server");
    }
    if t.sent == 0 {
        let why = t.warnings.first().map_or(String::new(), |w| format!(": {}", w.with_advice()));
        return format!("nothing was sent to {target}{why}");
    }
    if t.conditions.engine == Some(EngineKind::Kernel) {
        return format!(
            "{target} stayed silent: is it the server's address, and on a veth link, is `gro on` at its end (docs/testbed.md)?"
        );
    }
    format!(
        "{target} stayed silent: is it the server's address, does a firewall let queries and replies through, or does it wait for other servers?"
    )
}

#[cfg(test)]
mod tests {
    use measure::{Void, Warning};
    use record::Voidness;

    use super::*;

    /// A trial in which no query got a reply.
    fn trial() -> Trial {
        let mut trial = crate::tests::trial();
        trial.conditions.target = "192.0.2.1:53".to_owned();
        (trial.sent, trial.answered, trial.valid, trial.lost) = (500, 0, 0, 500);
        (trial.late, trial.unexpected) = (0, 0);
        trial.warnings.clear();
        trial.rcodes.clear();
        trial.invalid.clear();
        trial.connections = None;
        trial.void = Voidness(None);
        trial
    }

    /// What a row changes of the trial.
    type Change = fn(&mut Trial);

    #[test]
    fn each_reason_has_its_sentence() {
        let table: [(Change, &str); 20] = [
            (|_| (), "192.0.2.1:53 stayed silent: "),
            (
                |t| t.warnings = vec![Warning::NobodyListens { times: 1, target: String::new() }],
                "nothing listens at 192.0.2.1:53 (ICMP): ",
            ),
            (|t| t.late = 3, "3 replies of 192.0.2.1:53 came after the timeout of "),
            (
                |t| t.unexpected = 3,
                "192.0.2.1:53 sends messages that belong to no query: it is not a DNS server",
            ),
            (
                |t| t.conditions.engine = Some(EngineKind::Kernel),
                "192.0.2.1:53 stayed silent: is it the server's address, and on a veth link",
            ),
            (|t| t.sent = 0, "nothing was sent to 192.0.2.1:53"),
            (
                |t| {
                    (t.answered, t.lost) = (500, 0);
                    t.rcodes.insert("REFUSED".into(), 500);
                },
                "192.0.2.1:53 answers every query with REFUSED: does it allow this host to query",
            ),
            (
                |t| {
                    t.answered = 500;
                    t.rcodes.insert("NOERROR".into(), 500);
                    t.invalid.insert("not-a-response".into(), 500);
                },
                "500 of 500 replies of 192.0.2.1:53 are not-a-response: the program that listens there is not a DNS server",
            ),
            (
                |t| replayed(t, "REFUSED", "refused"),
                "192.0.2.1:53 answers every query with REFUSED: does it serve the names in the",
            ),
            (
                |t| replayed(t, "NOERROR", "unexpected-answer"),
                "500 of 500 replies of 192.0.2.1:53 are unexpected-answer: does it serve the",
            ),
            (
                |t| replayed(t, "NOERROR", "truncated"),
                "500 of 500 replies of 192.0.2.1:53 are truncated: the replies are cut (TC): try --transport",
            ),
            (
                |t| connections(t, "refused"),
                "nothing listens at 192.0.2.1:53, connections are refused",
            ),
            (
                |t| {
                    connections(t, "refused");
                    t.connections.as_mut().expect("set").asked_over_tcp = 500;
                },
                "the replies over UDP are cut (TC); over TCP, nothing listens at 192.0.2.1:53",
            ),
            (
                |t| {
                    t.connections =
                        Some(Connections { asked_over_tcp: 500, ..Connections::default() });
                    t.answered = 500;
                    t.rcodes.insert("NOERROR".into(), 500);
                    t.invalid.insert("truncated".into(), 500);
                },
                "the replies over UDP are cut (TC); over TCP, 500 of 500 replies of 192.0.2.1:53 are \
                 truncated: they are cut (TC) again",
            ),
            (|t| connections(t, "tls-wanted"), "192.0.2.1:53 expects TLS: try --transport tls"),
            (
                |t| connections(t, "closed-early"),
                "192.0.2.1:53 closes every connection without a reply",
            ),
            (
                |t| {
                    connections(t, "handshake-stalled");
                    t.conditions.transport = "tls".to_owned();
                },
                "no TLS answer from 192.0.2.1:53 (handshake-stalled): it is probably plain TCP, try",
            ),
            (
                |t| {
                    connections(t, "stalled");
                    t.conditions.transport = "https".to_owned();
                    t.connections.as_mut().expect("set").established = 2;
                },
                "192.0.2.1:53 speaks TLS, but does not answer HTTP/2 (stalled): is it DNS over TLS",
            ),
            (|t| connections(t, "handshake"), "the handshake with 192.0.2.1:53 does not succeed"),
            (
                |t| connections(t, "http-404"),
                "every query to 192.0.2.1:53 failed: HTTP status 404 (Not Found): is --http-path",
            ),
        ];
        for (change, wanted) in table {
            let mut trial = trial();
            change(&mut trial);
            let found = no_answer(&trial).expect("a sentence");
            assert!(found.starts_with(&format!("no valid answer: {wanted}")), "{found}");
            assert!(!found.contains('\n'), "{found}");
            // These do not apply to a replay.
            let is_replay = trial.conditions.pacing.get().is_none();
            let names = |option| found.contains(option);
            assert!(!is_replay || !["--expect", "--type", "--edns"].iter().any(names), "{found}");
        }
    }

    fn replayed(t: &mut Trial, code: &str, reason: &str) {
        t.conditions.pacing = "replay at 1x".to_owned().into();
        (t.answered, t.lost) = (500, 0);
        t.rcodes.insert(code.into(), 500);
        t.invalid.insert(reason.into(), 500);
    }

    fn connections(t: &mut Trial, reason: &str) {
        let failed = [(reason.to_owned(), 7)].into();
        t.connections = Some(Connections { failed, ..Connections::default() });
    }

    #[test]
    fn one_valid_answer_and_an_interruption_need_none() {
        let mut trial = trial();
        trial.void = Voidness(Some(Void::Interrupted));
        assert_eq!(no_answer(&trial), None);
        trial.void = Voidness(None);
        trial.valid = 1;
        assert_eq!(no_answer(&trial), None);
    }
}
