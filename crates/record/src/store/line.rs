//! Runs and cells in lists.

use std::collections::BTreeMap;

use serde::Serialize;

/// A run in a list.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunLine {
    /// Number of the run in its store, from 1.
    pub id: i64,
    /// Name of the experiment; `load` or `search` for a single one.
    pub experiment: String,
    /// Start of the run, in seconds since 1970.
    pub started_unix_s: f64,
    /// Time of its last stored result, in seconds since 1970.
    pub touched_unix_s: f64,
    /// Whether the run is active, or the kind of its end.
    pub state: RunState,
    /// Servers of the run, each once.
    pub servers: Vec<String>,
    /// Number of cells that are done.
    pub cells_done: u64,
    /// Number of cells that are planned, begun or done.
    pub cells: u64,
    /// Number of trials that are stored, without self-tests.
    pub trials: u64,
}

/// A cell of a run in a list, for resuming the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellLine {
    /// Name of the server, as in the experiment.
    pub server: String,
    /// Varied settings of the matrix by name, with the values of this cell.
    pub settings: BTreeMap<String, String>,
    /// Stored part of the cell.
    pub state: CellState,
    /// Number of stored trials, without self-tests.
    pub trials: u64,
}

/// Stored part of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellState {
    /// No trial of the cell is stored.
    Planned,
    /// Some trials of the cell are stored.
    Begun,
    /// All trials of the cell are stored.
    Done,
}

/// Whether a run is active, or the kind of its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunState {
    /// A process writes the run.
    Running,
    /// All that was planned was measured.
    Complete,
    /// The run ended by itself or by a signal, before all cells were measured.
    Incomplete,
    /// The process of the run was killed.
    Interrupted,
}

measure::words! {
    RunState {
        Running = "running",
        Complete = "complete",
        Incomplete = "incomplete",
        Interrupted = "interrupted",
    }
}
