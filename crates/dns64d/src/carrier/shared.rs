//! What the tasks of all streams share, and the messages between them and the workers.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use dns64::Settings;
use dns64::streams::{FromStreams, ToStreams};
use rustls::ClientConfig;
use tokio::sync::mpsc;

use super::budget::Reservation;
use super::upstream::{Pool, Query};
use crate::worker::WorkerHandle;

/// State shared by all streams.
pub(crate) struct Carrier {
    pub(super) workers: Vec<WorkerHandle>,
    pub(super) active: Shared,
    /// Open connections of clients by number, each with the channel to it.
    pub(super) connections: RefCell<HashMap<u64, mpsc::UnboundedSender<Waiting>>>,
    /// Number of connections of each client network.
    pub(super) networks: RefCell<HashMap<IpAddr, usize>>,
    pub(super) next: Cell<u64>,
    /// Connections to upstream servers.
    pub(super) upstreams: RefCell<HashMap<SocketAddr, Pool>>,
    /// Time of the last warning that TLS with an upstream server failed.
    pub(super) warned_at: Cell<Option<tokio::time::Instant>>,
}

/// Message of a worker to a stream.
pub(crate) struct Outgoing {
    /// Number of the worker.
    pub(crate) worker: usize,
    pub(crate) message: ToStreams,
    /// Memory reserved for an answer until it is written.
    pub(crate) reservation: Option<Reservation>,
}

/// An answer, with the memory reserved for it.
pub(super) struct Waiting {
    pub(super) message: Vec<u8>,
    pub(super) reservation: Option<Reservation>,
}

/// Number of bits for queries of one connection: the lower bits of a stream's number.
pub(super) const QUERY_BITS: u32 = 24;

/// Settings that a reload replaces.
#[derive(Clone)]
pub(crate) struct ActiveSettings {
    pub(crate) settings: Arc<Settings>,
    /// TLS settings for upstream; `None` without TLS.
    pub(crate) upstream_tls: Option<Arc<ClientConfig>>,
}

/// Active settings, shared by the carrier and the thread that reloads.
pub(crate) type Shared = Arc<Mutex<ActiveSettings>>;

impl Carrier {
    /// Returns the active settings with the TLS settings.
    pub(super) fn active(&self) -> ActiveSettings {
        self.active.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the active settings.
    pub(super) fn settings(&self) -> Arc<Settings> {
        self.active().settings
    }

    /// Returns the number of a new connection.
    pub(super) fn number(&self) -> u64 {
        self.next.replace(self.next.get() + 1)
    }

    /// Passes a query to a worker: with its number on a connection, or `None` for a query that has a
    /// connection of its own. Returns whether the worker took it.
    pub(super) fn query(
        &self,
        connection: u64,
        number: Option<u64>,
        client: IpAddr,
        message: Vec<u8>,
    ) -> bool {
        let framed = number.is_some();
        let stream = connection << QUERY_BITS | number.unwrap_or(0) & ((1 << QUERY_BITS) - 1);
        let worker = &self.workers[connection as usize % self.workers.len()];
        worker.send(FromStreams::Query { stream, framed, client, message })
    }

    /// Passes the reply to an upstream query, or its failure, to the worker that sent it.
    pub(super) fn reply(&self, query: &Query, message: Option<Vec<u8>>) {
        let Query { worker, lookup, ticket, .. } = *query;
        self.workers[worker].send(FromStreams::Reply { lookup, ticket, message });
    }
}
