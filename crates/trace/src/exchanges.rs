//! Queries of a capture with the octets of their replies, in the order of the queries.
//!
//! A reply belongs to the last query with its addresses and ports, transport, id and question, at most 10 s before it; it may come before
//! its query in the capture. A query that is sent again before its reply is one query, at the time of its last copy. At most
//! 1,048,576 queries and 256 MiB wait for replies and for the queries before them; the oldest is then left out.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;

use measure::Nanos;
use wire::{Header, Name, Opcode, Qclass, Qtype};

use crate::dns::Dns;
use crate::messages::{Message, Transport};
use crate::pairs::{self, Clock, MAX_WAIT, RECENT};

/// Largest number of queries, and of octets of queries and replies, that wait.
const MAX_WAITING: usize = 1 << 20;
const MAX_OCTETS: usize = 256 << 20;
/// Largest number of replies that wait for a query.
const MAX_EARLY: usize = 1 << 16;

/// A query with its reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Time of capture of the query, since 1970.
    pub at: Nanos,
    /// The query, a whole DNS message.
    pub query: Vec<u8>,
    /// Whether the query came over TCP.
    pub tcp: bool,
    /// The reply, if there is one.
    pub reply: Option<Vec<u8>>,
}

/// Counts of omitted queries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Number of queries of another opcode than QUERY.
    pub other_opcodes: u64,
    /// Number of queries that are malformed, cut short by the capture, or without a question.
    pub malformed: u64,
    /// Number of queries with a truncated reply, which the client repeats over TCP.
    pub truncated: u64,
    /// Number of queries that the client sent again before their reply.
    pub repeated: u64,
    /// Number of transfers of zones (AXFR, IXFR) that were not refused: their replies are many messages.
    pub transfers: u64,
    /// Number of queries whose replies could not be waited for.
    pub without_room: u64,
}

/// The fields that a query and its reply share: client, server, whether TCP, id, question with the name in lower case.
type Key = (SocketAddr, SocketAddr, bool, u16, Name, Qtype, Qclass);

/// A query, from its arrival until it is returned.
struct WaitingQuery {
    /// Hash of its key, and of client, server, whether TCP, and id alone.
    key: u64,
    ends: u64,
    qtype: Qtype,
    exchange: Exchange,
    state: State,
}

/// State of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The query waits for its reply.
    Open,
    /// The query has its reply, and waits for earlier exchanges.
    Answered,
    /// The reply is truncated: the exchange is omitted.
    Truncated,
    /// The query was sent again: the exchange is omitted.
    Repeated,
    /// Too many other queries wait: the exchange is omitted.
    WithoutRoom,
}

/// A matcher of queries and replies.
pub struct Exchanges {
    clock: Clock,
    hashes: RandomState,
    /// Replies without a query so far: octets, whether truncated.
    early: pairs::WaitingMessages<(Vec<u8>, bool)>,
    waiting: VecDeque<WaitingQuery>,
    /// Numbers of the queries without a reply, by the hashes of their keys.
    open: HashMap<u64, u64>,
    /// Number of the first waiting query.
    first: u64,
    octets: usize,
    left_out: LeftOut,
}

impl Default for Exchanges {
    fn default() -> Self {
        Exchanges {
            clock: Clock::default(),
            hashes: RandomState::new(),
            early: pairs::WaitingMessages::of_replies(MAX_EARLY),
            waiting: VecDeque::new(),
            open: HashMap::new(),
            first: 0,
            octets: 0,
            left_out: LeftOut::default(),
        }
    }
}

