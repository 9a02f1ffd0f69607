//! The trait that methods run on: [`Bench`] runs one trial.

use measure::{Nanos, Void, Warning};
pub use record::request::TrialSpec;
use record::{LockStepRow, Seen, Trial};

use crate::answers::ComparedAnswers;
use crate::drill::{DrillSpec, Drilled};
pub use crate::error::BenchError;
use crate::generator::Generator;
use crate::replication::Replication;
use crate::settings::AnswersSettings;

/// Request for dns64perf's lock-step experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockStepSpec {
    /// Number of lanes; each sends one query after the other.
    pub lanes: u32,
    /// Number of experiments of 256 queries.
    pub experiments: u32,
    /// Whether lanes are threads that start anew for each experiment.
    pub new_threads: bool,
    /// Timeout of one query, in nanoseconds.
    pub timeout: Nanos,
    /// Number of the first name of the namespace to use.
    pub first_name: u64,
}

/// Request for experiments of a query generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GeneratorSpec {
    /// Generator that sends the queries.
    pub generator: Generator,
    /// Number of experiments of 256 queries.
    pub experiments: u32,
    /// Number of concurrent processes of the generator.
    pub processes: u32,
    /// Number of the first name of the namespace to use.
    pub first_name: u64,
    /// Number of names of each process.
    pub names: u64,
}

/// Result of the experiments of a generator.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GeneratorTimes {
    /// Mean time of one experiment of one process, in seconds.
    pub mean_s: f64,
    /// Standard deviation of the time of one experiment, in seconds; `None` if the generator reports only the total.
    pub std_dev_s: Option<f64>,
    /// Longest time of one experiment, in seconds; `None` if the generator reports only the total.
    pub max_s: Option<f64>,
    /// Number of queries without an answer, as the generator reports it.
    pub unanswered: u64,
    /// CPU time that the processes of each role used, in percent of a core; `None` if a role has none.
    pub cpu: RoleCpu,
    /// Reason why the times are void; `None` if they are valid.
    pub void: Option<Void>,
    /// CPU time that other processes took on the server's cores, if no trial reports it.
    pub warnings: Vec<Warning>,
}

/// CPU time of the processes of each role, in percent of a core: 100 is a whole core (seed 002 section V.D).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RoleCpu {
    /// CPU time of the Measurer; `None` if it was not counted.
    pub tester: Option<f64>,
    /// CPU time of the server under test.
    pub dut: Option<f64>,
    /// CPU time of the AuthDNS; `None` if there is none, or it was not counted.
    pub authdns: Option<f64>,
}

/// Returns the pause after `tries` void trials in a row: a quarter of a second, doubled for each
/// further one up to 2 s. Disturbances of a host often end soon.
pub(crate) fn pause_after(tries: u32) -> Nanos {
    Nanos::from_millis(250 << tries.saturating_sub(1).min(3))
}

/// Runs the trials of methods: a lab with real servers, or a script of a test.
pub trait Bench {
    /// Runs one trial.
    ///
    /// # Errors
    /// If the trial cannot run. A trial that misses its goal or is void is not an error.
    fn trial(&mut self, spec: &TrialSpec) -> Result<Trial, BenchError>;

    /// Waits for `time`, so that a disturbance can pass. A bench without a clock does not wait.
    fn pause(&mut self, _time: Nanos) {}

    /// Clears the server's cache, if the bench can; returns whether it did.
    ///
    /// # Errors
    /// If the server does not start again.
    fn forget_names(&mut self) -> Result<bool, BenchError> {
        Ok(false)
    }

    /// Restarts the server, so that it has no state from earlier queries. Without a server this has
    /// no effect.
    ///
    /// # Errors
    /// If the server does not start again.
    fn start_anew(&mut self) -> Result<(), BenchError> {
        Ok(())
    }

    /// Returns why the CPU time of the server does not show its limit; `None` if it does.
    fn hidden_cpu(&self) -> Option<Seen> {
        None
    }

    /// Returns the share of a core that the server uses without queries for `time`; `None` if that
    /// is not known.
    ///
    /// # Errors
    /// If the server has ended.
    fn idle_share(&mut self, _time: Nanos) -> Result<Option<f64>, BenchError> {
        Ok(None)
    }

    /// Returns the number of Testers, each of which runs lock-step experiments with names of its own.
    fn testers(&self) -> u64 {
        1
    }

    /// Runs dns64perf's lock-step experiments.
    ///
    /// # Errors
    /// If the experiments cannot run, or this bench does not support them.
    fn lockstep(&mut self, _spec: &LockStepSpec) -> Result<LockStepRow, BenchError> {
        Err(BenchError::Failed("this bench runs no lock-step experiments".to_owned()))
    }

    /// Runs experiments of 256 queries with a generator.
    ///
    /// # Errors
    /// If the experiments cannot run, or this bench does not support them.
    fn generate(&mut self, _spec: &GeneratorSpec) -> Result<GeneratorTimes, BenchError> {
        Err(BenchError::Failed("this bench runs no other generators".to_owned()))
    }

    /// Runs one drill: a load with an attack in its middle.
    ///
    /// # Errors
    /// If the drill cannot run, or this bench does not support it. A server outside of the lab is never attacked.
    fn drill(&mut self, _spec: &DrillSpec) -> Result<Drilled, BenchError> {
        Err(BenchError::Failed("this bench runs no drills".to_owned()))
    }

    /// Sends the same queries to all servers, and compares their answers.
    ///
    /// # Errors
    /// If the servers cannot be queried, or this bench has one only.
    fn compare_answers(&mut self, _: &AnswersSettings) -> Result<ComparedAnswers, BenchError> {
        let why = "this bench has one server, and no other to compare it with";
        Err(BenchError::Failed(why.to_owned()))
    }

    /// Returns the primary and the secondaries that belong to the server under test.
    ///
    /// # Errors
    /// If this bench has none.
    fn replication(&mut self) -> Result<&mut dyn Replication, BenchError> {
        Err(BenchError::Failed("this bench has neither a primary nor secondaries".to_owned()))
    }
}
