//! Figures of several repeats, and samples over time.

use measure::stats;
use serde::{Deserialize, Serialize};

/// A figure measured once or several times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Its unit: `s`, `ms`, `B`, `%`, `qps`, ...; empty for a plain number.
    pub unit: String,
    /// One value for each repeat.
    pub values: Vec<f64>,
}

impl Figure {
    /// From its values.
    pub fn new(unit: &str, values: Vec<f64>) -> Self {
        Figure { unit: unit.to_owned(), values }
    }

    /// The middle value; `None` when there are no values.
    pub fn median(&self) -> Option<f64> {
        stats::median(&self.values)
    }
}

/// Something sampled over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// What: `dut.user`, `dut.resident`, `system.busy`, ...: the role, a dot, the quantity.
    pub name: String,
    /// Its unit: `B`, `%`, `1/s`, ...
    pub unit: String,
    /// Seconds since the beginning of what it belongs to, and the value.
    pub samples: Vec<(f64, f64)>,
}
