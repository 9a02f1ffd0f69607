//! `--pacing`: a kind, with its numbers in further arguments, or a whole pacing.

use clap::ValueEnum;
use clap::builder::{PossibleValue, TypedValueParser};
use measure::Pacing;

/// A pacing as the user wrote it: a word, or a word with its numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum PacingArg {
    /// Only the kind of pacing; its numbers are in other arguments.
    Kind(PacingKind),
    /// Kind and numbers, as a record prints them: `window 20 at most 500`.
    Whole(Pacing),
}

#[derive(Clone, Debug)]
pub(crate) struct PacingParser;

impl TypedValueParser for PacingParser {
    type Value = PacingArg;

    fn parse_ref(
        &self,
        cmd: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<PacingArg, clap::Error> {
        let text = value.to_string_lossy();
        if let Ok(kind) = <PacingKind as ValueEnum>::from_str(&text, false) {
            return Ok(PacingArg::Kind(kind));
        }
        let whole = |text: &str| text.parse::<Pacing>().map(PacingArg::Whole);
        TypedValueParser::parse_ref(&whole, cmd, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(PacingKind::value_variants().iter().filter_map(ValueEnum::to_possible_value)))
    }
}

/// Kind of pacing, without numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PacingKind {
    /// Open loop, even
    Constant,
    /// Open loop, exponential gaps
    Poisson,
    /// Open loop, from one rate to another
    Ramp,
    /// Closed loop, a number of queries outstanding (dnsperf)
    Window,
    /// Closed loop, threads that send one query after the other (dns64perf)
    Lockstep,
}
