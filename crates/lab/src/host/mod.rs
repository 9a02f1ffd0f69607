//! The host's fingerprint: what it is, how fast its parts are, and what spoils measurements on it.
//!
//! ```text
//!   facts   /proc, /sys: CPU, kernel, clock, network cards            milliseconds
//!   memory  STREAM's four kernels; pointer chasing by working set      a tenth of a second and more
//!   timer   clock reads, sleeps that last too long, cores that go away
//!   others  who else used the cores meanwhile ──────────────────────>  warnings
//! ```
//!
//! A number without its host says little: the fingerprint goes into every run.

mod facts;
mod memory;
mod timer;
mod warnings;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use record::HostFacts;

use crate::cpus::CpuList;

pub(crate) use facts::read_cpu;

/// How thoroughly a host is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Facts only, nothing is measured.
    Facts,
    /// About a second, for the record of a run.
    Quick,
    /// Some seconds, with working sets as STREAM wants them.
    Full,
}

/// Takes the facts of this host; of its speed only what the cores `on` show.
pub fn fingerprint(depth: Depth, on: &CpuList) -> HostFacts {
    let mut host = facts::read();
    let look = match depth {
        Depth::Facts => Duration::ZERO,
        Depth::Quick => Duration::from_millis(200),
        Depth::Full => Duration::from_secs(1),
    };
    // First, while this process is idle: then all that is busy is others.
    (host.others_busy, host.steal) = warnings::others(look);
    let full = depth == Depth::Full;
    host.taken_unix_s =
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64());
    if depth != Depth::Facts {
        host.memory_bandwidth = Some(memory::bandwidth(&host, on, full));
        host.memory_latency = memory::latencies(&host, full);
        host.timer = Some(timer::measure(on, full));
    }
    host.warnings = warnings::warnings(&host);
    host
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_taken_and_written() {
        let on = CpuList::new(CpuList::allowed().cpus().iter().copied().take(1)).unwrap();
        let fingerprint = fingerprint(Depth::Quick, &on);
        let bandwidth = fingerprint.memory_bandwidth.as_ref().unwrap();
        assert!(bandwidth.copy > 1e6 && bandwidth.triad > 1e6, "{bandwidth:?}");
        assert!(fingerprint.memory_latency.iter().all(|l| l.ns > 0.0));
        assert!(fingerprint.memory_latency.len() > 5);
        let json = serde_json::to_value(&fingerprint).unwrap();
        for key in ["cpu", "kernel", "memory", "network", "memory_latency", "timer", "warnings"] {
            assert!(json.get(key).is_some(), "{key}: {json}");
        }
        assert_eq!(json["cpu"]["allowed"].as_array().unwrap().len(), CpuList::allowed().count());
        assert!(fingerprint.memory.total > 1 << 20);
    }
}
