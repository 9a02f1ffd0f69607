//! The addresses and the port on which a server of the testbed listens.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

/// Where a server of the testbed listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// IPv4 address of the place's host.
    pub v4: Ipv4Addr,
    /// IPv6 address of the place's host.
    pub v6: Ipv6Addr,
    /// Port on both addresses, over UDP and TCP.
    pub port: u16,
}
