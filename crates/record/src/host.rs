//! What a host is, how fast its parts are, and what disturbs measurements on it.
//!
//! `lab::host` fills these types, every run carries them, `dnsdyno host` and the reports show them. What a host does not
//! tell, and what was not measured, is absent.

use std::collections::BTreeMap;

use measure::Warning;
use serde::{Deserialize, Serialize};

/// The version of the JSON of [`HostFacts`]. Version 1 had empty texts for what is absent now, and sentences for
/// warnings; it is still read in runs.
pub const HOST_SCHEMA: u32 = 2;

/// A host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostFacts {
    /// [`HOST_SCHEMA`].
    pub schema: u32,
    /// When the facts were taken, seconds since 1970.
    pub taken_unix_s: f64,
    /// The processor.
    pub cpu: CpuFacts,
    /// The kernel and its clock.
    pub kernel: KernelFacts,
    /// The memory.
    pub memory: MemoryFacts,
    /// The network cards, real and virtual, without the loopback.
    pub network: Vec<Card>,
    /// Memory bandwidth; absent when it was not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bandwidth: Option<Bandwidth>,
    /// Memory latency by working set; empty when it was not measured.
    pub memory_latency: Vec<Latency>,
    /// The clock and the scheduler; absent when they were not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timer: Option<Timer>,
    /// Share (0 to 1) of the cores that other processes used just before; absent when it was not measured.
    pub others_busy: Option<f64>,
    /// Share (0 to 1) of the cores' time that the hypervisor gave to others; absent when it was not measured.
    pub steal: Option<f64>,
    /// Round trips over loopback by engine; empty when they were not measured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub packet_ceilings: Vec<PacketCeiling>,
    /// What disturbs measurements.
    pub warnings: Vec<Warning>,
}

/// The processor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuFacts {
    /// Its name.
    pub model: Option<String>,
    /// The number of cores that are online.
    pub online: usize,
    /// Cores that the process may use.
    pub allowed: Vec<usize>,
    /// State of simultaneous multithreading: `on`, `off`, `notsupported`, ...
    pub smt: Option<String>,
    /// Cores that share one, by `thread_siblings_list`; only where there are several.
    pub siblings: Vec<String>,
    /// Frequency governors in use; empty where the host has no control over the clock rate.
    pub governors: Vec<String>,
    /// Whether the clock rate may go above its rating.
    pub boost: Option<bool>,
    /// Clock rate of the first core now, MHz.
    pub mhz: Option<f64>,
    /// Highest clock rate of the first core, MHz.
    pub max_mhz: Option<f64>,
    /// The first core's caches.
    pub caches: Vec<Cache>,
    /// Weaknesses and what is done about them, without those that do not concern this processor.
    pub mitigations: BTreeMap<String, String>,
    /// Whether it belongs to a virtual machine.
    pub virtual_machine: bool,
}

/// A cache of a core.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cache {
    /// From 1.
    pub level: u32,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: String,
    /// Its size, bytes.
    pub bytes: u64,
    /// The cores that share it.
    pub shared_by: String,
}

/// The kernel and its clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KernelFacts {
    /// Its release.
    pub release: Option<String>,
    /// Its build, with its kind of preemption.
    pub version: Option<String>,
    /// The options of its command line that change how fast it is.
    pub options: Vec<String>,
    /// The clock source in use.
    pub clock_source: Option<String>,
    /// The clock sources that there are.
    pub clock_sources: Vec<String>,
    /// Settings of the network, by their names in sysctl.
    pub settings: BTreeMap<String, String>,
}

/// The memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryFacts {
    /// All of it, bytes.
    pub total: u64,
    /// What can be had now, bytes.
    pub available: u64,
    /// NUMA nodes.
    pub nodes: usize,
}

/// A network card.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// Its name.
    pub name: String,
    /// Its driver; absent for a virtual one.
    pub driver: Option<String>,
    /// Its receive queues.
    pub receive_queues: usize,
    /// Its send queues.
    pub send_queues: usize,
    /// Its speed, megabits a second.
    pub mbit: Option<i64>,
    /// Its largest packet, bytes.
    pub mtu: u32,
    /// Receive packet steering: the masks of cores that are not empty, by queue.
    pub steering: BTreeMap<String, String>,
    /// The fields by which UDP over IPv4 is spread over its queues, as `ethtool` says.
    pub hashing: Vec<String>,
}

/// What STREAM's kernels move, bytes a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bandwidth {
    /// `c = a`.
    pub copy: f64,
    /// `b = s c`.
    pub scale: f64,
    /// `c = a + b`.
    pub add: f64,
    /// `a = b + s c`.
    pub triad: f64,
    /// Size of each array, bytes.
    pub array: u64,
    /// How many threads, a core each.
    pub threads: usize,
}

/// How long a load takes that waits for the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Working set, bytes.
    pub bytes: u64,
    /// Nanoseconds of a load.
    pub ns: f64,
}

/// What a program can expect of the clock and the scheduler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timer {
    /// Nanoseconds of a read of the clock.
    pub clock_read_ns: f64,
    /// The smallest step of the clock that was seen, nanoseconds.
    pub clock_step_ns: u64,
    /// Microseconds that sleepers of 100 us woke late: median.
    pub sleep_late_p50_us: f64,
    /// 99th percentile of that.
    pub sleep_late_p99_us: f64,
    /// The largest of them.
    pub sleep_late_max_us: f64,
    /// For each core: how often and how long it left a program that never sleeps.
    pub gaps: Vec<Gaps>,
}

/// How often and how long a core left a program that never sleeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Gaps {
    /// The core.
    pub cpu: usize,
    /// Times a second that it was away for 10 us or longer.
    pub per_s: f64,
    /// The longest, microseconds.
    pub max_us: f64,
    /// Share (0 to 1) of the time that it was away so.
    pub share: f64,
}

/// What an engine carries between a client and an echo over loopback: no DNS server on this host can do more through
/// the same kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PacketCeiling {
    /// The engine and its offloads.
    pub engine: String,
    /// Round trips a second; absent when they could not be measured.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub round_trips_per_s: Option<f64>,
    /// Why they could not be measured.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub not_measured: Option<String>,
}
