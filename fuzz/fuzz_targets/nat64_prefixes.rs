//! Sources of NAT64 prefixes: router advertisements and replies about `ipv4only.arpa`.
#![no_main]

use dns64::follow::{advertisement, discovery};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|message: &[u8]| {
    if let Some(found) = advertisement::parse(message) {
        assert!(found.len() <= message.len() / 16);
    }
    let _ = discovery::read(message);
});
