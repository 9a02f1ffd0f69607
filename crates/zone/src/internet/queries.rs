//! Queries for the names of an Internet in a box, of which a cache can answer a known share.

use std::io::{self, Write};

use measure::Rng;
use wire::Name;

use super::{Choice, Internet};

/// Largest number of new names that are queried before a name is repeated: by then it was answered,
/// unless more queries than that are outstanding.
const MAX_GAP: u64 = 4_096;
/// Share of queried names AAAA, the others for A.
const AAAA: f64 = 0.25;

/// The parameters of a query file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InternetQueries {
    /// Number of queries in the file.
    pub count: u64,
    /// Share (0 to 1) of the queries that repeat an earlier one: those that a large enough cache
    /// answers.
    pub hit_rate: f64,
    /// Seed of the order in which names are queried.
    pub seed: u64,
}

/// Contents of a query file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WrittenQueries {
    /// Number of queries in the file.
    pub queries: u64,
    /// Number of queries that repeat an earlier one.
    pub repeated: u64,
    /// Number of other queries whose name does not exist.
    pub missing: u64,
}

impl WrittenQueries {
    /// Returns the share of queries that repeat an earlier one.
    pub fn hit_rate(&self) -> f64 {
        self.repeated as f64 / self.queries.max(1) as f64
    }
}

/// The reason why there is no such query file: too few names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{queries} queries with this hit rate need {needed} names, but there are {names}: ask for fewer queries, more names or a higher hit rate"
)]
pub struct TooFewNames {
    /// Requested number of queries.
    pub queries: u64,
    /// Number of names that these queries need.
    pub needed: u64,
    /// Number of names that there are.
    pub names: u64,
}

impl InternetQueries {
    /// Returns the number of different names that the queries need.
    fn names(&self) -> u64 {
        self.count - (self.count as f64 * self.hit_rate).floor() as u64
    }

    /// Returns the number of new names between a name and its repetition, at least: an eighth of all.
    fn gap(&self) -> u64 {
        (self.names() / 8).clamp(1, MAX_GAP)
    }

    /// Returns how many of the first `count` queries are repetitions. Repetitions that were
    /// impossible at the beginning are made up for later.
    pub fn repeated(&self, count: u64) -> u64 {
        let due = (count as f64 * self.hit_rate).floor() as u64;
        due.min(count.saturating_sub(self.gap()))
    }

    /// Checks that there are enough of `names` names.
    ///
    /// # Errors
    /// If there are too few.
    pub fn check(&self, names: u64) -> Result<(), TooFewNames> {
        let (queries, needed) = (self.count, self.count - self.repeated(self.count));
        (needed <= names).then_some(()).ok_or(TooFewNames { queries, needed, names })
    }

    /// Writes the queries in the format of dnsperf, names in random order. Each has one type, so that a repeated name is a
    /// repeated question. After an eighth of the file the share is right at every place, to one query.
    ///
    /// # Errors
    /// If writing to `out` fails.
    ///
    /// # Panics
    /// If there are [too few names](Self::check).
    pub fn write(&self, internet: &Internet, out: &mut impl Write) -> io::Result<WrittenQueries> {
        let mut rng = Rng::part(self.seed, 0x696e_7465_726e_6574);
        let mut names: Vec<&Name> = internet.names().collect();
        for place in (1..names.len()).rev() {
            names.swap(place, rng.below(place as u64 + 1) as usize);
        }
        let (mut written, mut new) = (WrittenQueries::default(), 0);
        for number in 1..=self.count {
            let repeated = self.repeated(number) > written.repeated;
            let place = if repeated { rng.below(new - self.gap() + 1) } else { new };
            let name = names[place as usize];
            let is_aaaa = internet.plan().is_in(AAAA, name, Choice::AsksAaaa);
            writeln!(out, "{name} {}", if is_aaaa { "AAAA" } else { "A" })?;
            written.queries += 1;
            if repeated {
                written.repeated += 1;
            } else {
                new += 1;
                written.missing += u64::from(!internet.exists(name));
            }
        }
        out.flush()?;
        Ok(written)
    }
}
