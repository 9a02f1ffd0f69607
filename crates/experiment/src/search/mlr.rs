//! The search by [`MlrSearch`]: its trials on the bench, and its bounds as a capacity.

use measure::{Goal, Limiter, Nanos};
use record::{Capacity, GoalCapacity, Trial};

use super::binary::{STEP, up};
use super::bracket::Bracket;
use super::spec::{RESOLUTION, Search};
use super::trials::Trials;
use crate::bench::BenchError;
use crate::mlrsearch::{MlrGoal, MlrResult, MlrSearch};

/// Share of the duration sum whose trials may exceed the loss: half, as in FD.io CSIT.
const EXCEED_SHARE: f64 = 0.5;

/// A rate at which the Tester is void is followed by one lower by this factor.
const STEP_DOWN: f64 = 1.5;

/// Least factor between the ends of a range.
const RANGE: f64 = 1.001;

/// Longest trial by which the range is found.
const MAX_RANGE_TRIAL: Nanos = Nanos::from_secs(1);

/// Runs the search for the search's goal and the goals in `also`. MLRsearch begins at the highest
/// rate: that is the first one that fails of doubled ones from the start rate on. If it passes
/// after all, the range is extended. If the Tester does not reach it, the range ends below it, and
/// the search starts again. A rate that stays void although the Tester reached it before must have
/// been disturbed: the search ends there, since lower rates are no answer to it.
pub(super) fn run(
    trials: &mut Trials<'_>,
    also: &[Goal],
    duration_sum: Nanos,
) -> Result<Capacity, BenchError> {
    let search = trials.search;
    let (min, max) = search.range();
    let goals: Vec<&Goal> = std::iter::once(&search.goal).chain(also).collect();
    let wanted: Vec<MlrGoal> =
        goals.iter().map(|goal| mlr_goal(search, goal, duration_sum)).collect();
    let mut void = None;
    let mut top = match first_failing(trials)? {
        (rate, None) => rate,
        (_, Some(stop)) => {
            void = Some((stop.rate, stop.limiter));
            stop.next().max(min)
        }
    };
    loop {
        let (results, stopped) = within(trials, &goals, &wanted, top)?;
        let best = results[0].lower;
        let Some(stop) = stopped else {
            let beyond = void.is_none() && results.iter().any(|result| result.upper.is_none());
            if beyond && top < max && !trials.are_too_many() {
                top = up(top, STEP, max);
                continue;
            }
            return Ok(capacity(trials, &goals, &results, void));
        };
        void = Some((stop.rate, stop.limiter));
        let ends = trials.reached(stop.rate) || trials.are_too_many();
        // The lowest rate is tried, too.
        let next = stop.next().max(min);
        if ends || best.is_some_and(|best| next <= best) || stop.rate <= min * RANGE {
            return Ok(capacity(trials, &goals, &results, void));
        }
        top = next;
    }
}

/// Returns the first rate that does not pass, of doubled ones from the start rate, or from the highest that is expected; the highest rate of the search if all pass.
fn first_failing(trials: &mut Trials<'_>) -> Result<(f64, Option<StopRate>), BenchError> {
    let search = trials.search;
    let max = search.range().1;
    let mut rate = search.expected.map_or_else(|| search.start_of(trials.repeat), |[_, high]| high);
    loop {
        let trial = trials.settled(rate, search.duration.min(MAX_RANGE_TRIAL), true)?;
        if trial.void.is_void() {
            return Ok((rate, Some(StopRate::at(rate, &trial))));
        }
        if trial.passed != Some(true) || rate >= max {
            return Ok((rate, None));
        }
        rate = up(rate, STEP, max);
    }
}

/// A rate at which the Tester stayed void.
struct StopRate {
    rate: f64,
    limiter: Limiter,
    /// Sent queries per second.
    sent_qps: f64,
}

impl StopRate {
    fn at(rate: f64, trial: &Trial) -> Self {
        StopRate { rate, limiter: trial.limiter, sent_qps: trial.achieved_qps() }
    }

