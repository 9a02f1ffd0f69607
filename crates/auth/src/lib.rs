//! The AuthDNS: an authoritative server that computes its answers from the name (RFC 8219 section 9).
//!
//! ```text
//!            responder: no state, no clock                  server: a engine::Role
//! query ──> wire::Query ──> zone ──> records ──> reply ──> faults ──> delay ──> reply
//!           the question    the      its         correct   loss, faults
//!                           place    records
//! ```
//!
//! It must never be the bottleneck, so it has no zone file and no table of names: `010-001-002-003.dns64perf.test` has
//! the address 10.1.2.3, which the name contains. Unlike FakeDNS it answers as RFCs require: SOA and NS, NODATA and
//! NXDOMAIN with the SOA that defines the negative TTL, reverse names, EDNS, and FORMERR for malformed queries. On
//! request it delays, drops or falsifies replies, stalls, or answers at a known rate, to test a DUT and a Tester.
//!
//! For resolvers that start at the root it is an Internet in a box instead (`internet`): zones of files, each at the addresses of
//! its name servers.

mod behaviour;
mod config;
mod delay;
mod faults;
mod internet;
mod prebuilt;
mod queried_names;
mod records;
mod reply;
mod responder;
mod server;
mod shared;
mod traps;
mod zone;

pub use behaviour::{BehaviourError, Capacity, Late, Latency, Stall};
pub use config::{AaaaPolicy, AuthConfig, ConfigError};
pub use faults::{Fault, FaultError, FaultSpec};
pub use internet::{
    InternetConfig, InternetZones, Log, LoggedQuery, Verdict, ZoneBuilder, ZonesError,
};
pub use prebuilt::Prebuilt;
pub use responder::MAX_REPLY;
pub use server::{Auth, AuthCounters, Streamed};
