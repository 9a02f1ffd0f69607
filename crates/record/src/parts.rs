//! What a merged trial keeps of its parts.

use measure::Slice;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::request::text;
use crate::trial::Voidness;

/// What a merged trial was merged from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Merged {
    /// Largest time between the starts of two parts, in microseconds, the errors of their clocks included as far as known.
    pub start_spread_us: f64,
    /// Largest one that was allowed, in microseconds.
    pub start_bound_us: f64,
    /// The parts, by slice.
    pub parts: Vec<PartOutcome>,
}

/// One part of a merged trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PartOutcome {
    /// Name of the part: its file.
    pub name: String,
    /// Slice of the load.
    #[serde(with = "text")]
    #[schemars(with = "String")]
    pub slice: Slice,
    /// Number of queries sent.
    pub sent: u64,
    /// Number of valid replies in time.
    pub valid: u64,
    /// Number of queries without a valid reply in time.
    pub bad: u64,
    /// Time from the start of the first part to the start of this one, in microseconds, by the clocks of their hosts.
    pub start_us: f64,
    /// Largest error of its clock, in microseconds; absent if it is not known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub clock_error_us: Option<f64>,
    /// 99th percentile of its schedule errors, in microseconds.
    pub schedule_error_p99_us: f64,
    /// Busy share (0 to 1) of its cores.
    pub busy: f64,
    /// Why it is void, or false.
    pub void: Voidness,
    /// Its command line.
    pub command: String,
}
