//! A question under way: who waits for it, what it has come to, what is being asked.

use std::net::IpAddr;

use engine::{Destination, SocketId};
use measure::Nanos;
use wire::{Name, Qtype};

use crate::answer::Wants;
use crate::question::Key;
use crate::table::slab::NONE;
use crate::upstream::ServerId;

/// Where a reply goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyTo {
    Datagram(Destination),
    /// A stream by its number.
    Stream(u64),
}

/// Somebody who waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    pub(crate) to: ReplyTo,
    pub(crate) wants: Wants,
    /// For his network's share.
    pub(crate) network: u16,
    /// Where he is, for the rules after a reload.
    pub(crate) address: IpAddr,
}

/// Somebody else who waits for the same.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiter {
    pub(crate) client: Client,
    pub(crate) next: u32,
}

/// What a question has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Upstream's answer is the answer.
    Pass,
    /// A PTR is asked for, to be told in place.
    InPlace,
    /// AAAA is asked for; where there is none, A comes next.
    Aaaa,
    /// A is asked for, to be synthesised from.
    A,
    /// A is asked for first; where there is none, AAAA comes next.
    AlwaysA,
    /// AAAA, then A, of the target of a service.
    TargetAaaa,
    TargetA,
    /// A dead server is asked for a sign of life.
    Probe,
}

/// How a lookup is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    /// Not at all.
    None,
    /// By UDP, on this socket under this id.
    Datagram(SocketId, u16),
    /// By a stream, under this ticket.
    Stream(u32),
    /// It could not be sent; its time runs nevertheless.
    Unsent,
}

/// One query to upstream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lookup {
    pub(crate) path: Path,
    pub(crate) server: ServerId,
    pub(crate) qtype: Qtype,
    /// How often it was sent.
    pub(crate) attempts: u8,
    /// Sent without EDNS, which a server did not understand.
    pub(crate) plain: bool,
    /// How its name is spelled.
    pub(crate) case_seed: u64,
    pub(crate) sent: Nanos,
}

impl Lookup {
    /// No query.
    const NONE: Self = Lookup {
        path: Path::None,
        server: 0,
        qtype: Qtype(0),
        attempts: 0,
        plain: false,
        case_seed: 0,
        sent: Nanos::ZERO,
    };
}

/// The answer to a question for a service, while its targets are asked for.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    /// The answer so far; addresses are added at its end.
    pub(crate) message: Vec<u8>,
    pub(crate) question_end: usize,
    pub(crate) additional_at: usize,
    pub(crate) options: Vec<u8>,
    pub(crate) ttl: u32,
    /// Targets to be asked for, the present one last.
    pub(crate) targets: Vec<Name>,
}

/// A question under way.
pub(crate) struct Transaction {
    pub(crate) key: Key,
    pub(crate) hash: u64,
    /// Whether others may join it, and its answer may be kept.
    pub(crate) shared: bool,
    pub(crate) phase: Phase,
    /// Who asked first; nobody for what the server asks by itself.
    pub(crate) client: Option<Client>,
    /// The list of those who joined.
    pub(crate) waiters: u32,
    /// The second is for A asked at the same time as AAAA.
    pub(crate) lookups: [Lookup; 2],
    /// The server that has to be asked.
    pub(crate) only: Option<ServerId>,
    /// How long the absence of AAAA holds, if the AAAA reply says.
    pub(crate) negative_ttl: Option<u32>,
    /// The aliases of earlier replies, and the name they lead to.
    pub(crate) chain: Vec<u8>,
    pub(crate) name: Option<Box<Name>>,
    pub(crate) hops: u32,
    /// What came to the A query before the AAAA query had its reply.
    pub(crate) early: Option<Box<[u8]>>,
    pub(crate) service: Option<Box<Service>>,
    /// The client's EDNS options, for upstream.
    pub(crate) options: Option<Box<[u8]>>,
    /// Its neighbours by age.
    pub(crate) older: u32,
    pub(crate) newer: u32,
}

impl Transaction {
    /// A question of which nothing is known.
    pub(crate) fn new(key: Key, hash: u64, client: Option<Client>) -> Self {
        Transaction {
            key,
            hash,
            shared: false,
            phase: Phase::Pass,
            client,
            waiters: NONE,
            lookups: [Lookup::NONE; 2],
            only: None,
            negative_ttl: None,
            chain: Vec::new(),
            name: None,
            hops: 0,
            early: None,
            service: None,
            options: None,
            older: NONE,
            newer: NONE,
        }
    }

    /// The name that is being asked for.
    pub(crate) fn name(&self) -> &Name {
        self.name.as_deref().unwrap_or(&self.key.name)
    }
}
