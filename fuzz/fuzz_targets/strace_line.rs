//! Lines of strace: a line counts at most one write and one sync, with its process id and without; flags of open files.
#![no_main]

use std::collections::BTreeSet;

use libfuzzer_sys::fuzz_target;
use measure::strace::{SyncCounts, writes_are_syncs};

fuzz_target!(|line: &[u8]| {
    let synchronous = BTreeSet::from([8]);
    let counts = |line: &[u8]| {
        let mut counts = SyncCounts::default();
        counts.add_line(line, &synchronous);
        counts
    };
    let found = counts(line);
    assert!(found.writes <= 1 && found.syncs <= 1);
    assert_eq!(counts(&[b"812   ", line].concat()), found);
    if let Ok(text) = std::str::from_utf8(line) {
        writes_are_syncs(text);
    }
});
