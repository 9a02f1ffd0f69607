//! What workers show while a trial runs: counters for a progress line, and the verdict that ends it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use measure::{Goal, Histogram, Nanos};

use crate::plan::Plan;
use crate::tally::Tally;

/// The bounds of the latencies in [`Live`]: 1, 2 and 5 of each power of ten, from 1 µs to the 100 s that a
/// histogram holds at most.
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

/// Counters of a running trial; one for all its workers, who add to it every millisecond or so.
#[derive(Debug, Default)]
pub struct Live {
    /// Queries sent.
    pub sent: AtomicU64,
    /// Replies in time.
    pub answered: AtomicU64,
    /// Valid ones among them.
    pub valid: AtomicU64,
    /// Queries without a reply in time.
    pub lost: AtomicU64,
    /// Queries without a valid reply in time: a counter of its own, since a difference of counters
    /// that are read one after the other may be too large.
    pub bad: AtomicU64,
    /// Replies by the least of [`LATENCY_BOUNDS`] that is not below their latency; counted only where
    /// [`Live::watched`] says so.
    pub latency: [AtomicU64; LATENCY_BOUNDS.len()],
    /// Whether anybody looks at the latencies. To count them costs a worker some 20 µs each time.
    pub watched: bool,
    /// Whether a worker has seen that the goal is missed for certain: all end the trial.
    pub failed: AtomicBool,
}

/// One worker's way to [`Live`]: adds what is new.
#[derive(Debug)]
pub(crate) struct Publisher {
    live: Arc<Live>,
    shown: [u64; 5],
    latency: [u64; LATENCY_BOUNDS.len()],
    /// When the latencies are shown again.
    next: Nanos,
}

impl Publisher {
    pub(crate) fn new(live: Arc<Live>) -> Self {
        Publisher { live, shown: [0; 5], latency: Default::default(), next: Nanos::ZERO }
    }

    /// Adds what `tally` counted since the last time.
    pub(crate) fn publish(&mut self, tally: &Tally) -> &Live {
        let live = &*self.live;
        let counters = [&live.sent, &live.answered, &live.valid, &live.lost, &live.bad];
        let counts = [tally.sent, tally.answered, tally.valid, tally.lost, tally.bad()];
        for ((counter, shown), count) in counters.into_iter().zip(&mut self.shown).zip(counts) {
            if count > *shown {
                counter.fetch_add(count - *shown, Relaxed);
                *shown = count;
            }
        }
        live
    }

    /// Adds the latencies too, a few times a second, where they are looked at.
    pub(crate) fn publish_latency(&mut self, now: Nanos, tally: &Tally) {
        if !self.live.watched || now < self.next {
            return;
        }
        self.next = now + LATENCY_INTERVAL;
        let counts = coarse(&tally.latency);
        for ((counter, shown), count) in self.live.latency.iter().zip(&mut self.latency).zip(counts)
        {
            if count > *shown {
                counter.fetch_add(count - *shown, Relaxed);
                *shown = count;
            }
        }
    }
}

/// Counts of a histogram between [`LATENCY_BOUNDS`]; what shares a bucket with a bound is below it.
fn coarse(times: &Histogram) -> [u64; LATENCY_BOUNDS.len()] {
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

/// How often latencies are shown.
const LATENCY_INTERVAL: Nanos = Nanos::from_millis(250);

/// How often the goal's latencies are looked at.
const GOAL_INTERVAL: Nanos = Nanos::from_millis(100);

/// Shows one worker's counters, and looks whether the goal is missed for certain.
#[derive(Debug)]
pub(crate) struct GoalWatch {
    publisher: Publisher,
    goal: Option<Goal>,
    /// What the goal's shares refer to: at least what all workers send.
    queries: u64,
    next: Nanos,
}

impl GoalWatch {
    pub(crate) fn new(plan: &Plan, live: Arc<Live>) -> Self {
        GoalWatch {
            publisher: Publisher::new(live),
            goal: plan.stop_at.clone(),
            queries: plan.most_queries().unwrap_or(u64::MAX),
            next: Nanos::ZERO,
        }
    }

    /// Shows the counters.
    pub(crate) fn show(&mut self, tally: &Tally) {
        self.publisher.publish(tally);
    }

    /// Shows the counters; whether the goal is missed for certain by all workers together, whatever
    /// the rest brings. (Of the latencies, each worker knows its own: a verdict on these is certain
    /// too, and later than it could be.)
    pub(crate) fn is_lost(&mut self, now: Nanos, tally: &Tally) -> bool {
        self.publisher.publish_latency(now, tally);
        let live = self.publisher.publish(tally);
        let Some(goal) = &self.goal else { return false };
        let bad = live.bad.load(Relaxed);
        let mut lost = live.failed.load(Relaxed) || goal.lost_too_many(self.queries, bad);
        if !lost && !goal.latency.is_empty() && now >= self.next {
            self.next = now + GOAL_INTERVAL;
            lost = goal.too_slow(self.queries, &tally.latency);
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
    fn latencies_are_counted_between_round_numbers_where_they_are_looked_at() {
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
                    worker.publish_latency(Nanos::from_millis(at), &tally);
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
    fn workers_add_up() {
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
