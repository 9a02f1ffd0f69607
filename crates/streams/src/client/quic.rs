//! QUIC: endpoints, connections, and messages on their own streams (RFC 9250).

use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use engine::clock;
use engine::stream::{ConnId, End, Failure, Opened, QueryFailure, StreamCode};
use measure::Nanos;
use measure::any_address;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{
    ConnectionError, Endpoint, EndpointConfig, ReadError, ReadToEndError, TokioRuntime, VarInt,
    ZeroRttAccepted,
};
use socket2::{Domain, Socket, Type};
use tokio::time::{Instant, timeout, timeout_at};

use super::dial::TlsDialer;
use super::exchange::{Exchange, HasStream, NoReply, PendingReply, Reply};
use super::http3::Http3;
use super::meter::{Bytes as Counts, Meter};
use super::{Carriage, failure};

/// Number of source ports of a thread, unless it has more source addresses.
const SOURCE_PORTS: usize = 16;
/// Idle time after which a connection ends, unless the peer has a shorter one.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Receive and send buffer of a port, in bytes.
const BUFFER_SIZE: usize = 4 << 20;
/// Longest wait for closing the connections of an endpoint.
const CLOSE_GRACE: Duration = Duration::from_millis(100);

/// The endpoints of a thread, opened when needed.
pub(super) struct Endpoints {
    target: SocketAddr,
    sources: Vec<IpAddr>,
    open: RefCell<Vec<Option<Endpoint>>>,
    config: quinn::ClientConfig,
}

impl Endpoints {
    /// Makes the set of endpoints without opening one; `tls` must include TLS 1.3.
    pub(super) fn new(
        target: SocketAddr,
        sources: &[IpAddr],
        connections: usize,
        tls: &TlsDialer,
    ) -> io::Result<Self> {
        let ports = connections.min(SOURCE_PORTS.max(sources.len()));
        let open = RefCell::new((0..ports).map(|_| None).collect());
        Ok(Endpoints { target, sources: sources.to_vec(), open, config: client_config(tls)? })
    }

    /// Makes one endpoint with a bound socket; `tls` must include TLS 1.3.
    pub(super) fn on(
        socket: std::net::UdpSocket,
        target: SocketAddr,
        tls: &TlsDialer,
    ) -> io::Result<Self> {
        let config = client_config(tls)?;
        let open = RefCell::new(vec![Some(on_socket(socket)?)]);
        Ok(Endpoints { target, sources: Vec::new(), open, config })
    }

    /// Returns the endpoint of a connection.
    fn endpoint(&self, conn: ConnId) -> io::Result<Endpoint> {
        let mut open = self.open.borrow_mut();
        let place = conn as usize % open.len();
        if let Some(endpoint) = &open[place] {
            return Ok(endpoint.clone());
        }
        let source = self.sources.get(place % self.sources.len().max(1)).copied();
        let source = source.unwrap_or_else(|| any_address(self.target.ip()));
        let endpoint = on_socket(port(engine::on_link_of(self.target, source, 0))?)?;
        open[place] = Some(endpoint.clone());
        Ok(endpoint)
    }

    /// Opens the connection `conn` for this transport and messages of at most this number of bytes.
    pub(super) async fn open(
        &self,
        conn: ConnId,
        carriage: &Carriage,
        max_message: usize,
        tls: &TlsDialer,
        deadline: Instant,
        meter: Meter,
    ) -> Result<Box<dyn Exchange>, Failure> {
        let quic = self.dial(conn, tls, deadline, meter).await?;
        let Carriage::Http3(resource) = carriage else {
            return Ok(Box::new(Doq { quic, max_message }));
        };
        let http = timeout_at(deadline, Http3::new(quic, resource.clone(), max_message)).await;
        Ok(Box::new(http.map_err(|_| Failure::HandshakeStalled)??))
    }

    /// Establishes the connection `conn` before `deadline`.
    async fn dial(
        &self,
        conn: ConnId,
        tls: &TlsDialer,
        deadline: Instant,
        meter: Meter,
    ) -> Result<Quic, Failure> {
        let began = clock::monotonic();
        let endpoint = self.endpoint(conn).map_err(|error| failure::of(&error))?;
        let connecting = endpoint
            .connect_with(self.config.clone(), self.target, &tls.name.to_str())
            .map_err(|_| Failure::Other)?;
        let connecting = match (tls.early_data, connecting) {
            (true, connecting) => match connecting.into_0rtt() {
                Ok((connection, accepted)) => {
                    return Ok(Quic::new(connection, Some(accepted), began, None, meter, tls));
                }
                Err(connecting) => connecting,
            },
            (false, connecting) => connecting,
        };
        match timeout_at(deadline, connecting).await {
            Err(_) | Ok(Err(ConnectionError::TimedOut)) => Err(Failure::HandshakeStalled),
            Ok(Err(error)) => Err(match end(&error, true) {
                End::Failed(failure) => failure,
                End::ByPeer | End::GoingAway | End::Ordered => Failure::Reset,
            }),
            Ok(Ok(connection)) => {
                let opened = opened(began, tls, false);
                Ok(Quic::new(connection, None, began, Some(opened), meter, tls))
            }
        }
    }

