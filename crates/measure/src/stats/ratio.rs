//! The ratio of two figures, each measured a few times, and what may be said of it.
//!
//! Everything is done on logarithms, where a ratio is a difference and the spread of a rate does not depend on
//! how fast the server is. Three things make a ratio unsure, and the interval holds them all:
//!
//! 1. The repeats differ. With ten or more on each side a bootstrap of the medians says how much; with fewer,
//!    Student's t with the spread of both sides pooled, which gets wide as it must: with two repeats on each
//!    side the interval is over four spreads wide to each side. That of others may be lent, as that of the other
//!    cells of the same runs: it is taken where it is no narrower and its own spread fits it, and so a few
//!    repeats of many cells say as much as many repeats of one. A single repeat has no spread of its own.
//! 2. A search knows its capacity only to its resolution: it lies between the highest rate that passed and the
//!    lowest that failed. All searches of a run look at the same rates, so that this does not shrink with
//!    repeats; the interval is widened by half a bracket of each side.
//! 3. Two runs of the same differ by more than the repeats within each: an hour later a host is another host.
//!    No run can know by how much. A margin is taken instead: what lies within it is no difference.

use super::interval::bootstrap_difference;
use super::{BOOTSTRAP_FROM, mean, median, student_quantile};

/// A figure that was measured some times.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Repeated {
    /// Natural logarithms of the values.
    logs: Vec<f64>,
    /// How wide a bracket is, as a logarithm: the value is known to lie within half of it to each side.
    bracket: f64,
}

impl Repeated {
    /// From positive values; others are left out.
    pub fn new(values: &[f64]) -> Self {
        Self::bracketed(values.iter().map(|v| (*v, *v)))
    }

    /// From brackets: a passing rate and a failing rate above it. The value is taken to be between them.
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

    /// How many values there are.
    pub fn count(&self) -> usize {
        self.logs.len()
    }

    /// The sum of squared distances from the mean, and its degrees of freedom.
    pub fn scatter(&self) -> (f64, usize) {
        let mean = mean(&self.logs).unwrap_or(0.0);
        let squares = self.logs.iter().map(|x| (x - mean).powi(2)).sum();
        (squares, self.logs.len().saturating_sub(1))
    }
}

/// How two figures are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// The confidence (0 to 1) of the interval.
    pub confidence: f64,
    /// The share by which two runs of the same may differ: 0.05 takes 95 and 100 for equal.
    pub margin: f64,
    /// Of the bootstrap.
    pub seed: u64,
}

/// A ratio with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The second figure over the first.
    pub ratio: f64,
    /// The interval's ends; absent when no repeats say how much they differ.
    pub interval: Option<(f64, f64)>,
    /// The smallest ratio above one that this comparison could have told from one.
    pub smallest: Option<f64>,
    /// Whether the ratio is shown to differ from one.
    pub verdict: Verdict,
}

/// What is shown of a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The second figure is higher.
    Higher,
    /// The second figure is lower.
    Lower,
    /// It may be either.
    NotShown,
}

/// Compares `second` with `first`. `lent` is the scatter of figures like these, with their own.
/// `None` when one of them has no value.
pub fn ratio(
    first: &Repeated,
    second: &Repeated,
    lent: (f64, usize),
    terms: &Terms,
) -> Option<Ratio> {
    let few = first.count().min(second.count()) < BOOTSTRAP_FROM;
    let middle = |r: &Repeated| if few { mean(&r.logs) } else { median(&r.logs) };
    let difference = middle(second)? - middle(first)?;
    let bracket = (first.bracket + second.bracket) / 2.0;
    let spread = if few {
        by_student(first, second, lent, terms.confidence)
            .map(|half| (difference - half, difference + half))
    } else {
        bootstrap_difference(&second.logs, &first.logs, median, terms.confidence, terms.seed)
            .map(|i| (i.low, i.high))
    };
    let margin = (1.0 + terms.margin).ln();
    let Some((low, high)) = spread.map(|(low, high)| (low - bracket, high + bracket)) else {
        let verdict = Verdict::NotShown;
        return Some(Ratio { ratio: difference.exp(), interval: None, smallest: None, verdict });
    };
    Some(Ratio {
        ratio: difference.exp(),
        interval: Some((low.exp(), high.exp())),
        smallest: Some(((high - low) / 2.0 + margin).exp()),
        verdict: match () {
            () if low > margin => Verdict::Higher,
            () if high < -margin => Verdict::Lower,
            () => Verdict::NotShown,
        },
    })
}

/// A variance up to so many times that of others fits theirs: of two repeats on each side, that of 19 of 20
/// does when it is theirs.
const FITS: f64 = 3.0;

