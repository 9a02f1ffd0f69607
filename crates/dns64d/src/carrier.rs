//! The carrier: the threads that have all streams, for all workers. Clients use TCP, TLS, HTTP and QUIC (RFC 7766, 7858,
//! 8484, 9250), and so do upstream servers.
//!
//! ```text
//!   client ──frames──> connection ──Query──> worker          worker ─Query──> upstream connection ──frames──> server
//!   client <──frames── connection <─Answer── worker          worker <─Reply─ upstream connection <─frames─── server
//! ```
//!
//! Each thread accepts connections over TCP from all listening sockets. A QUIC socket belongs to one thread, which
//! spreads its connections over all. Queries on a connection are handled in parallel and answered in the order in which
//! the answers arrive. Who may have a connection: [`places`]; the memory of all: [`budget`].

mod active;
mod budget;
mod client;
mod frames;
mod places;
mod requests;
mod shared;
mod threads;
mod upstream;
mod visit;

use std::cell::{Cell, RefCell};
use std::net::{TcpListener, UdpSocket};
use std::rc::Rc;
use std::time::Duration;

use dns64::streams::ToStreams;
use measure::Transport;
use streams::tls::ServerTls;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};

use self::active::TlsWarnings;
pub(crate) use self::active::{ActiveSettings, Shared};
pub(crate) use self::budget::{Budget, Reservation};
pub(crate) use self::client::Protocol;
pub(crate) use self::places::{Closed, Places, Refusal, Traffic};
pub(crate) use self::shared::Common;
use self::shared::{Carrier, ReservedAnswer};
use self::threads::QUERY_BITS;
pub(crate) use self::threads::{Message, Outgoing, Threads};
use crate::beat::Beat;

/// Time between two signs of life of a thread.
const TICK: Duration = Duration::from_secs(1);
/// Time at the end of a thread in which its connections write the last answers.
const LAST_WRITES: Duration = Duration::from_millis(50);

/// Listening socket for clients' streams, with its certificate.
pub(crate) enum Listener {
    Tcp(TcpListener, Protocol),
    /// QUIC or HTTP/3, as the transport says.
    Quic(UdpSocket, ServerTls, Transport),
}

impl Listener {
    /// Returns the listener for another thread; `None` for a socket that belongs to one thread.
    ///
    /// # Errors
    /// When there is no descriptor left.
    pub(crate) fn try_clone(&self) -> std::io::Result<Option<Self>> {
        Ok(match self {
            Listener::Tcp(socket, protocol) => {
                Some(Listener::Tcp(socket.try_clone()?, protocol.clone()))
            }
            Listener::Quic(..) => None,
        })
    }
}

/// Start parameters of one thread of the streams.
pub(crate) struct CarrierStart {
    pub(crate) thread: usize,
    pub(crate) listeners: Vec<Listener>,
    pub(crate) messages: mpsc::UnboundedReceiver<Message>,
    pub(crate) beat: Beat,
    pub(crate) common: Common,
}

/// Runs the streams of a thread until the end.
///
/// # Errors
/// When the runtime cannot be made or a listener cannot be used.
pub(crate) fn run(start: CarrierStart) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    let CarrierStart { thread, listeners, mut messages, beat, common } = start;
    let end = common.end.clone();
    let carrier = Rc::new(Carrier {
        thread,
        common,
        connections: RefCell::default(),
        next: Cell::new(0),
        upstreams: RefCell::default(),
        tls_warnings: TlsWarnings::default(),
    });
    local.block_on(&runtime, async {
        for listener in listeners {
            listen(listener, &carrier)?;
        }
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let message = tokio::select! {
                biased;
                _ = ticks.tick() => {
                    beat.give();
                    continue;
                }
                message = messages.recv() => message,
                () = end.cancelled() => break,
            };
            match message {
                Some(Message::Outgoing(outgoing)) => carrier.pass(outgoing),
                Some(Message::Visit(visit)) => {
                    tokio::task::spawn_local(requests::serve(*visit, carrier.clone()));
                }
                None => break,
            }
        }
        // The connections write the last answers.
        tokio::time::sleep(LAST_WRITES).await;
        Ok(())
    })
}

fn listen(listener: Listener, carrier: &Rc<Carrier>) -> std::io::Result<()> {
    let (socket, protocol) = match listener {
        Listener::Tcp(socket, protocol) => (socket, protocol),
        Listener::Quic(socket, tls, transport) => {
            let carrier = carrier.clone();
            tokio::task::spawn_local(async move {
                if let Err(error) = requests::accept(socket, tls, transport, carrier).await {
                    tracing::error!("{transport}: {error}");
                }
            });
            return Ok(());
        }
    };
    let socket = tokio::net::TcpListener::from_std(socket)?;
    let accept = client::accept(socket, protocol, carrier.clone());
    let accepting = carrier.common.accepting.clone();
    tokio::task::spawn_local(accepting.run_until_cancelled_owned(accept));
    Ok(())
}

impl Carrier {
    /// Passes a message of a worker to a client or to an upstream server.
    fn pass(self: &Rc<Self>, outgoing: Outgoing) {
        let Outgoing { worker, message, reservation } = outgoing;
        match message {
            ToStreams::Answer { stream, message, .. } => {
                if let Some(connection) = self.connections.borrow().get(&(stream >> QUERY_BITS)) {
                    // A client that has closed its connection gets no answer.
                    let _ = connection.send(ReservedAnswer { message, reservation });
                }
            }
            ToStreams::Query { server, lookup, ticket, message } => {
                let until = Instant::now() + self.settings().config.upstream.give_up_after.into();
                let tries = upstream::TRIES;
                let query = upstream::Query { worker, lookup, ticket, message, tries, until };
                self.query_upstream(server, query);
            }
        }
    }
}
