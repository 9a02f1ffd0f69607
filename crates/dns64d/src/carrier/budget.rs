//! Memory for answers on their way to clients' streams: it limits what a fast worker may queue for a client
//! that does not read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Highest number of octets of answers that wait to be written, for all workers and connections; further
/// answers are dropped, like datagrams.
const MAX_WAITING: usize = 32 << 20;

/// The memory that is left; clones share it.
#[derive(Clone, Default)]
pub(crate) struct OutputBudget(Arc<AtomicUsize>);

/// Reserved memory; released when it is dropped.
pub(crate) struct Reservation {
    budget: OutputBudget,
    octets: usize,
}

impl OutputBudget {
    /// Reserves memory for an answer, if there is enough.
    pub(crate) fn take(&self, octets: usize) -> Option<Reservation> {
        // Made before the check, so that its drop releases what does not fit.
        let reservation = Reservation { budget: self.clone(), octets };
        let before = self.0.fetch_add(octets, Ordering::Relaxed);
        (before + octets <= MAX_WAITING).then_some(reservation)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.0.fetch_sub(self.octets, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_is_limited() {
        let budget = OutputBudget::default();
        let all = budget.take(MAX_WAITING).expect("it is empty");
        assert!(budget.take(1).is_none());
        drop(all);
        assert!(budget.take(MAX_WAITING + 1).is_none());
        assert!(budget.take(MAX_WAITING).is_some());
        assert_eq!(budget.0.load(Ordering::Relaxed), 0);
    }
}
