//! Replies that are compared: any octets are parsed or refused; an answer is equal to itself, and two compare alike in both orders.
#![no_main]

use answers::{Kinds, Outcome, Raw, Terms, TtlTolerance, compare};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|messages: (&[u8], &[u8])| {
    let terms = Terms { ttl: TtlTolerance::Seconds(5), ignored: Kinds::NONE };
    let seen = |bytes: &[u8]| Outcome::of(&Raw::Message { bytes: bytes.to_vec(), tcp: false });
    let (one, other) = (seen(messages.0), seen(messages.1));
    assert_eq!(compare(&one, &one, &terms, 0), Kinds::NONE);
    assert_eq!(compare(&one, &other, &terms, 0), compare(&other, &one, &terms, 0));
});
