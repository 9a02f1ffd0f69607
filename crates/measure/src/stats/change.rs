//! Change points of a series: where the level of a figure changed between two runs and stayed.
//!
//! The statistic is Pettitt's (1979): the largest difference of the rank sums before and after a point. Ranks make one slow run no
//! change. A random order of the same values tells how large the statistic becomes by chance (a permutation test); the two parts of a
//! change are searched in the same way. Eight values with a clear step are the fewest that show one at 95 %.
//!
//! A value may be a lower bound. It is above another value only if the bound is, and below none (Gehan 1965): without bounds the scores
//! are the ranks. So a bound that moves, such as what a Tester can offer, is no change, and a fall from a bound to values below it is one.

use super::median;
use crate::rng::Rng;

/// Number of random orders of the values that a change is tested against.
const RANDOM_ORDERS: u32 = 999;
/// Largest number of values; of more the last count, so that time and memory are bounded.
const MAX_VALUES: usize = 1_000;

/// Largest number of rounds in which the points found are tested again.
const MAX_ROUNDS: usize = 10;

/// Settings of the search for change points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChangeTerms {
    /// Confidence in each change point, 0 to 1.
    pub confidence: f64,
    /// Share by which the medians before and after must differ; less is no change.
    pub margin: f64,
    /// Seed of the random orders.
    pub seed: u64,
}

/// A value, or a lower bound of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// The value or the lower bound.
    pub value: f64,
    /// Whether the value is a lower bound.
    pub at_least: bool,
}

impl Level {
    /// Returns 1 if the value is known to be above `other`, -1 if it is known to be below, else 0.
    fn against(self, other: Level) -> i32 {
        let above = |a: Level, b: Level| !b.at_least && a.value > b.value;
        i32::from(above(self, other)) - i32::from(above(other, self))
    }

    /// Returns the median of values; a lower bound if the true value of one of them may be above
    /// it.
    fn median(values: &[Level]) -> Option<Level> {
        let value = median(&values.iter().map(|level| level.value).collect::<Vec<_>>())?;
        let at_least = values.iter().any(|level| level.at_least && level.value <= value);
        Some(Level { value, at_least })
    }
}

/// A change of level in a series of values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// Index of the first value of the new level.
    pub at: usize,
    /// Median of the level before.
    pub before: Level,
    /// Median of the new level.
    pub after: Level,
}

/// Returns the changes of level of `values` in their order.
pub fn changes(values: &[Level], terms: &ChangeTerms) -> Vec<Change> {
    let skipped = values.len().saturating_sub(MAX_VALUES);
    let values = &values[skipped..];
    let mut points = Vec::new();
    split(values, 0, terms, &mut points);
    points.sort_unstable();
    settle(values, terms, &mut points);
    let mut ends = vec![0];
    ends.extend(&points);
    ends.push(values.len());
    let changes = ends.windows(3).filter_map(|part| {
        Some(Change {
            at: skipped + part[1],
            before: Level::median(&values[part[0]..part[1]])?,
            after: Level::median(&values[part[1]..part[2]])?,
        })
    });
    changes.collect()
}

/// Finds the change points of a part that begins at `offset`.
fn split(part: &[Level], offset: usize, terms: &ChangeTerms, points: &mut Vec<usize>) {
    let Some(at) = change_point(part, terms) else { return };
    points.push(offset + at);
    split(&part[..at], offset, terms, points);
    split(&part[at..], offset + at, terms, points);
}

/// Tests each point again between its neighbours: with several changes the first point found may be
/// beside the real change. Points move or are removed until each one passes the test alone.
fn settle(values: &[Level], terms: &ChangeTerms, points: &mut Vec<usize>) {
    for _ in 0..MAX_ROUNDS {
        let before = points.clone();
        let mut i = 0;
        while i < points.len() {
            let from = i.checked_sub(1).map_or(0, |i| points[i]);
            let to = points.get(i + 1).copied().unwrap_or(values.len());
            match change_point(&values[from..to], terms) {
                Some(at) => {
                    points[i] = from + at;
                    i += 1;
                }
                None => drop(points.remove(i)),
            }
        }
        if *points == before {
            return;
        }
    }
}

/// Returns the place of the strongest change, if it is significant and large enough.
fn change_point(part: &[Level], terms: &ChangeTerms) -> Option<usize> {
    let mut scores = scores(part);
    let (at, strength) = strongest(&scores)?;
    let (before, after) = (Level::median(&part[..at])?.value, Level::median(&part[at..])?.value);
    let least = terms.margin * before.abs().min(after.abs());
    if (after - before).abs() <= least {
        return None;
    }
    let mut rng = Rng::new(terms.seed);
    let mut by_chance = 1;
    for _ in 0..RANDOM_ORDERS {
        for i in (1..scores.len()).rev() {
            scores.swap(i, rng.below(i as u64 + 1) as usize);
        }
        by_chance += u32::from(strongest(&scores).is_some_and(|(_, s)| s >= strength));
    }
    let chance = f64::from(by_chance) / f64::from(RANDOM_ORDERS + 1);
    (chance <= 1.0 - terms.confidence).then_some(at)
}

