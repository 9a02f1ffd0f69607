//! Queries that each have a stream of their own: HTTP and QUIC.

use std::io;
use std::net::UdpSocket;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use dns64::config::Denied;
use http::HeaderValue;
use measure::Transport;
use streams::serve::{Answer, Attempt, Ending, QuicServer, Sender, StreamLimits};
use streams::tls::ServerTls;
use tokio::time::{Instant, timeout, timeout_at};
use wire::Query;
use wire::extend::KEEPALIVE;

use super::places::{HANDSHAKE, Refusal, Usage};
use super::shared::{Carrier, MAX_QUERY};
use super::threads::Message;
use super::visit::{ConnectionAttempt, Grant};

/// Memory that a request takes until its answer is there, in octets: the state of its stream and of its task.
const REQUEST_MEMORY: usize = 2 << 10;
/// Highest number of octets of a QUIC connection that are on the way, in each direction.
const QUIC_WINDOW: u32 = 64 << 10;

/// Passes requests of a connection to the workers.
pub(super) struct Requests {
    pub(super) carrier: Rc<Carrier>,
    pub(super) usage: Usage,
    /// Value of the Alt-Svc header: other endpoints of the server.
    pub(super) alternative: Option<HeaderValue>,
}

impl Answer for Requests {
    async fn answer(&self, sender: Sender, message: Vec<u8>) -> Bytes {
        let _pending = self.usage.query();
        let Some(_memory) = self.usage.account().take(REQUEST_MEMORY) else {
            return Bytes::new();
        };
        let mut line = self.carrier.answer_channel();
        if !line.query(None, sender.client.ip(), &self.usage, message) {
            return Bytes::new();
        }
        line.answers.recv().await.map(Bytes::from_owner).unwrap_or_default()
    }

    fn is_forbidden(&self, message: &[u8]) -> bool {
        let edns = Query::parse(message).ok().and_then(|query| query.edns);
        edns.is_some_and(|edns| edns.option(KEEPALIVE).is_some())
    }

    fn freshness(&self, reply: &[u8]) -> Option<u32> {
        // An answer without a TTL gets a freshness of 0, since a cache could otherwise choose one
        // (RFC 9111 section 4.2.2).
        Some(wire::message::freshness(reply).unwrap_or(0))
    }

    fn alternative(&self) -> Option<HeaderValue> {
        self.alternative.clone()
    }
}

/// Returns the limits of a connection with streams.
pub(super) fn limits(carrier: &Carrier) -> StreamLimits {
    let settings = carrier.settings();
    let limits = &settings.config.limits;
    StreamLimits {
        connections: limits.tcp_connections,
        streams: u32::try_from(limits.tcp_pipelined).unwrap_or(u32::MAX),
        idle: Duration::from(limits.tcp_idle),
        message: MAX_QUERY,
        window: QUIC_WINDOW,
    }
}

/// Accepts connections over QUIC for ever, and spreads them over the threads.
///
/// # Errors
/// When QUIC cannot use the certificate, or the runtime refuses the socket.
pub(super) async fn accept(
    socket: UdpSocket,
    tls: ServerTls,
    transport: Transport,
    carrier: Rc<Carrier>,
) -> io::Result<()> {
    let mut server = QuicServer::new(socket, tls, limits(&carrier))?;
    let mut next = 0;
    while let Some(attempt) = server.accept().await {
        if let Some(visit) = admit(attempt, transport, &carrier) {
            next = (next + 1) % carrier.common.threads.len();
            carrier.common.threads.send(next, Message::Visit(Box::new(visit)));
        }
    }
    Ok(())
}

/// Decides about an attempt; an accepted attempt takes a place only if its client has proved its
/// address.
fn admit(attempt: Attempt, transport: Transport, carrier: &Carrier) -> Option<ConnectionAttempt> {
    let settings = carrier.settings();
    let (config, client) = (&settings.config, attempt.client().ip());
    let places = &carrier.common.places;
    if !config.server.permits(client) {
        places.refuse(transport, Refusal::Client);
        match config.server.denied {
            Denied::Refuse => attempt.refuse(),
            Denied::Drop => attempt.ignore(),
        }
        return None;
    }
    if !attempt.is_proven() {
        let Some(unproven) = places.unproven() else {
            places.count_retry(transport);
            attempt.retry();
            return None;
        };
        return Some(ConnectionAttempt { transport, attempt, right: Grant::Handshake(unproven) });
    }
    match places.take(transport, client, &config.limits) {
        Ok(place) => Some(ConnectionAttempt { transport, attempt, right: Grant::Place(place) }),
        Err(_) => {
            attempt.refuse();
            None
        }
    }
}

/// Serves a connection over QUIC from its handshake on. A client that was not proven before is served after it.
pub(super) async fn serve(visit: ConnectionAttempt, carrier: Rc<Carrier>) {
    let ConnectionAttempt { transport, attempt, right } = visit;
    let client = attempt.client().ip();
    let (place, established) = match right {
        Grant::Place(place) => {
            let requests = Requests { usage: place.usage(), carrier, alternative: None };
            return place.run(early(attempt, &requests)).await;
        }
        Grant::Handshake(_unproven) => {
            let proven = async {
                let mut established = attempt.establish().await?;
                let proven = established.proven().await;
                io::Result::Ok(proven.then_some(established))
            };
            let Ok(Ok(Some(established))) = timeout(HANDSHAKE, proven).await else {
                return carrier.common.places.count_failed(transport);
            };
            let settings = carrier.settings();
            match carrier.common.places.take(transport, client, &settings.config.limits) {
                Ok(place) => (place, established),
                Err(_) => return,
            }
        }
    };
    let requests = Requests { usage: place.usage(), carrier, alternative: None };
    requests.usage.established();
    place.run(established.serve(&requests)).await;
}

/// Serves a connection while its handshake is under way, which may bring queries.
async fn early(attempt: Attempt, requests: &Requests) -> io::Result<Ending> {
    let end = Instant::now() + HANDSHAKE;
    let mut established = timeout_at(end, attempt.establish()).await.map_err(io::Error::from)??;
    let proven = timeout_at(end, established.proven());
    let mut serving = pin!(established.serve(requests));
    tokio::select! {
        ended = &mut serving => return ended,
        proven = proven => if !matches!(proven, Ok(true)) {
            return Err(io::ErrorKind::TimedOut.into());
        },
    }
    requests.usage.established();
    serving.await
}
