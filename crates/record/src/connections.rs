//! Connections of a trial over streams.

use std::collections::BTreeMap;

use measure::Places;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::series::is_zero;
use crate::times::Times;

/// Counts, times and bytes of the connections of a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Connections {
    /// Number of clients; each has one connection at a time.
    pub clients: u32,
    /// Number of queries of a connection before another is opened; absent if unlimited.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub queries_per_connection: Option<u64>,
    /// Largest number of queries outstanding on a connection.
    pub outstanding: u32,
    /// Number of connections that were attempted.
    pub attempts: u64,
    /// Number of connections whose handshake ended well.
    pub established: u64,
    /// Established connections that resumed an earlier session.
    pub resumed: u64,
    /// `resumed` as a share (0 to 1) of `established`.
    pub resumption_rate: f64,
    /// Connections whose server accepted data before the end of the handshake (0-RTT).
    pub early_data: u64,
    /// Connections that the Tester closed after their queries were answered.
    pub completed: u64,
    /// Completed connections that the Tester closed because they were idle for too long.
    #[serde(default)]
    pub closed_idle: u64,
    /// Connections that the server closed while no query was outstanding.
    pub closed_by_server: u64,
    /// Number of connections that failed, by reason.
    pub failed: BTreeMap<String, u64>,
    /// Connections that lost a query while others were answered.
    pub slow: u64,
    /// Queries lost because their connection failed.
    pub lost_with_connection: u64,
    /// Queries that ended without a reply before their timeout, by reason: an HTTP status, a stream reset, the end of
    /// their connection. They are among the lost ones.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub queries_failed: BTreeMap<String, u64>,
    /// Queries that the server had not processed when it closed their connection, and that were
    /// sent again on another.
    #[serde(default)]
    pub turned_away: u64,
    /// Times that a query was sent again, since the server closed its connection before the reply or gave none for some time.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub resent: u64,
    /// Queries that were repeated over TCP, since the reply over UDP was truncated.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub asked_over_tcp: u64,
    /// Streams that the server refused, and that were opened again after a pause.
    #[serde(default)]
    pub streams_refused: u64,
    /// Queries that waited because the server permits no further streams at a time.
    #[serde(default)]
    pub streams_waited: u64,
    /// Queries that got no connection in time.
    pub unserved: u64,
    /// Largest number of connections open at once.
    pub peak: u64,
    /// Connections open at the end.
    pub open_at_end: u64,
    /// Connections that never carried a reply: refused, reset, closed, or silent until the timeout.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub unanswered: u64,
    /// Largest number of connections with a reply at the same time.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub served_peak: u64,
    /// Time until the server's kernel accepted the connection, in microseconds.
    pub connect_us: Times,
    /// Time until queries could be sent, in microseconds, `connect_us` included.
    pub handshake_us: Times,
    /// Time from sent to reply of the first query of each connection, in microseconds.
    pub first_query_us: Times,
    /// Time from sent to reply of later queries, in microseconds.
    pub steady_us: Times,
    /// Payload bytes that TCP or UDP carried to the server, handshakes included.
    pub bytes_sent: u64,
    /// Payload bytes from the server.
    pub bytes_received: u64,
    /// System calls that wrote data.
    pub writes: u64,
    /// System calls that read data.
    pub reads: u64,
    /// Connections of each transport in a mix; bytes and system calls are counted for all transports together.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub by_transport: BTreeMap<String, Connections>,
}

impl Connections {
    /// Returns the counts that show whether the server had too few places for connections.
    pub fn places(&self) -> Places {
        let (connections, open) = (self.attempts, self.peak);
        Places { connections, unanswered: self.unanswered, at_once: self.served_peak, open }
    }
}
