//! Facts of the host: its parts, their speed, and what disturbs measurements on it.
//!
//! ```text
//!   facts   /proc, /sys: CPU, kernel, clock, network cards            milliseconds
//!   memory  STREAM's four kernels; pointer chasing by working set      a tenth of a second and more
//!   timer   clock reads, sleeps that last too long, cores that go away
//!   others  other processes on the cores ──────────────────────>  warnings
//! ```
//!
//! A result is meaningful only with its host, so that every run contains these facts.

mod facts;
mod memory;
mod timer;
mod warnings;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use record::HostFacts;

use crate::testbed::cpus::CpuList;

pub(crate) use facts::{available_memory, read_cpu};

/// Depth of the measurement of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Facts that the system reports; no measurement.
    Facts,
    /// About one second, for the record of a run.
    Quick,
    /// Several seconds, with working sets as STREAM requires them.
    Full,
}

/// Collects the facts of this host; speed is measured only on the cores `on`.
pub fn fingerprint(depth: Depth, on: &CpuList) -> HostFacts {
    let mut host = facts::read();
    let look = match depth {
        Depth::Facts => Duration::ZERO,
        Depth::Quick => Duration::from_millis(200),
        Depth::Full => Duration::from_secs(1),
    };
    // This is measured first, while this process is idle: all busy time belongs to other processes.
    (host.others_busy, host.steal) = warnings::others(look);
    let full = depth == Depth::Full;
    host.taken_unix_s =
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64());
    if depth != Depth::Facts {
        host.memory_bandwidth = memory::bandwidth(&host, on, full);
        host.cache_bandwidth = memory::cache_bandwidths(&host, full);
        host.memory_latency = memory::latencies(&host, full);
        host.page_latency = memory::page_latencies(&host, full);
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
        for cache in &fingerprint.cache_bandwidth {
            assert!(cache.level > 0 && cache.copy > 1e6, "{cache:?}");
        }
        if let Some(bandwidth) = &fingerprint.memory_bandwidth {
            assert!(bandwidth.copy > 1e6 && bandwidth.triad > 1e6, "{bandwidth:?}");
            assert!(bandwidth.array > facts::last_cache(&fingerprint.cpu), "{bandwidth:?}");
        }
        assert!(fingerprint.memory_latency.iter().all(|l| l.ns > 0.0));
        assert!(fingerprint.memory_latency.len() > 5);
        let pages = &fingerprint.page_latency;
        assert!(pages.len() > 5 && pages.iter().all(|p| p.ns > 0.0 && p.packed_ns > 0.0));
        let json = serde_json::to_value(&fingerprint).unwrap();
        for key in ["cpu", "kernel", "memory", "network", "memory_latency", "timer", "warnings"] {
            assert!(json.get(key).is_some(), "{key}: {json}");
        }
        assert_eq!(json["cpu"]["allowed"].as_array().unwrap().len(), CpuList::allowed().count());
        assert!(fingerprint.memory.total > 1 << 20);
    }
}
