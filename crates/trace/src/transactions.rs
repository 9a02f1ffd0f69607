//! Queries joined to their replies.
//!
//! What has the same two ends, transport, id and question belongs together, within [`MAX_WAIT`]. Queries that wait are
//! at most [`MAX_WAITING`]; the oldest give way and go out alone, as do replies that nobody asked for.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

use measure::Nanos;
use wire::{Header, Name, Qclass, Qtype};

use crate::dns::{Dns, Opt};
use crate::messages::{Message, Transport};

/// Queries that wait for their replies at most.
const MAX_WAITING: usize = 1 << 17;
/// So long a query waits for its reply.
const MAX_WAIT: Nanos = Nanos::from_secs(10);

/// One of the two messages of a transaction.
#[derive(Clone, Copy, Debug)]
pub struct Half {
    /// When it was caught.
    pub at: Nanos,
    /// Its length in octets.
    pub len: usize,
    /// Its header.
    pub header: Header,
    /// What its OPT record says.
    pub opt: Option<Opt>,
    /// The return code, with the bits of EDNS.
    pub rcode: u16,
    /// Whether it was put together from IP fragments.
    pub fragmented: bool,
}

/// A query, its reply, or both.
#[derive(Clone, Copy, Debug)]
pub struct Transaction {
    /// Who asks.
    pub client: SocketAddr,
    /// Who answers.
    pub server: SocketAddr,
    /// Whether over TCP.
    pub tcp: bool,
    /// Name, type and class of the question, where it can be read.
    pub question: Option<(Name, Qtype, Qclass)>,
    /// The query.
    pub query: Option<Half>,
    /// The reply.
    pub reply: Option<Half>,
}

impl Transaction {
    /// The half that is there; the query, if both are.
    pub fn first(&self) -> Option<&Half> {
        self.query.as_ref().or(self.reply.as_ref())
    }
}

/// What the two halves have in common: ends, transport, id, question (name in lower case).
type Key = (SocketAddr, SocketAddr, bool, u16, Option<(Name, Qtype, Qclass)>);

/// Joins queries to replies.
#[derive(Default)]
pub struct Transactions {
    waiting: HashMap<Key, (u64, Transaction)>,
    /// In the order they came; may name some that are done.
    order: VecDeque<(Nanos, u64, Key)>,
    number: u64,
}

impl Transactions {
    /// Takes a message; `each` gets what is complete, or has waited in vain. Messages without a header are passed over.
    pub fn add(&mut self, message: &Message<'_>, dns: &Dns, each: &mut impl FnMut(&Transaction)) {
        self.expire(message.at, each);
        let half = Half {
            at: message.at,
            len: message.len,
            header: dns.header,
            opt: dns.opt,
            rcode: dns.rcode().0,
            fragmented: message.fragmented,
        };
        let reply = dns.is_response();
        let (client, server) = if reply {
            (message.destination, message.source)
        } else {
            (message.source, message.destination)
        };
        let tcp = message.transport != Transport::Udp;
        let question = dns.question.map(|asked| (asked.name, asked.qtype, asked.qclass));
        let folded = question.map(|(name, qtype, class)| (name.to_lowercase(), qtype, class));
        let key = (client, server, tcp, dns.header.id, folded);
        let mut found = Transaction { client, server, tcp, question, query: None, reply: None };
        if reply {
            if let Some((_, asked)) = self.waiting.remove(&key) {
                found = asked;
            }
            found.reply = Some(half);
            each(&found);
            return;
        }
        found.query = Some(half);
        self.number += 1;
        self.order.push_back((message.at, self.number, key));
        if let Some((_, before)) = self.waiting.insert(key, (self.number, found)) {
            // Asked again before the reply came: that is the later one's.
            each(&before);
        }
    }

    /// Gives out what still waits.
    pub fn finish(&mut self, each: &mut impl FnMut(&Transaction)) {
        while self.give_up(each) {}
    }

    /// Gives out what has waited too long, and the oldest where there is no room.
    fn expire(&mut self, now: Nanos, each: &mut impl FnMut(&Transaction)) {
        while let Some(&(since, ..)) = self.order.front()
            && (self.order.len() >= MAX_WAITING || now.since(since) >= MAX_WAIT)
        {
            self.give_up(each);
        }
    }

    /// Gives out the oldest if it still waits; whether there was one.
    fn give_up(&mut self, each: &mut impl FnMut(&Transaction)) -> bool {
        let Some((_, number, key)) = self.order.pop_front() else { return false };
        if self.waiting.get(&key).is_some_and(|(own, _)| *own == number)
            && let Some((_, transaction)) = self.waiting.remove(&key)
        {
            each(&transaction);
        }
        true
    }
}
