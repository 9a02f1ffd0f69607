//! The state of an unfinished search: the bounds so far, and the expected number of further trials.

use record::{Capacity, TrialRecord};

use super::rule::Rule;
use super::spec::Search;

/// Share of the trials at a rate after which MLRsearch has mostly decided on it.
const DECIDED: f64 = 0.6;

/// The highest rate that passed below all that failed, and the lowest that failed, in queries a second.
fn bounds(trials: &[TrialRecord]) -> (Option<f64>, Option<f64>) {
    let with = |passed: bool| {
        let sound = trials.iter().filter(|record| !record.trial.void.is_void());
        sound.filter(move |r| (r.trial.passed == Some(true)) == passed).map(|r| r.rate_qps)
    };
    let failed = with(false).reduce(f64::min);
    let below = |rate: &f64| failed.is_none_or(|failed| *rate < failed);
    (with(true).filter(below).reduce(f64::max), failed)
}

impl Search {
    /// Estimates the number of further trials after the trials so far; void trials and stalls add
    /// to it.
    pub fn trials_left(&self, trials: &[TrialRecord]) -> u32 {
        let (min, max) = self.range();
        let halvings =
            |low: f64, high: f64| ((high / low - 1.0) / self.resolution).log2().ceil().max(0.0);
        let [low, high] = self.expected.unwrap_or([self.start.get(), self.start.get() * 2.0]);
        let rates = match bounds(trials) {
            (Some(passed), None) if passed >= max => return 0,
            (None, Some(failed)) if failed <= min => return 0,
            (Some(passed), Some(failed)) => halvings(passed, failed),
            (Some(passed), None) if passed < high => 1.0 + halvings(passed, high),
            (Some(passed), None) => 1.0 + halvings(passed, passed * 2.0),
            (None, Some(failed)) if failed > low => 1.0 + halvings(low, failed),
            (None, Some(failed)) => 1.0 + halvings(failed / 2.0, failed),
            (None, None) => 2.0 + halvings(low, high),
        };
        let each = match &self.rule {
            Rule::Mlrsearch { duration_sum, .. } => {
                (duration_sum.as_secs_f64() / self.duration.as_secs_f64() * DECIDED).ceil().max(1.0)
            }
            _ => 1.0,
        };
        // The failing end is retried once.
        ((rates + 1.0) * each) as u32
    }

    /// Returns the result of a search that an error has ended after `trials`: a lower bound, if a
    /// rate has passed.
    pub(crate) fn found_before(&self, error: &str, trials: &[TrialRecord]) -> Option<Capacity> {
        let (passed, failed_qps) = bounds(trials);
        let qps = passed?;
        let failed = failed_qps.map(|rate| format!("; {rate:.0} qps failed"));
        Some(Capacity {
            qps: Some(qps),
            failed_qps,
            at_least: true,
            verdict: format!("at least {qps:.0} qps: {error}{}", failed.unwrap_or_default()),
            ..Capacity::default()
        })
    }
}
