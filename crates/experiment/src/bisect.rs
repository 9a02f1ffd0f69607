//! Which of many revisions changed a figure: sequential tests of pairs of revisions, with random
//! error in every figure.
//!
//! ```text
//! first and last ──> no difference shown ──> Same
//!      └─ differ ──> probabilistic bisection: which step has the change, and how likely ──> the likeliest step
//!                          ^                                                                  │ its two sides, anew
//!                          └────────────────────── no difference shown ───────────────────────┼─> Found
//!                                                              twice: first and last, anew ──> Same or Spread
//! ```
//!
//! Each figure of a round is divided by that of the other revision in the same round, so that what slows the machine down cancels. A test
//! looks at its rounds at given numbers of them, and each look may be wrong with an equal share of `FALSE_ALARM` (Bonferroni): so a difference
//! is claimed falsely with at most this probability, however often the looks are. A step is named only after a test of its own
//! with new rounds; the bisection before it only decides where to look, and its model of the noise (Student's t with four degrees of freedom)
//! need not be true. At most `CONFIRMATIONS` steps are tested, so that a false one is named with a probability of at most 5 %.
//!
//! Sources: Horstein 1963 and Waeber, Frazier and Henderson 2013 (probabilistic bisection).

use std::f64::consts::SQRT_2;

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

impl Pair {
    /// Returns the logarithm of the ratio of the later figure to the earlier one.
    fn log_ratio(&self) -> f64 {
        (self.after / self.before).ln()
    }
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
    let mut tests = 0;
    while tests < CONFIRMATIONS {
        let (before, after) = steps.narrow(sides)?;
        match compare(before, after, sides, &mut Vec::new()) {
            Ok(step) if step.differs => return Ok(Bisection::Found { whole, step }),
            Ok(_) => steps.tested.push(after),
            Err(Obstacle::Unusable(gone)) if gone != 0 && gone != last => {
                steps.remove(gone);
                continue;
            }
            Err(e) => return Err(e),
        }
        tests += 1;
    }
    // New rounds: the first difference may have been one by chance.
    let again = compare(0, last, sides, &mut Vec::new())?;
    Ok(if again.differs { Bisection::Spread(again) } else { Bisection::Same(again) })
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
    ratios.extend(pairs.iter().map(Pair::log_ratio));
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

/// The steps that may have the change, with the rounds that show where it is.
struct Steps {
    /// Revisions that are not known to be unusable; step `i` is between `left[i]` and `left[i +
    /// 1]`.
    left: Vec<usize>,
    /// Revisions whose step from the one before was tested, and not shown to differ.
    tested: Vec<usize>,
    /// Revisions with the logarithm of their ratio to the first one in a round.
    ratios: Vec<(usize, f64)>,
    /// Differences of these logarithms between rounds of one comparison: they show the spread wherever the change is, and follow the
    /// noise of the machine.
    differences: Vec<f64>,
    /// Logarithm of the ratio after the change.
    change: f64,
}

impl Steps {
    fn new(last: usize, ratios: &[f64]) -> Self {
        let change = median(ratios).unwrap_or(0.0);
        let mut steps = Steps {
            left: (0..=last).collect(),
            tested: Vec::new(),
            ratios: Vec::new(),
            differences: Vec::new(),
            change,
        };
        steps.note_differences(ratios);
        steps
    }

    fn note_differences(&mut self, ratios: &[f64]) {
        self.differences.extend(ratios.windows(2).map(|two| (two[0] - two[1]).abs()));
    }

    /// Returns the probability of each step.
    fn probabilities(&self) -> Vec<f64> {
        let spread = OF_NORMAL / SQRT_2 * median(&self.differences).unwrap_or(0.0);
        let spread = spread.max(LEAST_SPREAD);
        // Student's t with four degrees of freedom, up to a constant.
        let density = |away: f64| -2.5 * (1.0 + (away / spread).powi(2) / 4.0).ln();
        let log = |step: &[usize]| {
            let (before, after) = (step[0], step[1]);
            let of = |(revision, ratio): &(usize, f64)| {
                density(if *revision >= after { ratio - self.change } else { *ratio })
            };
            // The change may be in a tested step nevertheless; the probability of that is chosen, not
            // measured.
            let prior = if self.tested.contains(&after) { FALSE_ALARM } else { 1.0 };
            (prior * (after - before) as f64).ln() + self.ratios.iter().map(of).sum::<f64>()
        };
        let logs: Vec<f64> = self.left.windows(2).map(log).collect();
        let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = logs.iter().map(|log| (log - most).exp()).collect();
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|weight| weight / sum).collect()
    }

    /// Compares revisions with the first one until one step is likely enough, or the comparisons are used up. Returns its two sides.
    fn narrow(&mut self, sides: &mut dyn Sides) -> Result<(usize, usize), Obstacle> {
        let last = self.left[self.left.len() - 1];
        let mut empty = 0;
        for _ in 0..MAX_COMPARISONS {
            let probabilities = self.probabilities();
            if probabilities.iter().any(|likely| *likely >= TESTED_PROBABILITY) {
                break;
            }
            let mut below = 0.0;
            let within = probabilities.iter().take_while(|likely| {
                below += *likely;
                below < 0.5
            });
            // The revision after the median step, or before it if that is nearer.
            let median = within.count();
            let before = below - probabilities[median];
            let behind = if 0.5 - before < below - 0.5 { median } else { median + 1 };
            let at = self.left[behind.clamp(1, self.left.len() - 2)];
            match sides.pairs(0, at, ROUNDS_PER_COMPARISON) {
                Ok(pairs) => {
                    empty = if pairs.is_empty() { empty + 1 } else { 0 };
                    if empty == MOST_EMPTY {
                        return Err(no_figure());
                    }
                    let ratios: Vec<f64> = pairs.iter().map(Pair::log_ratio).collect();
                    self.note_differences(&ratios);
                    self.ratios.extend(ratios.iter().map(|ratio| (at, *ratio)));
                }
                Err(Obstacle::Unusable(gone)) if gone != 0 && gone != last => self.remove(gone),
                Err(e) => return Err(e),
            }
        }
        let probabilities = self.probabilities();
        let steps = self.left.windows(2).zip(probabilities);
        let likeliest = steps.max_by(|(_, a), (_, b)| a.total_cmp(b));
        Ok(likeliest.map_or((0, last), |(step, _)| (step[0], step[1])))
    }

    /// Joins the two steps around a revision that cannot be measured.
    fn remove(&mut self, revision: usize) {
        self.left.retain(|left| *left != revision);
        self.ratios.retain(|(of, _)| *of != revision);
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
        /// Number of comparisons after which the noise is four times as large.
        calm_for: usize,
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
                calm_for: usize::MAX,
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
            if self.calm_for == 0 {
                self.noise = 0.06;
            }
            self.calm_for = self.calm_for.saturating_sub(1);
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
            assert!(claims <= 2, "{claims} of 200 with {noise} and {disturbed}");
        }
    }

    #[test]
    fn a_machine_that_grows_noisy_delays_and_does_not_mislead() {
        let (mut found, mut wrong) = (0, 0);
        for seed in 0..100 {
            let at = 1 + seed as usize % 16;
            let sides = Simulated::new(3_000 + seed, levels(at, 0.9));
            match bisect(16, &mut Simulated { calm_for: 1, ..sides }).expect("measured") {
                Bisection::Found { step, .. } if step.after == at => found += 1,
                Bisection::Found { .. } => wrong += 1,
                _ => {}
            }
        }
        assert!(found >= 90 && wrong <= 4, "{found} found, {wrong} wrong of 100");
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
