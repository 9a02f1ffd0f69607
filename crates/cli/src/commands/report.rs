//! `dnsdyno report`: runs as one HTML page.

use std::path::{Path, PathBuf};

use clap::Args;
use record::Run;

use crate::arguments::store::{RunRef, StoreArgs};
use crate::failure::Failure;

/// `dnsdyno report`
#[derive(Args, Clone, Debug)]
pub(crate) struct ReportArgs {
    /// Their numbers, `last`, `last~1` for the one before, or JSON files
    #[arg(value_name = "RUN", default_value = "last")]
    runs: Vec<RunRef>,
    /// The file of the page; `-` is the standard output
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    output: PathBuf,
    #[command(flatten)]
    store: StoreArgs,
}

pub(crate) const EXAMPLES: &str = "Examples:
  The page of the last run
    dnsdyno report -o last.html

  Two runs in one page, one of them from a file that --json wrote
    dnsdyno report 7 after.json -o both.html";

pub(crate) fn run(args: &ReportArgs) -> Result<(), Failure> {
    let runs: Result<Vec<Run>, _> = args.runs.iter().map(|run| args.store.load(run)).collect();
    let page = report::html(&runs?);
    record::write_bytes(&args.output, page.as_bytes()).map_err(Failure::run)?;
    if args.output != Path::new("-") {
        println!("{}", args.output.display());
    }
    Ok(())
}
