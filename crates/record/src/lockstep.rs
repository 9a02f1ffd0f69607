//! The table of a lock-step experiment (seed: dns64perf2's tables I to IV).

use measure::pacing::EXPERIMENT;
use measure::stats;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::request::{LockStepTimes, TrialResult};
use crate::trial::Trial;

/// Table of a lock-step experiment: one column for each number of threads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LockStepTable {
    /// Version of this form of JSON.
    pub schema: u32,
    /// Name or address of the server.
    pub server: String,
    /// One entry for each number of threads.
    pub rows: Vec<LockStepRow>,
}

/// Results of one number of threads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LockStepRow {
    /// Number of lanes; each sends one query after the other.
    pub threads: u32,
    /// Number of experiments of 256 queries.
    pub experiments: u32,
    /// Mean time of one experiment, in milliseconds.
    pub mean_ms: f64,
    /// Standard deviation of the time, in milliseconds.
    pub std_dev_ms: f64,
    /// Longest time of an experiment, in milliseconds.
    pub max_ms: f64,
    /// 256 queries over the mean time, in queries a second; of several Testers the sum.
    pub qps: f64,
    /// Mean busy share of the watched cores, in percent, as dstat reports it (100 - idle); absent if not visible.
    pub cpu_percent: Option<f64>,
    /// Standard deviation of the busy share over the samples, in percent.
    pub cpu_std_dev: Option<f64>,
    /// Counts of the queries, and the time of each experiment.
    pub trial: Trial,
}

impl LockStepRow {
    /// Makes the column of `threads` lanes from the result of their trial.
    pub fn new(threads: u32, result: TrialResult) -> Self {
        let trial = result.trial.experiment_times_ms.clone();
        let LockStepTimes { times_ms, busy_percent } = result
            .lockstep
            .clone()
            .unwrap_or(LockStepTimes { times_ms: trial, ..LockStepTimes::default() });
        // Several Testers send at the same time.
        let testers = result.trial.merged.as_ref().map_or(1, |merged| merged.parts.len().max(1));
        let of_dut = result.trial.cpu.get("dut").map(|dut| dut.busy * 100.0);
        let mean_ms = stats::mean(&times_ms).unwrap_or(0.0);
        let experiments = times_ms.len() as u32;
        let (std_dev_ms, max_ms) = (
            stats::std_dev(&times_ms).unwrap_or(0.0),
            times_ms.iter().copied().fold(0.0, f64::max),
        );
        LockStepRow {
            threads,
            experiments,
            mean_ms,
            std_dev_ms,
            max_ms,
            qps: if mean_ms > 0.0 {
                testers as f64 * f64::from(EXPERIMENT) / mean_ms * 1e3
            } else {
                0.0
            },
            cpu_percent: stats::mean(&busy_percent).or(of_dut),
            cpu_std_dev: stats::std_dev(&busy_percent),
            trial: result.with_verdict(),
        }
    }
}
