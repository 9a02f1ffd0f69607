//! Files of the kernel in /proc and /sys: any text is read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use measure::procfs::{self, UdpCounters};

fuzz_target!(|text: &str| {
    let _ = (procfs::parse_stat(text), procfs::parse_schedstat(text));
    let lines = text.lines().count();
    assert!(procfs::parse_cores(text).len() <= lines);
    assert!(procfs::parse_core_run_times(text).len() <= lines);
    assert!(procfs::parse_sockets(text).len() <= lines);
    assert!(procfs::parse_links(text).len() <= lines);
    assert!(procfs::parse_usage_by_core(text).len() <= text.split_ascii_whitespace().count());
    procfs::counts_of(text, "NET_RX:");
    procfs::parse_system(text);
    procfs::parse_memory(text);
    procfs::parse_proportional(text);
    procfs::parse_switches(text);
    UdpCounters::parse(text, text);
});
