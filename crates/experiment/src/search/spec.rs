//! The settings of a search.

use std::ops::RangeInclusive;

use measure::{Goal, Nanos, OpenPacing, Qps, Rng};

use super::rule::Rule;
use crate::names::ClientNames;

/// Values that [`Search::resolution`] may have, as shares of the passing rate.
pub const RESOLUTION: RangeInclusive<f64> = 0.0001..=0.5;
/// Seed of the first rates of repeats.
const START_SEED: u64 = 8219;
/// Shares of the rate of closed loops between which the capacity is expected.
const EXPECTED_SHARES: [f64; 2] = [0.8, 1.05];

/// The settings of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// Rule that decides on a rate.
    pub rule: Rule,
    /// Goal that a trial must meet for its rate to pass.
    pub goal: Goal,
    /// First rate tried; repeats begin up to a quarter above or below it.
    pub start: Qps,
    /// Rates between which the capacity is expected, in queries a second: where there are any, repeats begin in their middle third, and
    /// nothing beyond them is tried before they are.
    pub expected: Option<[f64; 2]>,
    /// Lowest rate tried; if it fails, there is no capacity.
    pub min: Qps,
    /// Highest rate tried; if it passes, the capacity is a lower bound.
    pub max: Qps,
    /// Width of the bracket at which the search ends, as a share (0 to 1) of the passing rate.
    pub resolution: f64,
    /// Duration of one trial, in nanoseconds.
    pub duration: Nanos,
    /// Timeout of one query, in nanoseconds.
    pub timeout: Nanos,
    /// Names that clients query, if the search is over clients. `None`: each query of a rate has a
    /// name of its own.
    pub client_names: Option<ClientNames>,
    /// Spacing of the queries of each trial: constant or Poisson.
    pub pacing: OpenPacing,
}

impl Search {
    /// Returns the search that begins near `answered`, the answers a second of closed loops.
    pub fn near(self, answered: f64) -> Self {
        let [low, high] = self.scaled(EXPECTED_SHARES, answered);
        Search { expected: (low < high).then_some([low, high]), ..self }
    }

    /// Returns shares of a rate, within the rates of the search.
    pub(super) fn scaled(&self, shares: [f64; 2], rate: f64) -> [f64; 2] {
        let (min, max) = self.range();
        shares.map(|share| (share * rate).round().clamp(min, max))
    }

    /// Returns the lowest and the highest rate, in queries a second.
    pub(super) fn range(&self) -> (f64, f64) {
        (self.min.get(), self.max.get().max(self.min.get()))
    }

    /// Returns the first rate of a repeat. A search that always began at the same rate would try
    /// the same rates in every repeat.
    pub(super) fn start_of(&self, repeat: u32) -> f64 {
        let (min, max) = self.range();
        // From -1 to 1; the first repeat begins at the start rate itself.
        let dither = if repeat == 0 {
            0.0
        } else {
            Rng::part(START_SEED, u64::from(repeat)).below(2_001) as f64 / 1_000.0 - 1.0
        };
        let rate = match self.expected {
            Some([low, high]) => (low + high) / 2.0 + (high - low) / 6.0 * dither,
            None => self.start.get() * 1.25f64.powf(dither),
        };
        rate.round().clamp(min, max)
    }
}
