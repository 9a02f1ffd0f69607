//! The flight: the table of outstanding queries.
//!
//! ```text
//! per socket a ring of 65,536 slots, one for each id
//!
//!   sequence   0 1 2 3 ...            queries of this socket in the order in which they left
//!   slot       sequence mod 65536     used in order, which suits CPU caches
//!   id         a permutation of it    so that consecutive ids look random on the wire
//!
//!         oldest          next
//!           v               v
//!   ...|done|out|done|out|  |...      expiry walks from `oldest`, a reply goes straight to its slot
//! ```
//!
//! A query that waits for its timeout does not block the ring: when `next` reaches its slot again, the query
//! is put on a watch list in the order of sending, and its slot is skipped until it is done.
//!
//! Nothing is hashed, and no memory is allocated per query. A slot keeps the outcome of its query until the
//! ring reaches it again, so that duplicates, late replies and unexpected replies are distinguished. Two
//! things keep a late reply from counting against the query that has its id now: so many sockets that an id
//! is unused for four timeouts ([`sockets_needed`]), and, where that is not enough, a mark in the slot that
//! its last query was lost.

use std::collections::VecDeque;

use measure::{Nanos, Pacing};

/// Number of slots of a ring: one for each 16-bit DNS id.
pub(crate) const RING: usize = 1 << 16;

/// State of a query in its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The slot was never used.
    Free,
    /// The query left, and no reply came yet.
    Outstanding,
    /// A reply came in time.
    Answered,
    /// No reply came in time.
    Expired,
    /// Another query has the slot now, with another id.
    Forgotten,
}

/// A slot unpacked from its 16 bytes.
///
/// ```text
/// word 0   due time in nanoseconds (60 bits: 36 years) | was the last query lost (1) | state (3)
/// word 1   the workload's key (32) | time from due to sent (32): nanoseconds, or from 2.1 s on microseconds
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FoundQuery {
    /// Current state of the query.
    pub state: State,
    /// Key that the workload gave the query.
    pub key: u32,
    /// Due time of the query.
    pub due: Nanos,
    /// Time at which the query left.
    pub sent: Nanos,
    /// Whether the previous query with this id was lost; its reply may still arrive.
    pub after_lost: bool,
}

/// Table of outstanding queries, by id.
pub(crate) trait OutstandingTable {
    /// Adds a query that is about to leave; returns its id.
    ///
    /// # Panics
    /// When the table has no room.
    fn launch(&mut self, due: Nanos, key: u32) -> u16;
    /// Returns the query that used `id` last.
    fn find(&self, id: u16) -> FoundQuery;
    /// Marks this query as answered.
    fn mark_answered(&mut self, id: u16);
    /// Notes that the reply to the lost previous query with `id` has arrived.
    fn mark_predecessor_answered(&mut self, id: u16);
    /// Expires the queries that left `timeout` or more before `now`; calls `lost` with the id and
    /// the slot of each.
    fn expire_each(&mut self, now: Nanos, timeout: Nanos, lost: impl FnMut(u16, FoundQuery));
}

/// A slot in packed form. All zero means free, so that the memory of a new ring stays untouched.
type Slot = [u64; 2];

/// The states in word 0, as [`State`]; an outstanding query on the watch list has its own state.
const FREE: u64 = 0;
const OUTSTANDING: u64 = 1;
const ANSWERED: u64 = 2;
const EXPIRED: u64 = 3;
const WATCHED: u64 = 4;
/// Mask of the state in word 0.
const STATE_MASK: u64 = 7;
/// Bit of word 0 that is set when the last query was lost.
const AFTER_LOST: u64 = 8;
/// Lowest bit of the due time in word 0.
const DUE_BIT: u32 = 4;

impl FoundQuery {
    #[inline]
    fn unpack([due_state, key_lag]: Slot) -> Self {
        let due = Nanos(due_state >> DUE_BIT);
        FoundQuery {
            state: match due_state & STATE_MASK {
                FREE => State::Free,
                OUTSTANDING | WATCHED => State::Outstanding,
                ANSWERED => State::Answered,
                _ => State::Expired,
            },
            key: (key_lag >> 32) as u32,
            due,
            sent: due + unpack_lag(key_lag & u64::from(u32::MAX)),
            after_lost: due_state & AFTER_LOST != 0,
        }
    }
}

