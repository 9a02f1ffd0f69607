//! Timeouts of lookups: a timer wheel with one slot per tick and a list of lookups in each slot.
//!
//! Setting and clearing a time take a few stores, however many lookups there are. A time beyond one turn of the wheel
//! is checked once per turn.

use measure::Nanos;

use super::slab::NONE;

/// Length of a tick, which is the precision of the times.
const TICK: Nanos = Nanos::from_millis(4);
/// Number of slots; a turn takes about four seconds.
const SLOTS: usize = 1_024;

/// A lookup's place in a list.
#[derive(Clone, Copy)]
struct Node {
    due: Nanos,
    previous: u32,
    next: u32,
    /// Slot of the lookup, or [`NONE`].
    slot: u32,
}

/// Times of lookups, by their numbers.
pub(crate) struct Wheel {
    heads: Vec<u32>,
    nodes: Vec<Node>,
    /// The next tick to check.
    tick: u64,
    set: usize,
}

impl Wheel {
    /// Makes a wheel without times; ticks before `now` are over.
    pub(crate) fn new(now: Nanos) -> Self {
        Wheel { heads: vec![NONE; SLOTS], nodes: Vec::new(), tick: now.0 / TICK.0, set: 0 }
    }

    /// Sets the time of a lookup that has none.
    pub(crate) fn set(&mut self, lookup: u32, due: Nanos) {
        let index = lookup as usize;
        if self.nodes.len() <= index {
            let none = Node { due, previous: NONE, next: NONE, slot: NONE };
            self.nodes.resize(index + 1, none);
        }
        debug_assert_eq!(self.nodes[index].slot, NONE, "lookup {lookup} has a time");
        // Rounded up, so that no lookup expires early, and never in a slot that was just checked.
        let tick = due.0.div_ceil(TICK.0).max(self.tick);
        let slot = tick as usize % SLOTS;
        let next = std::mem::replace(&mut self.heads[slot], lookup);
        if next != NONE {
            self.nodes[next as usize].previous = lookup;
        }
        self.nodes[index] = Node { due, previous: NONE, next, slot: slot as u32 };
        self.set += 1;
    }

    /// Clears the time of a lookup, if it has one.
    pub(crate) fn clear(&mut self, lookup: u32) {
        let Some(&node) = self.nodes.get(lookup as usize) else { return };
        if node.slot == NONE {
            return;
        }
        match node.previous {
            NONE => self.heads[node.slot as usize] = node.next,
            previous => self.nodes[previous as usize].next = node.next,
        }
        if node.next != NONE {
            self.nodes[node.next as usize].previous = node.previous;
        }
        self.nodes[lookup as usize].slot = NONE;
        self.set -= 1;
    }

    /// Moves the lookups whose time has passed to `expired`, and clears their times.
    pub(crate) fn expire(&mut self, now: Nanos, expired: &mut Vec<u32>) {
        let until = now.0 / TICK.0;
        if self.set == 0 {
            self.tick = self.tick.max(until + 1);
            return;
        }
        // After a long pause one turn checks all slots.
        self.tick = self.tick.max((until + 1).saturating_sub(SLOTS as u64));
        while self.tick <= until {
            let mut lookup = self.heads[self.tick as usize % SLOTS];
            while lookup != NONE {
                let node = self.nodes[lookup as usize];
                if node.due <= now {
                    self.clear(lookup);
                    expired.push(lookup);
                }
                lookup = node.next;
            }
            self.tick += 1;
        }
    }

    /// Returns when [`expire`](Self::expire) must be called next; `None` while no time is set.
    pub(crate) fn next(&self) -> Option<Nanos> {
        (self.set > 0).then(|| Nanos(self.tick * TICK.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_time_expires_and_none_early(
            steps in prop::collection::vec((0u64..6_000, prop::option::of(0u64..9_000), 0u32..40), 1..200)
        ) {
            let start = Nanos::from_secs(77);
            let mut wheel = Wheel::new(start);
            let mut now = start;
            let mut model = std::collections::BTreeMap::new();
            let mut expired = Vec::new();
            for (after, due, lookup) in steps {
                now += Nanos::from_millis(after / 10);
                match due {
                    Some(due) if !model.contains_key(&lookup) => {
                        let due = now + Nanos::from_millis(due);
                        wheel.set(lookup, due);
                        model.insert(lookup, due);
                    }
                    Some(_) => {}
                    None => {
                        wheel.clear(lookup);
                        model.remove(&lookup);
                    }
                }
                expired.clear();
                wheel.expire(now, &mut expired);
                for lookup in &expired {
                    prop_assert!(model.remove(lookup).is_some_and(|due| due <= now));
                }
                // A lookup expires at most one tick late, and `next` announces it.
                prop_assert!(model.values().all(|&due| due + TICK > now));
                prop_assert_eq!(wheel.next().is_some(), !model.is_empty());
                prop_assert!(wheel.next().is_none_or(|next| next > now && next <= now + TICK));
            }
        }
    }
}
