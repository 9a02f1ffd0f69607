//! The records of an answer: sets with one TTL, none twice, none whose time is over.

use std::time::Duration;

use crate::faults::dns64d;
use crate::kit::message::{Reply, Seen};
use crate::kit::script::Script;

/// Returns owner, TTL and data of records, in order.
fn shown(records: &[Seen]) -> Vec<String> {
    let mut all: Vec<_> = records.iter().map(Seen::to_string).collect();
    all.sort_unstable();
    all
}

#[test]
fn synthesised_records_are_one_set() {
    let script = Script::start(&[
        (
            "set.example A",
            "set.example 300 A 192.0.2.1; set.example 100 A 192.0.2.1; set.example 200 A 192.0.2.2",
        ),
        ("set.example AAAA", ""),
        // `HTTPS 1 set.example.`
        ("svc.example HTTPS", "svc.example 60 TYPE65 \\# 15 0001 03736574 076578616d706c65 00"),
    ]);
    let server = dns64d(&[&script], "");
    let expected =
        ["1", "2"].map(|last| format!("set.example 100 AAAA 2001:db8:64::c000:20{last}"));
    assert_eq!(shown(&server.ask("set.example AAAA").answer), expected);
    // Among the addresses of a service too.
    assert_eq!(shown(&server.ask("svc.example HTTPS").additional), expected);
}

#[test]
fn an_alias_of_a_service_that_leads_back_is_not_added() {
    let script = Script::start(&[
        // `HTTPS 0 two.example.` and `HTTPS 0 one.example.`
        ("one.example HTTPS", "one.example 60 TYPE65 \\# 15 0000 0374776f 076578616d706c65 00"),
        ("two.example HTTPS", "two.example 60 TYPE65 \\# 15 0000 036f6e65 076578616d706c65 00"),
    ]);
    let server = dns64d(&[&script], "");
    let Reply { answer, additional, .. } = server.ask("one.example HTTPS");
    assert_eq!((answer.len(), additional.len()), (1, 1), "{additional:?}");
    assert_eq!(additional[0].owner, "two.example");
}

#[test]
fn an_expired_answer_has_no_additional_records() {
    // `HTTPS 1 .` with its address.
    let service = "svc.example 1 TYPE65 \\# 3 000100; additional; svc.example 1 AAAA 2001:db8::1";
    let replies = format!("{service} || SERVFAIL");
    let script = Script::start(&[("svc.example HTTPS", replies.as_str())]);
    let server = dns64d(&[&script], "cache.serve-stale = \"1h\"");
    assert_eq!(server.ask("svc.example HTTPS").additional.len(), 1);
    std::thread::sleep(Duration::from_millis(2_200));
    let reply = server.ask("svc.example HTTPS");
    assert!(reply.errors().any(|code| code == 3) && reply.answer.len() == 1, "{reply}");
    assert!(reply.additional.is_empty(), "{reply}");
}
