//! Statistics of a stream of messages (ISC-TN-2008-1 section 5.1): rates, failures, types, return codes, sizes and
//! clients.
//!
//! Memory is constant: types and sizes are counted in arrays, rates in a histogram and in a series whose bins double in
//! length when it is full, clients exactly up to [`clients::MAX_CLIENTS`]. A query and its reply are paired by their two addresses and
//! ports, transport and id, within 10 s; the questions are not compared, as [`Transactions`](crate::transactions::Transactions) do.
//!
//! A *request* is a query. If the capture has only replies, as that of ISC-TN-2008-1, each reply counts as its query.
//! *Failed* is a reply of another opcode than QUERY or another return code than NOERROR.

use std::collections::HashMap;

use measure::{Histogram, Nanos};
use record::{TraceDirection, TraceStats};
use wire::message::flag;
use wire::{Opcode, Qclass, Qtype, Rcode};

use crate::dns::Dns;
use crate::messages::{Message, Transport};
use crate::pairs::{Pair, Pairs};

pub mod clients;
pub(crate) mod eras;
pub mod rates;
mod summary;

use clients::Clients;
pub use eras::Era;
use eras::Eras;

/// Largest number of counted pairs of class and type outside class IN.
const MAX_OTHER_TYPES: usize = 4_096;
/// Number of return codes: four bits of the header, eight of EDNS.
const RCODES: usize = 1 << 12;
/// Number of different message lengths.
const SIZES: usize = 1 << 16;

/// Counts of one query type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TypeCount {
    /// Number of queries of the type.
    pub queries: u64,
    /// Number of replies of the type.
    pub replies: u64,
    /// Number of replies with another return code than NOERROR.
    pub failed: u64,
}

impl TypeCount {
    /// Counts a query or a reply of the type.
    #[inline]
    fn add(&mut self, dns: &Dns) {
        if dns.is_response() {
            self.replies += 1;
            self.failed += u64::from(dns.rcode() != Rcode::NOERROR);
        } else {
            self.queries += 1;
        }
    }
}

/// Counts of one direction: of queries, or of replies.
#[derive(Clone, Debug)]
pub struct Direction {
    /// Counts of the messages; the sizes are open.
    pub counts: TraceDirection,
    /// Number of messages by opcode.
    pub opcodes: [u64; 16],
    /// Number of messages by length in octets.
    pub sizes: Box<[u64]>,
}

impl Direction {
    fn new() -> Self {
        Direction {
            counts: TraceDirection::default(),
            opcodes: [0; 16],
            sizes: vec![0; SIZES].into_boxed_slice(),
        }
    }

    #[inline]
    /// Counts a message of the direction.
    fn add(&mut self, message: &Message<'_>, dns: &Dns) {
        self.counts.messages += 1;
        self.counts.tcp += u64::from(message.transport != Transport::Udp);
        self.counts.ipv6 += u64::from(message.source.is_ipv6());
        self.counts.fragmented += u64::from(message.fragmented);
        self.counts.edns += u64::from(dns.opt.is_some());
        self.counts.dnssec_ok += u64::from(dns.opt.is_some_and(|opt| opt.dnssec_ok));
        self.opcodes[usize::from(dns.header.opcode().0 & 15)] += 1;
        self.sizes[message.len.min(SIZES - 1)] += 1;
    }

    /// Returns the length in octets that this share of the messages does not exceed; 0 without messages.
    pub fn size_quantile(&self, quantile: f64) -> usize {
        let rank = ((self.counts.messages as f64 * quantile).ceil() as u64).max(1);
        let mut seen = 0;
        let found = self.sizes.iter().position(|&count| {
            seen += count;
            seen >= rank
        });
        found.unwrap_or(0)
    }

    /// Returns the mean length in octets; 0 without messages.
    pub fn mean_size(&self) -> f64 {
        let sum: u64 = self.sizes.iter().zip(0u64..).map(|(count, size)| count * size).sum();
        sum as f64 / self.counts.messages.max(1) as f64
    }
}

/// Statistics of a stream of messages.
#[derive(Clone, Debug)]
pub struct Stats {
    /// Number of all messages that were added.
    pub messages: u64,
    /// Counts of the queries alone.
    pub queries: Direction,
    /// Counts of the replies alone.
    pub replies: Direction,
    /// Counts in the form of the record: of failures, bits, and messages that could not be read.
    pub counts: TraceStats,
    /// Number of queries with the RD bit.
    pub recursion_desired: u64,
    /// Number of replies by return code, with the upper bits of EDNS.
    pub rcodes: Box<[u64]>,
    /// Counts of messages with opcode QUERY and no readable question.
    pub no_question: TypeCount,
    /// Number of requests by client.
    pub clients: Clients,
    /// Times from queries to their replies.
    pub latency: Histogram,
    /// Messages over time, by era.
    eras: Eras,
    /// Times of queries and replies that wait.
    pairs: Pairs<Nanos>,
    /// Number of queries whose reply is no longer awaited.
    unanswered: u64,
    /// Counts of types of class IN, by number.
    types: Box<[TypeCount]>,
    /// Counts of types of other classes.
    other_types: HashMap<(u16, u16), TypeCount>,
    /// Counts of further types of other classes, beyond [`MAX_OTHER_TYPES`].
    further_types: TypeCount,
}

