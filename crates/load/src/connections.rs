//! Outcomes of the connections of a trial.
//!
//! ```text
//! attempts = established + failed before that + being opened at the end
//! established = completed + closed by the peer + failed after that + open at the end
//! ```

use std::collections::BTreeMap;

use engine::stream::{Failure, QueryFailure};
use measure::Histogram;

/// Highest number of reasons that are counted separately: the peer chooses the codes in them.
const MAX_REASONS: usize = 64;

/// Outcomes of the connections of a trial.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConnectionTally {
    /// Number of connections that were attempted.
    pub attempts: u64,
    /// Number of connections whose handshake ended well.
    pub established: u64,
    /// Established connections that resumed an earlier session.
    pub resumed: u64,
    /// Established connections whose peer accepted data before the end of the handshake.
    pub early_data: u64,
    /// Connections closed by the client after all their queries were answered.
    pub completed: u64,
    /// Completed connections that were closed because they were idle.
    pub closed_idle: u64,
    /// Connections closed by the peer while no query was outstanding.
    pub closed_by_peer: u64,
    /// Connections that failed, by reason ([`Failure::index`]).
    pub failed: [u64; Failure::ALL.len()],
    /// Connections on which a query was lost while others were answered; none where a query may only have lost its place.
    pub slow: u64,
    /// Queries that were lost with their connection.
    pub lost_with_connection: u64,
    /// Queries that ended without a reply before their timeout, by reason; queries that were lost
    /// because their connection failed included.
    pub queries_failed: BTreeMap<QueryFailure, u64>,
    /// Queries that the peer turned away unprocessed when it ended their connection, and that were sent again on
    /// another.
    pub turned_away: u64,
    /// Times that a query was sent again, since the peer closed its connection before the reply or gave none for some time.
    pub resent: u64,
    /// Queries that were repeated over TCP, since the reply was truncated.
    pub asked_over_tcp: u64,
    /// Queries that found no connection within their timeout.
    pub unserved: u64,
    /// Highest number of connections open at the same time, summed over the workers.
    pub peak: u64,
    /// Connections open at the end.
    pub open_at_end: u64,
    /// Connections that the peer refused, reset, closed or left silent until the timeout.
    pub unanswered: u64,
    /// Connections with a reply that have not ended.
    pub(crate) served: u64,
    /// Highest number of open connections with a reply at the same time, summed over the workers.
    pub served_peak: u64,
    /// Time until the peer's kernel accepted the connection.
    pub connect: Histogram,
    /// Time until queries could be sent, including `connect`.
    pub handshake: Histogram,
    /// Latency from sending to reply of the first query of each connection.
    pub first_query: Histogram,
    /// Latency from sending to reply of all later queries.
    pub steady: Histogram,
}

impl ConnectionTally {
    /// Returns the number of connections that failed.
    pub fn failures(&self) -> u64 {
        self.failed.iter().sum()
    }

    /// Counts queries that failed for a reason.
    pub(crate) fn count_failed(&mut self, why: QueryFailure, queries: u64) {
        let known =
            self.queries_failed.len() < MAX_REASONS || self.queries_failed.contains_key(&why);
        let why = if known { why } else { QueryFailure::Other };
        if queries > 0 {
            *self.queries_failed.entry(why).or_default() += queries;
        }
    }

    /// Adds another worker's tally of the same trial.
    pub fn merge(&mut self, other: &ConnectionTally) {
        measure::add!(self, other;
            attempts, established, resumed, early_data, completed, closed_idle, closed_by_peer,
            slow, lost_with_connection, turned_away, resent, asked_over_tcp, unserved, peak,
            unanswered, served_peak, open_at_end);
        self.failed.iter_mut().zip(&other.failed).for_each(|(a, b)| *a += b);
        other.queries_failed.iter().for_each(|(&why, &count)| self.count_failed(why, count));
        self.connect.merge(&other.connect);
        self.handshake.merge(&other.handshake);
        self.first_query.merge(&other.first_query);
        self.steady.merge(&other.steady);
    }
}
