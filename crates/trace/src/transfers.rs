//! Counts of zone transfers: full ones (AXFR, RFC 5936) and incremental ones (IXFR, RFC 1995), with their size.
//!
//! ```text
//!   query AXFR or IXFR ──> open ──> first reply: refused? AXFR? an IXFR of ...
//!                                     SOA SOA ...     changes
//!                                     SOA and others  the whole zone
//!                                     SOA alone       no change, unless more follows
//! ```
//!
//! The first two records of an IXFR decide on its kind (RFC 1995 section 4); they may be in two messages.

use std::collections::HashMap;
use std::net::SocketAddr;

use record::{TransferCount, TransferCounts};
use wire::message::{HEADER, Header, Record, question_end};
use wire::{Opcode, Qtype};

use crate::{Dns, Message};

/// Largest number of open transfers.
const MAX_OPEN: usize = 1 << 16;

/// Kinds of transfers, with their names in the record.
const KINDS: [(Kind, &str); 5] = [
    (Kind::Axfr, "axfr"),
    (Kind::Ixfr, "ixfr"),
    (Kind::IxfrInFull, "ixfr_in_full"),
    (Kind::UpToDate, "ixfr_without_news"),
    (Kind::Refused, "transfers_refused"),
];

/// The kind of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The whole zone, as requested.
    Axfr,
    /// The changes only, as requested (RFC 1995).
    Ixfr,
    /// The whole zone, although only changes were requested.
    IxfrInFull,
    /// The serial number alone: there were no changes.
    UpToDate,
    /// The server replied with an error.
    Refused,
}

/// Counts of the transfers of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Number of transfers of the kind.
    pub transfers: u64,
    /// Number of reply messages of these transfers.
    pub messages: u64,
    /// Size of these messages in octets, without length fields.
    pub octets: u64,
}

/// The state of an open transfer.
#[derive(Clone, Copy, Debug)]
enum Open {
    /// Requested with this type; no reply yet.
    Requested(Qtype),
    /// An IXFR whose first message has only a SOA record, with its counts so far.
    Undecided(Count),
    /// A transfer of a known kind.
    Decided(Kind),
}

/// A counter of the transfers in a stream of messages.
#[derive(Debug, Default)]
pub struct Transfers {
    open: HashMap<(SocketAddr, SocketAddr, u16), Open>,
    counts: [Count; 5],
    /// Number of transfers that were not counted, because too many were open.
    pub beyond: u64,
}

impl Transfers {
    /// Takes a message of a capture, and counts it if it belongs to a transfer.
    pub fn add(&mut self, message: &Message<'_>) {
        let Some(header) = Header::read(message.bytes) else { return };
        if header.opcode() != Opcode::QUERY {
            return;
        }
        if header.is_response() {
            self.reply(message, &header);
            return;
        }
        let question = Dns::read(message.bytes).and_then(|dns| dns.question);
        let Some(qtype) = question.map(|q| q.qtype).filter(|&t| t == AXFR || t == IXFR) else {
            return;
        };
        let key = (message.source, message.destination, header.id);
        if self.open.len() >= MAX_OPEN && !self.open.contains_key(&key) {
            self.beyond += 1;
            return;
        }
        if let Some(Open::Undecided(count)) = self.open.insert(key, Open::Requested(qtype)) {
            self.count(Kind::UpToDate, count);
        }
    }

    /// Counts a reply to a request for a transfer.
    fn reply(&mut self, message: &Message<'_>, header: &Header) {
        let key = (message.destination, message.source, header.id);
        let Some(open) = self.open.get(&key).copied() else { return };
        let now = Count { transfers: 0, messages: 1, octets: message.len as u64 };
        let first = Count { transfers: 1, ..now };
        let (next, kind, count) = match open {
            Open::Decided(kind) => (open, kind, now),
            Open::Requested(_) if header.rcode() != 0 => {
                (Open::Decided(Kind::Refused), Kind::Refused, first)
            }
            Open::Requested(AXFR) => (Open::Decided(Kind::Axfr), Kind::Axfr, first),
            Open::Requested(_) => match kind_from_answer(message.bytes, 1) {
                Some(kind) => (Open::Decided(kind), kind, first),
                None => {
                    self.open.insert(key, Open::Undecided(first));
                    return;
                }
            },
            Open::Undecided(before) => {
                let kind = kind_from_answer(message.bytes, 0).unwrap_or(Kind::IxfrInFull);
                let (messages, octets) = (before.messages + 1, before.octets + now.octets);
                (Open::Decided(kind), kind, Count { transfers: 1, messages, octets })
            }
        };
        self.open.insert(key, next);
        self.count(kind, count);
    }

    /// Adds to the counts of a kind.
    fn count(&mut self, kind: Kind, more: Count) {
        let count = &mut self.counts[kind as usize];
        count.transfers += more.transfers;
        count.messages += more.messages;
        count.octets += more.octets;
    }

