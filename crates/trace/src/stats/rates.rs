//! Number of messages in each window of time, and as a series over time.

use measure::Nanos;

/// Largest number of bins in a series.
pub(crate) const MAX_BINS: usize = 1_024;
/// Largest count of a window that is kept exactly; larger ones have a resolution of 1/128.
const MAX_EXACT: u64 = 1 << 12;
/// Number of significant bits of a count above [`MAX_EXACT`].
const DIGITS: u32 = 8;

/// Counts of messages in windows and in bins, over time.
#[derive(Clone, Debug)]
pub struct Rates {
    window: Nanos,
    /// Number and count of the current window.
    current: Option<(u64, u64)>,
    /// Number of windows by their count, see [`bucket`].
    counts: Vec<u64>,
    windows: u64,
    most: u64,
    series: Series,
}

/// A series of counts in bins of equal length, which doubles when there are too many bins.
#[derive(Clone, Debug)]
struct Series {
    length: Nanos,
    /// The number of the first bin: its start time divided by the length.
    first: u64,
    bins: Vec<u64>,
}

impl Rates {
    /// Returns empty counts with windows of this length.
    ///
    /// # Panics
    /// If the window length is zero.
    pub fn new(window: Nanos) -> Self {
        assert!(window > Nanos::ZERO, "the length of a window is zero");
        let series = Series { length: Nanos::from_millis(100), first: 0, bins: Vec::new() };
        Rates { window, current: None, counts: Vec::new(), windows: 0, most: 0, series }
    }

    /// Counts a message; one from before the current window is counted in it.
    #[inline]
    pub fn add(&mut self, at: Nanos) {
        self.series.add(at);
        let number = at.0 / self.window.0;
        match &mut self.current {
            Some((current, count)) if number <= *current => *count += 1,
            _ => self.next_window(number),
        }
    }

    /// Ends the current window and starts another with one message.
    #[cold]
    fn next_window(&mut self, number: u64) {
        if let Some((last, count)) = self.current {
            self.close(count, 1);
            if number > last + 1 {
                self.close(0, number - last - 1);
            }
        }
        self.current = Some((number, 1));
    }

    /// Counts finished windows with this number of messages each.
    fn close(&mut self, count: u64, windows: u64) {
        let bucket = bucket(count);
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += windows;
        self.windows += windows;
        self.most = self.most.max(count);
    }

    /// Returns the messages per second that this share of the windows does not exceed; 0 without messages.
    pub fn quantile(&self, quantile: f64) -> f64 {
        let mut all = self.clone();
        if let Some((_, count)) = all.current.take() {
            all.close(count, 1);
        }
        let rank = ((all.windows as f64 * quantile).ceil() as u64).max(1);
        let mut seen = 0;
        let found = all.counts.iter().position(|windows| {
            seen += windows;
            seen >= rank
        });
        found
            .map_or(0.0, |bucket| count_of(bucket).min(all.most) as f64 / self.window.as_secs_f64())
    }

    /// Returns the number of messages.
    pub fn messages(&self) -> u64 {
        self.series.bins.iter().sum()
    }

    /// Returns the messages per second of the fullest window.
    pub fn max(&self) -> f64 {
        let current = self.current.map_or(0, |(_, count)| count);
        self.most.max(current) as f64 / self.window.as_secs_f64()
    }
}

impl Series {
    #[inline]
    /// Counts a message in the bin of its time.
    fn add(&mut self, at: Nanos) {
        if self.bins.is_empty() {
            self.first = at.0 / self.length.0;
        }
        // A message older than the first counts in the first bin.
        let mut bin = (at.0 / self.length.0).saturating_sub(self.first);
        while bin >= MAX_BINS as u64 {
            self.double();
            bin = (at.0 / self.length.0).saturating_sub(self.first);
        }
        if self.bins.len() <= bin as usize {
            self.bins.resize(bin as usize + 1, 0);
        }
        self.bins[bin as usize] += 1;
    }

    /// Doubles the length of the bins.
    fn double(&mut self) {
        let odd = self.first % 2;
        let mut bins = vec![0; (self.bins.len() + odd as usize).div_ceil(2)];
        for (number, count) in self.bins.iter().enumerate() {
            bins[(number + odd as usize) / 2] += count;
        }
        *self =
            Series { length: Nanos(self.length.0.saturating_mul(2)), first: self.first / 2, bins };
    }
}

