//! Batches: the datagrams that a role gets from an engine and gives to it.
//!
//! ```text
//! RxBatch   one arena; a frame per received message; a frame may hold many equal datagrams
//!           (UDP_GRO), which the iterator splits
//! TxBatch   one arena; datagrams are composed in place, one behind the other; consecutive ones to the
//!           same destination and of equal length become one segmented message (UDP_SEGMENT)
//! ```
//!
//! All memory is allocated when a batch is made; nothing is allocated afterwards.

use std::net::{IpAddr, SocketAddr};

use measure::Nanos;

/// Largest payload of a UDP datagram over IPv4, and so the largest message to the kernel, in bytes.
pub const MAX_MESSAGE: usize = 65_507;

/// Longest datagram that shares a message, in bytes: it fits the smallest MTU of IPv6 (1280 - 40 - 8). The
/// kernel refuses a segment that does not fit the MTU of the path.
pub const MAX_SEGMENT: usize = 1_232;

/// A socket of an engine, by its index in the engine's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SocketId(pub u16);

/// A received datagram, borrowed from its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received<'a> {
    /// The socket that received it.
    pub socket: SocketId,
    /// Source address and port of the datagram.
    pub peer: SocketAddr,
    /// Destination address, on sockets bound to a wildcard address.
    pub to: Option<IpAddr>,
    /// Time of arrival in the kernel, on the engine's clock; the time of the batch if there is no timestamp.
    pub at: Nanos,
    /// Payload of UDP, without headers.
    pub bytes: &'a [u8],
}

/// One received message: a datagram, or several of `segment` bytes each (the last may be shorter).
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// The socket that received it.
    pub socket: SocketId,
    /// Source address and port of all its datagrams.
    pub peer: SocketAddr,
    /// Destination address, on sockets bound to a wildcard address.
    pub to: Option<IpAddr>,
    /// Time of arrival, on the engine's clock.
    pub at: Nanos,
    /// Position of the message's first byte in the arena ([`RxBatch::slot`]).
    pub offset: usize,
    /// Total length of the message's datagrams, in bytes.
    pub len: usize,
    /// Length of each datagram of the message except the last, in bytes.
    pub segment: usize,
}

impl Frame {
    /// Returns the number of datagrams; an empty frame is one datagram.
    #[inline]
    pub fn count(&self) -> usize {
        if self.len <= self.segment { 1 } else { self.len.div_ceil(self.segment.max(1)) }
    }
}

/// Received datagrams: room for `slots` messages, taken once at the start.
#[derive(Debug)]
pub struct RxBatch {
    /// `slots` areas of `slot_len` bytes, `stride` bytes apart.
    arena: Vec<u8>,
    slot_len: usize,
    stride: usize,
    slots: usize,
    frames: Vec<Frame>,
    datagrams: usize,
}

impl RxBatch {
    /// Makes a batch for `slots` messages of at most `slot_len` bytes.
    pub fn new(slots: usize, slot_len: usize) -> Self {
        // Slots whose distance is a power of two fall into the same cache sets: a page and two cache lines
        // avoid that.
        let stride = slot_len.next_multiple_of(64) + 4_096 + 128;
        RxBatch {
            // The memory is zero pages: only the parts that receive data become resident.
            arena: vec![0; slots * stride],
            slot_len,
            stride,
            slots,
            frames: Vec::with_capacity(slots),
            datagrams: 0,
        }
    }

    /// Removes all datagrams but keeps the allocated memory.
    pub fn clear(&mut self) {
        self.frames.clear();
        self.datagrams = 0;
    }

    /// Returns the number of datagrams.
    pub fn len(&self) -> usize {
        self.datagrams
    }

    /// Returns whether no message was received.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Returns whether no slot is free.
    pub fn is_full(&self) -> bool {
        self.frames.len() == self.slots
    }

