//! Roles of connections: state machines that decide which connection opens, what it sends, and when it
//! closes.
//!
//! ```text
//!   StreamRole (a state machine)
//!     ^ opened, message, closed  | Orders
//!     |                          v
//!   an engine of streams               sockets, TLS, HTTP, QUIC: crate `streams`
//! ```
//!
//! Like a [`crate::Role`], such a role reads no clock and opens no socket. It knows only this of DNS: the
//! first two bytes of a message are its tag, which relates a reply to its query.

mod failure;

pub use failure::{Failure, QueryFailure, StreamCode};

use std::task::Waker;

use measure::Nanos;

use crate::drive::Next;

/// Number of a connection, from 0; it may be opened again after its end.
pub type ConnId = u32;

/// How a connection was established.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// Time until the peer's kernel accepted the connection; 0 if it is not separate (QUIC).
    pub connect: Nanos,
    /// Time until messages could be sent, including `connect`.
    pub handshake: Nanos,
    /// Whether an earlier session was resumed.
    pub resumed: bool,
    /// Whether the peer accepted data that was sent before the end of the handshake.
    pub early_data: bool,
}

/// When a server's reply leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaves {
    /// The reply leaves at once; an empty one ends its connection, or its stream.
    AtOnce,
    /// At a time of the monotonic clock, with the number of queries.
    At(Nanos, u8),
    /// Never, although the connection stays open.
    Never,
}

/// Kind of end of a connection, after which no more messages are sent on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The role ordered the connection to close or to abort.
    Ordered,
    /// The peer closed the connection properly.
    ByPeer,
    /// The peer takes no more messages on the connection. Outstanding queries end later, by a
    /// message, as failed or as turned away. The connection's number is free.
    GoingAway,
    /// The connection failed while it was opened or in use.
    Failed(Failure),
}

/// The work that a client does with connections.
pub trait StreamRole {
    /// A connection is established; the messages ordered for it leave now.
    fn opened(&mut self, now: Nanos, conn: ConnId, how: Opened);
    /// A message arrived: a whole DNS message, without its length.
    fn message(&mut self, now: Nanos, conn: ConnId, message: &[u8]);
    /// The query whose message began with `tag` has ended without a reply; the others of the connection go on.
    fn failed(&mut self, now: Nanos, conn: ConnId, tag: [u8; 2], why: QueryFailure);
    /// The query whose message began with `tag` has ended without a stream of its own: it never
    /// left, although [`sent`](Self::sent) was called. The role may have ended the query before.
    fn never_left(&mut self, _now: Nanos, _conn: ConnId, _tag: [u8; 2]) {}
    /// The peer has not processed this message and takes no more messages on the connection: the
    /// role may send it again on the next connection with this number. Called before or after
    /// [`closed`](Self::closed).
    fn turned_away(&mut self, now: Nanos, conn: ConnId, message: &[u8]);
    /// A connection has ended or could not be established. Its number is free.
    fn closed(&mut self, now: Nanos, conn: ConnId, end: End);
    /// Gives orders. Called after each event, and when the role is due.
    fn orders(&mut self, now: Nanos, orders: &mut Orders) -> Next;
    /// Gets the time just before all messages ordered for `conn` so far go to the kernel.
    fn sent(&mut self, at: Nanos, conn: ConnId);
}

/// Largest sum of the proportions of a [`Mix`].
pub const MAX_SHARES: u32 = 1_000;

/// Assignment of connections to kinds, if there are several kinds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mix {
    /// Kinds of connections 0, 1, 2 and so on, repeated.
    turns: Vec<u8>,
}

impl Mix {
    /// Makes a mix of kinds with these proportions, evenly interleaved; `None` if a proportion is 0, there is
    /// none, or their sum is above [`MAX_SHARES`].
    pub fn new(shares: &[u32]) -> Option<Self> {
        let all: u32 = shares.iter().try_fold(0u32, |sum, &share| sum.checked_add(share))?;
        if shares.contains(&0) || all == 0 || all > MAX_SHARES || shares.len() > 256 {
            return None;
        }
        let mut given = vec![0u32; shares.len()];
        // The next kind is the one that is furthest below its share.
        let turn = |n: u32| {
            let behind = |&k: &usize| {
                i64::from(shares[k]) * i64::from(n + 1) - i64::from(given[k]) * i64::from(all)
            };
            let kind = (0..shares.len()).rev().max_by_key(behind).unwrap_or(0);
            given[kind] += 1;
            kind as u8
        };
        Some(Mix { turns: (0..all).map(turn).collect() })
    }

    /// Makes a mix of a single kind.
    pub fn one() -> Self {
        Mix { turns: vec![0] }
    }

