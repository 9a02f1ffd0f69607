//! Room for answers on their way to clients' streams: between a worker that is quick and a client who does not read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Answers that wait to be written, all workers and connections together, octets; more are lost, as datagrams are.
const MAX_WAITING: usize = 32 << 20;

/// What there is of it; clones share it.
#[derive(Clone, Default)]
pub(crate) struct Room(Arc<AtomicUsize>);

/// Some of it, taken; given back when it is dropped.
pub(crate) struct Taken {
    room: Room,
    octets: usize,
}

impl Room {
    /// Takes room for an answer, if there is any.
    pub(crate) fn take(&self, octets: usize) -> Option<Taken> {
        // Made first: what does not fit is given back by it.
        let taken = Taken { room: self.clone(), octets };
        let before = self.0.fetch_add(octets, Ordering::Relaxed);
        (before + octets <= MAX_WAITING).then_some(taken)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.room.0.fetch_sub(self.octets, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_so_much_and_no_more() {
        let room = Room::default();
        let all = room.take(MAX_WAITING).expect("it is empty");
        assert!(room.take(1).is_none());
        drop(all);
        assert!(room.take(MAX_WAITING + 1).is_none());
        assert!(room.take(MAX_WAITING).is_some());
        assert_eq!(room.0.load(Ordering::Relaxed), 0);
    }
}
