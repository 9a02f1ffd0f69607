//! Figures of several repeats, and samples over time.

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
