//! `dnsdyno merge`: the trials of several Testers become one.

use std::path::{Path, PathBuf};

use clap::Args;
use measure::{Goal, Nanos};
use record::{MergeTerms, Part, Trial};

use super::load::{FORMAT, Format, parse_percentile, show};
use crate::arguments::choice::choice;
use crate::arguments::keep::KeepArgs;
use crate::arguments::number::parse_duration;
use crate::failure::Failure;
use crate::output;
use crate::process::command_line;

pub(crate) const EXAMPLES: &str = "Examples:
  Two hosts send 200,000 queries a second together, from the same second on
    at=@$(( $(date +%s) + 10 ))
    host-a$ dnsdyno load 192.0.2.1 --queries q.txt --rate 200k --slice 1/2 --start-at $at --json a.json
    host-b$ dnsdyno load 192.0.2.1 --queries q.txt --rate 200k --slice 2/2 --start-at $at --json b.json
    dnsdyno merge a.json b.json --goal zero-loss --json whole.json

Counts are added and histograms merged bucket by bucket: the result equals that of a single Tester. It is void if a part is void, if the
schedule of the whole was not kept, or if the parts started too far apart. Exit codes: 0, 1 if the trial is void or misses the goal,
2 if the parts do not belong together.";

#[derive(Args, Clone, Debug)]
pub(crate) struct MergeArgs {
    /// The result files of all slices, as `dnsdyno load --json` wrote them
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Check the whole trial against this goal; without a bound on loss it allows none
    #[arg(long, value_name = "GOAL")]
    goal: Option<Goal>,
    /// Largest time between the starts of two parts, the errors of their clocks included [default: 1 % of the duration]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    start_bound: Option<Nanos>,
    /// Show these percentiles of the latency too (25,75,99.99)
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_percentile)]
    quantiles: Vec<f64>,
    /// Form of what is printed
    #[arg(long, value_parser = choice(&FORMAT), value_name = "FORMAT", default_value = "table")]
    format: Format,
    /// Write the result, histograms included, to this file (- for the standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    keep: KeepArgs,
}

pub(crate) fn run(args: &MergeArgs) -> Result<(), Failure> {
    let read = |path: &PathBuf| {
        let trial = record::read::<Trial>(path).map_err(Failure::input)?;
        Ok(Part { name: path.display().to_string(), trial, clock: None })
    };
    let parts = args.files.iter().map(read).collect::<Result<Vec<Part>, Failure>>()?;
    let (goal, start_bound) = (args.goal.clone(), args.start_bound);
    let terms = MergeTerms { goal, start_bound, lost: Vec::new() };
    let version = env!("CARGO_PKG_VERSION");
    let merged = record::merge(parts, &terms, version, &command_line()).map_err(Failure::input)?;
    let trial = merged.with_verdict();
    if args.json.as_deref() != Some(Path::new("-")) {
        show(args.format, &args.quantiles, &trial)?;
    }
    output::try_writing([&args.json])?;
    if let Some(path) = &args.json {
        record::write(path, &trial).map_err(Failure::run)?;
    }
    args.keep.keep(&record::of_trial("load", trial.clone()))?;
    if trial.void.is_void() || trial.passed == Some(false) { Err(Failure::Silent) } else { Ok(()) }
}
