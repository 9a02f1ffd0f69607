//! The characterisation of a stream (ISC-TN-2008-1 section 5.1): rates, failures, types, return codes, and beside
//! them sizes and clients.
//!
//! Constant memory: types and sizes are counted in arrays, rates in a histogram and in a series whose bins double
//! when it is full, clients exactly up to [`clients::MAX_CLIENTS`].
//!
//! A *request* is a query; in a capture of one direction that holds replies only, as the source's was, each reply
//! stands for its query. *Failed* is a reply of another opcode than QUERY or another return code than NOERROR.

use std::collections::HashMap;

use measure::Nanos;
use wire::message::flag;
use wire::{Opcode, Qclass, Qtype, Rcode};

use crate::dns::Dns;
use crate::messages::{Message, Transport};

pub mod clients;
pub mod rates;

use clients::Clients;
use rates::{Bin, Rates};

/// Pairs of class and type, other than of class IN, that are told apart.
const MAX_OTHER_TYPES: usize = 4_096;
/// Return codes: four bits of the header, eight of EDNS.
const RCODES: usize = 1 << 12;
/// Lengths of messages.
const SIZES: usize = 1 << 16;

/// What was counted of a type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TypeCount {
    /// Queries.
    pub queries: u64,
    /// Replies.
    pub replies: u64,
    /// Replies with another return code than NOERROR.
    pub failed: u64,
}

impl TypeCount {
    /// Takes a message.
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

/// What was counted of one direction: queries, or replies.
#[derive(Clone, Debug)]
pub struct Direction {
    /// Messages.
    pub messages: u64,
    /// Of them over TCP.
    pub tcp: u64,
    /// Of them over IPv6.
    pub ipv6: u64,
    /// Of them put together from IP fragments.
    pub fragmented: u64,
    /// With an OPT record.
    pub edns: u64,
    /// With the DO bit.
    pub dnssec_ok: u64,
    /// By opcode.
    pub opcodes: [u64; 16],
    /// By length in bytes.
    pub sizes: Box<[u64]>,
    /// Messages in time.
    pub rates: Rates,
}

impl Direction {
    fn new(window: Nanos) -> Self {
        Direction {
            messages: 0,
            tcp: 0,
            ipv6: 0,
            fragmented: 0,
            edns: 0,
            dnssec_ok: 0,
            opcodes: [0; 16],
            sizes: vec![0; SIZES].into_boxed_slice(),
            rates: Rates::new(window),
        }
    }

    #[inline]
    fn add(&mut self, message: &Message<'_>, dns: &Dns) {
        self.messages += 1;
        self.tcp += u64::from(message.transport != Transport::Udp);
        self.ipv6 += u64::from(message.source.is_ipv6());
        self.fragmented += u64::from(message.fragmented);
        self.edns += u64::from(dns.opt.is_some());
        self.dnssec_ok += u64::from(dns.opt.is_some_and(|opt| opt.dnssec_ok));
        self.opcodes[usize::from(dns.header.opcode().0 & 15)] += 1;
        self.sizes[message.len.min(SIZES - 1)] += 1;
        self.rates.add(message.at);
    }

    /// The length in bytes that this share of the messages does not exceed; 0 when there are none.
    pub fn size_quantile(&self, quantile: f64) -> usize {
        let rank = ((self.messages as f64 * quantile).ceil() as u64).max(1);
        let mut seen = 0;
        let found = self.sizes.iter().position(|&count| {
            seen += count;
            seen >= rank
        });
        found.unwrap_or(0)
    }

