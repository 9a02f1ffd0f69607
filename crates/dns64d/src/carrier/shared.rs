//! State shared by the tasks of all streams, and their messages to and from the workers.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError};

use dns64::Settings;
use dns64::streams::FromStreams;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::active::{ActiveSettings, Shared, TlsWarnings};
use super::budget::{Budget, Reservation};
use super::places::Places;
use super::threads::Threads;
use super::upstream::{ConnectionPool, Query};
use crate::worker::WorkerHandle;

/// State shared by all threads of the streams.
#[derive(Clone)]
pub(crate) struct Common {
    pub(crate) threads: Threads,
    pub(crate) workers: Vec<WorkerHandle>,
    pub(crate) active: Shared,
    pub(crate) places: Arc<Places>,
    pub(crate) budget: Budget,
    pub(crate) end: CancellationToken,
    /// Ends the accepting of connections over TCP.
    pub(crate) accepting: CancellationToken,
}

/// State shared by all streams of a thread.
pub(crate) struct Carrier {
    /// Number of this thread.
    pub(super) thread: usize,
    pub(super) common: Common,
    /// Open connections of clients by number, each with the channel to it.
    pub(super) connections: RefCell<HashMap<u64, mpsc::UnboundedSender<ReservedAnswer>>>,
    /// Number of the next connection or request.
    pub(super) next: Cell<u64>,
    pub(super) upstreams: RefCell<HashMap<SocketAddr, ConnectionPool>>,
    pub(super) tls_warnings: TlsWarnings,
}

/// An answer, with the memory reserved for it until it is written and, over QUIC, acknowledged.
pub(super) struct ReservedAnswer {
    pub(super) message: Vec<u8>,
    pub(super) reservation: Option<Reservation>,
}

impl AsRef<[u8]> for ReservedAnswer {
    fn as_ref(&self) -> &[u8] {
        &self.message
    }
}

/// Longest query in octets; a name, a type and all usual options take less. A client that sends
/// more is disconnected.
pub(super) const MAX_QUERY: usize = 4 << 10;

impl Carrier {
    /// Returns the active settings, and how encrypted connections to upstream are made.
    pub(super) fn active(&self) -> ActiveSettings {
        self.common.active.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn settings(&self) -> Arc<Settings> {
        self.active().settings
    }

    /// Returns the number of a new connection or request; its remainder by the number of threads is the thread.
    pub(super) fn number(&self) -> u64 {
        let count = self.next.replace(self.next.get() + 1);
        count * self.common.threads.len() as u64 + self.thread as u64
    }

    /// Returns this thread's share of the `all` connections to an upstream server.
    pub(super) fn upstream_share(&self, all: usize) -> usize {
        let threads = self.common.threads.len().min(all.max(1));
        (all / threads + usize::from(self.thread < all % threads)).max(1)
    }

    /// Passes the reply to an upstream query, or its failure, to the worker that sent it. A reply for which there is no
    /// memory is a failure.
    pub(super) fn reply(&self, query: &Query, message: Option<Vec<u8>>) {
        let Query { worker, lookup, ticket, .. } = *query;
        let Common { workers, budget, .. } = &self.common;
        let memory = budget.take(message.as_ref().map_or(0, Vec::len));
        let message = message.filter(|_| memory.is_some());
        let memory = memory.unwrap_or_else(|| budget.none());
        workers[worker].send(FromStreams::Reply { lookup, ticket, message }, Some(memory));
    }
}
