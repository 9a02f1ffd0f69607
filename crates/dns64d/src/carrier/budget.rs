//! The memory of the streams: connections, queries on their way to the workers, answers on their way to clients, replies
//! on their way from upstream. Who gets none is refused, or gets no answer, as over UDP.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Memory, in octets; clones share it.
#[derive(Clone)]
pub(crate) struct Budget(Arc<Octets>);

struct Octets {
    used: AtomicUsize,
    limit: AtomicUsize,
}

/// Reserved memory; released when it is dropped.
pub(crate) struct Reservation {
    budget: Budget,
    octets: usize,
}

impl Budget {
    /// Makes a memory of `limit` octets.
    pub(crate) fn new(limit: usize) -> Self {
        Budget(Arc::new(Octets { used: AtomicUsize::new(0), limit: AtomicUsize::new(limit) }))
    }

    /// Changes its size; what is reserved stays.
    pub(crate) fn resize(&self, limit: usize) {
        self.0.limit.store(limit, Ordering::Relaxed);
    }

    /// Returns the octets in use, and all.
    pub(crate) fn used(&self) -> (usize, usize) {
        (self.0.used.load(Ordering::Relaxed), self.0.limit.load(Ordering::Relaxed))
    }

    /// Reserves nothing.
    pub(crate) fn none(&self) -> Reservation {
        Reservation { budget: self.clone(), octets: 0 }
    }

    /// Reserves memory, if there is enough.
    pub(crate) fn take(&self, octets: usize) -> Option<Reservation> {
        // Made before the check, so that its drop releases what does not fit.
        let reservation = Reservation { budget: self.clone(), octets };
        let before = self.0.used.fetch_add(octets, Ordering::Relaxed);
        (before + octets <= self.0.limit.load(Ordering::Relaxed)).then_some(reservation)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.0.used.fetch_sub(self.octets, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_is_limited() {
        let budget = Budget::new(1_000);
        let all = budget.take(1_000).expect("it is empty");
        assert!(budget.take(1).is_none());
        drop(all);
        assert!(budget.take(1_001).is_none());
        let half = budget.take(500).expect("there is room");
        budget.resize(400);
        assert_eq!(budget.used(), (500, 400));
        assert!(budget.take(1).is_none());
        drop(half);
        assert!(budget.take(400).is_some());
        assert_eq!(budget.used().0, 0);
    }
}