    /// The mean length in bytes; 0 when there are none.
    pub fn mean_size(&self) -> f64 {
        let sum: u64 = self.sizes.iter().zip(0u64..).map(|(count, size)| count * size).sum();
        sum as f64 / self.messages.max(1) as f64
    }
}

/// The statistics of a stream of messages.
#[derive(Clone, Debug)]
pub struct Stats {
    /// The first message's time, since 1970.
    pub first: Nanos,
    /// The last message's time.
    pub last: Nanos,
    /// Messages.
    pub messages: u64,
    /// Messages shorter than a header.
    pub headless: u64,
    /// Messages that do not hold what their header announces, or more.
    pub malformed: u64,
    /// Queries.
    pub queries: Direction,
    /// Replies.
    pub replies: Direction,
    /// Replies of another opcode than QUERY or another return code than NOERROR.
    pub failed: u64,
    /// Replies of opcode QUERY with another return code than NOERROR.
    pub failed_queries: u64,
    /// Queries with the RD bit.
    pub recursion_desired: u64,
    /// Replies with the AA bit.
    pub authoritative: u64,
    /// Replies with the TC bit.
    pub truncated: u64,
    /// Replies by return code, with the upper bits of EDNS.
    pub rcodes: Box<[u64]>,
    /// Messages of opcode QUERY without a readable question.
    pub no_question: TypeCount,
    /// Who asked.
    pub clients: Clients,
    /// Types of class IN, by number.
    types: Box<[TypeCount]>,
    /// Types of other classes.
    other_types: HashMap<(u16, u16), TypeCount>,
    /// Types of other classes beyond [`MAX_OTHER_TYPES`].
    further_types: TypeCount,
}

impl Stats {
    /// Empty statistics; bursts are counted in windows of this length.
    pub fn new(window: Nanos) -> Self {
        Stats {
            first: Nanos::MAX,
            last: Nanos::ZERO,
            messages: 0,
            headless: 0,
            malformed: 0,
            queries: Direction::new(window),
            replies: Direction::new(window),
            failed: 0,
            failed_queries: 0,
            recursion_desired: 0,
            authoritative: 0,
            truncated: 0,
            rcodes: vec![0; RCODES].into_boxed_slice(),
            no_question: TypeCount::default(),
            clients: Clients::default(),
            types: vec![TypeCount::default(); 1 << 16].into_boxed_slice(),
            other_types: HashMap::new(),
            further_types: TypeCount::default(),
        }
    }

    /// Takes a message.
    #[inline]
    pub fn add(&mut self, message: &Message<'_>) {
        self.messages += 1;
        self.first = self.first.min(message.at);
        self.last = self.last.max(message.at);
        let Some(dns) = Dns::read(message.bytes) else {
            self.headless += 1;
            return;
        };
        self.malformed += u64::from(!dns.whole && !message.cut);
        let set = |bit| dns.header.flags & bit != 0;
        let client = if dns.is_response() {
            self.replies.add(message, &dns);
            self.authoritative += u64::from(set(flag::AA));
            self.truncated += u64::from(set(flag::TC));
            let rcode = dns.rcode();
            self.rcodes[usize::from(rcode.0) & (RCODES - 1)] += 1;
            let bad = rcode != Rcode::NOERROR;
            let plain = dns.header.opcode() == Opcode::QUERY;
            self.failed += u64::from(bad || !plain);
            self.failed_queries += u64::from(bad && plain);
            message.destination
        } else {
            self.queries.add(message, &dns);
            self.recursion_desired += u64::from(set(flag::RD));
            message.source
        };
        self.clients.add(client.ip(), dns.is_response());
        if dns.header.opcode() == Opcode::QUERY {
            self.type_of(&dns).add(&dns);
        }
    }

    /// Where messages with this question are counted.
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

    /// Whether requests are counted by their replies: there are no queries in the capture.
    pub fn by_replies(&self) -> bool {
        self.queries.messages == 0
    }

    /// Queries, or in a capture of replies only, replies.
    pub fn requests(&self) -> &Direction {
        if self.by_replies() { &self.replies } else { &self.queries }
    }

    /// From the first message to the last.
    pub fn duration(&self) -> Nanos {
        self.last.since(self.first.min(self.last))
    }

    /// Class, type and counts of what was asked for; most requests first. What is beyond the bounds has no type.
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

    /// Queries and replies in time, in bins of the same length: that length, when the first begins, the bins.
    pub fn series(&self) -> (Nanos, Nanos, Vec<Bin>) {
        rates::series(&self.queries.rates, &self.replies.rates)
    }
}
