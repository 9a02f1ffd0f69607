//! Results of updates sent to a primary.

use std::collections::BTreeMap;

use measure::Void;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::Times;

/// Result of a stream of dynamic updates.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UpdateRun {
    /// Version of this form of JSON.
    pub schema: u32,
    /// Address or name of the primary.
    pub server: String,
    /// Transport of the updates: `udp` or `tcp`.
    pub transport: String,
    /// Name of the TSIG key.
    pub key: Option<String>,
    /// Updates a second to be sent; absent for as fast as they are acknowledged.
    pub rate: Option<f64>,
    /// Largest number of updates outstanding at once.
    pub window: u32,
    /// Time from the first due update to the last reply, in seconds.
    pub seconds: f64,
    /// Share (0 to 1) of `seconds` in which the thread of the sender that waited longest was ready to run but had no core; absent if the
    /// kernel does not count it.
    pub run_delay: Option<f64>,
    /// Number of sent updates.
    pub sent: u64,
    /// Number of updates acknowledged with NOERROR.
    pub acknowledged: u64,
    /// Number of replies by RCODE.
    pub rcodes: BTreeMap<String, u64>,
    /// Number of updates without a reply in time.
    pub lost: u64,
    /// Updates acknowledged a second, over `seconds`.
    pub per_second: f64,
    /// Time from due to acknowledged, in microseconds.
    pub latency_us: Times,
    /// Whether the user stopped the sender before the end of the stream.
    #[serde(default, skip_serializing_if = "is_false")]
    pub interrupted: bool,
    /// Whether the primary was killed on purpose.
    #[serde(default, skip_serializing_if = "is_false")]
    pub killed: bool,
    /// Reason why the sender ended before the end of the stream.
    pub ended_by: Option<String>,
    /// Reason why a zone could not be updated, whose further updates were left out.
    pub left_out: Option<String>,
    /// Updates found after the primary was killed and started again.
    pub durability: Option<Durability>,
    /// Lag of each watched server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lags: Vec<Lag>,
}

impl UpdateRun {
    /// Returns why the concurrent queries are void if the updates ended before them.
    pub fn ran_out(&self) -> Option<Void> {
        (!self.interrupted).then_some(Void::UpdatesRanOut { after_s: self.seconds })
    }
}

fn is_false(value: &bool) -> bool {
    !value
}

/// Lag of a secondary behind the updates that its primary acknowledged. All updates are watched, except while the
/// secondary lacks a thousand of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Lag {
    /// Name or address of the secondary.
    pub server: String,
    /// Time from the acknowledgement to the secondary's first correct answer, in microseconds.
    pub lag_us: Times,
    /// Number of watched updates that the secondary did not show in time.
    pub unseen: u64,
}

/// Result of a look-up of updates in a server, as a record of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UpdateCheck {
    /// Version of this form of JSON.
    pub schema: u32,
    /// Counts of the updates that were looked up.
    #[serde(flatten)]
    pub found: Durability,
}

/// Acknowledged updates looked up in the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Durability {
    /// Number of acknowledged updates looked up.
    pub acknowledged: u64,
    /// Number of updates that the server does not have.
    pub gone: u64,
    /// Names of the first missing updates.
    pub examples: Vec<String>,
}
