//! Statistics over repeats of a measurement. The statistical unit is the repeat, never the single query.

mod change;
mod interval;
mod line;
mod posterior;
mod ratio;
mod repeat_warnings;
mod rounds;
mod within;

pub use change::{Change, ChangeTerms, Level, changes};
pub use interval::{ConfidenceInterval, bootstrap, shown_median_interval};
pub use line::{least_squares, line};
pub use posterior::Posterior;
pub use ratio::{Ratio, RatioVerdict, Repeated, Scatter, Terms, Within, ratio, ratio_within};
pub use repeat_warnings::{RepeatWarning, repeat_warnings};
pub use rounds::{OfRounds, of_rounds};
pub use within::{quantile_interval, share_interval};

/// Returns the value at percentile `p` (0 to 100) with linear interpolation between the closest ranks
/// (Hyndman and Fan's type 7, the default of R and NumPy); `None` when there are no values.
pub fn percentile(values: &[f64], p: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let rank = p.clamp(0.0, 100.0) / 100.0 * last as f64;
    let (low, high) = (sorted[rank.floor() as usize], sorted[rank.ceil() as usize]);
    Some(low + (high - low) * rank.fract())
}

/// Returns the median; `None` when there are no values.
pub fn median(values: &[f64]) -> Option<f64> {
    percentile(values, 50.0)
}

/// Returns the arithmetic mean; `None` when there are no values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Returns the sample standard deviation (divisor n - 1); `None` for fewer than two values.
pub fn std_dev(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    (values.len() > 1).then(|| (squares / (values.len() - 1) as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_of_known_values() {
        let v = [15.0, 20.0, 35.0, 40.0, 50.0];
        assert_eq!(median(&v), Some(35.0));
        assert_eq!(percentile(&v, 40.0), Some(29.0));
        assert_eq!(percentile(&v, 0.0), Some(15.0));
        assert_eq!(percentile(&v, 100.0), Some(50.0));
        assert_eq!(mean(&v), Some(32.0));
        assert!((std_dev(&v).expect("five values") - 14.404_860_3).abs() < 1e-6);
    }

    #[test]
    fn too_few_values_give_none() {
        assert_eq!(median(&[]), None);
        assert_eq!(mean(&[]), None);
        assert_eq!(std_dev(&[1.0]), None);
        assert_eq!(percentile(&[7.0], 99.0), Some(7.0));
    }
}
