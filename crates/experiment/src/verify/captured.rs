//! Summary of a capture beside a server: queries, replies, their times.

use measure::{Histogram, Nanos};

/// Length of the intervals in which the queries of a capture are counted.
pub const INTERVAL: Nanos = Nanos::from_millis(10);

/// A capture beside the server, if there is one.
#[derive(Clone, Debug)]
pub enum Capture {
    /// The capture was taken; its summary.
    Taken(Captured),
    /// There is no capture, for this reason.
    Missing(String),
}

/// Summary of a capture beside the server during one trial.
#[derive(Clone, Debug, Default)]
pub struct Captured {
    /// Number of queries in the capture.
    pub queries: u64,
    /// Number of replies in the capture.
    pub replies: u64,
    /// Number of packets that the capture lost.
    pub dropped: u64,
    /// Rate of the queries, by least squares of their times; zero for fewer than two.
    pub rate_qps: f64,
    /// Number of queries in each [`INTERVAL`] from the first query on, without the last, partial one.
    pub intervals: Vec<u32>,
    /// Time from a query to its first reply.
    pub latency: Histogram,
}

impl Captured {
    /// Makes the summary of a capture: the times of its queries in rising order, the number of its replies, and the times
    /// from a query to its first reply.
    pub fn new(arrivals: &[Nanos], replies: u64, latency: Histogram) -> Self {
        let queries = arrivals.len() as u64;
        let mut captured = Captured { queries, replies, latency, ..Captured::default() };
        let (Some(&first), Some(&last)) = (arrivals.first(), arrivals.last()) else {
            return captured;
        };
        captured.rate_qps = rate(first, arrivals);
        captured.intervals = vec![0; (last.since(first).0 / INTERVAL.0) as usize];
        for at in arrivals {
            let interval = (at.since(first).0 / INTERVAL.0) as usize;
            if let Some(count) = captured.intervals.get_mut(interval) {
                *count += 1;
            }
        }
        captured
    }
}

/// Returns the rate of arrivals, a second: the slope of their numbers over their times, by least squares, so that neither
/// the first nor the last decides.
fn rate(first: Nanos, arrivals: &[Nanos]) -> f64 {
    let seconds = slope(arrivals.iter().map(|at| at.since(first).as_secs_f64()));
    if seconds > 0.0 { 1.0 / seconds } else { 0.0 }
}

/// Returns the slope of values over their index, by least squares.
pub(super) fn slope(values: impl ExactSizeIterator<Item = f64> + Clone) -> f64 {
    let count = values.len() as f64;
    let (mean_k, mean) = ((count - 1.0) / 2.0, values.clone().sum::<f64>() / count);
    let (mut over, mut under) = (0.0, 0.0);
    for (k, value) in values.enumerate() {
        over += (k as f64 - mean_k) * (value - mean);
        under += (k as f64 - mean_k) * (k as f64 - mean_k);
    }
    if under > 0.0 { over / under } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_intervals() {
        let arrivals = [1_000, 1_012, 1_025].map(Nanos::from_millis);
        let found = Captured::new(&arrivals, 3, Histogram::default());
        assert_eq!((found.queries, found.replies), (3, 3));
        assert!((found.rate_qps - 80.0).abs() < 0.1, "25 ms for two intervals: {}", found.rate_qps);
        assert_eq!(found.intervals, [1, 1], "the last interval is not over");
        let none = Captured::new(&[], 0, Histogram::default());
        assert_eq!((none.queries, none.rate_qps, none.intervals.len()), (0, 0.0, 0));
    }
}
