//! What became of the connections of a trial.
//!
//! ```text
//! attempts = established + failed before that + under way at the end
//! established = completed + closed by the peer + failed after that + open at the end
//! ```

use measure::Histogram;
use net::stream::Failure;

/// What became of the connections of a trial.
#[derive(Clone, Debug, PartialEq)]
pub struct ConnectionTally {
    /// Connections that were tried.
    pub attempts: u64,
    /// Connections that came to be.
    pub established: u64,
    /// Those of them that resumed an earlier session.
    pub resumed: u64,
    /// Those of them whose peer took data before the handshake was done.
    pub early_data: u64,
    /// Closed by us when all their queries were answered.
    pub completed: u64,
    /// Those of them that were closed because they had been idle.
    pub closed_idle: u64,
    /// Closed by the peer when no query was outstanding.
    pub closed_by_peer: u64,
    /// Failed, by reason ([`Failure::index`]).
    pub failed: [u64; Failure::ALL.len()],
    /// Connections on which a query was lost while others were answered.
    pub slow: u64,
    /// Queries that were lost with their connection.
    pub lost_with_connection: u64,
    /// Queries that found no connection within their timeout.
    pub unserved: u64,
    /// The most that were up at once, summed over the workers.
    pub peak: u64,
    /// Up at the end.
    pub open_at_end: u64,
    /// Until the peer's kernel took the connection.
    pub connect: Histogram,
    /// Until queries could be sent, the above included.
    pub handshake: Histogram,
    /// From sent to reply, the first query of each connection.
    pub first_query: Histogram,
    /// From sent to reply, the queries after that.
    pub steady: Histogram,
}

impl Default for ConnectionTally {
    fn default() -> Self {
        ConnectionTally {
            attempts: 0,
            established: 0,
            resumed: 0,
            early_data: 0,
            completed: 0,
            closed_idle: 0,
            closed_by_peer: 0,
            failed: [0; Failure::ALL.len()],
            slow: 0,
            lost_with_connection: 0,
            unserved: 0,
            peak: 0,
            open_at_end: 0,
            connect: Histogram::new(),
            handshake: Histogram::new(),
            first_query: Histogram::new(),
            steady: Histogram::new(),
        }
    }
}

impl ConnectionTally {
    /// Connections that failed.
    pub fn failures(&self) -> u64 {
        self.failed.iter().sum()
    }

    /// Adds another worker's tally of the same trial.
    pub fn merge(&mut self, other: &ConnectionTally) {
        self.attempts += other.attempts;
        self.established += other.established;
        self.resumed += other.resumed;
        self.early_data += other.early_data;
        self.completed += other.completed;
        self.closed_idle += other.closed_idle;
        self.closed_by_peer += other.closed_by_peer;
        self.failed.iter_mut().zip(&other.failed).for_each(|(a, b)| *a += b);
        self.slow += other.slow;
        self.lost_with_connection += other.lost_with_connection;
        self.unserved += other.unserved;
        self.peak += other.peak;
        self.open_at_end += other.open_at_end;
        self.connect.merge(&other.connect);
        self.handshake.merge(&other.handshake);
        self.first_query.merge(&other.first_query);
        self.steady.merge(&other.steady);
    }
}
