//! Which of many revisions changed a figure: sequential tests of pairs of revisions, with random
//! error in every figure.
//!
//! ```text
//! first and last ──> no difference shown ──> Same
//!      └─ differ ──> probabilistic bisection: which step has the change, and how likely ──> the likeliest step
//!                          ^                                                                  │ its two sides, anew
//!                          └────────────────────── no difference shown ───────────────────────┴─> Found
//! ```
//!
//! Each figure of a round is divided by that of the other revision in the same round, so that what slows the machine down cancels. A test
//! looks at its rounds at given numbers of them, and each look may be wrong with an equal share of `FALSE_ALARM` (Bonferroni): so a difference
//! is claimed falsely with at most this probability, however often the looks are. A step is named only after a test of its own
//! with new rounds; the bisection before it only decides where to look, and its model of the noise (Student's t with four degrees of freedom)
//! need not be true. At most `CONFIRMATIONS` steps are tested, so that a false one is named with a probability of at most 5 %.
//!
//! Sources: Horstein 1963 and Waeber, Frazier and Henderson 2013 (probabilistic bisection).

use measure::stats::{ConfidenceInterval, OfRounds, median, of_rounds};

/// Numbers of rounds after which a test evaluates its figures.
const CHECKED_ROUNDS: [usize; 6] = [4, 6, 9, 14, 19, 26];
/// Probability of a false difference in one test.
const FALSE_ALARM: f64 = 0.025;
/// Largest number of steps that are tested.
const CONFIRMATIONS: usize = 2;
/// Confidence of the intervals that are reported.
const CONFIDENCE: f64 = 0.95;
/// A test ends without a difference where the whole interval of the ratio is as near to 1.
const EQUAL_RATIO: f64 = 0.01;
/// Probability of a step from which on it is tested.
const TESTED_PROBABILITY: f64 = 0.95;
/// Rounds of one comparison of the bisection.
const ROUNDS_PER_COMPARISON: usize = 2;
/// Largest number of comparisons of the bisection.
const MAX_COMPARISONS: usize = 200;
/// Least spread of the logarithms of ratios.
const LEAST_SPREAD: f64 = 0.002;
/// Standard deviation of a normal distribution as a multiple of its median deviation, and as much again for few values.
const OF_NORMAL: f64 = 1.4826 * 1.15;
/// Comparisons running without a figure after which the bisection fails.
const MOST_EMPTY: usize = 3;
/// Seed of the bootstraps, fixed so that the same rounds give the same intervals.
const SEED: u64 = 1;

/// The figures of two revisions in one round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// Figure of the earlier revision.
    pub before: f64,
    /// Figure of the later revision.
    pub after: f64,
}

/// Why two revisions could not be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// This revision, by its index, cannot be built or measured.
    Unusable(usize),
    /// The comparison failed or was interrupted.
    Failed(String),
}

/// Measures revisions, by their index, side by side.
pub trait Sides {
    /// Measures two revisions in `rounds` rounds, whose orders alternate; rounds that are void are left out.
    ///
    /// # Errors
    /// If one of them cannot be measured, or the user has interrupted it.
    fn pairs(&mut self, before: usize, after: usize, rounds: usize) -> Result<Vec<Pair>, Obstacle>;
}

/// Figures of two revisions, and whether they differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// Index of the earlier revision.
    pub before: usize,
    /// Index of the later revision.
    pub after: usize,
    /// Figure of the earlier revision.
    pub before_figure: OfRounds,
    /// Figure of the later revision.
    pub after_figure: OfRounds,
    /// Ratio of the later figure to the earlier one, paired by round.
    pub ratio: OfRounds,
    /// Number of rounds that measured both revisions.
    pub rounds: usize,
    /// Whether a difference is shown.
    pub differs: bool,
}

/// What a bisection found between the first and the last revision.
#[derive(Clone, Debug, PartialEq)]
pub enum Bisection {
    /// No difference is shown between the first and the last revision.
    Same(Compared),
    /// The step between two revisions changed the figure; revisions between them, if any, cannot be
    /// built or measured.
    Found {
        /// Comparison of the first with the last revision.
        whole: Compared,
        /// The two sides of the step.
        step: Compared,
    },
    /// First and last differ, but no single step is shown: the change may be in many small ones.
    Spread(Compared),
}