    /// Returns the next rate: what the Tester sent in the void trial is about what it can send.
    fn next(&self) -> f64 {
        (self.rate / STEP_DOWN).min(self.sent_qps).round()
    }
}

/// Searches up to `max`, in queries a second, until the Tester is void. Returns the results so far, and the void rate.
fn within(
    trials: &mut Trials<'_>,
    goals: &[&Goal],
    wanted: &[MlrGoal],
    max: f64,
) -> Result<(Vec<MlrResult>, Option<StopRate>), BenchError> {
    let min = trials.search.min.get();
    // A range without width has one rate, and a checked experiment has valid goals.
    let mut mlr = MlrSearch::new(min, max.max(min * RANGE), wanted)
        .map_err(|e| BenchError::Failed(e.to_string()))?;
    while let Some(next) = mlr.next() {
        if trials.are_too_many() {
            break;
        }
        let duration = Nanos((next.duration_s * 1e9) as u64);
        let trial = trials.settled(next.rate, duration, false)?;
        if trial.void.is_void() {
            return Ok((mlr.results(), Some(StopRate::at(next.rate, &trial))));
        }
        mlr.add(loss(&trial, goals), next.duration_s);
    }
    Ok((mlr.results(), None))
}

/// Returns the capacity of the first goal, with the results of all goals in it.
fn capacity(
    trials: &Trials<'_>,
    goals: &[&Goal],
    results: &[MlrResult],
    void: Option<(f64, Limiter)>,
) -> Capacity {
    let of_goal = |(goal, result): (&&Goal, &MlrResult)| GoalCapacity {
        goal: goal.to_string(),
        qps: result.lower,
        failed_qps: result.upper,
        conditional_qps: result.conditional_throughput,
    };
    let also = goals.iter().zip(results).map(of_goal).collect();
    let first = results[0];
    let bracket = Bracket {
        passed: first.lower,
        failures: first
            .upper
            .map(|rate| (rate, limiter_at(trials, rate, goals[0])))
            .into_iter()
            .collect(),
        voids: void.into_iter().collect(),
    };
    Capacity { also, ..bracket.verdict(trials.search.min.get()) }
}

/// Converts a goal to MLRsearch's terms.
fn mlr_goal(search: &Search, goal: &Goal, duration_sum: Nanos) -> MlrGoal {
    let trial_s = search.duration.as_secs_f64();
    MlrGoal {
        loss_ratio: goal.max_loss.min(0.99),
        exceed_ratio: EXCEED_SHARE,
        width: search.resolution.clamp(*RESOLUTION.start(), *RESOLUTION.end()),
        initial_trial_s: trial_s,
        final_trial_s: trial_s,
        duration_sum_s: duration_sum.as_secs_f64().max(trial_s),
        ..MlrGoal::default()
    }
}

/// Returns the share of planned queries without a valid answer; 1 if the trial misses a latency bound that every goal
/// has, or if the server did not keep up with the rate until the end.
fn loss(trial: &Trial, goals: &[&Goal]) -> f64 {
    let planned = trial.planned.max(1);
    let lost = planned.saturating_sub(trial.valid) as f64 / planned as f64;
    let histogram = trial.latency_us.histogram();
    let slow = |goal: &&Goal| histogram.as_ref().is_ok_and(|h| goal.too_slow(planned, h));
    if goals.iter().all(slow) || !trial.is_sustained() { 1.0 } else { lost }
}

/// Returns the limiter of the failing trials at a rate, if they agree.
fn limiter_at(trials: &Trials<'_>, rate: f64, goal: &Goal) -> Limiter {
    let failing = trials.run.iter().filter(|record| {
        let same = (record.rate_qps - rate).abs() <= 1e-9 * rate;
        same && !record.trial.void.is_void() && loss(&record.trial, &[goal]) > goal.max_loss
    });
    let mut limiters = failing.map(|record| record.trial.limiter);
    let first = limiters.next().unwrap_or(Limiter::Unknown);
    if limiters.all(|limiter| limiter == first) { first } else { Limiter::Unknown }
}