    /// Closes the endpoints, so that peers learn of closed connections.
    pub(super) async fn close(&self) {
        let open = self.open.take();
        for endpoint in open.iter().flatten() {
            endpoint.close(VarInt::from_u32(0), b"");
        }
        let quiet = async {
            for endpoint in open.iter().flatten() {
                endpoint.wait_idle().await;
            }
        };
        // A peer that does not accept the closing in time is not waited for.
        let _ = timeout(CLOSE_GRACE, quiet).await;
    }
}

/// Makes the settings of connections.
fn client_config(tls: &TlsDialer) -> io::Result<quinn::ClientConfig> {
    let config = QuicClientConfig::try_from(tls.config.clone()).map_err(io::Error::other)?;
    let mut config = quinn::ClientConfig::new(Arc::new(config));
    let mut transport = quinn::TransportConfig::default();
    transport
        .max_idle_timeout(IDLE_TIMEOUT.try_into().ok())
        .max_concurrent_bidi_streams(VarInt::from_u32(0));
    config.transport_config(Arc::new(transport));
    Ok(config)
}

/// Makes an endpoint with a bound socket.
fn on_socket(socket: std::net::UdpSocket) -> io::Result<Endpoint> {
    Endpoint::new(EndpointConfig::default(), None, socket, Arc::new(TokioRuntime))
}

/// Opens a socket with a free port of `source`.
fn port(source: SocketAddr) -> io::Result<std::net::UdpSocket> {
    let socket = Socket::new(Domain::for_address(source), Type::DGRAM, None)?;
    // As for TCP, addresses of a routed prefix need not be on an interface.
    let _ =
        if source.is_ipv4() { socket.set_freebind_v4(true) } else { socket.set_freebind_v6(true) };
    socket.bind(&source.into())?;
    // A smaller buffer is no error: the kernel chooses the largest permitted size.
    let _ = socket.set_recv_buffer_size(BUFFER_SIZE);
    let _ = socket.set_send_buffer_size(BUFFER_SIZE);
    Ok(socket.into())
}

/// A QUIC connection, for any transport above it.
pub(super) struct Quic {
    pub(super) connection: quinn::Connection,
    ended: Pin<Box<dyn Future<Output = ConnectionError>>>,
    /// Set while messages may be sent before the end of the handshake.
    accepted: Option<ZeroRttAccepted>,
    began: Nanos,
    opened: Option<Opened>,
    pub(super) meter: Meter,
    /// Counts that the meter already has.
    counted: [u64; 4],
    tls: TlsDialer,
}

impl Quic {
    fn new(
        connection: quinn::Connection,
        accepted: Option<ZeroRttAccepted>,
        began: Nanos,
        opened: Option<Opened>,
        meter: Meter,
        tls: &TlsDialer,
    ) -> Self {
        let watched = connection.clone();
        let ended = Box::pin(async move { watched.closed().await });
        let tls = tls.clone();
        Quic { connection, ended, accepted, began, opened, meter, counted: [0; 4], tls }
    }

    /// Returns `Ready` if the connection has ended; also checks whether the handshake is done.
    pub(super) fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        if let Some(accepted) = &mut self.accepted
            && let Poll::Ready(early_data) = Pin::new(accepted).poll(cx)
        {
            self.accepted = None;
            if self.connection.close_reason().is_none() {
                self.opened = Some(opened(self.began, &self.tls, early_data));
            }
        }
        self.count();
        let handshaking = self.opened.is_none();
        self.ended.as_mut().poll(cx).map(|error| end(&error, handshaking))
    }

    /// Returns how it was established, once the handshake is done.
    pub(super) fn opened(&self) -> Option<Opened> {
        self.opened
    }

    /// Adds the bytes since the last call to the meter.
    fn count(&mut self) {
        let stats = self.connection.stats();
        let (tx, rx) = (stats.udp_tx, stats.udp_rx);
        let counts = [tx.bytes, rx.bytes, tx.ios, rx.ios];
        let [sent, received, writes, reads] = std::array::from_fn(|i| counts[i] - self.counted[i]);
        self.meter.add(Counts { sent, received, writes, reads });
        self.counted = counts;
    }
}

/// Returns how a connection was opened whose handshake is done now.
fn opened(began: Nanos, tls: &TlsDialer, early_data: bool) -> Opened {
    let handshake = clock::monotonic().since(began);
    let resumed = !tls.full_handshakes.take();
    Opened { connect: Nanos::ZERO, handshake, resumed, early_data }
}

