//! Confidence intervals of a single trial's figures, from the count of its queries.
//!
//! They contain the chance within the trial, not the differences between trials, which only repeats
//! show.

use super::interval::student_quantile;
use crate::{Histogram, Nanos};

/// Degrees of freedom at which Student's distribution is as good as normal: 1.9602 instead of 1.9600 at 95 %.
const AS_NORMAL: usize = 10_000;

/// Returns the interval of a share observed as `good` of `total` (Wilson's score interval, which
/// holds at 0 and at all); 0 to 1 for none.
///
/// # Panics
/// If `confidence` is not between 0 and 1.
pub fn share_interval(good: u64, total: u64, confidence: f64) -> (f64, f64) {
    if total == 0 {
        return (0.0, 1.0);
    }
    let (n, z) = (total as f64, student_quantile(confidence, AS_NORMAL));
    let share = good as f64 / n;
    let middle = share + z * z / (2.0 * n);
    let half = z * (share * (1.0 - share) / n + z * z / (4.0 * n * n)).sqrt();
    let scale = 1.0 + z * z / n;
    (((middle - half) / scale).max(0.0), ((middle + half) / scale).min(1.0))
}

/// Returns the interval of the time below which a share `quantile` of all times lies, from the times of a histogram (by the
/// normal approximation of the ranks); `None` for an empty one.
///
/// # Panics
/// If `confidence` is not between 0 and 1.
pub fn quantile_interval(
    times: &Histogram,
    quantile: f64,
    confidence: f64,
) -> Option<(Nanos, Nanos)> {
    if times.count() == 0 {
        return None;
    }
    let z = student_quantile(confidence, AS_NORMAL);
    let half = z * (quantile * (1.0 - quantile) / times.count() as f64).sqrt();
    let at = |share: f64| times.quantile(share.clamp(0.0, 1.0));
    Some((at(quantile - half), at(quantile + half)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_match_published_intervals() {
        // Newcombe (1998), table I: 81 of 263, 15 of 148, 0 of 20, 1 of 29; without continuity correction.
        for (good, total, low, high) in [
            (81, 263, 0.2553, 0.3662),
            (15, 148, 0.0624, 0.1605),
            (0, 20, 0.0, 0.1611),
            (1, 29, 0.0061, 0.1718),
        ] {
            let (a, b) = share_interval(good, total, 0.95);
            assert!((a - low).abs() < 2e-4 && (b - high).abs() < 2e-4, "{good}/{total}: {a} {b}");
        }
        assert_eq!(share_interval(0, 0, 0.95), (0.0, 1.0));
    }

    #[test]
    fn quantiles_have_the_ranks_of_the_binomial_around_them() {
        let mut times = Histogram::new();
        for n in 1..=10_000 {
            times.record(Nanos::from_micros(n));
        }
        let (low, high) = quantile_interval(&times, 0.5, 0.95).expect("times");
        // 1.96 * sqrt(0.25 * 10,000) is 98 ranks.
        let near = |time: Nanos, wanted: f64| (time.as_micros_f64() - wanted).abs() < wanted * 2e-3;
        assert!(near(low, 4_902.0) && near(high, 5_098.0), "{low} to {high}");
        assert_eq!(quantile_interval(&Histogram::new(), 0.5, 0.95), None);
    }
}