impl Stats {
    /// Returns empty statistics; bursts are counted in windows of this length.
    pub fn new(window: Nanos) -> Self {
        Stats {
            messages: 0,
            queries: Direction::new(),
            replies: Direction::new(),
            counts: TraceStats::default(),
            recursion_desired: 0,
            rcodes: vec![0; RCODES].into_boxed_slice(),
            no_question: TypeCount::default(),
            clients: Clients::default(),
            latency: Histogram::new(),
            eras: Eras::new(window),
            pairs: Pairs::default(),
            unanswered: 0,
            types: vec![TypeCount::default(); 1 << 16].into_boxed_slice(),
            other_types: HashMap::new(),
            further_types: TypeCount::default(),
        }
    }

    /// Adds a message to all its statistics.
    #[inline]
    pub fn add(&mut self, message: &Message<'_>) {
        self.messages += 1;
        let era = self.eras.add(message.at);
        let Some(dns) = Dns::read(message.bytes) else {
            self.counts.packets.messages_headless += u64::from(!message.cut);
            self.counts.packets.messages_cut_headers += u64::from(message.cut);
            return;
        };
        let is_reply = dns.is_response();
        if is_reply { &mut era.replies } else { &mut era.queries }.add(message.at);
        self.counts.packets.messages_malformed += u64::from(!dns.whole && !message.cut);
        let set = |bit| dns.header.flags & bit != 0;
        if is_reply {
            self.replies.add(message, &dns);
            self.counts.authoritative += u64::from(set(flag::AA));
            self.counts.truncated += u64::from(set(flag::TC));
            let rcode = dns.rcode();
            self.rcodes[usize::from(rcode.0) & (RCODES - 1)] += 1;
            let bad = rcode != Rcode::NOERROR;
            let plain = dns.header.opcode() == Opcode::QUERY;
            self.counts.failed += u64::from(bad || !plain);
            self.counts.query_failed += u64::from(bad && plain);
            let recursive = plain && set(flag::RD);
            self.counts.recursive_replies += u64::from(recursive);
            self.counts.recursive_failed += u64::from(recursive && bad);
        } else {
            self.queries.add(message, &dns);
            self.recursion_desired += u64::from(set(flag::RD));
        }
        let (client, server) = message.client_and_server(is_reply);
        self.clients.add(client.ip(), is_reply);
        let key = (client, server, message.transport != Transport::Udp, dns.header.id);
        let (latency, unanswered) = (&mut self.latency, &mut self.unanswered);
        let mut visit = |pair: Pair<Nanos>| match pair {
            (Some(query), Some(reply)) => latency.record(reply.since(query)),
            (query, _) => *unanswered += u64::from(query.is_some()),
        };
        self.pairs.add(message.at, &key, is_reply, message.at, &mut visit);
        if dns.header.opcode() == Opcode::QUERY {
            self.type_of(&dns).add(&dns);
        }
    }

    /// Returns the number of queries to which the stream contains no reply.
    pub fn unanswered(&self) -> u64 {
        self.unanswered + self.pairs.waiting() as u64
    }

    /// Returns the counts for the question of a message.
    #[inline]
    fn type_of(&mut self, dns: &Dns) -> &mut TypeCount {
        let Some(question) = &dns.question else { return &mut self.no_question };
        if question.qclass == Qclass::IN {
            return &mut self.types[usize::from(question.qtype.0)];
        }
        let key = (question.qclass.0, question.qtype.0);
        if self.other_types.len() == MAX_OTHER_TYPES && !self.other_types.contains_key(&key) {
            return &mut self.further_types;
        }
        self.other_types.entry(key).or_default()
    }

    /// Returns whether replies count as requests, because the capture has no queries.
    pub fn by_replies(&self) -> bool {
        self.queries.counts.messages == 0
    }

    /// Returns the counts of requests: queries, or replies if there are no queries.
    pub fn requests(&self) -> &Direction {
        if self.by_replies() { &self.replies } else { &self.queries }
    }

    /// Returns the messages over time, without those whose times are far from most.
    pub fn era(&self) -> Era {
        self.eras.main()
    }

    /// Returns class, type and counts, most requests first. Types beyond the limit have no class and type.
    pub fn types(&self) -> Vec<(Option<(Qclass, Qtype)>, TypeCount)> {
        let known = self.types.iter().zip(0..=u16::MAX);
        let known = known.map(|(count, qtype)| (Some((Qclass::IN, Qtype(qtype))), *count));
        let others = self.other_types.iter();
        let others = others.map(|((class, qtype), c)| (Some((Qclass(*class), Qtype(*qtype))), *c));
        let all = known.chain(others).chain([(None, self.further_types)]);
        let mut all: Vec<_> = all.filter(|(_, c)| *c != TypeCount::default()).collect();
        let by_replies = self.by_replies();
        all.sort_by_key(|(kind, count)| {
            let requests = if by_replies { count.replies } else { count.queries };
            (std::cmp::Reverse((requests, count.replies)), kind.map(|(class, t)| (class.0, t.0)))
        });
        all
    }
}
