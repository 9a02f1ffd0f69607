//! Two runs side by side, cell by cell.
//!
//! A cell is compared with the cell of the same server and settings: its capacity if searches found one, each of its
//! searches found one, each of its figures, or else what its valid trials say: the share of valid replies, rates
//! and latencies (module `figures`). The confidence holds for all of it together: with `n` figures each is held to
//! `1 - (1 - confidence) / n` (Bonferroni), since otherwise a run of twenty cells would find a difference to itself
//! each time.
//!
//! ```text
//! figures of a cell ──┐
//!                     ├──> ratio and its interval ──> outcome of each figure ──┐
//! figures of a cell ──┘                                                        ├──> decision, with its reasons
//!                                              conditions, resolution ─────────┘
//! ```

mod decide;
mod fail_if;
mod figures;
mod unlike;

use std::collections::{BTreeMap, BTreeSet};

use measure::stats::{self, Ratio, RatioVerdict, Scatter, Terms, Within};
use serde::Serialize;

use crate::{CellRecord, Run};
use figures::{Values, Weight, figures, has_spent};

pub use fail_if::{Decision, FailIf, FailIfError};
pub(crate) use unlike::unlike;

/// Terms of a comparison of two runs: when a figure counts as slower, and the comparison as failed.
#[derive(Clone, Debug, PartialEq)]
pub struct CompareTerms {
    /// Confidence and margin of the verdicts.
    pub stats: Terms,
    /// Largest slowdown (0 to 1) that may remain possible; more is inconclusive.
    pub resolution: f64,
    /// Conditions that decide instead of the verdicts; empty for the verdicts and the resolution.
    pub fail_if: Vec<FailIf>,
    /// Whether cells that were measured under other conditions are compared anyway.
    pub unlike: bool,
}

impl CompareTerms {
    /// Largest slowdown that may remain possible, if there are no conditions.
    pub const RESOLUTION: f64 = 0.1;

    /// Returns terms without conditions, which refuse unlike cells.
    pub fn new(stats: Terms) -> Self {
        CompareTerms { stats, resolution: Self::RESOLUTION, fail_if: Vec::new(), unlike: false }
    }
}

/// Comparison of the figures of two runs, with the decision.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Confidence (0 to 1) that no verdict is wrong by chance.
    pub confidence: f64,
    /// Share (0 to 1) by which two runs of the same server may differ.
    pub margin: f64,
    /// Compared figures, in the order of the first run.
    pub figures: Vec<Compared>,
    /// Cells with results in the first run only, or without a valid trial in it, and why.
    pub missing: Vec<Missing>,
    /// Cells that only the second run has.
    pub added: Vec<Missing>,
    /// Differences of the conditions under which cells were measured, each once, in words.
    pub unlike: Vec<String>,
    /// Decision by all figures, which determines the exit code.
    pub decision: Decision,
    /// Reasons of the decision, in words; empty if nothing is slower, without conditions.
    pub reasons: Vec<String>,
    /// Other differences between the runs, in words.
    pub differs: Vec<String>,
    /// Warnings about the hosts, from their facts.
    pub doubts: Vec<String>,
}

/// A cell without a result in one of the runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// Name of the cell's server.
    pub server: String,
    /// Values of the varied settings, by key.
    pub settings: BTreeMap<String, String>,
    /// Reason why there is no result.
    pub why: String,
}

/// A figure of a cell in both runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// Name of the cell's server.
    pub server: String,
    /// Values of the varied settings, by key.
    pub settings: BTreeMap<String, String>,
    /// Name of the figure: `capacity`, `answered`, or as in the record.
    pub figure: String,
    /// Unit of `first` and `second`.
    pub unit: String,
    /// Median in the first run; of the rounds of a capacity their trimmed mean.
    pub first: f64,
    /// The same of the second run.
    pub second: f64,
    /// Numbers of repeats in the first and in the second run.
    pub repeats: [usize; 2],
    /// Ratio of the second figure to the first.
    pub ratio: f64,
    /// Confidence interval of the ratio; null if there are no repeats to estimate it from.
    pub interval: Option<(f64, f64)>,
    /// Smallest ratio above one that could have been distinguished from one; null if there are no repeats.
    pub smallest: Option<f64>,
    /// Interval of all values that the ratio may have: open at an end where a lower bound leaves it open.
    #[serde(skip)]
    possible: Option<(f64, f64)>,
    /// Weight of the figure in the decision.
    #[serde(skip)]
    weight: Weight,
    /// Outcome: whether the second run is slower, faster, the same, or nothing can be said.
    pub outcome: Outcome,
    /// Notes for the reader, in words: why an outcome is not what the ratio suggests.
    pub notes: Vec<String>,
}

