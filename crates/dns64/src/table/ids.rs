//! Pending lookups by socket and id: an open hash table with linear probing.
//!
//! Ids are random, so that the keys need no strong hash. Removal moves the following entries up and leaves no
//! tombstones, so that the table never gets slower.

use engine::SocketId;

/// Number of the lookup in a free place.
const FREE_PLACE: u32 = u32::MAX;

/// One place of the table; its key is socket and id.
#[derive(Clone, Copy)]
struct IdPlace {
    key: u32,
    lookup: u32,
}

/// Pending lookups by socket and id.
pub(crate) struct Ids {
    places: Vec<IdPlace>,
    mask: usize,
}

impl Ids {
    /// Makes a table for `lookups` lookups, less than half full with them.
    pub(crate) fn new(lookups: usize) -> Self {
        let len = (2 * lookups + 1).next_power_of_two();
        Ids { places: vec![IdPlace { key: 0, lookup: FREE_PLACE }; len], mask: len - 1 }
    }

    /// Returns the place where the search for a key begins.
    fn home(&self, key: u32) -> usize {
        let hash = u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash >> 32) as usize & self.mask
    }

    /// Returns the place of a key, or the free place for it.
    fn find(&self, key: u32) -> usize {
        let mut at = self.home(key);
        while self.places[at].lookup != FREE_PLACE && self.places[at].key != key {
            at = (at + 1) & self.mask;
        }
        at
    }

    /// Returns the lookup of this socket and id.
    pub(crate) fn get(&self, socket: SocketId, id: u16) -> Option<u32> {
        let place = self.places[self.find(key(socket, id))];
        (place.lookup != FREE_PLACE).then_some(place.lookup)
    }

    /// Adds a lookup; returns `false` if another one has this socket and id. The caller adds no more lookups
    /// than there is room for.
    pub(crate) fn insert(&mut self, socket: SocketId, id: u16, lookup: u32) -> bool {
        debug_assert_ne!(lookup, FREE_PLACE);
        let key = key(socket, id);
        let at = self.find(key);
        if self.places[at].lookup != FREE_PLACE {
            return false;
        }
        self.places[at] = IdPlace { key, lookup };
        true
    }

    /// Removes the lookup of a socket and an id, if there is one.
    pub(crate) fn remove(&mut self, socket: SocketId, id: u16) {
        let mut hole = self.find(key(socket, id));
        if self.places[hole].lookup == FREE_PLACE {
            return;
        }
        let mut at = hole;
        loop {
            at = (at + 1) & self.mask;
            let place = self.places[at];
            if place.lookup == FREE_PLACE {
                break;
            }
            // The entry may move up unless the place of its key is after the hole.
            let home = self.home(place.key);
            if (at.wrapping_sub(home) & self.mask) >= (at.wrapping_sub(hole) & self.mask) {
                self.places[hole] = place;
                hole = at;
            }
        }
        self.places[hole].lookup = FREE_PLACE;
    }
}

/// Returns socket and id as one number.
fn key(socket: SocketId, id: u16) -> u32 {
    u32::from(socket.0) << 16 | u32::from(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn it_behaves_like_a_map(steps in prop::collection::vec((any::<bool>(), 0u16..3, 0u16..12), 1..400)) {
            // At most 36 entries in 64 places, so that probe sequences often meet.
            let (mut ids, mut model) = (Ids::new(36), HashMap::new());
            ids.places.truncate(64);
            ids.mask = 63;
            for (number, (insert, socket, id)) in steps.into_iter().enumerate() {
                let socket = SocketId(socket);
                if insert {
                    let free = !model.contains_key(&(socket, id));
                    prop_assert_eq!(ids.insert(socket, id, number as u32), free);
                    model.entry((socket, id)).or_insert(number as u32);
                } else {
                    ids.remove(socket, id);
                    model.remove(&(socket, id));
                }
                for socket in (0..3).map(SocketId) {
                    for id in 0..12 {
                        prop_assert_eq!(ids.get(socket, id), model.get(&(socket, id)).copied());
                    }
                }
            }
        }
    }
}
