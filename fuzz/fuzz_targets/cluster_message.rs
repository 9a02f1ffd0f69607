//! Messages between a conductor and its Testers: what is understood is written and read the same again.
#![no_main]

use cluster::message::{ToConductor, ToTester};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| {
    if let Ok(message) = ToTester::decode(octets) {
        assert_eq!(ToTester::decode(&message.encode()).as_ref(), Ok(&message));
    }
    if let Ok(message) = ToConductor::decode(octets) {
        // A part may hold numbers that are none in JSON, such as a rate beyond all bounds: it is only read.
        if !matches!(message, ToConductor::Report(_)) {
            assert_eq!(message.encode(), octets);
        }
    }
});
