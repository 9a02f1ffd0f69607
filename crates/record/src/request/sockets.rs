//! Sockets and threads of the Measurer.

use ipnet::IpNet;
use measure::Nanos;
use serde::{Deserialize, Serialize};

use super::text;

/// Sockets and threads of the Measurer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sockets {
    /// Cores, a worker on each; one worker that may run on any where it is empty.
    pub cpus: Vec<usize>,
    /// Source ports over all workers; as many as rate and timeout need where it is absent.
    pub count: Option<u16>,
    /// Source addresses, used in turn from the first on; chosen by the kernel where it is absent.
    pub source: Option<IpNet>,
    /// How workers wait.
    pub wait: WaitFor,
    /// Time that a due query may be held back, to leave together with others.
    #[serde(with = "text")]
    pub max_burst: Nanos,
    /// When queries that leave together are one segmented message (UDP_SEGMENT).
    pub gso: Gso,
    /// Whether replies are received coalesced (UDP_GRO).
    pub gro: bool,
    /// Whether the kernel stamps arrivals.
    pub timestamps: bool,
    /// Size of the receive and of the send buffer of each socket, bytes.
    pub buffer: usize,
    /// Whether the AuthDNS shares the Measurer's core by design; its share of the core is then no starvation.
    pub shared_core: bool,
}

impl Default for Sockets {
    fn default() -> Self {
        Sockets {
            cpus: Vec::new(),
            count: None,
            source: None,
            wait: WaitFor::Auto,
            max_burst: Nanos::from_micros(50),
            gso: Gso::Auto,
            gro: true,
            timestamps: true,
            buffer: 16 << 20,
            shared_core: false,
        }
    }
}

/// How workers wait for the next query or reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitFor {
    /// Never sleep.
    Spin,
    /// Never sleep, but let others have the core.
    Yield,
    /// Always sleep.
    Sleep,
    /// Sleep through long waits and spin through short ones; sleep in closed loops.
    #[default]
    Auto,
}

/// When queries leave as segmented messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gso {
    /// Where the rate needs it.
    #[default]
    Auto,
    /// Always.
    On,
    /// Never.
    Off,
}
