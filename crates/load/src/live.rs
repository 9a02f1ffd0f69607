//! What workers show while a trial runs: counters for a progress line, and the verdict that ends it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use measure::{Goal, Nanos};

use crate::plan::Plan;
use crate::tally::Tally;

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
    /// Whether a worker has seen that the goal is missed for certain: all end the trial.
    pub failed: AtomicBool,
}

/// One worker's way to [`Live`]: adds what is new.
#[derive(Debug)]
pub(crate) struct Publisher {
    live: Arc<Live>,
    shown: [u64; 5],
}

impl Publisher {
    pub(crate) fn new(live: Arc<Live>) -> Self {
        Publisher { live, shown: [0; 5] }
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
}

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
