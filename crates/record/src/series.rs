//! Figures of several repeats, samples over time, and the seconds of a trial.

use std::collections::BTreeMap;

use measure::stats;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A figure, measured once or several times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figure {
    /// Unit of the figure: `s`, `ms`, `B`, `%`, `qps`, ...; empty for a plain number.
    pub unit: String,
    /// Values of the figure, one for each repeat.
    pub values: Vec<f64>,
}

impl Figure {
    /// Makes a figure from its values.
    pub fn new(unit: &str, values: Vec<f64>) -> Self {
        Figure { unit: unit.to_owned(), values }
    }

    /// Returns the median; `None` without values.
    pub fn median(&self) -> Option<f64> {
        stats::median(&self.values)
    }
}

/// Samples of a quantity over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// Name of the series: the role, a dot, the quantity, such as `dut.user`, `dut.resident`, `system.busy`.
    pub name: String,
    /// Unit of the values: `B`, `%`, `1/s`, ...
    pub unit: String,
    /// Samples: seconds since the start of the trial or load they belong to, and the value.
    pub samples: Vec<(f64, f64)>,
}

/// Counts of one second of a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Second {
    /// Number of queries that left in this second.
    pub sent: u64,
    /// Number of queries given up in this second because they found no connection.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub unserved: u64,
    /// Number of valid answers to queries that left in this second.
    pub valid: u64,
    /// Number of queries that left in this second and had no reply in time.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub lost: u64,
    /// Number of connections that were established in this second.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub connections: u64,
    /// Replies to queries that left in this second, by return code; absent if all were valid and NOERROR.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub rcodes: BTreeMap<String, u64>,
    /// Invalid replies to these queries, by reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub invalid: BTreeMap<String, u64>,
}

/// Whether a count is omitted from a record.
pub(crate) fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_counts_of_zero_are_left_out() {
        let second = Second { sent: 5, lost: 2, ..Second::default() };
        let written = serde_json::to_value(&second).expect("JSON");
        assert_eq!(written, serde_json::json!({ "sent": 5, "valid": 0, "lost": 2 }));
    }
}
