//! The search for the highest passing rate: bracketing, then bisection.
//!
//! ```text
//! start passes: double until a rate fails      start fails: halve until a rate passes
//!        └────────────── passed < capacity < failed ──────────────┘
//!                 bisect until failed - passed <= resolution
//! ```
//!
//! A void trial is repeated; a rate at which the Tester stays void bounds the search as a failure would,
//! but the capacity found below is then a lower bound, limited by the Tester. Every trial is kept: servers
//! have been seen whose passing is not monotonic (NLnet Labs), and the trace shows it.

use measure::{Goal, Limiter, Nanos, OpenPacing, Qps};
use record::{Capacity, Trial, TrialRecord};

use crate::bench::{Bench, BenchError, TrialSpec};
use crate::names::NameBudget;
use crate::visit::most_names;

/// How a search goes.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// What a trial must reach.
    pub goal: Goal,
    /// The first rate tried.
    pub start: Qps,
    /// No rate below this is tried.
    pub min: Qps,
    /// No rate above this is tried.
    pub max: Qps,
    /// Ends when the bracket is narrower than this share (0 to 1) of the passing rate.
    pub resolution: f64,
    /// Of each trial.
    pub duration: Nanos,
    /// Of each query.
    pub timeout: Nanos,
    /// How often a void trial is run again.
    pub void_retries: u32,
    /// How queries are spaced.
    pub pacing: OpenPacing,
}

/// More trials than this mean that something is wrong: 2^30 is bracketed and bisected to 0.1 % in 50.
const MAX_TRIALS: usize = 100;

/// What a search did and found.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchTrace {
    /// What it found.
    pub capacity: Capacity,
    /// Its trials in order.
    pub trials: Vec<TrialRecord>,
}

/// The bracket around the capacity.
#[derive(Clone, Debug, Default)]
struct Bracket {
    passed: Option<f64>,
    failed: Option<f64>,
    /// What limited the lowest failing trial, and whether that trial was void.
    limiter: Option<(Limiter, bool)>,
}

impl Search {
    /// Runs the search as repeat number `repeat`; `seen` is told of each trial.
    ///
    /// # Errors
    /// The bench's; trials run before are lost to the caller only through `seen`, which has seen them.
    pub fn run(
        &self,
        bench: &mut dyn Bench,
        names: &mut NameBudget,
        repeat: u32,
        seen: &mut dyn FnMut(&TrialRecord),
    ) -> Result<SearchTrace, BenchError> {
        let (min, max) = (self.min.get(), self.max.get().max(self.min.get()));
        let mut bracket = Bracket::default();
        let mut trials: Vec<TrialRecord> = Vec::new();
        let mut rate = self.start.get().clamp(min, max);
        while trials.len() < MAX_TRIALS {
            let record = self.settled_trial(bench, names, repeat, rate, &mut trials, seen)?;
            let passed = !record.void.is_void() && record.passed == Some(true);
            if passed {
                bracket.passed = Some(rate);
            } else {
                bracket.failed = Some(rate);
                bracket.limiter = Some((record.limiter, record.void.is_void()));
            }
            match self.next_rate(&bracket, min, max) {
                Some(next) => rate = next,
                None => break,
            }
        }
        Ok(SearchTrace { capacity: self.verdict(&bracket), trials })
    }

    /// One trial, run again while it is void.
    fn settled_trial(
        &self,
        bench: &mut dyn Bench,
        names: &mut NameBudget,
        repeat: u32,
        rate: f64,
        trials: &mut Vec<TrialRecord>,
        seen: &mut dyn FnMut(&TrialRecord),
    ) -> Result<Trial, BenchError> {
        let mut tries = 0;
        loop {
            let spec = self.spec(rate, bench, names)?;
            let trial = bench.trial(&spec)?;
            let record = TrialRecord { repeat, rate_qps: rate, trial };
            seen(&record);
            trials.push(record.clone());
            tries += 1;
            if !record.trial.void.is_void() || tries > self.void_retries {
                return Ok(record.trial);
            }
        }
    }

    /// A trial at `rate` with fresh names; the server is made to forget the old ones when they run out.
    fn spec(
        &self,
        rate: f64,
        bench: &mut dyn Bench,
        names: &mut NameBudget,
    ) -> Result<TrialSpec, BenchError> {
        let rate = Qps::new(rate).expect("rates lie between two rates");
        let count = most_names(self.pacing.at(rate), self.duration);
        if names.is_short_of(count) && bench.forget_names()? {
            names.refresh();
        }
        let first_name = names.take(count)?;
        Ok(TrialSpec {
            pacing: self.pacing.at(rate),
            duration: self.duration,
            timeout: self.timeout,
            goal: Some(self.goal.clone()),
            first_name,
            names: count,
        })
    }

    /// The next rate to try; `None` when the search is over.
    fn next_rate(&self, bracket: &Bracket, min: f64, max: f64) -> Option<f64> {
        match (bracket.passed, bracket.failed) {
            (Some(passed), Some(failed)) => {
                let close = failed - passed <= (passed * self.resolution).max(1.0);
                (!close).then(|| ((passed + failed) / 2.0).round())
            }
            (Some(passed), None) => (passed < max).then(|| (passed * 2.0).min(max)),
            (None, Some(failed)) => (failed > min).then(|| (failed / 2.0).round().max(min)),
            (None, None) => None,
        }
    }

    /// What the bracket says.
    fn verdict(&self, bracket: &Bracket) -> Capacity {
        let (failed_limiter, void) = bracket.limiter.unwrap_or((Limiter::Unknown, false));
        match (bracket.passed, bracket.failed) {
            (Some(passed), None) => Capacity {
                qps: Some(passed),
                failed_qps: None,
                at_least: true,
                limiter: Limiter::SearchBound,
                verdict: format!("at least {passed:.0} qps: the search's own upper bound passed"),
            },
            (Some(passed), Some(failed)) => {
                let at_least = void || failed_limiter.makes_lower_bound();
                let word = if at_least { "at least " } else { "" };
                Capacity {
                    qps: Some(passed),
                    failed_qps: Some(failed),
                    at_least,
                    limiter: failed_limiter,
                    verdict: format!(
                        "{word}{passed:.0} qps, limited by {failed_limiter}; {failed:.0} qps failed"
                    ),
                }
            }
            (None, failed) => {
                let what = if void { "void" } else { "failed" };
                Capacity {
                    qps: None,
                    failed_qps: failed,
                    at_least: false,
                    limiter: failed_limiter,
                    verdict: format!(
                        "{what} at every rate down to {:.0} qps, limited by {failed_limiter}",
                        failed.unwrap_or(self.min.get())
                    ),
                }
            }
        }
    }
}
