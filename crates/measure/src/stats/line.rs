//! Straight lines through the values of rounds: at two places, and at several by least squares.

use super::OfRounds;
use super::interval::{ConfidenceInterval, student_quantile};
use super::rounds::Mean;

/// Fewest points at each of two places.
const MIN_POINTS: usize = 2;
/// Fewest points of least squares: two give the line, one more its errors.
const FEWEST_SQUARES: usize = 3;

/// Fits `y = a + b x` to two groups of points `(x, y)` with positive `x`, which hardly differs in a
/// group; returns `a` and `b` with their intervals. A group has its mean `x` and the trimmed mean
/// of its `y`, so that few disturbed points widen the intervals and do not move the line; the
/// errors are those of Yuen (1974), with Student's t and the degrees of freedom of Welch (1947).
/// Returns `None` below two points in a group, and if the mean `x` of the groups differ by less
/// than the factor `apart`, which is above 1.
///
/// # Panics
/// If `confidence` is not between 0 and 1.
pub fn line(groups: [&[(f64, f64)]; 2], apart: f64, confidence: f64) -> Option<[OfRounds; 2]> {
    if groups.iter().any(|points| points.len() < MIN_POINTS) {
        return None;
    }
    let [x1, x2] =
        groups.map(|points| points.iter().map(|p| p.0).sum::<f64>() / points.len() as f64);
    let [y1, y2] = groups.map(|points| Mean::of(&points.iter().map(|p| p.1).collect::<Vec<_>>()));
    if x1.max(x2) < apart * x1.min(x2) {
        return None;
    }
    // Both are weighted sums of the two means.
    let weighted = |one: f64, two: f64| {
        let value = one * y1.mean + two * y2.mean;
        let [v1, v2] = [one * y1.error, two * y2.error].map(|error| error * error);
        let each = v1 * v1 / (y1.kept - 1) as f64 + v2 * v2 / (y2.kept - 1) as f64;
        let degrees = ((v1 + v2).powi(2) / each).max(1.0) as usize;
        let half = student_quantile(confidence, degrees) * (v1 + v2).sqrt();
        let interval = ConfidenceInterval { low: value - half, high: value + half, confidence };
        OfRounds { value, interval }
    };
    let between = x1 - x2;
    Some([weighted(-x2 / between, x1 / between), weighted(1.0 / between, -1.0 / between)])
}

/// Fits `y = a + b x` to points `(x, y)` with positive `y`, whose errors are shares of `y` (weights 1 / y²); returns `a` and `b` with their
/// intervals by Student's t. Returns `None` below three points, and without two different `x`.
///
/// # Panics
/// If `confidence` is not between 0 and 1.
pub fn least_squares(points: &[(f64, f64)], confidence: f64) -> Option<[OfRounds; 2]> {
    if points.len() < FEWEST_SQUARES || points.iter().any(|(_, y)| *y <= 0.0) {
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
    use super::super::rounds::tests::normal;
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn lines_have_their_ends_and_their_slopes() {
        let [one, two] = [1.0, 0.1].map(|x| [(x, 20.0 + 500.0 * x); 4]);
        let all = [one, two].concat();
        for fit in [line([&one, &two], 2.0, 0.95), least_squares(&all, 0.95)] {
            let [a, b] = fit.expect("a line");
            assert!((a.value - 20.0).abs() < 1e-6 && (b.value - 500.0).abs() < 1e-6, "{a:?} {b:?}");
            assert!((b.interval.high - b.interval.low).abs() < 1e-6, "{b:?}");
        }
        assert_eq!(line([&one, &two[..1]], 2.0, 0.95), None);
        assert_eq!(line([&one, &two], 20.0, 0.95), None);
        assert_eq!(line([&one, &one], 2.0, 0.95), None);
        assert_eq!(least_squares(&[all[0], all[4]], 0.95), None);
        assert_eq!(least_squares(&one, 0.95), None);
        assert_eq!(least_squares(&[(0.5, 0.0), (0.1, 1.0)].repeat(4), 0.95), None);
    }

    #[test]
    fn intervals_have_the_truth() {
        const RUNS: usize = 1_000;
        // Demand of a query and of a connection, connections for each answer, and the share of rounds that took half as much again.
        for (query, connection, often, disturbed) in [
            (20.0, 500.0, 1.0, 0.0),
            (40.0, 40.0, 0.5, 0.0),
            (30.0, 200.0, 0.1, 0.0),
            (30.0, 200.0, 1.0, 0.05),
        ] {
            let mut rng = Rng::new((query * often * 100.0) as u64);
            let mut covered = [[0; 2]; 2];
            for _ in 0..RUNS {
                let groups = [often, often / 8.0].map(|x| {
                    [(); 8].map(|()| {
                        let more = if rng.unit() < disturbed { 1.5 } else { 1.0 };
                        (x, (query + connection * x) * (1.0 + 0.03 * normal(&mut rng)) * more)
                    })
                });
                let fits = [
                    line([&groups[0], &groups[1]], 2.0, 0.95),
                    least_squares(&groups.concat(), 0.95),
                ];
                for (covered, fit) in covered.iter_mut().zip(fits) {
                    for (i, truth) in [query, connection].into_iter().enumerate() {
                        let ConfidenceInterval { low, high, .. } = fit.expect("a line")[i].interval;
                        covered[i] += usize::from(low <= truth && truth <= high);
                    }
                }
            }
            // Least squares are for values without disturbances.
            let held = if disturbed > 0.0 { &covered[..1] } else { &covered[..] };
            for of in held.as_flattened() {
                let share = *of as f64 / RUNS as f64;
                assert!(share >= 0.92, "{query}, {connection}, {disturbed}: {share}");
            }
        }
    }
}
