//! Statistics over repeats. The repeat is the statistical unit, never the query.

mod doubts;
mod interval;
mod ratio;

pub use doubts::{Doubt, doubts};
pub use interval::{
    BOOTSTRAP_FROM, Interval, bootstrap, bootstrap_difference, median_interval, of_median,
    student_quantile, student_within,
};
pub use ratio::{Ratio, Repeated, Terms, Verdict, ratio};

/// The value at percentile `p` (0 to 100) with linear interpolation between the closest ranks
/// (Hyndman and Fan's type 7, what R and NumPy do by default); `None` when there are no values.
pub fn percentile(values: &[f64], p: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let rank = p.clamp(0.0, 100.0) / 100.0 * last as f64;
    let (low, high) = (sorted[rank.floor() as usize], sorted[rank.ceil() as usize]);
    Some(low + (high - low) * rank.fract())
}

/// The middle value; `None` when there are no values.
pub fn median(values: &[f64]) -> Option<f64> {
    percentile(values, 50.0)
}

/// The arithmetic mean; `None` when there are no values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The sample standard deviation (divisor n - 1); `None` below two values.
pub fn std_dev(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    (values.len() > 1).then(|| (squares / (values.len() - 1) as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        let v = [15.0, 20.0, 35.0, 40.0, 50.0];
        assert_eq!(median(&v), Some(35.0));
        assert_eq!(percentile(&v, 40.0), Some(29.0));
        assert_eq!(percentile(&v, 0.0), Some(15.0));
        assert_eq!(percentile(&v, 100.0), Some(50.0));
        assert_eq!(mean(&v), Some(32.0));
        assert!((std_dev(&v).expect("five values") - 14.404_860_3).abs() < 1e-6);
    }

    #[test]
    fn too_few_values() {
        assert_eq!(median(&[]), None);
        assert_eq!(mean(&[]), None);
        assert_eq!(std_dev(&[1.0]), None);
        assert_eq!(percentile(&[7.0], 99.0), Some(7.0));
    }
}