/// Half the width of Student's interval of the difference of means; `None` without any spread to go by.
fn by_student(
    first: &Repeated,
    second: &Repeated,
    lent: (f64, usize),
    confidence: f64,
) -> Option<f64> {
    let ((s, f), (t, g)) = (first.scatter(), second.scatter());
    let of = |(squares, degrees): (f64, usize)| squares / degrees as f64;
    let own = (s + t, f + g);
    let (variance, degrees) = match (own.1, lent.1) {
        (0, 0) => return None,
        (0, _) => (of(lent), lent.1),
        // Its own spread fits what others have: it is taken for theirs, or its own if that is wider.
        (few, more) if more > few && of(own) <= FITS * of(lent) => (of(own).max(of(lent)), more),
        (few, _) => (of(own), few),
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
        ratio(&Repeated::new(first), &Repeated::new(second), (0.0, 0), terms).expect("values")
    }

    /// A value that is normal about 100, with a standard deviation of a share of it.
    fn about_100(rng: &mut Rng, spread: f64) -> f64 {
        let radius = (-2.0 * (1.0 - rng.unit()).ln()).sqrt();
        100.0 * (spread * radius * (std::f64::consts::TAU * rng.unit()).cos()).exp()
    }

    #[test]
    fn half_is_seen_with_two_repeats_and_little_is_not() {
        let halved = compare(&[10_000.0, 10_300.0], &[5_100.0, 5_000.0], &TERMS);
        assert_eq!(halved.verdict, Verdict::Lower);
        assert!((halved.ratio - 0.4976).abs() < 0.001, "{halved:?}");
        let doubled = compare(&[5_100.0, 5_000.0], &[10_000.0, 10_300.0], &TERMS);
        assert_eq!(doubled.verdict, Verdict::Higher);
        assert!(
            (doubled.ratio * halved.ratio - 1.0).abs() < 1e-9,
            "the two are each other's inverse"
        );
        let like = compare(&[10_000.0, 10_300.0], &[10_400.0, 10_050.0], &TERMS);
        assert_eq!(like.verdict, Verdict::NotShown);
        let smallest = like.smallest.expect("there is a spread");
        assert!(smallest > 1.05 && smallest < 1.2, "{smallest}");
    }

    #[test]
    fn a_single_repeat_needs_a_spread_lent() {
        let alone = compare(&[100.0], &[50.0], &TERMS);
        assert_eq!((alone.interval, alone.verdict), (None, Verdict::NotShown));
        let (one, half) = (Repeated::new(&[100.0]), Repeated::new(&[50.0]));
        let lent = Repeated::new(&[100.0, 102.0, 101.0]).scatter();
        let with = ratio(&one, &half, lent, &TERMS).expect("values");
        assert_eq!(with.verdict, Verdict::Lower);
        assert_eq!(ratio(&one, &Repeated::new(&[0.0, -1.0]), lent, &TERMS), None);
    }

    #[test]
    fn what_a_search_did_not_resolve_is_no_difference() {
        // Equal repeats, as on a grid; brackets of a tenth.
        let bracketed = |low: f64| Repeated::bracketed([(low, low * 1.1); 3]);
        let near = ratio(&bracketed(100.0), &bracketed(109.0), (0.0, 0), &TERMS).expect("values");
        assert_eq!(near.verdict, Verdict::NotShown);
        let far = ratio(&bracketed(100.0), &bracketed(125.0), (0.0, 0), &TERMS).expect("values");
        assert_eq!(far.verdict, Verdict::Higher);
        let margin = Terms { margin: 0.2, ..TERMS };
        let within = ratio(&bracketed(100.0), &bracketed(125.0), (0.0, 0), &margin);
        assert_eq!(within.expect("values").verdict, Verdict::NotShown);
    }

    /// Of many comparisons of the same with the same about as many as promised find a difference, however few
    /// the repeats; and of the bootstrap not many more.
    #[test]
    fn false_alarms_are_as_rare_as_promised() {
        for (repeats, runs, alarms) in
            [(2, 1_000, 20..70), (3, 1_000, 30..70), (5, 1_000, 30..70), (12, 150, 1..14)]
        {
            let mut rng = Rng::new(repeats);
            let mut draw = || (0..repeats).map(|_| about_100(&mut rng, 0.05)).collect::<Vec<_>>();
            let found = (0..runs)
                .filter(|_| compare(&draw(), &draw(), &TERMS).verdict != Verdict::NotShown)
                .count();
            assert!(alarms.contains(&found), "{repeats} repeats: {found} false alarms of {runs}");
        }
    }

    /// A spread that is lent makes no more false alarms than promised, alike or not so much alike.
    #[test]
    fn lent_spreads_are_honest_too() {
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
                    let lent = pairs
                        .iter()
                        .flat_map(|(a, b)| [a.scatter(), b.scatter()])
                        .fold((0.0, 0), |(s, d), (squares, degrees)| (s + squares, d + degrees));
                    pairs.iter().any(|(a, b)| {
                        let found = ratio(a, b, lent, &terms).expect("values");
                        found.verdict != Verdict::NotShown
                    })
                })
                .count();
            assert!(alarms <= 40, "{repeats} repeats, spreads {spreads:?}: {alarms} of 500");
        }
    }

    #[test]
    fn a_tenth_is_found_with_five_repeats() {
        let mut rng = Rng::new(5);
        let found = (0..200)
            .filter(|_| {
                let first: Vec<f64> = (0..5).map(|_| about_100(&mut rng, 0.02)).collect();
                let second: Vec<f64> = (0..5).map(|_| 0.9 * about_100(&mut rng, 0.02)).collect();
                compare(&first, &second, &TERMS).verdict == Verdict::Lower
            })
            .count();
        assert!(found > 190, "{found} of 200");
    }
}