    /// Returns the counts so far for the record.
    pub fn summary(&self) -> TransferCounts {
        let count = |kind| {
            let count = self.counts(kind);
            TransferCount { transfers: count.transfers, octets: count.octets }
        };
        KINDS.into_iter().map(|(kind, name)| (name.to_owned(), count(kind))).collect()
    }

    /// Returns the counts of a kind so far; an IXFR with only a SOA record counts as one without changes.
    pub fn counts(&self, kind: Kind) -> Count {
        let mut count = self.counts[kind as usize];
        if kind == Kind::UpToDate {
            for open in self.open.values() {
                if let Open::Undecided(more) = open {
                    count.transfers += more.transfers;
                    count.messages += more.messages;
                    count.octets += more.octets;
                }
            }
        }
        count
    }
}

const AXFR: Qtype = Qtype(252);
const IXFR: Qtype = Qtype(251);

/// Returns the kind of an IXFR from answer number `at` of its reply; `None` if there is no such answer.
fn kind_from_answer(message: &[u8], at: u16) -> Option<Kind> {
    let header = Header::read(message)?;
    let mut place = if header.counts[0] == 0 { HEADER } else { question_end(message)? };
    if header.counts[1] <= at {
        return None;
    }
    for number in 0..=at {
        let (record, end) = Record::read(message, place)?;
        if number == at {
            let changes = record.rtype == Qtype::SOA;
            return Some(if changes { Kind::Ixfr } else { Kind::IxfrInFull });
        }
        place = end;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Transport;
    use measure::Nanos;

    /// Returns a reply for the zone `a` with answers of these types, or a query if `answers` is `None`.
    fn message(id: u16, qtype: Qtype, answers: Option<&[u16]>, rcode: u8) -> Vec<u8> {
        let mut bytes = id.to_be_bytes().to_vec();
        bytes.extend([if answers.is_some() { 0x84 } else { 0 }, rcode, 0, 1, 0]);
        bytes.push(answers.map_or(0, |list| list.len() as u8));
        bytes.extend([0, 0, 0, 0, 1, b'a', 0]);
        bytes.extend(qtype.0.to_be_bytes());
        bytes.extend([0, 1]);
        for rtype in answers.unwrap_or_default() {
            bytes.extend([0xc0, 12]);
            bytes.extend(rtype.to_be_bytes());
            bytes.extend([0, 1, 0, 0, 0, 60, 0, 0]);
        }
        bytes
    }

    const NS: u16 = 2;
    const SOA: u16 = 6;

    /// The types of the answers in a reply, and its RCODE.
    type Reply = (&'static [u16], u8);

    fn count(list: &[(Qtype, &[Reply])]) -> Transfers {
        let mut transfers = Transfers::default();
        let (client, server) = ("192.0.2.1:4000".parse(), "192.0.2.53:53".parse());
        let (client, server) = (client.expect("an address"), server.expect("an address"));
        for (id, &(qtype, replies)) in (0u16..).zip(list) {
            let mut add = |source, destination, bytes: &[u8]| {
                transfers.add(&Message {
                    frame: 1,
                    at: Nanos::ZERO,
                    source,
                    destination,
                    transport: Transport::Tcp { sequence: 1 },
                    fragmented: false,
                    cut: false,
                    len: bytes.len(),
                    bytes,
                });
            };
            add(client, server, &message(id, qtype, None, 0));
            for (answers, rcode) in replies {
                add(server, client, &message(id, qtype, Some(answers), *rcode));
            }
        }
        transfers
    }

    #[test]
    fn the_first_records_decide_on_the_kind() {
        let transfers = count(&[
            (AXFR, &[(&[SOA, NS], 0), (&[NS, NS, SOA], 0)]),
            (IXFR, &[(&[SOA, SOA, NS, SOA], 0)]),
            (IXFR, &[(&[SOA], 0), (&[SOA, NS], 0), (&[SOA], 0)]),
            (IXFR, &[(&[SOA, NS], 0), (&[SOA], 0)]),
            (IXFR, &[(&[SOA], 0), (&[NS, SOA], 0)]),
            (IXFR, &[(&[SOA], 0)]),
            (AXFR, &[(&[], 5)]),
            (Qtype::SOA, &[(&[SOA], 0)]),
        ]);
        let of = |kind| {
            let count = transfers.counts(kind);
            (count.transfers, count.messages)
        };
        assert_eq!(of(Kind::Axfr), (1, 2));
        assert_eq!(of(Kind::Ixfr), (2, 4));
        assert_eq!(of(Kind::IxfrInFull), (2, 4));
        assert_eq!(of(Kind::UpToDate), (1, 1));
        assert_eq!(of(Kind::Refused), (1, 1));
        let octets = message(0, AXFR, Some(&[SOA, NS]), 0).len()
            + message(0, AXFR, Some(&[NS, NS, SOA]), 0).len();
        assert_eq!(transfers.counts(Kind::Axfr).octets, octets as u64);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>, at in 0u16..3) {
            let _ = kind_from_answer(&bytes, at);
        }
    }
}
