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
//! A core of a virtual machine has about three quarters of its speed while the other thread of the physical one is busy, and may be so for
//! hours. But the time of an answer follows that of a fixed piece of arithmetic: in 952 trials of client-maximum, over 34 searched cells in
//! good and bad hours, the number times the first power of that time separates passes from failures best (log likelihood -283; -473 for the
//! number alone, -290 for the power 0.8, -298 for 1.2).

use measure::{Limiter, stats};
use record::{Capacity, Estimate, Trial};

use super::bracket::{Bracket, limited_by};
use super::posterior::Posterior;
use super::trials::Trials;
use crate::bench::{BenchError, pause_after};

/// Scales of the logarithm of the capacity about a start of which nothing is known, and about what earlier repeats found: twice as much
/// or half is likely, or a fifth more or less.
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
const ALL_VOIDS: usize = 12;
/// Largest number of trials.
pub(crate) const MOST_TRIALS: usize = 30;
/// Number of trials at the lowest number that fail before the search ends without a capacity.
const FAILURES: u32 = 2;
/// Distance from the capacity, as a natural logarithm, within which the limiter of a failing trial counts: a quarter more has it, too.
const AROUND: f64 = 0.25;

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
    let mut found = Findings::new(Posterior::new(min / BEYOND, max * BEYOND, start, scale));
    let (mut in_a_row, mut failures) = (0, 0);
    while trials.run.len() < MOST_TRIALS {
        let number = found.next(in_a_row).round().clamp(min, max);
        let trial = trials.once(number, search.duration)?;
        if trial.void.is_void() {
            in_a_row += 1;
            found.voids.push((number, trial.limiter));
            let enough = in_a_row >= MOST_VOIDS || found.voids.len() >= ALL_VOIDS;
            if enough && (found.has_passed() || number <= min) {
                break;
            }
            trials.bench.pause(pause_after(in_a_row));
            continue;
        }
        in_a_row = 0;
        found.add(number, &trial);
        if found.is_beyond(max) {
            return Ok(found.search_bound(max));
        }
        let failed = trial.passed != Some(true);
        failures = if failed && number <= min { failures + 1 } else { 0 };
        if failures >= FAILURES && !found.has_passed() || found.is_narrow(search.resolution) {
            break;
        }
    }
    Ok(found.capacity(min))
}

/// What the trials of a search have found.
struct Findings {
    prior: Posterior,
    posterior: Posterior,
    outcomes: Vec<Outcome>,
    /// The numbers of the void trials, and their limiters.
    voids: Vec<(f64, Limiter)>,
    /// Time of that piece of arithmetic at full speed, as far as it was seen, in nanoseconds.
    full_speed_ns: Option<u64>,
}

impl Findings {
    fn new(prior: Posterior) -> Self {
        Findings {
            posterior: prior.clone(),
            prior,
            outcomes: Vec::new(),
            voids: Vec::new(),
            full_speed_ns: None,
        }
    }

    /// Adds a trial. What earlier ones say changes, too, if it has shown that the cores can be faster.
    fn add(&mut self, number: f64, trial: &Trial) {
        let (work_ns, full_speed_ns) = trial.work_times().unzip();
        self.full_speed_ns = self.full_speed_ns.into_iter().chain(full_speed_ns).min();
        let (passed, limiter) = (trial.passed == Some(true), trial.limiter);
        self.outcomes.push(Outcome { number, work_ns, passed, limiter });
        let mut posterior = self.prior.clone();
        for outcome in &self.outcomes {
            posterior.add(self.hard_as(outcome), outcome.passed);
        }
        self.posterior = posterior;
    }