/// Bit of a packed time from due to sent that is in units of 1,024 ns: so it may be 36 minutes.
const COARSE_BIT: u64 = 1 << 31;

/// Returns the time from due to sent in 32 bits.
#[inline]
fn pack_lag(lag: Nanos) -> u64 {
    if lag.0 < COARSE_BIT { lag.0 } else { COARSE_BIT | (lag.0 >> 10).min(COARSE_BIT - 1) }
}

/// Returns the time that [`pack_lag`] packed.
#[inline]
fn unpack_lag(packed: u64) -> Nanos {
    if packed < COARSE_BIT { Nanos(packed) } else { Nanos((packed ^ COARSE_BIT) << 10) }
}

/// Replaces the state of `slot`.
#[inline]
fn set_state(slot: &mut Slot, state: u64) {
    slot[0] = slot[0] & !STATE_MASK | state;
}

/// The outstanding queries of one socket.
#[derive(Debug)]
pub(crate) struct Ring {
    slots: Box<[Slot]>,
    /// Sequence number of the next query.
    next: u64,
    /// Sequence number of the first query that may be outstanding and is not on the watch list.
    oldest: u64,
    /// Watch list: outstanding queries whose slot the ring has reached again, as slot and time of sending, in
    /// rising order of time.
    watched: VecDeque<(u16, Nanos)>,
    /// Number of queries without a reply that are not expired.
    outstanding: usize,
    salt: u16,
}

/// Longest watch list. At most 65,536 entries (one for each id) belong to outstanding queries; the
/// others are dropped when the list is full.
const MAX_WATCHED: usize = RING + RING / 2;

/// Factor that spreads sequential ids over the 16 bits; odd, so that it has an inverse modulo 2^16.
const ID_SPREAD: u16 = 0x9e37;
/// Inverse of [`ID_SPREAD`] modulo 2^16.
const SPREAD_INVERSE: u16 = inverse(ID_SPREAD);

/// Computes the inverse of an odd number modulo 2^16 by Newton's iteration.
const fn inverse(odd: u16) -> u16 {
    let mut x = odd;
    let mut i = 0;
    while i < 4 {
        x = x.wrapping_mul(2u16.wrapping_sub(odd.wrapping_mul(x)));
        i += 1;
    }
    x
}

impl Ring {
    /// Makes an empty ring whose ids are mixed with `salt`. The ring takes 2.5 MiB of address
    /// space, resident as it is used.
    pub(crate) fn new(salt: u16) -> Self {
        let slots = vec![[0; 2]; RING].into();
        let watched = VecDeque::with_capacity(MAX_WATCHED);
        Ring { slots, next: 0, oldest: 0, watched, outstanding: 0, salt }
    }

    /// Returns whether there is a free id for a query; skips the slots of queries that are still outstanding.
    #[inline]
    pub(crate) fn has_room(&mut self) -> bool {
        if self.outstanding == RING {
            return false;
        }
        loop {
            let slot = self.next as usize % RING;
            if self.next - self.oldest == RING as u64 {
                // The next slot is that of the oldest outstanding query.
                if self.slots[slot][0] & STATE_MASK == OUTSTANDING {
                    self.watch(slot);
                }
                self.oldest += 1;
            }
            if self.slots[slot][0] & STATE_MASK != WATCHED {
                return true;
            }
            self.next += 1;
        }
    }

    /// Puts the outstanding query in `slot` on the watch list.
    #[cold]
    fn watch(&mut self, slot: usize) {
        if self.watched.len() == MAX_WATCHED {
            // Other queries in the list may be answered by now.
            let slots = &self.slots;
            self.watched.retain(|(slot, sent)| {
                let slot = slots[usize::from(*slot)];
                slot[0] & STATE_MASK == WATCHED && FoundQuery::unpack(slot).sent == *sent
            });
        }
        self.watched.push_back((slot as u16, FoundQuery::unpack(self.slots[slot]).sent));
        set_state(&mut self.slots[slot], WATCHED);
    }

    /// Returns the sequence number of the next query.
    #[inline]
    pub(crate) fn next_sequence(&self) -> u64 {
        self.next
    }

