//! The ratio of two figures, each measured several times, and what the measurements show about it.
//!
//! All computation is on logarithms: a ratio becomes a difference, and the spread of a rate does not depend on
//! the speed of the server. A ratio is uncertain for three reasons; the interval includes all of them:
//!
//! 1. The repeats differ. With ten or more repeats on each side, a bootstrap of the medians gives
//!    the interval, of
//!    the rounds of a capacity one of their trimmed means.
//!    With fewer, Student's t with the pooled spread of both sides gives it. That interval is wide when repeats
//!    are few: with two on each side it reaches over four spreads to each side. A caller may pass the spread of
//!    similar figures, such as the other cells of the same runs. That spread is used when it has more degrees of
//!    freedom and the own spread fits it: a few repeats of many cells then say as much as many repeats of one
//!    cell. A single repeat has no spread of its own.
//! 2. A search finds a capacity only to its resolution: the capacity lies between the highest rate that passed
//!    and the lowest rate that failed. All searches of a run try the same rates, so that more repeats do not
//!    reduce this error; the interval is widened by half a bracket of each side.
//! 3. Two runs of the same experiment differ by more than the repeats within each run, since the host changes
//!    from hour to hour. One run cannot measure by how much. A margin takes its place: a ratio within the margin
//!    counts as no difference.

use super::interval::{BOOTSTRAP_MIN_VALUES, bootstrap_difference, student_quantile};
use super::rounds::trimmed_mean;
use super::{mean, median};

/// The repeated values of one figure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Repeated {
    /// Natural logarithms of the values.
    logs: Vec<f64>,
    /// Width of a bracket, as a difference of logarithms: the true value lies within half of it to each side.
    bracket: f64,
    /// Whether they are of the rounds of a capacity, whose figure is their trimmed mean.
    rounds: bool,
}

impl Repeated {
    /// Stores the positive values; others are omitted.
    pub fn new(values: &[f64]) -> Self {
        Self::bracketed(values.iter().map(|v| (*v, *v)))
    }

    /// Takes the rounds of a capacity.
    pub fn of_rounds(values: &[f64]) -> Self {
        Repeated { rounds: true, ..Self::new(values) }
    }

    /// Stores brackets: each is a passing rate and a failing rate above it, and its value is the
    /// middle of both on the logarithmic scale.
    pub fn bracketed(brackets: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let mut repeated = Repeated::default();
        for (low, high) in brackets {
            if low > 0.0 && high >= low && high.is_finite() {
                repeated.logs.push((low.ln() + high.ln()) / 2.0);
                repeated.bracket = repeated.bracket.max(high.ln() - low.ln());
            }
        }
        repeated
    }

    /// Returns the number of values.
    pub fn count(&self) -> usize {
        self.logs.len()
    }

    /// Returns the deviations of the values from their mean.
    pub fn scatter(&self) -> Scatter {
        let mean = mean(&self.logs).unwrap_or(0.0);
        let squares = self.logs.iter().map(|x| (x - mean).powi(2)).sum();
        Scatter { squares, degrees: self.logs.len().saturating_sub(1) }
    }
}

/// Squared distances of logarithms from their mean; the scatters of several figures add up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Scatter {
    /// Sum of the squared distances from the mean.
    pub squares: f64,
    /// Degrees of freedom: the number of values of each figure, less one.
    pub degrees: usize,
}

impl Scatter {
    /// Returns the variance; NaN without a degree of freedom.
    fn variance(&self) -> f64 {
        self.squares / self.degrees as f64
    }
}

impl std::ops::Add for Scatter {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { squares: self.squares + other.squares, degrees: self.degrees + other.degrees }
    }
}

impl std::iter::Sum for Scatter {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| sum + one)
    }
}

/// Settings of a comparison of two figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// Confidence of the interval, 0 to 1.
    pub confidence: f64,
    /// Share by which two runs of the same experiment may differ: with 0.05, 95 and 100 count as equal.
    pub margin: f64,
    /// Seed of the bootstrap's samples: the same one gives the same interval.
    pub seed: u64,
}

