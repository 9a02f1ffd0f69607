//! The form of answers for the map in the kernel: any message is encoded or refused.
#![no_main]

use kernel::Stored;
use libfuzzer_sys::fuzz_target;
use measure::Nanos;
use wire::Qtype;

fuzz_target!(|octets: &[u8]| {
    let (message, options) = octets.split_at(octets.len() - octets.len().min(6) / 2);
    let stored = Stored {
        generation: 1,
        qtype: Qtype::AAAA,
        view: 1,
        rd: true,
        cd: false,
        dnssec: false,
        message,
        options,
        stored: Nanos::ZERO,
        until: Nanos::from_secs(60),
    };
    let _ = stored.encode(7);
});
