//! The AuthDNS: an authoritative server whose answers are computed from the name (RFC 8219, section 9).
//!
//! ```text
//!            responder: no state, no clock                  server: a engine::Role
//! query ──> wire::Query ──> zone ──> records ──> reply ──> faults ──> delay ──> reply
//!           what is asked?  where    what it     honest    loss, lies
//!                           is it?   has
//! ```
//!
//! It must never be the bottleneck, so there is no zone file and no memory: `010-001-002-003.dns64perf.test`
//! has the address 10.1.2.3 because it says so. Unlike FakeDNS it is a proper authority: SOA and NS, NODATA
//! and NXDOMAIN with the SOA that a resolver's negative TTL comes from, reverse names, EDNS, and FORMERR for
//! what is malformed. On request it is slow, lossy or a liar, so that a DUT and a Tester can be tried on it.

pub mod config;
mod delay;
pub mod faults;
mod records;
mod responder;
mod server;
mod zone;

pub use config::{AaaaPolicy, AuthConfig, ConfigError};
pub use faults::{Fault, FaultError, FaultSpec};
pub use responder::MAX_REPLY;
pub use server::{Auth, AuthCounters};
