//! A pending question: its clients, the progress so far, and its lookups.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::ops::{Index, IndexMut};

use engine::{Destination, SocketId};
use measure::{Nanos, Transport};
use wire::message::Record;
use wire::{Name, Qtype};

use crate::answer::{Answer, Needs};
use crate::question::Key;
use crate::record::push;
use crate::subnet::Subnet;
use crate::table::slab::{NONE, Slab};
use crate::upstream::ServerId;

/// Where a reply goes: a socket and address, or a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyTo {
    Datagram(Destination),
    /// A stream, by its number, and the client's address.
    Stream {
        stream: u64,
        client: IpAddr,
    },
}

/// A client that waits for an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    pub(crate) to: ReplyTo,
    pub(crate) wants: Needs,
    /// Whether the client has proved its address by a cookie.
    pub(crate) proven: bool,
    /// Number of the client's network, whose share of the places it uses.
    pub(crate) network: u16,
    /// Address of the client, for the rules after a reload.
    pub(crate) address: IpAddr,
    /// Transport of the client's query.
    pub(crate) transport: Transport,
    /// Time at which the client's query arrived.
    pub(crate) asked: Nanos,
}

/// Another client that waits for the same answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiter {
    pub(crate) client: Client,
    pub(crate) next: u32,
}

/// The state of a question: the query that was sent upstream, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The reply of upstream is passed on.
    #[default]
    Pass,
    /// A PTR record is queried and returned under the original name.
    InPlace,
    /// AAAA is queried; A is next if there is none.
    Aaaa,
    /// AAAA is queried again with CD after SERVFAIL: an answer means that the data is bogus.
    Check,
    /// A is queried for synthesis.
    A,
    /// A is queried first; AAAA is next if there is none.
    AlwaysA,
    /// The SOA record for an empty answer is queried, since no A is mapped.
    Soa,
    /// AAAA is queried for a client that gets no A records if there are addresses of IPv6.
    Drop,
    /// A target of a service is queried.
    Target,
    /// A dead server is probed.
    Probe,
}

/// Transport of a pending lookup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Path {
    /// The lookup is not pending.
    #[default]
    None,
    /// UDP, on this socket with this id.
    Datagram(SocketId, u16),
    /// A stream, with this ticket.
    Stream(u32),
    /// The query could not be sent; its timeout runs anyway.
    Unsent,
}

/// A lookup of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LookupId {
    /// Number of the question in the table of pending ones.
    pub(crate) transaction: u32,
    /// Index of the lookup within its question.
    pub(crate) slot: usize,
}

impl LookupId {
    /// Returns the first lookup of a question, which has only one as a rule.
    pub(crate) fn first(transaction: u32) -> Self {
        LookupId { transaction, slot: 0 }
    }

    /// Returns the second lookup of a question: A beside AAAA.
    pub(crate) fn second(transaction: u32) -> Self {
        LookupId { transaction, slot: 1 }
    }

    /// Returns the lookup's number in the tables of ids and timeouts.
    #[inline]
    pub(crate) fn number(self) -> u32 {
        2 * self.transaction + self.slot as u32
    }
}

impl From<u32> for LookupId {
    #[inline]
    fn from(number: u32) -> Self {
        LookupId { transaction: number / 2, slot: number as usize % 2 }
    }
}

impl Index<LookupId> for Slab<Transaction> {
    type Output = Lookup;

    #[inline]
    fn index(&self, at: LookupId) -> &Lookup {
        &self[at.transaction].lookups[at.slot]
    }
}

impl IndexMut<LookupId> for Slab<Transaction> {
    #[inline]
    fn index_mut(&mut self, at: LookupId) -> &mut Lookup {
        &mut self[at.transaction].lookups[at.slot]
    }
}

/// One sending of a query.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Attempt {
    pub(crate) path: Path,
    pub(crate) server: ServerId,
    /// Seed of the letter case of its name; 0 for lower case.
    pub(crate) case_seed: u64,
    /// Whether the attempt has a cookie.
    pub(crate) has_cookie: bool,
    pub(crate) sent: Nanos,
}

/// EDNS in a query to upstream: less after errors of servers that do not understand it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum QueryEdns {
    /// An OPT record, with the cookie and the client subnet if there are such options.
    #[default]
    WithOptions,
    /// An OPT record without options.
    WithoutOptions,
    /// No OPT record.
    Absent,
}

/// One query to upstream with its attempts, until a reply or the last timeout.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lookup {
    /// The last attempt, and the one before it, whose reply is accepted too if both are pending. Older ones are closed: each
    /// open one is a further chance for a forged reply (RFC 5452 section 5).
    pub(crate) last: Attempt,
    pub(crate) earlier: Attempt,
    pub(crate) qtype: Qtype,
    /// Number of attempts, and number of replies with an error.
    pub(crate) attempts: u8,
    pub(crate) errors: u8,
    /// EDNS in its queries.
    pub(crate) edns: QueryEdns,
    /// A server has refused the cookie of the lookup.
    pub(crate) refused_cookie: bool,
    /// A server has sent a truncated reply.
    pub(crate) truncated: bool,
    /// The last reply claimed to be authentic, whether or not that is believed.
    pub(crate) claims_authentic: bool,
    /// Begin of the lookup, and its end if there is no reply.
    pub(crate) began: Nanos,
    pub(crate) until: Nanos,
}

