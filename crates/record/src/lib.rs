//! What is kept of a measurement. The only serde boundary of results.
//!
//! ```text
//! load::Tally ──(cli)──> Trial ──(experiment)──> Search ──> report, JSON
//! ```
