//! The log of all queries to the servers of the Internet in a box.

use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use wire::{Name, Qtype};

use crate::reply::ReplyKind;

/// Largest number of queries that wait for the reader of the log; further ones are counted as lost.
const MAX_WAITING: usize = 1 << 14;

/// What a server of the Internet in a box replied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Records of the server's zone that answer the question.
    Answer,
    /// The name has no records of the type.
    NoData,
    /// The name does not exist.
    NxDomain,
    /// A referral to the servers of the zone whose name begins at this octet of the question's
    /// name.
    Referral(u8),
    /// An error: the server has no zone for the name, or does not answer such queries.
    Refused,
}

impl Verdict {
    /// Returns the kind of the reply.
    pub(super) fn kind(self) -> ReplyKind {
        match self {
            Verdict::Answer => ReplyKind::Answer,
            Verdict::NoData => ReplyKind::NoData,
            Verdict::NxDomain => ReplyKind::NxDomain,
            Verdict::Referral(_) => ReplyKind::Referral,
            Verdict::Refused => ReplyKind::Error,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Answer => "answer",
            Verdict::NoData => "nodata",
            Verdict::NxDomain => "nxdomain",
            Verdict::Referral(_) => "referral",
            Verdict::Refused => "refused",
        })
    }
}

/// A query to a server of the Internet in a box. Its text is a line of the log: server, zone, name, type, verdict, and the zone
/// below if that is a referral.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedQuery {
    /// Address that the query was sent to.
    pub server: Ipv4Addr,
    /// Zone from which the server answered; `None` without a zone for the name.
    pub zone: Option<Name>,
    /// Name in the question section.
    pub name: Name,
    /// Type in the question section.
    pub qtype: Qtype,
    /// What the server replied, in one word.
    pub verdict: Verdict,
}

impl LoggedQuery {
    /// Returns the zone that the server referred to.
    pub fn delegated(&self) -> Option<Name> {
        let Verdict::Referral(at) = self.verdict else { return None };
        Name::from_wire(self.name.as_wire().get(usize::from(at)..)?).ok()
    }
}

impl fmt::Display for LoggedQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LoggedQuery { server, zone, name, qtype, verdict } = self;
        match zone {
            Some(zone) => write!(f, "{server} {zone} {name} {qtype} {verdict}")?,
            None => write!(f, "{server} - {name} {qtype} {verdict}")?,
        }
        self.delegated().map_or(Ok(()), |zone| write!(f, " {zone}"))
    }
}

/// The log of all workers. A worker never waits for the log.
#[derive(Clone, Debug)]
pub struct Log {
    queries: SyncSender<LoggedQuery>,
    lost: Arc<AtomicU64>,
}

impl Log {
    /// Returns a log, and the queries of it, which end when the log and its clones are dropped.
    pub fn new() -> (Self, Receiver<LoggedQuery>) {
        let (queries, logged) = sync_channel(MAX_WAITING);
        (Log { queries, lost: Arc::default() }, logged)
    }

    /// Returns the counter of queries that are missing, since their reader was too slow.
    pub fn lost(&self) -> Arc<AtomicU64> {
        self.lost.clone()
    }

    pub(super) fn note(&self, query: LoggedQuery) {
        if self.queries.try_send(query).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}
