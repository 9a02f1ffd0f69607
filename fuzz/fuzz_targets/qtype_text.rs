//! Record types in text: an accepted type is printed so that it reads back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::Qtype;

fuzz_target!(|text: &str| {
    if let Ok(qtype) = text.parse::<Qtype>() {
        assert_eq!(qtype.to_string().parse(), Ok(qtype));
    }
});
