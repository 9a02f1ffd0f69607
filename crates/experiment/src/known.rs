//! What earlier rounds of a cell found, for the next round.

use record::{LoadPoint, WindowStep};

/// What earlier rounds of a cell found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Known {
    /// Step of the search for its window whose loop the rounds have; `None` before the first round.
    pub step: Option<WindowStep>,
    /// Capacity so far, in queries a second.
    pub qps: Option<f64>,
    /// Loads that were offered already.
    pub loads: Vec<LoadPoint>,
}
