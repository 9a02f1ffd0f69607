//! Progress lines of a running search: a line for each trial, with the estimated time left, and one
//! for each search.

use std::time::{Duration, Instant};

use experiment::{Progress, Search};
use record::TrialRecord;
use report::view::span;

use super::Axis;

/// Prints the progress of searches on standard error.
pub(super) struct SearchProgress<'s> {
    search: &'s Search,
    repeats: u32,
    over: Axis,
    began: Instant,
    /// Trials of the search that runs.
    trials: Vec<TrialRecord>,
    /// Number of trials of all searches so far.
    done: u32,
    /// Number of searches that have ended.
    ended: u32,
}

impl<'s> SearchProgress<'s> {
    pub(super) fn new(search: &'s Search, repeats: u32, over: Axis) -> Self {
        let began = Instant::now();
        SearchProgress { search, repeats, over, began, trials: Vec::new(), done: 0, ended: 0 }
    }

    /// Prints a line about a step, and counts it for the estimate of the time left.
    pub(super) fn print(&mut self, step: &Progress<'_>) {
        match step {
            Progress::Trial(record) => {
                self.trials.push((*record).clone());
                self.done += 1;
                let left = span(self.left(self.began.elapsed()).as_secs_f64());
                let line = report::trial_line(record, self.over.unit());
                eprintln!("  {line}; about {left} left");
            }
            Progress::Search { repeat, repeats, trace } => {
                self.trials.clear();
                self.ended += 1;
                let void = trace.void();
                let verdict = void.as_ref().unwrap_or(&trace.capacity.verdict);
                let verdict = self.over.words(verdict);
                eprintln!("search {} of {repeats}: {verdict}", repeat + 1);
            }
        }
    }

    /// Estimates the time left for all searches, after `elapsed`.
    fn left(&self, elapsed: Duration) -> Duration {
        let own = self.search.trials_left(&self.trials);
        let present = self.trials.len() as u32;
        // Later searches are as long as those that have ended, or as this one.
        let usual = match self.ended {
            0 => present + own,
            ended => (self.done - present) / ended,
        };
        let later = self.repeats.saturating_sub(self.ended + 1);
        let each = elapsed / self.done.max(1);
        each * (own + usual.saturating_mul(later))
    }
}
