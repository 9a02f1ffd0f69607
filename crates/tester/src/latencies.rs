//! Latencies over the time of a trial, from the workers' live counters, read twice a second. The counters have coarse
//! bounds (1, 2 and 5 of each power of ten), so a percentile of half a second is exact to one step; the trial's own
//! histogram is exact.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use load::{LATENCY_BOUNDS, Live};
use record::Series;

use crate::background::Background;

/// Initial time between two reads; workers update their counters twice as often.
const INTERVAL: Duration = Duration::from_millis(500);
/// Time between two checks whether the trial has begun.
const START_CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Number of reads at which every second one is dropped and the interval doubles.
const MAX_READS: usize = 1_024;
/// Quantiles reported for each interval.
const QUANTILES: [(&str, f64); 2] = [("latency.p50", 0.5), ("latency.p99", 0.99)];

/// Number of replies by [`LATENCY_BOUNDS`].
type Counts = [u64; LATENCY_BOUNDS.len()];

/// Starts to read the latencies of a trial from `live`: percentiles in microseconds by the seconds since the first
/// query.
pub(crate) fn watch_latencies(live: Arc<Live>) -> Background<Vec<Series>> {
    Background::start(move |done| over_time(&read_counts(&live, done)))
}

/// Reads the counters until `done`: seconds since the first query, and the replies counted by then.
fn read_counts(live: &Live, done: &AtomicBool) -> Vec<(f64, Counts)> {
    let is_done = || done.load(Ordering::Relaxed);
    while live.sent.load(Ordering::Relaxed) == 0 && !is_done() {
        std::thread::park_timeout(START_CHECK_INTERVAL);
    }
    let began = Instant::now();
    let (mut reads, mut interval) = (Vec::new(), INTERVAL);
    while !is_done() {
        std::thread::park_timeout(interval);
        let counts = std::array::from_fn(|i| live.latency[i].load(Ordering::Relaxed));
        reads.push((began.elapsed().as_secs_f64(), counts));
        if reads.len() == MAX_READS {
            let mut number = 0;
            reads.retain(|_| {
                number += 1;
                number % 2 == 0
            });
            interval *= 2;
        }
    }
    reads
}

/// Returns the percentiles between reads, at the end of each interval.
fn over_time(reads: &[(f64, Counts)]) -> Vec<Series> {
    let series = |(name, q): (&str, f64)| {
        let mut before: Counts = [0; LATENCY_BOUNDS.len()];
        let samples = reads.iter().filter_map(|(at, counts)| {
            let new: Counts = std::array::from_fn(|i| counts[i].saturating_sub(before[i]));
            before = *counts;
            Some((*at, quantile(&new, q)?))
        });
        let samples: Vec<(f64, f64)> = samples.collect();
        (!samples.is_empty()).then(|| Series {
            name: name.to_owned(),
            unit: "us".to_owned(),
            samples,
        })
    };
    QUANTILES.into_iter().filter_map(series).collect()
}

/// Returns a quantile in microseconds, interpolated by ratio between the bounds; `None` without replies.
fn quantile(counts: &Counts, q: f64) -> Option<f64> {
    let total: u64 = counts.iter().sum();
    let wanted = q * total as f64;
    let mut below = 0.0;
    for (i, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let share = (wanted - below) / count as f64;
        if share <= 1.0 {
            let us = |i: usize| LATENCY_BOUNDS[i].as_micros_f64();
            let low = if i == 0 { us(0) / 2.0 } else { us(i - 1) };
            return Some(low * (us(i) / low).powf(share.max(0.0)));
        }
        below += count as f64;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes counts with some replies at the given bounds.
    fn counts(of: &[(usize, u64)]) -> Counts {
        let mut counts = [0; LATENCY_BOUNDS.len()];
        of.iter().for_each(|(i, n)| counts[*i] = *n);
        counts
    }

    #[test]
    fn quantiles_lie_between_the_bounds() {
        assert_eq!(quantile(&counts(&[]), 0.5), None);
        // Bound 6 is 100 us, bound 5 is 50 us; their middle by ratio is expected.
        let middle = quantile(&counts(&[(6, 10)]), 0.5).expect("a quantile");
        assert!((middle - 70.71).abs() < 0.01, "{middle}");
        let high = quantile(&counts(&[(6, 98), (9, 2)]), 0.99).expect("a quantile");
        assert!((500.0..=1_000.0).contains(&high), "{high}");
    }

    #[test]
    fn each_interval_stands_for_itself() {
        let reads = [
            (0.5, counts(&[(6, 10)])),
            (1.0, counts(&[(6, 10)])),
            (1.5, counts(&[(6, 10), (9, 5)])),
        ];
        let series = over_time(&reads);
        let p50 = &series[0];
        assert_eq!((p50.name.as_str(), p50.unit.as_str()), ("latency.p50", "us"));
        // The second interval has no replies.
        assert_eq!(p50.samples.iter().map(|s| s.0).collect::<Vec<_>>(), [0.5, 1.5]);
        assert!(p50.samples[0].1 < 100.0 && p50.samples[1].1 > 500.0, "{:?}", p50.samples);
        assert_eq!(over_time(&[(0.5, counts(&[]))]), []);
    }

    #[test]
    fn reading_begins_with_the_first_query() {
        let live = Arc::new(Live { watched: true, ..Live::default() });
        let mut watch = watch_latencies(live.clone());
        live.latency[6].store(7, Ordering::Relaxed);
        live.sent.store(7, Ordering::Relaxed);
        // There is a last read, even if the trial ends early.
        let patience = Instant::now();
        let series = loop {
            std::thread::sleep(Duration::from_millis(30));
            let series = watch.stop().unwrap_or_default();
            if !series.is_empty() || patience.elapsed() > Duration::from_secs(20) {
                break series;
            }
            watch = watch_latencies(live.clone());
        };
        assert_eq!(series.len(), 2);
        assert!(series[0].samples[0].1 <= 100.0);
    }
}
