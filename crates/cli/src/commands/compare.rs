//! `dnsdyno compare`: whether a run is slower or faster than another, or no difference is shown.

use std::collections::BTreeSet;

use clap::Args;
use measure::stats::Terms;
use record::{CompareTerms, Decision, FailIf};

use crate::arguments::json::JsonArgs;
use crate::arguments::store::{RunRef, StoreArgs};
use crate::failure::Failure;

/// Largest number of differences between the conditions of two runs that an error lists.
const MAX_LISTED: usize = 4;

#[derive(Args, Clone, Debug)]
pub(crate) struct CompareArgs {
    /// The run to compare with: its number, `last~1`, a JSON file, or several loads as its repeats (`a1.json,a2.json`)
    #[arg(value_name = "FIRST")]
    first: RunRef,
    /// The run to be compared with it
    #[arg(value_name = "SECOND", default_value = "last")]
    second: RunRef,
    /// Confidence of all verdicts together, in per cent
    #[arg(long, value_name = "PERCENT", default_value = "95", value_parser = per_cent)]
    confidence: f64,
    /// Difference in per cent that two runs of the same server may have: less is no difference
    #[arg(long, value_name = "PERCENT", default_value = "5", value_parser = per_cent)]
    margin: f64,
    /// Fail only if a figure of the second run has changed by more than this; may be repeated [default: if anything is slower]
    #[arg(long, value_name = "FIGURE < -PERCENT%")]
    fail_if: Vec<FailIf>,
    /// Slowdown, in per cent, that the runs must be able to exclude, or else they are inconclusive
    #[arg(long, value_name = "PERCENT", default_value = "10", value_parser = per_cent, conflicts_with = "fail_if")]
    require_resolution: f64,
    /// Compare also what was measured on another path or link, for another time, or with other buffers or engines
    #[arg(long)]
    unlike: bool,
    /// The seed of the bootstrap
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    json: JsonArgs,
    #[command(flatten)]
    store: StoreArgs,
}

pub(crate) const NOTES: &str = "Examples:
  Has the last run become slower than the one before? (in a CI job: the exit code says it)
    dnsdyno compare last~1 last

  Against a run that was kept in a file, excluding a slowdown of 3 %
    dnsdyno compare baseline.json last --margin 2 --require-resolution 3

  Fail if fewer queries got valid replies, or the 99th percentile of the latency rose by a fifth
    dnsdyno compare before.json after.json --fail-if 'valid < -10%' --fail-if 'p99 > 20%'

  Three loads of each, as repeats
    dnsdyno compare a1.json,a2.json,a3.json b1.json,b2.json,b3.json

Figures: capacity (of searches); valid (share of the queries), answered, p50, p90, p99, cpu (of loads); those that a
run's JSON names, such as zone_load.

Exit codes: 0 nothing is slower, and a slowdown beyond --require-resolution is excluded (or no condition of --fail-if
can hold); 3 something is slower (or a condition holds); 4 inconclusive, also if a figure was measured in one visit each and has
no interval, or if a result of the first run is missing in the second; 2 bad input, nothing that can be compared, or
runs that were measured under different conditions; 1 the store cannot be read.

A ratio's interval holds the spread of the repeats (Student's t on logarithms; from ten repeats on a bootstrap
of the medians) and what the searches did not resolve. Of single loads it holds the count of their queries. Void
trials are left out. A verdict other than \"no difference shown\" needs the whole interval beyond the margin. Few
repeats make wide intervals: \"shows from\" is the smallest difference that could have been shown; \"no difference
shown\" does not mean that there is none.";

/// Reads per cent, from 0 to below 100, as a share.
pub(crate) fn per_cent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').trim().parse::<f64>().ok();
    let share = number.map(|p| p / 100.0).filter(|s| (0.0..1.0).contains(s));
    share.ok_or_else(|| format!("`{text}` is not from 0 to below 100"))
}

pub(crate) fn run(args: &CompareArgs) -> Result<(), Failure> {
    let (first, second) = (args.store.load(&args.first)?, args.store.load(&args.second)?);
    let terms = CompareTerms {
        stats: Terms { confidence: args.confidence, margin: args.margin, seed: args.seed },
        resolution: args.require_resolution,
        fail_if: args.fail_if.clone(),
        unlike: args.unlike,
    };
    let comparison = record::compare(&first, &second, &terms);
    let cells = [&first, &second]
        .map(|run| listed(&run.results.iter().map(report::view::cell_name).collect::<Vec<_>>()));
    if !second.results.is_empty() && comparison.added.len() == second.results.len() {
        return Err(Failure::BadInput(anyhow::anyhow!(
            "no cell in common: {} has {}; {} has {}",
            args.first,
            cells[0],
            args.second,
            cells[1]
        )));
    }
    if !comparison.unlike.is_empty() && !args.unlike {
        return Err(Failure::BadInput(anyhow::anyhow!(
            "the runs were measured under different conditions: {}; --unlike compares them anyway",
            listed(&comparison.unlike)
        )));
    }
    if let Some(condition) = comparison.unknown(&args.fail_if).first() {
        let known: BTreeSet<&str> = comparison.figures.iter().map(|f| f.figure.as_str()).collect();
        let known: Vec<&str> = known.into_iter().collect();
        return Err(Failure::BadInput(anyhow::anyhow!(
            "--fail-if '{condition}': both runs have no figure `{}`; they have {}",
            condition.figure,
            if known.is_empty() { "none".to_owned() } else { known.join(", ") }
        )));
    }
    if !comparison.says_something() && comparison.missing.is_empty() {
        let why: BTreeSet<&String> = comparison.figures.iter().flat_map(|f| &f.notes).collect();
        let why: Vec<String> = why.into_iter().cloned().collect();
        let why = if why.is_empty() { "no figure in common".to_owned() } else { listed(&why) };
        return Err(Failure::BadInput(anyhow::anyhow!("nothing can be compared: {why}")));
    }
    let (runs, figures) = ([&first, &second].map(title), report::comparison(&comparison));
    let of_last = if args.second == RunRef::Last(0) { "last: " } else { "" };
    let text = || format!("first   {}second  {of_last}{}\n{figures}", runs[0], runs[1]);
    args.json.show(|path| record::write(path, &comparison), text)?;
    outcome(comparison.decision)
}

/// Returns the first differences in words, and the number of the others: each cell may have one.
fn listed(differences: &[String]) -> String {
    let shown = differences[..differences.len().min(MAX_LISTED)].join("; ");
    match differences.len().saturating_sub(MAX_LISTED) {
        0 => shown,
        more => format!("{shown}; and {more} more"),
    }
}

/// Returns the outcome of a command with a decision as its exit code.
pub(crate) fn outcome(decision: Decision) -> Result<(), Failure> {
    match decision.exit_code() {
        0 => Ok(()),
        code => Err(Failure::Verdict(code)),
    }
}

/// Returns the first two lines of the heading of a run.
fn title(run: &record::Run) -> String {
    let heading = report::heading(run);
    let mut lines = heading.lines();
    let (what, when) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    format!("{what}; {when}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_differences_are_shortened() {
        let of = |n: usize| listed(&vec!["duration: ...".to_owned(); n]);
        assert_eq!(of(1), "duration: ...");
        assert_eq!(of(4).matches("duration").count(), 4);
        assert!(of(40).ends_with("duration: ...; and 36 more"), "{}", of(40));
    }
}
