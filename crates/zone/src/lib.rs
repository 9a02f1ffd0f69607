//! Zones of any size, handled as streams: generated from a seed, read from a file, counted, sliced.
//!
//! ```text
//!   seed ──> labels ──> generate ──> zone file ──> reader ──> stats
//!                                                    ├──────> slice ──> k zone files
//!                                                    └──────> queries ──> query file
//!   names ──> internet ──> the zone files of an Internet in a box, query file
//! ```
//!
//! No part of this crate keeps a whole zone in memory: a file of 50 million delegations is written and read in constant
//! memory. Samples, the name servers that slices share, the names of a zone in no order, and those of an Internet in a box have a
//! stated bound.
//!
//! All parts use the canonical order of RFC 4034 section 6.1, as `wire` compares it: generated zones are sorted by it,
//! slices are ranges of it, and the same ranges assign queries to the slices that answer them.

mod background_writer;
pub mod check;
pub mod compare;
mod data_text;
mod expand;
mod generate;
pub mod internet;
pub mod labels;
pub mod queries;
mod rdata;
mod reader;
mod recorded;
pub mod slice;
pub mod stats;
mod text;
mod wait;
mod words;
mod writer;

pub use background_writer::BackgroundWriter;
pub use data_text::data_text;
pub use generate::{
    Dns64Zone, LeafZone, MixedZone, NameServer, Style, TldZone, Written, ZoneRecords,
};
pub use rdata::fold_names;
pub use reader::{Notes, Reader, Record, ZoneFileError};
pub use wait::wait_until;
pub use wire::period::period;
pub use writer::ZoneWriter;
