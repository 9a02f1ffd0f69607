//! Updates sent to a primary, and what became of them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Times;

/// A stream of dynamic updates that was sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UpdateRun {
    /// The version of the types.
    pub schema: u32,
    /// The primary.
    pub server: String,
    /// `udp` or `tcp`.
    pub transport: String,
    /// The name of the TSIG key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Updates a second that were to be sent; none for as many as are acknowledged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// The most updates without a reply at once.
    pub window: u32,
    /// From the first that was due to the last reply, seconds.
    pub seconds: f64,
    /// Updates sent.
    pub sent: u64,
    /// Updates acknowledged with NOERROR.
    pub acknowledged: u64,
    /// Replies by RCODE.
    pub rcodes: BTreeMap<String, u64>,
    /// Updates without a reply in time.
    pub lost: u64,
    /// Updates acknowledged a second.
    pub per_second: f64,
    /// Time to the acknowledgement, from when the update was due.
    pub latency_us: Times,
    /// Whether it was ended from outside, before the stream did.
    #[serde(default, skip_serializing_if = "is_false")]
    pub interrupted: bool,
    /// Whether the primary was killed on purpose.
    #[serde(default, skip_serializing_if = "is_false")]
    pub killed: bool,
    /// Why it ended before the stream did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<String>,
    /// What was found after the primary was killed and started again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durability: Option<Durability>,
    /// How far each server that was watched was behind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lags: Vec<Lag>,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// How long a secondary took to have what its primary had acknowledged. One update at a time is watched: what is
/// acknowledged meanwhile is not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lag {
    /// The secondary.
    pub server: String,
    /// Time from the acknowledgement to its first right answer.
    pub lag_us: Times,
    /// Updates watched that it never had as long as it was watched.
    pub unseen: u64,
}

/// A look-up of updates in a server, as a record of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateCheck {
    /// The version of the types.
    pub schema: u32,
    /// What was found.
    #[serde(flatten)]
    pub found: Durability,
}

/// Acknowledged updates looked up in the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Durability {
    /// Acknowledged updates looked up.
    pub acknowledged: u64,
    /// Those the server knows nothing of.
    pub gone: u64,
    /// The names of the first of them.
    pub examples: Vec<String>,
}
