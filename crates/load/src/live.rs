//! What workers show while a trial runs: counters for a progress line, and the verdict that ends it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

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

#[cfg(test)]
mod tests {
    use measure::Nanos;

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
