//! The pipeline: the outstanding queries of one connection. A load has many connections with few queries
//! each, where the flight has few sockets with many.
//!
//! ```text
//! id      generation | slot      16 bits together, mixed with a salt
//! slots   twice as many as queries may be outstanding, 65,536 at most, used in turn; one in use is skipped
//! ```
//!
//! A reply whose generation differs from that of its slot belongs to a query that has ended. Where a query may lose its place
//! before its timeout there are more slots, so that its reply still finds it.

use measure::Nanos;

use crate::flight::{FoundQuery, OutstandingTable, State};

/// Highest number of outstanding queries on a connection: one for each id.
pub const MAX_OUTSTANDING: u32 = 1 << 16;

/// State of a query on a connection that carries several.
#[derive(Clone, Copy, Debug)]
struct Slot {
    due: Nanos,
    /// Time at which the query left; `UNSENT` before that.
    sent: Nanos,
    key: u32,
    generation: u16,
    state: State,
    /// The connection that carries the query; 0 for none.
    connection: u8,
}

const UNSENT: Nanos = Nanos::MAX;

/// The outstanding queries of one connection.
#[derive(Debug, Default)]
pub(crate) struct Pipeline {
    slots: Box<[Slot]>,
    /// Number of id bits that hold the slot number.
    bits: u32,
    next: u32,
    outstanding: u32,
    /// Highest number of outstanding queries that there are slots for.
    capacity: u32,
    /// The range of slots with outstanding queries: the first slot, and the number of slots.
    span: (u32, u32),
    /// The range of slots with queries that have not left: the first slot, and the number of slots.
    unsent: (u32, u32),
    /// Lower bound of the times at which the outstanding queries left.
    oldest: Nanos,
    salt: u16,
    /// Number of the connection, from 1 on and again.
    connection: u8,
}

impl Pipeline {
    /// Makes a pipeline for at most `most` outstanding queries, which remembers about `remembered` queries at least.
    pub(crate) fn new(most: u32, remembered: u32, salt: u16) -> Self {
        let twice = |queries: u32| {
            (queries.clamp(1, MAX_OUTSTANDING) * 2).next_power_of_two().min(MAX_OUTSTANDING)
        };
        let (needed, len) = (twice(most), twice(most.max(remembered / 2)));
        let free = Slot {
            due: Nanos::ZERO,
            sent: UNSENT,
            key: 0,
            generation: 0,
            state: State::Free,
            connection: 0,
        };
        Pipeline {
            slots: vec![free; len as usize].into(),
            bits: len.ilog2(),
            next: 0,
            outstanding: 0,
            capacity: if needed == MAX_OUTSTANDING { needed } else { needed / 2 },
            span: (0, 0),
            unsent: (0, 0),
            oldest: UNSENT,
            salt,
            connection: 1,
        }
    }

    /// Returns the number of outstanding queries.
    #[inline]
    pub(crate) fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// Returns the highest number of outstanding queries that there are slots for, at least as many
    /// as in [`new`](Self::new).
    #[inline]
    pub(crate) fn capacity(&self) -> u32 {
        self.capacity
    }

    #[inline]
    fn id(&self, slot: u32, generation: u16) -> u16 {
        // The generation has no bits when every id has its own slot.
        let high = u32::from(generation).checked_shl(self.bits).unwrap_or(0);
        (high as u16 | slot as u16) ^ self.salt
    }

    /// Marks all queries of the present connection that have not left as sent at `at`; calls `due`
    /// with the due time of each.
    #[inline]
    pub(crate) fn mark_sent(&mut self, at: Nanos, mut due: impl FnMut(Nanos)) {
        let mask = self.slots.len() as u32 - 1;
        let (first, count) = self.unsent;
        for i in 0..count {
            let slot = &mut self.slots[((first + i) & mask) as usize];
            // A returned query waits for its next connection.
            let is_on_connection = slot.connection == self.connection;
            if slot.state == State::Outstanding && slot.sent == UNSENT && is_on_connection {
                slot.sent = at;
                due(slot.due);
            }
        }
        self.unsent = (0, 0);
        self.oldest = self.oldest.min(at);
    }

    /// Starts a new connection; queries of earlier ones stay outstanding.
    pub(crate) fn next_connection(&mut self) {
        self.connection = self.connection.checked_add(1).unwrap_or(1);
        self.unsent = (0, 0);
    }

