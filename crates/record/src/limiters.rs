//! What limited a cell, counted over its repeats: "2 of 2 searches: dut". A cell has no limiter that only some of its
//! repeats have.

use std::fmt;

use measure::Limiter;

use crate::run::CellRecord;

/// Number of repeats that each limiter limited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimiterCounts {
    /// Each limiter with its number of repeats; the most frequent first, equal ones in the order of the repeats.
    pub counts: Vec<(Limiter, u32)>,
    /// Whether the repeats are searches.
    pub are_searches: bool,
}

impl LimiterCounts {
    /// Counts limiters, one for each repeat.
    fn new(limiters: impl IntoIterator<Item = Limiter>, are_searches: bool) -> Self {
        let mut counts: Vec<(Limiter, u32)> = Vec::new();
        for limiter in limiters {
            match counts.iter_mut().find(|(known, _)| *known == limiter) {
                Some((_, count)) => *count += 1,
                None => counts.push((limiter, 1)),
            }
        }
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        LimiterCounts { counts, are_searches }
    }

    /// Returns the number of repeats.
    pub fn total(&self) -> u32 {
        self.counts.iter().map(|(_, count)| count).sum()
    }

    /// Returns the limiter of every repeat; `None` if they differ or there is none.
    pub fn common(&self) -> Option<Limiter> {
        match self.counts[..] {
            [(limiter, _)] => Some(limiter),
            _ => None,
        }
    }

    /// Returns the counts in words, with `name` for each limiter; empty without repeats.
    pub fn words(&self, name: impl Fn(Limiter) -> String) -> String {
        let total = self.total();
        let what = match (self.are_searches, total) {
            (true, 1) => " search",
            (true, _) => " searches",
            (false, 1) => " repeat",
            (false, _) => " repeats",
        };
        let part = |(i, (limiter, count)): (usize, &(Limiter, u32))| {
            let what = if i == 0 { what } else { "" };
            format!("{count} of {total}{what}: {}", name(*limiter))
        };
        self.counts.iter().enumerate().map(part).collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for LimiterCounts {
    /// Writes the words of the JSON, and that a limiter is not known.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words(|limiter| match limiter {
            Limiter::Unknown => "limiter not known".to_owned(),
            known => known.to_string(),
        }))
    }
}

impl CellRecord {
    /// Counts the limiters of the repeats that have a result: the limiter of each search, or of the
    /// last valid trial of each repeat. Repeats without trials, such as repeats of updates, and the
    /// rounds of a capacity have the limiter of the cell.
    pub fn limiters(&self) -> LimiterCounts {
        if self.method == "search" {
            return LimiterCounts::new(self.capacities.iter().map(|c| c.limiter), true);
        }
        let last_of = |repeat: u32| {
            let mut trials = self.trials.iter().rev();
            let valid = |t: &&crate::TrialRecord| t.repeat == repeat && !t.trial.void.is_void();
            trials.find(valid).filter(|_| self.rounds.is_empty())
        };
        let repeats = (0..self.repeats_made()).filter(|repeat| self.has_repeat(*repeat));
        let limiter = |repeat| last_of(repeat).map_or(self.limiter, |t| t.trial.limiter);
        LimiterCounts::new(repeats.map(limiter), false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limiters_are_counted_and_none_speaks_for_others() {
        use Limiter::{Dut, SearchBound, Unknown};
        let table: [(&[Limiter], bool, Option<Limiter>, &str); 6] = [
            (&[Dut, Dut], true, Some(Dut), "2 of 2 searches: dut"),
            (&[Dut], true, Some(Dut), "1 of 1 search: dut"),
            (&[Unknown, Dut, Dut], true, None, "2 of 3 searches: dut, 1 of 3: limiter not known"),
            (&[SearchBound, Dut], true, None, "1 of 2 searches: search-bound, 1 of 2: dut"),
            (&[Unknown], false, Some(Unknown), "1 of 1 repeat: limiter not known"),
            (&[], false, None, ""),
        ];
        for (limiters, are_searches, common, words) in table {
            let counts = LimiterCounts::new(limiters.iter().copied(), are_searches);
            assert_eq!((counts.common(), counts.to_string().as_str()), (common, words));
            assert_eq!(counts.total() as usize, limiters.len());
        }
    }

    #[test]
    fn repeats_without_trials_have_the_limiter_of_the_cell() {
        let cell = CellRecord {
            repeats: 2,
            limiter: Limiter::Dut,
            ..CellRecord::new("bind9", Default::default(), "update-rate")
        };
        assert_eq!(cell.limiters().to_string(), "2 of 2 repeats: dut");
        let void = vec![crate::VoidRepeat { repeat: 0, why: String::new() }];
        let cell = CellRecord { repeats: 1, void_repeats: void, ..cell };
        assert_eq!(cell.limiters().to_string(), "1 of 1 repeat: dut");
    }
}
