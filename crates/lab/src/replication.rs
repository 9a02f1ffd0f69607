//! A zone of delegations, the primary that takes its updates, and the secondaries that follow it: real servers with
//! TSIG, NOTIFY and IXFR.
//!
//! ```text
//!   auth host                                            dut host                    tester host
//!   update send ──> primary 10.9.1.2 ── NOTIFY ──> 10.9.1.1 the server measured <── dnsdyno load
//!        └ watches how far           <── SOA?, IXFR ── 10.9.1.11.. others that follow
//!          each secondary is behind
//! ```
//!
//! The server measured is in the DUT's host as any other, and its trials are as any other's. Each server asks for
//! transfers from an address of its own, so that whose a transfer is can be seen. Where there is no primary the server
//! measured has the zone itself, and is sent the updates from the tester's host.

mod group;
mod look;
mod material;
mod member;
pub mod part;
mod visit;

use std::net::Ipv4Addr;

pub(crate) use group::{Companions, Ground, Group};

pub(crate) use member::Member;
pub(crate) use visit::Made;

use crate::testbed::{Host, address_v4, follower};

/// The zone of delegations.
pub(crate) const ZONE: &str = "test";

/// The address that secondary `number` answers at and asks for transfers from; 0 is the server that is measured.
pub(crate) fn follower_address(number: usize) -> Ipv4Addr {
    match number {
        0 => address_v4(Host::Dut, Host::Auth),
        other => follower(other),
    }
}