/// Outcome of the comparison of one figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The second run is faster.
    Faster,
    /// The second run is slower.
    Slower,
    /// The second run has a larger share of valid replies.
    Better,
    /// The second run has a smaller share of valid replies.
    Worse,
    /// The second run has more of a figure that is neither a rate nor a time.
    More,
    /// The second run has less of such a figure.
    Less,
    /// The two may be equal or different.
    NoDifferenceShown,
    /// Both figures were measured in one visit, so that the spread between visits is not known.
    NoInterval,
    /// The two figures were not measured in the same way.
    NotComparable,
}

impl Outcome {
    /// Returns the outcome in words.
    pub fn words(self) -> &'static str {
        match self {
            Outcome::Faster => "faster",
            Outcome::Slower => "slower",
            Outcome::Better => "better",
            Outcome::Worse => "worse",
            Outcome::More => "more",
            Outcome::Less => "less",
            Outcome::NoDifferenceShown => "no difference shown",
            Outcome::NoInterval => "one visit each: no interval",
            Outcome::NotComparable => "not comparable",
        }
    }
}

/// Compares all figures that `second` shares with `first`; the first run is the baseline.
pub fn compare(first: &Run, second: &Run, terms: &CompareTerms) -> Comparison {
    let named: BTreeSet<&str> = terms.fail_if.iter().map(|c| c.figure.as_str()).collect();
    let mut comparison = Comparison {
        confidence: terms.stats.confidence,
        margin: terms.stats.margin,
        figures: Vec::new(),
        missing: Vec::new(),
        added: Vec::new(),
        unlike: Vec::new(),
        decision: Decision::Fine,
        reasons: Vec::new(),
        differs: unlike::differences(first, second),
        doubts: [(first, "first"), (second, "second")]
            .iter()
            .flat_map(|(run, which)| {
                let warnings = run.plan.host.iter().flat_map(|host| &host.warnings);
                let warnings = warnings.map(|w| w.with_advice());
                warnings.chain(others(run)).map(move |doubt| format!("{which} run: {doubt}"))
            })
            .collect(),
    };
    let mut pairs = Vec::new();
    for cell in &first.results {
        let Some(other) = partner(first, cell, second) else {
            comparison.missing.push(absent(cell, why_absent(cell, second)));
            continue;
        };
        let whole = has_spent(cell) && has_spent(other);
        let (had, mut has) = (figures(cell, &named, whole), figures(other, &named, whole));
        comparison.missing.extend(missing_figures(cell, &had, other, &has));
        let both = had.into_iter().filter_map(|(name, a)| has.remove(&name).map(|b| (name, a, b)));
        pairs.extend(both.map(|(name, a, b)| (cell, other, name, a, b)));
    }
    let new = second.results.iter().filter(|c| partner(second, c, first).is_none());
    comparison.added = new.map(|cell| absent(cell, "not in the first run".to_owned())).collect();
    for (cell, other, ..) in &pairs {
        for what in unlike(cell, other) {
            if !comparison.unlike.contains(&what) {
                comparison.unlike.push(what);
            }
        }
    }
    // The confidence holds for all verdicts together.
    let count = pairs.len().max(1) as f64;
    let confidence = 1.0 - (1.0 - terms.stats.confidence) / count;
    let each = CompareTerms { stats: Terms { confidence, ..terms.stats }, ..terms.clone() };
    for (cell, other, name, a, b) in &pairs {
        let alike = pairs.iter().filter(|(.., n, _, _)| n == name);
        let pooled =
            alike.flat_map(|(.., a, b)| [a.repeated.scatter(), b.repeated.scatter()]).sum();
        if let Some(ratio) = ratio(a, b, pooled, &each.stats) {
            comparison.figures.push(compared([cell, other], name, [a, b], ratio, &each));
        }
    }
    decide::decide(&mut comparison, terms);
    comparison
}

