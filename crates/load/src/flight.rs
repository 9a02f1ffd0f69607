//! The flight: the table of outstanding queries.
//!
//! ```text
//! per socket a ring of 65,536 slots, one for each id
//!
//!   sequence   0 1 2 3 ...            queries of this socket in the order they left
//!   slot       sequence mod 65536     touched in order: kind to caches
//!   id         a permutation of it    so that neighbours do not look alike on the wire
//!
//!         oldest          next
//!           v               v
//!   ...|done|out|done|out|  |...      expiry walks from `oldest`, replies jump to their slot
//! ```
//!
//! Nothing is hashed, nothing allocated per query. A slot says what became of its query until the
//! ring comes round, so that duplicates and late replies are told from strangers.

use measure::Nanos;

/// Slots of a ring: the 16-bit ids of DNS.
pub const RING: usize = 1 << 16;

/// What became of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The slot was never used.
    Free,
    /// No reply yet.
    Outstanding,
    /// A reply came in time.
    Answered,
    /// No reply came in time.
    Expired,
}

/// A slot: 16 bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Due time in nanoseconds shifted left by two, and the state.
    due_state: u64,
    /// The workload's key of the query.
    key: u32,
    /// How long after it was due the query left, nanoseconds, at most 4.29 s.
    lag: u32,
}

impl Slot {
    fn new(due: Nanos, key: u32) -> Self {
        Slot { due_state: due.0 << 2 | 1, key, lag: 0 }
    }

    fn state(self) -> State {
        match self.due_state & 3 {
            0 => State::Free,
            1 => State::Outstanding,
            2 => State::Answered,
            _ => State::Expired,
        }
    }

    fn set_state(&mut self, state: State) {
        self.due_state = self.due_state & !3 | state as u64;
    }

    fn due(self) -> Nanos {
        Nanos(self.due_state >> 2)
    }

    fn sent(self) -> Nanos {
        self.due() + Nanos(u64::from(self.lag))
    }
}

/// A query found by the id of its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// What became of it until now.
    pub state: State,
    /// The workload's key.
    pub key: u32,
    /// When it was due.
    pub due: Nanos,
    /// When it left.
    pub sent: Nanos,
}

/// The outstanding queries of one socket.
#[derive(Debug)]
pub struct Ring {
    slots: Box<[Slot]>,
    next: u64,
    oldest: u64,
    salt: u16,
}

/// Spreads sequential ids over the 16 bits; odd, so that it has an inverse modulo 2^16.
const SPREAD: u16 = 0x9e37;
/// Its inverse.
const GATHER: u16 = inverse(SPREAD);

