//! The connection between two hosts of a testbed: the kind of link, and whether each datagram is a
//! packet on it.
//!
//! Results of different links or paths are never compared: the same server has capacities that differ by a
//! factor of two between links, and by more between paths (docs/testbed.md).

use serde::{Deserialize, Serialize};

use crate::UnknownWord;

/// The kind of a virtual link: whose core does the receive work of a host, and when.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Link {
    /// Each side does the other's receive work, packet for packet: the sender's core runs the receiver's
    /// software interrupt. Any user can have it; latencies are true.
    #[default]
    Plain,
    /// Each side does its own receive work, when a timer on its own core fires, as a network card with interrupt
    /// moderation. Only root can have it; it adds some 0.1 ms of latency.
    Moderated,
    /// Each side does its own receive work, after an interrupt from the other core for each packet (receive
    /// packet steering). Only root can have it; on virtual machines each such interrupt costs microseconds.
    Steered,
}

crate::words! { Link { Plain = "plain", Moderated = "moderated", Steered = "steered" } }

impl Link {
    /// Returns whether each host does its own receive work on its cores.
    pub fn bills_receiver(self) -> bool {
        self != Link::Plain
    }
}

/// Form of a datagram between hosts.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Path {
    /// Each datagram is a packet when it reaches a host, as on a wire.
    #[default]
    Wire,
    /// Segmented messages (`UDP_SEGMENT`) cross a link whole, as between processes of one host. No wire does this.
    HostOffload,
    /// Datagrams stay on one host, each by itself: on its loopback, or between its network
    /// namespaces. Found on real hosts, never chosen for a testbed.
    OneHost,
}

crate::words! { Path { Wire = "wire", HostOffload = "host-offload", OneHost = "one-host" } }

impl Path {
    /// Returns the path between two ends on one host, which the one crosses with segmented messages or not.
    pub fn on_one_host(segmented: bool) -> Self {
        if segmented { Path::HostOffload } else { Path::OneHost }
    }

    /// Parses a path that a testbed may use.
    ///
    /// # Errors
    /// If it is no such path.
    pub fn chosen(text: &str) -> Result<Self, UnknownWord> {
        let path = [Path::Wire, Path::HostOffload].into_iter().find(|path| path.word() == text);
        path.ok_or_else(|| UnknownWord::new(text, &["wire", "host-offload"]))
    }
}