/// Returns the score of each value: the number of smaller values less the number of larger ones.
/// Twice the rank less the middle one, without bounds.
fn scores(values: &[Level]) -> Vec<i32> {
    let score = |one: &Level| values.iter().map(|other| one.against(*other)).sum();
    values.iter().map(score).collect()
}

/// Returns the place with the largest difference of the sums of scores, and that difference; `None` of fewer than two values.
fn strongest(scores: &[i32]) -> Option<(usize, u32)> {
    let mut sum = 0;
    let places = scores.split_last()?.1.iter().zip(1..).map(|(score, at)| {
        sum += score;
        (at, i32::unsigned_abs(sum))
    });
    places.max_by_key(|place| place.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: ChangeTerms = ChangeTerms { confidence: 0.95, margin: 0.05, seed: 1 };

    fn exact(value: f64) -> Level {
        Level { value, at_least: false }
    }

    fn at_least(value: f64) -> Level {
        Level { value, at_least: true }
    }

    fn places(values: &[f64]) -> Vec<usize> {
        let values: Vec<Level> = values.iter().copied().map(exact).collect();
        changes(&values, &TERMS).into_iter().map(|change| change.at).collect()
    }

    #[test]
    fn a_step_is_found_and_its_levels() {
        let values = [100.0, 101.0, 99.0, 100.5, 80.0, 81.0, 79.5, 80.2];
        let (before, after) = (exact(100.25), exact(80.1));
        assert_eq!(changes(&values.map(exact), &TERMS), [Change { at: 4, before, after }]);
        let both: Vec<f64> =
            values.iter().chain(&[120.0, 121.0, 119.0, 122.0, 118.0]).copied().collect();
        assert_eq!(places(&both), [4, 8]);
    }

    #[test]
    fn a_stair_has_no_change_within_a_step() {
        let noise = [0.0, 0.7, -0.6, 0.4, -0.9, 0.2];
        let step = |level: f64, count: usize| (0..count).map(move |i| level + noise[i % 6]);
        let stair: Vec<f64> = step(120.0, 6).chain(step(100.0, 12)).chain(step(80.0, 6)).collect();
        assert_eq!(places(&stair), [6, 18]);
    }

    #[test]
    fn no_change_is_found_without_one() {
        assert!(
            places(&[]).is_empty() && places(&[1.0]).is_empty() && places(&[7.0; 20]).is_empty()
        );
        let three = [100.0, 100.0, 100.0, 50.0, 50.0, 50.0];
        assert!(places(&three).is_empty(), "six values cannot show it");
        let one_slow = [100.0, 101.0, 99.0, 100.5, 20.0, 100.2, 99.8, 101.2, 100.1, 99.9];
        assert!(places(&one_slow).is_empty());
        let small = [100.0, 101.0, 99.0, 100.5, 98.0, 97.5, 98.2, 97.9, 97.7, 98.1];
        assert!(places(&small).is_empty(), "within the margin");
    }

    #[test]
    fn lower_bounds_count_as_far_as_they_tell() {
        let series = |before: [Level; 6], after: [Level; 6]| [before, after].concat();
        let (low, high) =
            ([80.0, 81.0, 79.5, 80.5, 80.0, 79.0], [100.0, 101.0, 99.0, 100.5, 99.5, 100.0]);
        // A Tester that can offer less, or more.
        assert!(changes(&series(high.map(at_least), low.map(at_least)), &TERMS).is_empty());
        // What was at least 80 may have been 100 before.
        assert!(changes(&series(low.map(at_least), high.map(exact)), &TERMS).is_empty());
        let fallen = changes(&series(high.map(at_least), low.map(exact)), &TERMS);
        assert_eq!(fallen, [Change { at: 6, before: at_least(100.0), after: exact(80.0) }]);
        let risen = changes(&series(low.map(exact), high.map(at_least)), &TERMS);
        assert_eq!(risen, [Change { at: 6, before: exact(80.0), after: at_least(100.0) }]);
        // A bound above the median changes nothing in it.
        let mixed = [exact(1.0), exact(2.0), at_least(3.0)];
        assert_eq!(Level::median(&mixed), Some(exact(2.0)));
        assert_eq!(Level::median(&[at_least(1.0), exact(2.0), exact(3.0)]), Some(at_least(2.0)));
    }

    #[test]
    fn long_series_are_bounded() {
        let values: Vec<f64> = (0..3_000).map(|i| if i < 2_500 { 1.0 } else { 2.0 }).collect();
        assert_eq!(places(&values), [2_500]);
    }

    #[test]
    fn noise_seldom_shows_a_change() {
        let mut rng = Rng::new(7);
        let noisy =
            |rng: &mut Rng| (0..20).map(|_| 100.0 + 50.0 * rng.unit()).collect::<Vec<f64>>();
        let found = (0..100).filter(|_| !places(&noisy(&mut rng)).is_empty()).count();
        assert!(found <= 12, "{found} of 100 at 95 %");
    }
}
