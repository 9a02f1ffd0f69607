//! Sockets and threads of the Measurer.

use ipnet::IpNet;
use measure::{Nanos, WaitMode};
use serde::{Deserialize, Serialize};

use super::text;

/// Sockets and threads of the Measurer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sockets {
    /// Cores of the workers, one worker on each; if empty, one worker that may run on any core.
    pub cpus: Vec<usize>,
    /// Number of source ports over all workers; 64 for each core of the server if absent.
    pub count: Option<u16>,
    /// Number of sockets of each worker, in place of a number over all workers, as dns64perf++ has it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub per_worker: Option<u16>,
    /// First source port over UDP; the ports after it are for the other sockets. Chosen by the kernel if absent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub first_port: Option<u16>,
    /// Source addresses, used in turn from the first; chosen by the kernel if absent.
    pub source: Option<IpNet>,
    /// Method by which workers wait for the next query or reply.
    pub wait: WaitMode,
    /// Longest time that a due query may be held back to leave together with others, in nanoseconds.
    #[serde(with = "text")]
    pub max_burst: Nanos,
    /// Whether queries that leave together are one segmented message (UDP_SEGMENT), which a server on the same host receives
    /// as one: that costs it less than real clients do.
    pub gso: Gso,
    /// Whether replies are received coalesced (UDP_GRO).
    pub gro: bool,
    /// Whether the kernel timestamps arrivals.
    pub timestamps: bool,
    /// Size of the receive and of the send buffer of each socket, in bytes.
    pub buffer: usize,
    /// Whether the AuthDNS, or the attacker of a drill, shares the Measurer's core by design; waiting for it then does not count as
    /// starvation.
    pub shared_core: bool,
}

impl Default for Sockets {
    fn default() -> Self {
        Sockets {
            cpus: Vec::new(),
            count: None,
            per_worker: None,
            first_port: None,
            source: None,
            wait: WaitMode::Auto,
            max_burst: Nanos::from_micros(50),
            gso: Gso::Off,
            gro: true,
            timestamps: true,
            buffer: 16 << 20,
            shared_core: false,
        }
    }
}

/// Whether queries leave as segmented messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gso {
    /// Always, also where the server is on the same host.
    On,
    /// Never: each query is a packet of its own.
    #[default]
    Off,
}

measure::words! { Gso { On = "on", Off = "off" } }
