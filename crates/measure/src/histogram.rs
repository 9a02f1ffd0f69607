//! Histograms of latencies and schedule errors (HDR, three significant digits, 1 ns to 100 s).
//!
//! Histograms are merged, percentiles are never averaged: the percentile of a merged histogram is the
//! percentile of all queries, while an average of two percentiles means nothing.

use std::io::{self, Write};
use std::time::Duration;

use hdrhistogram::serialization::interval_log::{
    IntervalLogWriterBuilder, IntervalLogWriterError, Tag,
};
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer, V2Serializer};

use crate::units::Nanos;

/// Longest time in nanoseconds; longer times are recorded as this one.
const HIGHEST_NS: u64 = 100_000_000_000;

/// Unit of a coarse histogram in nanoseconds.
const COARSE_UNIT: u64 = 256;
/// Significant digits of a histogram.
const DIGITS: u8 = 3;

/// A distribution of times with a relative error of at most 0.1 %.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram(hdrhistogram::Histogram<u64>);

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// Makes an empty histogram. All its memory (about 220 KiB) is allocated here.
    pub fn new() -> Self {
        Histogram(
            hdrhistogram::Histogram::new_with_bounds(1, HIGHEST_NS, DIGITS)
                .expect("the bounds are constants that HDR accepts"),
        )
    }

    /// Counts one time; times above 100 s count as 100 s.
    #[inline]
    pub fn record(&mut self, time: Nanos) {
        self.0.saturating_record(time.0);
    }

    /// Counts one time `count` times; times above 100 s count as 100 s.
    pub fn record_many(&mut self, time: Nanos, count: u64) {
        if count > 0 {
            self.0.saturating_record_n(time.0, count);
        }
    }

    /// Adds all times of `other`.
    pub fn merge(&mut self, other: &Histogram) {
        self.0.add(&other.0).expect("all histograms have the same bounds");
    }

    /// Returns the number of recorded times.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Returns the time at or below which a share `quantile` (0 to 1) of the recorded times lies; zero when
    /// empty.
    pub fn quantile(&self, quantile: f64) -> Nanos {
        Nanos(self.0.value_at_quantile(quantile).min(self.0.max()))
    }

    /// Returns the smallest time, to the histogram's precision; zero when empty.
    pub fn min(&self) -> Nanos {
        Nanos(if self.0.is_empty() { 0 } else { self.0.min() })
    }

    /// Returns the largest time, to the histogram's precision; zero when empty.
    pub fn max(&self) -> Nanos {
        Nanos(self.0.max())
    }

    /// Returns the mean in nanoseconds; zero when empty.
    pub fn mean_ns(&self) -> f64 {
        self.0.mean()
    }

    /// Returns the standard deviation in nanoseconds; zero when empty.
    pub fn stdev_ns(&self) -> f64 {
        self.0.stdev()
    }

    /// Returns the share (0 to 1) of the times above `time`; 0 of none.
    pub fn share_above(&self, time: Nanos) -> f64 {
        self.count_above(time) as f64 / self.count().max(1) as f64
    }

    /// Returns how many recorded times are longer than `time`, to the histogram's precision.
    pub(crate) fn count_above(&self, time: Nanos) -> u64 {
        self.count() - self.0.count_between(0, time.0.min(HIGHEST_NS))
    }

    /// Returns how many recorded times are at least `time`; times in the bucket of `time` count.
    pub(crate) fn count_from(&self, time: Nanos) -> u64 {
        let bucket = self.0.lowest_equivalent(time.0.min(HIGHEST_NS));
        bucket
            .checked_sub(1)
            .map_or(self.count(), |below| self.count() - self.0.count_between(0, below))
    }

    /// Returns how many recorded times lie from `first` to before `end`, to the histogram's precision.
    pub fn count_within(&self, first: Nanos, end: Nanos) -> u64 {
        self.count_from(first) - self.count_from(end.max(first))
    }

    /// Iterates over the non-empty buckets in rising order: largest time, count.
    pub fn buckets(&self) -> impl Iterator<Item = (Nanos, u64)> + '_ {
        self.0
            .iter_recorded()
            .map(|step| (Nanos(step.value_iterated_to()), step.count_since_last_iteration()))
    }

    /// Iterates over the non-empty buckets in rising order: smallest time, largest time (nanoseconds), count.
    pub fn spans(&self) -> impl Iterator<Item = [u64; 3]> + '_ {
        self.buckets()
            .map(|(largest, count)| [self.0.lowest_equivalent(largest.0), largest.0, count])
    }

    /// Returns the HDR V2 encoding (HdrHistogram's own wire format, uncompressed), which any HdrHistogram
    /// library reads.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        V2Serializer::new()
            .serialize(&self.0, &mut out)
            .expect("writing to a vector does not fail");
        out
    }

    /// Returns the compressed encoding (HDR V2 with deflate), which any HdrHistogram library reads too.
    pub fn encode_compressed(&self) -> Vec<u8> {
        compressed(&self.0)
    }

    /// Returns the compressed encoding with two significant digits, or with one, which needs less room: times are right to 0.4 %
    /// (3 %), or to 128 ns.
    ///
    /// # Panics
    /// With more digits than a histogram has.
    pub fn encode_coarse(&self, digits: u8) -> Vec<u8> {
        assert!((1..=DIGITS).contains(&digits), "{digits} digits");
        let mut coarse = hdrhistogram::Histogram::new_with_bounds(COARSE_UNIT, HIGHEST_NS, digits)
            .expect("HDR accepts these bounds with up to five digits");
        self.buckets().for_each(|(time, count)| coarse.saturating_record_n(time.0, count));
        compressed(&coarse)
    }

    /// Reads bytes written by [`encode`](Self::encode), [`encode_compressed`](Self::encode_compressed), or
    /// [`encode_coarse`](Self::encode_coarse), whose times become the middles of their buckets.
    ///
    /// # Errors
    /// [`NotAHistogram`] when the bytes are not an HDR V2 histogram with this type's bounds.
    pub fn decode(mut bytes: &[u8]) -> Result<Self, NotAHistogram> {
        let decoded = Deserializer::new()
            .deserialize::<u64, _>(&mut bytes)
            .map_err(|e| NotAHistogram(e.to_string()))?;
        let mut histogram = Histogram::new();
        if decoded.sigfig() < DIGITS {
            for step in decoded.iter_recorded() {
                let middle = decoded.median_equivalent(step.value_iterated_to());
                histogram.0.saturating_record_n(middle, step.count_since_last_iteration());
            }
        } else {
            histogram.0.add(&decoded).map_err(|e| NotAHistogram(e.to_string()))?;
        }
        Ok(histogram)
    }
}

