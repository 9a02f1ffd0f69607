//! Zones of any size, as streams: made from a seed, read from a file, counted, cut into slices.
//!
//! ```text
//!   seed ──> labels ──> generate ──> zone file ──> reader ──> stats
//!                                                    ├──────> slice ──> k zone files
//!                                                    └──────> queries ──> query file
//! ```
//!
//! Nothing here holds a zone: a file of 50 million delegations is written and read in constant memory. What has to
//! be remembered (samples, name servers that slices share) has a stated bound.
//!
//! One order runs through all of it, the canonical one of RFC 4034 section 6.1, as `wire` compares it: generated
//! zones come out in it, slices are ranges of it, and a stream of queries cut by the same ranges falls into the same
//! slices.

mod behind;
pub mod compare;
mod expand;
pub mod generate;
pub mod labels;
pub mod queries;
pub mod reader;
pub mod slice;
pub mod stats;
mod text;
mod writer;

pub use behind::WriteBehind;
pub use generate::{Dns64Zone, LeafZone, NameServer, Style, TldZone, Written, ZoneRecords};
pub use reader::{Reader, Record, ZoneFileError};
pub use writer::ZoneWriter;
