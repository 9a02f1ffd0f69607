//! Errors that prevent a trial.

/// Reason why a trial did not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BenchError {
    /// The user interrupted the run.
    #[error("interrupted")]
    Interrupted,
    /// Every attempt was void, so that there is no result for the server.
    #[error("void: {0}")]
    Void(String),
    /// The bench failed for another reason, given as text.
    #[error("{0}")]
    Failed(String),
    /// There are too few unused names.
    #[error(transparent)]
    Names(#[from] NamesExhausted),
}

impl BenchError {
    /// Converts any error into an error of the bench.
    pub fn failed(error: impl std::fmt::Display) -> Self {
        BenchError::Failed(error.to_string())
    }
}

/// Error: there are not enough names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{wanted} names are needed, {left} of {size} are left; take a shorter prefix (10.0.0.0/8 has 2^24 names, 0.0.0.0/2 has 2^30), a lower rate or shorter trials"
)]
pub struct NamesExhausted {
    /// Number of names that the trial needs.
    pub wanted: u64,
    /// Number of names that no trial has used yet.
    pub left: u64,
    /// Number of names that the zone has in all.
    pub size: u64,
}