/// Returns a histogram as HDR V2 with deflate.
fn compressed(histogram: &hdrhistogram::Histogram<u64>) -> Vec<u8> {
    let mut out = Vec::new();
    V2DeflateSerializer::new()
        .serialize(histogram, &mut out)
        .expect("writing to a vector does not fail");
    out
}

/// A histogram of an interval log.
#[derive(Clone, Debug, PartialEq)]
pub struct LoggedInterval {
    /// What was measured, in one word; its spaces, commas and line ends are written as underscores.
    pub tag: String,
    /// Start of the interval, after the start of the log.
    pub start: Duration,
    /// Length of the interval, from `start` on.
    pub length: Duration,
    /// Times that were recorded in the interval.
    pub histogram: Histogram,
}

/// Writes histograms as a log that HdrHistogram's `HistogramLogProcessor` and plotters read (`.hlog`, V2, compressed): times in
/// nanoseconds, largest times in milliseconds. `started_unix` is the start of the log since 1970.
///
/// # Errors
/// The errors of `out`.
pub fn write_interval_log(
    mut out: impl Write,
    comment: &str,
    started_unix: Duration,
    intervals: &[LoggedInterval],
) -> io::Result<()> {
    let mut serializer = V2DeflateSerializer::new();
    let mut log = IntervalLogWriterBuilder::new();
    let since = |what| format!("[{what}: {:.3} (seconds since epoch)]", started_unix.as_secs_f64());
    // The builder would require the time of a clock.
    log.add_comment(comment).add_comment(&since("StartTime")).add_comment(&since("BaseTime"));
    log.with_max_value_divisor(1e6);
    let mut log = log.begin_log_with(&mut out, &mut serializer)?;
    for LoggedInterval { tag, start, length, histogram } in intervals {
        let tag = tag.replace([' ', ',', '\n', '\r'], "_");
        log.write_histogram(&histogram.0, *start, *length, Tag::new(&tag)).map_err(
            |e| match e {
                IntervalLogWriterError::IoError(e) => e,
                IntervalLogWriterError::SerializeError(e) => io::Error::other(e.to_string()),
            },
        )?;
    }
    Ok(())
}

/// Error for bytes that are not an HDR V2 histogram.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an HDR V2 histogram: {0}")]
pub struct NotAHistogram(String);

