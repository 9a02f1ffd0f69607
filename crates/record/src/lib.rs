//! What is kept of a measurement, and its JSON. The only serde boundary of results.
//!
//! ```text
//! load::Tally ──(cli)──> Trial ──(experiment)──> Capacity ──> Run ──> report, JSON file
//! ```
//!
//! Top-level names are a contract with scripts: they may be added to, never renamed. [`SCHEMA`] counts
//! the breaks.

pub mod file;
pub mod lockstep;
pub mod run;
pub mod times;
pub mod trial;

pub use file::{RecordError, read, write};
pub use lockstep::{LockStepRow, LockStepTable};
pub use run::{Capacity, Certificate, Run, SearchRecord, SelfTest, Skipped, TrialRecord};
pub use times::Times;
pub use trial::{Conditions, Cpu, Drops, Second, Trial, Voidness};

/// The version of these types' JSON.
pub const SCHEMA: u32 = 1;
