//! Streams of dynamic updates (RFC 2136): generated for a zone, kept in files, signed, and applied to the zone file.
//!
//! ```text
//!   zone ──> generate ──> stream (script, binary) ──> message ──> tsig ──> the primary ──> outcome
//!     └────────────────────────────────┴──> apply ──> the expected zone
//! ```
//!
//! This crate opens no socket and reads no clock; the command that sends updates does.

pub mod apply;
pub mod generate;
pub mod message;
pub mod outcome;
pub mod script;
pub mod stream;
pub mod tsig;

pub use generate::{Generate, GenerateError, Prerequisites};
pub use message::{Operation, Update};
pub use outcome::{Outcome, Tally};
pub use stream::{StreamError, UpdateReader};
pub use tsig::{Key, KeyError, TsigError};
