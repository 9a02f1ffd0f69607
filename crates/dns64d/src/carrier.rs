//! The carrier: the thread that has all streams, for all workers. Clients use TCP, TLS, HTTP and QUIC (RFC 7766, 7858,
//! 8484, 9250), upstream servers TCP and TLS.
//!
//! ```text
//!   client ──frames──> connection ──Query──> worker          worker ─Query──> upstream connection ──frames──> server
//!   client <──frames── connection <─Answer── worker          worker <─Reply─ upstream connection <─frames─── server
//! ```
//!
//! Queries on a connection are handled in parallel and answered in the order in which the answers arrive. The
//! number of connections, the queries on one connection and the idle time are limited.

mod budget;
mod client;
mod frames;
mod requests;
mod upstream;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use dns64::Settings;
use dns64::streams::{FromStreams, ToStreams};
use rustls::ClientConfig;
use streams::tls::ServerTls;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub(crate) use self::budget::{OutputBudget, Reservation};
use crate::worker::WorkerHandle;
use client::Protocol;

/// State shared by all streams.
pub(crate) struct Carrier {
    workers: Vec<WorkerHandle>,
    active: Shared,
    /// Open connections of clients by number, each with the channel to it.
    connections: RefCell<HashMap<u64, mpsc::UnboundedSender<Waiting>>>,
    /// Number of connections of each client network.
    networks: RefCell<HashMap<IpAddr, usize>>,
    next: Cell<u64>,
    /// Connections to upstream servers.
    upstreams: RefCell<HashMap<SocketAddr, upstream::Pool>>,
    /// Time of the last warning that TLS with an upstream server failed.
    warned_at: Cell<Option<tokio::time::Instant>>,
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
struct Waiting {
    message: Vec<u8>,
    reservation: Option<Reservation>,
}

/// Number of bits for queries of one connection: the lower bits of a stream's number.
const QUERY_BITS: u32 = 24;

/// Settings that a reload replaces.
#[derive(Clone)]
pub(crate) struct ActiveSettings {
    pub(crate) settings: Arc<Settings>,
    /// TLS settings for upstream; `None` without TLS.
    pub(crate) upstream_tls: Option<Arc<ClientConfig>>,
}

/// Active settings, shared by the carrier and the thread that reloads.
pub(crate) type Shared = Arc<Mutex<ActiveSettings>>;

/// Listening socket for clients' streams, with its certificate.
pub(crate) enum Listener {
    /// TCP.
    Plain(TcpListener),
    /// TLS.
    Tls(TcpListener, ServerTls),
    /// HTTP/2.
    Http(TcpListener, ServerTls),
    /// QUIC or HTTP/3, as negotiated by ALPN.
    Quic(UdpSocket, ServerTls),
}

/// Parameters of the thread.
pub(crate) struct Start {
    pub(crate) listeners: Vec<Listener>,
    pub(crate) workers: Vec<WorkerHandle>,
    pub(crate) active: Shared,
    pub(crate) messages: mpsc::UnboundedReceiver<Outgoing>,
    pub(crate) end: CancellationToken,
}

/// Runs all streams until the end.
///
/// # Errors
/// When the runtime cannot be made or a listener cannot be used.
pub(crate) fn run(start: Start) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    let Start { listeners, workers, active, mut messages, end } = start;
    let carrier = Rc::new(Carrier {
        workers,
        active,
        connections: RefCell::default(),
        networks: RefCell::default(),
        next: Cell::new(0),
        upstreams: RefCell::default(),
        warned_at: Cell::new(None),
    });
    local.block_on(&runtime, async {
        for listener in listeners {
            let (socket, protocol) = match listener {
                Listener::Plain(socket) => (socket, Protocol::Frames),
                Listener::Tls(socket, tls) => (socket, Protocol::Tls(tls)),
                Listener::Http(socket, tls) => (socket, Protocol::Http(tls)),
                Listener::Quic(socket, tls) => {
                    requests::spawn_quic(socket, tls, &carrier);
                    continue;
                }
            };
            let socket = tokio::net::TcpListener::from_std(socket)?;
            tokio::task::spawn_local(client::accept(socket, protocol, carrier.clone()));
        }
        loop {
            let message = tokio::select! {
                message = messages.recv() => message,
                () = end.cancelled() => return Ok(()),
            };
            match message {
                Some(Outgoing {
                    message: ToStreams::Answer { stream, message },
                    reservation,
                    ..
                }) => {
                    let connections = carrier.connections.borrow();
                    if let Some(connection) = connections.get(&(stream >> QUERY_BITS)) {
                        // A client that has closed its connection gets no answer.
                        let _ = connection.send(Waiting { message, reservation });
                    }
                }
                Some(Outgoing {
                    worker,
                    message: ToStreams::Query { server, lookup, ticket, message },
                    ..
                }) => {
                    let query = upstream::Query { worker, lookup, ticket, message, again: true };
                    carrier.query_upstream(server, query);
                }
                None => return Ok(()),
            }
        }
    })
}

impl Carrier {
    /// Returns the active settings with the TLS settings.
    fn active(&self) -> ActiveSettings {
        self.active.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the active settings.
    fn settings(&self) -> Arc<Settings> {
        self.active().settings
    }

    /// Returns the number of a new connection.
    fn number(&self) -> u64 {
        self.next.replace(self.next.get() + 1)
    }

    /// Passes a query to a worker: with its number on a connection, or `None` for a query that has a
    /// connection of its own. Returns whether the worker took it.
    fn query(
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
    fn reply(&self, query: &upstream::Query, message: Option<Vec<u8>>) {
        let upstream::Query { worker, lookup, ticket, .. } = *query;
        self.workers[worker].send(FromStreams::Reply { lookup, ticket, message });
    }
}
