//! Live state that workers publish during a trial: counters for a progress line, and whether the
//! goal can still be met.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use measure::{Goal, Histogram, Nanos};
use wire::Invalid;

use crate::plan::Plan;
use crate::tally::Tally;

/// Upper bounds of the latency classes in [`Live`]: 1, 2 and 5 times each power of ten, from 1 µs to 100 s,
/// the longest time of a histogram.
pub const LATENCY_BOUNDS: [Nanos; 25] = {
    let mut bounds = [Nanos(0); 25];
    let (mut i, mut power) = (0, 1_000);
    while i < bounds.len() {
        bounds[i] = Nanos([1, 2, 5][i % 3] * power);
        i += 1;
        if i.is_multiple_of(3) {
            power *= 10;
        }
    }
    bounds
};

/// Counters of a running trial. All workers add to the same counters about every millisecond.
#[derive(Debug)]
pub struct Live {
    /// Start that several Testers have agreed on, in nanoseconds since 1970; 0 without one, or before it is known.
    pub agreed_ns: AtomicU64,
    /// Number of queries that left.
    pub sent: AtomicU64,
    /// Replies in time, valid or not.
    pub answered: AtomicU64,
    /// Number of valid replies among `answered`.
    pub valid: AtomicU64,
    /// Queries without a reply in time.
    pub lost: AtomicU64,
    /// Queries without a valid reply in time. This is a separate counter, since a difference of counters that
    /// are read one after the other may be too large.
    pub bad: AtomicU64,
    /// Invalid replies by reason ([`Invalid::index`]).
    pub invalid: [AtomicU64; Invalid::COUNT],
    /// Replies by the smallest of [`LATENCY_BOUNDS`] that is at least their latency; counted only if
    /// [`Live::watched`].
    pub latency: [AtomicU64; LATENCY_BOUNDS.len()],
    /// Whether the latencies are displayed. Counting them costs a worker about 20 µs each time.
    pub watched: bool,
    /// Whether a worker has found that the goal cannot be met: all workers then end the trial.
    pub failed: AtomicBool,
    /// Name of each of several Testers, its queries sent, and its queries without a valid reply in
    /// time.
    pub testers: Mutex<Vec<(String, u64, u64)>>,
    /// Outcome of each query, if the command prints them.
    pub journal: Option<Journal>,
}

impl Default for Live {
    fn default() -> Self {
        Live {
            agreed_ns: AtomicU64::default(),
            sent: AtomicU64::default(),
            answered: AtomicU64::default(),
            valid: AtomicU64::default(),
            lost: AtomicU64::default(),
            bad: AtomicU64::default(),
            invalid: [const { AtomicU64::new(0) }; Invalid::COUNT],
            latency: Default::default(),
            watched: false,
            failed: AtomicBool::default(),
            testers: Mutex::default(),
            journal: None,
        }
    }
}

/// Largest number of outcomes that wait to be read.
const MAX_WAITING: usize = 1 << 20;

/// Outcome of a query, for commands that print each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryOutcome {
    /// Key of the query in its workload.
    pub key: u32,
    /// Return code of the reply; `None` without a reply in time.
    pub rcode: Option<u8>,
    /// Time from sent to reply, or the timeout.
    pub latency: Nanos,
}

/// Outcomes of single queries, from all workers, until they are read. It costs each of them a lock.
#[derive(Debug, Default)]
pub struct Journal {
    waiting: Mutex<Vec<QueryOutcome>>,
    left_out: AtomicU64,
}

impl Journal {
    /// Adds an outcome; it is discarded if too many are queued.
    pub(crate) fn add(&self, entry: QueryOutcome) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < MAX_WAITING {
            waiting.push(entry);
        } else {
            self.left_out.fetch_add(1, Relaxed);
        }
    }

    /// Removes the queued outcomes and returns them in order.
    pub fn take(&self) -> Vec<QueryOutcome> {
        std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the number of outcomes that were discarded.
    pub fn left_out(&self) -> u64 {
        self.left_out.load(Relaxed)
    }
}

/// Adds the counts of one worker to [`Live`].
#[derive(Debug)]
pub(crate) struct Publisher {
    live: Arc<Live>,
    published: [u64; 5],
    invalid: [u64; Invalid::COUNT],
    latency: [u64; LATENCY_BOUNDS.len()],
    /// Time at which the latencies are published again.
    next: Nanos,
}

impl Publisher {
    pub(crate) fn new(live: Arc<Live>) -> Self {
        Publisher {
            live,
            published: [0; 5],
            invalid: [0; Invalid::COUNT],
            latency: Default::default(),
            next: Nanos::ZERO,
        }
    }

    /// Adds the counts of `tally` since the last call.
    pub(crate) fn publish(&mut self, tally: &Tally) -> &Live {
        let live = &*self.live;
        let counters = [&live.sent, &live.answered, &live.valid, &live.lost, &live.bad];
        let counts = [tally.sent, tally.answered, tally.valid, tally.lost, tally.bad()];
        add(counters, &mut self.published, counts);
        add(&live.invalid, &mut self.invalid, tally.invalid);
        live
    }

    /// Adds the latencies too, a few times a second, if they are displayed.
    pub(crate) fn publish_latency(&mut self, now: Nanos, latency: &Histogram) {
        if !self.live.watched || now < self.next {
            return;
        }
        self.next = now + LATENCY_INTERVAL;
        add(&self.live.latency, &mut self.latency, count_by_bounds(latency));
    }
}