    /// Removes the queries of the present connection; returns the number of outstanding ones, and
    /// of ones that never left.
    pub(crate) fn reset(&mut self) -> (u64, u64) {
        let (mut lost, mut unsent, mut oldest) = (0, 0, UNSENT);
        for slot in &mut self.slots {
            let outstanding = slot.state == State::Outstanding;
            if outstanding && slot.connection != self.connection {
                oldest = oldest.min(slot.sent);
                continue;
            }
            lost += u32::from(outstanding && slot.sent != UNSENT);
            unsent += u32::from(outstanding && slot.sent == UNSENT);
            slot.state = State::Free;
        }
        self.unsent = (0, 0);
        (self.oldest, self.outstanding) = (oldest, self.outstanding - lost - unsent);
        (lost.into(), unsent.into())
    }

    /// Ends an outstanding query without a reply; returns whether there was one with this id.
    pub(crate) fn fail(&mut self, id: u16) -> bool {
        let Some(slot) = self.outstanding_slot(id) else { return false };
        slot.state = State::Answered;
        self.outstanding -= 1;
        true
    }

    /// Frees the place of a query that never left, which is outstanding or expired; returns the
    /// query.
    pub(crate) fn withdraw(&mut self, id: u16) -> Option<FoundQuery> {
        let found = self.find(id);
        if !matches!(found.state, State::Outstanding | State::Expired) {
            return None;
        }
        self.mark_answered(id);
        Some(found)
    }

    /// Takes an outstanding query off its connection; returns whether there was one with this id.
    pub(crate) fn turn_away(&mut self, id: u16) -> bool {
        self.outstanding_slot(id).map(|slot| slot.connection = 0).is_some()
    }

    /// Returns whether a query has not ended.
    pub(crate) fn is_outstanding(&self, id: u16) -> bool {
        let at = u32::from(id ^ self.salt) & (self.slots.len() as u32 - 1);
        let slot = &self.slots[at as usize];
        slot.state == State::Outstanding && self.id(at, slot.generation) == id
    }

    /// Returns whether a query is outstanding on the present connection.
    pub(crate) fn is_on_connection(&mut self, id: u16) -> bool {
        let connection = self.connection;
        self.outstanding_slot(id).is_some_and(|slot| slot.connection == connection)
    }

    /// Adds a query that was sent outside of this connection; returns its id.
    pub(crate) fn adopt(&mut self, query: &FoundQuery) -> u16 {
        let id = self.launch(query.due, query.key);
        if let Some(slot) = self.outstanding_slot(id) {
            (slot.sent, slot.connection) = (query.sent, 0);
        }
        self.oldest = self.oldest.min(query.sent);
        id
    }

    /// Puts a query that was returned on the current connection. With `leaves` it leaves at `now`;
    /// otherwise [`mark_sent`](Self::mark_sent) sets the time of a query that has not left before.
    /// Returns whether the query leaves now for the first time; `None` if it is not outstanding any
    /// more.
    pub(crate) fn send_again(&mut self, id: u16, now: Nanos, leaves: bool) -> Option<bool> {
        let connection = self.connection;
        let slot = self.outstanding_slot(id)?;
        let first = slot.sent == UNSENT;
        slot.connection = connection;
        if first && !leaves {
            // The query may have any slot.
            self.unsent = (0, self.slots.len() as u32);
            return Some(false);
        }
        // The timeout counts from the first sending.
        slot.sent = slot.sent.min(now);
        let sent = slot.sent;
        self.oldest = self.oldest.min(sent);
        Some(first)
    }

    /// Ends a query that has not left and was due at `overdue` or before; returns whether it ended
    /// one.
    pub(crate) fn give_up(&mut self, id: u16, overdue: Nanos) -> bool {
        let slot = self.outstanding_slot(id);
        slot.is_some_and(|slot| slot.sent == UNSENT && slot.due <= overdue) && self.fail(id)
    }

    /// Returns the number of queries that have not left.
    pub(crate) fn waiting(&self) -> u64 {
        let waits = |slot: &&Slot| slot.state == State::Outstanding && slot.sent == UNSENT;
        self.slots.iter().filter(waits).count() as u64
    }

    fn outstanding_slot(&mut self, id: u16) -> Option<&mut Slot> {
        let at = u32::from(id ^ self.salt) & (self.slots.len() as u32 - 1);
        self.is_outstanding(id).then(|| &mut self.slots[at as usize])
    }
}

