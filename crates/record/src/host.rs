//! Facts of a host: its parts, their speed, and disturbances of measurements.
//!
//! `lab::host` fills these types, every run contains them, `dnsdyno host` and the reports show them. A field is
//! absent if the host does not report it or it was not measured.

use std::collections::BTreeMap;

use measure::Warning;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

/// Version of the JSON of [`HostFacts`].
pub const HOST_SCHEMA: u32 = 1;

/// Facts of one host: hardware, kernel and network, and measurements of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HostFacts {
    /// Schema version of this type, [`HOST_SCHEMA`].
    pub schema: u32,
    /// Time when the facts were taken, in seconds since 1970.
    pub taken_unix_s: f64,
    /// Facts of the processor, without measurements.
    pub cpu: CpuFacts,
    /// Facts of the kernel and its clock.
    pub kernel: KernelFacts,
    /// Size of the memory, and NUMA nodes.
    pub memory: MemoryFacts,
    /// Network cards, real and virtual, without the loopback.
    pub network: Vec<Card>,
    /// Memory bandwidth; absent if it was not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bandwidth: Option<Bandwidth>,
    /// Bandwidth of each cache; empty if it was not measured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cache_bandwidth: Vec<CacheBandwidth>,
    /// Memory latency by working set; empty if it was not measured.
    pub memory_latency: Vec<Latency>,
    /// Latency of loads from different pages; empty if it was not measured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub page_latency: Vec<PageLatency>,
    /// Speed of the clock and the scheduler; absent if it was not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timer: Option<Timer>,
    /// Share (0 to 1) of the cores that other processes used just before; absent if it was not measured.
    pub others_busy: Option<f64>,
    /// Share (0 to 1) of the cores' time that the hypervisor gave to others; absent if it was not measured.
    pub steal: Option<f64>,
    /// Round trips over loopback by engine; empty if they were not measured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub packet_ceilings: Vec<PacketCeiling>,
    /// Warnings about disturbances of measurements.
    pub warnings: Vec<Warning>,
}

/// Facts of the processor: cores, clock rate, caches, mitigations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CpuFacts {
    /// Model name of the processor.
    pub model: Option<String>,
    /// Number of cores that are online.
    pub online: usize,
    /// Cores that this process may use.
    pub allowed: Vec<usize>,
    /// State of simultaneous multithreading: `on`, `off`, `notsupported`, ...
    pub smt: Option<String>,
    /// Lists of logical cores that share one physical core, from `thread_siblings_list`.
    pub siblings: Vec<String>,
    /// Frequency governors in use; empty if the host has no control over the clock rate.
    pub governors: Vec<String>,
    /// Whether the clock rate may exceed its rating.
    pub boost: Option<bool>,
    /// Present clock rate of the first core, in MHz.
    pub mhz: Option<f64>,
    /// Highest clock rate of the first core, in MHz.
    pub max_mhz: Option<f64>,
    /// Caches of the first core.
    pub caches: Vec<Cache>,
    /// Vulnerabilities and their mitigations, without those that do not affect this processor.
    pub mitigations: BTreeMap<String, String>,
    /// Whether the processor belongs to a virtual machine.
    pub virtual_machine: bool,
}

/// One cache of a core.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cache {
    /// Level of the cache, from 1.
    pub level: u32,
    /// Kind of the cache: `Data`, `Instruction` or `Unified`.
    pub kind: String,
    /// Size of the cache, in bytes.
    pub bytes: u64,
    /// Cores that share the cache.
    pub shared_by: String,
}

/// Facts of the kernel and its clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct KernelFacts {
    /// Release of the kernel, as `uname -r` prints it.
    pub release: Option<String>,
    /// Distribution, by its own name; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distribution: Option<String>,
    /// Build of the kernel, with its kind of preemption.
    pub version: Option<String>,
    /// Options of the kernel's command line that change its speed.
    pub options: Vec<String>,
    /// Clock source in use, such as `tsc`.
    pub clock_source: Option<String>,
    /// Clock sources that the kernel offers.
    pub clock_sources: Vec<String>,
    /// Network settings, by their names in sysctl.
    pub settings: BTreeMap<String, String>,
}

