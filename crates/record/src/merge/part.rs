//! A part of a load, the terms of a merge, and the reasons why parts are refused.

use measure::histogram::NotAHistogram;
use measure::{Goal, Nanos, Slice};

use crate::parts::PartClock;
use crate::trial::Trial;

/// One part of a load: the trial of one Tester.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Name of the part in messages: its file.
    pub name: String,
    /// Result of the Tester that sent this slice.
    pub trial: Trial,
    /// Clock of the part's host, if the conductor of the trial compared the clocks.
    pub clock: Option<PartClock>,
}

/// A part of a load of which there is no trial: its Tester was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostPart {
    /// Name of the part in messages.
    pub name: String,
    /// Slice of the load.
    pub slice: Slice,
    /// Evidence about the part's Tester.
    pub why: String,
}

impl LostPart {
    /// Returns slice and name, for messages.
    pub(super) fn title(&self) -> String {
        format!("{} ({})", self.slice, self.name)
    }
}

impl Part {
    /// Returns the part's slice of the load.
    pub(super) fn slice(&self) -> Slice {
        self.trial.conditions.slice
    }

    /// Returns slice and name, for messages.
    pub(super) fn title(&self) -> String {
        format!("{} ({})", self.slice(), self.name)
    }
}

/// Requirements for the merged trial: its goal and the spread of its starts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MergeTerms {
    /// Goal of the whole trial.
    pub goal: Option<Goal>,
    /// Largest time between the starts of two parts, the errors of their clocks included; 1 % of the duration if absent.
    pub start_bound: Option<Nanos>,
    /// Parts that were lost: the trial is void, and contains the counts of the others.
    pub lost: Vec<LostPart>,
}

/// Reason why parts cannot be merged.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MergeError {
    /// There are no parts to merge.
    #[error("there are no parts to merge")]
    NoParts,
    /// A part was merged already.
    #[error("{0} was merged already; give the parts that it was merged from")]
    MergedAlready(String),
    /// A part is a whole load, and there are others.
    #[error("{0} is a whole load, not a slice of one: it was sent without --slice")]
    Whole(String),
    /// A slice is given twice.
    #[error("{first} and {second} are both slice {slice}")]
    Twice {
        /// Slice of the load that both parts have.
        slice: Slice,
        /// Name of the first part with it.
        first: String,
        /// Name of the second part with it.
        second: String,
    },
    /// Some slices of the load are missing.
    #[error("the load has {of} slices, and {} not given: {}", if missing.len() == 1 { "one is" } else { "some are" }, missing.join(", "))]
    Missing {
        /// Number of slices that the load has.
        of: u32,
        /// The missing slices.
        missing: Vec<String>,
    },
    /// Two parts belong to different loads.
    #[error("{first} and {second} do not belong together: {what} `{a}` and `{b}`")]
    Unlike {
        /// Name of the part that the others are compared with.
        first: String,
        /// Name of the part that differs.
        second: String,
        /// The condition in which they differ.
        what: &'static str,
        /// Value in the first part.
        a: String,
        /// Value in the second part.
        b: String,
    },
    /// A histogram is not complete.
    #[error(
        "{0}: its histograms were reduced when it was stored; give the file that `dnsdyno load --json` wrote"
    )]
    Reduced(String),
    /// A histogram cannot be read.
    #[error("{name}: {what}: {why}")]
    Histogram {
        /// Name of the part with the histogram.
        name: String,
        /// Name of the histogram's field.
        what: &'static str,
        /// Parse error of the histogram.
        why: NotAHistogram,
    },
}
