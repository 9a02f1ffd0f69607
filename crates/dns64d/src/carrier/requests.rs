//! Queries that each have a stream of their own: HTTP/2, HTTP/3 and QUIC.

use std::any::Any;
use std::net::{SocketAddr, UdpSocket};
use std::rc::Rc;
use std::time::Duration;

use streams::serve::{self, Answer, StreamLimits};
use streams::tls::ServerTls;
use tokio::sync::mpsc;

use super::client::{ConnectionSlot, MAX_QUERY};
use super::shared::{Carrier, Waiting};

/// Passes requests to the workers.
pub(super) struct Requests(pub(super) Rc<Carrier>);

impl Answer for Requests {
    fn place(&self, client: SocketAddr) -> Option<Box<dyn Any>> {
        Some(Box::new(ConnectionSlot::take(&self.0, client.ip())?))
    }

    async fn answer(&self, client: SocketAddr, message: Vec<u8>) -> Vec<u8> {
        let mut request = Request::new(&self.0);
        if message.len() > MAX_QUERY || !self.0.query(request.number, None, client.ip(), message) {
            return Vec::new();
        }
        request.answer.recv().await.map(|answer| answer.message).unwrap_or_default()
    }

    fn freshness(&self, reply: &[u8]) -> Option<u32> {
        wire::message::freshness(reply)
    }
}

/// A pending query, which the workers know as a connection of its own; removed when it is dropped.
struct Request<'a> {
    carrier: &'a Carrier,
    number: u64,
    answer: mpsc::UnboundedReceiver<Waiting>,
}

impl<'a> Request<'a> {
    fn new(carrier: &'a Carrier) -> Self {
        let (sender, answer) = mpsc::unbounded_channel();
        let number = carrier.number();
        carrier.connections.borrow_mut().insert(number, sender);
        Request { carrier, number, answer }
    }
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        self.carrier.connections.borrow_mut().remove(&self.number);
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
    }
}

/// Serves QUIC for ever.
pub(super) fn spawn_quic(socket: UdpSocket, tls: ServerTls, carrier: &Rc<Carrier>) {
    let (limits, requests) = (limits(carrier), Rc::new(Requests(carrier.clone())));
    tokio::task::spawn_local(async move {
        if let Err(error) = serve::quic(socket, tls, limits, requests).await {
            tracing::error!("QUIC: {error}");
        }
    });
}
