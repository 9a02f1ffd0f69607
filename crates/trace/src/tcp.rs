//! TCP connections, and the DNS messages in them (RFC 7766): each behind its length in two octets.
//!
//! ```text
//! segments, in any order, twice, with gaps ──> in order ──> length | message | length | message ...
//! ```
//!
//! Everything is bounded: connections, and the bytes that wait for others. When a bound is reached, the half of the
//! connections that were silent longest are forgotten. Behind a gap that nothing fills, the first segment that
//! begins like a message is taken for the start of one.

use std::collections::HashMap;
use std::net::SocketAddr;

use measure::Nanos;
use wire::Header;

/// Connections remembered at most.
const MAX_CONNECTIONS: usize = 1 << 16;
/// Bytes that wait for others at most, over all connections.
const MAX_WAITING: usize = 256 << 20;
/// Segments behind a gap at most, of one direction.
const MAX_HELD: usize = 256;

/// A segment, as far as the stream is concerned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment<'a> {
    pub(crate) source: SocketAddr,
    pub(crate) destination: SocketAddr,
    pub(crate) sequence: u32,
    pub(crate) syn: bool,
    pub(crate) ack: bool,
    pub(crate) fin: bool,
    pub(crate) rst: bool,
    pub(crate) payload: &'a [u8],
}

/// What was counted of TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpCounts {
    /// Packets.
    pub packets: u64,
    /// Connections.
    pub sessions: u64,
    /// Connections that ended with FIN or RST.
    pub closed: u64,
    /// Gaps that nothing filled.
    pub gaps: u64,
}

/// The connections.
#[derive(Default)]
pub(crate) struct Streams {
    connections: HashMap<(SocketAddr, SocketAddr), Connection>,
    /// Bytes that wait for others.
    waiting: usize,
    pub(crate) counts: TcpCounts,
}

/// One connection.
#[derive(Default)]
struct Connection {
    /// The sequence number of the SYN.
    opened: Option<u32>,
    closed: bool,
    last: Nanos,
    /// From the smaller end to the larger one, and back.
    directions: [Direction; 2],
}

/// One direction of a connection.
#[derive(Default)]
struct Direction {
    /// The sequence number of the next byte; unknown before the first segment.
    next: Option<u32>,
    /// Whether the bytes at `next` begin a message for certain.
    aligned: bool,
    /// The beginning of a message.
    partial: Vec<u8>,
    /// Segments behind a gap.
    held: Vec<(u32, Vec<u8>)>,
}

impl Streams {
    /// Takes a segment; `each` is called with every message that is now whole, and the sequence number it starts at.
    pub(crate) fn add(
        &mut self,
        segment: &Segment<'_>,
        at: Nanos,
        mut each: impl FnMut(u32, &[u8]),
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
        let opens = segment.syn && !segment.ack;
        if opens && connection.is_over(segment.sequence) {
            counts.sessions += 1;
            self.waiting -= connection.directions.iter().map(Direction::waiting).sum::<usize>();
            *connection = Connection::default();
        }
        if opens {
            connection.opened = Some(segment.sequence);
        }
        connection.last = at;
        let direction = &mut connection.directions[usize::from(!forward)];
        let before = direction.waiting();
        direction.add(segment, &mut counts.gaps, &mut each);
        if segment.fin || segment.rst {
            direction.skip_gaps(&mut counts.gaps, &mut each);
            counts.closed += u64::from(!connection.closed);
            connection.closed = true;
        }
        let after = connection.directions[usize::from(!forward)].waiting();
        self.waiting = self.waiting + after - before;
    }

    /// Gives out what waits behind gaps at the end of the capture.
    pub(crate) fn finish(
        &mut self,
        mut each: impl FnMut(Nanos, SocketAddr, SocketAddr, u32, &[u8]),
    ) {
        let mut connections: Vec<_> = self.connections.drain().collect();
        connections.sort_unstable_by_key(|(key, connection)| (connection.last, *key));
        for ((low, high), mut connection) in connections {
            for (index, direction) in connection.directions.iter_mut().enumerate() {
                let (from, to) = if index == 0 { (low, high) } else { (high, low) };
                direction.skip_gaps(&mut self.counts.gaps, &mut |sequence, message: &[u8]| {
                    each(connection.last, from, to, sequence, message);
                });
            }
        }
        self.waiting = 0;
    }

