//! Counts of a load, made by a sender outside of the Tester's process, such as the kernel; and a
//! query that was sent.

use crate::units::Nanos;

/// Counts of a load so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Number of queries that left.
    pub sent: u64,
    /// Valid replies in time that the sender itself validated.
    pub valid: u64,
    /// Valid replies that arrived while queries were sent.
    pub while_sending: u64,
    /// Valid replies with NXDOMAIN; the others have NOERROR.
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
    /// Octets of the replies.
    pub reply_octets: u64,
}

/// A query that was sent; times on the engine's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentQuery {
    /// Time at which the query was due.
    pub due: Nanos,
    /// Time at which the query left.
    pub sent: Nanos,
    /// Key of the query in the workload.
    pub key: u32,
    /// Source port of the query.
    pub port: u16,
    /// Id of the query's DNS message.
    pub id: u16,
}
