//! One connection on which each message has its own stream, for a caller that runs the event loop:
//! over HTTP/2, QUIC or HTTP/3.

use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use bytes::Bytes;
use engine::clock;
use engine::stream::Failure;
use measure::Nanos;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use super::dial::{Carriage, TlsDialer};
use super::exchange::{Exchange, HasStream, NoReply, Reply};
use super::http2::Http2;
use super::meter::{Meter, Metered};
use super::quic::Endpoints;
use super::stream::{Stream, WhenOpened};
use crate::http::Resource;

/// Longest DNS message that a request carries, in bytes.
const MAX_MESSAGE: usize = u16::MAX as usize;

/// Reason why a message has no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// The server has returned an error, or no message.
    Failed,
    /// The connection accepts no more messages, or has ended: the message may be sent on another
    /// one.
    Closed,
}

/// A connection; it is closed when this is dropped.
pub struct Requests {
    exchange: Box<dyn Exchange>,
    /// The endpoint of a connection over QUIC, which lives as long.
    _endpoints: Option<Endpoints>,
}

impl Requests {
    /// Begins TLS and HTTP/2 on a TCP connection. The caller must limit the time of the handshake.
    ///
    /// # Errors
    /// The error of the handshake.
    pub async fn over_tcp(
        stream: TcpStream,
        resource: &Resource,
        tls: &TlsDialer,
    ) -> io::Result<Self> {
        let (began, meter) = (clock::monotonic(), Meter::default());
        let tcp = Metered { inner: stream, meter: meter.clone() };
        let connected = TlsConnector::from(tls.config.clone()).connect(tls.name.clone(), tcp);
        let tls = Box::new(connected.await?);
        let stream = Stream::Tls { tls, began, connect: Nanos::ZERO, seen: WhenOpened::default() };
        let http = Http2::new(stream, resource.clone(), MAX_MESSAGE, meter).await;
        Ok(Requests { exchange: Box::new(http.map_err(error)?), _endpoints: None })
    }

    /// Connects a bound socket to a server over QUIC or HTTP/3, within `timeout`.
    ///
    /// # Errors
    /// The error of the socket or of the handshake.
    pub async fn over_quic(
        socket: UdpSocket,
        server: SocketAddr,
        carriage: &Carriage,
        tls: &TlsDialer,
        timeout: Duration,
    ) -> io::Result<Self> {
        let (endpoints, meter) = (Endpoints::on(socket, server, tls)?, Meter::default());
        let deadline = Instant::now() + timeout;
        let exchange = endpoints.open(0, carriage, MAX_MESSAGE, tls, deadline, meter).await;
        Ok(Requests { exchange: exchange.map_err(error)?, _endpoints: Some(endpoints) })
    }

    /// Sends a message, whose first two bytes must be 0; the future returns its reply. It is sent
    /// while the future is polled, together with [`ended`](Self::ended).
    pub fn send(
        &mut self,
        message: Vec<u8>,
    ) -> impl Future<Output = Result<Reply, Unanswered>> + use<> {
        let reply = self.exchange.send_query(Bytes::from(message), HasStream::default());
        async {
            reply.await.map_err(|why| match why {
                NoReply::Failed(_) | NoReply::Overdue => Unanswered::Failed,
                NoReply::Refused | NoReply::TurnedAway | NoReply::Over(_) => Unanswered::Closed,
            })
        }
    }

    /// Does the work of the connection until it has ended. The future may be dropped and called
    /// again.
    pub async fn ended(&mut self) {
        poll_fn(|cx| self.exchange.poll_over(cx)).await;
    }
}

/// Returns the error for a failure.
fn error(failure: Failure) -> io::Error {
    io::Error::other(failure.word())
}