impl Exchanges {
    /// Adds a message; calls `visit` with each query that is answered or has waited too long, in their order.
    pub fn add(&mut self, message: &Message<'_>, visit: &mut impl FnMut(Exchange)) {
        let Some(dns) = Dns::read(message.bytes) else { return };
        self.clock.tick(message.at);
        self.early.expire(self.clock, drop);
        self.expire(visit);
        let tcp = message.transport != Transport::Udp;
        let (client, server) = message.client_and_server(dns.is_response());
        let key = dns.question.map(|question| {
            let id = dns.header.id;
            (client, server, tcp, id, question.name.to_lowercase(), question.qtype, question.qclass)
        });
        let usable = key.filter(|_| !message.cut);
        let ends = self.hashes.hash_one((client, server, tcp, dns.header.id));
        if !dns.is_response() {
            match usable {
                _ if dns.header.opcode() != Opcode::QUERY => self.left_out.other_opcodes += 1,
                Some(key) if dns.whole => self.query(&key, ends, message),
                _ => self.left_out.malformed += 1,
            }
        } else if let Some(key) = usable {
            let key = self.hashes.hash_one(key);
            self.reply(key, message, !tcp && dns.header.is_truncated());
        } else if dns.header.counts[..2] == [0, 0] && !message.cut {
            self.reply_without_question(ends, message);
        }
        self.release(visit);
    }

    /// Calls `visit` with the queries that still wait; returns the omitted ones.
    pub fn finish(mut self, visit: &mut impl FnMut(Exchange)) -> LeftOut {
        while self.pop(visit) {}
        self.left_out
    }

    fn query(&mut self, whole_key: &Key, ends: u64, message: &Message<'_>) {
        let (key, qtype) = (self.hashes.hash_one(whole_key), whole_key.5);
        let number = self.first + self.waiting.len() as u64;
        let before = self.open_query(key, message.at);
        before.inspect(|&query| self.waiting[query].state = State::Repeated);
        self.open.insert(key, number);
        self.octets += message.bytes.len();
        let (at, query, tcp) = (message.at, message.bytes.to_vec(), whole_key.2);
        let exchange = Exchange { at, query, tcp, reply: None };
        self.waiting.push_back(WaitingQuery { key, ends, qtype, exchange, state: State::Open });
        let fits = |reply| pairs::belongs(at, reply);
        if let Some((bytes, truncated)) = self.early.take(key, fits) {
            self.answer(key, self.waiting.len() - 1, bytes, truncated);
        }
    }

    /// Returns the place of the query with this key that waits for a reply of the time `at`.
    fn open_query(&self, key: u64, at: Nanos) -> Option<usize> {
        let place = self.open.get(&key).map(|number| (number - self.first) as usize)?;
        self.waiting.get(place).is_some_and(|q| at.since(q.exchange.at) < MAX_WAIT).then_some(place)
    }

    fn reply(&mut self, key: u64, message: &Message<'_>, truncated: bool) {
        let (at, bytes) = (message.at, message.bytes.to_vec());
        match self.open_query(key, at) {
            Some(place) => self.answer(key, place, bytes, truncated),
            None => {
                self.early.insert(at, key, (bytes, truncated));
            }
        }
    }

    /// Adds a reply to the last of the recent queries with these ends and this id.
    fn reply_without_question(&mut self, ends: u64, message: &Message<'_>) {
        let asks = |query: &WaitingQuery| {
            let is_open = query.state == State::Open && query.ends == ends;
            is_open && pairs::belongs(query.exchange.at, message.at)
        };
        let mut recent = self.waiting.iter().enumerate().rev().take(RECENT);
        if let Some((place, query)) = recent.find(|(_, query)| asks(query)) {
            self.answer(query.key, place, message.bytes.to_vec(), false);
        }
    }

    /// Adds the reply to the waiting query at this place.
    fn answer(&mut self, key: u64, place: usize, bytes: Vec<u8>, truncated: bool) {
        self.open.remove(&key);
        let query = &mut self.waiting[place];
        query.state = if truncated { State::Truncated } else { State::Answered };
        self.octets += bytes.len();
        query.exchange.reply = Some(bytes);
    }

    /// Calls `visit` with queries that have waited too long; leaves the oldest out if there are too many.
    fn expire(&mut self, visit: &mut impl FnMut(Exchange)) {
        while let Some(query) = self.waiting.front() {
            if !self.clock.is_over(query.exchange.at, MAX_WAIT) {
                if self.waiting.len() < MAX_WAITING && self.octets < MAX_OCTETS {
                    return;
                }
                self.waiting[0].state = State::WithoutRoom;
            }
            self.pop(visit);
        }
    }

