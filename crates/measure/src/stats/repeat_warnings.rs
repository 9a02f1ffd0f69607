//! Doubts about the repeats of a figure, with advice.

use std::fmt;

use super::median;

/// A reason to doubt the repeats of a figure.
#[derive(Clone, Debug, PartialEq)]
pub enum RepeatWarning {
    /// Some values are far from the others.
    Outliers {
        /// Indices of these repeats, from 0.
        repeats: Vec<usize>,
        /// Number of all repeats of the figure.
        of: usize,
    },
    /// The values rise or fall from the first to the last.
    Drift {
        /// Change from the first to the last by the trend, as a share of the first; negative if they fall, never below -1.
        change: f64,
        /// Probability (0 to 1) of such a trend if the order is random.
        chance: f64,
    },
}

/// Modified z-score above which a value is an outlier (Iglewicz and Hoaglin).
const OUTLIER_SCORE: f64 = 3.5;
/// Smallest number of values for outliers: of four values, three may be off.
const OUTLIERS_FROM: usize = 5;
/// Share of the median within which a value is never an outlier, even if the others are closer.
const NEVER_OUTLIER: f64 = 0.02;
/// Probability below which a trend is a drift.
const DRIFT_CHANCE: f64 = 0.05;
/// Change below which a drift does not matter.
const DRIFT_CHANGE: f64 = 0.02;

/// Returns the warnings about `values`, the repeats of a figure in the order of measurement.
pub fn repeat_warnings(values: &[f64]) -> Vec<RepeatWarning> {
    outliers(values).into_iter().chain(drift(values)).collect()
}

/// Finds values far from the median, by the modified z-score: their distance in median absolute deviations.
fn outliers(values: &[f64]) -> Option<RepeatWarning> {
    let middle = median(values)?;
    let distance: Vec<f64> = values.iter().map(|v| (v - middle).abs()).collect();
    // The median absolute deviation of a normal distribution is 0.6745 standard deviations.
    let scale = (median(&distance)? / 0.674_5).max(middle.abs() * NEVER_OUTLIER / OUTLIER_SCORE);
    let far = distance.iter().enumerate().filter(|(_, d)| **d > OUTLIER_SCORE * scale);
    let repeats: Vec<usize> = far.map(|(i, _)| i).collect();
    let enough = values.len() >= OUTLIERS_FROM && !repeats.is_empty();
    enough.then_some(RepeatWarning::Outliers { repeats, of: values.len() })
}

/// Finds a trend over the repeats by Kendall's rank correlation with their order (Mann's test), computed
/// exactly, without any assumption about the distribution. At least five values are needed to show one.
fn drift(values: &[f64]) -> Option<RepeatWarning> {
    let n = values.len();
    let pairs = || (0..n).flat_map(move |i| (i + 1..n).map(move |j| (i, j)));
    let signs = pairs().map(|(i, j)| match values[j].total_cmp(&values[i]) {
        std::cmp::Ordering::Greater => 1,
        std::cmp::Ordering::Less => -1,
        std::cmp::Ordering::Equal => 0,
    });
    let score: i64 = signs.sum();
    let all = (n * n.saturating_sub(1) / 2) as i64;
    // Number of pairs against the trend; equal ones count half.
    let against = usize::try_from((all - score.abs()) / 2).unwrap_or(0);
    let chance = (2.0 * chance_of_inversions(n, against)).min(1.0);
    // Theil-Sen estimator: the median of the slopes of all pairs.
    let slopes: Vec<f64> = pairs().map(|(i, j)| (values[j] - values[i]) / (j - i) as f64).collect();
    let whole = median(&slopes)? * (n - 1) as f64;
    // Of the first value of that line, which the last one falls below by at most all of it.
    let first = median(values)? - whole / 2.0;
    let change = (whole / first.abs()).max(-1.0);
    (chance < DRIFT_CHANCE && change.abs() >= DRIFT_CHANGE)
        .then_some(RepeatWarning::Drift { change, chance })
}

