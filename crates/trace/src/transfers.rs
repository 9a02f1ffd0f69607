//! Zone transfers: who got the whole zone (AXFR, RFC 5936) and who only what changed (IXFR, RFC 1995), and how much.
//!
//! ```text
//!   query AXFR or IXFR ──> open ──> first reply: refused? AXFR? an IXFR of ...
//!                                     SOA SOA ...     changes
//!                                     SOA and others  the whole zone
//!                                     SOA alone       nothing new, unless more follows
//! ```
//!
//! Of an IXFR the first two records decide (RFC 1995 section 4), which may lie in two messages.

use std::collections::HashMap;
use std::net::SocketAddr;

use wire::message::{HEADER, Header, Record, question_end};
use wire::{Opcode, Qtype};

use crate::{Dns, Message};

/// The most transfers under way at once.
const MAX_OPEN: usize = 1 << 16;

/// How a zone was transferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The whole zone, as asked.
    Axfr,
    /// What changed.
    Ixfr,
    /// The whole zone, though only changes were asked for.
    IxfrInFull,
    /// There was nothing new.
    UpToDate,
    /// An error.
    Refused,
}

/// Transfers of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// How many.
    pub transfers: u64,
    /// Messages of replies.
    pub messages: u64,
    /// Octets of those, without the length before each.
    pub octets: u64,
}

/// A transfer under way.
#[derive(Clone, Copy, Debug)]
enum Open {
    Asked(Qtype),
    /// An IXFR that has begun with a SOA record alone, and how much that was.
    Undecided(Count),
    Decided(Kind),
}

/// Counts the transfers among messages.
#[derive(Debug, Default)]
pub struct Transfers {
    open: HashMap<(SocketAddr, SocketAddr, u16), Open>,
    counts: [Count; 5],
    /// Transfers that were not followed: too many were under way.
    pub beyond: u64,
}

impl Transfers {
    /// Looks at a message.
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
        if let Some(Open::Undecided(count)) = self.open.insert(key, Open::Asked(qtype)) {
            self.count(Kind::UpToDate, count);
        }
    }

    fn reply(&mut self, message: &Message<'_>, header: &Header) {
        let key = (message.destination, message.source, header.id);
        let Some(open) = self.open.get(&key).copied() else { return };
        let now = Count { transfers: 0, messages: 1, octets: message.len as u64 };
        let first = Count { transfers: 1, ..now };
        let (next, kind, count) = match open {
            Open::Decided(kind) => (open, kind, now),
            Open::Asked(_) if header.rcode() != 0 => {
                (Open::Decided(Kind::Refused), Kind::Refused, first)
            }
            Open::Asked(AXFR) => (Open::Decided(Kind::Axfr), Kind::Axfr, first),
            Open::Asked(_) => match answers(message.bytes, 1) {
                Some(kind) => (Open::Decided(kind), kind, first),
                None => {
                    self.open.insert(key, Open::Undecided(first));
                    return;
                }
            },
            Open::Undecided(before) => {
                let kind = answers(message.bytes, 0).unwrap_or(Kind::IxfrInFull);
                let (messages, octets) = (before.messages + 1, before.octets + now.octets);
                (Open::Decided(kind), kind, Count { transfers: 1, messages, octets })
            }
        };
        self.open.insert(key, next);
        self.count(kind, count);
    }

    fn count(&mut self, kind: Kind, more: Count) {
        let count = &mut self.counts[kind as usize];
        count.transfers += more.transfers;
        count.messages += more.messages;
        count.octets += more.octets;
    }

    /// What was transferred so far: an IXFR of a SOA record alone that nothing followed is one without news.
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

/// What the answer number `at` of an IXFR's reply says it is; `None` if there is no such answer.
fn answers(message: &[u8], at: u16) -> Option<Kind> {
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

    /// A message of the zone `a` with answers of these types; a query without any.
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

    /// The types of a reply's answers, and its RCODE.
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
    fn each_kind_is_told_by_its_first_records() {
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
        fn any_bytes_are_survived(bytes: Vec<u8>, at in 0u16..3) {
            let _ = answers(&bytes, at);
        }
    }
}