/// Returns how much of the server's cores others used in the rounds of a capacity, if it was much.
fn others(run: &Run) -> Option<String> {
    let most = run.results.iter().filter_map(CellRecord::others_used).map(|[_, most]| most);
    let most = most.reduce(f64::max)? * 100.0;
    Some(format!("others used up to {most:.0} % of the server's cores: capacities are too low"))
}

/// Returns the cell of `second` with which a cell of `first` is compared: the one of the same server and
/// settings, or the only one of two runs of one target each without an experiment, as loads of two
/// servers are.
fn partner<'a>(first: &Run, cell: &CellRecord, second: &'a Run) -> Option<&'a CellRecord> {
    let alone = |run: &Run| run.plan.text.is_empty() && run.results.len() == 1;
    let same = second.results.iter().find(|c| c.is(&cell.server, &cell.settings));
    same.or_else(|| {
        let only = second.results.first().filter(|_| alone(first) && alone(second))?;
        (only.method == cell.method && only.settings == cell.settings).then_some(only)
    })
}

/// Returns the ratio of two figures: by the evidence within the trials if that decides, otherwise by the repeats.
fn ratio(a: &Values, b: &Values, pooled: Scatter, terms: &Terms) -> Option<Ratio> {
    let margin = a.margin(terms.margin).max(b.margin(terms.margin));
    if a.is_decided_within(b) {
        let (first, second) = (a.interval(terms.confidence)?, b.interval(terms.confidence)?);
        return Some(stats::ratio_within(
            Within { figure: a.value, low: first.0, high: first.1 },
            Within { figure: b.value, low: second.0, high: second.1 },
            margin,
        ));
    }
    stats::ratio(&a.repeated, &b.repeated, pooled, &Terms { margin, ..*terms })
}

/// Returns the figures of a cell that cannot be compared: those that the second run does not have, all if no trial of the first is valid.
fn missing_figures(
    cell: &CellRecord,
    had: &BTreeMap<String, Values>,
    other: &CellRecord,
    has: &BTreeMap<String, Values>,
) -> Option<Missing> {
    if let Some(void) = all_void(cell) {
        return Some(absent(cell, format!("in the first run {void}")));
    }
    let gone: Vec<&str> =
        had.keys().filter(|n| !has.contains_key(*n)).map(String::as_str).collect();
    let void = all_void(other).map(|void| format!(": {void}")).unwrap_or_default();
    (!gone.is_empty()).then(|| absent(cell, format!("no {}{void}", gone.join(", "))))
}

/// Returns the number of void trials of a cell, in words, if it has trials and none is valid.
fn all_void(cell: &CellRecord) -> Option<String> {
    let trials = &cell.trials;
    let all = !trials.is_empty() && trials.iter().all(|t| t.trial.void.is_void());
    all.then(|| format!("void {0} of {0}", trials.len()))
}

fn absent(cell: &CellRecord, why: String) -> Missing {
    Missing { server: cell.server.clone(), settings: cell.settings.clone(), why }
}

/// Returns the reason why `run` has no such cell.
fn why_absent(cell: &CellRecord, run: &Run) -> String {
    let skipped = run.skipped.iter().find(|s| {
        s.server == cell.server && (s.settings.is_empty() || s.settings == cell.settings)
    });
    skipped.map_or("not in the second run".to_owned(), |s| format!("not measured: {}", s.why))
}

/// Advice where there is no interval.
const ADVICE: &str = "measure both with `--repeats 5`";

/// Ratio from which on two figures without an interval differ by much, either way.
const LARGE_RATIO: f64 = 1.5;

