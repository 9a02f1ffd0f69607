//! Reassembly of IP fragments.
//!
//! At most [`MAX_PACKETS`] packets are incomplete at once, each for at most [`MAX_WAIT`]; the oldest ones are dropped.
//! A packet has at most 65,535 bytes, so all of them take at most 64 MiB.

use std::collections::{HashMap, VecDeque};

use measure::Nanos;

use crate::packet::{Ends, Fragment};
use crate::pairs::Clock;

/// Largest number of incomplete packets.
const MAX_PACKETS: usize = 1_024;
/// Largest number of fragments of a packet; 64 KiB in fragments of the smallest MTU are fewer.
const MAX_PARTS: usize = 256;
/// Largest time between the first and the last fragment (RFC 8200 section 4.5).
pub(crate) const MAX_WAIT: Nanos = Nanos::from_secs(60);

/// Packets of which some fragments have arrived.
#[derive(Default)]
pub(crate) struct Fragments {
    packets: HashMap<Key, PartialPacket>,
    clock: Clock,
    /// Packets in the order of their first fragments; may contain complete packets.
    order: VecDeque<(Key, Nanos)>,
    /// Number of packets that were dropped incomplete.
    pub(crate) abandoned: u64,
    /// The beginnings of dropped packets that were not returned yet; at most one for each fragment
    /// that is added.
    beginnings: VecDeque<PacketBeginning>,
}

/// A packet whose other fragments did not arrive: its octets up to the first gap.
pub(crate) struct PacketBeginning {
    pub(crate) ends: Ends,
    pub(crate) joined: JoinedPacket,
    /// The number of the frame of the first fragment seen, and its time.
    pub(crate) frame: u64,
    pub(crate) at: Nanos,
}

/// The fields that all fragments of a packet share: addresses, id, protocol.
type Key = (Ends, u32, u8);

/// A packet of which fragments are missing.
struct PartialPacket {
    since: Nanos,
    frame: u64,
    bytes: Vec<u8>,
    /// Start and end offset of each fragment.
    parts: Vec<(usize, usize)>,
    /// Length of the packet in bytes, known after its last fragment.
    len: Option<usize>,
    cut: bool,
}

/// A packet that was joined from its fragments.
pub(crate) struct JoinedPacket {
    pub(crate) protocol: u8,
    pub(crate) payload: Vec<u8>,
    pub(crate) cut: bool,
}

impl Fragments {
    /// Adds a fragment; returns the packet if it is now complete.
    pub(crate) fn add(
        &mut self,
        ends: Ends,
        part: &Fragment<'_>,
        frame: u64,
        at: Nanos,
    ) -> Option<JoinedPacket> {
        self.make_room();
        let key = (ends, part.id, part.protocol);
        let partial = self.packets.entry(key).or_insert_with(|| {
            self.order.push_back((key, at));
            let (bytes, parts) = (Vec::new(), Vec::new());
            PartialPacket { since: at, frame, bytes, parts, len: None, cut: false }
        });
        if !partial.add(part) {
            self.abandon(&key);
            return None;
        }
        if !partial.is_whole() {
            return None;
        }
        let done = self.packets.remove(&key)?;
        Some(JoinedPacket { protocol: part.protocol, payload: done.bytes, cut: done.cut })
    }

    /// Returns the number of packets that are incomplete or were dropped.
    pub(crate) fn unfinished(&self) -> u64 {
        self.abandoned + self.packets.len() as u64
    }

    /// Returns whether packets may be incomplete.
    #[inline]
    pub(crate) fn are_waiting(&self) -> bool {
        !self.order.is_empty()
    }

    /// Drops packets that are too old after a frame of the time `at`.
    pub(crate) fn expire(&mut self, at: Nanos) {
        self.clock.tick(at);
        self.make_room();
    }

    /// Drops packets that are too old, and the oldest if there are too many.
    fn make_room(&mut self) {
        while let Some(&(key, since)) = self.order.front() {
            let full = self.order.len() >= MAX_PACKETS;
            if !full && !self.clock.is_over(since, MAX_WAIT) {
                return;
            }
            self.order.pop_front();
            if self.packets.get(&key).is_some_and(|packet| packet.since == since) {
                self.abandon(&key);
            }
        }
    }

    /// Drops an incomplete packet, and keeps its beginning.
    fn abandon(&mut self, key: &Key) {
        let Some(packet) = self.packets.remove(key) else { return };
        self.abandoned += 1;
        let (ends, _, protocol) = *key;
        let (frame, at) = (packet.frame, packet.since);
        if let Some(payload) = packet.beginning() {
            let joined = JoinedPacket { protocol, payload, cut: true };
            self.beginnings.push_back(PacketBeginning { ends, joined, frame, at });
        }
    }

    /// Returns the beginning of a packet that was dropped; `None` if there is no other.
    pub(crate) fn next_beginning(&mut self) -> Option<PacketBeginning> {
        self.beginnings.pop_front()
    }

    /// Drops all packets, at the end of the capture.
    pub(crate) fn finish(&mut self) {
        while let Some((key, since)) = self.order.pop_front() {
            if self.packets.get(&key).is_some_and(|packet| packet.since == since) {
                self.abandon(&key);
            }
        }
    }
}

