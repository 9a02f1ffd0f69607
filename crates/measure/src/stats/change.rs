//! Change points of a series: where the level of a figure changed between two runs and stayed.
//!
//! The statistic is Pettitt's (1979): the largest difference of the rank sums before and after a point. Ranks make one slow run no
//! change. A random order of the same values tells how large the statistic becomes by chance (a permutation test); the two parts of a
//! change are searched in the same way. Eight values with a clear step are the fewest that show one at 95 %.

use super::median;
use crate::rng::Rng;

/// Number of random orders.
const ORDERS: u32 = 999;
/// Largest number of values; of more the last count, so that time and memory are bounded.
const MOST: usize = 1_000;

/// Largest number of rounds in which the points found are tested again.
const ROUNDS: usize = 10;

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

/// A change of level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// Index of the first value of the new level.
    pub at: usize,
    /// Median of the level before.
    pub before: f64,
    /// Median of the new level.
    pub after: f64,
}

/// Returns the changes of level of `values` in their order.
pub fn changes(values: &[f64], terms: &ChangeTerms) -> Vec<Change> {
    let skipped = values.len().saturating_sub(MOST);
    let values = &values[skipped..];
    let mut points = Vec::new();
    split(values, 0, terms, &mut points);
    points.sort_unstable();
    settle(values, terms, &mut points);
    let mut ends = vec![0];
    ends.extend(&points);
    ends.push(values.len());
    let level = |from: usize, to: usize| median(&values[from..to]).unwrap_or(f64::NAN);
    let changes = ends.windows(3).map(|part| Change {
        at: skipped + part[1],
        before: level(part[0], part[1]),
        after: level(part[1], part[2]),
    });
    changes.collect()
}

/// Finds the change points of a part that begins at `offset`.
fn split(part: &[f64], offset: usize, terms: &ChangeTerms, points: &mut Vec<usize>) {
    let Some(at) = change_point(part, terms) else { return };
    points.push(offset + at);
    split(&part[..at], offset, terms, points);
    split(&part[at..], offset + at, terms, points);
}

/// Tests each point again between its neighbours: of a stair the first point found may lie within a step. Points move or are
/// removed until each stands for itself.
fn settle(values: &[f64], terms: &ChangeTerms, points: &mut Vec<usize>) {
    for _ in 0..ROUNDS {
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

/// Returns the place of the strongest change, if it is none of chance and large enough.
fn change_point(part: &[f64], terms: &ChangeTerms) -> Option<usize> {
    let mut ranks = ranks(part);
    let (at, strength) = strongest(&ranks)?;
    let (before, after) = (median(&part[..at])?, median(&part[at..])?);
    let least = terms.margin * before.abs().min(after.abs());
    if (after - before).abs() <= least {
        return None;
    }
    let mut rng = Rng::new(terms.seed);
    let mut by_chance = 1;
    for _ in 0..ORDERS {
        for i in (1..ranks.len()).rev() {
            ranks.swap(i, rng.below(i as u64 + 1) as usize);
        }
        by_chance += u32::from(strongest(&ranks).is_some_and(|(_, s)| s >= strength - 1e-9));
    }
    let chance = f64::from(by_chance) / f64::from(ORDERS + 1);
    (chance <= 1.0 - terms.confidence).then_some(at)
}

/// Returns the ranks of values from 1; equal values share their mean rank.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    let mut from = 0;
    for group in order.chunk_by(|a, b| values[*a] == values[*b]) {
        let mean = from as f64 + (group.len() + 1) as f64 / 2.0;
        group.iter().for_each(|i| ranks[*i] = mean);
        from += group.len();
    }
    ranks
}

/// Returns the place with the largest difference of rank sums, and that difference; `None` of fewer than two values.
fn strongest(ranks: &[f64]) -> Option<(usize, f64)> {
    let middle = (ranks.len() + 1) as f64 / 2.0;
    let mut sum = 0.0;
    let places = ranks.split_last()?.1.iter().zip(1..).map(|(rank, at)| {
        sum += rank - middle;
        (at, f64::abs(sum))
    });
    places.max_by(|a, b| a.1.total_cmp(&b.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: ChangeTerms = ChangeTerms { confidence: 0.95, margin: 0.05, seed: 1 };

    fn places(values: &[f64]) -> Vec<usize> {
        changes(values, &TERMS).into_iter().map(|change| change.at).collect()
    }

    #[test]
    fn a_step_is_found_and_its_levels() {
        let values = [100.0, 101.0, 99.0, 100.5, 80.0, 81.0, 79.5, 80.2];
        assert_eq!(changes(&values, &TERMS), [Change { at: 4, before: 100.25, after: 80.1 }]);
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