/// Returns the comparison of one figure of two cells.
fn compared(
    [cell, other]: [&CellRecord; 2],
    name: &str,
    [a, b]: [&Values; 2],
    ratio: Ratio,
    terms: &CompareTerms,
) -> Compared {
    let mut notes = Vec::new();
    let other_figure = unlike::other_figure(cell, other, a, b);
    let conditions = unlike(cell, other);
    let outcome = if other_figure.is_empty() && (conditions.is_empty() || terms.unlike) {
        let outcome = match ratio.interval {
            Some(_) => outcome(&a.unit, ratio.verdict),
            None => Outcome::NoInterval,
        };
        bounded(outcome, a.at_least, b.at_least, &mut notes)
    } else {
        Outcome::NotComparable
    };
    notes.extend(other_figure);
    notes.extend(conditions);
    if ratio.interval.is_none() {
        notes.push(format!("one visit each: the spread between visits is not known; {ADVICE}"));
    } else if a.is_decided_within(b) {
        if a.repeated.count().max(b.repeated.count()) == 1 {
            notes.push("a single trial: the interval is of its own queries only".to_owned());
        }
    } else if a.repeated.count().max(b.repeated.count()) == 1 {
        notes.push("a single repeat: their spread is estimated from the other cells".to_owned());
    }
    for (values, run) in [(a, "first"), (b, "second")] {
        notes.extend(values.doubts.iter().map(|doubt| format!("{run} run: {doubt}")));
    }
    Compared {
        server: cell.server.clone(),
        settings: cell.settings.clone(),
        figure: name.to_owned(),
        unit: a.unit.clone(),
        first: a.value,
        second: b.value,
        repeats: [a.repeated.count(), b.repeated.count()],
        ratio: ratio.ratio,
        interval: ratio.interval,
        smallest: ratio.smallest,
        possible: ratio.interval.map(|(low, high)| {
            // Either side may be a lower bound.
            (if a.at_least { 0.0 } else { low }, if b.at_least { f64::MAX } else { high })
        }),
        weight: a.weight,
        outcome,
        notes,
    }
}

/// Returns whether figures of a unit are times: less is better.
fn is_time(unit: &str) -> bool {
    matches!(unit, "s" | "ms" | "us" | "ns")
}

/// Returns whether figures of a unit are rates: more is better.
fn is_rate(unit: &str) -> bool {
    matches!(unit, "qps" | "pps" | "1/s" | "clients" | "connections/s")
}

/// Returns the outcome of a verdict for a figure of `unit`.
fn outcome(unit: &str, verdict: RatioVerdict) -> Outcome {
    let (time, rate) = (is_time(unit), is_rate(unit));
    match verdict {
        RatioVerdict::NotShown => Outcome::NoDifferenceShown,
        RatioVerdict::Higher if unit == "share" => Outcome::Better,
        RatioVerdict::Lower if unit == "share" => Outcome::Worse,
        RatioVerdict::Higher if rate => Outcome::Faster,
        RatioVerdict::Higher if time => Outcome::Slower,
        RatioVerdict::Higher => Outcome::More,
        RatioVerdict::Lower if rate => Outcome::Slower,
        RatioVerdict::Lower if time => Outcome::Faster,
        RatioVerdict::Lower => Outcome::Less,
    }
}

/// Weakens the outcome for a lower bound: the true value may be higher.
fn bounded(outcome: Outcome, first: bool, second: bool, notes: &mut Vec<String>) -> Outcome {
    let bounds = [(first, "first"), (second, "second")].into_iter().filter(|(bound, _)| *bound);
    notes.extend(bounds.map(|(_, run)| {
        format!("{run} run: a lower bound, since some searches were not limited by the server")
    }));
    match outcome {
        Outcome::Faster if first => Outcome::NoDifferenceShown,
        Outcome::Slower if second => Outcome::NoDifferenceShown,
        other => other,
    }
}

impl Compared {
    /// Returns the outcome; without an interval the one that the ratio suggests, if it is far from one.
    pub fn suggested(&self) -> Outcome {
        let verdict = match self.ratio {
            ratio if ratio >= LARGE_RATIO => RatioVerdict::Higher,
            ratio if ratio <= 1.0 / LARGE_RATIO => RatioVerdict::Lower,
            _ => return self.outcome,
        };
        match self.outcome {
            Outcome::NoInterval => outcome(&self.unit, verdict),
            shown => shown,
        }
    }
}

impl Comparison {
    /// Returns whether both runs have a figure that was measured in the same way.
    pub fn says_something(&self) -> bool {
        self.figures.iter().any(|f| f.outcome != Outcome::NotComparable)
    }

    /// Conditions that name a figure that no cell of both runs has; none if all that could have it is missing.
    pub fn unknown<'a>(&self, fail_if: &'a [FailIf]) -> Vec<&'a FailIf> {
        if self.figures.is_empty() && !self.missing.is_empty() {
            return Vec::new();
        }
        let known = |condition: &&FailIf| self.figures.iter().any(|f| f.figure == condition.figure);
        fail_if.iter().filter(|condition| !known(condition)).collect()
    }
}
