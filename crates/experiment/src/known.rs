//! Results of earlier rounds of a cell, for the next round.

use record::{LoadPoint, WindowStep};

/// Results of earlier rounds of a cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Known {
    /// Step of the window search whose loop the rounds use; `None` before the first round.
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
    /// Number of rounds with these loads.
    pub load_rounds: u32,
}
