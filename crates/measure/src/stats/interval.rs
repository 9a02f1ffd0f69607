//! Confidence intervals: how far a figure might be off, given how its repeats differ.

use super::{median, percentile};
use crate::rng::Rng;

/// An interval, and how sure it is that it holds the true value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// The confidence (0 to 1).
    pub confidence: f64,
}

/// Resamples of a bootstrap: enough for the outermost hundredths (Efron and Tibshirani, section 14.3).
const RESAMPLES: usize = 2_000;

/// With fewer values than this a bootstrap's interval of the median is far too narrow, since it cannot leave
/// the few values there are.
pub const BOOTSTRAP_FROM: usize = 10;

/// The interval of `statistic` over `values` by the percentile bootstrap (Efron): what it is over resamples of
/// the values, the outermost left out. Equal seeds give equal intervals. `None` below [`BOOTSTRAP_FROM`] values.
pub fn bootstrap(
    values: &[f64],
    statistic: impl Fn(&[f64]) -> Option<f64>,
    confidence: f64,
    seed: u64,
) -> Option<Interval> {
    if values.len() < BOOTSTRAP_FROM {
        return None;
    }
    let mut rng = Rng::new(seed);
    let found: Vec<f64> =
        (0..RESAMPLES).filter_map(|_| statistic(&resample(values, &mut rng))).collect();
    between(&found, confidence)
}

/// The same for `statistic(a) - statistic(b)` over two sets of values that have nothing to do with each other.
pub fn bootstrap_difference(
    a: &[f64],
    b: &[f64],
    statistic: impl Fn(&[f64]) -> Option<f64>,
    confidence: f64,
    seed: u64,
) -> Option<Interval> {
    if a.len().min(b.len()) < BOOTSTRAP_FROM {
        return None;
    }
    let mut rng = Rng::new(seed);
    let found: Vec<f64> = (0..RESAMPLES)
        .filter_map(|_| {
            Some(statistic(&resample(a, &mut rng))? - statistic(&resample(b, &mut rng))?)
        })
        .collect();
    between(&found, confidence)
}

fn resample(values: &[f64], rng: &mut Rng) -> Vec<f64> {
    (0..values.len()).map(|_| values[rng.below(values.len() as u64) as usize]).collect()
}

/// The middle share `confidence` of `found`.
fn between(found: &[f64], confidence: f64) -> Option<Interval> {
    let tail = (1.0 - confidence) / 2.0 * 100.0;
    Some(Interval {
        low: percentile(found, tail)?,
        high: percentile(found, 100.0 - tail)?,
        confidence,
    })
}

