//! Record types in text: what is accepted prints and reads back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::Qtype;

fuzz_target!(|text: &str| {
    if let Ok(qtype) = text.parse::<Qtype>() {
        assert_eq!(qtype.to_string().parse(), Ok(qtype));
    }
});
