//! State that the workers of an AuthDNS share: the time of the start, and the token bucket of its capacity.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use measure::Nanos;

use crate::behaviour::{Capacity, Stall};

/// Units of the bucket per nanosecond: an interval of 200 ns (5 million answers per second) is exact to 5 in a million.
const UNITS: u64 = 1 << 10;
/// The value of a start that has not been.
const NOT_STARTED: u64 = u64::MAX;

/// The start and the bucket, for all workers together.
#[derive(Debug)]
pub(crate) struct SharedStart {
    /// Time of the first call of a worker, on the engines' clock, in nanoseconds.
    start: AtomicU64,
    /// Time at which the bucket is full again, in units since the start (the theoretical arrival time of GCRA, ITU-T
    /// I.371).
    full_at: AtomicU64,
    /// Units from one token to the next; 0 without a capacity.
    interval: u64,
    /// Largest lead of `full_at` at which there is a token, in units.
    lead: u64,
    stall: Option<Stall>,
}

impl SharedStart {
    /// Returns a full bucket that starts with the first call.
    pub(crate) fn new(capacity: Option<Capacity>, stall: Option<Stall>) -> Arc<Self> {
        let interval = capacity.map_or(0, |c| (1e9 / c.rate.get() * UNITS as f64).round() as u64);
        let burst = capacity.map_or(1, |c| u64::from(c.burst.max(1)));
        Arc::new(SharedStart {
            start: AtomicU64::new(NOT_STARTED),
            full_at: AtomicU64::new(0),
            interval,
            lead: interval.saturating_mul(burst - 1),
            stall,
        })
    }

    /// Takes `now` as the start, if there is none yet; returns the start.
    #[inline]
    pub(crate) fn start(&self, now: Nanos) -> Nanos {
        let order = Ordering::Relaxed;
        match self.start.load(order) {
            NOT_STARTED => {
                let start = self.start.compare_exchange(NOT_STARTED, now.0, order, order);
                Nanos(start.map_or_else(|earlier| earlier, |_| now.0))
            }
            start => Nanos(start),
        }
    }

    /// Takes a token at `since_start`; returns whether one was left; always true without a
    /// capacity.
    #[inline]
    pub(crate) fn take(&self, since_start: Nanos) -> bool {
        if self.interval == 0 {
            return true;
        }
        let now = since_start.0.saturating_mul(UNITS);
        let advance = |full_at: u64| {
            let full_at = full_at.max(now);
            (full_at - now <= self.lead).then(|| full_at.saturating_add(self.interval))
        };
        self.full_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, advance).is_ok()
    }

    /// Returns the end of the stall that contains a time since the start; the time itself outside
    /// of a stall.
    #[inline]
    pub(crate) fn resume(&self, since_start: Nanos) -> Nanos {
        self.stall.map_or(since_start, |stall| stall.resume(since_start))
    }

    #[inline]
    pub(crate) fn stall(&self) -> Option<Stall> {
        self.stall
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(text: &str) -> Arc<SharedStart> {
        SharedStart::new(Some(text.parse().expect(text)), None)
    }

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let bucket = bucket("1k:5");
        let at = |us: u64| bucket.take(Nanos::from_micros(us));
        assert_eq!((0..8).filter(|_| at(0)).count(), 5, "the burst");
        assert!(!at(999), "the next token is not there");
        assert!(at(1_000) && !at(1_000), "one token each millisecond");
        assert_eq!((0..8).filter(|_| at(3_500)).count(), 2, "two milliseconds");
        assert_eq!((0..8).filter(|_| at(60_000_000)).count(), 5, "never more than the burst");
    }

    #[test]
    fn the_rate_is_exact_over_millions_of_queries() {
        // A bucket of one token takes a query only after a whole interval; two tokens make up for the distance of
        // queries.
        for (text, offered, rate, seconds) in
            [("30k:2", 7_000, 30e3, 20), ("30k:300", 7_000, 30e3, 20), ("3M:2", 111, 3e6, 1)]
        {
            let bucket = bucket(text);
            let count = (0..seconds * 1_000_000_000 / offered)
                .filter(|k| bucket.take(Nanos(k * offered)))
                .count();
            let wanted = rate * seconds as f64;
            let error = (count as f64 - wanted) / wanted;
            assert!(error.abs() < 6e-4, "{text}: {count}, not {wanted}");
        }
    }

    #[test]
    fn workers_share_one_bucket_and_one_start() {
        let bucket = bucket("1M:1000");
        let taken: usize = std::thread::scope(|scope| {
            let take = || (0..1_000).filter(|_| bucket.take(Nanos::ZERO)).count();
            let workers = [(); 4].map(|()| scope.spawn(take));
            workers.into_iter().map(|worker| worker.join().expect("no panics")).sum()
        });
        assert_eq!(taken, 1_000);
        assert_eq!(bucket.start(Nanos(7)), Nanos(7));
        assert_eq!(bucket.start(Nanos(9)), Nanos(7), "the first one stays");
    }
}
