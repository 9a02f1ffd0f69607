//! Zones out of nothing: written as master files, sorted, as a stream.
//!
//! Each kind is a struct that says everything about the zone and has one method, `write`. Equal structs give equal
//! bytes on every machine.

mod dns64;
mod leaf;
mod tld;

use std::net::{Ipv4Addr, Ipv6Addr};

pub use dns64::{Dns64Zone, Style, ZoneRecords};
pub use leaf::LeafZone;
pub use tld::{TldError, TldZone};

/// The addresses of a zone's own name server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameServer {
    /// Its IPv4 address.
    pub v4: Ipv4Addr,
    /// Its IPv6 address.
    pub v6: Ipv6Addr,
}

impl Default for NameServer {
    /// Addresses for documentation (RFC 5737, RFC 3849).
    fn default() -> Self {
        NameServer {
            v4: Ipv4Addr::new(192, 0, 2, 1),
            v6: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1),
        }
    }
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Records, `$GENERATE` counted as what it stands for.
    pub records: u64,
    /// Octets.
    pub bytes: u64,
}
