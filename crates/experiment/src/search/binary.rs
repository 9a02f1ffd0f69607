//! Bracketing and bisection, with any rule for the verdict on a rate (RFC 8219 section 9.2, RFC 2544 section 26.1).
//!
//! ```text
//! start passes: double until a rate fails      start fails: halve until a rate passes
//!        └────────────── passed < capacity < failed ──────────────┘          (or a bracket that closed loops or the demand make likely)
//!                 bisect until failed - passed <= resolution, and towards a rate at which the Tester stayed void likewise
//!                 try the failing end once more: it may have failed by a stall
//!                 if it passes, try the next failing rate at once: the same stall may have failed it
//! ```

use measure::Limiter;
use record::Capacity;

use super::bracket::Bracket;
use super::trials::Trials;
use crate::bench::BenchError;

/// Steps up and down from the first rate, as a factor; the least where the capacity is expected nearby.
pub(super) const STEP: f64 = 2.0;
const LEAST_STEP: f64 = 1.1;
/// Number of times that the failing end fails.
const FAILURES: u32 = 2;
/// Number of upper ends that failed by a stall, after which none is retried.
const MOST_MENDED: u32 = 3;

/// The verdict on a rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    /// The rate met the goal.
    Passed,
    /// The rate missed the goal; the limiter.
    Failed(Limiter),
    /// The Tester stayed void; the limiter.
    Void(Limiter),
}

/// A rule that decides the verdict on a rate.
pub(super) type Decide<'j> = dyn FnMut(&mut Trials<'_>, f64) -> Result<Verdict, BenchError> + 'j;

/// Decides by one trial, as the RFC does.
pub(super) fn by_trial(trials: &mut Trials<'_>, rate: f64) -> Result<Verdict, BenchError> {
    let trial = trials.settled(rate, trials.search.duration, true)?;
    trials.expect_by_demand(rate, &trial);
    Ok(match (trial.void.is_void(), trial.passed) {
        (true, _) => Verdict::Void(trial.limiter),
        (false, Some(true)) => Verdict::Passed,
        (false, _) => Verdict::Failed(trial.limiter),
    })
}

/// Searches with the rule `decide`.
pub(super) fn run(
    trials: &mut Trials<'_>,
    decide: &mut Decide<'_>,
) -> Result<Capacity, BenchError> {
    let search = trials.search;
    let (min, max) = search.range();
    let mut bracket = Bracket::default();
    // `mended`: failed upper ends that passed when tried again, so that a stall had failed them.
    // `follows`: whether `rate` is such an end or comes after one.
    let (mut missed, mut mended, mut follows) = (FailedRate::default(), 0, false);
    let mut rate = search.start_of(trials.repeat);
    while !trials.are_too_many() {
        let verdict = decide(trials, rate)?;
        let followed = std::mem::take(&mut follows);
        match verdict {
            Verdict::Passed => {
                if bracket.pass(rate) {
                    mended += u32::from(!followed);
                    if let Some((failed, _)) = bracket.failed() {
                        (rate, follows) = (failed.min(up(rate, STEP, max)), true);
                        continue;
                    }
                }
            }
            Verdict::Failed(limiter) => {
                missed.count(rate);
                bracket.fail(rate, limiter);
            }
            Verdict::Void(limiter) => {
                missed.count(rate);
                bracket.add_void(rate, limiter);
            }
        }
        rate = match (next_rate(trials, &bracket), bracket.end()) {
            (Some(next), _) => next,
            (None, Some(end)) if mended < MOST_MENDED => {
                let is_void = bracket.failed().is_none_or(|(failed, _)| failed > end);
                // A void rate has had its retries.
                let enough = if is_void || bracket.passed.is_none() { 1 } else { FAILURES };
                if missed.rate == end && missed.times >= enough {
                    break;
                }
                end
            }
            (None, _) => break,
        };
    }
    Ok(bracket.verdict(min))
}

/// The last rate that did not pass, in queries a second, and how often it failed in a row.
#[derive(Default)]
struct FailedRate {
    rate: f64,
    times: u32,
}

impl FailedRate {
    /// Counts a rate that did not pass.
    fn count(&mut self, rate: f64) {
        self.times = if self.rate == rate { self.times + 1 } else { 1 };
        self.rate = rate;
    }
}

/// Returns the rate a step above one that passed, `max` at the most.
pub(super) fn up(passed: f64, step: f64, max: f64) -> f64 {
    (passed * step).round().max(passed + 1.0).min(max)
}

/// Returns the factor of the step from a rate: as large as the distance of the rate from the
/// expected range.
fn step(trials: &Trials<'_>, rate: f64) -> f64 {
    let off = |[low, high]: [f64; 2]| (rate / high).max(low / rate).clamp(LEAST_STEP, STEP);
    trials.expected.map_or(STEP, off)
}

/// Returns the next rate to try; `None` if the bracket is narrow enough. A rate that is expected counts as an end while none has been
/// found on its side.
fn next_rate(trials: &Trials<'_>, bracket: &Bracket) -> Option<f64> {
    let (min, max) = trials.search.range();
    let failed = bracket.failed().map(|(rate, _)| rate);
    let void = bracket.void().map(|(rate, _)| rate);
    let (passed, missed) = (bracket.passed, bracket.end());
    let lies_below = failed.zip(void).filter(|(failed, void)| void < failed);
    if passed.is_some() && lies_below.is_some_and(|(_, void)| trials.reached(void)) {
        // If the Tester can send the void rate, a disturbance was the cause, and lower rates do not
        // help.
        return None;
    }
    let is_open = |rate: &f64| {
        passed.is_none_or(|passed| passed < *rate) && missed.is_none_or(|missed| *rate < missed)
    };
    let expected = |end: usize| trials.expected.map(|ends| ends[end]).filter(is_open);
    let (low, high) = (expected(0), expected(1));
    let above = |passed: f64| up(passed, step(trials, passed), max);
    match (low.or(passed), high.or(missed)) {
        // A void rate says nothing about lower rates: the server may fail at some of them.
        (Some(passed), Some(void)) if low.or(high).or(failed).is_none() && above(passed) < void => {
            Some(above(passed))
        }
        (Some(lower), Some(upper)) => {
            between(lower, upper, trials.search.resolution).or(low).or(high)
        }
        (Some(passed), None) => (passed < max).then(|| above(passed)),
        // No rate has passed yet: lower rates may pass, and then bound the capacity from below.
        (None, missed) => {
            let below = |rate: f64| (rate / step(trials, rate)).round().max(min);
            missed.filter(|rate| *rate > min).map(below)
        }
    }
}

/// Returns the middle of two rates; `None` if they are as close as `resolution`, a share of the lower one.
fn between(passed: f64, above: f64, resolution: f64) -> Option<f64> {
    let close = above - passed <= (passed * resolution).max(1.0);
    (!close).then(|| ((passed + above) / 2.0).round())
}