/// Finds which of the revisions 0 to `last` changed the figure.
///
/// # Errors
/// If the first or the last revision cannot be measured, or the user has interrupted it.
///
/// # Panics
/// If `last` is 0.
pub fn bisect(last: usize, sides: &mut dyn Sides) -> Result<Bisection, Obstacle> {
    assert!(last > 0, "a step needs two revisions");
    let mut ratios = Vec::new();
    let whole = compare(0, last, sides, &mut ratios)?;
    if !whole.differs {
        return Ok(Bisection::Same(whole));
    }
    let mut steps = Steps::new(last, &ratios);
    for _ in 0..CONFIRMATIONS {
        steps.narrow(sides)?;
        loop {
            let step = steps.likeliest();
            let (before, after) = (steps.left[step], steps.left[step + 1]);
            match compare(before, after, sides, &mut Vec::new()) {
                Ok(compared) if compared.differs => {
                    return Ok(Bisection::Found { whole, step: compared });
                }
                Ok(_) => {
                    // The change may be here nevertheless; the probability of that is chosen, not
                    // measured.
                    steps.weights[step] *= FALSE_ALARM;
                    break;
                }
                Err(Obstacle::Unusable(gone)) if gone != 0 && gone != last => {
                    steps.remove(gone);
                    steps.narrow(sides)?;
                }
                Err(e) => return Err(e),
            }
        }
    }
    Ok(Bisection::Spread(whole))
}

/// Compares two revisions until a difference or its absence is shown, or the rounds are used up.
/// The logarithms of the ratios are added to `ratios`.
fn compare(
    before: usize,
    after: usize,
    sides: &mut dyn Sides,
    ratios: &mut Vec<f64>,
) -> Result<Compared, Obstacle> {
    let mut pairs: Vec<Pair> = Vec::new();
    let mut last = None;
    for look in CHECKED_ROUNDS {
        // Void rounds are repeated once.
        for _ in 0..2 {
            let missing = look.saturating_sub(pairs.len());
            if missing > 0 {
                pairs.extend(sides.pairs(before, after, missing)?);
            }
        }
        if pairs.is_empty() {
            break;
        }
        let Some(compared) = compared(before, after, &pairs) else { continue };
        let settled = compared.differs || is_same(&compared.ratio.interval);
        last = Some(compared);
        if settled {
            break;
        }
    }
    ratios.extend(pairs.iter().map(|pair| (pair.after / pair.before).ln()));
    last.ok_or_else(no_figure)
}

fn no_figure() -> Obstacle {
    Obstacle::Failed(
        "too few rounds gave a figure: compare the first and the last revision with `dnsdyno history`, which reports why"
            .to_owned(),
    )
}

fn is_same(ratio: &ConfidenceInterval) -> bool {
    ratio.low > 1.0 - EQUAL_RATIO && ratio.high < 1.0 + EQUAL_RATIO
}

fn compared(before: usize, after: usize, pairs: &[Pair]) -> Option<Compared> {
    let values = |of: fn(&Pair) -> f64| pairs.iter().map(of).collect::<Vec<f64>>();
    let ratios = values(|pair| pair.after / pair.before);
    let strict =
        of_rounds(&ratios, 1.0 - FALSE_ALARM / CHECKED_ROUNDS.len() as f64, SEED)?.interval;
    Some(Compared {
        before,
        after,
        before_figure: of_rounds(&values(|pair| pair.before), CONFIDENCE, SEED)?,
        after_figure: of_rounds(&values(|pair| pair.after), CONFIDENCE, SEED)?,
        ratio: of_rounds(&ratios, CONFIDENCE, SEED)?,
        rounds: pairs.len(),
        differs: pairs.len() >= CHECKED_ROUNDS[0] && (strict.low > 1.0 || strict.high < 1.0),
    })
}

/// The steps that may have the change, each with its probability up to a factor.
struct Steps {
    /// Revisions that are not known to be unusable; step `i` is between `left[i]` and `left[i +
    /// 1]`.
    left: Vec<usize>,
    weights: Vec<f64>,
    /// Logarithm of the ratio after the change.
    change: f64,
    /// Spread of the logarithms of ratios.
    spread: f64,
}

