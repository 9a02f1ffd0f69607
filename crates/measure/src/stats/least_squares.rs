//! The straight line through values of several rounds, by least squares.

use super::OfRounds;
use super::interval::{ConfidenceInterval, student_quantile};

/// Fewest points of a line: two give it, one more its errors.
const FEWEST: usize = 3;

/// Fits `y = a + b x` to points `(x, y)` with positive `y`, whose errors are shares of `y` (weights 1 / y²); returns `a` and `b` with their
/// intervals by Student's t. Returns `None` below three points, and without two different `x`.
///
/// # Panics
/// If `confidence` is not between 0 and 1.
pub fn least_squares(points: &[(f64, f64)], confidence: f64) -> Option<[OfRounds; 2]> {
    if points.len() < FEWEST || points.iter().any(|(_, y)| *y <= 0.0) {
        return None;
    }
    let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
        points.iter().map(|&(x, y)| of(x, y) / (y * y)).sum()
    };
    let (w, x, y) = (sum(&|_, _| 1.0), sum(&|x, _| x), sum(&|_, y| y));
    let (xx, xy) = (sum(&|x, _| x * x), sum(&|x, y| x * y));
    let determinant = w * xx - x * x;
    if determinant <= 1e-9 * w * xx {
        return None;
    }
    let (a, b) = ((xx * y - x * xy) / determinant, (w * xy - x * y) / determinant);
    let degrees = points.len() - 2;
    let variance = sum(&|x, y| (y - a - b * x).powi(2)) / degrees as f64;
    let t = student_quantile(confidence, degrees);
    let with_interval = |value: f64, weight: f64| {
        let half = t * (variance * weight / determinant).sqrt();
        let interval = ConfidenceInterval { low: value - half, high: value + half, confidence };
        OfRounds { value, interval }
    };
    Some([with_interval(a, xx), with_interval(b, w)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn a_fit_has_its_ends_and_its_slope() {
        let points = [1.0, 0.1, 1.0, 0.1].map(|x| (x, 20.0 + 500.0 * x));
        let [a, b] = least_squares(&points, 0.95).expect("a fit");
        assert!((a.value - 20.0).abs() < 1e-6 && (b.value - 500.0).abs() < 1e-6, "{a:?} {b:?}");
        assert!((b.interval.high - b.interval.low).abs() < 1e-6, "{b:?}");
        assert_eq!(least_squares(&points[..2], 0.95), None);
        assert_eq!(least_squares(&[(0.5, 20.0); 8], 0.95), None);
        assert_eq!(least_squares(&[(0.5, 0.0); 8], 0.95), None);
    }

    #[test]
    fn intervals_have_the_truth() {
        const RUNS: usize = 1_000;
        // Demand of a query and of a connection, and connections for each answer.
        for (query, connection, often) in
            [(20.0, 500.0, 1.0), (40.0, 40.0, 0.5), (30.0, 200.0, 0.1)]
        {
            let mut rng = Rng::new((query * often * 100.0) as u64);
            let mut covered = [0; 2];
            for _ in 0..RUNS {
                let points = (0..16).map(|i| {
                    let x = if i % 2 == 0 { often } else { often / 8.0 };
                    let noise = (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0;
                    (x, (query + connection * x) * (1.0 + 0.03 * noise))
                });
                let found = least_squares(&points.collect::<Vec<_>>(), 0.95).expect("a fit");
                for (i, truth) in [query, connection].into_iter().enumerate() {
                    let ConfidenceInterval { low, high, .. } = found[i].interval;
                    covered[i] += usize::from(low <= truth && truth <= high);
                }
            }
            let least = covered[0].min(covered[1]) as f64 / RUNS as f64;
            assert!(least >= 0.92, "{query}, {connection}: {least}");
        }
    }
}