    /// Returns the number of the next trial, after so many void ones in a row: the median of what the capacity may be, on cores as fast as in the
    /// last trial. After some void ones it is lower, and lies where the Tester may keep its schedule: in the middle of the lowest
    /// void number and the highest that passed, or at half of it.
    fn next(&self, voids: u32) -> f64 {
        let share = 0.5f64.powi(1 + (voids / VOIDS) as i32);
        let number = self.posterior.quantile(share) / self.slowness();
        let Some((void, _)) = self.lowest_void().filter(|_| voids >= VOIDS) else { return number };
        let passed = self.passed().map(|outcome| outcome.number).filter(|passed| *passed < void);
        number.min(passed.reduce(f64::max).map_or(void / 2.0, |passed| (passed * void).sqrt()))
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

    /// Returns the outcomes that passed.
    fn passed(&self) -> impl Iterator<Item = &Outcome> {
        self.outcomes.iter().filter(|outcome| outcome.passed)
    }

    fn has_passed(&self) -> bool {
        self.passed().next().is_some()
    }

    /// Whether some trial passed, and some failed.
    fn has_both(&self) -> bool {
        self.has_passed() && self.outcomes.iter().any(|outcome| !outcome.passed)
    }

    /// Whether the capacity lies in a span as wide as the resolution to both sides, with a probability of two thirds.
    fn is_narrow(&self, resolution: f64) -> bool {
        let [low, high] = NARROWED.map(|share| self.posterior.quantile(share));
        self.has_both() && high / low <= (1.0 + resolution).powi(2)
    }

    /// Returns whether P(capacity > highest number of the search) >= 5/6, and a trial has passed there.
    fn is_beyond(&self, max: f64) -> bool {
        let shown = |outcome: &Outcome| self.hard_as(outcome) >= max;
        self.passed().any(shown) && self.posterior.quantile(NARROWED[0]) >= max
    }

    /// Returns the outcome that is nearest to the capacity, of those that passed or of those that failed by a limiter.
    fn nearest(&self, counts: impl Fn(&Outcome) -> bool) -> Option<Outcome> {
        let those = self.outcomes.iter().filter(|outcome| counts(outcome));
        those.min_by(|a, b| self.away(a).total_cmp(&self.away(b))).copied()
    }

    /// Returns the distance of an outcome from the capacity, as a natural logarithm.
    fn away(&self, outcome: &Outcome) -> f64 {
        (self.hard_as(outcome) / self.posterior.quantile(0.5)).ln().abs()
    }

    /// Returns the limiter of most of the failures near the capacity, of several that of the nearest one.
    fn limiter(&self) -> Limiter {
        let failed = |outcome: &&Outcome| !outcome.passed;
        let near = |outcome: &&Outcome| self.away(outcome) <= AROUND;
        let limiters: Vec<Limiter> =
            self.outcomes.iter().filter(failed).filter(near).map(|o| o.limiter).collect();
        let times = |limiter| limiters.iter().filter(|other| **other == limiter).count();
        let most = limiters.iter().map(|limiter| times(*limiter)).max();
        let nearest = self.nearest(|outcome| {
            !outcome.passed && most.is_none_or(|most| times(outcome.limiter) == most)
        });
        nearest.map_or(Limiter::Unknown, |outcome| outcome.limiter)
    }

    /// Returns what is estimated, and from what.
    fn estimate(&self) -> Estimate {
        let [low_qps, high_qps] = REPORTED.map(|share| self.posterior.quantile(share).round());
        let measured = self.outcomes.iter().filter(|outcome| outcome.work_ns.is_some());
        let speeds: Vec<f64> = measured.map(|outcome| 1.0 / self.slowness_in(outcome)).collect();
        Estimate {
            low_qps,
            high_qps,
            passed_qps: self.nearest(|outcome| outcome.passed).map(|outcome| outcome.number),
            speed: stats::mean(&speeds),
        }
    }

    /// Returns the capacity; `min` is the lowest number of the search.
    ///
    /// If void trials ended the search, and none failed near the median, what passed is a lower bound.
    fn capacity(&self, min: f64) -> Capacity {
        let near = |outcome: &Outcome| !outcome.passed && self.away(outcome) <= AROUND;
        let failed_near = self.outcomes.iter().any(near);
        let highest = self.passed().map(|outcome| self.hard_as(outcome)).reduce(f64::max);
        match (highest, self.lowest_void()) {
            (Some(highest), Some((void, limiter))) if !failed_near => {
                self.bound(highest, void, limiter)
            }
            (Some(_), _) => self.estimated(),
            (None, _) => self.none(min),
        }
    }

    /// Returns the lowest number at which the Tester was void, and its limiter.
    fn lowest_void(&self) -> Option<(f64, Limiter)> {
        self.voids.iter().copied().min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// Returns the median of what the capacity may be. If the server did not limit it, the number that the server's lies above with a
    /// probability of 95 % is a lower bound.
    fn estimated(&self) -> Capacity {
        let (estimate, limiter) = (self.estimate(), self.limiter());
        let Estimate { low_qps, high_qps, .. } = estimate;
        let (at_least, by) = (limiter.makes_lower_bound(), limited_by(limiter));
        let median = self.posterior.quantile(0.5).round();
        let (qps, number) = if at_least {
            (low_qps, format!("at least {low_qps:.0} qps"))
        } else {
            (median, format!("{median:.0} qps ({low_qps:.0} to {high_qps:.0} with 90 %)"))
        };
        Capacity {
            qps: Some(qps),
            failed_qps: self.nearest(|o| !o.passed && o.limiter == limiter).map(|o| o.number),
            at_least,
            limiter,
            verdict: format!("{number}{}, {by}", at_full_speed(&estimate)),
            also: Vec::new(),
            estimate: Some(estimate),
        }
    }

    /// Returns the lower bound of a search that void trials ended: the highest number that passed.
    fn bound(&self, highest: f64, void: f64, limiter: Limiter) -> Capacity {
        let why = match limiter {
            Limiter::Unknown => format!("; trials from {void:.0} qps on were void"),
            known => format!("; Tester-limited from {void:.0} qps on ({known})"),
        };
        self.at_least(highest.min(self.posterior.quantile(0.5)).round(), limiter, &why)
    }

    /// Returns that the capacity lies beyond the highest number of the search.
    fn search_bound(&self, max: f64) -> Capacity {
        self.at_least(max, Limiter::SearchBound, ": beyond the search's own upper bound")
    }

    /// Returns a lower bound above which nothing failed, with the end of its verdict.
    fn at_least(&self, qps: f64, limiter: Limiter, why: &str) -> Capacity {
        let estimate = self.estimate();
        Capacity {
            qps: Some(qps),
            failed_qps: None,
            at_least: true,
            limiter,
            verdict: format!("at least {qps:.0} qps{}{why}", at_full_speed(&estimate)),
            also: Vec::new(),
            estimate: Some(estimate),
        }
    }

    /// Returns that no number passed.
    fn none(&self, min: f64) -> Capacity {
        let mut failed: Vec<&Outcome> = self.outcomes.iter().collect();
        failed.sort_by(|a, b| b.number.total_cmp(&a.number));
        let mut bracket = Bracket::default();
        failed.iter().for_each(|outcome| bracket.fail(outcome.number, outcome.limiter));
        if let Some((number, limiter)) = self.lowest_void() {
            bracket.add_void(number, limiter);
        }
        bracket.verdict(min)
    }
}

/// Returns for a verdict that a number is for full speed of the server's cores, and what they had of it; empty if they had all, and where
/// it was not measured.
fn at_full_speed(estimate: &Estimate) -> String {
    let percent = estimate.speed.map(|speed| (speed * 100.0).round());
    percent.filter(|percent| *percent < 100.0).map_or_else(String::new, |percent| {
        format!(" at full speed of the server's cores, of which they had {percent} %")
    })
}
