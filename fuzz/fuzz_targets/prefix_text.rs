//! IPv4 prefixes and NAT64 prefixes in text: an accepted prefix reads back the same, and its arithmetic is reversible.
#![no_main]

use std::net::Ipv4Addr;

use libfuzzer_sys::fuzz_target;
use wire::{Ipv4Prefix, Pref64};

fuzz_target!(|text: &str| {
    if let Ok(prefix) = text.parse::<Ipv4Prefix>() {
        assert_eq!(prefix.to_string().parse(), Ok(prefix));
        let last = prefix.size() - 1;
        assert_eq!(prefix.index(prefix.nth(last)), Some(last));
    }
    if let Ok(pref64) = text.parse::<Pref64>() {
        assert_eq!(pref64.to_string().parse(), Ok(pref64));
        let address = Ipv4Addr::new(192, 0, 2, 33);
        assert_eq!(pref64.extract(pref64.embed(address)), Some(address));
    }
});