/// Returns the probability that a random order of `n` values has at most `most` pairs in falling order.
fn chance_of_inversions(n: usize, most: usize) -> f64 {
    // chances[k] is the probability of exactly k such pairs. Inserting the i-th value into the
    // order of the earlier ones adds 0 to i - 1 pairs.
    let mut chances = vec![0.0; most + 1];
    chances[0] = 1.0;
    for i in 2..=n {
        let before = chances.clone();
        for (k, chance) in chances.iter_mut().enumerate() {
            *chance = before[k.saturating_sub(i - 1)..=k].iter().sum::<f64>() / i as f64;
        }
    }
    chances.iter().sum()
}

impl fmt::Display for RepeatWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RepeatWarning::Outliers { repeats, of } => {
                let which: Vec<String> = repeats.iter().map(|i| (i + 1).to_string()).collect();
                let [noun, verb, its] = match repeats[..] {
                    [_] => ["repeat", "lies", "its"],
                    _ => ["repeats", "lie", "their"],
                };
                write!(
                    f,
                    "{noun} {} of {of} {verb} far from the others: look at {its} trials; one such repeat \
                     hardly moves the figure, but widens the spread",
                    which.join(", ")
                )
            }
            RepeatWarning::Drift { change, chance } => write!(
                f,
                "the repeats {} by {:.1} % from the first to the last (by chance in {:.1} of 100 \
                runs): the host or the server was not steady; use a longer warm-up, or look for other programs that ran",
                if *change > 0.0 { "rise" } else { "fall" },
                change.abs() * 100.0,
                chance * 100.0
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_outliers_are_found() {
        let far = [100.0, 101.0, 99.0, 100.5, 70.0, 99.5];
        assert_eq!(repeat_warnings(&far), [RepeatWarning::Outliers { repeats: vec![4], of: 6 }]);
        let text = repeat_warnings(&far)[0].to_string();
        // The figure of rounds is no median.
        assert!(text.starts_with("repeat 5 of 6 lies far") && !text.contains("median"), "{text}");
        let two = RepeatWarning::Outliers { repeats: vec![4, 5], of: 24 }.to_string();
        assert!(two.starts_with("repeats 5, 6 of 24 lie far from the others: look at their"));
        for fine in [
            &[100.0, 101.0, 99.0, 100.5, 98.0, 99.5][..],
            &[100.0, 100.0, 100.0, 100.0, 101.0], // the others are equal, as on a grid
            &[100.0, 100.0, 50.0],                // too few
            &[],
        ] {
            assert_eq!(repeat_warnings(fine), [], "{fine:?}");
        }
    }

    #[test]
    fn only_drifts_are_found() {
        let [RepeatWarning::Drift { change, chance }] =
            repeat_warnings(&[100.0, 98.0, 95.0, 93.0, 90.0])[..]
        else {
            panic!("five falling values are a drift")
        };
        assert!((change + 0.1).abs() < 0.001, "{change}");
        assert!((chance - 2.0 / 120.0).abs() < 1e-12, "of 120 orders one falls, one rises");
        let [RepeatWarning::Drift { change, .. }] =
            repeat_warnings(&[100.0, 60.0, 40.0, 15.0, 0.0])[..]
        else {
            panic!("a drift to nothing")
        };
        assert_eq!(change, -1.0, "nothing falls by more than all of it");
        for fine in [
            &[100.0, 99.0, 98.0, 97.0][..],         // may be chance: 2 of 24
            &[100.0, 99.9, 99.8, 99.7, 99.6, 99.5], // of no consequence
            &[100.0, 95.0, 98.0, 93.0, 99.0],
        ] {
            assert_eq!(repeat_warnings(fine), [], "{fine:?}");
        }
    }

    #[test]
    fn inversions_match_mahonian_numbers() {
        // Orders of four values by inversions: 1, 3, 5, 6, 5, 3, 1.
        for (most, orders) in [(0, 1.0), (1, 4.0), (2, 9.0), (3, 15.0), (6, 24.0)] {
            assert!((chance_of_inversions(4, most) - orders / 24.0).abs() < 1e-12, "{most}");
        }
    }
}
