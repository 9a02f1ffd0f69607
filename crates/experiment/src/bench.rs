//! What methods stand on: something that runs one trial.

use measure::Nanos;
pub use record::request::TrialSpec;
use record::{LockStepRow, Trial};

use crate::replication::Replication;
use crate::settings::Generator;

/// dns64perf's experiments to be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockStepSpec {
    /// Lanes that ask one query after the other.
    pub lanes: u32,
    /// Experiments of 256 queries.
    pub experiments: u32,
    /// Of a query.
    pub timeout: Nanos,
    /// The first name of the namespace to use.
    pub first_name: u64,
}

/// Experiments of a generator to be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GeneratorSpec {
    /// Which.
    pub generator: Generator,
    /// Experiments of 256 queries.
    pub experiments: u32,
    /// The first name of the namespace to use.
    pub first_name: u64,
}

/// What a generator did with its experiments.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GeneratorTimes {
    /// Mean time of an experiment, seconds.
    pub mean_s: f64,
    /// Its standard deviation; absent where the generator does not tell experiments apart.
    pub std_dev_s: Option<f64>,
    /// The longest; absent where the generator does not tell experiments apart.
    pub max_s: Option<f64>,
    /// Queries without an answer, as the generator says it.
    pub unanswered: u64,
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

    /// Runs dns64perf's experiments.
    ///
    /// # Errors
    /// When they could not be run, or this bench has none.
    fn lockstep(&mut self, _spec: &LockStepSpec) -> Result<LockStepRow, BenchError> {
        Err(BenchError::Failed("this bench runs no lock-step experiments".to_owned()))
    }

    /// Runs experiments of 256 queries by a generator.
    ///
    /// # Errors
    /// When they could not be run, or this bench has none.
    fn generate(&mut self, _spec: &GeneratorSpec) -> Result<GeneratorTimes, BenchError> {
        Err(BenchError::Failed("this bench runs no other generators".to_owned()))
    }

    /// The primary and the secondaries beside the server that trials ask.
    ///
    /// # Errors
    /// When this bench has none.
    fn replication(&mut self) -> Result<&mut dyn Replication, BenchError> {
        Err(BenchError::Failed("this bench has no primary and no secondaries".to_owned()))
    }
}

/// Why a trial could not be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BenchError {
    /// Somebody wants it to stop.
    #[error("interrupted")]
    Interrupted,
    /// Nothing can be said of the server: every try was void.
    #[error("void: {0}")]
    Void(String),
    /// The bench failed.
    #[error("{0}")]
    Failed(String),
    /// The names do not suffice.
    #[error(transparent)]
    Names(#[from] crate::names::NamesExhausted),
}