    /// Marks the query `sequence` as sent at `at`; returns its schedule error.
    #[inline]
    pub(crate) fn mark_sent(&mut self, sequence: u64, at: Nanos) -> Nanos {
        let slot = &mut self.slots[sequence as usize % RING];
        let lag = at.since(Nanos(slot[0] >> DUE_BIT));
        slot[1] |= pack_lag(lag);
        lag
    }

    #[inline]
    fn slot_of(&self, id: u16) -> usize {
        usize::from((id ^ self.salt).wrapping_mul(SPREAD_INVERSE))
    }

    /// Returns the id of the queries in `slot`.
    #[inline]
    fn id_of(&self, slot: u16) -> u16 {
        slot.wrapping_mul(ID_SPREAD) ^ self.salt
    }

    /// Works as [`expire_each`](Self::expire_each); returns the number of queries that expired.
    pub(crate) fn expire(&mut self, now: Nanos, timeout: Nanos) -> u64 {
        let mut lost = 0;
        self.expire_each(now, timeout, |_, _| lost += 1);
        lost
    }
}

impl OutstandingTable for Ring {
    #[inline]
    fn launch(&mut self, due: Nanos, key: u32) -> u16 {
        let sequence = self.next;
        let slot = &mut self.slots[sequence as usize % RING];
        let last = slot[0] & STATE_MASK;
        assert!(last != OUTSTANDING && last != WATCHED, "a query is launched only with a free id");
        let after_lost = if last == EXPIRED { AFTER_LOST } else { 0 };
        *slot = [due.0 << DUE_BIT | after_lost | OUTSTANDING, u64::from(key) << 32];
        self.next += 1;
        self.outstanding += 1;
        self.id_of(sequence as u16)
    }

    #[inline]
    fn find(&self, id: u16) -> FoundQuery {
        FoundQuery::unpack(self.slots[self.slot_of(id)])
    }

    #[inline]
    fn mark_answered(&mut self, id: u16) {
        let slot = self.slot_of(id);
        let was_outstanding = matches!(self.slots[slot][0] & STATE_MASK, OUTSTANDING | WATCHED);
        self.outstanding -= usize::from(was_outstanding);
        set_state(&mut self.slots[slot], ANSWERED);
    }

    #[inline]
    fn mark_predecessor_answered(&mut self, id: u16) {
        let slot = self.slot_of(id);
        self.slots[slot][0] &= !AFTER_LOST;
    }

    /// Skips answered queries. Each query is visited once, so that the cost is constant per query.
    fn expire_each(&mut self, now: Nanos, timeout: Nanos, mut lost: impl FnMut(u16, FoundQuery)) {
        while let Some(&(at, sent)) = self.watched.front() {
            let id = self.id_of(at);
            let slot = &mut self.slots[usize::from(at)];
            // The query may be answered, and its slot may hold another query.
            let found = FoundQuery::unpack(*slot);
            if slot[0] & STATE_MASK == WATCHED && found.sent == sent {
                if sent + timeout > now {
                    break;
                }
                set_state(slot, EXPIRED);
                self.outstanding -= 1;
                lost(id, found);
            }
            self.watched.pop_front();
        }
        while self.oldest < self.next {
            let id = self.id_of(self.oldest as u16);
            let slot = &mut self.slots[self.oldest as usize % RING];
            if slot[0] & STATE_MASK == OUTSTANDING {
                let found = FoundQuery::unpack(*slot);
                if found.sent + timeout > now {
                    break;
                }
                set_state(slot, EXPIRED);
                self.outstanding -= 1;
                lost(id, found);
            }
            self.oldest += 1;
        }
    }
}

/// Highest number of sockets of one worker.
pub(crate) const MAX_SOCKETS: usize = 1_024;

/// Returns how many sockets `rate_per_s` queries with `timeout` need, so that an id is used again only after
/// four timeouts: a late reply then finds the slot of its own query.
pub fn sockets_needed(rate_per_s: f64, timeout: Nanos) -> usize {
    let ids = rate_per_s * timeout.as_secs_f64() * 4.0;
    ((ids / RING as f64).ceil() as usize).clamp(1, MAX_SOCKETS)
}

