//! What earlier rounds of a cell found, for the next round.

use record::LoadPoint;

/// What earlier rounds of a cell found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Known {
    /// Window of its closed loops; `None` before the first round.
    pub window: Option<u32>,
    /// Capacity so far, in queries a second.
    pub qps: Option<f64>,
    /// Loads that were offered already.
    pub loads: Vec<LoadPoint>,
}
