//! A trial with its place in a cell.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::beside;
use crate::trial::Trial;

/// A trial of a search.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TrialRecord {
    /// Number of the search, from 0.
    pub repeat: u32,
    /// Offered rate, in queries a second.
    pub rate_qps: f64,
    /// Result of the trial, with its verdict.
    #[serde(flatten)]
    pub trial: Trial,
}

impl<'de> Deserialize<'de> for TrialRecord {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct OwnFields {
            repeat: u32,
            rate_qps: f64,
        }
        let (OwnFields { repeat, rate_qps }, trial) = beside::read(&["repeat", "rate_qps"], from)?;
        Ok(TrialRecord { repeat, rate_qps, trial })
    }
}