    /// Returns the mix of `count` connections, followed by as many of `kind`.
    pub fn with_companions(&self, count: u32, kind: usize) -> Self {
        let own = (0..count).map(|conn| self.kind(conn) as u8);
        Mix { turns: own.chain((0..count).map(|_| kind as u8)).collect() }
    }

    /// Returns the kind of a connection.
    #[inline]
    pub fn kind(&self, conn: ConnId) -> usize {
        usize::from(self.turns[conn as usize % self.turns.len()])
    }

    /// Returns the number of kinds.
    pub fn kinds(&self) -> usize {
        self.turns.iter().copied().max().map_or(1, |most| usize::from(most) + 1)
    }
}

/// Orders of a role, collected.
#[derive(Debug)]
pub struct Orders {
    slots: Vec<Slot>,
    opens: Vec<ConnId>,
    /// Connections with orders since the last `hand_out`.
    touched: Vec<ConnId>,
}

/// What the role has ordered for one connection, which the engine carries out.
#[derive(Debug, Default)]
pub struct Slot {
    /// Messages to write, each with its length in front.
    pub output: Vec<u8>,
    /// Whether messages were added for which the role has not got the time of sending.
    pub fresh: bool,
    /// The connection ends when everything is written.
    pub closing: bool,
    /// The connection ends immediately, without its unwritten output.
    pub aborted: bool,
    touched: bool,
    /// Wakes the task that serves the connection, for new orders.
    pub waker: Option<Waker>,
}

impl Orders {
    /// Makes an empty set of orders for this number of connections.
    pub fn new(connections: usize) -> Self {
        let slots = (0..connections).map(|_| Slot::default()).collect();
        Orders { slots, opens: Vec::new(), touched: Vec::new() }
    }

    /// Returns the highest number of connections.
    pub fn connections(&self) -> usize {
        self.slots.len()
    }

    /// Opens the connection `conn`, whose number must be free. Messages may be ordered immediately.
    pub fn open(&mut self, conn: ConnId) {
        let slot = &mut self.slots[conn as usize];
        (slot.fresh, slot.closing, slot.aborted) = (false, false, false);
        slot.output.clear();
        self.opens.push(conn);
    }

    /// Sends a message on `conn`: `compose` fills a buffer of `room` bytes and returns how many it used; 0
    /// sends nothing.
    ///
    /// # Panics
    /// When `compose` returns more than `room`, or more than a length of 16 bits allows.
    pub fn send(&mut self, conn: ConnId, room: usize, compose: impl FnOnce(&mut [u8]) -> usize) {
        let slot = &mut self.slots[conn as usize];
        let at = slot.output.len();
        slot.output.resize(at + 2 + room, 0);
        let len = compose(&mut slot.output[at + 2..]);
        assert!(len <= room, "a message of {len} bytes in a place of {room}");
        if len == 0 {
            slot.output.truncate(at);
            return;
        }
        let length = u16::try_from(len).expect("a message's length has 16 bits").to_be_bytes();
        slot.output[at..at + 2].copy_from_slice(&length);
        slot.output.truncate(at + 2 + len);
        slot.fresh = true;
        self.touch(conn);
    }

    /// Ends the connection `conn` when all ordered messages are written.
    pub fn close(&mut self, conn: ConnId) {
        self.slots[conn as usize].closing = true;
        self.touch(conn);
    }

    /// Ends the connection `conn` immediately, without writing the rest.
    pub fn abort(&mut self, conn: ConnId) {
        self.slots[conn as usize].aborted = true;
        self.touch(conn);
    }

    /// Returns the orders for `conn`, for an engine to carry out.
    #[inline]
    pub fn slot(&mut self, conn: ConnId) -> &mut Slot {
        &mut self.slots[conn as usize]
    }

    /// Calls `open` for each connection that must be opened, and wakes the tasks of the others with new
    /// orders, except that of `asking`. For an engine, after each call of [`StreamRole::orders`].
    pub fn hand_out(&mut self, asking: Option<ConnId>, mut open: impl FnMut(ConnId)) {
        let Orders { slots, opens, touched } = self;
        for conn in opens.drain(..) {
            slots[conn as usize].waker = None;
            open(conn);
        }
        for conn in touched.drain(..) {
            let slot = &mut slots[conn as usize];
            slot.touched = false;
            if Some(conn) != asking
                && let Some(waker) = &slot.waker
            {
                waker.wake_by_ref();
            }
        }
    }

    fn touch(&mut self, conn: ConnId) {
        let slot = &mut self.slots[conn as usize];
        if !slot.touched {
            slot.touched = true;
            self.touched.push(conn);
        }
    }
}

/// Returns the first message of `input` without its length, if it is complete.
#[inline]
pub fn first_message(input: &[u8]) -> Option<&[u8]> {
    let len = u16::from_be_bytes(*input.first_chunk()?);
    input.get(2..2 + usize::from(len))
}
