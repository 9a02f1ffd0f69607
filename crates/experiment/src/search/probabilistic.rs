//! Probabilistic bisection (Horstein 1963; Waeber, Frazier and Henderson 2013): trials whose outcome has chance in it, on cores whose
//! speed changes.
//!
//! ```text
//! start ─> trial with n ─> passed or failed, on cores with 1/k of their full speed:  one with k n on fast cores
//!               ^                 │
//!               │                 v
//!        median / k <── what the capacity may be, and how likely ──> narrow enough: its median
//! ```
//!
//! A core of a virtual machine has three quarters of its speed while the other thread of the physical one is busy, and whoever waits for a better
//! hour may wait for all of the night. But the time for an answer follows that of a fixed piece of arithmetic: in 952 trials of
//! client-maximum, over 34 searched cells in good and bad hours, pass and failure are told best by the number times the first power
//! of that time (log likelihood -283; -473 by the number alone, -290 by the power 0.8, -298 by 1.2).

use measure::Limiter;
use record::{Capacity, Estimate, Trial};

use super::bracket::{Bracket, limited_by};
use super::posterior::Posterior;
use super::trials::Trials;
use crate::bench::{BenchError, pause_after};

/// Factors, as natural logarithms, within which the capacity likely is of a start about which nothing is known, and of one that earlier
/// repeats found.
const FAR: f64 = std::f64::consts::LN_2;
const NEAR: f64 = 0.2;
/// Factor by which the capacity may lie beyond the ends of the range: slow cores carry less than the number says.
const BEYOND: f64 = 2.0;
/// The two ends of what the search narrows, a sixth of the probability beyond each; and of what is reported.
const NARROWED: [f64; 2] = [1.0 / 6.0, 5.0 / 6.0];
const REPORTED: [f64; 2] = [0.05, 0.95];
/// Number of void trials in a row after which a lower number is tried; that after which the search ends, and that of all that ends it.
const VOIDS: u32 = 2;
const MOST_VOIDS: u32 = 6;
const ALL_VOIDS: u32 = 12;
/// Largest number of trials.
const MOST_TRIALS: usize = 30;
/// Number of trials at the lowest number that fail before the search ends without a capacity.
const FAILURES: u32 = 2;
/// Distance from the capacity, as a natural logarithm, within which a failing trial tells the limiter.
const TELLING: f64 = 0.25;

/// A trial that counts.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    /// The number that it had.
    number: f64,
    /// Time of a fixed piece of arithmetic on the server's cores, in nanoseconds; `None` if nobody measured it.
    work_ns: Option<u64>,
    passed: bool,
    limiter: Limiter,
}

/// Searches by probabilistic bisection.
pub(super) fn run(trials: &mut Trials<'_>) -> Result<Capacity, BenchError> {
    let search = trials.search;
    let (min, max) = search.range();
    let scale = if search.near { NEAR } else { FAR };
    let start = search.start_of(trials.repeat);
    let prior = Posterior::new(min / BEYOND, max * BEYOND, start, scale);
    let mut found = Findings::new(prior);
    let mut bracket = Bracket::default();
    let (mut in_a_row, mut voids, mut failures) = (0, 0, 0);
    while trials.run.len() < MOST_TRIALS {
        let share = 0.5f64.powi(1 + (in_a_row / VOIDS) as i32);
        let number = (found.posterior.quantile(share) / found.slowness()).round().clamp(min, max);
        let trial = trials.once(number, search.duration)?;
        if trial.void.is_void() {
            (in_a_row, voids) = (in_a_row + 1, voids + 1);
            bracket.add_void(number, trial.limiter);
            if in_a_row == MOST_VOIDS || voids == ALL_VOIDS {
                return Ok(found.bound(&bracket, min));
            }
            trials.bench.pause(pause_after(in_a_row));
            continue;
        }
        in_a_row = 0;
        found.add(number, &trial);
        let passed = trial.passed == Some(true);
        // On slow cores a lower number is as hard.
        if passed && number * found.slowness() >= max {
            bracket.pass(max);
            return Ok(bracket.verdict(min));
        }
        failures = if number > min || passed { 0 } else { failures + 1 };
        if failures >= FAILURES && !found.has_passed() {
            bracket.fail(number, trial.limiter);
            return Ok(bracket.verdict(min));
        }
        if found.is_narrow(search.resolution) {
            return Ok(found.capacity());
        }
    }
    // As well as so many trials tell it; the interval says how well that is.
    Ok(if found.has_both() { found.capacity() } else { found.bound(&bracket, min) })
}

/// What the trials of a search have found.
struct Findings {
    prior: Posterior,
    posterior: Posterior,
    outcomes: Vec<Outcome>,
    /// Time of that piece of arithmetic at full speed, as far as it was seen, in nanoseconds.
    full_speed_ns: Option<u64>,
}

impl Findings {
    fn new(prior: Posterior) -> Self {
        Findings { posterior: prior.clone(), prior, outcomes: Vec::new(), full_speed_ns: None }
    }

    /// Adds a trial. What earlier ones say changes, too, if it has shown that the cores can be faster.
    fn add(&mut self, number: f64, trial: &Trial) {
        let (work_ns, full_speed_ns) = trial.work_times().unzip();
        self.full_speed_ns = full_speed_ns.or(self.full_speed_ns);
        let (passed, limiter) = (trial.passed == Some(true), trial.limiter);
        self.outcomes.push(Outcome { number, work_ns, passed, limiter });
        let mut posterior = self.prior.clone();
        for outcome in &self.outcomes {
            posterior.add(self.hard_as(outcome), outcome.passed);
        }
        self.posterior = posterior;
    }

