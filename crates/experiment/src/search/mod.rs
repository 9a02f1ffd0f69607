//! The search for the highest rate that meets a goal, by one of three rules.
//!
//! | rule | decides a rate by | for |
//! |---|---|---|
//! | [`Rule::Rfc8219`] | one trial; doubling or halving to a bracket, then bisection | the conforming form |
//! | [`Rule::Mlrsearch`] | as many short trials as it takes until no further one can change the verdict | quick forms |
//! | [`Rule::CleanWindows`] | the share of one-second windows without loss, bracket and bisection | hosts that stall |
//!
//! A void trial is run again, and never stands for a failure: a rate at which the Tester stays void ends the search, and
//! what passed below it is a lower bound, limited by the Tester. Every trial is kept: servers have been seen whose
//! passing is not monotonic (NLnet Labs), and the trace shows it. Docs/method.md compares the rules.

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

/// How a search decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rule {
    /// RFC 8219 section 9.2: a rate passes when its trial does.
    #[default]
    Rfc8219,
    /// MLRsearch (draft-ietf-bmwg-mlrsearch): trials at a rate are added up until they decide.
    Mlrsearch,
    /// A rate passes when at least 90 % of the one-second windows of its trials are free of loss.
    CleanWindows,
}

impl Rule {
    /// Every rule.
    pub const ALL: [Rule; 3] = [Rule::Rfc8219, Rule::Mlrsearch, Rule::CleanWindows];

    /// Its word in files and records.
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
    /// How it decides.
    pub rule: Rule,
    /// What a trial must reach.
    pub goal: Goal,
    /// Further goals that [`Rule::Mlrsearch`] seeks in the same search.
    pub also: Vec<Goal>,
    /// The first rate tried; repeats begin up to a quarter above or below it.
    pub start: Qps,
    /// No rate below this is tried.
    pub min: Qps,
    /// No rate above this is tried.
    pub max: Qps,
    /// The search ends when the bracket is narrower than this share (0 to 1) of the passing rate.
    pub resolution: f64,
    /// Duration of a trial.
    pub duration: Nanos,
    /// Sum of the durations of the trials that decide a rate, for [`Rule::Mlrsearch`].
    pub duration_sum: Nanos,
    /// Timeout of a query.
    pub timeout: Nanos,
    /// How often a void trial is run again.
    pub void_retries: u32,
    /// How queries are spaced.
    pub pacing: OpenPacing,
}

/// More trials than this mean that something is wrong: 2^30 is bracketed and bisected to 0.1 % in 50, and MLRsearch adds
/// up to some tens at each of a dozen rates.
const MAX_TRIALS: usize = 400;

/// What a search did and found.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchTrace {
    /// What it found.
    pub capacity: Capacity,
    /// Its trials in order.
    pub trials: Vec<TrialRecord>,
}

impl Search {
    /// Runs the search as repeat number `repeat`; `seen` is told of each trial.
    ///
    /// # Errors
    /// The bench's; `seen` has been told of the trials before.
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

    /// The lowest and the highest rate, in queries a second.
    fn range(&self) -> (f64, f64) {
        (self.min.get(), self.max.get().max(self.min.get()))
    }

    /// The first rate of a repeat: a search that always begins at the same rate tries the same rates, and hides what lies
    /// between them.
    fn start_of(&self, repeat: u32) -> f64 {
        let (min, max) = self.range();
        // From -1 to 1; the first repeat begins at the start itself.
        let dither = if repeat == 0 {
            0.0
        } else {
            Rng::part(START_SEED, u64::from(repeat)).below(2_001) as f64 / 1_000.0 - 1.0
        };
        (self.start.get() * 1.25_f64.powf(dither)).round().clamp(min, max)
    }
}

/// Seed of the first rates.
const START_SEED: u64 = 8219;

/// The trials of a search, as they are run.
struct Trials<'a> {
    search: &'a Search,
    bench: &'a mut dyn Bench,
    names: &'a mut NameBudget,
    repeat: u32,
    seen: &'a mut dyn FnMut(&TrialRecord),
    run: Vec<TrialRecord>,
}

impl Trials<'_> {
    /// Runs a trial, again while it is void. With `stops`, it may end when it has missed the goal for certain.
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

    /// Whether no further trial is run.
    fn are_too_many(&self) -> bool {
        self.run.len() >= MAX_TRIALS
    }

    /// A trial at `rate` with fresh names; the server is made to forget the old ones when they run out.
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

/// What a search found out about rates.
#[derive(Clone, Debug, Default)]
struct Bracket {
    /// The highest passing rate.
    passed: Option<f64>,
    /// The lowest failing rate above it, and what limited it.
    failed: Option<(f64, Limiter)>,
    /// The lowest rate at which the Tester stayed void, and what limited it.
    void: Option<(f64, Limiter)>,
}

impl Bracket {
    /// What the search found, in the record's terms; `min` is its lowest rate.
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
