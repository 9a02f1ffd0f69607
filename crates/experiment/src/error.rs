//! Errors that keep a trial from running.

/// Reason why a trial did not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BenchError {
    /// The user interrupted the run.
    #[error("interrupted")]
    Interrupted,
    /// Every attempt was void, so that there is no result for the server.
    #[error("void: {0}")]
    Void(String),
    /// The bench failed.
    #[error("{0}")]
    Failed(String),
    /// There are too few unused names.
    #[error(transparent)]
    Names(#[from] crate::names::NamesExhausted),
}

impl BenchError {
    /// Makes any error one of the bench.
    pub fn failed(error: impl std::fmt::Display) -> Self {
        BenchError::Failed(error.to_string())
    }
}
