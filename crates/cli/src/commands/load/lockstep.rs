//! `dnsdyno load --pacing lockstep`: the experiments of dns64perf, as a table by numbers of threads.

use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use measure::pacing::EXPERIMENT;
use measure::{Nanos, Pacing};
use record::request::TrialSpec;
use record::{LockStepRow, LockStepTable, SCHEMA, TrialRequest};
use tester::Setup;

use super::args::LoadArgs;
use super::pacing::PacingArg;
use crate::failure::Failure;
use crate::output::{output, try_writing, unwritable};
use crate::process::command_line;
use crate::process::interruption;
use crate::progress;
use crate::testers::{Testers, of_job};

/// Time allowed to several Testers beside one second for each experiment.
const EXTRA_TIME: Nanos = Nanos::from_secs(60);

/// Runs the experiments for each number of threads.
pub(crate) fn run(
    args: &LoadArgs,
    request: TrialRequest,
    testers: Option<&mut dyn Testers>,
) -> Result<(), Failure> {
    if args.keep.is_wanted() {
        let why = "the table of --pacing lockstep is not kept: `dnsdyno run dns64-lockstep` keeps its rows";
        return Err(Failure::BadInput(anyhow::anyhow!(why)));
    }
    let Pacing::LockStep { threads, experiments, anew } = request.pacing else { return Ok(()) };
    let all = match args.pacing {
        PacingArg::Kind(_) if !args.threads.is_empty() => args.threads.clone(),
        PacingArg::Kind(_) | PacingArg::Whole(_) => vec![threads],
    };
    let each = u64::from(experiments) * u64::from(EXPERIMENT);
    let setups = all.iter().map(|&threads| {
        let pacing = Pacing::LockStep { threads, experiments, anew };
        Setup::new(TrialRequest { pacing, ..request.clone() }, command_line())
    });
    let setups: Vec<Setup> = setups.collect::<Result<_, _>>()?;
    setups[0].check_names(each * all.len() as u64).map_err(tester::TesterError::from)?;
    try_writing([&args.json, &args.times])?;
    let mut job = args.hosts.start(testers.is_some())?;
    let mut testers = of_job(testers, &mut job);
    let stop = interruption()?;
    let asked = args.check.ask(&setups[0], testers.as_deref_mut(), &stop);
    asked.map_err(|failure| args.workload.with_default(failure))?;
    let mut rows = Vec::new();
    for ((run, setup), &threads) in (0u64..).zip(setups).zip(&all) {
        // No name is queried twice, over all numbers of threads: the server would have it in its cache. Several Testers have names of
        // their own of the same part.
        let (each, duration) = match (&testers, setup.names()) {
            (Some(_), Some(names)) => {
                (names / all.len() as u64, EXTRA_TIME + Nanos::from_secs(experiments.into()))
            }
            _ => (each, request.duration),
        };
        let setup = setup.for_trial(&TrialSpec {
            goal: request.goal.clone(),
            early_stop: request.early_stop,
            first_name: run * each,
            names: each,
            step: request.step,
            ..TrialSpec::new(
                Pacing::LockStep { threads, experiments, anew },
                duration,
                request.timeout,
            )
        });
        let (live, progress) = progress::show(
            format!("lock-step {}, {threads} threads", setup.target()),
            None,
            args.interval,
        );
        let result = match testers.as_deref_mut() {
            None => setup.run(&live, &stop)?,
            Some(testers) => testers.trial(setup.request(), &live, &stop)?,
        };
        drop(progress);
        rows.push(LockStepRow::new(threads, result));
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    let table = LockStepTable { schema: SCHEMA, server: request.target.to_string(), rows };
    finish(args, &table)
}

/// Prints and writes the table.
///
/// # Errors
/// If a file cannot be written, a trial is void, or none got an answer.
fn finish(args: &LoadArgs, table: &LockStepTable) -> Result<(), Failure> {
    // Each output is written even if another one fails.
    let json = args.json.as_deref();
    let written = json.map_or(Ok(()), |path| record::write(path, table)).map_err(Failure::run);
    let times = args.times.as_ref().map_or(Ok(()), |path| write_times(path, table));
    print!("{}", report::lockstep(table));
    written.and(times)?;
    let answers: Vec<_> = table.rows.iter().map(|row| report::no_answer(&row.trial)).collect();
    if let Some(Some(why)) = answers.last()
        && answers.iter().all(Option::is_some)
    {
        return Err(Failure::run(anyhow::anyhow!("{why}")));
    }
    if table.rows.iter().any(|row| row.trial.void.is_void()) {
        Err(Failure::Silent)
    } else {
        Ok(())
    }
}

/// Writes the time of each experiment: a row with its number of threads, its own number from 0, and milliseconds.
fn write_times(path: &PathBuf, table: &LockStepTable) -> Result<(), Failure> {
    let mut out = BufWriter::new(output(path)?);
    let mut write = || -> std::io::Result<()> {
        writeln!(out, "threads,experiment,time_ms")?;
        for row in &table.rows {
            for (number, ms) in row.trial.experiment_times_ms.iter().enumerate() {
                writeln!(out, "{},{number},{ms}", row.threads)?;
            }
        }
        out.flush()
    };
    match write().map_err(|e| unwritable(path, e)) {
        // A closed reader of the output does not change the exit code.
        Err(Failure::Verdict(0)) => Ok(()),
        written => written,
    }
}
