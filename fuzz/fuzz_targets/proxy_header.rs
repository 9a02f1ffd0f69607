//! PROXY headers: one that is read is within the octets, and no more octets are asked for than a header may have.
#![no_main]

use wire::proxy::{Unreadable, read, version2};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| {
    for result in [read(octets), version2(octets)] {
        match result {
            Ok(header) => assert!(header.len <= octets.len()),
            Err(Unreadable::Incomplete(needed)) => {
                assert!(needed > octets.len() && needed <= 16 + 4_096);
            }
            Err(Unreadable::Invalid) => {}
        }
    }
});
