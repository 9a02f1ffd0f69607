//! Counts of a load, made where queries leave and replies arrive, such as in the kernel; and a
//! query that was sent.

use crate::units::Nanos;

/// Counts of a load so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Number of queries that left.
    pub sent: u64,
    /// Valid replies in time that were judged where they came.
    pub valid: u64,
    /// Those of them that came while queries were sent.
    pub while_sending: u64,
    /// Those of them that say NXDOMAIN; the others say NOERROR.
    pub nxdomain: u64,
    /// Replies to queries whose timeout had passed.
    pub late: u64,
    /// Queries without a reply in time.
    pub lost: u64,
    /// Further replies to answered queries.
    pub duplicates: u64,
    /// Replies that belong to no query.
    pub unexpected: u64,
    /// Number of times that a due query found no free id.
    pub blocked: u64,
    /// Octets of the queries that left.
    pub query_octets: u64,
    /// Octets of these replies.
    pub reply_octets: u64,
}

/// A query that was sent; times on the engine's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentQuery {
    /// Time at which it was due.
    pub due: Nanos,
    /// Time at which it left.
    pub sent: Nanos,
    /// Key of the query in the workload.
    pub key: u32,
    /// Source port from which it left.
    pub port: u16,
    /// Id of its DNS message.
    pub id: u16,
}
