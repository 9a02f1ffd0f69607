//! `dnsdyno compare`: is the second run faster, slower, or can nobody tell?

use clap::Args;
use measure::stats::Terms;

use crate::arguments::store::{RunRef, StoreArgs};
use crate::failure::Failure;
use crate::output::print;

/// `dnsdyno compare`
#[derive(Args, Clone, Debug)]
pub(crate) struct CompareArgs {
    /// The run to compare with: its number, `last~1`, or a JSON file
    #[arg(value_name = "FIRST")]
    first: RunRef,
    /// The run in question
    #[arg(value_name = "SECOND", default_value = "last")]
    second: RunRef,
    /// How sure the verdicts are, all together, in per cent
    #[arg(long, value_name = "PERCENT", default_value = "95", value_parser = per_cent)]
    confidence: f64,
    /// Two runs of the same may differ by this, in per cent: less is no difference
    #[arg(long, value_name = "PERCENT", default_value = "5", value_parser = per_cent)]
    margin: f64,
    /// The seed of the bootstrap
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write the comparison as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// Something of the second run is slower.
const SLOWER: u8 = 3;
/// Nothing is slower, but the second run has no result where the first has one.
const MISSING: u8 = 4;

pub(crate) const NOTES: &str = "Examples:
  Has the last run become slower than the one before? (in a CI job: the exit code says it)
    dnsdyno compare last~1 last

  Against a run that was kept in a file, with a stricter margin
    dnsdyno compare baseline.json last --margin 2

Exit codes: 0 nothing is shown to be slower, 3 something is, 4 nothing is, but a result of the first run is
missing in the second, 2 bad input or nothing that can be compared, 1 the store cannot be read.

A ratio's interval holds the spread of the repeats (Student's t on logarithms; from ten repeats on a bootstrap
of the medians) and what the searches did not resolve. A verdict other than \"no difference shown\" needs the
whole interval beyond the margin. Few repeats make wide intervals: \"shows from\" is the smallest difference
that could have been shown; \"no difference shown\" does not mean that there is none.";

/// A share from per cent, above zero and below a hundred; zero is a margin too.
fn per_cent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').trim().parse::<f64>().ok();
    let share = number.map(|p| p / 100.0).filter(|s| (0.0..1.0).contains(s));
    share.ok_or_else(|| format!("`{text}` is not from 0 to below 100"))
}

pub(crate) fn run(args: &CompareArgs) -> Result<(), Failure> {
    let (first, second) = (args.store.load(&args.first)?, args.store.load(&args.second)?);
    let terms = Terms { confidence: args.confidence, margin: args.margin, seed: args.seed };
    let comparison = record::compare(&first, &second, &terms);
    print(|out| {
        if args.json {
            serde_json::to_writer_pretty(&mut *out, &comparison)?;
            return writeln!(out);
        }
        write!(out, "first   {}second  {}", title(&first), title(&second))?;
        write!(out, "\n{}", report::comparison(&comparison))
    })?;
    if comparison.has_slower() {
        return Err(Failure::Verdict(SLOWER));
    }
    if !comparison.missing.is_empty() {
        return Err(Failure::Verdict(MISSING));
    }
    if !comparison.says_something() {
        return Err(Failure::BadInput(anyhow::anyhow!(
            "the runs have nothing in common to compare"
        )));
    }
    Ok(())
}

/// The first lines of a run's heading.
fn title(run: &record::Run) -> String {
    let heading = report::heading(run);
    let mut lines = heading.lines();
    let (what, when) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    format!("{what}; {when}\n")
}