impl OutstandingTable for Pipeline {
    #[inline]
    fn launch(&mut self, due: Nanos, key: u32) -> u16 {
        assert!(self.outstanding < self.slots.len() as u32, "a query needs a free slot");
        let mask = self.slots.len() as u32 - 1;
        let first = self.next;
        while self.slots[self.next as usize].state == State::Outstanding {
            self.next = (self.next + 1) & mask;
        }
        let at = self.next;
        let passed = (at.wrapping_sub(first) & mask) + 1;
        self.span.1 = (self.span.1 + passed).min(mask + 1);
        if self.unsent.1 == 0 {
            self.unsent = (at, 1);
        } else {
            self.unsent.1 = (self.unsent.1 + passed).min(mask + 1);
        }
        let slot = &mut self.slots[at as usize];
        let generation = slot.generation.wrapping_add(1);
        let connection = self.connection;
        *slot = Slot { due, sent: UNSENT, key, generation, state: State::Outstanding, connection };
        self.outstanding += 1;
        self.next = (at + 1) & mask;
        self.id(at, generation)
    }

    fn expire_each(&mut self, now: Nanos, timeout: Nanos, mut lost: impl FnMut(u16, FoundQuery)) {
        if self.outstanding == 0 || self.oldest == UNSENT || self.oldest + timeout > now {
            return;
        }
        let (mask, mut oldest, mut left) = (self.slots.len() as u32 - 1, UNSENT, None);
        let (first, count) = self.span;
        for i in 0..count {
            let at = (first + i) & mask;
            let Slot { due, sent, key, generation, state, .. } = self.slots[at as usize];
            if state != State::Outstanding {
                continue;
            }
            if sent != UNSENT && sent + timeout <= now {
                self.slots[at as usize].state = State::Expired;
                self.outstanding -= 1;
                let found = FoundQuery { state: State::Expired, key, due, sent, after_lost: false };
                lost(self.id(at, generation), found);
            } else {
                oldest = oldest.min(sent);
                left.get_or_insert((at, count - i));
            }
        }
        (self.oldest, self.span) = (oldest, left.unwrap_or((self.next, 0)));
    }

    #[inline]
    fn find(&self, id: u16) -> FoundQuery {
        let at = u32::from(id ^ self.salt) & (self.slots.len() as u32 - 1);
        let slot = &self.slots[at as usize];
        let mut state = slot.state;
        if state != State::Free && self.id(at, slot.generation) != id {
            // The id belongs to an earlier query, which is answered or expired.
            state = State::Forgotten;
        }
        if state == State::Outstanding && slot.sent == UNSENT {
            // A reply to a query that has not left yet.
            state = State::Free;
        }
        let sent = if slot.sent == UNSENT { slot.due } else { slot.sent };
        FoundQuery { state, key: slot.key, due: slot.due, sent, after_lost: false }
    }

    #[inline]
    fn mark_answered(&mut self, id: u16) {
        let at = u32::from(id ^ self.salt) & (self.slots.len() as u32 - 1);
        let generation = self.slots[at as usize].generation;
        if self.id(at, generation) == id {
            let slot = &mut self.slots[at as usize];
            self.outstanding -= u32::from(slot.state == State::Outstanding);
            slot.state = State::Answered;
        }
    }