/// Converts both series to the same bins; returns the length of a bin, the start of the first bin, and the counts of queries and of
/// replies in each bin.
pub(super) fn series(queries: &Rates, replies: &Rates) -> (Nanos, Nanos, [Vec<u64>; 2]) {
    let (mut queries, mut replies) = (queries.series.clone(), replies.series.clone());
    loop {
        let filled = [&queries, &replies].into_iter().filter(|series| !series.bins.is_empty());
        let first = filled.clone().map(|s| s.first).min().unwrap_or(0);
        let end = filled.map(|s| s.first + s.bins.len() as u64).max().unwrap_or(0);
        let long_enough = end - first.min(end) <= MAX_BINS as u64;
        if queries.length == replies.length && long_enough {
            let (length, start) = (queries.length, first.saturating_mul(queries.length.0));
            let bins = [queries, replies].map(|series| {
                let mut bins = vec![0; (end - first) as usize];
                for (number, count) in (series.first..).zip(series.bins) {
                    bins[(number - first) as usize] = count;
                }
                bins
            });
            return (length, Nanos(start), bins);
        }
        let (q, r) = (queries.length, replies.length);
        if q <= r {
            queries.double();
        }
        if r <= q {
            replies.double();
        }
    }
}

/// Returns the bucket of a count.
fn bucket(count: u64) -> usize {
    if count < MAX_EXACT {
        return count as usize;
    }
    let shift = u64::BITS - count.leading_zeros() - DIGITS;
    let (octave, place) =
        (shift - (MAX_EXACT.ilog2() + 1 - DIGITS), (count >> shift) - (1 << (DIGITS - 1)));
    MAX_EXACT as usize + (octave as usize) * (1 << (DIGITS - 1)) + place as usize
}

/// Returns the largest count of a bucket.
fn count_of(bucket: usize) -> u64 {
    let Some(above) = (bucket as u64).checked_sub(MAX_EXACT) else { return bucket as u64 };
    let (octave, place) = (above >> (DIGITS - 1), above & ((1 << (DIGITS - 1)) - 1));
    let shift = octave as u32 + MAX_EXACT.ilog2() + 1 - DIGITS;
    (((1 << (DIGITS - 1)) + place + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_windows() {
        let mut rates = Rates::new(Nanos::from_secs(1));
        // 100 windows with 0, 1, 2, ... 99 messages, and the first has one.
        for window in 0..100u64 {
            for message in 0..window.max(u64::from(window == 0)) {
                rates.add(Nanos(window * 1_000_000_000 + message));
            }
        }
        assert_eq!((rates.quantile(0.95), rates.max()), (94.0, 99.0));
        // A long pause counts as windows without messages.
        rates.add(Nanos::from_secs(10_000));
        assert_eq!((rates.quantile(0.95), rates.max()), (0.0, 99.0));
        assert_eq!(Rates::new(Nanos::from_secs(1)).quantile(0.95), 0.0);
    }

    #[test]
    fn series_keep_their_sum() {
        let (mut queries, replies) =
            (Rates::new(Nanos::from_secs(1)), Rates::new(Nanos::from_secs(1)));
        for i in 0..50_000u64 {
            queries.add(Nanos(1_700_000_000_000_000_000 + i * 1_234_567_890));
        }
        let (length, first, [bins, _]) = series(&queries, &replies);
        assert!(bins.len() <= MAX_BINS && first.0 <= 1_700_000_000_000_000_000);
        assert!(first + length > Nanos(1_700_000_000_000_000_000));
        assert_eq!(bins.iter().sum::<u64>(), 50_000);
    }

    proptest::proptest! {
        #[test]
        fn buckets_contain_their_counts(count in 0u64..1 << 50) {
            let most = count_of(bucket(count));
            proptest::prop_assert!(most >= count && most - count <= count / 100);
            proptest::prop_assert_eq!(bucket(most), bucket(count));
            proptest::prop_assert_eq!(bucket(most + 1), bucket(count) + 1);
        }

        #[test]
        fn any_times_are_counted(times in proptest::collection::vec(0u64.., 0..50)) {
            let (mut a, mut b) = (Rates::new(Nanos(1)), Rates::new(Nanos::MAX));
            for (number, &time) in times.iter().enumerate() {
                if number % 2 == 0 { a.add(Nanos(time)) } else { b.add(Nanos(time)) }
            }
            let (_, _, bins) = series(&a, &b);
            let sum: u64 = bins.iter().flatten().sum();
            proptest::prop_assert_eq!(sum, times.len() as u64);
            proptest::prop_assert!(a.quantile(0.95) <= a.max() * 1.01);
        }
    }
}
