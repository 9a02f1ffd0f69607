//! Confidence intervals: the range of a figure's true value, given the spread of its repeats.

use super::{median, percentile};
use crate::rng::Rng;

/// An interval with its confidence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConfidenceInterval {
    /// Lower end, in the unit of the value.
    pub low: f64,
    /// Upper end, in the unit of the value.
    pub high: f64,
    /// Confidence (0 to 1) that the interval contains the true value.
    pub confidence: f64,
}

/// Number of resamples of a bootstrap: enough for percentiles at 1 % and 99 % (Efron and Tibshirani, section
/// 14.3).
const RESAMPLES: usize = 2_000;

/// Smallest number of values for a bootstrap. With fewer, its interval of the median is far too narrow, since
/// a resample contains no other values.
pub(crate) const BOOTSTRAP_MIN_VALUES: usize = 10;

/// Computes the interval of `statistic` over `values` by the percentile bootstrap (Efron): the central share
/// `confidence` of the statistic over resamples. Equal seeds give equal intervals. Returns `None` below
/// `BOOTSTRAP_MIN_VALUES` values.
pub fn bootstrap(
    values: &[f64],
    statistic: impl Fn(&[f64]) -> Option<f64>,
    confidence: f64,
    seed: u64,
) -> Option<ConfidenceInterval> {
    resampled(values.len(), confidence, seed, |rng| statistic(&resample(values, rng)))
}

/// Computes the interval of `statistic(a) - statistic(b)` over two independent sets of values, as
/// [`bootstrap`].
pub(crate) fn bootstrap_difference(
    a: &[f64],
    b: &[f64],
    statistic: impl Fn(&[f64]) -> Option<f64>,
    confidence: f64,
    seed: u64,
) -> Option<ConfidenceInterval> {
    resampled(a.len().min(b.len()), confidence, seed, |rng| {
        Some(statistic(&resample(a, rng))? - statistic(&resample(b, rng))?)
    })
}

/// Computes the interval of a statistic that `draw` computes over a resample of `count` values.
fn resampled(
    count: usize,
    confidence: f64,
    seed: u64,
    mut draw: impl FnMut(&mut Rng) -> Option<f64>,
) -> Option<ConfidenceInterval> {
    if count < BOOTSTRAP_MIN_VALUES {
        return None;
    }
    let mut rng = Rng::new(seed);
    let statistics: Vec<f64> = (0..RESAMPLES).filter_map(|_| draw(&mut rng)).collect();
    central_interval(&statistics, confidence)
}

/// Draws as many values as there are, with replacement.
pub(crate) fn resample(values: &[f64], rng: &mut Rng) -> Vec<f64> {
    (0..values.len()).map(|_| values[rng.below(values.len() as u64) as usize]).collect()
}

/// Returns the interval of the middle share `confidence` of `statistics`.
fn central_interval(statistics: &[f64], confidence: f64) -> Option<ConfidenceInterval> {
    let tail = (1.0 - confidence) / 2.0 * 100.0;
    Some(ConfidenceInterval {
        low: percentile(statistics, tail)?,
        high: percentile(statistics, 100.0 - tail)?,
        confidence,
    })
}

/// Computes the interval of the median by its order statistics, without any assumption about the
/// distribution: from the `k`-th smallest to the `k`-th largest value, the narrowest interval with at least
/// `confidence`. Returns `None` when the values are too few for that: five have the median between them in 94 of
/// 100 cases, six in 97.
fn median_interval(values: &[f64], confidence: f64) -> Option<ConfidenceInterval> {
    let n = values.len();
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    // The number of values below the median is binomial(n, 1/2). It is computed by logarithms, since 2^-n
    // may underflow.
    let mut below = 0.0; // probability that fewer than k values are below
    let mut chance = (n as f64 * 0.5f64.ln()).exp(); // probability that exactly k values are below
    let mut best = None;
    for k in 0..n / 2 {
        below += chance;
        chance *= (n - k) as f64 / (k + 1) as f64;
        let coverage = 1.0 - 2.0 * below;
        if coverage < confidence {
            break;
        }
        best = Some(ConfidenceInterval {
            low: sorted[k],
            high: sorted[n - 1 - k],
            confidence: coverage,
        });
    }
    best
}

/// Computes the interval of the median that tables and error bars show: by bootstrap from
/// `BOOTSTRAP_MIN_VALUES` values on, with fewer by the order statistics. Returns `None` when the values are too few for either:
/// below six at 95 %.
pub fn shown_median_interval(values: &[f64], confidence: f64) -> Option<ConfidenceInterval> {
    bootstrap(values, median, confidence, 1).or_else(|| median_interval(values, confidence))
}

