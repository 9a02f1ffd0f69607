//! Arbitrary replies: the check does not panic, takes bounded time, and accepts only the expected answer.
#![no_main]

use std::net::{Ipv4Addr, Ipv6Addr};

use libfuzzer_sys::fuzz_target;
use wire::reply::Rcodes;
use wire::{Expect, Qtype, QueryTemplate, reply};

/// The address in the seeds.
const WANTED: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x64, 0, 0, 0, 0x0a01, 0x0203);

fuzz_target!(|message: &[u8]| {
    let name = "010-001-002-003.dns64perf.test".parse().expect("a valid name");
    let template = QueryTemplate::new(&name, Qtype::AAAA, true, false, None);
    let question = &template.bytes()[template.question_range()];
    let check = |message: &[u8], expect| reply::check(message, question, &expect);

    let right = check(message, Expect::Aaaa(WANTED));
    let any = check(message, Expect::AnyAaaa);
    let no_data = check(message, Expect::NoData);
    let no_error = check(message, Expect::NoError);
    let answered = check(message, Expect::Answered);
    let no_name = check(message, Expect::Rcodes(Rcodes::NXDOMAIN));
    let _ = check(message, Expect::A(Ipv4Addr::new(10, 1, 2, 3)));

    if right.is_ok() {
        assert!(message.windows(16).any(|octets| octets == WANTED.octets()));
        assert_eq!(any, Ok(0));
        assert!(check(message, Expect::Aaaa(Ipv6Addr::LOCALHOST)).is_err());
    }
    if any.is_ok() || no_data.is_ok() {
        assert_ne!(any.is_ok(), no_data.is_ok());
        assert_eq!(no_error, Ok(0));
    }
    assert_eq!(answered.is_ok(), no_error.is_ok() || no_name.is_ok());
    if answered.is_ok() {
        let repeated = reply::question(message).expect("an accepted reply has our question");
        assert_eq!(reply::question_hash(repeated), reply::question_hash(question));
        assert!(check(&message[..message.len() - 1], Expect::Answered).is_err());
    }
});
