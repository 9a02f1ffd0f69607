//! The records of an answer: none is there twice.

use crate::faults::dns64d;
use crate::kit::message::Reply;
use crate::kit::script::Script;

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
