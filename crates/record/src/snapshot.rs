//! A trial while it runs: what the Measurer has counted so far, for whoever looks on.

use serde::{Deserialize, Serialize};

/// What the Measurer writes to the `live` file of its request a few times a second. Nothing of it is kept: the trial says it all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// [`SCHEMA`](crate::SCHEMA).
    pub schema: u32,
    /// Since the trial began, seconds.
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
    /// Replies by latency: an upper bound in microseconds, rising, and how many lie between it and the bound
    /// before it.
    pub latency_us: Vec<(f64, u64)>,
}