    /// Forgets the half that was silent longest, if a bound is reached.
    fn make_room(&mut self) {
        if self.connections.len() < MAX_CONNECTIONS && self.waiting < MAX_WAITING {
            return;
        }
        let mut times: Vec<Nanos> = self.connections.values().map(|c| c.last).collect();
        let middle = times.len() / 2;
        let (_, &mut median, _) = times.select_nth_unstable(middle);
        self.connections.retain(|_, connection| connection.last > median);
        let directions = self.connections.values().flat_map(|c| &c.directions);
        self.waiting = directions.map(Direction::waiting).sum();
    }
}

impl Connection {
    /// Whether a SYN with this sequence number opens another connection between the same ends.
    fn is_over(&self, sequence: u32) -> bool {
        self.opened
            .map_or(self.closed || self.directions.iter().any(|d| d.next.is_some()), |opened| {
                opened != sequence
            })
    }
}

impl Direction {
    /// Bytes that wait for others.
    fn waiting(&self) -> usize {
        self.partial.len() + self.held.iter().map(|(_, bytes)| bytes.len()).sum::<usize>()
    }

    /// Takes a segment.
    fn add(&mut self, segment: &Segment<'_>, gaps: &mut u64, each: &mut impl FnMut(u32, &[u8])) {
        let start = segment.sequence.wrapping_add(u32::from(segment.syn));
        if segment.syn && self.next.is_none() {
            (self.next, self.aligned) = (Some(start), true);
        }
        if segment.payload.is_empty() {
            return;
        }
        let next = *self.next.get_or_insert(start);
        if (start.wrapping_sub(next) as i32) > 0 {
            self.held.push((start, segment.payload.to_vec()));
            if self.held.len() > MAX_HELD {
                self.skip_gap(gaps, each);
            }
            return;
        }
        self.in_order(start, segment.payload, each);
        self.release(each);
    }

    /// Takes bytes that start at or before the next one.
    fn in_order(&mut self, start: u32, payload: &[u8], each: &mut impl FnMut(u32, &[u8])) {
        let next = self.next.unwrap_or(start);
        let known = next.wrapping_sub(start) as usize;
        let Some(mut fresh) = payload.get(known..).filter(|fresh| !fresh.is_empty()) else {
            return;
        };
        let mut at = next;
        self.next = Some(next.wrapping_add(fresh.len() as u32));
        if !self.aligned {
            if !begins_message(fresh) {
                return;
            }
            self.aligned = true;
        }
        if !self.partial.is_empty() {
            let begun = at.wrapping_sub(self.partial.len() as u32);
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
            each(begun, &self.partial[2..]);
            at = begun.wrapping_add(whole as u32);
            self.partial.clear();
        }
        while let Some(whole) = framed_len(fresh)
            && let Some((message, rest)) = fresh.split_at_checked(whole)
        {
            each(at, &message[2..]);
            at = at.wrapping_add(whole as u32);
            fresh = rest;
        }
        self.partial.extend_from_slice(fresh);
    }

    /// Takes the held segments that are no longer behind a gap.
    fn release(&mut self, each: &mut impl FnMut(u32, &[u8])) {
        while let Some(next) = self.next
            && let Some(found) =
                self.held.iter().position(|(start, _)| start.wrapping_sub(next) as i32 <= 0)
        {
            let (start, payload) = self.held.swap_remove(found);
            self.in_order(start, &payload, each);
        }
    }

    /// Goes on behind the first gap.
    fn skip_gap(&mut self, gaps: &mut u64, each: &mut impl FnMut(u32, &[u8])) {
        let Some(next) = self.next else { return };
        let Some(first) =
            self.held.iter().map(|(start, _)| *start).min_by_key(|start| start.wrapping_sub(next))
        else {
            return;
        };
        *gaps += 1;
        self.partial.clear();
        (self.next, self.aligned) = (Some(first), false);
        self.release(each);
    }

    /// Goes on behind all gaps.
    fn skip_gaps(&mut self, gaps: &mut u64, each: &mut impl FnMut(u32, &[u8])) {
        while !self.held.is_empty() {
            self.skip_gap(gaps, each);
        }
    }
}

/// How many bytes the message at the start of `bytes` takes with its length, if that is there.
fn framed_len(bytes: &[u8]) -> Option<usize> {
    let &[high, low] = bytes.first_chunk()?;
    Some(2 + usize::from(u16::from_be_bytes([high, low])))
}

/// Whether bytes in the middle of a stream look like the start of a message.
fn begins_message(bytes: &[u8]) -> bool {
    let (Some(len), Some(header)) = (framed_len(bytes), bytes.get(2..).and_then(Header::read))
    else {
        return false;
    };
    len >= 14 && header.opcode().0 <= 6 && header.counts[0] <= 1 && header.flags & 0x40 == 0
}