impl NotAHistogram {
    /// Makes the error with its reason.
    pub fn new(why: String) -> Self {
        NotAHistogram(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_quantiles() {
        let mut h = Histogram::new();
        assert_eq!(
            (h.count(), h.min(), h.max(), h.quantile(0.99)),
            (0, Nanos(0), Nanos(0), Nanos(0))
        );
        for us in 1..=1_000 {
            h.record(Nanos::from_micros(us));
        }
        let within = |got: Nanos, us: f64| (got.as_micros_f64() - us).abs() <= us * 0.002;
        assert!(within(h.quantile(0.5), 500.0), "{:?}", h.quantile(0.5));
        assert!(within(h.quantile(0.99), 990.0));
        assert!(within(h.max(), 1_000.0));
        assert_eq!(h.count_above(Nanos::from_micros(990)), 10);
        assert_eq!(h.count_from(Nanos::from_micros(990)), 11);
        assert_eq!((h.count_from(Nanos::ZERO), h.count_from(Nanos::MAX)), (1_000, 0));
        assert_eq!(h.buckets().map(|(_, n)| n).sum::<u64>(), 1_000);
    }

    #[test]
    fn a_merge_equals_recording_both() {
        let (mut a, mut b, mut both) = (Histogram::new(), Histogram::new(), Histogram::new());
        for i in 0..10_000u64 {
            let t = Nanos(i * i);
            if i % 3 == 0 {
                a.record(t)
            } else {
                b.record(t)
            }
            both.record(t);
        }
        a.merge(&b);
        assert_eq!(a, both);
    }

    #[test]
    fn times_beyond_the_range_are_recorded_as_the_longest() {
        let mut h = Histogram::new();
        h.record(Nanos::from_secs(1_000));
        h.record(Nanos::MAX);
        assert_eq!((h.count(), h.count_from(Nanos::MAX)), (2, 2));
        assert!(h.max() >= Nanos::from_secs(99));
    }

    #[test]
    fn coarse_histograms_are_close_and_merge_alike() {
        let mut halves = [Histogram::new(), Histogram::new()];
        let mut rng = crate::rng::Rng::new(1);
        for i in 0..20_000 {
            // Exponential, with a mean of a millisecond.
            halves[i % 2].record(Nanos((-(1.0 - rng.unit()).ln() * 1e6) as u64));
        }
        let whole = |[mut a, b]: [Histogram; 2]| {
            a.merge(&b);
            a
        };
        let exact = whole(halves.clone());
        for (digits, share, smaller) in [(2, 200, 3), (1, 30, 8)] {
            let coarse = |exact: &Histogram| {
                Histogram::decode(&exact.encode_coarse(digits)).expect("own bytes")
            };
            let both = coarse(&exact);
            assert_eq!(both, whole(halves.each_ref().map(coarse)));
            assert_eq!((both.count(), coarse(&both)), (20_000, both.clone()));
            for quantile in [0.0, 0.01, 0.5, 0.9, 0.99, 0.999, 1.0] {
                let (a, b) = (exact.quantile(quantile).0, both.quantile(quantile).0);
                assert!(a.abs_diff(b) <= (a / share).max(256), "{digits}, {quantile}: {a} {b}");
            }
            let (large, small) =
                (exact.encode_compressed().len(), exact.encode_coarse(digits).len());
            assert!(small * smaller < large, "{small} of {large} octets");
            assert_eq!(coarse(&Histogram::new()), Histogram::new());
        }
    }

    #[test]
    fn a_log_is_read_by_the_librarys_own_reader() {
        use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
        let mut histogram = Histogram::new();
        histogram.record(Nanos::from_millis(3));
        let interval = |tag: &str, start| {
            let (start, length) = (Duration::from_secs(start), Duration::from_secs(2));
            LoggedInterval { tag: tag.to_owned(), start, length, histogram: histogram.clone() }
        };
        let mut log = Vec::new();
        let start = Duration::from_secs(1_700_000_000);
        let intervals = [interval("nsd 4.6, 1 core", 0), interval("knot", 5)];
        write_interval_log(&mut log, "a run", start, &intervals).expect("writes to memory");
        let entries: Vec<_> =
            IntervalLogIterator::new(&log).map(|e| e.expect("an entry")).collect();
        assert!(entries.contains(&LogEntry::StartTime(start)), "{entries:?}");
        let histograms: Vec<_> = entries
            .iter()
            .filter_map(|entry| match entry {
                LogEntry::Interval(h) => Some((h.tag().map(|t| t.as_str().to_owned()), h.max())),
                _ => None,
            })
            .collect();
        let max = histogram.max().0 as f64 / 1e6;
        let tags = ["nsd_4.6__1_core", "knot"].map(|tag| Some(tag.to_owned()));
        assert!(histograms.iter().all(|(_, found)| (found - max).abs() < 1e-3), "{histograms:?}");
        assert_eq!(histograms.into_iter().map(|(tag, _)| tag).collect::<Vec<_>>(), tags);
    }

    #[test]
    fn encoded_histograms_decode_to_the_same() {
        let mut h = Histogram::new();
        for i in 0..1_000 {
            h.record(Nanos(i * 7_919));
        }
        assert_eq!(Histogram::decode(&h.encode()).expect("own bytes"), h);
        assert_eq!(Histogram::decode(&h.encode_compressed()).expect("own bytes"), h);
        assert!(Histogram::decode(b"nonsense").is_err());
        assert!(Histogram::decode(&h.encode()[..20]).is_err());
    }
}
