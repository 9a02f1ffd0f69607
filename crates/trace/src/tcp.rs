//! Reassembly of TCP streams into DNS messages (RFC 7766), each after a length field of two octets.
//!
//! ```text
//! segments, in any order, twice, with gaps ──> in order ──> length | message | length | message ...
//! ```
//!
//! Connections and buffered bytes are bounded. At a bound, the half of the connections with the oldest last segment is
//! dropped. After a gap that is never filled, the first segment that looks like the start of a message counts as one.
//! Octets that the receiver acknowledges are missing in the capture alone, and are not sent again.
//! Messages after a gap that is never filled have the times of their own segments. Many clients
//! send the length field in a segment of its own.

use std::collections::HashMap;
use std::net::SocketAddr;

use measure::Nanos;
use wire::{Header, proxy};

/// Largest number of connections followed at a time.
const MAX_CONNECTIONS: usize = 1 << 16;
/// Largest number of buffered bytes, over all connections.
const MAX_BUFFERED: usize = 256 << 20;
/// Largest number of segments after a gap, for one direction.
const MAX_HELD: usize = 256;
/// Longest time for which segments wait for missing earlier ones.
const MAX_GAP: Nanos = Nanos::from_secs(1);

/// The fields of a segment that reassembly needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment<'a> {
    pub(crate) source: SocketAddr,
    pub(crate) destination: SocketAddr,
    pub(crate) sequence: u32,
    pub(crate) syn: bool,
    /// The acknowledged sequence number, if any.
    pub(crate) acknowledged: Option<u32>,
    pub(crate) fin: bool,
    pub(crate) rst: bool,
    pub(crate) payload: &'a [u8],
}

/// Counts of TCP to and from the DNS ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TcpCounts {
    pub(crate) packets: u64,
    /// Number of connections that were seen.
    pub(crate) sessions: u64,
    /// Number of connections that ended with FIN or RST.
    pub(crate) closed: u64,
    /// Number of gaps that were never filled.
    pub(crate) gaps: u64,
}

/// The state of all connections.
#[derive(Default)]
pub(crate) struct Streams {
    connections: HashMap<(SocketAddr, SocketAddr), Connection>,
    /// Number of buffered bytes of all connections.
    buffered: usize,
    pub(crate) counts: TcpCounts,
}

/// A connection, with the streams of both directions.
#[derive(Default)]
struct Connection {
    /// The sequence number of the SYN.
    opened: Option<u32>,
    closed: bool,
    last: Nanos,
    /// The direction from the smaller address to the larger one, and the opposite one.
    directions: [TcpDirection; 2],
}

/// One direction of a connection.
#[derive(Default)]
struct TcpDirection {
    /// The sequence number of the next byte; `None` before the first segment.
    next: Option<u32>,
    /// Whether the boundaries of messages up to `next` are known.
    aligned: bool,
    /// The first octets of an incomplete message.
    partial: Vec<u8>,
    /// Segments after a gap, with their sequence numbers and times.
    held: Vec<(u32, Nanos, Vec<u8>)>,
    /// Client that a PROXY header in the stream names.
    client: Option<SocketAddr>,
}

/// Callback for messages: their times, the client that a PROXY header in their stream names, and
/// their sequence numbers.
trait Visit: FnMut(Nanos, Option<SocketAddr>, u32, &[u8]) {}

impl<F: FnMut(Nanos, Option<SocketAddr>, u32, &[u8])> Visit for F {}

