//! Matches queries with their replies.
//!
//! A query and a reply match if they have the same two addresses and ports, transport, id and question, within
//! `MAX_WAIT`. At most `MAX_WAITING` queries wait for a reply; the oldest are returned without one, and counted. A reply without
//! a query is returned alone. A reply whose later fragments are missing comes when these are waited for no longer: until then
//! its query is kept.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;

use measure::Nanos;
use wire::{Header, Name, Qclass, Qtype};

use crate::dns::{Dns, Opt};
use crate::fragments;
use crate::messages::{Message, Transport};
use crate::options::Options;

/// Largest number of queries that wait for a reply, each with some 700 octets.
const MAX_WAITING: usize = 1 << 20;
/// Largest time between a query and its reply.
const MAX_WAIT: Nanos = Nanos::from_secs(10);
/// Time for which a query is kept: its reply may be told that much later than it came.
const KEPT: Nanos = Nanos(MAX_WAIT.0 + fragments::MAX_WAIT.0);

/// One of the two messages of a transaction.
#[derive(Clone, Copy, Debug)]
pub struct Half {
    /// Time of capture, since 1970.
    pub at: Nanos,
    /// Length in octets.
    pub len: usize,
    /// The header.
    pub header: Header,
    /// The OPT record, if there is one.
    pub opt: Option<Opt>,
    /// The return code, with the upper bits of EDNS.
    pub rcode: u16,
    /// The EDNS options.
    pub options: Options,
    /// Whether the message was reassembled from IP fragments.
    pub fragmented: bool,
    /// Whether the capture has only the start of the message.
    pub cut: bool,
}

/// A transaction: a query, a reply, or both.
#[derive(Clone, Copy, Debug)]
pub struct Transaction {
    /// The client.
    pub client: SocketAddr,
    /// The server.
    pub server: SocketAddr,
    /// Whether the transport is TCP.
    pub tcp: bool,
    /// Name, type and class of the question; `None` if it cannot be read.
    pub question: Option<(Name, Qtype, Qclass)>,
    /// The query.
    pub query: Option<Half>,
    /// The reply.
    pub reply: Option<Half>,
}

impl Transaction {
    /// Returns the query, or the reply if there is no query.
    pub fn first(&self) -> Option<&Half> {
        self.query.as_ref().or(self.reply.as_ref())
    }
}

/// The fields that a query and its reply share: client, server, whether TCP, id, question with the name in lower case.
type Key = (SocketAddr, SocketAddr, bool, u16, Option<(Name, Qtype, Qclass)>);

/// A matcher of queries and replies.
#[derive(Default)]
pub struct Transactions {
    hashes: RandomState,
    /// Waiting queries with their numbers, by the hash of their keys.
    waiting: HashMap<u64, (u64, Transaction)>,
    /// Time, number and hash of the waiting queries in the order of arrival, some of them answered meanwhile.
    order: VecDeque<(Nanos, u64, u64)>,
    number: u64,
    without_room: u64,
}

impl Transactions {
    /// Adds a message; calls `visit` with each transaction that is complete or has timed out.
    pub fn add(&mut self, message: &Message<'_>, dns: &Dns, visit: &mut impl FnMut(&Transaction)) {
        self.expire(message.at, visit);
        let half = Half {
            at: message.at,
            len: message.len,
            header: dns.header,
            opt: dns.opt,
            rcode: dns.rcode().0,
            options: dns
                .opt
                .map_or_else(Options::default, |opt| Options::read(message.bytes, &opt)),
            fragmented: message.fragmented,
            cut: message.cut,
        };
        let reply = dns.is_response();
        let (client, server) = if reply {
            (message.destination, message.source)
        } else {
            (message.source, message.destination)
        };
        let tcp = message.transport != Transport::Udp;
        let question = dns.question.map(|q| (q.name, q.qtype, q.qclass));
        let folded = question.map(|(name, qtype, class)| (name.to_lowercase(), qtype, class));
        let key: Key = (client, server, tcp, dns.header.id, folded);
        let key = self.hashes.hash_one(key);
        let mut found = Transaction { client, server, tcp, question, query: None, reply: None };
        if reply {
            let waits = |query: Option<Half>| {
                query.is_some_and(|query| message.at.since(query.at) < MAX_WAIT)
            };
            if self.waiting.get(&key).is_some_and(|(_, waiting)| waits(waiting.query))
                && let Some((_, waiting_query)) = self.waiting.remove(&key)
            {
                found = waiting_query;
            }
            found.reply = Some(half);
            visit(&found);
            return;
        }
        found.query = Some(half);
        self.number += 1;
        self.order.push_back((message.at, self.number, key));
        if let Some((_, before)) = self.waiting.insert(key, (self.number, found)) {
            // The same query was sent again before the reply, which then belongs to the later query.
            visit(&before);
        }
    }

    /// Returns the number of queries that were returned before their time, since more than a million waited.
    pub fn without_room(&self) -> u64 {
        self.without_room
    }

    /// Calls `visit` with the queries that still wait.
    pub fn finish(&mut self, visit: &mut impl FnMut(&Transaction)) {
        while self.drop_oldest(visit) {}
    }

    /// Calls `visit` with queries that have timed out, and with the oldest if there are too many.
    fn expire(&mut self, now: Nanos, visit: &mut impl FnMut(&Transaction)) {
        while let Some(&(since, ..)) = self.order.front()
            && (self.waiting.len() >= MAX_WAITING || now.since(since) >= KEPT)
        {
            let waited = self.waiting.len();
            self.drop_oldest(visit);
            let has_room = now.since(since) >= KEPT || self.waiting.len() == waited;
            self.without_room += u64::from(!has_room);
        }
        // Answered ones take no more room than those that wait.
        if self.order.len() >= 2 * MAX_WAITING {
            let waits = |(_, number, key): &(Nanos, u64, u64)| {
                self.waiting.get(key).is_some_and(|(own, _)| own == number)
            };
            self.order.retain(waits);
        }
    }

    /// Calls `visit` with the oldest query if it still waits; returns whether the queue had an entry.
    fn drop_oldest(&mut self, visit: &mut impl FnMut(&Transaction)) -> bool {
        let Some((_, number, key)) = self.order.pop_front() else { return false };
        if self.waiting.get(&key).is_some_and(|(own, _)| *own == number)
            && let Some((_, transaction)) = self.waiting.remove(&key)
        {
            visit(&transaction);
        }
        true
    }
}
