//! A zone of delegations, the primary that takes its updates, and the secondaries that follow it: real servers with
//! TSIG, NOTIFY and IXFR.
//!
//! ```text
//!   auth host                                            dut host                    tester host
//!   update send ──> primary 10.9.1.2 ── NOTIFY ──> 10.9.1.1   the server measured   10.9.0.2   <── dnsdyno load
//!        └ watches how far           <── SOA?, IXFR ── 10.9.1.11.. its instances      10.9.0.11.. <──┘
//!          each secondary is behind                    10.9.1.xx.. others that follow
//! ```
//!
//! The server under test is in the DUT's host as any other, and its trials are the same. Each server requests
//! transfers from its own address, so that transfers can be assigned to servers. Without a primary the server under
//! test loads the zone itself, and receives the updates from the tester's host.

mod group;
mod look;
pub(crate) mod material;
mod member;
pub(crate) mod syncs;

use std::net::Ipv4Addr;

pub(crate) use group::{Companions, Group};

pub(crate) use material::SharedFiles;
pub(crate) use member::{Member, prepare};

use crate::testbed::{Host, address_v4, follower};

/// Apex of the zone of delegations that groups of servers replicate.
pub(crate) const ZONE: &str = "test";

/// Returns the address at which secondary `number` answers and from which it requests transfers; 0 is the server
/// under test.
pub(crate) fn follower_address(number: usize) -> Ipv4Addr {
    match number {
        0 => address_v4(Host::Dut, Host::Auth),
        other => follower(other, Host::Auth),
    }
}

/// Returns the address at which the Tester queries instance `number` of the server under test.
pub(crate) fn queried_address(number: usize) -> Ipv4Addr {
    match number {
        0 => address_v4(Host::Dut, Host::Tester),
        other => follower(other, Host::Tester),
    }
}