/// The interval of the median by its order statistics, without any assumption about the distribution: from the
/// `k`-th smallest to the `k`-th largest value, the narrowest with at least `confidence`, or, when the values
/// are too few, from the smallest to the largest with the confidence that this has: two values hold the median
/// between them half of the time, five in 94 of 100 cases. `None` below two values.
pub fn median_interval(values: &[f64], confidence: f64) -> Option<Interval> {
    let n = values.len();
    if n < 2 {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    // How many values lie below the median is binomial(n, 1/2). In logarithms, lest 2^-n be nothing.
    let mut below = 0.0; // chance that fewer than k values lie below
    let mut chance = (n as f64 * 0.5f64.ln()).exp(); // that exactly k do
    let mut best = None;
    for k in 0..n / 2 {
        below += chance;
        chance *= (n - k) as f64 / (k + 1) as f64;
        let sure = 1.0 - 2.0 * below;
        if best.is_some() && sure < confidence {
            break;
        }
        best = Some(Interval { low: sorted[k], high: sorted[n - 1 - k], confidence: sure });
    }
    best
}

/// The interval of the median for tables and error bars: a bootstrap's from [`BOOTSTRAP_FROM`] values on, with
/// fewer that of the order statistics, which says how little it is sure. `None` below two values.
pub fn of_median(values: &[f64], confidence: f64) -> Option<Interval> {
    bootstrap(values, median, confidence, 1).or_else(|| median_interval(values, confidence))
}

/// The chance that Student's t with `degrees` of freedom lies within `-t..t` (Abramowitz and Stegun 26.7.3, 26.7.4).
///
/// # Panics
/// With no degree of freedom.
pub fn student_within(t: f64, degrees: usize) -> f64 {
    assert!(degrees > 0, "a spread needs two values");
    let theta = (t.abs() / (degrees as f64).sqrt()).atan();
    let (sin, cos) = theta.sin_cos();
    let mut term = if degrees % 2 == 1 { cos } else { 1.0 };
    let mut sum = if degrees == 1 { 0.0 } else { term };
    // The terms go by two, from cos or 1 on, up to the power of cos that is two below the degrees.
    let mut power = if degrees % 2 == 1 { 1 } else { 0 };
    while power + 2 <= degrees.saturating_sub(2) {
        term *= cos * cos * (power + 1) as f64 / (power + 2) as f64;
        sum += term;
        power += 2;
    }
    if degrees % 2 == 1 { std::f64::consts::FRAC_2_PI * (theta + sin * sum) } else { sin * sum }
}

/// The t within which, to both sides, Student's t with `degrees` of freedom lies with chance `confidence`.
///
/// # Panics
/// With no degree of freedom, or a confidence that is not within 0 and 1.
pub fn student_quantile(confidence: f64, degrees: usize) -> f64 {
    assert!((0.0..1.0).contains(&confidence), "a confidence of {confidence}");
    let (mut low, mut high) = (0.0, 1.0);
    while student_within(high, degrees) < confidence && high < 1e12 {
        high *= 2.0;
    }
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if student_within(middle, degrees) < confidence {
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
    fn student_as_in_the_tables() {
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
    fn medians_of_few_values() {
        let values = [3.0, 1.0, 2.0, 5.0, 4.0];
        assert_eq!(median_interval(&[1.0], 0.95), None);
        let two = median_interval(&[2.0, 1.0], 0.95).expect("two values");
        assert_eq!((two.low, two.high, two.confidence), (1.0, 2.0, 0.5));
        let five = median_interval(&values, 0.95).expect("five values");
        assert_eq!((five.low, five.high, five.confidence), (1.0, 5.0, 0.9375));
        let many: Vec<f64> = (1..=20).map(f64::from).collect();
        // The table of Conover: 20 values, 95 %: the 6th and the 15th, 95.86 %.
        let twenty = median_interval(&many, 0.95).expect("twenty values");
        assert_eq!((twenty.low, twenty.high), (6.0, 15.0));
        assert!((twenty.confidence - 0.9586).abs() < 1e-4);
    }

    #[test]
    fn a_bootstrap_is_the_same_each_time_and_holds_the_median() {
        let values: Vec<f64> = (0..20).map(|i| 100.0 + f64::from(i * 7 % 20)).collect();
        let interval = bootstrap(&values, median, 0.95, 1).expect("twenty values");
        assert_eq!(bootstrap(&values, median, 0.95, 1), Some(interval));
        assert!(interval.low < 109.5 && 109.5 < interval.high, "{interval:?}");
        assert!(interval.low >= 100.0 && interval.high <= 119.0, "{interval:?}");
        let narrow = bootstrap(&values, median, 0.5, 1).expect("twenty values");
        assert!(narrow.low >= interval.low && narrow.high <= interval.high);
        assert_eq!(bootstrap(&values[..5], median, 0.95, 1), None, "too few to say");
        let shifted: Vec<f64> = values.iter().map(|v| v + 50.0).collect();
        let apart = bootstrap_difference(&shifted, &values, median, 0.95, 1).expect("enough");
        assert!(apart.low > 30.0 && apart.high < 70.0 && apart.low < 50.0 && apart.high > 50.0);
    }
}