/// Size of the memory, and NUMA nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryFacts {
    /// Size of the memory, in bytes.
    pub total: u64,
    /// Memory that is available to programs, in bytes.
    pub available: u64,
    /// Number of NUMA nodes; 1 where all memory is equally near.
    pub nodes: usize,
}

/// Facts of one network card.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Card {
    /// Name of the network interface, such as `eth0`.
    pub name: String,
    /// Driver of the card; absent for a virtual card.
    pub driver: Option<String>,
    /// Number of receive queues, each with an interrupt of its own.
    pub receive_queues: usize,
    /// Number of send queues of the card.
    pub send_queues: usize,
    /// Speed of the card, in megabits a second.
    pub mbit: Option<i64>,
    /// Largest packet of the card, in bytes.
    pub mtu: u32,
    /// Receive packet steering: the non-empty masks of cores, by queue.
    pub steering: BTreeMap<String, String>,
    /// Packet fields by which the card spreads UDP over IPv4 over its queues, as `ethtool` reports them.
    pub hashing: Vec<String>,
}

/// Memory bandwidth of STREAM's kernels, in bytes a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bandwidth {
    /// Bandwidth of `c = a`.
    pub copy: f64,
    /// Bandwidth of `b = s c`.
    pub scale: f64,
    /// Bandwidth of `c = a + b`.
    pub add: f64,
    /// Bandwidth of `a = b + s c`.
    pub triad: f64,
    /// Size of each array, in bytes.
    pub array: u64,
    /// Number of threads, one on each core.
    pub threads: usize,
}

/// Bandwidth of one core within a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CacheBandwidth {
    /// Level of the cache, from 1.
    pub level: u32,
    /// Bytes read and written a second by `c = a`; both arrays take half of the cache.
    pub copy: f64,
}

/// Latency of a memory load that depends on the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Size of the working set, in bytes.
    pub bytes: u64,
    /// Time of one load, in nanoseconds.
    pub ns: f64,
}

/// Latency of loads that are each from another page than the one before: the time includes the
/// translation of addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PageLatency {
    /// Number of pages of 4 KiB, each with one cache line that is loaded.
    pub pages: u64,
    /// Time of one load, in nanoseconds.
    pub ns: f64,
    /// Time of one load from as many adjacent lines, in nanoseconds; the difference is due to
    /// address translation.
    pub packed_ns: f64,
}

/// Precision of the clock and the scheduler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Timer {
    /// Time of one read of the clock, in nanoseconds.
    pub clock_read_ns: f64,
    /// Smallest observed step of the clock, in nanoseconds.
    pub clock_step_ns: u64,
    /// Median delay of the end of a sleep of 100 us, in microseconds.
    pub sleep_late_p50_us: f64,
    /// 99th percentile of the delay of the end of a sleep of 100 us, in microseconds.
    pub sleep_late_p99_us: f64,
    /// Longest time that a sleep of 100 us ended late, in microseconds.
    pub sleep_late_max_us: f64,
    /// Interruptions of a program that never sleeps, for each core.
    pub gaps: Vec<Gaps>,
}

/// Interruptions of a program that never sleeps on one core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gaps {
    /// Number of the core, as the kernel counts.
    pub cpu: usize,
    /// Interruptions of 10 us or longer, a second.
    pub per_s: f64,
    /// Longest interruption that was seen, in microseconds.
    pub max_us: f64,
    /// Share (0 to 1) of the time that was interrupted.
    pub share: f64,
}

/// Round trips of an engine between a client and an echo server over loopback: an upper limit for any DNS server on
/// this host through the same kernel.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PacketCeiling {
    /// Name of the engine and its offloads.
    pub engine: String,
    /// Round trips a second; absent if they could not be measured.
    pub round_trips_per_s: Option<f64>,
    /// Reason why the round trips could not be measured.
    pub not_measured: Option<String>,
}
