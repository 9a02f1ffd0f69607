//! The search for the highest rate that meets a goal, by one of three rules.
//!
//! | rule | decides a rate by | for |
//! |---|---|---|
//! | [`Rule::Rfc8219`] | one trial; doubling or halving to a bracket, then bisection | the conforming form |
//! | [`Rule::Mlrsearch`] | as many short trials as it takes until no further one can change the verdict | quick forms |
//! | [`Rule::CleanWindows`] | the share of one-second windows without loss, bracket and bisection | hosts that stall |
//!
//! A void trial is run again and never counts as a failure: a rate at which the Tester stays void ends the search,
//! and the highest passing rate below it is a lower bound, limited by the Tester. Every trial is kept: for some
//! servers a higher rate passes although a lower one fails (NLnet Labs), and the trace shows it. docs/method.md
//! compares the rules.

mod binary;
mod mlr;
mod windows;

use std::fmt;
use std::str::FromStr;

use measure::{Goal, Limiter, Nanos, OpenPacing, Qps, Rng};
use record::{Capacity, Trial, TrialRecord};

use crate::bench::{Bench, BenchError, TrialSpec};
use crate::names::NameBudget;
use crate::visit::most_names;

/// Rule by which a search decides on a rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rule {
    /// RFC 8219 section 9.2: a rate passes if its trial does.
    #[default]
    Rfc8219,
    /// MLRsearch (draft-ietf-bmwg-mlrsearch): trials at a rate are added up until they decide.
    Mlrsearch,
    /// A rate passes if at least 90 % of the one-second windows of its trials are free of loss.
    CleanWindows,
}

impl Rule {
    /// Every rule.
    pub const ALL: [Rule; 3] = [Rule::Rfc8219, Rule::Mlrsearch, Rule::CleanWindows];

    /// Returns the word of the rule in files and records.
    pub fn word(self) -> &'static str {
        match self {
            Rule::Rfc8219 => "rfc8219",
            Rule::Mlrsearch => "mlrsearch",
            Rule::CleanWindows => "clean-windows",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl FromStr for Rule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || Rule::ALL.map(Rule::word).join(", ");
        let rule = Rule::ALL.into_iter().find(|rule| rule.word() == text);
        rule.ok_or_else(|| format!("`{text}` is none of {}", known()))
    }
}

/// The settings of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// Rule that decides on a rate.
    pub rule: Rule,
    /// Goal of a trial.
    pub goal: Goal,
    /// Further goals that [`Rule::Mlrsearch`] seeks in the same search.
    pub also: Vec<Goal>,
    /// First rate tried; repeats begin up to a quarter above or below it.
    pub start: Qps,
    /// Lowest rate tried.
    pub min: Qps,
    /// Highest rate tried.
    pub max: Qps,
    /// Width of the bracket at which the search ends, as a share (0 to 1) of the passing rate.
    pub resolution: f64,
    /// Duration of one trial, in nanoseconds.
    pub duration: Nanos,
    /// Sum of the durations of the trials that decide a rate, in nanoseconds; for [`Rule::Mlrsearch`].
    pub duration_sum: Nanos,
    /// Timeout of one query, in nanoseconds.
    pub timeout: Nanos,
    /// Number of times that a void trial is run again.
    pub void_retries: u32,
    /// Spacing of the queries.
    pub pacing: OpenPacing,
}

/// Largest number of trials of one search: 2^30 is bracketed and bisected to 0.1 % in 50, and MLRsearch adds up to
/// some tens at each of a dozen rates.
const MAX_TRIALS: usize = 400;

/// The trials of a search and its result.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchTrace {
    /// Capacity found.
    pub capacity: Capacity,
    /// Trials in order.
    pub trials: Vec<TrialRecord>,
}

impl SearchTrace {
    /// Returns why the search is void, if no rate passed and the last trial was void.
    pub fn void(&self) -> Option<String> {
        let last = self.trials.last()?;
        let why = last.trial.void.0.as_ref().filter(|_| self.capacity.qps.is_none())?;
        Some(format!("{}; {why}", self.capacity.verdict))
    }
}

impl Search {
    /// Runs the search as repeat number `repeat`; calls `seen` with each trial.
    ///
    /// # Errors
    /// The errors of the bench; `seen` has received the trials before.
    pub fn run(
        &self,
        bench: &mut dyn Bench,
        names: &mut NameBudget,
        repeat: u32,
        seen: &mut dyn FnMut(&TrialRecord),
    ) -> Result<SearchTrace, BenchError> {
        let mut trials = Trials { search: self, bench, names, repeat, seen, run: Vec::new() };
        let capacity = match self.rule {
            Rule::Rfc8219 => binary::run(&mut trials, &mut binary::by_trial)?,
            Rule::Mlrsearch => mlr::run(&mut trials)?,
            Rule::CleanWindows => windows::run(&mut trials)?,
        };
        Ok(SearchTrace { capacity, trials: trials.run })
    }