    /// Calls `visit` with the answered queries before the first that waits.
    fn release(&mut self, visit: &mut impl FnMut(Exchange)) {
        while self.waiting.front().is_some_and(|query| query.state != State::Open) {
            self.pop(visit);
        }
    }

    /// Calls `visit` with the oldest query; returns whether there is one.
    fn pop(&mut self, visit: &mut impl FnMut(Exchange)) -> bool {
        let Some(query) = self.waiting.pop_front() else { return false };
        if self.open.get(&query.key) == Some(&self.first) {
            self.open.remove(&query.key);
        }
        self.first += 1;
        let reply = query.exchange.reply.as_ref().map_or(0, Vec::len);
        self.octets -= query.exchange.query.len() + reply;
        let answers = query.exchange.reply.as_deref().and_then(Header::read).map(|h| h.counts[1]);
        let transfer = matches!(query.qtype, Qtype::AXFR | Qtype::IXFR) && answers != Some(0);
        match query.state {
            State::Open | State::Answered if transfer => self.left_out.transfers += 1,
            State::Open | State::Answered => visit(query.exchange),
            State::Truncated => self.left_out.truncated += 1,
            State::Repeated => self.left_out.repeated += 1,
            State::WithoutRoom => self.left_out.without_room += 1,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A query for a name of one letter, or its reply with these flags.
    fn bytes(id: u8, name: u8, flags: u8) -> Vec<u8> {
        let mut bytes = vec![0, id, flags, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, name];
        bytes.extend_from_slice(&[0, 0, 1, 0, 1]);
        bytes
    }

    /// Returns a message from a client, or a reply to it.
    fn message(at_s: u64, client: SocketAddr, bytes: &[u8]) -> Message<'_> {
        let server: SocketAddr = "192.0.2.53:53".parse().expect("an address");
        let reply = bytes.get(2).is_some_and(|flags| flags & 0x80 != 0);
        let (source, destination) = if reply { (server, client) } else { (client, server) };
        let (at, transport) = (Nanos::from_secs(at_s), Transport::Udp);
        let (frame, fragmented, cut, len) = (1, false, false, bytes.len());
        Message { frame, at, source, destination, transport, fragmented, cut, len, bytes }
    }

    /// Adds messages, each from a client (or to it) at a second; returns the exchanges and what was left out.
    fn run(messages: &[(u64, u16, Vec<u8>)]) -> (Vec<Exchange>, LeftOut) {
        let mut exchanges = Exchanges::default();
        let mut found = Vec::new();
        for (at_s, client, bytes) in messages {
            let client = SocketAddr::from(([10, 0, 0, 1], *client));
            exchanges.add(&message(*at_s, client, bytes), &mut |exchange| found.push(exchange));
        }
        let left_out = exchanges.finish(&mut |exchange| found.push(exchange));
        (found, left_out)
    }

    #[test]
    fn replies_go_with_their_queries_in_the_order_of_these() {
        let (found, left_out) = run(&[
            (1, 1, bytes(7, b'a', 1)),
            (1, 2, bytes(7, b'b', 1)),
            // Another client's, another id, another name: no reply to either.
            (2, 3, bytes(7, b'a', 0x81)),
            (2, 1, bytes(8, b'a', 0x81)),
            (2, 1, bytes(7, b'b', 0x81)),
            (2, 2, bytes(7, b'B', 0x85)),
            (2, 1, bytes(7, b'a', 0x81)),
            // Sent twice: one query. After its reply, and after 10 s, it is another.
            (3, 1, bytes(9, b'c', 1)),
            (4, 1, bytes(9, b'c', 1)),
            (5, 1, bytes(9, b'c', 0x81)),
            (6, 1, bytes(9, b'c', 1)),
            (16, 1, bytes(9, b'c', 1)),
            (17, 1, bytes(9, b'c', 0x81)),
            // A server that cannot read the query answers without its question; to the other question there is no answer.
            (17, 1, bytes(5, b'e', 1)),
            (17, 1, [&[0, 6, 0x81, 1][..], &[0; 8]].concat()),
            (17, 1, [&[0, 5, 0x81, 1][..], &[0; 8]].concat()),
            // The reply comes first in the capture.
            (19, 1, bytes(9, b'd', 0x81)),
            (18, 1, bytes(9, b'd', 1)),
        ]);
        let shown: Vec<_> = found
            .iter()
            .map(|e| (e.at.as_secs_f64(), char::from(e.query[13]), e.reply.as_ref().map(|r| r[2])))
            .collect();
        let wanted = [
            (1.0, 'a', Some(0x81)),
            (1.0, 'b', Some(0x85)),
            (4.0, 'c', Some(0x81)),
            (6.0, 'c', None),
            (16.0, 'c', Some(0x81)),
            (17.0, 'e', Some(0x81)),
            (18.0, 'd', Some(0x81)),
        ];
        assert_eq!(shown, wanted);
        assert_eq!(left_out, LeftOut { repeated: 1, ..LeftOut::default() });
    }

    #[test]
    fn late_truncated_and_foreign_messages_are_left_out() {
        let (found, left_out) = run(&[
            (1, 1, bytes(1, b'a', 1)),
            (12, 1, bytes(1, b'a', 0x81)),
            (12, 1, bytes(2, b'b', 1)),
            (12, 1, bytes(2, b'b', 0x83)),
            (12, 1, bytes(3, b'c', 0x28)),
            (12, 1, bytes(4, b'd', 1)[..16].to_vec()),
            (12, 1, vec![1, 2]),
        ]);
        assert_eq!((found.len(), &found[0].reply), (1, &None));
        assert_eq!(
            left_out,
            LeftOut { other_opcodes: 1, malformed: 1, truncated: 1, ..LeftOut::default() }
        );
    }

    /// The replies of a slow server come after the queries of many clients.
    #[test]
    fn many_queries_wait_for_their_replies() {
        let all: u32 = 200_000;
        let mut exchanges = Exchanges::default();
        let (mut asked, mut answered) = (0, 0);
        let mut take = |exchange: Exchange| {
            asked += 1;
            answered += u32::from(exchange.reply.is_some());
        };
        for (at_s, flags) in [(1, 1), (2, 0x81)] {
            let bytes = bytes(7, b'a', flags);
            for number in 0..all {
                let client = SocketAddr::from((std::net::Ipv4Addr::from(number), 4_000));
                exchanges.add(&message(at_s, client, &bytes), &mut take);
            }
        }
        assert_eq!(exchanges.finish(&mut take), LeftOut::default());
        assert_eq!((asked, answered), (all, all));
    }

    proptest! {
        #[test]
        fn every_query_comes_out_once_unless_it_is_sent_again(
            messages in prop::collection::vec((0u64..40, 0u16..3, 0u8..3, b'a'..b'd', prop::bool::ANY), 0..60),
        ) {
            let mut messages: Vec<_> = messages
                .into_iter()
                .map(|(at, client, id, name, reply)| (at, client, bytes(id, name, if reply { 0x81 } else { 1 })))
                .collect();
            messages.sort_by_key(|(at, ..)| *at);
            let (found, left_out) = run(&messages);
            let queries = messages.iter().filter(|(.., bytes)| bytes[2] == 1);
            prop_assert_eq!(found.len() as u64 + left_out.repeated, queries.clone().count() as u64);
            // They are a part of the queries, in their order.
            let mut queries = queries.map(|(at, _, bytes)| (Nanos::from_secs(*at), bytes));
            for exchange in &found {
                prop_assert!(queries.any(|query| query == (exchange.at, &exchange.query)));
                if let Some(reply) = &exchange.reply {
                    prop_assert_eq!((reply[1], reply[13]), (exchange.query[1], exchange.query[13]));
                }
            }
        }
    }
}
