//! What earlier rounds of a cell found, for the next round.

use record::{LoadPoint, WindowStep};

/// What earlier rounds of a cell found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Known {
    /// Step of the search for its window whose loop the rounds have; `None` before the first round.
    pub step: Option<WindowStep>,
    /// Whether something makes the CPU time of the server unknown.
    pub hides_cpu: bool,
    /// Number of queries of a connection, if the rounds have a second loop with more.
    pub queries_per_connection: Option<u64>,
    /// Answers a second so far, at the usual speed of the server's cores; of the last loop for the
    /// method `closed`.
    pub qps: Option<f64>,
    /// Loads that were offered already.
    pub loads: Vec<LoadPoint>,
    /// Number of rounds that offered them.
    pub load_rounds: u32,
}
