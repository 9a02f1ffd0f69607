//! The parts of a merged trial, in its record.

use measure::Slice;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::request::text;
use crate::trial::Voidness;

/// Sources of a merged trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Merged {
    /// Largest time between the starts of two parts, in microseconds, the errors of their clocks included as far as known.
    pub start_spread_us: f64,
    /// Largest permitted spread of the starts, in microseconds.
    pub start_bound_us: f64,
    /// The parts, ordered by their slices.
    pub parts: Vec<PartOutcome>,
}

/// The clock of a part's host compared with the conductor's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PartClock {
    /// Offset of the clock before the trial, in microseconds; negative if it was behind.
    pub offset_us: f64,
    /// Rate error of the clock during the trial, in parts per million; negative if it was slower.
    pub drift_ppm: f64,
    /// Largest error of the offset before the trial (half of the shortest round trip), in microseconds.
    pub offset_error_us: f64,
}

/// One part of a merged trial.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PartOutcome {
    /// Name of the part: its file.
    pub name: String,
    /// Slice of the load that this part sent.
    #[serde(with = "text")]
    #[schemars(with = "String")]
    pub slice: Slice,
    /// Number of queries that this part sent.
    pub sent: u64,
    /// Number of valid replies in time.
    pub valid: u64,
    /// Number of queries without a valid reply in time.
    pub bad: u64,
    /// Time from the start of the first part to the start of this one, in microseconds, by the clocks of their hosts.
    pub start_us: f64,
    /// Largest error of its clock, in microseconds; absent if unknown.
    pub clock_error_us: Option<f64>,
    /// 99th percentile of its schedule errors, in microseconds.
    pub schedule_error_p99_us: f64,
    /// Busy share (0 to 1) of its cores.
    pub busy: f64,
    /// Clock of the part's host, as the conductor of the trial compared it with its own; absent if
    /// it was not compared.
    pub clock: Option<PartClock>,
    /// Reason why the part is void, or false.
    pub void: Voidness,
    /// Command line of the part's Tester.
    pub command: String,
}
