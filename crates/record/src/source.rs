//! Runs read from JSON files of any command.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use measure::Void;

use crate::compare::unlike;
use crate::run::OF_TRIAL;
use crate::{
    CellRecord, Figure, Plan, RecordError, Run, SCHEMA, SelfTest, Trial, TrialRecord, VoidRepeat,
    read,
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

/// Reads the JSON files of several loads of `dnsdyno load` as the repeats of one run.
///
/// # Errors
/// As [`read_run`], and if the loads differ.
pub fn read_repeats(paths: &[PathBuf]) -> Result<Run, RecordError> {
    let (mut run, mut first) = (Run::default(), None);
    for path in paths {
        let load = of_trial("load", read(path)?);
        let Some(first) = first else {
            (run, first) = (load, Some(path));
            continue;
        };
        let unlike = unlike(&run.results[0], &load.results[0]);
        if !unlike.is_empty() {
            let (path, first, why) = (path.clone(), first.clone(), unlike.join("; "));
            return Err(RecordError::NoRepeat { path, first, why });
        }
        add_repeat(&mut run, load);
    }
    Ok(run)
}

/// Makes a run of the repeats of a load; an empty one without any.
pub fn of_repeats(trials: impl IntoIterator<Item = Trial>) -> Run {
    let mut loads = trials.into_iter().map(|trial| of_trial("load", trial));
    let mut run = loads.next().unwrap_or_default();
    loads.for_each(|load| add_repeat(&mut run, load));
    for cell in &mut run.results {
        let void = |t: &TrialRecord| {
            let why = t.trial.void.0.as_ref()?.to_string();
            Some(VoidRepeat { repeat: t.repeat, why })
        };
        cell.void_repeats = cell.trials.iter().filter_map(void).collect();
        cell.repeats -= cell.void_repeats.len() as u32;
    }
    run
}

/// Adds a load to a run as its next repeat.
fn add_repeat(run: &mut Run, load: Run) {
    for (all, cell) in run.results.iter_mut().zip(load.results) {
        let repeat = all.trials.len() as u32;
        all.trials.extend(cell.trials.into_iter().map(|t| TrialRecord { repeat, ..t }));
        for (name, figure) in cell.figures {
            let values = |all: &mut Figure| all.values.extend(&figure.values);
            all.figures.entry(name).and_modify(values).or_insert_with(|| figure.clone());
        }
        all.repeats += 1;
    }
    run.elapsed_s += load.elapsed_s;
    run.complete &= load.complete;
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
            ("%", trial.percent_of_sent(trial.lost_elsewhere())),
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
