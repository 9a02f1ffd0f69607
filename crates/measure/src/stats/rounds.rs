//! The figure of several rounds with its interval, and whether more rounds are needed.
//!
//! The figure is the mean of the logarithms without the highest and the lowest fifth of the rounds (a trimmed mean), so that a few
//! disturbed rounds widen its interval and do not move it. Its standard error is that of Yuen (1974), from the winsorized variance.
//! Below [`BOOTSTRAP_MIN_VALUES`] rounds Student's t gives the interval, above a bootstrap of the studentized figure (Efron and
//! Tibshirani, section 12.5) where that is wider: rounds that end with a narrow interval favour those that are narrow by chance.

use super::interval::{BOOTSTRAP_MIN_VALUES, ConfidenceInterval, resample, student_quantile};
use super::percentile;
use crate::rng::Rng;

/// Share of the rounds that is omitted at each end.
const TRIMMED_SHARE: f64 = 0.2;
/// Number of resamples of a bootstrap.
const RESAMPLES: usize = 1_000;

/// A figure of several rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OfRounds {
    /// The figure, from all rounds together.
    pub value: f64,
    /// Confidence interval of the figure.
    pub interval: ConfidenceInterval,
}

impl OfRounds {
    /// Returns half of the interval's width as a share of the figure, on the logarithmic scale.
    pub fn half_width(&self) -> f64 {
        (self.interval.high / self.interval.low).ln() / 2.0
    }
}

/// A trimmed mean with its standard error, and the number of its values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mean {
    pub(super) mean: f64,
    pub(super) error: f64,
    pub(super) kept: usize,
}

impl Mean {
    pub(super) fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let cut = (TRIMMED_SHARE * n as f64) as usize;
        let kept = n - 2 * cut;
        let mean = sorted[cut..n - cut].iter().sum::<f64>() / kept as f64;
        let (least, most) = (sorted[cut], sorted[n - 1 - cut]);
        let winsorized = sorted.iter().map(|value| value.clamp(least, most));
        let middle = winsorized.clone().sum::<f64>() / n as f64;
        let squares: f64 = winsorized.map(|value| (value - middle).powi(2)).sum();
        let error = (squares / (kept * (kept - 1)) as f64).sqrt();
        Mean { mean, error, kept }
    }
}

/// Computes the figure of positive values, one of each round, and its interval. Equal seeds give equal intervals. Returns `None` below
/// two values, and if one is not positive.
///
/// # Panics
/// If `confidence` is not between 0 and 1.
pub fn of_rounds(values: &[f64], confidence: f64, seed: u64) -> Option<OfRounds> {
    if values.len() < 2 || values.iter().any(|value| !(*value > 0.0 && value.is_finite())) {
        return None;
    }
    let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    let whole = Mean::of(&logs);
    let t = student_quantile(confidence, whole.kept - 1);
    let (below, above) = match logs.len() {
        n if n < BOOTSTRAP_MIN_VALUES => (t, t),
        _ => studentized(&logs, &whole, confidence, seed)
            .map_or((t, t), |(below, above)| (below.max(t), above.max(t))),
    };
    let value = whole.mean.exp();
    let mut low = (whole.mean - below * whole.error).exp();
    let mut high = (whole.mean + above * whole.error).exp();
    if logs.len() >= BOOTSTRAP_MIN_VALUES {
        // Resamples of two groups of values may have hardly an error. The median lies outside of ten values once in 512 times.
        // Rounding may put the mean of equal values beside them.
        low = values.iter().copied().fold(f64::INFINITY, f64::min).max(low).min(value);
        high = values.iter().copied().fold(0.0, f64::max).min(high).max(value);
    }
    Some(OfRounds { value, interval: ConfidenceInterval { low, high, confidence } })
}

/// Returns the trimmed mean of logarithms; `None` without values.
pub(super) fn trimmed_mean(logs: &[f64]) -> Option<f64> {
    (!logs.is_empty()).then(|| Mean::of(logs).mean)
}