/// A ratio with its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The second figure over the first.
    pub ratio: f64,
    /// Low and high end of the interval; `None` without repeats that show the spread.
    pub interval: Option<(f64, f64)>,
    /// Smallest ratio above one that this comparison could have distinguished from one.
    pub smallest: Option<f64>,
    /// Whether the ratio significantly differs from one.
    pub verdict: RatioVerdict,
}

/// Conclusion of the repeats about a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RatioVerdict {
    /// The second figure is higher.
    Higher,
    /// The second figure is lower.
    Lower,
    /// Neither is shown: the second figure may be higher or lower.
    NotShown,
}

/// Compares `second` with `first`. `pooled` is the scatter ([`Repeated::scatter`]) summed over similar figures
/// and these two. Returns `None` when one of the two has no value.
pub fn ratio(first: &Repeated, second: &Repeated, pooled: Scatter, terms: &Terms) -> Option<Ratio> {
    let few = first.count().min(second.count()) < BOOTSTRAP_MIN_VALUES;
    let middle = match (first.rounds && second.rounds, few) {
        (true, _) => trimmed_mean,
        (false, true) => mean,
        (false, false) => median,
    };
    let difference = middle(&second.logs)? - middle(&first.logs)?;
    let bracket = (first.bracket + second.bracket) / 2.0;
    let spread = if few {
        student_half_width(first, second, pooled, terms.confidence)
            .map(|half| (difference - half, difference + half))
    } else {
        bootstrap_difference(&second.logs, &first.logs, middle, terms.confidence, terms.seed)
            .map(|i| (i.low, i.high))
    };
    let margin = (1.0 + terms.margin).ln();
    let Some((low, high)) = spread.map(|(low, high)| (low - bracket, high + bracket)) else {
        let verdict = RatioVerdict::NotShown;
        return Some(Ratio { ratio: difference.exp(), interval: None, smallest: None, verdict });
    };
    Some(Ratio {
        ratio: difference.exp(),
        interval: Some((low.exp(), high.exp())),
        smallest: Some(((high - low) / 2.0 + margin).exp()),
        verdict: match () {
            () if low > margin => RatioVerdict::Higher,
            () if high < -margin => RatioVerdict::Lower,
            () => RatioVerdict::NotShown,
        },
    })
}

/// A figure and its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Within {
    /// The figure that the interval is of.
    pub figure: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

/// Compares two figures by an interval of each of them; both must be as sure as the ratio is to be.
pub fn ratio_within(first: Within, second: Within, margin: f64) -> Ratio {
    // A figure may be zero, such as the share of valid replies of a dead server.
    let over = |above: f64, below: f64| if below > 0.0 { above / below } else { f64::MAX };
    let both_zero = first.figure == 0.0 && second.figure == 0.0;
    let low = over(second.low, first.high);
    let high = over(second.high, first.low);
    let verdict = match () {
        () if low > 1.0 + margin => RatioVerdict::Higher,
        () if high < 1.0 / (1.0 + margin) => RatioVerdict::Lower,
        () => RatioVerdict::NotShown,
    };
    let half = if low > 0.0 { (high / low).sqrt() } else { high.max(1.0) };
    Ratio {
        ratio: if both_zero { 1.0 } else { over(second.figure, first.figure) },
        interval: Some((low, high)),
        smallest: Some(half * (1.0 + margin)),
        verdict,
    }
}

/// Largest ratio of the own variance to the variance of similar figures at which the own one fits theirs:
/// with two repeats on each side, 19 of 20 variances of the same distribution fit.
const MAX_VARIANCE_RATIO: f64 = 3.0;

