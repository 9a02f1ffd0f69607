//! The names of a run: no name is used twice, so that no cache can answer (RFC 8219 section 9.2).

use measure::{Nanos, Pacing};

/// Number of workers for which names are reserved: independent Poisson arrivals vary more than those of one worker.
const MOST_WORKERS: u32 = 16;

/// Hands out ranges of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameBudget {
    size: u64,
    next: u64,
    may_reuse: bool,
    reused: bool,
}

/// Error: there are not enough names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{wanted} names are needed, {left} of {size} are left; take a shorter prefix (10.0.0.0/8 has 2^24 names, 0.0.0.0/2 has 2^30), a lower rate or shorter trials"
)]
pub struct NamesExhausted {
    /// Number of names requested.
    pub wanted: u64,
    /// Number of unused names.
    pub left: u64,
    /// Number of all names.
    pub size: u64,
}

impl NameBudget {
    /// Makes a budget of `size` unused names. With `may_reuse`, names are used again when they run out;
    /// [`reused`](Self::reused) then returns true.
    pub fn new(size: u64, may_reuse: bool) -> Self {
        NameBudget { size, next: 0, may_reuse, reused: false }
    }

    /// Takes `count` unused names in sequence; returns the number of the first.
    ///
    /// # Errors
    /// If there are not so many names, or not enough unused ones and `may_reuse` is false.
    pub fn take(&mut self, count: u64) -> Result<u64, NamesExhausted> {
        let left = self.size - self.next;
        if count > left {
            if count > self.size || !self.may_reuse {
                return Err(NamesExhausted { wanted: count, left, size: self.size });
            }
            self.reused = true;
            self.next = 0;
        }
        let first = self.next;
        self.next += count;
        Ok(first)
    }

    /// Returns the number of all names.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns whether a take of `count` names would reuse names or fail.
    pub(crate) fn is_short_of(&self, count: u64) -> bool {
        count > self.size - self.next
    }

    /// Marks every name as unused, after the server's cache was cleared.
    pub fn refresh(&mut self) {
        self.next = 0;
    }

    /// Returns whether any name was used twice without a cleared cache between.
    pub fn reused(&self) -> bool {
        self.reused
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
    fn no_name_twice() {
        let mut names = NameBudget::new(100, false);
        assert_eq!((names.take(60), names.take(40)), (Ok(0), Ok(60)));
        assert_eq!(names.take(1), Err(NamesExhausted { wanted: 1, left: 0, size: 100 }));
        names.refresh();
        assert_eq!((names.take(100), names.reused()), (Ok(0), false));
    }

    #[test]
    fn reuse_is_reported() {
        let mut names = NameBudget::new(100, true);
        assert_eq!(names.take(80), Ok(0));
        assert!(!names.reused() && names.is_short_of(21));
        assert_eq!(names.take(30), Ok(0));
        assert!(names.reused());
        assert!(names.take(101).is_err());
    }
}