/// Returns the probability that Student's t with `degrees` degrees of freedom lies within `-t..t` (Abramowitz
/// and Stegun 26.7.3, 26.7.4).
///
/// # Panics
/// With no degree of freedom.
fn student_probability(t: f64, degrees: usize) -> f64 {
    assert!(degrees > 0, "a spread needs at least two values");
    let theta = (t.abs() / (degrees as f64).sqrt()).atan();
    let (sin, cos) = theta.sin_cos();
    let mut term = if degrees % 2 == 1 { cos } else { 1.0 };
    let mut sum = if degrees == 1 { 0.0 } else { term };
    // The powers of cos rise by two, from cos or 1 to the power `degrees - 2`.
    let mut power = if degrees % 2 == 1 { 1 } else { 0 };
    while power + 2 <= degrees.saturating_sub(2) {
        term *= cos * cos * (power + 1) as f64 / (power + 2) as f64;
        sum += term;
        power += 2;
    }
    if degrees % 2 == 1 { std::f64::consts::FRAC_2_PI * (theta + sin * sum) } else { sin * sum }
}

/// Returns the t for which Student's t with `degrees` degrees of freedom lies within `-t..t` with probability
/// `confidence`.
///
/// # Panics
/// With no degree of freedom, or a confidence that is not within 0 and 1.
pub(crate) fn student_quantile(confidence: f64, degrees: usize) -> f64 {
    assert!((0.0..1.0).contains(&confidence), "the confidence {confidence} is between 0 and 1");
    let (mut low, mut high) = (0.0, 1.0);
    while student_probability(high, degrees) < confidence && high < 1e12 {
        high *= 2.0;
    }
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if student_probability(middle, degrees) < confidence {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn student_quantiles_match_published_tables() {
        for (degrees, confidence, t) in [
            (1, 0.95, 12.706),
            (2, 0.95, 4.303),
            (3, 0.95, 3.182),
            (4, 0.99, 4.604),
            (5, 0.90, 2.015),
            (8, 0.95, 2.306),
            (9, 0.99, 3.250),
            (30, 0.95, 2.042),
            (200, 0.95, 1.972),
        ] {
            let got = student_quantile(confidence, degrees);
            assert!((got - t).abs() < 0.001, "{degrees} degrees, {confidence}: {got}, not {t}");
        }
    }

    #[test]
    fn median_intervals_of_few_values() {
        let values = [3.0, 1.0, 2.0, 5.0, 4.0];
        assert_eq!(median_interval(&[1.0], 0.95), None);
        assert_eq!(median_interval(&values, 0.95), None);
        let five = median_interval(&values, 0.9).expect("five values");
        assert_eq!((five.low, five.high, five.confidence), (1.0, 5.0, 0.9375));
        let six = median_interval(&[1.0, 6.0, 2.0, 5.0, 3.0, 4.0], 0.95).expect("six values");
        assert_eq!((six.low, six.high, six.confidence), (1.0, 6.0, 0.96875));
        let many: Vec<f64> = (1..=20).map(f64::from).collect();
        // Conover's table: for 20 values at 95 % the 6th and the 15th, with 95.86 %.
        let twenty = median_interval(&many, 0.95).expect("twenty values");
        assert_eq!((twenty.low, twenty.high), (6.0, 15.0));
        assert!((twenty.confidence - 0.9586).abs() < 1e-4);
    }

    #[test]
    fn a_bootstrap_is_reproducible_and_contains_the_median() {
        let values: Vec<f64> = (0..20).map(|i| 100.0 + f64::from(i * 7 % 20)).collect();
        let interval = bootstrap(&values, median, 0.95, 1).expect("twenty values");
        assert_eq!(bootstrap(&values, median, 0.95, 1), Some(interval));
        assert!(interval.low < 109.5 && 109.5 < interval.high, "{interval:?}");
        assert!(interval.low >= 100.0 && interval.high <= 119.0, "{interval:?}");
        let narrow = bootstrap(&values, median, 0.5, 1).expect("twenty values");
        assert!(narrow.low >= interval.low && narrow.high <= interval.high);
        assert_eq!(bootstrap(&values[..5], median, 0.95, 1), None, "too few values");
        let shifted: Vec<f64> = values.iter().map(|v| v + 50.0).collect();
        let apart = bootstrap_difference(&shifted, &values, median, 0.95, 1).expect("enough");
        assert!(apart.low > 30.0 && apart.high < 70.0 && apart.low < 50.0 && apart.high > 50.0);
    }
}