impl Streams {
    /// Adds a segment; calls `visit` with the time, the sender and the receiver of each message
    /// that this segment completes, and its sequence number. A client that a PROXY header names
    /// takes the place of the proxy.
    pub(crate) fn add(
        &mut self,
        segment: &Segment<'_>,
        at: Nanos,
        mut visit: impl FnMut(Nanos, SocketAddr, SocketAddr, u32, &[u8]),
    ) {
        self.counts.packets += 1;
        self.make_room();
        let (source, destination) = (segment.source, segment.destination);
        let forward = source <= destination;
        let key = if forward { (source, destination) } else { (destination, source) };
        if segment.rst && !self.connections.contains_key(&key) {
            return;
        }
        let counts = &mut self.counts;
        let connection = self.connections.entry(key).or_insert_with(|| {
            counts.sessions += 1;
            Connection::default()
        });
        let opens = segment.syn && segment.acknowledged.is_none();
        if opens && connection.is_over(segment.sequence) {
            counts.sessions += 1;
            self.buffered -= connection.buffered();
            *connection = Connection::default();
        }
        if opens {
            connection.opened = Some(segment.sequence);
        }
        connection.last = at;
        let before = connection.buffered();
        let receiver = connection.directions[usize::from(forward)].client.unwrap_or(destination);
        let sender = connection.directions[usize::from(!forward)].client.unwrap_or(source);
        if let Some(number) = segment.acknowledged {
            let mut visit = |at, from: Option<SocketAddr>, sequence, message: &[u8]| {
                visit(at, from.unwrap_or(destination), sender, sequence, message);
            };
            let opposite = &mut connection.directions[usize::from(forward)];
            opposite.acknowledged(number, &mut counts.gaps, &mut visit);
        }
        let mut visit = |at, from: Option<SocketAddr>, sequence, message: &[u8]| {
            visit(at, from.unwrap_or(source), receiver, sequence, message);
        };
        let direction = &mut connection.directions[usize::from(!forward)];
        direction.add(segment, at, &mut counts.gaps, &mut visit);
        if segment.fin || segment.rst {
            direction.skip_gaps(&mut counts.gaps, &mut visit);
            counts.closed += u64::from(!connection.closed);
            connection.closed = true;
        }
        self.buffered = self.buffered + connection.buffered() - before;
    }

    /// Calls `visit` with the messages after gaps, at the end of the capture.
    pub(crate) fn finish(
        &mut self,
        mut visit: impl FnMut(Nanos, SocketAddr, SocketAddr, u32, &[u8]),
    ) {
        let mut connections: Vec<_> = self.connections.drain().collect();
        connections.sort_unstable_by_key(|(key, connection)| (connection.last, *key));
        for ((low, high), mut connection) in connections {
            for index in [0, 1] {
                let (from, to) = if index == 0 { (low, high) } else { (high, low) };
                let to = connection.directions[1 - index].client.unwrap_or(to);
                let mut visit = |at, from_client: Option<SocketAddr>, sequence, message: &[u8]| {
                    visit(at, from_client.unwrap_or(from), to, sequence, message);
                };
                connection.directions[index].skip_gaps(&mut self.counts.gaps, &mut visit);
            }
        }
        self.buffered = 0;
    }

    /// At a bound, drops the half of the connections with the oldest last segment.
    fn make_room(&mut self) {
        if self.connections.len() < MAX_CONNECTIONS && self.buffered < MAX_BUFFERED {
            return;
        }
        let mut times: Vec<Nanos> = self.connections.values().map(|c| c.last).collect();
        let middle = times.len() / 2;
        let (_, &mut median, _) = times.select_nth_unstable(middle);
        self.connections.retain(|_, connection| connection.last > median);
        self.buffered = self.connections.values().map(Connection::buffered).sum();
    }
}

impl Connection {
    /// Returns the number of buffered bytes of both directions.
    fn buffered(&self) -> usize {
        self.directions.iter().map(TcpDirection::buffered).sum()
    }

    /// Returns whether a SYN with this sequence number opens a new connection between the same addresses and ports.
    fn is_over(&self, sequence: u32) -> bool {
        self.opened
            .map_or(self.closed || self.directions.iter().any(|d| d.next.is_some()), |opened| {
                opened != sequence
            })
    }
}

impl TcpDirection {
    /// Returns the number of buffered bytes.
    fn buffered(&self) -> usize {
        self.partial.len() + self.held.iter().map(|(.., bytes)| bytes.len()).sum::<usize>()
    }

    /// Adds a segment, and passes the messages that it completes to `visit`.
    fn add(&mut self, segment: &Segment<'_>, at: Nanos, gaps: &mut u64, visit: &mut impl Visit) {
        let start = segment.sequence.wrapping_add(u32::from(segment.syn));
        if segment.syn && self.next.is_none() {
            (self.next, self.aligned) = (Some(start), true);
        }
        if segment.payload.is_empty() {
            return;
        }
        let next = *self.next.get_or_insert(start);
        if (start.wrapping_sub(next) as i32) > 0 {
            self.held.push((start, at, segment.payload.to_vec()));
            let waits = self.held.iter().any(|(_, since, _)| at.since(*since) > MAX_GAP);
            if waits || self.held.len() > MAX_HELD {
                self.skip_gap(gaps, visit);
            }
            return;
        }
        self.in_order(start, segment.payload, at, visit);
        self.release(at, visit);
    }

