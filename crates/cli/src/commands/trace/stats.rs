//! `dnsdyno trace stats`: the characterisation of a stream.

use std::path::PathBuf;

use clap::Args;
use measure::Nanos;
use trace::Stats;

use super::input::{InputArgs, conclude};
use crate::arguments::number::parse_duration;
use crate::failure::Failure;
use crate::output::is_stdout;

#[derive(Args, Clone, Debug)]
pub(crate) struct StatsArgs {
    /// Length of the windows in which bursts are counted
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "1s")]
    burst_window: Nanos,
    /// Write all statistics to this file (- for the standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw rates in time, types, return codes, sizes and the spread over clients below the table
    #[arg(long)]
    plots: bool,
    /// Write the same plots as a picture (SVG) to this file (- for the standard output)
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
    // Last, since its heading holds for what follows.
    #[command(flatten)]
    input: InputArgs,
}

pub(crate) fn run(args: &StatsArgs) -> Result<(), Failure> {
    if args.burst_window == Nanos::ZERO {
        return Err(Failure::BadInput(anyhow::anyhow!("--burst-window must be longer than 0")));
    }
    let mut stats = Stats::new(args.burst_window);
    let (counts, error) = args.input.read(|message| stats.add(message))?;
    let mut record = stats.summary(&counts, args.burst_window);
    record.captures = args.input.names();
    record.incomplete = error.as_ref().map(ToString::to_string);
    if let Some(path) = &args.json {
        record::write(path, &record).map_err(Failure::run)?;
    }
    if let Some(path) = &args.picture {
        record::write_bytes(path, report::trace_picture(&record).as_bytes())
            .map_err(Failure::run)?;
    }
    if ![&args.json, &args.picture].iter().any(|path| path.as_deref().is_some_and(is_stdout)) {
        print!("{}", report::trace(&record));
        if args.plots {
            print!("{}", report::trace_plots(&record));
        }
    }
    conclude(error)
}
