//! Matches queries with their replies.
//!
//! A query and a reply match if they have the same two addresses and ports, transport, id and
//! question (if the reply has one), within 10 s. A query or a reply without its counterpart is
//! returned alone. A reply whose later fragments are missing is returned when the wait for them
//! ends: until then its query is kept. A waiting message takes some 700 octets.

use std::net::SocketAddr;

use measure::Nanos;
use wire::{Header, Name, Qclass, Qtype};

use crate::dns::{Dns, Opt};
use crate::messages::{Message, Transport};
use crate::options::Options;
use crate::pairs::{Pair, Pairs};

/// One of the two messages of a transaction.
#[derive(Clone, Copy, Debug)]
pub struct TransactionHalf {
    /// Time of capture, since 1970.
    pub at: Nanos,
    /// Length of the message in octets, on the wire.
    pub len: usize,
    /// The header of the message.
    pub header: Header,
    /// The OPT record, if there is one.
    pub opt: Option<Opt>,
    /// The return code, with the upper bits of EDNS.
    pub rcode: u16,
    /// The EDNS options; none without an OPT record.
    pub options: Options,
    /// Whether the message was reassembled from IP fragments.
    pub fragmented: bool,
    /// Whether the capture has only the start of the message.
    pub cut: bool,
}

/// A transaction: a query, a reply, or both.
#[derive(Clone, Copy, Debug)]
pub struct Transaction {
    /// Address and port of the client.
    pub client: SocketAddr,
    /// Address and port of the server.
    pub server: SocketAddr,
    /// Whether the transport is TCP.
    pub tcp: bool,
    /// Name, type and class of the question; `None` if it cannot be read.
    pub question: Option<(Name, Qtype, Qclass)>,
    /// The query, if the capture has it.
    pub query: Option<TransactionHalf>,
    /// The reply, if the capture has it.
    pub reply: Option<TransactionHalf>,
}

impl Transaction {
    /// Returns the query, or the reply if there is no query.
    pub fn first(&self) -> Option<&TransactionHalf> {
        self.query.as_ref().or(self.reply.as_ref())
    }
}

/// The fields that a query and its reply share: client, server, whether TCP, id, question with the name in lower case.
type Key = (SocketAddr, SocketAddr, bool, u16, Option<(Name, Qtype, Qclass)>);

/// A matcher of queries and replies.
#[derive(Default)]
pub struct Transactions(Pairs<Transaction>);

impl Transactions {
    /// Adds a message; calls `visit` with each transaction that is complete or has timed out.
    pub fn add(&mut self, message: &Message<'_>, dns: &Dns, visit: &mut impl FnMut(&Transaction)) {
        let half = TransactionHalf {
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
        let is_reply = dns.is_response();
        let (client, server) = message.client_and_server(is_reply);
        let tcp = message.transport != Transport::Udp;
        let question = dns.question.map(|q| (q.name, q.qtype, q.qclass));
        let folded = question.map(|(name, qtype, class)| (name.to_lowercase(), qtype, class));
        let key: Key = (client, server, tcp, dns.header.id, folded);
        let (query, reply) = if is_reply { (None, Some(half)) } else { (Some(half), None) };
        let found = Transaction { client, server, tcp, question, query, reply };
        // An error: the messages of a transfer have answers (RFC 5936 section 2.2.1).
        if is_reply && dns.header.counts[..2] == [0, 0] {
            let is_own = |half: TransactionHalf| half.header.id == dns.header.id;
            let asks = |asked: &Transaction| {
                (asked.client, asked.server, asked.tcp) == (client, server, tcp)
                    && asked.query.is_some_and(is_own)
            };
            if let Some(asked) = self.0.take_query(message.at, asks) {
                return joined((Some(asked), Some(found)), visit);
            }
        }
        self.0.add(message.at, &key, is_reply, found, &mut |pair| joined(pair, visit));
    }

    /// Returns the number of queries and of replies that were returned alone before their time, since more than a million waited.
    pub fn without_room(&self) -> [u64; 2] {
        self.0.without_room()
    }

    /// Calls `visit` with the messages that still wait.
    pub fn finish(&mut self, visit: &mut impl FnMut(&Transaction)) {
        self.0.finish(&mut |pair| joined(pair, visit));
    }
}

/// Calls `visit` with the transaction of a pair.
fn joined((query, reply): Pair<Transaction>, visit: &mut impl FnMut(&Transaction)) {
    let answer = reply.and_then(|reply| reply.reply);
    if let Some(found) = query.or(reply) {
        visit(&Transaction { reply: answer, ..found });
    }
}