impl PartialPacket {
    /// Adds a fragment; returns whether it is consistent with the others.
    fn add(&mut self, part: &Fragment<'_>) -> bool {
        let end = part.offset + part.payload.len();
        let beyond = self.len.is_some_and(|len| end > len || !part.more && end != len);
        if end > usize::from(u16::MAX) || beyond || self.parts.len() == MAX_PARTS {
            return false;
        }
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[part.offset..end].copy_from_slice(part.payload);
        if !part.more {
            self.len = Some(end);
            // An earlier fragment beyond the end contradicts this one.
            if self.bytes.len() > end {
                return false;
            }
        }
        self.cut |= part.cut;
        self.parts.push((part.offset, end));
        true
    }

    /// Returns whether the packet is complete, without gaps.
    fn is_whole(&mut self) -> bool {
        self.len.is_some_and(|len| self.reached() >= len)
    }

    /// Returns the number of octets before the first gap.
    fn reached(&mut self) -> usize {
        self.parts.sort_unstable();
        let mut reached = 0;
        for &(start, end) in &self.parts {
            if start > reached {
                break;
            }
            reached = reached.max(end);
        }
        reached
    }

    /// Returns the octets before the first gap; `None` if the first fragment is missing.
    fn beginning(mut self) -> Option<Vec<u8>> {
        let reached = self.reached();
        self.bytes.truncate(reached);
        (reached > 0).then_some(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends() -> Ends {
        Ends { source: [192, 0, 2, 1].into(), destination: [192, 0, 2, 2].into() }
    }

    fn part(id: u32, offset: usize, more: bool, payload: &[u8]) -> Fragment<'_> {
        Fragment { id, protocol: 17, offset, more, payload, cut: false }
    }

    #[test]
    fn fragments_in_any_order_are_joined() {
        let parts = [(0, true, &b"01234567"[..]), (8, true, b"89abcdef"), (16, false, b"end")];
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [1, 0, 2]] {
            let mut fragments = Fragments::default();
            let mut done = None;
            for i in order {
                assert!(done.is_none());
                let (offset, more, payload) = parts[i];
                done = fragments.add(ends(), &part(1, offset, more, payload), 0, Nanos::ZERO);
                // A repeated fragment changes nothing.
                if done.is_none() {
                    let again =
                        fragments.add(ends(), &part(1, offset, more, payload), 0, Nanos::ZERO);
                    assert!(again.is_none());
                }
            }
            assert_eq!(done.expect("a whole packet").payload, b"0123456789abcdefend");
            assert_eq!(fragments.unfinished(), 0);
        }
    }

    #[test]
    fn old_incomplete_packets_are_dropped() {
        let mut fragments = Fragments::default();
        for id in 0..5_000 {
            let done = fragments.add(ends(), &part(id, 0, true, b"01234567"), 0, Nanos::ZERO);
            assert!(done.is_none());
        }
        assert!(fragments.packets.len() <= MAX_PACKETS && fragments.order.len() <= MAX_PACKETS);
        assert_eq!(fragments.unfinished(), 5_000);
        let late = MAX_WAIT + Nanos::from_secs(1);
        // One packet with a wrong time is no reason.
        fragments.expire(late);
        fragments.expire(Nanos::ZERO);
        assert!(fragments.packets.len() > 1_000);
        fragments.expire(late);
        fragments.expire(late);
        assert_eq!(fragments.packets.len(), 0);
    }

    #[test]
    fn beginnings_of_dropped_packets_are_kept() {
        let mut fragments = Fragments::default();
        let parts = [(1, 0, &b"01234567"[..]), (1, 16, b"89abcdef"), (2, 8, b"89abcdef")];
        for (frame, (id, offset, payload)) in (1..).zip(parts) {
            let part = part(id, offset, true, payload);
            assert!(fragments.add(ends(), &part, frame, Nanos::ZERO).is_none());
        }
        assert!(fragments.next_beginning().is_none());
        fragments.finish();
        let beginning = fragments.next_beginning().expect("the first fragment of packet 1");
        assert_eq!((beginning.frame, &beginning.joined.payload[..]), (1, &b"01234567"[..]));
        assert!(beginning.joined.cut && fragments.next_beginning().is_none());
        assert_eq!(fragments.unfinished(), 2);
    }

    #[test]
    fn contradicting_fragments_are_refused() {
        let mut fragments = Fragments::default();
        assert!(fragments.add(ends(), &part(1, 8, false, b"end"), 0, Nanos::ZERO).is_none());
        assert!(fragments.add(ends(), &part(1, 16, true, b"01234567"), 0, Nanos::ZERO).is_none());
        assert!(
            fragments.add(ends(), &part(2, 65_528, false, b"01234567"), 0, Nanos::ZERO).is_none()
        );
        assert_eq!(fragments.unfinished(), 2);
        // The octets before a gap, and before what contradicts, are a beginning.
        assert!(fragments.add(ends(), &part(3, 0, true, b"01234567"), 7, Nanos::ZERO).is_none());
        assert!(fragments.add(ends(), &part(3, 16, false, b"end"), 8, Nanos::ZERO).is_none());
        assert!(fragments.add(ends(), &part(3, 24, false, b"end"), 9, Nanos::ZERO).is_none());
        let beginning = fragments.next_beginning().expect("the first fragment of packet 3");
        assert_eq!((beginning.frame, &beginning.joined.payload[..]), (7, &b"01234567"[..]));
    }
}
