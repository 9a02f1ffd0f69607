//! The transport of a trial's queries, and the counters of their server.

use std::fmt;

use measure::Transport;

/// A transport, and its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Transport of the queries over this way.
    pub transport: Transport,
    /// Number of clients, each with a connection, or with a port over UDP; `None` for the workers' own ports.
    pub clients: Option<u32>,
    /// Number of queries after which a connection is closed; unlimited if absent.
    pub per_connection: Option<u64>,
}

impl Way {
    /// The workers' own ports, over UDP.
    pub const SOCKETS: Way = Way { transport: Transport::Udp, clients: None, per_connection: None };

    /// Returns the way of `clients` over a transport.
    pub const fn of(transport: Transport, clients: u32) -> Self {
        Way { transport, clients: Some(clients), per_connection: None }
    }

    /// Returns whether a capture shows the messages: the transport is not encrypted.
    pub fn is_open(self) -> bool {
        !self.transport.uses_tls()
    }
}

impl fmt::Display for Way {
    /// Writes `udp`, or `tcp, 8 clients`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.clients, self.per_connection) {
            (None, _) => write!(f, "{}", self.transport),
            (Some(1), None) => write!(f, "{}, 1 client", self.transport),
            (Some(n), None) => write!(f, "{}, {n} clients", self.transport),
            (Some(n), Some(1)) => {
                write!(f, "{}, {n} clients, a connection for each query", self.transport)
            }
            (Some(n), Some(q)) => {
                write!(f, "{}, {n} clients, {q} queries a connection", self.transport)
            }
        }
    }
}

/// Counts of the server itself, with which the Tester's counts are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerCounts {
    /// Number of queries that the server received.
    pub queries: u64,
    /// Number of connections that the server accepted.
    pub connections: u64,
}

/// Queries of closed loops of one server.
#[derive(Debug, Default)]
pub(super) struct Loops {
    pub(super) sent: u64,
    /// Queries without an answer in time, which may not have reached the server.
    pub(super) lost: u64,
}