impl Steps {
    fn new(last: usize, ratios: &[f64]) -> Self {
        let change = median(ratios).unwrap_or(0.0);
        let away: Vec<f64> = ratios.iter().map(|ratio| (ratio - change).abs()).collect();
        let spread = (OF_NORMAL * median(&away).unwrap_or(0.0)).max(LEAST_SPREAD);
        Steps { left: (0..=last).collect(), weights: vec![1.0; last], change, spread }
    }

    /// Compares revisions with the first one until one step is likely enough, or the comparisons are used up.
    fn narrow(&mut self, sides: &mut dyn Sides) -> Result<(), Obstacle> {
        let last = self.left[self.left.len() - 1];
        let mut empty = 0;
        for _ in 0..MAX_COMPARISONS {
            let sum: f64 = self.weights.iter().sum();
            let most = self.weights.iter().copied().fold(0.0, f64::max);
            if most >= TESTED_PROBABILITY * sum {
                return Ok(());
            }
            let mut below = 0.0;
            let within = self.weights.iter().take_while(|weight| {
                below += *weight;
                below < sum / 2.0
            });
            // The revision after the median step, or before it if that is nearer.
            let median = within.count();
            let before = below - self.weights[median];
            let behind = if sum / 2.0 - before < below - sum / 2.0 { median } else { median + 1 };
            let at = behind.clamp(1, self.left.len() - 2);
            match sides.pairs(0, self.left[at], ROUNDS_PER_COMPARISON) {
                Ok(pairs) => {
                    empty = if pairs.is_empty() { empty + 1 } else { 0 };
                    if empty == MOST_EMPTY {
                        return Err(no_figure());
                    }
                    pairs.iter().for_each(|pair| self.add(at, pair));
                }
                Err(Obstacle::Unusable(gone)) if gone != 0 && gone != last => self.remove(gone),
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Adds a round of the first revision and that at `at`.
    fn add(&mut self, at: usize, pair: &Pair) {
        let ratio = (pair.after / pair.before).ln();
        // Student's t with four degrees of freedom.
        let density = |from: f64| (1.0 + ((ratio - from) / self.spread).powi(2) / 4.0).powf(-2.5);
        let (changed, unchanged) = (density(self.change), density(0.0));
        for (step, weight) in self.weights.iter_mut().enumerate() {
            *weight *= if step < at { changed } else { unchanged };
        }
        let sum: f64 = self.weights.iter().sum();
        self.weights.iter_mut().for_each(|weight| *weight /= sum);
    }

    /// Joins the two steps around a revision that cannot be measured.
    fn remove(&mut self, revision: usize) {
        if let Some(at) = self.left.iter().position(|left| *left == revision) {
            self.left.remove(at);
            let behind = self.weights.remove(at);
            self.weights[at - 1] += behind;
        }
    }

    fn likeliest(&self) -> usize {
        let all = 0..self.weights.len();
        all.max_by(|a, b| self.weights[*a].total_cmp(&self.weights[*b])).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use measure::rng::Rng;

    use super::*;

    /// Revisions with known figures, and noise.
    struct Simulated {
        rng: Rng,
        levels: Vec<f64>,
        /// Spread of the figure of a round.
        noise: f64,
        /// Share of the rounds that are disturbed.
        disturbed: f64,
        broken: Vec<usize>,
        rounds: usize,
        /// Number of comparisons after which no round gives a figure.
        silent_after: usize,
    }

    impl Simulated {
        fn new(seed: u64, levels: Vec<f64>) -> Self {
            let rng = Rng::new(seed);
            Simulated {
                rng,
                levels,
                noise: 0.015,
                disturbed: 0.05,
                broken: Vec::new(),
                rounds: 0,
                silent_after: usize::MAX,
            }
        }

        fn figure(&mut self, of: usize) -> f64 {
            let radius = (-2.0 * (1.0 - self.rng.unit()).ln()).sqrt();
            let normal = radius * (std::f64::consts::TAU * self.rng.unit()).cos();
            let hit = if self.rng.unit() < self.disturbed { 0.8 } else { 1.0 };
            self.levels[of] * (self.noise * normal).exp() * hit
        }
    }

    impl Sides for Simulated {
        fn pairs(&mut self, a: usize, b: usize, rounds: usize) -> Result<Vec<Pair>, Obstacle> {
            if let Some(gone) = [a, b].into_iter().find(|one| self.broken.contains(one)) {
                return Err(Obstacle::Unusable(gone));
            }
            self.rounds += rounds;
            if self.silent_after == 0 {
                return Ok(Vec::new());
            }
            self.silent_after -= 1;
            Ok((0..rounds)
                .map(|_| {
                    let slow = 1.0 - 0.3 * self.rng.unit();
                    Pair { before: slow * self.figure(a), after: slow * self.figure(b) }
                })
                .collect())
        }
    }

    /// Levels of 17 revisions: from `at` on they are multiplied by `by`.
    fn levels(at: usize, by: f64) -> Vec<f64> {
        (0..17).map(|i| if i < at { 1e5 } else { 1e5 * by }).collect()
    }

    #[test]
    fn a_planted_change_is_found_and_nothing_else() {
        const RUNS: u64 = 200;
        let (mut found, mut wrong, mut rounds) = (0, 0, 0);
        for seed in 0..RUNS {
            let at = 1 + seed as usize % 16;
            let mut sides = Simulated::new(seed, levels(at, 0.95));
            match bisect(16, &mut sides).expect("measured") {
                Bisection::Found { step, .. } if (step.before, step.after) == (at - 1, at) => {
                    found += 1;
                    assert!(step.ratio.value > 0.9 && step.ratio.value < 0.98, "{step:?}");
                }
                Bisection::Found { .. } => wrong += 1,
                _ => {}
            }
            rounds += sides.rounds;
        }
        assert!(found >= 190 && wrong <= 4, "{found} found, {wrong} wrong of {RUNS}");
        assert!(rounds / (RUNS as usize) < 80, "{rounds} rounds in {RUNS} runs");
    }

    #[test]
    fn without_a_change_none_is_claimed() {
        for (noise, disturbed) in [(0.01, 0.0), (0.03, 0.0), (0.02, 0.1)] {
            let claims = (0..200).filter(|seed| {
                let mut sides = Simulated::new(1_000 + seed, levels(17, 1.0));
                (sides.noise, sides.disturbed) = (noise, disturbed);
                !matches!(bisect(16, &mut sides), Ok(Bisection::Same(_)))
            });
            let claims = claims.count();
            assert!(claims <= 10, "{claims} of 200 with {noise} and {disturbed}");
        }
    }

    #[test]
    fn many_small_steps_are_no_single_one() {
        let named = (0..100).filter(|seed| {
            let levels = (0..17).map(|i| 1e5 * 0.997_f64.powi(i)).collect();
            let outcome = bisect(16, &mut Simulated::new(2_000 + seed, levels)).expect("measured");
            matches!(outcome, Bisection::Found { .. })
        });
        let named = named.count();
        assert!(named <= 5, "{named} of 100");
    }

    #[test]
    fn what_cannot_be_measured_is_passed_over() {
        let mut sides = Simulated::new(3, levels(8, 0.8));
        sides.broken = vec![7, 8, 12];
        let Ok(Bisection::Found { step, .. }) = bisect(16, &mut sides) else { panic!("no step") };
        assert_eq!((step.before, step.after), (6, 9));
        sides.broken = vec![0];
        assert_eq!(bisect(16, &mut sides), Err(Obstacle::Unusable(0)));
        let mut two = Simulated::new(4, vec![1.0, 1.2]);
        let Ok(Bisection::Found { step, .. }) = bisect(1, &mut two) else { panic!("no step") };
        assert_eq!((step.before, step.after), (0, 1));
    }

    #[test]
    fn rounds_without_figures_end_it() {
        for silent_after in [0, 1, 3, 5] {
            let mut sides = Simulated { silent_after, ..Simulated::new(5, levels(8, 0.8)) };
            assert_eq!(bisect(16, &mut sides), Err(no_figure()));
            assert!(sides.rounds < 200, "{} rounds", sides.rounds);
        }
    }
}
