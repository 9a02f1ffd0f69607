//! Streams: TCP, TLS, HTTP and QUIC of clients (RFC 7766, 7858, 8484, 9250), TCP and TLS to upstream servers; carried for
//! the workers by one thread.
//!
//! ```text
//!   client ──frames──> connection ──Query──> worker          worker ──Ask──> upstream connection ──frames──> server
//!   client <──frames── connection <─Answer── worker          worker <─Reply─ upstream connection <─frames─── server
//! ```
//!
//! Queries on a connection are worked on side by side and answered as the answers come. Connections, queries at once
//! on one, and silence are bounded.

mod client;
mod frames;
mod requests;
mod room;
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

pub(crate) use self::room::{Room, Taken};
use crate::worker::Line;
use client::Speaks;

/// What all streams share.
pub(crate) struct Carrier {
    lines: Vec<Line>,
    in_force: Shared,
    /// The client connections that are open, by number, with the way to each.
    connections: RefCell<HashMap<u64, mpsc::UnboundedSender<Waiting>>>,
    /// How many each client network has.
    networks: RefCell<HashMap<IpAddr, usize>>,
    next: Cell<u64>,
    /// Connections to upstream servers.
    upstreams: RefCell<HashMap<SocketAddr, upstream::Pool>>,
    /// When the log was last told that there is no TLS with one of them.
    complained: Cell<Option<tokio::time::Instant>>,
}

/// What a worker has for a stream.
pub(crate) struct Outgoing {
    /// The worker.
    pub(crate) worker: usize,
    pub(crate) message: ToStreams,
    /// The room that an answer takes until it is written.
    pub(crate) room: Option<Taken>,
}

/// An answer, and the room that it takes.
struct Waiting {
    message: Vec<u8>,
    room: Option<Taken>,
}

/// Queries of one connection: the lower bits of a stream's number.
const QUERY_BITS: u32 = 24;

/// What a reload changes.
#[derive(Clone)]
pub(crate) struct InForce {
    pub(crate) settings: Arc<Settings>,
    /// How upstream is asked by TLS.
    pub(crate) upstream_tls: Option<Arc<ClientConfig>>,
}

/// The same for the carrier and for who reloads.
pub(crate) type Shared = Arc<Mutex<InForce>>;

/// Where clients' streams come from, and what we show there.
pub(crate) enum Listener {
    /// TCP.
    Plain(TcpListener),
    /// TLS.
    Tls(TcpListener, ServerTls),
    /// HTTP/2.
    Http(TcpListener, ServerTls),
    /// QUIC or HTTP/3, as the client wishes and we show.
    Quic(UdpSocket, ServerTls),
}

/// What the thread is started with.
pub(crate) struct Start {
    pub(crate) listeners: Vec<Listener>,
    pub(crate) lines: Vec<Line>,
    pub(crate) in_force: Shared,
    pub(crate) messages: mpsc::UnboundedReceiver<Outgoing>,
    pub(crate) end: CancellationToken,
}

/// Carries streams until the end.
///
/// # Errors
/// When the runtime cannot be made or a listener not be used.
pub(crate) fn run(start: Start) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    let Start { listeners, lines, in_force, mut messages, end } = start;
    let carrier = Rc::new(Carrier {
        lines,
        in_force,
        connections: RefCell::default(),
        networks: RefCell::default(),
        next: Cell::new(0),
        upstreams: RefCell::default(),
        complained: Cell::new(None),
    });
    local.block_on(&runtime, async {
        for listener in listeners {
            let (socket, speaks) = match listener {
                Listener::Plain(socket) => (socket, Speaks::Frames),
                Listener::Tls(socket, tls) => (socket, Speaks::Tls(tls)),
                Listener::Http(socket, tls) => (socket, Speaks::Http(tls)),
                Listener::Quic(socket, tls) => {
                    requests::spawn_quic(socket, tls, &carrier);
                    continue;
                }
            };
            let socket = tokio::net::TcpListener::from_std(socket)?;
            tokio::task::spawn_local(client::accept(socket, speaks, carrier.clone()));
        }
        loop {
            let message = tokio::select! {
                message = messages.recv() => message,
                () = end.cancelled() => return Ok(()),
            };
            match message {
                Some(Outgoing { message: ToStreams::Answer { stream, message }, room, .. }) => {
                    let connections = carrier.connections.borrow();
                    if let Some(connection) = connections.get(&(stream >> QUERY_BITS)) {
                        // Who has closed his connection wants no answer.
                        let _ = connection.send(Waiting { message, room });
                    }
                }
                Some(Outgoing {
                    worker,
                    message: ToStreams::Ask { server, lookup, ticket, message },
                    ..
                }) => {
                    let ask = upstream::Ask { worker, lookup, ticket, message, again: true };
                    carrier.ask(server, ask);
                }
                None => return Ok(()),
            }
        }
    })
}

impl Carrier {
    /// What is in force.
    fn in_force(&self) -> InForce {
        self.in_force.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The settings in force.
    fn settings(&self) -> Arc<Settings> {
        self.in_force().settings
    }

    /// A number for one more connection.
    fn number(&self) -> u64 {
        self.next.replace(self.next.get() + 1)
    }

    /// Hands a query to a worker: with its number on its connection, or one that has the connection for itself.
    fn query(
        &self,
        connection: u64,
        number: Option<u64>,
        client: IpAddr,
        message: Vec<u8>,
    ) -> bool {
        let framed = number.is_some();
        let stream = connection << QUERY_BITS | number.unwrap_or(0) & ((1 << QUERY_BITS) - 1);
        let line = &self.lines[connection as usize % self.lines.len()];
        line.send(FromStreams::Query { stream, framed, client, message })
    }

    /// Hands what came of an upstream query to the worker that asked.
    fn reply(&self, ask: &upstream::Ask, message: Option<Vec<u8>>) {
        let upstream::Ask { worker, lookup, ticket, .. } = *ask;
        self.lines[worker].send(FromStreams::Reply { lookup, ticket, message });
    }
}
