//! Runs and cells in lists.

use std::collections::BTreeMap;

use serde::Serialize;

/// A run in a list.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunLine {
    /// Its number.
    pub id: i64,
    /// The experiment's name.
    pub experiment: String,
    /// When it began, seconds since 1970.
    pub started_unix_s: f64,
    /// When something of it was last stored, seconds since 1970.
    pub touched_unix_s: f64,
    /// How it stands.
    pub state: RunState,
    /// Its servers, each once.
    pub servers: Vec<String>,
    /// Cells that are done.
    pub cells_done: u64,
    /// Cells that are planned, begun or done.
    pub cells: u64,
    /// Trials kept.
    pub trials: u64,
}

/// A cell of a run in a list: what a run that is taken up again has of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellLine {
    /// The server's name.
    pub server: String,
    /// What was varied.
    pub settings: BTreeMap<String, String>,
    /// How it stands.
    pub state: CellState,
    /// Trials kept, self-tests not among them.
    pub trials: u64,
}

/// How a cell stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellState {
    /// Nothing of it is there.
    Planned,
    /// Some of its trials are there.
    Begun,
    /// All of it is there.
    Done,
}

/// How a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunState {
    /// A process is at it.
    Running,
    /// Everything planned was done.
    Complete,
    /// It ended before its time.
    Incomplete,
    /// Its process was killed.
    Interrupted,
}

impl RunState {
    /// The state as a word.
    pub fn word(self) -> &'static str {
        match self {
            RunState::Running => "running",
            RunState::Complete => "complete",
            RunState::Incomplete => "incomplete",
            RunState::Interrupted => "interrupted",
        }
    }
}