/// Returns [`sockets_needed`] for one of `workers`, by pacing.
///
/// A window has no rate. It gets four ids for each outstanding query: ids of answered queries are used again
/// as fast as the server answers, ids of lost ones wait for the window.
pub fn sockets_for(pacing: &Pacing, timeout: Nanos, workers: u32) -> usize {
    if let Pacing::LockStep { threads, .. } = *pacing {
        return threads as usize;
    }
    let per_timeout = |outstanding: u32| f64::from(outstanding) / timeout.as_secs_f64();
    let rate = match pacing.peak_rate() {
        Some(rate) => rate.get(),
        None => pacing.outstanding().map_or(0.0, per_timeout),
    };
    sockets_needed(rate / f64::from(workers.max(1)), timeout)
}

#[cfg(test)]
mod tests {
    use measure::Qps;

    use super::*;

    #[test]
    fn a_slot_is_sixteen_bytes() {
        assert_eq!(size_of::<Slot>(), 16);
        assert_eq!(ID_SPREAD.wrapping_mul(SPREAD_INVERSE), 1);
    }

    #[test]
    fn ids_are_a_permutation() {
        let mut ring = Ring::new(0x1234);
        let mut seen = vec![false; RING];
        for k in 0..RING as u32 {
            let id = ring.launch(Nanos(u64::from(k)), k);
            assert!(!std::mem::replace(&mut seen[usize::from(id)], true));
            assert_eq!(ring.find(id).key, k);
        }
        assert_eq!(ring.expire(Nanos::MAX, Nanos(1)), RING as u64);
    }

    #[test]
    fn a_full_ring_has_room_again_after_the_timeout() {
        let mut ring = Ring::new(5);
        for k in 0..RING as u32 {
            assert!(ring.has_room());
            ring.launch(Nanos(1), k);
        }
        assert!(!ring.has_room());
        assert_eq!(ring.expire(Nanos(100), Nanos(100)), 0);
        assert_eq!(ring.expire(Nanos(101), Nanos(100)), RING as u64);
        assert!(ring.has_room());
    }

    #[test]
    fn outstanding_queries_do_not_block_the_ring() {
        let mut ring = Ring::new(5);
        // One query is sent each nanosecond. Queries 0, 10, 20 and so on of the first lap are lost, the
        // others are answered at once.
        let lost_ids: Vec<u16> = (0..RING as u64)
            .filter_map(|k| {
                let id = ring.launch(Nanos(k), k as u32);
                if k.is_multiple_of(10) {
                    return Some(id);
                }
                ring.mark_answered(id);
                None
            })
            .collect();
        // Three laps later they are still outstanding, and nothing else was blocked.
        for k in RING as u64..4 * RING as u64 {
            assert!(ring.has_room());
            let id = ring.launch(Nanos(k), k as u32);
            ring.mark_answered(id);
            if k.is_multiple_of(5_000) {
                assert_eq!(ring.expire(Nanos(k), Nanos(1_000_000)), 0);
            }
        }
        assert!(lost_ids.iter().all(|id| ring.find(*id).state == State::Outstanding));
        assert_eq!((ring.find(lost_ids[7]).key, ring.find(lost_ids[7]).sent), (70, Nanos(70)));
        // One is answered after all, the others expire one by one.
        ring.mark_answered(lost_ids[1]);
        assert_eq!(ring.expire(Nanos(1_000_020), Nanos(1_000_000)), 2);
        assert_eq!(ring.expire(Nanos(1_000_029), Nanos(1_000_000)), 0);
        assert_eq!(ring.expire(Nanos(2_000_000), Nanos(1_000_000)), lost_ids.len() as u64 - 3);
        assert_eq!(ring.find(lost_ids[1]).state, State::Answered);
        assert_eq!(ring.find(lost_ids[2]).state, State::Expired);
    }

    #[test]
    fn every_id_can_be_outstanding_whatever_is_answered_between() {
        let (mut ring, mut outstanding) = (Ring::new(3), 0);
        for k in 0.. {
            if !ring.has_room() {
                break;
            }
            let id = ring.launch(Nanos(k), k as u32);
            if k % 3 == 0 {
                ring.mark_answered(id);
            } else {
                outstanding += 1;
            }
        }
        assert_eq!(outstanding, RING);
    }