    /// Iterates over the datagrams, in the order of arrival per socket.
    pub fn iter(&self) -> impl Iterator<Item = Received<'_>> {
        self.frames.iter().flat_map(|f| {
            let whole = &self.arena[f.offset..f.offset + f.len];
            let received =
                move |bytes| Received { socket: f.socket, peer: f.peer, to: f.to, at: f.at, bytes };
            // An empty datagram counts; `chunks()` would skip it.
            let empty = whole.is_empty().then_some(whole);
            empty.into_iter().chain(whole.chunks(f.segment.max(1))).map(received)
        })
    }

    /// Returns the number of slots, filled and free.
    #[inline]
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Returns the number of filled slots.
    #[inline]
    pub fn filled(&self) -> usize {
        self.frames.len()
    }

    /// Returns the position of a slot in the arena.
    #[inline]
    pub fn slot(&self, index: usize) -> usize {
        index * self.stride
    }

    /// Returns the bytes of a slot, for an engine to receive into.
    #[inline]
    pub fn slot_mut(&mut self, index: usize) -> &mut [u8] {
        let offset = self.slot(index);
        &mut self.arena[offset..offset + self.slot_len]
    }

    /// Adds a frame whose bytes are already in the arena.
    #[inline]
    pub fn add(&mut self, frame: Frame) {
        debug_assert!(frame.offset + frame.len <= self.arena.len());
        self.datagrams += frame.count();
        self.frames.push(frame);
    }

    /// Copies one datagram into the batch, for engines without a kernel; returns whether there was room.
    pub fn put(&mut self, socket: SocketId, peer: SocketAddr, at: Nanos, bytes: &[u8]) -> bool {
        self.put_to(socket, peer, None, at, bytes)
    }

    /// Works as [`put`](Self::put), with the destination address.
    pub(crate) fn put_to(
        &mut self,
        socket: SocketId,
        peer: SocketAddr,
        to: Option<IpAddr>,
        at: Nanos,
        bytes: &[u8],
    ) -> bool {
        let slot = self.frames.len();
        if self.is_full() || bytes.len() > self.slot_len {
            return false;
        }
        let offset = self.slot(slot);
        self.arena[offset..offset + bytes.len()].copy_from_slice(bytes);
        self.add(Frame { socket, peer, to, at, offset, len: bytes.len(), segment: self.slot_len });
        true
    }
}

/// Destination of a datagram: a socket, and an address if the socket has no peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// The peer of a connected socket.
    Connected(SocketId),
    /// The address `peer`, through an unconnected socket, from address `from` if the socket is bound to a
    /// wildcard.
    Peer {
        /// The unconnected socket to send through.
        socket: SocketId,
        /// Address and port of the receiver.
        peer: SocketAddr,
        /// Source address (`Received::to` of the datagram that is answered).
        from: Option<IpAddr>,
    },
}

impl Destination {
    /// Returns the destination of a reply to `received`.
    pub fn reply_to(received: &Received<'_>) -> Self {
        Destination::Peer { socket: received.socket, peer: received.peer, from: received.to }
    }

    /// Returns the socket that sends.
    pub fn socket(&self) -> SocketId {
        match *self {
            Destination::Connected(socket) | Destination::Peer { socket, .. } => socket,
        }
    }
}

/// One message to the kernel: datagrams of `segment` bytes each; the last may be shorter.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// Destination of all datagrams of the message.
    pub to: Destination,
    offset: usize,
    /// Total length of the message's datagrams, in bytes.
    pub len: usize,
    /// Length of each datagram of the message except the last, in bytes.
    pub segment: usize,
    /// Number of datagrams in the message, at least 1.
    pub segments: usize,
}

/// Datagrams to send: a role fills it, an engine sends and clears it.
#[derive(Debug)]
pub struct TxBatch {
    arena: Vec<u8>,
    used: usize,
    messages: Vec<Message>,
    max_messages: usize,
    /// Highest number of datagrams in one message; 1 without segmentation offload.
    max_segments: usize,
    datagrams: usize,
}

impl TxBatch {
    /// Makes a batch for `max_messages` messages and `bytes` bytes in total, with at most `max_segments`
    /// datagrams in a message.
    pub fn new(max_messages: usize, bytes: usize, max_segments: usize) -> Self {
        TxBatch {
            arena: vec![0; bytes],
            used: 0,
            messages: Vec::with_capacity(max_messages),
            max_messages,
            max_segments: max_segments.max(1),
            datagrams: 0,
        }
    }

    /// Composes one datagram of at most `max_len` bytes in place: `fill` writes into the buffer and returns
    /// the length. Returns false without calling `fill` when the batch is full. A length of zero adds no
    /// datagram.
    pub fn push(
        &mut self,
        to: Destination,
        max_len: usize,
        fill: impl FnOnce(&mut [u8]) -> usize,
    ) -> bool {
        if self.is_full(max_len) {
            return false;
        }
        let offset = self.used;
        let len = fill(&mut self.arena[offset..offset + max_len]);
        assert!(len <= max_len, "a datagram of {len} bytes in a room of {max_len}");
        if len > 0 {
            self.used += len;
            self.datagrams += 1;
            self.append(to, offset, len);
        }
        true
    }

    /// Adds the datagram to the last message if the kernel allows it, otherwise starts a message.
    fn append(&mut self, to: Destination, offset: usize, len: usize) {
        if let Some(last) = self.messages.last_mut() {
            // Only the last segment may be shorter: a message with a shorter one is closed.
            let open = last.len == last.segment * last.segments;
            if open
                && len <= last.segment
                && last.segment <= MAX_SEGMENT
                && last.segments < self.max_segments
                && last.len + len <= MAX_MESSAGE
                && last.to == to
            {
                last.len += len;
                last.segments += 1;
                return;
            }
        }
        self.messages.push(Message { to, offset, len, segment: len, segments: 1 });
    }