/// The inverse of an odd number modulo 2^16, by Newton's iteration.
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
    /// An empty ring whose ids are mixed with `salt`.
    pub fn new(salt: u16) -> Self {
        Ring { slots: vec![Slot::default(); RING].into(), next: 0, oldest: 0, salt }
    }

    /// Whether every id is outstanding.
    pub fn is_full(&self) -> bool {
        self.next - self.oldest == RING as u64
    }

    /// The number of the next query.
    pub fn next_sequence(&self) -> u64 {
        self.next
    }

    /// Takes in a query that is about to leave; its id.
    ///
    /// # Panics
    /// When the ring is full.
    #[inline]
    pub fn launch(&mut self, due: Nanos, key: u32) -> u16 {
        assert!(!self.is_full(), "a query needs a free id");
        let sequence = self.next;
        self.slots[sequence as usize % RING] = Slot::new(due, key);
        self.next += 1;
        (sequence as u16).wrapping_mul(SPREAD) ^ self.salt
    }

    /// Notes that the query `sequence` left at `at`; how long after it was due.
    #[inline]
    pub fn left(&mut self, sequence: u64, at: Nanos) -> Nanos {
        let slot = &mut self.slots[sequence as usize % RING];
        let lag = at.since(slot.due());
        slot.lag = u32::try_from(lag.0).unwrap_or(u32::MAX);
        lag
    }

    /// The query that used `id` last.
    #[inline]
    pub fn find(&self, id: u16) -> Found {
        let slot = self.slots[self.slot_of(id)];
        Found { state: slot.state(), key: slot.key, due: slot.due(), sent: slot.sent() }
    }

    /// Notes what became of the query that used `id` last.
    #[inline]
    pub fn settle(&mut self, id: u16, state: State) {
        let slot = self.slot_of(id);
        self.slots[slot].set_state(state);
    }

    #[inline]
    fn slot_of(&self, id: u16) -> usize {
        usize::from((id ^ self.salt).wrapping_mul(GATHER))
    }

    /// Walks past the queries that are done, and expires those that left `timeout` or more before
    /// `now`, telling `lost` of each.
    pub fn expire(&mut self, now: Nanos, timeout: Nanos, mut lost: impl FnMut(Found)) {
        while self.oldest < self.next {
            let slot = &mut self.slots[self.oldest as usize % RING];
            if slot.state() == State::Outstanding {
                if slot.sent() + timeout > now {
                    return;
                }
                slot.set_state(State::Expired);
                lost(Found {
                    state: State::Expired,
                    key: slot.key,
                    due: slot.due(),
                    sent: slot.sent(),
                });
            }
            self.oldest += 1;
        }
    }

    /// How many queries between `oldest` and `next` are outstanding.
    pub fn outstanding(&self) -> u64 {
        (self.oldest..self.next)
            .filter(|s| self.slots[*s as usize % RING].state() == State::Outstanding)
            .count() as u64
    }
}

/// How many sockets hold `rate_per_s` queries with `timeout`, so that an id is used again only after
/// four timeouts: a late reply then finds its own slot, not its successor's.
pub fn sockets_needed(rate_per_s: f64, timeout: Nanos) -> usize {
    let ids = rate_per_s * timeout.as_secs_f64() * 4.0;
    ((ids / RING as f64).ceil() as usize).clamp(1, 1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_sixteen_bytes() {
        assert_eq!(size_of::<Slot>(), 16);
        assert_eq!(SPREAD.wrapping_mul(GATHER), 1);
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
        assert!(ring.is_full());
        assert_eq!(ring.outstanding(), RING as u64);
    }

    #[test]
    fn states_last_until_the_ring_comes_round() {
        let mut ring = Ring::new(7);
        let ids: Vec<u16> = (0..10).map(|k| ring.launch(Nanos(u64::from(k) * 100), k)).collect();
        for sequence in 0..10 {
            assert_eq!(ring.left(sequence, Nanos(sequence * 100 + 5)), Nanos(5));
        }
        ring.settle(ids[0], State::Answered);
        ring.settle(ids[2], State::Answered);
        let mut lost = Vec::new();
        ring.expire(Nanos(1_205), Nanos(1_000), |found| lost.push(found.key));
        assert_eq!(lost, [1], "0 and 2 are answered, 3 left at 305");
        assert_eq!(ring.find(ids[1]).state, State::Expired);
        assert_eq!(ring.find(ids[2]).state, State::Answered);
        assert_eq!(ring.find(ids[3]).state, State::Outstanding);
        assert_eq!(ring.outstanding(), 7);
        ring.expire(Nanos(10_000), Nanos(1_000), |_| ());
        assert_eq!(ring.outstanding(), 0);
        assert_eq!(
            ring.find(ids[9]),
            Found { state: State::Expired, key: 9, due: Nanos(900), sent: Nanos(905) }
        );
    }

    #[test]
    fn a_stranger_finds_a_free_slot() {
        assert_eq!(Ring::new(0).find(4_711).state, State::Free);
    }

    #[test]
    fn sockets() {
        assert_eq!(sockets_needed(1_000.0, Nanos::from_secs(1)), 1);
        assert_eq!(sockets_needed(1e6, Nanos::from_millis(250)), 16);
        assert_eq!(sockets_needed(1e6, Nanos::from_secs(1)), 62);
    }
}
