//! The role of connections: a state machine that decides which connection opens, what it sends, and when it closes.
//!
//! ```text
//!   StreamRole (a state machine)
//!     ^ opened, message, closed  | Orders
//!     |                          v
//!   an engine of streams               sockets, TLS, HTTP, QUIC: elsewhere
//! ```
//!
//! As with [`crate::Role`], the role reads no clock and opens no socket. Knows no DNS but for this: the
//! first two bytes of a message are its tag, by which a reply is told from others of its connection.

mod failure;

pub use failure::Failure;

use std::task::Waker;

use measure::Nanos;

use crate::drive::Next;

/// A place for a connection, counted from 0; it may be opened again when its connection has ended.
pub type ConnId = u32;

/// How a connection came to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// Until the peer's kernel had taken the connection; 0 where that is not apart (QUIC).
    pub connect: Nanos,
    /// Until messages could be sent, `connect` included.
    pub handshake: Nanos,
    /// Whether an earlier session was resumed.
    pub resumed: bool,
    /// Whether the peer took data that was sent before the handshake was done.
    pub early_data: bool,
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The role wanted it.
    Ordered,
    /// The peer closed it in an orderly way.
    ByPeer,
    /// Something went wrong.
    Failed(Failure),
}

/// What a client does with connections.
pub trait StreamRole {
    /// A connection is up; what was ordered for it leaves now.
    fn opened(&mut self, now: Nanos, conn: ConnId, how: Opened);
    /// A message came.
    fn message(&mut self, now: Nanos, conn: ConnId, message: &[u8]);
    /// A connection has ended, or has not come to be. Its place is free.
    fn closed(&mut self, now: Nanos, conn: ConnId, end: End);
    /// Says what is to be done. Called when something happened and when its time has come.
    fn orders(&mut self, now: Nanos, orders: &mut Orders) -> Next;
    /// The clock just before all messages ordered for `conn` so far go to the kernel.
    fn sent(&mut self, at: Nanos, conn: ConnId);
}

/// Which connections are of which kind, where there are several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mix {
    /// The kinds of connections 0, 1, 2 and so on, again and again.
    turns: Vec<u8>,
}

impl Mix {
    /// A mix of kinds in these proportions, evenly interleaved; `None` when one is 0, their sum above 1,000, or there
    /// is none.
    pub fn new(shares: &[u32]) -> Option<Self> {
        let all: u32 = shares.iter().try_fold(0u32, |sum, &share| sum.checked_add(share))?;
        if shares.contains(&0) || all == 0 || all > 1_000 || shares.len() > 256 {
            return None;
        }
        let mut given = vec![0u32; shares.len()];
        // The next one is of the kind that is furthest behind its share.
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

    /// All of one kind.
    pub fn one() -> Self {
        Mix { turns: vec![0] }
    }

    /// The kind of a connection.
    #[inline]
    pub fn kind(&self, conn: ConnId) -> usize {
        usize::from(self.turns[conn as usize % self.turns.len()])
    }

    /// How many kinds there are.
    pub fn kinds(&self) -> usize {
        self.turns.iter().copied().max().map_or(1, |most| usize::from(most) + 1)
    }
}

/// What a role wants done, gathered.
#[derive(Debug)]
pub struct Orders {
    slots: Vec<Slot>,
    opens: Vec<ConnId>,
    /// Connections with something new to do.
    touched: Vec<ConnId>,
}

/// What is ordered for the connection in one place.
#[derive(Debug, Default)]
pub struct Slot {
    /// Messages to be written, each behind its length.
    pub output: Vec<u8>,
    /// Whether messages were added that the role was not told to be sent.
    pub fresh: bool,
    /// It ends when all is written.
    pub closing: bool,
    /// It ends at once.
    pub aborted: bool,
    touched: bool,
    /// Wakes the connection's task.
    pub waker: Option<Waker>,
}

impl Orders {
    /// No orders, and places for so many connections.
    pub fn new(connections: usize) -> Self {
        let slots = (0..connections).map(|_| Slot::default()).collect();
        Orders { slots, opens: Vec::new(), touched: Vec::new() }
    }

    /// How many connections there may be.
    pub fn connections(&self) -> usize {
        self.slots.len()
    }

    /// Opens the connection `conn`, whose place must be free. Messages may be ordered at once.
    pub fn open(&mut self, conn: ConnId) {
        let slot = &mut self.slots[conn as usize];
        (slot.fresh, slot.closing, slot.aborted) = (false, false, false);
        slot.output.clear();
        self.opens.push(conn);
    }

    /// Sends a message on `conn`: `compose` fills a place of `room` bytes and says how many it used; 0
    /// takes the order back.
    ///
    /// # Panics
    /// When `compose` says more than `room`, or that is more than a length of 16 bits.
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

    /// Ends the connection `conn` when what was ordered is written.
    pub fn close(&mut self, conn: ConnId) {
        self.slots[conn as usize].closing = true;
        self.touch(conn);
    }

    /// Ends the connection `conn` at once, whatever is yet to be written.
    pub fn abort(&mut self, conn: ConnId) {
        self.slots[conn as usize].aborted = true;
        self.touch(conn);
    }

    /// What is ordered for `conn`, for an engine to carry out.
    #[inline]
    pub fn slot(&mut self, conn: ConnId) -> &mut Slot {
        &mut self.slots[conn as usize]
    }

    /// Calls `open` for each connection that is to be opened, and wakes the tasks of the others that have something
    /// new to do, but for that of `asking`. For an engine, after each call of [`StreamRole::orders`].
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

/// The first message of `input`, without its length, when all of it is there.
#[inline]
pub fn first_message(input: &[u8]) -> Option<&[u8]> {
    let len = u16::from_be_bytes(*input.first_chunk()?);
    input.get(2..2 + usize::from(len))
}