    /// Returns how many times as long the arithmetic took in a trial as at full speed.
    fn slowness_in(&self, outcome: &Outcome) -> f64 {
        let times = outcome.work_ns.zip(self.full_speed_ns.filter(|ns| *ns > 0));
        times.map_or(1.0, |(work, full)| work as f64 / full as f64)
    }

    /// Returns the same for the last trial: most likely for the next one, too.
    fn slowness(&self) -> f64 {
        self.outcomes.last().map_or(1.0, |last| self.slowness_in(last))
    }

    /// Returns the number that is as hard on cores at full speed.
    fn hard_as(&self, outcome: &Outcome) -> f64 {
        outcome.number * self.slowness_in(outcome)
    }

    fn has_passed(&self) -> bool {
        self.outcomes.iter().any(|outcome| outcome.passed)
    }

    /// Whether some trial passed, and some failed.
    fn has_both(&self) -> bool {
        self.has_passed() && self.outcomes.iter().any(|outcome| !outcome.passed)
    }

    /// Whether the capacity lies within the resolution of its median, with a probability of two thirds.
    fn is_narrow(&self, resolution: f64) -> bool {
        let [low, high] = NARROWED.map(|share| self.posterior.quantile(share));
        self.has_both() && high / low <= (1.0 + resolution).powi(2)
    }

    /// Returns the outcome that is nearest to the capacity, of those that passed or of those that failed by a limiter.
    fn nearest(&self, of: impl Fn(&Outcome) -> bool) -> Option<Outcome> {
        let away = |outcome: &Outcome| self.away(outcome);
        let of = self.outcomes.iter().filter(|outcome| of(outcome));
        of.min_by(|a, b| away(a).total_cmp(&away(b))).copied()
    }

    /// Returns the distance of an outcome from the capacity, as a natural logarithm.
    fn away(&self, outcome: &Outcome) -> f64 {
        (self.hard_as(outcome) / self.posterior.quantile(0.5)).ln().abs()
    }

    /// Returns the limiter of most of the failures near the capacity, of several that of the nearest one.
    fn limiter(&self) -> Limiter {
        let failed = |outcome: &&Outcome| !outcome.passed;
        let near = |outcome: &&Outcome| self.away(outcome) <= TELLING;
        let told: Vec<Limiter> =
            self.outcomes.iter().filter(failed).filter(near).map(|o| o.limiter).collect();
        let times = |limiter| told.iter().filter(|told| **told == limiter).count();
        let most = told.iter().map(|limiter| times(*limiter)).max();
        let nearest = self.nearest(|outcome| {
            !outcome.passed && most.is_none_or(|most| times(outcome.limiter) == most)
        });
        nearest.map_or(Limiter::Unknown, |outcome| outcome.limiter)
    }

    /// Returns what is estimated, and from what.
    fn estimate(&self) -> Estimate {
        let [low_qps, high_qps] = REPORTED.map(|share| self.posterior.quantile(share).round());
        let speeds = self.outcomes.iter().map(|outcome| 1.0 / self.slowness_in(outcome));
        Estimate {
            low_qps,
            high_qps,
            passed_qps: self.nearest(|outcome| outcome.passed).map(|outcome| outcome.number),
            speed: speeds.sum::<f64>() / self.outcomes.len().max(1) as f64,
        }
    }

    /// Returns the capacity that the search has found.
    fn capacity(&self) -> Capacity {
        let (estimate, limiter) = (self.estimate(), self.limiter());
        let median = self.posterior.quantile(0.5).round();
        let at_least = limiter.makes_lower_bound();
        let verdict = format!(
            "{}{median:.0} qps ({:.0} to {:.0} with 90 %), {}{}",
            if at_least { "at least " } else { "" },
            estimate.low_qps,
            estimate.high_qps,
            limited_by(limiter),
            corrected(estimate.speed)
        );
        Capacity {
            qps: Some(median),
            failed_qps: self.nearest(|o| !o.passed && o.limiter == limiter).map(|o| o.number),
            at_least,
            limiter,
            verdict,
            also: Vec::new(),
            estimate: Some(estimate),
        }
    }

    /// Returns the capacity if void trials ended the search: what passed is a lower bound.
    fn bound(&self, voids: &Bracket, min: f64) -> Capacity {
        let passed = self.outcomes.iter().filter(|outcome| outcome.passed);
        let highest = passed.map(|outcome| self.hard_as(outcome)).reduce(f64::max);
        let Some(highest) = highest else { return voids.verdict(min) };
        let qps = highest.min(self.posterior.quantile(0.5)).round();
        let mut ended = voids.clone();
        ended.passed = Some(qps);
        let estimate = self.estimate();
        let mut capacity = ended.verdict(min);
        capacity.verdict += &corrected(estimate.speed);
        Capacity { at_least: true, estimate: Some(estimate), ..capacity }
    }
}

/// Returns the end of a verdict from trials in which the server's cores had a share (0 to 1) of their speed; empty if they had all of it.
fn corrected(speed: f64) -> String {
    let percent = (speed * 100.0).round();
    if percent >= 100.0 {
        return String::new();
    }
    format!("; at full speed of the server's cores, of which they had {percent} %")
}
