//! `dnsdyno report`: runs as one HTML page.

use std::path::{Path, PathBuf};

use clap::Args;
use measure::stats::Terms;
use record::{CertificateError, CertificateFile, CompareTerms, EngineKind, HostFacts, Run, Tested};

use super::compare::per_cent;
use crate::arguments::store::{RunRef, StoreArgs};
use crate::failure::Failure;

#[derive(Args, Clone, Debug)]
pub(crate) struct ReportArgs {
    /// Runs: their numbers, `last`, `last~1` for the one before, or JSON files
    #[arg(value_name = "RUN", default_value = "last")]
    runs: Vec<RunRef>,
    /// The file of the page; `-` is the standard output
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    output: PathBuf,
    /// Show this certificate of the Tester, from `verify` or `selftest`, with the runs; it must be for their path, engine
    /// and transport; of several, each run gets the first that is for it
    #[arg(long, value_name = "FILE")]
    certificate: Vec<PathBuf>,
    /// Difference in per cent that several runs may have: the thresholds of their comparison
    #[arg(long, value_name = "PERCENT", default_value = "5", value_parser = per_cent)]
    margin: f64,
    #[command(flatten)]
    store: StoreArgs,
}

pub(crate) const EXAMPLES: &str = "Examples:
  The page of the last run
    dnsdyno report -o last.html

  Several runs as one comparison, with trend and thresholds, one of them from a file that --json wrote
    dnsdyno report 7 8 after.json --margin 3 -o all.html";

/// Confidence of all verdicts of a comparison together.
const CONFIDENCE: f64 = 0.95;

pub(crate) fn run(args: &ReportArgs) -> Result<(), Failure> {
    record::try_writing(&args.output).map_err(Failure::input)?;
    let runs: Result<Vec<Run>, _> = args.runs.iter().map(|run| args.store.load(run)).collect();
    let mut runs = runs?;
    let read =
        |path: &PathBuf| Ok((path.clone(), CertificateFile::read(path).map_err(Failure::input)?));
    let files = args.certificate.iter().map(read).collect::<Result<Vec<_>, Failure>>()?;
    runs.iter_mut().try_for_each(|run| show(run, &files))?;
    let stats = Terms { confidence: CONFIDENCE, margin: args.margin, seed: 1 };
    let page = report::html(&runs, &CompareTerms::new(stats));
    record::write_bytes(&args.output, page.as_bytes()).map_err(Failure::run)?;
    if args.output != Path::new("-") {
        // `last` names no run.
        let which: Vec<String> = runs.iter().filter(|run| run.id.is_some()).map(named).collect();
        let which =
            if which.is_empty() { String::new() } else { format!(": {}", which.join("; ")) };
        println!("{}{which}", args.output.display());
    }
    Ok(())
}

/// Names a kept run by its number, its experiment and the time at which it began.
fn named(run: &Run) -> String {
    let heading = report::heading(run);
    let mut lines = heading.lines();
    let (name, began) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let began = began.split_once(',').map_or(began, |(began, _)| began);
    format!("{name}, {began}")
}

/// Adds the first certificate to a run that is for the run's trials, if there are any.
fn show(run: &mut Run, files: &[(PathBuf, CertificateFile)]) -> Result<(), Failure> {
    let mut refused = None;
    for (path, file) in files {
        match matches(run, file) {
            Ok(()) => {
                run.plan.certificate = Some(file.without_trials());
                return Ok(());
            }
            Err(why) => {
                refused.get_or_insert(CertificateError::Refused(path.clone(), why));
            }
        }
    }
    refused.map_or(Ok(()), |why| Err(Failure::input(why)))
}

/// Checks that a certificate is for the trials of a run.
fn matches(run: &Run, file: &CertificateFile) -> Result<(), String> {
    let unknown = HostFacts::default();
    let host = run.plan.host.as_ref().unwrap_or(&unknown);
    for record in run.results.iter().flat_map(|cell| &cell.trials) {
        let trial = &record.trial;
        // Older records do not name their engine.
        let engine = trial.conditions.engine.unwrap_or(match trial.connections {
            Some(_) => EngineKind::Streams,
            None => EngineKind::Sockets,
        });
        let trials = Tested {
            path: trial.conditions.path.unwrap_or(file.tested.path),
            engine,
            transport: trial.conditions.transport.clone(),
            ..file.tested.clone()
        };
        file.matches(&trials, host)?;
    }
    Ok(())
}