    /// Continues after the gaps before `number`, up to which the receiver has all octets.
    fn acknowledged(&mut self, number: u32, gaps: &mut u64, visit: &mut impl Visit) {
        while self.held.iter().any(|(start, ..)| (number.wrapping_sub(*start) as i32) > 0) {
            self.skip_gap(gaps, visit);
        }
    }

    /// Handles bytes that start at or before the next sequence number, and were complete up to
    /// their end at `time`.
    fn in_order(&mut self, start: u32, payload: &[u8], time: Nanos, visit: &mut impl Visit) {
        let next = self.next.unwrap_or(start);
        let known = next.wrapping_sub(start) as usize;
        let Some(mut fresh) = payload.get(known..).filter(|fresh| !fresh.is_empty()) else {
            return;
        };
        let mut at = next;
        self.next = Some(next.wrapping_add(fresh.len() as u32));
        if !self.aligned && !self.align(fresh) {
            return;
        }
        if !self.partial.is_empty() {
            let message_start = at.wrapping_sub(self.partial.len() as u32);
            while self.partial.len() < 2 && !fresh.is_empty() {
                self.partial.push(fresh[0]);
                fresh = &fresh[1..];
            }
            let Some(whole) = framed_len(&self.partial) else { return };
            let missing = whole.saturating_sub(self.partial.len()).min(fresh.len());
            self.partial.extend_from_slice(&fresh[..missing]);
            fresh = &fresh[missing..];
            if self.partial.len() < whole {
                return;
            }
            visit(time, self.client, message_start, &self.partial[2..]);
            at = message_start.wrapping_add(whole as u32);
            self.partial.clear();
        }
        if let Ok(header) = proxy::read(fresh) {
            (self.client, fresh) = (header.client.or(self.client), &fresh[header.len..]);
            at = at.wrapping_add(header.len as u32);
        }
        while let Some(whole) = framed_len(fresh)
            && let Some((message, rest)) = fresh.split_at_checked(whole)
        {
            visit(time, self.client, at, &message[2..]);
            at = at.wrapping_add(whole as u32);
            fresh = rest;
        }
        self.partial.extend_from_slice(fresh);
    }

    /// Looks for the start of a message: in a segment, or in a length field in a segment of its own
    /// and the next segment.
    fn align(&mut self, fresh: &[u8]) -> bool {
        if !begins_message(&[&self.partial[..], fresh].concat()) {
            self.partial.clear();
            if !begins_message(fresh) {
                self.partial.extend_from_slice(if fresh.len() == 2 { fresh } else { &[] });
                return false;
            }
        }
        self.aligned = true;
        true
    }

    /// Handles the held segments whose gap is closed, which was filled at `time`.
    fn release(&mut self, mut time: Nanos, visit: &mut impl Visit) {
        while let Some(next) = self.next
            && let Some(found) =
                self.held.iter().position(|(start, ..)| start.wrapping_sub(next) as i32 <= 0)
        {
            let (start, at, payload) = self.held.swap_remove(found);
            time = time.max(at);
            self.in_order(start, &payload, time, visit);
        }
    }

    /// Continues after the first gap.
    fn skip_gap(&mut self, gaps: &mut u64, visit: &mut impl Visit) {
        let Some(next) = self.next else { return };
        let Some(first) =
            self.held.iter().map(|(start, ..)| *start).min_by_key(|start| start.wrapping_sub(next))
        else {
            return;
        };
        *gaps += 1;
        self.partial.clear();
        (self.next, self.aligned) = (Some(first), false);
        self.release(Nanos::ZERO, visit);
    }

    /// Gives up all gaps, and passes the messages after them to `visit`.
    fn skip_gaps(&mut self, gaps: &mut u64, visit: &mut impl Visit) {
        while !self.held.is_empty() {
            self.skip_gap(gaps, visit);
        }
    }
}

/// Returns the size of the message at the start of `bytes` with its length field, in octets; `None` if the length field
/// is incomplete.
fn framed_len(bytes: &[u8]) -> Option<usize> {
    let &[high, low] = bytes.first_chunk()?;
    Some(2 + usize::from(u16::from_be_bytes([high, low])))
}

/// Returns whether bytes in the middle of a stream look like the start of a message.
fn begins_message(bytes: &[u8]) -> bool {
    let (Some(len), Some(header)) = (framed_len(bytes), bytes.get(2..).and_then(Header::read))
    else {
        return false;
    };
    len >= 14 && header.opcode().0 <= 6 && header.counts[0] <= 1 && header.flags & 0x40 == 0
}
