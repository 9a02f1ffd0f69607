//! Number of outstanding queries at regular instants of a trial, counted by their replies: a query that was
//! answered in time was outstanding at each instant between its due time and its reply.

use measure::{Nanos, Outstanding, Qps};

/// Smallest number of instants in a trial; there are fewer than twice as many.
const MIN_AT: u64 = 32;

/// Counts of outstanding queries at the multiples of a power of two nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OutstandingCounts {
    /// Logarithm of the time between two instants.
    shift: u32,
    counts: Vec<u64>,
}

impl OutstandingCounts {
    /// Makes the counts of a trial that sends for `duration`.
    pub(crate) fn new(duration: Nanos) -> Self {
        // The shift makes the step the largest power of two of which `duration` has 32.
        let shift = (duration.0 / MIN_AT).max(1).ilog2();
        OutstandingCounts { shift, counts: vec![0; (duration.0 >> shift) as usize + 1] }
    }

    /// Adds a query that was due at `due` and was answered in time at `at`.
    #[inline]
    pub(crate) fn add(&mut self, due: Nanos, at: Nanos) {
        let (first, last) = (due.0 >> self.shift, at.0 >> self.shift);
        if first != last {
            self.add_span(first as usize + 1, last as usize);
        }
    }

    fn add_span(&mut self, first: usize, last: usize) {
        let end = (last + 1).min(self.counts.len());
        if let Some(counts) = self.counts.get_mut(first..end) {
            counts.iter_mut().for_each(|count| *count += 1);
        }
    }

    /// Returns the binary logarithm of the time between two instants in nanoseconds, and the number of instants.
    pub(crate) fn instants(&self) -> (u32, usize) {
        (self.shift, self.counts.len())
    }

    /// Adds queries that were counted at the same instants elsewhere.
    pub(crate) fn add_counts(&mut self, counts: &[u64]) {
        self.counts.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }

    /// Adds the counts of another worker of the same trial.
    pub(crate) fn merge(&mut self, other: &OutstandingCounts) {
        for (a, b) in self.counts.iter_mut().zip(&other.counts) {
            *a += b;
        }
    }

    /// Returns the numbers of a trial that sent for `duration` at `rate`.
    pub(crate) fn numbers(&self, duration: Nanos, rate: Qps) -> Option<Outstanding> {
        Outstanding::new(&self.counts, Nanos(1 << self.shift), duration, rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    #[test]
    fn a_query_counts_at_the_instants_while_it_is_outstanding() {
        let mut counts = OutstandingCounts::new(MS(1_000));
        // 2^24 ns are 16.8 ms: 60 instants.
        assert_eq!((counts.shift, counts.counts.len()), (24, 60));
        counts.add(MS(1), MS(16));
        counts.add(MS(16), MS(17));
        counts.add(MS(17), MS(51));
        counts.add(MS(990), MS(2_000));
        counts.add(MS(3_000), MS(4_000));
        let found: Vec<usize> = (0..60).filter(|i| counts.counts[*i] > 0).collect();
        assert_eq!(found, [1, 2, 3]);
        let twice = counts.clone();
        counts.merge(&twice);
        assert_eq!(counts.counts[..4], [0, 2, 2, 2]);
    }

    #[test]
    fn every_duration_has_instants() {
        for duration in [Nanos(0), Nanos(1), Nanos(100), MS(1), MS(60_000), Nanos(1 << 60)] {
            let counts = OutstandingCounts::new(duration).counts.len() as u64;
            assert!(counts <= 2 * MIN_AT + 1 && counts > MIN_AT.min(duration.0), "{duration}");
        }
    }
}
