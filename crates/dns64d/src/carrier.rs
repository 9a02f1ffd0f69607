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
mod shared;
mod upstream;

use std::cell::{Cell, RefCell};
use std::net::{TcpListener, UdpSocket};
use std::rc::Rc;
use std::time::Duration;

use dns64::streams::ToStreams;
use streams::tls::ServerTls;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

pub(crate) use self::budget::OutputBudget;
pub(crate) use self::shared::{ActiveSettings, Outgoing, Shared};
use self::shared::{Carrier, QUERY_BITS, Waiting};
use crate::beat::Beat;
use crate::worker::WorkerHandle;
use client::Protocol;

/// Time between two signs of life of the thread.
const TICK: Duration = Duration::from_secs(1);

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
    pub(crate) beat: Beat,
}

/// Runs all streams until the end.
///
/// # Errors
/// When the runtime cannot be made or a listener cannot be used.
pub(crate) fn run(start: Start) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    let Start { listeners, workers, active, mut messages, end, beat } = start;
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
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let message = tokio::select! {
                message = messages.recv() => message,
                _ = ticks.tick() => {
                    beat.give();
                    continue;
                }
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