    /// Returns whether there may be no room for a datagram of `len` bytes.
    pub fn is_full(&self, len: usize) -> bool {
        self.messages.len() == self.max_messages || self.used + len > self.arena.len()
    }

    /// Returns the number of datagrams.
    pub fn len(&self) -> usize {
        self.datagrams
    }

    /// Returns whether the batch has no datagram to send.
    pub fn is_empty(&self) -> bool {
        self.datagrams == 0
    }

    /// Removes all datagrams but keeps the allocated memory.
    pub fn clear(&mut self) {
        self.used = 0;
        self.datagrams = 0;
        self.messages.clear();
    }

    /// Returns the messages, for an engine to send.
    #[inline]
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Returns the bytes of a message of this batch.
    #[inline]
    pub fn bytes(&self, message: &Message) -> &[u8] {
        &self.arena[message.offset..message.offset + message.len]
    }

    /// Limits the number of datagrams in a message from now on (1 turns segmentation off).
    pub fn limit_segments(&mut self, max_segments: usize) {
        self.max_segments = max_segments.max(1);
    }

    /// Iterates over the datagrams with their destinations, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Destination, &[u8])> {
        self.messages.iter().flat_map(|m| {
            self.arena[m.offset..m.offset + m.len].chunks(m.segment).map(move |bytes| (m.to, bytes))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn peer(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    fn push(tx: &mut TxBatch, to: Destination, bytes: &[u8]) -> bool {
        tx.push(to, bytes.len(), |room| {
            room.copy_from_slice(bytes);
            bytes.len()
        })
    }

    #[test]
    fn consecutive_equal_datagrams_share_a_message() {
        let mut tx = TxBatch::new(8, 1_000, 4);
        let a = Destination::Connected(SocketId(0));
        let b = Destination::Peer { socket: SocketId(0), peer: peer(1), from: None };
        for (to, len) in [
            (a, 10),
            (a, 10),
            (a, 7),
            (a, 7),
            (b, 7),
            (b, 8),
            (a, 10),
            (a, 10),
            (a, 10),
            (a, 10),
            (a, 10),
        ] {
            assert!(push(&mut tx, to, &vec![1; len]));
        }
        let shape: Vec<_> = tx.messages.iter().map(|m| (m.len, m.segment, m.segments)).collect();
        assert_eq!(shape, [(27, 10, 3), (7, 7, 1), (7, 7, 1), (8, 8, 1), (40, 10, 4), (10, 10, 1)]);
        assert_eq!(tx.len(), 11);
    }

    #[test]
    fn a_full_batch_refuses_and_an_empty_datagram_is_not_added() {
        let mut tx = TxBatch::new(1, 25, 1);
        let to = Destination::Connected(SocketId(0));
        assert!(push(&mut tx, to, &[1; 10]));
        assert!(!push(&mut tx, to, &[1; 10]));
        tx.clear();
        assert!(tx.push(to, 10, |_| 0) && tx.is_empty());
    }

    proptest! {
        #[test]
        fn every_datagram_is_kept_unchanged(lens in prop::collection::vec((0u16..3, 1usize..40), 1..60), segments in 1usize..9) {
            let mut tx = TxBatch::new(64, 4_096, segments);
            let mut sent = Vec::new();
            for (i, (socket, len)) in lens.into_iter().enumerate() {
                let bytes = vec![i as u8; len];
                let to = Destination::Connected(SocketId(socket));
                prop_assert!(push(&mut tx, to, &bytes));
                sent.push((to, bytes));
            }
            let got: Vec<_> = tx.iter().map(|(to, bytes)| (to, bytes.to_vec())).collect();
            prop_assert_eq!(got, sent);
            prop_assert!(tx.messages.iter().all(|m| m.segments <= segments && m.len.div_ceil(m.segment) == m.segments));
        }

        #[test]
        fn frames_are_split_into_their_segments(len in 0usize..300, segment in 0usize..100) {
            let mut rx = RxBatch::new(2, 300);
            for i in 0..300 {
                rx.arena[i] = i as u8;
            }
            rx.add(Frame { socket: SocketId(0), peer: peer(1), to: None, at: Nanos(0), offset: 0, len, segment });
            let parts: Vec<&[u8]> = rx.iter().map(|r| r.bytes).collect();
            prop_assert_eq!(parts.len(), rx.len());
            prop_assert_eq!(parts.concat(), rx.arena[..len].to_vec());
            prop_assert!(parts.iter().rev().skip(1).all(|p| p.len() == segment.max(1)));
        }
    }
}
