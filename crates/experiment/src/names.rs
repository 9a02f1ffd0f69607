//! The names of a run: no name is used twice, so that no cache can answer (RFC 8219 section 9.2).
//!
//! An authoritative server has no cache, and its zone is limited by its memory: there names may be
//! used again, and the record reports it.

use measure::{Nanos, Pacing};

use crate::bench::{Bench, BenchError};
pub use crate::error::NamesExhausted;

/// Number of workers for which names are reserved: independent Poisson arrivals vary more than the
/// arrivals of one worker.
const MOST_WORKERS: u32 = 16;

/// Hands out ranges of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameBudget {
    size: u64,
    next: u64,
    reuse: Reuse,
    used: NameUse,
}

/// Whether names may be used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reuse {
    Never,
    /// In later trials, but each name once in a trial.
    Later,
    /// In later trials, and within a trial that has more queries than there are names.
    Always,
}

/// How names were used more than once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NameUse {
    /// Whether a trial used names of an earlier one.
    pub again: bool,
    /// Whether a trial had more queries than names.
    pub within: bool,
}

impl NameUse {
    /// Returns, in words, how names were used more than once.
    pub fn difference(self) -> Option<String> {
        let how = if self.within { "also within one trial" } else { "in different trials" };
        let reused = self.within || self.again;
        reused.then(|| format!("names were used more than once {how}"))
    }
}

impl NameBudget {
    /// Makes a budget of `size` unused names. With `may_reuse`, names are used again when they run
    /// out; [`used`](Self::used) then reports it.
    pub fn new(size: u64, may_reuse: bool) -> Self {
        let reuse = if may_reuse { Reuse::Later } else { Reuse::Never };
        NameBudget { size, next: 0, reuse, used: NameUse::default() }
    }

    /// Makes a budget of `size` names, such as an authoritative server's zone, which may be used
    /// again within a trial too; [`used`](Self::used) then reports it.
    pub fn repeating(size: u64) -> Self {
        NameBudget { reuse: Reuse::Always, ..Self::new(size, true) }
    }

    /// Takes `count` unused names in sequence; returns the number of the first.
    ///
    /// # Errors
    /// If there are fewer names, or fewer unused ones and `may_reuse` is false.
    pub fn take(&mut self, count: u64) -> Result<u64, NamesExhausted> {
        let left = self.size - self.next;
        if count > left {
            let possible = match self.reuse {
                Reuse::Never => false,
                Reuse::Later => count <= self.size,
                Reuse::Always => true,
            };
            if !possible {
                return Err(NamesExhausted { wanted: count, left, size: self.size });
            }
            // The first trial of all uses no names of an earlier one.
            self.used.again |= self.next > 0;
            self.next = 0;
        }
        self.note_use(self.size, count);
        let first = self.next;
        self.next += count.min(self.size);
        Ok(first)
    }

    /// Takes `count` names as [`take`](Self::take) does; if too few are unused, the cache of the
    /// server of `bench` is cleared first, if possible.
    pub(crate) fn fresh(&mut self, count: u64, bench: &mut dyn Bench) -> Result<u64, BenchError> {
        if self.is_short_of(count) && bench.forget_names()? {
            self.refresh();
        }
        Ok(self.take(count)?)
    }

    /// Notes a trial that had `names` names and sends `queries` queries.
    pub(crate) fn note_use(&mut self, names: u64, queries: u64) {
        self.used.within |= self.reuse == Reuse::Always && queries > names;
    }

    /// Returns the number of all names.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns whether taking `count` names would reuse names or fail.
    pub(crate) fn is_short_of(&self, count: u64) -> bool {
        // Names that may always be used again never run out.
        self.reuse != Reuse::Always && count > self.size - self.next
    }

    /// Marks every name as unused, after the server's cache was cleared.
    pub fn refresh(&mut self) {
        self.next = 0;
    }

    /// Returns how names were used more than once without a cleared cache between.
    pub fn used(&self) -> NameUse {
        self.used
    }
}

/// Names that clients query: popular ones repeatedly, and new ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClientNames {
    /// Number of popular names, which all clients query.
    pub popular: u64,
    /// Mean number of new names that a client queries in a second.
    pub new_per_s: f64,
}

/// Factor on the mean number of new names: some clients query more than others.
const NEW_NAMES: f64 = 1.5;

impl ClientNames {
    /// Returns the number of names for a trial with `clients` clients.
    pub fn count(self, clients: f64, duration: Nanos) -> u64 {
        let new = NEW_NAMES * self.new_per_s * clients * duration.as_secs_f64();
        self.popular + new.ceil() as u64
    }
}

/// Returns the most names that a pacing uses within `duration`; 0 for a window, which has no upper limit.
pub(crate) fn most_names(pacing: Pacing, duration: Nanos) -> u64 {
    pacing.most_queries(duration, MOST_WORKERS).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_need_the_popular_names_and_their_new_ones() {
        let names = ClientNames { popular: 100, new_per_s: 4.0 };
        // 400 clients ask for 8,000 new names in 5 s, and some ask for more.
        assert_eq!(names.count(400.0, Nanos::from_secs(5)), 100 + 12_000);
    }

    #[test]
    fn no_name_twice() {
        let mut names = NameBudget::new(100, false);
        assert_eq!((names.take(60), names.take(40)), (Ok(0), Ok(60)));
        assert_eq!(names.take(1), Err(NamesExhausted { wanted: 1, left: 0, size: 100 }));
        names.refresh();
        assert_eq!((names.take(100), names.used()), (Ok(0), NameUse::default()));
    }

    #[test]
    fn reuse_is_reported() {
        let mut names = NameBudget::new(100, true);
        assert_eq!(names.take(80), Ok(0));
        assert!(!names.used().again && names.is_short_of(21));
        assert_eq!(names.take(30), Ok(0));
        assert_eq!(names.used(), NameUse { again: true, within: false });
        assert!(names.take(101).is_err());
    }

    #[test]
    fn a_zone_tells_each_reuse_of_its_names() {
        let mut names = NameBudget::repeating(65_536);
        assert_eq!((names.take(60_000), names.used()), (Ok(0), NameUse::default()));
        assert!(names.used().difference().is_none() && !names.is_short_of(u64::MAX));
        assert_eq!(names.take(6_000), Ok(0));
        assert!(names.used().again && !names.used().within);
        assert_eq!(names.take(225_000), Ok(0));
        let wanted = "names were used more than once also within one trial";
        assert_eq!(names.used().difference().as_deref(), Some(wanted));
        // One trial alone does not use names of others.
        let mut alone = NameBudget::repeating(100);
        assert_eq!((alone.take(1_000), alone.used().again), (Ok(0), false));
    }
}