    /// Returns the lowest and the highest rate, in queries a second.
    fn range(&self) -> (f64, f64) {
        (self.min.get(), self.max.get().max(self.min.get()))
    }

    /// Returns the first rate of a repeat. A search that always begins at the same rate tries the same rates, and
    /// never those between them.
    fn start_of(&self, repeat: u32) -> f64 {
        let (min, max) = self.range();
        // From -1 to 1; the first repeat begins at the start rate itself.
        let dither = if repeat == 0 {
            0.0
        } else {
            Rng::part(START_SEED, u64::from(repeat)).below(2_001) as f64 / 1_000.0 - 1.0
        };
        (self.start.get() * 1.25_f64.powf(dither)).round().clamp(min, max)
    }
}

/// Seed of the first rates of repeats.
const START_SEED: u64 = 8219;

/// The trials of a search in progress.
struct Trials<'a> {
    search: &'a Search,
    bench: &'a mut dyn Bench,
    names: &'a mut NameBudget,
    repeat: u32,
    seen: &'a mut dyn FnMut(&TrialRecord),
    run: Vec<TrialRecord>,
}

impl Trials<'_> {
    /// Runs a trial, and runs it again while it is void. With `stops`, it may end as soon as it misses the goal for
    /// certain.
    fn settled(&mut self, rate: f64, duration: Nanos, stops: bool) -> Result<Trial, BenchError> {
        let mut tries = 0;
        loop {
            let spec = self.spec(rate, duration, stops)?;
            let trial = self.bench.trial(&spec)?;
            let record = TrialRecord { repeat: self.repeat, rate_qps: rate, trial };
            (self.seen)(&record);
            self.run.push(record.clone());
            tries += 1;
            if !record.trial.void.is_void() || tries > self.search.void_retries {
                return Ok(record.trial);
            }
        }
    }

    /// Returns whether the limit of trials is reached.
    fn are_too_many(&self) -> bool {
        self.run.len() >= MAX_TRIALS
    }

    /// Makes the specification of a trial at `rate` with unused names; clears the server's cache when they run out.
    fn spec(&mut self, rate: f64, duration: Nanos, stops: bool) -> Result<TrialSpec, BenchError> {
        let search = self.search;
        let pacing = search.pacing.at(Qps::new(rate).expect("rates lie between two rates"));
        let count = most_names(pacing, duration);
        if self.names.is_short_of(count) && self.bench.forget_names()? {
            self.names.refresh();
        }
        let first_name = self.names.take(count)?;
        let (timeout, goal) = (search.timeout, stops.then(|| search.goal.clone()));
        Ok(TrialSpec { pacing, duration, timeout, goal, first_name, names: count })
    }
}

/// Bracket of rates that a search has found so far.
#[derive(Clone, Debug, Default)]
struct Bracket {
    /// Highest passing rate.
    passed: Option<f64>,
    /// Lowest failing rate above it, and its limiter.
    failed: Option<(f64, Limiter)>,
    /// Lowest rate at which the Tester stayed void, and its limiter.
    void: Option<(f64, Limiter)>,
}

impl Bracket {
    /// Converts the bracket to a capacity for the record; `min` is the lowest rate of the search.
    fn verdict(&self, min: f64) -> Capacity {
        let failed_qps = self.failed.map(|(rate, _)| rate);
        let capacity = |at_least, limiter, verdict| Capacity {
            qps: self.passed,
            failed_qps,
            at_least,
            limiter,
            verdict,
            also: Vec::new(),
        };
        match (self.passed, self.failed, self.void) {
            (Some(passed), failed, Some((void, limiter)))
                if failed.is_none_or(|(rate, _)| rate > void) =>
            {
                let verdict = format!(
                    "at least {passed:.0} qps; Tester-limited at {void:.0} qps ({limiter})"
                );
                capacity(true, limiter, verdict)
            }
            (Some(passed), Some((failed, limiter)), _) => {
                let at_least = limiter.makes_lower_bound();
                let word = if at_least { "at least " } else { "" };
                let verdict =
                    format!("{word}{passed:.0} qps, limited by {limiter}; {failed:.0} qps failed");
                capacity(at_least, limiter, verdict)
            }
            (Some(passed), None, _) => {
                let verdict =
                    format!("at least {passed:.0} qps: the search's own upper bound passed");
                capacity(true, Limiter::SearchBound, verdict)
            }
            (None, Some((failed, limiter)), _) => {
                let verdict =
                    format!("failed at every rate down to {failed:.0} qps, limited by {limiter}");
                capacity(false, limiter, verdict)
            }
            (None, None, void) => {
                let (rate, limiter) = void.unwrap_or((min, Limiter::Unknown));
                let verdict = format!("void at every rate down to {rate:.0} qps ({limiter})");
                capacity(false, limiter, verdict)
            }
        }
    }
}
