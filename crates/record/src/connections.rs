//! What became of the connections of a trial over streams.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::times::Times;

/// What became of the connections of a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Connections {
    /// Clients; each has one connection at a time.
    pub clients: u32,
    /// Queries of a connection before another is opened; absent: no end.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub queries_per_connection: Option<u64>,
    /// Queries outstanding on a connection at most.
    pub outstanding: u32,
    /// Connections tried.
    pub attempts: u64,
    /// Connections that came to be.
    pub established: u64,
    /// Those that resumed an earlier session.
    pub resumed: u64,
    /// `resumed` as a share (0 to 1) of `established`.
    pub resumption_rate: f64,
    /// Those whose peer took data before the handshake was done (0-RTT).
    pub early_data: u64,
    /// Closed by the Tester when their queries were answered.
    pub completed: u64,
    /// Those of them that had been without a query for too long.
    #[serde(default)]
    pub closed_idle: u64,
    /// Closed by the server when no query was outstanding.
    pub closed_by_server: u64,
    /// Failed, by reason.
    pub failed: BTreeMap<String, u64>,
    /// Connections on which a query was lost while others were answered.
    pub slow: u64,
    /// Queries lost with their connection.
    pub lost_with_connection: u64,
    /// Queries that found no connection in time.
    pub unserved: u64,
    /// The most that were up at once.
    pub peak: u64,
    /// Up at the end.
    pub open_at_end: u64,
    /// Microseconds until the server's kernel took the connection.
    pub connect_us: Times,
    /// Microseconds until queries could be sent, the above included.
    pub handshake_us: Times,
    /// From sent to reply, the first query of each connection.
    pub first_query_us: Times,
    /// From sent to reply, later queries.
    pub steady_us: Times,
    /// Bytes of payload that TCP or UDP carried to the server, handshakes included.
    pub bytes_sent: u64,
    /// Bytes of payload from the server.
    pub bytes_received: u64,
    /// System calls that wrote.
    pub writes: u64,
    /// System calls that read something.
    pub reads: u64,
    /// Of a mix of transports: the same of each, but for bytes and calls, which are told of all together.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub by_transport: BTreeMap<String, Connections>,
}