impl Drop for Quic {
    fn drop(&mut self) {
        self.count();
        self.connection.close(VarInt::from_u32(0), b"");
    }
}

/// DNS over dedicated QUIC connections.
struct Doq {
    quic: Quic,
    max_message: usize,
}

impl Exchange for Doq {
    fn send_query(&mut self, message: Bytes, has_stream: HasStream) -> PendingReply {
        let (connection, most) = (self.quic.connection.clone(), self.max_message);
        let meter = self.quic.meter.clone();
        Box::pin(async move {
            let (mut send, mut receive) =
                meter.count_wait(connection.open_bi()).await.map_err(no_reply_of)?;
            has_stream.set(true);
            let length = (message.len() as u16).to_be_bytes();
            let framed = [&length[..], &message].concat();
            // The reply is more specific than an error of the query.
            let _ = send.write_all(&framed).await;
            // A stream that has already ended needs no finish.
            let _ = send.finish();
            let mut reply = receive.read_to_end(2 + most).await.map_err(no_reply)?;
            match reply.first_chunk() {
                Some(length) if usize::from(u16::from_be_bytes(*length)) + 2 == reply.len() => {
                    Ok(Reply { message: reply.split_off(2), age: 0 })
                }
                _ => Err(NoReply::Failed(QueryFailure::Incomplete)),
            }
        })
    }

    fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        self.quic.poll_over(cx)
    }

    fn opened(&mut self) -> Option<Opened> {
        self.quic.opened()
    }

    fn close(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()>>> {
        // The endpoint closes the connection.
        Box::pin(std::future::ready(()))
    }
}

/// Returns why a stream brought no reply when its connection was lost.
fn no_reply_of(error: ConnectionError) -> NoReply {
    NoReply::Over(end(&error, false))
}

/// Returns why a stream that ended with `error` brought no reply.
fn no_reply(error: ReadToEndError) -> NoReply {
    match error {
        ReadToEndError::TooLong => NoReply::Failed(QueryFailure::Oversized),
        ReadToEndError::Read(ReadError::ConnectionLost(error)) => no_reply_of(error),
        ReadToEndError::Read(ReadError::Reset(code)) => {
            NoReply::Failed(QueryFailure::StreamReset(StreamCode::Quic(code.into_inner())))
        }
        // The peer rejected early data.
        ReadToEndError::Read(ReadError::ZeroRttRejected) => NoReply::Refused,
        ReadToEndError::Read(_) => NoReply::Failed(QueryFailure::Other),
    }
}

/// Returns the kind of end of a connection with `error`, while `handshaking` or later.
pub(super) fn end(error: &ConnectionError, handshaking: bool) -> End {
    /// Codes of `CRYPTO_ERROR` (RFC 9001 section 4.8): 0x100 and the alert of TLS.
    const CRYPTO_CODES: std::ops::Range<u64> = 0x100..0x200;
    /// Alerts about certificates (RFC 8446 section 6): bad, unsupported, revoked, expired, unknown.
    const CERTIFICATE_ALERTS: std::ops::RangeInclusive<u64> = 0x12a..=0x12e;
    /// The authority is unknown, or a signature is not valid for the key.
    const UNTRUSTED_CODES: [u64; 2] = [0x130, 0x133];
    /// `CONNECTION_REFUSED` (RFC 9000 section 20.1).
    const REFUSED_CODE: u64 = 2;
    End::Failed(match error {
        ConnectionError::TransportError(error) => match u64::from(error.code) {
            code if CERTIFICATE_ALERTS.contains(&code) || UNTRUSTED_CODES.contains(&code) => {
                Failure::BadCertificate
            }
            code if CRYPTO_CODES.contains(&code) => Failure::Handshake,
            _ => Failure::Protocol,
        },
        ConnectionError::ConnectionClosed(close) => match u64::from(close.error_code) {
            0 => return End::ByPeer,
            REFUSED_CODE => Failure::Refused,
            code if CRYPTO_CODES.contains(&code) => Failure::Handshake,
            _ => Failure::ClosedWithError,
        },
        // DOQ_NO_ERROR, H3_NO_ERROR.
        ConnectionError::ApplicationClosed(close) => match close.error_code.into_inner() {
            0 | 0x100 => return End::ByPeer,
            _ => Failure::ClosedWithError,
        },
        ConnectionError::VersionMismatch => Failure::Handshake,
        ConnectionError::TimedOut if handshaking => Failure::HandshakeStalled,
        // No data were sent for the idle time on which both had agreed.
        ConnectionError::TimedOut => return End::ByPeer,
        ConnectionError::LocallyClosed => return End::Ordered,
        ConnectionError::Reset => Failure::Reset,
        ConnectionError::CidsExhausted => Failure::Other,
    })
}
