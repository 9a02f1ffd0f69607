//! Counters of a running trial, for live views.

use serde::{Deserialize, Serialize};

/// Counters that the Measurer writes to the `live` file of its request four times a second. They are not kept: the
/// trial contains them all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// [`SCHEMA`](crate::SCHEMA) of this type.
    pub schema: u32,
    /// Time since the start of the trial, in seconds.
    pub at_s: f64,
    /// Queries sent.
    pub sent: u64,
    /// Replies in time.
    pub answered: u64,
    /// Valid replies in time.
    pub valid: u64,
    /// Queries without a valid reply in time.
    pub bad: u64,
    /// Queries without a reply in time.
    pub lost: u64,
    /// Replies by latency: upper bounds in rising order, in microseconds, and the number of replies between each
    /// bound and the one before.
    pub latency_us: Vec<(f64, u64)>,
}
