use super::*;
use proptest::prelude::*;

/// `www.test A`: CNAME to `web.test` with a compressed name, an SOA, an A record and an OPT after.
const ALIAS: &[u8] = b"\0\x07\x81\x80\0\x01\0\x01\0\x01\0\x02\x03www\x04test\0\0\x01\0\x01\
    \xc0\x0c\0\x05\0\x01\0\0\0\x64\0\x06\x03web\xc0\x10\
    \xc0\x10\0\x06\0\x01\0\0\0\xc8\0\x18\xc0\x10\xc0\x10\0\0\0\x01\0\0\0\x02\0\0\0\x03\0\0\0\x04\0\0\0\x05\
    \xc0\x10\0\x01\0\x01\0\0\0\x09\0\x04\x7f\0\0\x01\
    \0\0\x29\x04\xd0\x01\0\x80\0\0\x11\0\x08\0\x01x\0\x0a\0\x02ab\0\x0f\0\x02\0\x03";

#[test]
fn a_reply_is_parsed() {
    let reply = Reply::parse(ALIAS).expect("it is well-formed");
    let ttl_of = |name: &str| reply.negative_ttl(&name.parse().expect("a name"));
    assert_eq!(reply.rcode, 16);
    // The SOA record is that of `test`.
    assert_eq!((ttl_of("web.test"), ttl_of("web.other")), (Some(5), None));
    assert_eq!((reply.additional, reply.additional().count()), (1, 1));
    let (mut chain, mut found) = (Vec::new(), Vec::new());
    let reading = reply.read(Qtype::A, false, &mut chain, &mut found).expect("a chain");
    assert_eq!(
        (reading.name.to_string().as_str(), reading.hops, reading.wanted),
        ("web.test", 1, 0)
    );
    assert_eq!(chain, b"\x03www\x04test\0\0\x05\0\x01\0\0\0\x64\0\x0a\x03web\x04test\0");
    assert!(found.is_empty() && !reply.ends_in_alias(&reading));
    let mut soa = Vec::new();
    let record = reply.authority().next().expect("one");
    reply.push(&mut soa, &record).expect("fine");
    assert_eq!(soa.len(), 6 + 10 + 6 + 6 + 20);
}

#[test]
fn a_reply_is_copied_without_opt_and_with_extended_errors_only() {
    let reply = Reply::parse(ALIAS).expect("it is well-formed");
    let mut answer = Answer::new();
    reply.copy_to(&mut answer, b"\x03www\x04test\0\0\x1c\0\x01");
    reply.copy_options(&mut answer);
    assert_eq!(answer.options, b"\0\x0f\0\x02\0\x03");
    let copy = Reply::parse(answer.bytes()).expect("still well-formed");
    assert_eq!((copy.header.counts, copy.rcode), ([1, 1, 1, 1], 0));
    assert_eq!(copy.question, b"\x03www\x04test\0\0\x1c\0\x01");
    assert_eq!((answer.optional_at, answer.rcode), (reply.additional_at, 16));
}

#[test]
fn a_bailiwick_has_two_labels() {
    for (owner, name, within) in [
        ("ns.example.com", "www.example.com", true),
        ("example.com", "a.b.example.com", true),
        ("com", "www.example.com", false),
        ("other.com", "www.example.com", false),
        ("notexample.com", "example.com", false),
        ("a.com", "com", true),
        ("net", "com", false),
        ("anything.net", ".", true),
    ] {
        let [owner, name] = [owner, name].map(|name| name.parse().expect("a name"));
        assert_eq!(is_in_bailiwick(&owner, &name), within, "{owner} {name}");
    }
}

proptest! {
    #[test]
    fn changed_replies_are_parsed_or_refused(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let mut bytes = ALIAS.to_vec();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Some(reply) = Reply::parse(&bytes) {
            let (mut chain, mut found) = (Vec::new(), Vec::new());
            let _ = reply.read(Qtype::A, true, &mut chain, &mut found);
            prop_assert!(chain.len() <= MAX_CHAIN);
            let mut answer = Answer::new();
            let question = reply.question.to_vec();
            reply.copy_to(&mut answer, &question);
            prop_assert!(Reply::parse(answer.bytes()).is_some());
        }
    }
}
