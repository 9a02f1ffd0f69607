//! Zones of any size, as streams: made from a seed.
//!
//! ```text
//!   seed ──> labels ──> generate ──> zone file
//! ```
//!
//! Nothing here holds a zone: a file of 50 million delegations is written in constant memory.
//!
//! One order runs through all of it, the canonical one of RFC 4034 section 6.1, as `wire` compares it: generated
//! zones come out in it.

pub mod generate;
pub mod labels;

pub use generate::{Dns64Zone, LeafZone, NameServer, Style, TldZone, Written, ZoneRecords};