    #[test]
    fn states_last_until_the_slot_is_used_again() {
        let mut ring = Ring::new(7);
        let ids: Vec<u16> = (0..10).map(|k| ring.launch(Nanos(u64::from(k) * 100), k)).collect();
        for sequence in 0..10 {
            assert_eq!(ring.mark_sent(sequence, Nanos(sequence * 100 + 5)), Nanos(5));
        }
        ring.mark_answered(ids[0]);
        ring.mark_answered(ids[2]);
        // 0 and 2 are answered, 1 left at 105, 3 at 305.
        assert_eq!(ring.expire(Nanos(1_205), Nanos(1_000)), 1);
        assert_eq!(ring.find(ids[1]).state, State::Expired);
        assert_eq!(ring.find(ids[2]).state, State::Answered);
        assert_eq!(ring.find(ids[3]).state, State::Outstanding);
        assert_eq!(ring.expire(Nanos(10_000), Nanos(1_000)), 7);
        let last = FoundQuery {
            state: State::Expired,
            key: 9,
            due: Nanos(900),
            sent: Nanos(905),
            after_lost: false,
        };
        assert_eq!(ring.find(ids[9]), last);
    }

    #[test]
    fn a_slot_records_that_its_last_query_was_lost() {
        let mut ring = Ring::new(0);
        let first = ring.launch(Nanos(0), 1);
        let second = ring.launch(Nanos(0), 2);
        ring.mark_answered(second);
        ring.expire(Nanos(100), Nanos(100));
        for k in 2..RING as u32 {
            let id = ring.launch(Nanos(200), k);
            ring.mark_answered(id);
        }
        for (id, after_lost) in [(first, true), (second, false)] {
            assert!(ring.has_room());
            assert_eq!(ring.launch(Nanos(300), 5), id);
            assert_eq!(ring.find(id).after_lost, after_lost);
        }
        ring.mark_predecessor_answered(first);
        let found = ring.find(first);
        assert_eq!((found.after_lost, found.state, found.key), (false, State::Outstanding, 5));
    }

    #[test]
    fn a_query_that_leaves_very_late_keeps_its_key() {
        let secs = Nanos::from_secs;
        // The last is longer than the 36 minutes for which there is room.
        for (lag, kept) in [
            (Nanos(0), Nanos(0)),
            (Nanos((1 << 31) - 1), Nanos((1 << 31) - 1)),
            (Nanos(1 << 31), Nanos(1 << 31)),
            (Nanos(9_999_999_999), Nanos(9_999_998_976)),
            (secs(2_000), secs(2_000)),
            (secs(3_600), Nanos(((1 << 31) - 1) * 1_024)),
        ] {
            let mut ring = Ring::new(0);
            let id = ring.launch(Nanos(1), u32::MAX);
            assert_eq!(ring.mark_sent(0, Nanos(1) + lag), lag);
            let found = ring.find(id);
            assert_eq!((found.key, found.due, found.sent), (u32::MAX, Nanos(1), Nanos(1) + kept));
        }
    }

    #[test]
    fn an_unused_id_finds_a_free_slot() {
        assert_eq!(Ring::new(0).find(4_711).state, State::Free);
    }

    #[test]
    fn sockets_for_rates_and_windows() {
        let second = Nanos::from_secs(1);
        assert_eq!(sockets_needed(1_000.0, second), 1);
        assert_eq!(sockets_needed(1e6, Nanos::from_millis(250)), 16);
        assert_eq!(sockets_needed(1e6, second), 62);
        let qps = |x| Qps::new(x).expect("a rate");
        for (pacing, workers, sockets) in [
            (Pacing::Constant { rate: qps(1e6) }, 2, 31),
            (Pacing::Poisson { rate: qps(1e6) }, 1, 62),
            (Pacing::Ramp { from: qps(1.0), to: qps(1e6) }, 1, 62),
            (Pacing::Window { outstanding: 512 }, 1, 1),
            (Pacing::Window { outstanding: 100_000 }, 1, 7),
            (Pacing::LockStep { threads: 16, experiments: 1, anew: false }, 1, 16),
        ] {
            assert_eq!(sockets_for(&pacing, second, workers), sockets, "{pacing:?}");
        }
    }
}
