//! Lookups that wait for a reply: to a datagram, by socket and id, or on a stream, by a ticket.

use std::collections::VecDeque;

use chacha20::rand_core::Rng;
use engine::SocketId;
use measure::Nanos;

use crate::table::ids::Ids;
use crate::table::wheel::Wheel;
use crate::transaction::LookupId;

/// Number of ids that are tried until one is free on a socket. With 64 queries on one socket nearly every
/// first try succeeds.
const ID_TRIES: usize = 16;

/// Ids of datagrams, tickets of streams, and the times until which lookups wait.
pub(super) struct Waits {
    pub(super) ids: Ids,
    pub(super) tickets: u32,
    pub(super) timeouts: Wheel,
    /// Questions to which there is an expired answer, and when their clients get it, in this order.
    pub(super) impatient: VecDeque<(Nanos, u32)>,
}

impl Waits {
    /// Makes tables for the lookups of `outstanding` questions; times before `now` are over.
    pub(super) fn new(outstanding: usize, now: Nanos) -> Self {
        // Two lookups, each with two attempts.
        let (ids, timeouts) = (Ids::new(4 * outstanding), Wheel::new(now));
        Waits { ids, tickets: 0, timeouts, impatient: VecDeque::new() }
    }

    /// Gives a lookup a random id on a socket; `None` if all that were tried are in use.
    pub(super) fn draw_id(
        &mut self,
        socket: SocketId,
        at: LookupId,
        rng: &mut impl Rng,
    ) -> Option<u16> {
        let mut random = std::iter::repeat_with(|| rng.next_u32() as u16).take(ID_TRIES);
        random.find(|id| self.ids.insert(socket, *id, at.number()))
    }
}
