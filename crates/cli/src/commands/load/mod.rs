//! `dnsdyno load`: one trial.

mod args;
mod line;
mod lockstep;
mod pacing;
mod replay;

use std::path::Path;

use anyhow::anyhow;
use measure::Pacing;
use record::TrialRequest;
use tester::Setup;

pub(crate) use self::args::{EXAMPLES, LoadArgs};
use self::line::load_line;
use crate::failure::Failure;
use crate::process::{command_line, interruption};
use crate::progress;

pub(crate) fn run(args: LoadArgs) -> Result<(), Failure> {
    let request = args.request().map_err(Failure::BadInput)?;
    if let Pacing::LockStep { .. } = request.pacing {
        return lockstep::run(&args, request);
    }
    if args.times.is_some() {
        let why = "--times is about the experiments of --pacing lockstep";
        return Err(Failure::BadInput(anyhow!(why)));
    }
    let setup = Setup::new(request, command_line())?;
    let stop = interruption()?;
    let (live, progress) = progress::show(format!("load {}", setup.target()));
    let trial = setup.run(&live, &stop)?.trial;
    drop(progress);
    if let Some(path) = &args.json {
        record::write(path, &trial).map_err(Failure::run)?;
    }
    if args.json.as_deref() != Some(Path::new("-")) {
        print!("{}", report::trial(&trial));
    }
    let failed = trial.void.is_void() || trial.passed == Some(false);
    let no_answer = report::no_answer(&trial);
    args.keep.keep(&record::of_trial("load", trial))?;
    if let Some(why) = no_answer {
        return Err(Failure::run(anyhow!("{why}")));
    }
    match setup.incomplete() {
        Some(why) => Err(Failure::run(anyhow!("{why}"))),
        None if failed => Err(Failure::Silent),
        None => Ok(()),
    }
}

/// Runs the trial that is requested as JSON on standard input, for the lab, and writes its result to `file`.
pub(crate) fn measure(file: &Path) -> Result<(), Failure> {
    let request = TrialRequest::read(std::io::stdin().lock()).map_err(Failure::input)?;
    let command = load_line(&request);
    let setup = Setup::new(request, command).map_err(|error| {
        let bad = error.is_bad_input();
        if bad { Failure::input(error) } else { Failure::run(error) }
    })?;
    let (live, progress) = progress::show(format!("load {}", setup.target()));
    let result = setup.run(&live, &interruption()?)?;
    drop(progress);
    record::write(file, &result).map_err(Failure::run)
}