/// Computes half the width of Student's interval of the difference of means; `None` when there is no spread
/// at all.
fn student_half_width(
    first: &Repeated,
    second: &Repeated,
    pooled: Scatter,
    confidence: f64,
) -> Option<f64> {
    let own = first.scatter() + second.scatter();
    let (variance, degrees) = match (own.degrees, pooled.degrees) {
        (0, 0) => return None,
        (0, _) => (pooled.variance(), pooled.degrees),
        // The own spread fits that of similar figures: the wider of both is used, with their degrees of
        // freedom.
        (few, more) if more > few && own.variance() <= MAX_VARIANCE_RATIO * pooled.variance() => {
            (own.variance().max(pooled.variance()), more)
        }
        (few, _) => (own.variance(), few),
    };
    let error = variance * (1.0 / first.count() as f64 + 1.0 / second.count() as f64);
    Some(student_quantile(confidence, degrees) * error.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    const TERMS: Terms = Terms { confidence: 0.95, margin: 0.0, seed: 1 };

    fn compare(first: &[f64], second: &[f64], terms: &Terms) -> Ratio {
        ratio(&Repeated::new(first), &Repeated::new(second), Scatter::default(), terms)
            .expect("values")
    }

    /// Returns a random value around 100 whose logarithm has a normal distribution with standard deviation
    /// `spread`.
    fn about_100(rng: &mut Rng, spread: f64) -> f64 {
        let radius = (-2.0 * (1.0 - rng.unit()).ln()).sqrt();
        100.0 * (spread * radius * (std::f64::consts::TAU * rng.unit()).cos()).exp()
    }

    #[test]
    fn two_repeats_show_a_half_but_not_a_small_difference() {
        let halved = compare(&[10_000.0, 10_300.0], &[5_100.0, 5_000.0], &TERMS);
        assert_eq!(halved.verdict, RatioVerdict::Lower);
        assert!((halved.ratio - 0.4976).abs() < 0.001, "{halved:?}");
        let doubled = compare(&[5_100.0, 5_000.0], &[10_000.0, 10_300.0], &TERMS);
        assert_eq!(doubled.verdict, RatioVerdict::Higher);
        assert!(
            (doubled.ratio * halved.ratio - 1.0).abs() < 1e-9,
            "each ratio is the inverse of the other"
        );
        let like = compare(&[10_000.0, 10_300.0], &[10_400.0, 10_050.0], &TERMS);
        assert_eq!(like.verdict, RatioVerdict::NotShown);
        let smallest = like.smallest.expect("there is a spread");
        assert!(smallest > 1.05 && smallest < 1.2, "{smallest}");
    }

    #[test]
    fn intervals_of_two_figures_decide_beyond_the_margin() {
        let within = |figure, low, high| Within { figure, low, high };
        let second = |value: f64| within(value, value * 0.99, value * 1.01);
        let whole = within(1.0, 0.999, 1.0);
        for (value, margin, verdict) in [
            (0.1, 0.05, RatioVerdict::Lower),
            (0.0, 0.05, RatioVerdict::Lower),
            (0.97, 0.05, RatioVerdict::NotShown),
            (0.97, 0.0, RatioVerdict::Lower),
            (1.2, 0.05, RatioVerdict::Higher),
        ] {
            let ratio = ratio_within(whole, second(value), margin);
            assert_eq!((ratio.ratio, ratio.verdict), (value, verdict));
        }
        let revived = ratio_within(within(0.0, 0.0, 0.001), second(1.0), 0.05);
        assert_eq!(revived.verdict, RatioVerdict::Higher);
        let dead = within(0.0, 0.0, 0.001);
        assert_eq!(ratio_within(dead, dead, 0.05).ratio, 1.0);
    }

    #[test]
    fn a_single_repeat_needs_the_spread_of_others() {
        let alone = compare(&[100.0], &[50.0], &TERMS);
        assert_eq!((alone.interval, alone.verdict), (None, RatioVerdict::NotShown));
        let (one, half) = (Repeated::new(&[100.0]), Repeated::new(&[50.0]));
        let pooled = Repeated::new(&[100.0, 102.0, 101.0]).scatter();
        let with = ratio(&one, &half, pooled, &TERMS).expect("values");
        assert_eq!(with.verdict, RatioVerdict::Lower);
        assert_eq!(ratio(&one, &Repeated::new(&[0.0, -1.0]), pooled, &TERMS), None);
    }

    #[test]
    fn a_difference_below_the_resolution_of_the_search_is_not_shown() {
        // Equal repeats, as rates on a grid give them, with brackets of a tenth.
        let bracketed = |low: f64| Repeated::bracketed([(low, low * 1.1); 3]);
        let near = ratio(&bracketed(100.0), &bracketed(109.0), Scatter::default(), &TERMS)
            .expect("values");
        assert_eq!(near.verdict, RatioVerdict::NotShown);
        let far = ratio(&bracketed(100.0), &bracketed(125.0), Scatter::default(), &TERMS)
            .expect("values");
        assert_eq!(far.verdict, RatioVerdict::Higher);
        let margin = Terms { margin: 0.2, ..TERMS };
        let within = ratio(&bracketed(100.0), &bracketed(125.0), Scatter::default(), &margin);
        assert_eq!(within.expect("values").verdict, RatioVerdict::NotShown);
    }

    /// Of many comparisons of equal figures, about the promised share finds a difference, also with few
    /// repeats; a bootstrap finds only a little more.
    #[test]
    fn false_alarms_are_as_rare_as_the_confidence_says() {
        for (repeats, runs, alarms) in
            [(2, 1_000, 20..70), (3, 1_000, 30..70), (5, 1_000, 30..70), (12, 150, 1..14)]
        {
            let mut rng = Rng::new(repeats);
            let mut draw = || (0..repeats).map(|_| about_100(&mut rng, 0.05)).collect::<Vec<_>>();
            let found = (0..runs)
                .filter(|_| compare(&draw(), &draw(), &TERMS).verdict != RatioVerdict::NotShown)
                .count();
            assert!(alarms.contains(&found), "{repeats} repeats: {found} false alarms of {runs}");
        }
    }

    /// A spread of similar figures causes no more false alarms than promised, whether the figures are much
    /// alike or not.
    #[test]
    fn pooled_spreads_cause_no_more_false_alarms() {
        for (spreads, repeats) in [
            ([0.05; 6], 2),
            ([0.05; 6], 3),
            ([0.02, 0.03, 0.04, 0.05, 0.06, 0.08], 2),
            ([0.02, 0.03, 0.04, 0.05, 0.06, 0.08], 5),
            ([0.01, 0.01, 0.01, 0.01, 0.01, 0.1], 2),
            ([0.01, 0.01, 0.01, 0.01, 0.01, 0.1], 3),
        ] {
            let mut rng = Rng::new(11);
            let terms = Terms { confidence: 1.0 - 0.05 / 6.0, ..TERMS };
            let alarms = (0..500)
                .filter(|_| {
                    let mut draw = |spread: f64| {
                        let values: Vec<f64> =
                            (0..repeats).map(|_| about_100(&mut rng, spread)).collect();
                        Repeated::new(&values)
                    };
                    let pairs = spreads.map(|spread| (draw(spread), draw(spread)));
                    let pooled = pairs.iter().map(|(a, b)| a.scatter() + b.scatter()).sum();
                    pairs.iter().any(|(a, b)| {
                        let found = ratio(a, b, pooled, &terms).expect("values");
                        found.verdict != RatioVerdict::NotShown
                    })
                })
                .count();
            assert!(alarms <= 40, "{repeats} repeats, spreads {spreads:?}: {alarms} of 500");
        }
    }

    #[test]
    fn five_repeats_show_a_difference_of_a_tenth() {
        let mut rng = Rng::new(5);
        let found = (0..200)
            .filter(|_| {
                let first: Vec<f64> = (0..5).map(|_| about_100(&mut rng, 0.02)).collect();
                let second: Vec<f64> = (0..5).map(|_| 0.9 * about_100(&mut rng, 0.02)).collect();
                compare(&first, &second, &TERMS).verdict == RatioVerdict::Lower
            })
            .count();
        assert!(found > 190, "{found} of 200");
    }
}
