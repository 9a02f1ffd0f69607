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

use serde::Serialize;

use crate::cpus::CpuList;

pub use facts::{Cache, Card, Cpu, Facts, Kernel, Memory};
pub use memory::{Bandwidth, Latency};
pub use timer::{Gaps, Timer};

/// Version of the fingerprint's JSON.
pub const HOST_SCHEMA: u32 = 1;

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

/// What a host is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fingerprint {
    /// Version of the JSON.
    pub schema: u32,
    /// When it was taken, seconds since 1970.
    pub taken_unix_s: f64,
    /// What it says of itself.
    #[serde(flatten)]
    pub facts: Facts,
    /// Memory bandwidth; absent when it was not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bandwidth: Option<Bandwidth>,
    /// Nanoseconds of a dependent load, by working set; empty when they were not measured.
    pub memory_latency: Vec<Latency>,
    /// The clock and the scheduler; absent when they were not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timer: Option<Timer>,
    /// Share (0 to 1) of the cores that others used just before.
    pub others_busy: f64,
    /// Share (0 to 1) of the cores' time that the hypervisor gave to others.
    pub steal: f64,
    /// What spoils measurements, in words, each with what to do.
    pub warnings: Vec<String>,
}

/// Takes the fingerprint of this host; of its speed only what the cores `on` show.
pub fn fingerprint(depth: Depth, on: &CpuList) -> Fingerprint {
    let facts = Facts::read();
    let look = match depth {
        Depth::Facts => Duration::ZERO,
        Depth::Quick => Duration::from_millis(200),
        Depth::Full => Duration::from_secs(1),
    };
    // First, while this process is idle: then all that is busy is others.
    let (others_busy, steal) = warnings::others(look);
    let measured = depth != Depth::Facts;
    let full = depth == Depth::Full;
    let mut fingerprint = Fingerprint {
        schema: HOST_SCHEMA,
        taken_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64()),
        memory_bandwidth: measured.then(|| memory::bandwidth(&facts, on, full)),
        memory_latency: if measured { memory::latencies(&facts, full) } else { Vec::new() },
        timer: measured.then(|| timer::measure(on, full)),
        facts,
        others_busy,
        steal,
        warnings: Vec::new(),
    };
    fingerprint.warnings = warnings::warnings(&fingerprint);
    fingerprint
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
        assert!(fingerprint.facts.memory.total > 1 << 20);
    }
}