/// Adds to each counter the growth of its count since the last call.
fn add<'a>(
    counters: impl IntoIterator<Item = &'a AtomicU64>,
    published: &mut [u64],
    counts: impl IntoIterator<Item = u64>,
) {
    for ((counter, published), count) in counters.into_iter().zip(published).zip(counts) {
        if count > *published {
            counter.fetch_add(count - *published, Relaxed);
            *published = count;
        }
    }
}

/// Counts the times of a histogram by [`LATENCY_BOUNDS`]; a bucket that contains a bound counts as below it.
fn count_by_bounds(times: &Histogram) -> [u64; LATENCY_BOUNDS.len()] {
    let mut counts = [0; LATENCY_BOUNDS.len()];
    let mut place = 0;
    for [least, _, count] in times.spans() {
        while place + 1 < LATENCY_BOUNDS.len() && LATENCY_BOUNDS[place].0 < least {
            place += 1;
        }
        counts[place] += count;
    }
    counts
}

/// Interval at which latencies are published.
const LATENCY_INTERVAL: Nanos = Nanos::from_millis(250);

/// Interval at which the goal's latency bounds are checked.
const GOAL_INTERVAL: Nanos = Nanos::from_millis(100);

/// Publishes one worker's counters and checks whether the goal can still be met.
#[derive(Debug)]
pub(crate) struct GoalWatch {
    publisher: Publisher,
    goal: Option<Goal>,
    /// Number of queries to which the goal's shares refer: at least as many as all workers send.
    queries: u64,
    next: Nanos,
}

impl GoalWatch {
    pub(crate) fn new(plan: &Plan, live: Arc<Live>) -> Self {
        GoalWatch {
            publisher: Publisher::new(live),
            goal: plan.stop_at.clone(),
            queries: plan.pacing.most_queries(plan.duration, plan.workers).unwrap_or(u64::MAX),
            next: Nanos::ZERO,
        }
    }

    /// Publishes the counters for the other workers and the display.
    pub(crate) fn show(&mut self, tally: &Tally) {
        self.publisher.publish(tally);
    }

    /// Returns whether latencies are looked at while the load runs.
    pub(crate) fn needs_latencies(&self) -> bool {
        let of_goal = self.goal.as_ref().is_some_and(|goal| !goal.latency.is_empty());
        of_goal || self.publisher.live.watched
    }

    /// Publishes the counters; returns whether all workers together can no longer meet the goal. Each worker
    /// knows only its own latencies: a missed latency bound is certain, but it is found later than with the
    /// latencies of all workers.
    pub(crate) fn goal_missed(&mut self, now: Nanos, tally: &Tally) -> bool {
        self.goal_missed_by(now, tally, &tally.latency)
    }

    /// As `goal_missed`, for latencies that are not in the tally.
    pub(crate) fn goal_missed_by(
        &mut self,
        now: Nanos,
        tally: &Tally,
        latency: &Histogram,
    ) -> bool {
        self.publisher.publish_latency(now, latency);
        let live = self.publisher.publish(tally);
        let Some(goal) = &self.goal else { return false };
        let bad = live.bad.load(Relaxed);
        let mut lost = live.failed.load(Relaxed) || goal.lost_too_many(self.queries, bad);
        if !lost && !goal.latency.is_empty() && now >= self.next {
            self.next = now + GOAL_INTERVAL;
            lost = goal.too_slow(self.queries, latency);
        }
        if lost {
            live.failed.store(true, Relaxed);
        }
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_counted_by_bounds_if_displayed() {
        let bounds = LATENCY_BOUNDS.map(|bound| bound.0);
        assert_eq!(bounds[..5], [1_000, 2_000, 5_000, 10_000, 20_000]);
        assert_eq!(bounds[24], 100_000_000_000);
        let watched = Arc::new(Live { watched: true, ..Live::default() });
        let mut tally = Tally::new(Nanos::from_secs(1));
        for us in [1, 3, 3, 100, 101, 7_000, 200_000_000] {
            tally.latency.record(Nanos::from_micros(us));
        }
        for live in [&watched, &Arc::default()] {
            let mut workers: Vec<_> = (0..2).map(|_| Publisher::new(live.clone())).collect();
            for at in [0, 1, 300] {
                for worker in &mut workers {
                    worker.publish_latency(Nanos::from_millis(at), &tally.latency);
                }
            }
        }
        let seen = watched.latency.iter().map(|counter| counter.load(Relaxed));
        let found: Vec<(u64, u64)> =
            bounds.map(|b| b / 1_000).into_iter().zip(seen).filter(|(_, n)| *n > 0).collect();
        let wanted = [(1, 2), (5, 4), (100, 2), (200, 2), (10_000, 2), (100_000_000, 2)];
        assert_eq!(found, wanted);
    }

    #[test]
    fn counters_of_workers_add_up() {
        let live = Arc::new(Live::default());
        let mut workers: Vec<_> = (0..2).map(|_| Publisher::new(live.clone())).collect();
        let mut tally = Tally::new(Nanos::from_secs(1));
        for round in 1..=3 {
            (tally.sent, tally.answered, tally.valid, tally.lost) =
                (10 * round, 8 * round, 7 * round, 2 * round);
            for worker in &mut workers {
                worker.publish(&tally);
                worker.publish(&tally);
            }
        }
        let seen = [&live.sent, &live.answered, &live.valid, &live.lost, &live.bad];
        assert_eq!(seen.map(|counter| counter.load(Relaxed)), [60, 48, 42, 12, 18]);
    }
}