impl Lookup {
    /// A lookup whose first attempt the program in the kernel has sent.
    pub(crate) fn begun(qtype: Qtype, last: Attempt, until: Nanos) -> Self {
        Lookup { qtype, last, began: last.sent, until, attempts: 1, ..Lookup::default() }
    }

    /// Returns whether a reply is awaited.
    pub(crate) fn is_pending(&self) -> bool {
        self.last.path != Path::None
    }

    /// Returns the attempt on a socket with an id: the last one, or the one before it.
    pub(crate) fn attempt_on(&self, socket: SocketId, id: u16) -> &Attempt {
        let path = Path::Datagram(socket, id);
        if self.earlier.path == path { &self.earlier } else { &self.last }
    }
}

/// The answer to a query for a service, while the addresses of its targets are looked up.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    /// The answer so far, without further room; addresses are appended to it.
    pub(crate) answer: Answer,
    /// Time until which the answer waits for its targets.
    pub(crate) until: Nanos,
    /// Targets to look up; the current one is the first.
    pub(crate) targets: VecDeque<Target>,
    /// The names of the answer, and all targets so far, so that a loop of aliases ends.
    pub(crate) known: Vec<Target>,
}

/// A target of a service, and the type to look up: AAAA means its addresses, another type for the
/// services of an alias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) name: Name,
    pub(crate) qtype: Qtype,
}

/// A question that waits for upstream, with its clients and the results so far.
#[derive(Default)]
pub(crate) struct Transaction {
    pub(crate) key: Key,
    /// Whether other clients may join the question and its answer may be stored.
    pub(crate) shared: bool,
    /// Whether all queried names belong to pools whose answers are cached.
    pub(crate) cached: bool,
    /// Whether the question has reached a name for which other clients may get another answer
    /// (`[[view]]`).
    pub(crate) is_apart: bool,
    pub(crate) phase: Phase,
    /// First client; `None` for a query of the server itself.
    pub(crate) client: Option<Client>,
    /// First entry of the list of clients that joined.
    pub(crate) waiters: u32,
    /// The lookups; the second is for an A query at the same time as AAAA.
    pub(crate) lookups: [Lookup; 2],
    /// The server that must be used; `None` for any.
    pub(crate) only_server: Option<ServerId>,
    /// TTL of the absence of AAAA, in seconds, if it is known.
    pub(crate) negative_ttl: Option<u32>,
    /// Whether there are AAAA records, which the configuration excludes.
    pub(crate) filtered: bool,
    /// The aliases of earlier replies, and their target.
    pub(crate) chain: Vec<u8>,
    pub(crate) name: Option<Box<Name>>,
    pub(crate) hops: u32,
    /// Octets of the alias of this server itself, with which the chain begins.
    pub(crate) own_alias: usize,
    /// The A reply, if it arrived before the AAAA reply.
    pub(crate) early: Option<Box<[u8]>>,
    pub(crate) service: Option<Box<Service>>,
    /// Octets reserved for the chain, the early reply and the service.
    pub(crate) kept: u32,
    /// The client subnet for upstream, and the longest scope of the replies to it.
    pub(crate) subnet: Option<Subnet>,
    pub(crate) scope: u8,
    /// Next older and next newer question.
    pub(crate) older: u32,
    pub(crate) newer: u32,
}

impl Transaction {
    /// Makes a question without any progress.
    pub(crate) fn new(key: Key, client: Option<Client>) -> Self {
        let (waiters, older, newer) = (NONE, NONE, NONE);
        Transaction { key, cached: true, client, waiters, older, newer, ..Transaction::default() }
    }

    /// Begins with an alias of this server itself: `target` is queried in place of the client's
    /// name.
    pub(crate) fn begin_with(&mut self, target: Box<Name>, ttl: u32) {
        let owner = self.key.name.as_wire();
        push(&mut self.chain, owner, Qtype::CNAME, ttl, target.as_wire());
        (self.name, self.hops, self.own_alias) = (Some(target), 1, self.chain.len());
    }

    /// Returns to the name with which it began: the client's, or the target of the alias of this
    /// server itself.
    pub(crate) fn begin_again(&mut self) {
        self.chain.truncate(self.own_alias);
        let target = Record::read(&self.chain, 0);
        let target = target.and_then(|(alias, _)| Name::from_wire(alias.rdata).ok());
        (self.name, self.hops) = (target.map(Box::new), u32::from(self.own_alias > 0));
    }

    /// Returns the name that is currently queried.
    pub(crate) fn name(&self) -> &Name {
        self.name.as_deref().unwrap_or(&self.key.name)
    }
}
