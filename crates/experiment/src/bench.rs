//! What methods stand on: something that runs one trial.

use measure::{Goal, Nanos, Qps};
use record::Trial;

/// One trial to be run.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialSpec {
    /// The rate offered.
    pub rate: Qps,
    /// For how long.
    pub duration: Nanos,
    /// A reply counts when it comes within this time.
    pub timeout: Nanos,
    /// The goal; the trial may end when it is missed for certain.
    pub goal: Goal,
    /// The first name of the namespace to use.
    pub first_name: u64,
    /// How many names from there on.
    pub names: u64,
}

/// Runs trials.
pub trait Bench {
    /// Runs one trial.
    ///
    /// # Errors
    /// When it could not be run; a trial that ran and failed its goal, or is void, is no error.
    fn trial(&mut self, spec: &TrialSpec) -> Result<Trial, BenchError>;

    /// Makes the server forget the names it was asked, when that is possible; whether it did.
    ///
    /// # Errors
    /// When the server does not come back.
    fn forget_names(&mut self) -> Result<bool, BenchError> {
        Ok(false)
    }
}

/// Why a trial could not be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BenchError {
    /// Somebody wants it to stop.
    #[error("interrupted")]
    Interrupted,
    /// The bench failed.
    #[error("{0}")]
    Failed(String),
    /// The names do not suffice.
    #[error(transparent)]
    Names(#[from] crate::names::NamesExhausted),
}
