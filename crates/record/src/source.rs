//! Runs read from JSON files of any command.

use std::collections::BTreeMap;
use std::path::Path;

use measure::Void;

use crate::{
    CellRecord, Figure, Plan, RecordError, Run, SCHEMA, SelfTest, Trial, TrialRecord, read,
};

/// Reads a run from the JSON file at `path`. A single trial of `dnsdyno load` or `selftest` becomes a run of one
/// cell.
///
/// # Errors
/// With line and column if the JSON is wrong; with the version if it is unknown.
pub fn read_run(path: &Path) -> Result<Run, RecordError> {
    #[derive(serde::Deserialize)]
    struct Shape {
        results: Option<serde::de::IgnoredAny>,
        planned: Option<serde::de::IgnoredAny>,
        certified_qps: Option<serde::de::IgnoredAny>,
    }
    match read::<Shape>(path)? {
        Shape { results: None, planned: Some(_), certified_qps: Some(_), .. } => {
            read(path).map(|test: SelfTest| of_trial("selftest", test.trial))
        }
        Shape { results: None, planned: Some(_), .. } => {
            read(path).map(|trial: Trial| of_trial("load", trial))
        }
        _ => read(path),
    }
}

/// Figures that [`of_trial`] gives a cell.
const OF_TRIAL: [&str; 4] = ["valid_answers", "latency_p50", "latency_p99", "lost"];

/// Returns whether the figures of `cell` are those that [`of_trial`] took from its only trial, and say nothing more.
pub(crate) fn repeats_its_trial(cell: &CellRecord) -> bool {
    let known = |name: &String| OF_TRIAL.contains(&name.as_str());
    cell.trials.len() == 1 && cell.figures.keys().all(known)
}

/// Makes a run of one trial of the command `what`: `load` or `selftest`.
pub fn of_trial(what: &str, trial: Trial) -> Run {
    let c = &trial.conditions;
    let plan = Plan {
        experiment: what.to_owned(),
        version: c.version.clone(),
        command: c.command.clone(),
        started_unix_s: c.started_unix_s.unwrap_or(0.0),
        ..Plan::default()
    };
    let mut cell = CellRecord::new(&c.target, BTreeMap::new(), what);
    cell.repeats = 1;
    cell.limiter = trial.limiter;
    cell.goal = trial.goal.clone().unwrap_or_default();
    if !trial.void.is_void() {
        let values = [
            ("qps", trial.valid_qps()),
            ("s", trial.latency_us.p50 / 1e6),
            ("s", trial.latency_us.p99 / 1e6),
            ("%", trial.percent_of_sent(trial.lost)),
        ];
        for (name, (unit, value)) in OF_TRIAL.into_iter().zip(values) {
            cell.figures.insert(name.to_owned(), Figure::new(unit, vec![value]));
        }
    }
    let (rate_qps, elapsed_s) = (trial.offered_qps, trial.duration_s);
    let complete = trial.void.0 != Some(Void::Interrupted);
    cell.trials = vec![TrialRecord { repeat: 0, rate_qps, trial }];
    Run { schema: SCHEMA, plan, elapsed_s, complete, results: vec![cell], ..Run::default() }
}
