//! The configuration of the DNS64 server: any text is accepted, or refused with a message.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(error) = dns64::Config::parse(text) {
        assert!(!error.to_string().is_empty());
    }
});