    fn mark_predecessor_answered(&mut self, _id: u16) {
        // Nothing to do: the generation in the id distinguishes a query from its predecessors.
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_query_goes_through_its_states() {
        let us = Nanos::from_micros;
        let mut pipeline = Pipeline::new(2, 0, 0x1234);
        let first = pipeline.launch(us(1), 7);
        assert_eq!(pipeline.find(first).state, State::Free, "it has not left");
        let mut dues = Vec::new();
        pipeline.mark_sent(us(3), |due| dues.push(due));
        let second = pipeline.launch(us(4), 8);
        pipeline.mark_sent(us(4), |due| dues.push(due));
        assert_eq!(dues, [us(1), us(4)]);
        let found = pipeline.find(first);
        assert_eq!(
            (found.state, found.key, found.due, found.sent),
            (State::Outstanding, 7, us(1), us(3))
        );
        pipeline.mark_answered(second);
        pipeline.mark_answered(second);
        assert_eq!((pipeline.outstanding(), pipeline.find(second).state), (1, State::Answered));
        let mut lost = Vec::new();
        pipeline.expire_each(us(12), us(10), |id, _| lost.push(id));
        assert!(lost.is_empty(), "{lost:?}");
        pipeline.expire_each(us(13), us(10), |id, _| lost.push(id));
        assert_eq!(lost, [first]);
        assert_eq!((pipeline.outstanding(), pipeline.find(first).state), (0, State::Expired));
        pipeline.mark_answered(first);
        assert_eq!(pipeline.outstanding(), 0);
        pipeline.launch(us(20), 9);
        pipeline.mark_sent(us(20), |_| {});
        pipeline.launch(us(21), 10);
        assert_eq!((pipeline.waiting(), pipeline.reset()), (1, (1, 1)));
        assert_eq!((pipeline.outstanding(), pipeline.find(first).state), (0, State::Free));
    }

    #[test]
    fn a_query_that_is_turned_away_outlives_its_connection() {
        let us = Nanos::from_micros;
        let mut pipeline = Pipeline::new(4, 0, 0x77);
        let ids = [1, 2, 3].map(|key| pipeline.launch(us(1), key));
        pipeline.mark_sent(us(2), |_| {});
        assert!(pipeline.turn_away(ids[0]) && pipeline.fail(ids[1]) && !pipeline.fail(ids[1]));
        assert_eq!((pipeline.reset(), pipeline.outstanding()), ((1, 0), 1), "the third is lost");
        pipeline.next_connection();
        let again = [ids[0], ids[2]].map(|id| pipeline.send_again(id, us(9), true));
        assert_eq!(again, [Some(false), None]);
        let found = pipeline.find(ids[0]);
        assert_eq!((found.state, found.key, found.sent), (State::Outstanding, 1, us(2)));
        let mut lost = 0;
        pipeline.expire_each(us(12), us(10), |_, _| lost += 1);
        assert_eq!(lost, 1);
        assert!(!pipeline.turn_away(ids[0]));
        // One that never left has its time from its sending on.
        let unsent = pipeline.launch(us(20), 4);
        assert!(pipeline.turn_away(unsent));
        pipeline.next_connection();
        assert_eq!(pipeline.send_again(unsent, us(30), true), Some(true));
        assert_eq!((pipeline.find(unsent).sent, pipeline.reset()), (us(30), (1, 0)));
    }

    #[test]
    fn a_query_that_waits_for_an_open_connection_has_not_left() {
        let us = Nanos::from_micros;
        let mut pipeline = Pipeline::new(4, 0, 0x77);
        let ids = [1, 2, 3].map(|n| pipeline.launch(us(n), 7));
        for _ in 0..2 {
            assert!(ids.iter().all(|id| pipeline.turn_away(*id)));
            assert_eq!(pipeline.reset(), (0, 0));
            pipeline.next_connection();
            let again = ids.map(|id| pipeline.send_again(id, us(9), false));
            assert_eq!(again, [Some(false); 3]);
        }
        assert!(pipeline.turn_away(ids[1]) && pipeline.turn_away(ids[2]));
        let new = pipeline.launch(us(10), 7);
        let mut dues = Vec::new();
        pipeline.mark_sent(us(11), |due| dues.push(due));
        dues.sort_unstable();
        assert_eq!(dues, [us(1), us(10)], "the others are on no connection");
        assert_eq!([ids[0], new].map(|id| pipeline.find(id).sent), [us(11); 2]);
        assert_eq!(ids.map(|id| pipeline.give_up(id, us(2))), [false, true, false]);
        assert_eq!((pipeline.outstanding(), pipeline.waiting()), (3, 1));
        pipeline.send_again(ids[2], us(12), false);
        assert_eq!(pipeline.reset(), (2, 1));
    }

    proptest! {
        /// For any order of sending and answering, an id finds its query while it is outstanding, and no two
        /// outstanding queries share an id.
        #[test]
        fn an_id_finds_its_outstanding_query(most in 1u32..40, remembered in 0u32..100, steps in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 1..400)) {
            let mut pipeline = Pipeline::new(most, remembered, 0xbeef);
            let mut out: Vec<(u16, u32)> = Vec::new();
            for (key, (ask, which)) in (0u32..).zip(steps) {
                if ask && (out.len() as u32) < most {
                    let id = pipeline.launch(Nanos(u64::from(key)), key);
                    prop_assert!(out.iter().all(|(other, _)| *other != id));
                    out.push((id, key));
                    if key % 3 == 0 {
                        pipeline.mark_sent(Nanos(u64::from(key)), |_| {});
                    }
                } else if !out.is_empty() {
                    pipeline.mark_sent(Nanos(u64::from(key)), |_| {});
                    let (id, key) = out.swap_remove(which.index(out.len()));
                    let found = pipeline.find(id);
                    prop_assert_eq!((found.state, found.key), (State::Outstanding, key));
                    pipeline.mark_answered(id);
                    prop_assert_eq!(pipeline.find(id).state, State::Answered);
                }
                prop_assert_eq!(pipeline.outstanding() as usize, out.len());
            }
            pipeline.mark_sent(Nanos(1_000), |_| {});
            let mut lost = 0;
            pipeline.expire_each(Nanos(2_000), Nanos(1), |_, _| lost += 1);
            prop_assert_eq!(lost, out.len());
        }
    }
}
