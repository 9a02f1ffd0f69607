//! Streams of dynamic updates (RFC 2136): generated for a zone, kept in files, signed, sent, looked up, and applied to the
//! zone file.
//!
//! ```text
//!   zone ──> generate ──> stream (script, binary) ──> message ──> tsig ──> send ──> the primary ──> outcome
//!     └────────────────────────────────┴──> apply ──> the expected zone
//! ```
//!
//! Only `send` and `check` open sockets and read a clock. No process is started here.

mod ahead;
pub mod apply;
mod ask;
pub mod check;
mod connection;
mod generate;
mod hopeless;
pub mod message;
pub mod outcome;
pub mod script;
mod send;
pub mod stream;
mod tsig;

pub use ahead::AheadKey;
pub use check::{CheckError, Lag};
pub use generate::{Generate, GenerateError, Prerequisites};
pub use message::{Operation, Update};
pub use outcome::{Outcome, Tally};
pub use script::Zones;
pub use send::{Kill, Sender, Sent, System};
pub use stream::{StreamError, UnsentUpdates, UpdateReader};
pub use tsig::{Key, KeyError, TsigError};