/// Returns how many standard errors the interval reaches below and above the figure, by the bootstrap.
fn studentized(logs: &[f64], whole: &Mean, confidence: f64, seed: u64) -> Option<(f64, f64)> {
    let mut rng = Rng::new(seed);
    let ratios = (0..RESAMPLES).filter_map(|_| {
        let again = Mean::of(&resample(logs, &mut rng));
        // Resamples of few distinct values have no error.
        (again.error > 1e-6 * whole.error).then(|| (again.mean - whole.mean) / again.error)
    });
    let ratios: Vec<f64> = ratios.collect();
    let tail = (1.0 - confidence) / 2.0 * 100.0;
    Some((percentile(&ratios, 100.0 - tail)?, -percentile(&ratios, tail)?))
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::{prop_assert, proptest};

    use super::*;

    /// Draws a normally distributed value (Box and Muller).
    pub(in crate::stats) fn normal(rng: &mut Rng) -> f64 {
        let radius = (-2.0 * (1.0 - rng.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * rng.unit()).cos()
    }

    /// Makes rounds until the interval is narrow enough or they are `most`, as the method does; returns whether the interval has the truth.
    fn covers(rng: &mut Rng, most: usize, mut round: impl FnMut(&mut Rng) -> f64) -> bool {
        let mut values: Vec<f64> = (0..7).map(|_| round(rng)).collect();
        loop {
            values.push(round(rng));
            let found = of_rounds(&values, 0.95, 1).expect("eight rounds");
            if found.half_width() <= 0.03 || values.len() == most {
                return found.interval.low <= 1.0 && 1.0 <= found.interval.high;
            }
        }
    }

    #[test]
    fn intervals_have_the_truth_with_the_stopping_rule_on() {
        const RUNS: usize = 200;
        // Spread of quiet rounds; share of disturbed rounds, and by how much they are lower.
        for (spread, disturbed, by) in [
            (0.01, 0.0, 0.0),
            (0.03, 0.0, 0.0),
            (0.05, 0.0, 0.0),
            (0.10, 0.0, 0.0),
            (0.03, 0.05, 0.3),
            (0.03, 0.10, 0.1),
        ] {
            let mut rng = Rng::new((spread * 1e4 + disturbed * 1e2) as u64);
            let round = |rng: &mut Rng| {
                let low = if rng.unit() < disturbed { by } else { 0.0 };
                (spread * normal(rng) - low).exp()
            };
            let covered = (0..RUNS).filter(|_| covers(&mut rng, 16, round)).count();
            let share = covered as f64 / RUNS as f64;
            assert!(share >= 0.92, "{spread}, {disturbed} disturbed by {by}: {share}");
        }
    }

    #[test]
    fn a_disturbed_round_does_not_move_the_figure() {
        let quiet = [100.0, 101.0, 99.0, 100.5, 99.5, 100.2, 99.8];
        let with = |value| [&quiet[..], &[value]].concat();
        let (clean, hit) = (with(100.0), with(60.0));
        let [clean, hit] = [clean, hit].map(|values| of_rounds(&values, 0.95, 1).expect("rounds"));
        assert!((hit.value / clean.value - 1.0).abs() < 0.003, "{hit:?}, {clean:?}");
    }

    #[test]
    fn too_few_rounds_have_no_figure() {
        assert_eq!(of_rounds(&[1.0], 0.95, 1), None);
        assert_eq!(of_rounds(&[1.0, 2.0, 0.0], 0.95, 1), None);
        let same = of_rounds(&[2.0; 12], 0.95, 1).expect("rounds");
        assert_eq!(
            (same.interval.low, same.interval.high, same.half_width()),
            (same.value, same.value, 0.0)
        );
    }

    proptest! {
        #[test]
        fn the_figure_lies_within_its_interval_and_its_values(
            values in proptest::collection::vec(1e-3..1e6_f64, 3..40), times in 0.1..10.0_f64,
        ) {
            let found = of_rounds(&values, 0.95, 7).expect("rounds");
            prop_assert!(found.interval.low <= found.value && found.value <= found.interval.high);
            let least = values.iter().copied().fold(f64::MAX, f64::min);
            let most = values.iter().copied().fold(0.0, f64::max);
            prop_assert!(least * 0.999 <= found.value && found.value <= most * 1.001);
            // A figure in another unit has the same relative interval.
            let scaled: Vec<f64> = values.iter().map(|value| value * times).collect();
            let scaled = of_rounds(&scaled, 0.95, 7).expect("rounds");
            prop_assert!((scaled.value / found.value / times - 1.0).abs() < 1e-6);
            prop_assert!((scaled.half_width() - found.half_width()).abs() <= 1e-3 * found.half_width());
        }
    }

    #[test]
    fn the_interval_of_two_groups_of_values_stays_within_them() {
        // Rounds of a host that changed its speed now and then.
        let values = [
            93.83, 93.93, 91.86, 101.2, 110.4, 102.1, 109.3, 93.46, 93.32, 93.43, 107.7, 108.8,
            94.23, 93.44, 93.54,
        ];
        let OfRounds { value, interval } = of_rounds(&values, 0.95, 1).expect("a figure");
        assert!(interval.low >= 91.86 && interval.high <= 110.4, "{interval:?}");
        assert!(interval.low < value && value < interval.high, "{value} {interval:?}");
        for equal in [100_000.0, 3.0, 93.83] {
            let OfRounds { value, interval } = of_rounds(&[equal; 12], 0.95, 1).expect("a figure");
            assert!(interval.low <= value && value <= interval.high, "{value} {interval:?}");
        }
    }
}
