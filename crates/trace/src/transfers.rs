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
const KINDS: [(TransferKind, &str); 5] = [
    (TransferKind::Axfr, "axfr"),
    (TransferKind::Ixfr, "ixfr"),
    (TransferKind::IxfrInFull, "ixfr_in_full"),
    (TransferKind::UpToDate, "ixfr_without_news"),
    (TransferKind::Refused, "transfers_refused"),
];

/// The kind of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum TransferKind {
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

/// The state of an open transfer.
#[derive(Clone, Copy, Debug)]
enum Transfer {
    /// Requested with this type; no reply yet.
    Requested(Qtype),
    /// An IXFR whose first message has only a SOA record, with its counts so far.
    Undecided(TransferCount),
    /// A transfer of a known kind.
    Decided(TransferKind),
}

/// A counter of the transfers in a stream of messages. Those that begin while `MAX_OPEN` are open are not counted.
#[derive(Debug, Default)]
pub struct Transfers {
    open: HashMap<(SocketAddr, SocketAddr, u16), Transfer>,
    counts: [TransferCount; 5],
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
        let Some(qtype) =
            question.map(|q| q.qtype).filter(|&t| t == Qtype::AXFR || t == Qtype::IXFR)
        else {
            return;
        };
        let key = (message.source, message.destination, header.id);
        if self.open.len() >= MAX_OPEN && !self.open.contains_key(&key) {
            return;
        }
        if let Some(Transfer::Undecided(count)) = self.open.insert(key, Transfer::Requested(qtype))
        {
            self.counts[TransferKind::UpToDate as usize] += count;
        }
    }

    /// Counts a reply to a request for a transfer.
    fn reply(&mut self, message: &Message<'_>, header: &Header) {
        let key = (message.destination, message.source, header.id);
        let Some(open) = self.open.get(&key).copied() else { return };
        let now = TransferCount { transfers: 0, octets: message.len as u64 };
        let first = TransferCount { transfers: 1, ..now };
        let (next, kind, count) = match open {
            Transfer::Decided(kind) => (open, kind, now),
            Transfer::Requested(_) if header.rcode() != 0 => {
                (Transfer::Decided(TransferKind::Refused), TransferKind::Refused, first)
            }
            Transfer::Requested(Qtype::AXFR) => {
                (Transfer::Decided(TransferKind::Axfr), TransferKind::Axfr, first)
            }
            Transfer::Requested(_) => match kind_from_answer(message.bytes, 1) {
                Some(kind) => (Transfer::Decided(kind), kind, first),
                None => {
                    self.open.insert(key, Transfer::Undecided(first));
                    return;
                }
            },
            Transfer::Undecided(mut count) => {
                let kind = kind_from_answer(message.bytes, 0).unwrap_or(TransferKind::IxfrInFull);
                count += now;
                (Transfer::Decided(kind), kind, count)
            }
        };
        self.open.insert(key, next);
        self.counts[kind as usize] += count;
    }

    /// Returns the counts so far for the record.
    pub fn summary(&self) -> TransferCounts {
        KINDS.into_iter().map(|(kind, name)| (name.to_owned(), self.counts(kind))).collect()
    }

    /// Returns the counts of a kind so far; an IXFR with only a SOA record counts as one without changes.
    fn counts(&self, kind: TransferKind) -> TransferCount {
        let mut count = self.counts[kind as usize];
        for open in self.open.values() {
            if let (TransferKind::UpToDate, Transfer::Undecided(more)) = (kind, open) {
                count += *more;
            }
        }
        count
    }
}

/// Returns the kind of an IXFR from answer number `at` of its reply; `None` if there is no such answer.
fn kind_from_answer(message: &[u8], at: u16) -> Option<TransferKind> {
    let header = Header::read(message)?;
    let mut place = if header.counts[0] == 0 { HEADER } else { question_end(message)? };
    if header.counts[1] <= at {
        return None;
    }
    for number in 0..=at {
        let (record, end) = Record::read(message, place)?;
        if number == at {
            let changes = record.rtype == Qtype::SOA;
            return Some(if changes { TransferKind::Ixfr } else { TransferKind::IxfrInFull });
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

    const AXFR: Qtype = Qtype::AXFR;
    const IXFR: Qtype = Qtype::IXFR;
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
                let (transport, ends) = (Transport::Tcp { sequence: 1 }, [source, destination]);
                transfers.add(&Message::whole(transport, ends, Nanos::ZERO, bytes));
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
        let lengths = |replies: &[&[u16]]| -> u64 {
            replies.iter().map(|types| message(0, AXFR, Some(types), 0).len() as u64).sum()
        };
        let wanted: [(TransferKind, u64, &[&[u16]]); 5] = [
            (TransferKind::Axfr, 1, &[&[SOA, NS], &[NS, NS, SOA]]),
            (TransferKind::Ixfr, 2, &[&[SOA, SOA, NS, SOA], &[SOA], &[SOA, NS], &[SOA]]),
            (TransferKind::IxfrInFull, 2, &[&[SOA, NS], &[SOA], &[SOA], &[NS, SOA]]),
            (TransferKind::UpToDate, 1, &[&[SOA]]),
            (TransferKind::Refused, 1, &[&[]]),
        ];
        for (kind, number, replies) in wanted {
            let wanted = TransferCount { transfers: number, octets: lengths(replies) };
            assert_eq!(transfers.counts(kind), wanted, "{kind:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>, at in 0u16..3) {
            let _ = kind_from_answer(&bytes, at);
        }
    }
}
