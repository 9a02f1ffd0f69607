//! Generated zones, written as sorted master files in one stream.
//!
//! Each kind of zone is a struct with all parameters of the zone and a method `write`. Equal parameters give equal
//! bytes on every machine.

mod dns64;
mod leaf;
mod mixed;
mod tld;

use std::net::{Ipv4Addr, Ipv6Addr};

pub use dns64::{Dns64Zone, Style, ZoneRecords};
pub use leaf::LeafZone;
pub use mixed::MixedZone;
pub use tld::TldZone;

/// The addresses of the zone's own name server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameServer {
    /// IPv4 address, for its A record.
    pub v4: Ipv4Addr,
    /// IPv6 address, for its AAAA record.
    pub v6: Ipv6Addr,
}

impl Default for NameServer {
    /// Returns addresses for documentation (RFC 5737, RFC 3849).
    fn default() -> Self {
        NameServer {
            v4: Ipv4Addr::new(192, 0, 2, 1),
            v6: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1),
        }
    }
}

/// The size of a written zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Number of records; a `$GENERATE` line counts as the records that it expands to.
    pub records: u64,
    /// Size of the file, in octets.
    pub bytes: u64,
}
