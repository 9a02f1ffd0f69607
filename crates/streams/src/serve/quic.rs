//! QUIC: messages on its streams (RFC 9250), or HTTP/3 requests (RFC 8484 over RFC 9114), as negotiated by
//! ALPN.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use engine::named;
use futures_util::stream::{FuturesUnordered, StreamExt};
use h3::error::Code;
use http::StatusCode;
use quinn::crypto::rustls::{HandshakeData, QuicServerConfig};
use quinn::{
    ConnectionError, Endpoint, EndpointConfig, Incoming, TokioRuntime, VarInt, ZeroRttAccepted,
};
use socket2::{Domain, Socket, Type};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::{Answer, Ending, Fault, MAX_DRAINED, Sender, StreamLimits};
use crate::http::{self as doh, ALPN_H3, PATH, RequestHead};
use crate::tls::ServerTls;

/// `H3_NO_ERROR` (RFC 9114 section 8.1).
const H3_NO_ERROR: u32 = 0x100;
/// `DOQ_NO_ERROR` (RFC 9250 section 8.4).
const NO_ERROR: VarInt = VarInt::from_u32(0);
/// `DOQ_INTERNAL_ERROR` (RFC 9250 section 8.4).
const INTERNAL_ERROR: VarInt = VarInt::from_u32(1);
/// `DOQ_PROTOCOL_ERROR` (RFC 9250 section 8.4).
const PROTOCOL_ERROR: VarInt = VarInt::from_u32(2);
/// `DOQ_REQUEST_CANCELLED` (RFC 9250 section 8.4).
const REQUEST_CANCELLED: VarInt = VarInt::from_u32(3);
/// Pause between checks for requests that come after a GOAWAY and that are rejected.
const DRAIN_PAUSE: Duration = Duration::from_millis(10);
/// Receive and send buffer of the socket, in bytes.
const BUFFER_SIZE: usize = 4 << 20;
/// The version of QUIC (RFC 9000). Clients that offer another one, such as version 2 (RFC 9369),
/// get a version negotiation.
const VERSION_1: u32 = 1;
/// Highest number of concurrent streams in one direction, of which HTTP/3 uses three (RFC 9114 section 6.2).
const UNI_STREAMS: u32 = 8;
/// Smallest number of bytes that a client may send on a stream at once: the head of an HTTP/3
/// request.
const LEAST_WINDOW: u32 = 16 << 10;
/// Highest number of attempts that wait to be accepted.
const MAX_ATTEMPTS: usize = 4_096;
/// Highest number of bytes that are buffered of each request's body; 64 of them may have as much.
const ATTEMPT_BUFFER: u64 = 16 << 10;

/// Opens a socket for [`quic`].
///
/// # Errors
/// When the address cannot be bound; the error names it.
pub fn listen(address: SocketAddr) -> io::Result<std::net::UdpSocket> {
    listen_with(address, &|_| Ok(()))
}

/// Works as [`listen`]; `prepare` is called with the socket before it is bound.
///
/// # Errors
/// As [`listen`], and those of `prepare`.
pub fn listen_with(
    address: SocketAddr,
    prepare: &dyn Fn(BorrowedFd<'_>) -> io::Result<()>,
) -> io::Result<std::net::UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, None)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    prepare(socket.as_fd()).map_err(|e| named(e, "cannot listen on QUIC", address))?;
    socket.bind(&address.into()).map_err(|e| named(e, "cannot listen on QUIC", address))?;
    // A smaller buffer is no error: the kernel gives what it permits.
    let _ = socket.set_recv_buffer_size(BUFFER_SIZE);
    let _ = socket.set_send_buffer_size(BUFFER_SIZE);
    Ok(socket.into())
}

/// Serves connections to `socket` until it is dropped, each in a local task.
///
/// # Errors
/// When QUIC cannot use the TLS configuration, or the runtime refuses the socket.
pub async fn quic<A: Answer + 'static>(
    socket: std::net::UdpSocket,
    tls: ServerTls,
    limits: StreamLimits,
    answer: Rc<A>,
) -> io::Result<()> {
    let mut server = QuicServer::new(socket, tls, limits)?;
    let open = Rc::new(Cell::new(0));
    while let Some(attempt) = server.accept().await {
        if open.get() >= limits.connections {
            attempt.refuse();
            continue;
        }
        answer.admit().await;
        open.set(open.get() + 1);
        let (open, answer) = (open.clone(), answer.clone());
        tokio::task::spawn_local(async move {
            // The end of a connection, for any reason, affects no other connection.
            if let Ok(established) = attempt.establish().await {
                let _ = established.serve(&*answer).await;
            }
            open.set(open.get() - 1);
        });
    }
    Ok(())
}

/// A socket for QUIC, which returns attempts of clients to connect.
pub struct QuicServer {
    endpoint: Endpoint,
    tls: ServerTls,
    /// TLS configuration of `config`, to see when it was reloaded.
    current: Arc<rustls::ServerConfig>,
    config: Arc<quinn::ServerConfig>,
    limits: StreamLimits,
}

impl QuicServer {
    /// Uses a socket, within a runtime.
    ///
    /// # Errors
    /// When QUIC cannot use the TLS configuration, or the runtime refuses the socket.
    pub fn new(
        socket: std::net::UdpSocket,
        tls: ServerTls,
        limits: StreamLimits,
    ) -> io::Result<Self> {
        let current = tls.current();
        let config = configuration(&current, limits)?;
        let mut of_endpoint = EndpointConfig::default();
        of_endpoint.supported_versions(vec![VERSION_1]);
        let runtime = Arc::new(TokioRuntime);
        let endpoint = Endpoint::new(of_endpoint, Some(config.clone()), socket, runtime)?;
        Ok(QuicServer { endpoint, tls, current, config: Arc::new(config), limits })
    }

    /// Returns the next attempt; `None` when the socket is closed.
    pub async fn accept(&mut self) -> Option<Attempt> {
        let incoming = self.endpoint.accept().await?;
        // The certificate may have been reloaded; a certificate that QUIC cannot use is ignored.
        let now = self.tls.current();
        if !Arc::ptr_eq(&now, &self.current) {
            if let Ok(config) = configuration(&now, self.limits) {
                self.config = Arc::new(config);
            }
            self.current = now;
        }
        Some(Attempt { incoming, config: self.config.clone(), limits: self.limits })
    }
}

/// A client's attempt to connect. It may be handled on another thread than the socket's.
pub struct Attempt {
    incoming: Incoming,
    config: Arc<quinn::ServerConfig>,
    limits: StreamLimits,
}

impl Attempt {
    /// Returns the client address of the attempt.
    pub fn client(&self) -> SocketAddr {
        self.incoming.remote_address()
    }

    /// Returns whether the client has shown that it receives packets at its address (RFC 9000
    /// section 8.1).
    pub fn is_proven(&self) -> bool {
        self.incoming.remote_address_validated()
    }

    /// Makes the client show that first, by a Retry packet; refuses a client that has.
    pub fn retry(self) {
        if let Err(error) = self.incoming.retry() {
            error.into_incoming().refuse();
        }
    }

    /// Refuses the connection with CONNECTION_REFUSED (RFC 9000 section 20.1).
    pub fn refuse(self) {
        self.incoming.refuse();
    }

    /// Drops the attempt without a packet to the client.
    pub fn ignore(self) {
        self.incoming.ignore();
    }

    /// Waits for the handshake, or for data that came with it if the configuration permits that.
    ///
    /// # Errors
    /// The error with which the handshake ended, or that it took longer than the idle time.
    pub async fn establish(self) -> io::Result<Established> {
        let Attempt { incoming, config, limits } = self;
        let mut connecting = incoming.accept_with(config)?;
        let handshake = timeout(limits.idle, connecting.handshake_data()).await??;
        let http = handshake
            .downcast_ref::<HandshakeData>()
            .is_some_and(|data| data.protocol.as_deref() == Some(ALPN_H3));
        let (connection, handshake) = match connecting.into_0rtt() {
            Ok((connection, handshake)) => (connection, Some(handshake)),
            Err(connecting) => (timeout(limits.idle, connecting).await??, None),
        };
        Ok(Established { connection, handshake, http, limits })
    }
}

/// A connection whose client may send messages.
pub struct Established {
    connection: quinn::Connection,
    /// The rest of the handshake, if data came before its end.
    handshake: Option<ZeroRttAccepted>,
    http: bool,
    limits: StreamLimits,
}

impl Established {
    /// Waits for the end of the handshake, which proves the client's address; returns whether it was good.
    pub fn proven(&mut self) -> impl Future<Output = bool> + use<> {
        let (handshake, connection) = (self.handshake.take(), self.connection.clone());
        async move {
            if let Some(handshake) = handshake {
                // Whether early data was accepted is irrelevant.
                handshake.await;
            }
            connection.close_reason().is_none()
        }
    }

    /// Serves messages, or HTTP/3 requests, until the connection ends or is idle for too long.
    ///
    /// # Errors
    /// The error with which the connection ended.
    pub async fn serve<A: Answer>(self, answer: &A) -> io::Result<Ending> {
        let Established { connection, limits, http, .. } = self;
        let quic = connection.clone();
        let ended = if http {
            http3(connection, limits, answer).await
        } else {
            messages(connection, limits, answer).await
        };
        match (ended, quic.close_reason()) {
            (Ok(ending), _) => Ok(ending),
            (Err(_), Some(ConnectionError::ApplicationClosed(_))) => Ok(Ending::Client),
            (Err(_), Some(ConnectionError::TimedOut)) => Ok(Ending::Idle),
            (Err(error), _) => Err(error),
        }
    }
}

/// Makes the QUIC configuration from a TLS configuration.
fn configuration(
    current: &Arc<rustls::ServerConfig>,
    limits: StreamLimits,
) -> io::Result<quinn::ServerConfig> {
    let mut tls = (**current).clone();
    if tls.max_early_data_size > 0 {
        // QUIC itself limits the amount (RFC 9001 section 4.6.1).
        tls.max_early_data_size = u32::MAX;
    }
    let tls = QuicServerConfig::try_from(tls).map_err(io::Error::other)?;
    let mut config = quinn::ServerConfig::with_crypto(Arc::new(tls));
    let mut transport = quinn::TransportConfig::default();
    let of_stream = u32::try_from(2 + limits.message).unwrap_or(u32::MAX).max(LEAST_WINDOW);
    transport
        .max_concurrent_bidi_streams(limits.streams.into())
        .max_concurrent_uni_streams(UNI_STREAMS.into())
        .max_idle_timeout(limits.idle.try_into().ok())
        .stream_receive_window(of_stream.min(limits.window).into())
        .receive_window(limits.window.into())
        .send_window(limits.window.into())
        .datagram_receive_buffer_size(None);
    config
        .transport_config(Arc::new(transport))
        .max_incoming(MAX_ATTEMPTS)
        .incoming_buffer_size(ATTEMPT_BUFFER)
        .incoming_buffer_size_total(ATTEMPT_BUFFER * 64);
    Ok(config)
}

/// Serves messages on their own streams until the client closes the connection or sends no query for the idle time.
async fn messages<A: Answer>(
    connection: quinn::Connection,
    limits: StreamLimits,
    answer: &A,
) -> io::Result<Ending> {
    let mut streams = FuturesUnordered::new();
    let mut deadline = Instant::now() + limits.idle;
    loop {
        tokio::select! {
            stream = connection.accept_bi() => {
                let (send, receive) = stream?;
                let client = connection.remote_address();
                streams.push(message(send, receive, client, limits, answer));
            }
            // Unidirectional streams carry no messages (RFC 9250 section 4.3.3).
            stream = connection.accept_uni() => {
                stream?;
                connection.close(PROTOCOL_ERROR, b"");
            }
            Some(done) = streams.next(), if !streams.is_empty() => {
                match done {
                    Err(Malformed) => connection.close(PROTOCOL_ERROR, b""),
                    Ok(Some(Fault::Close)) => connection.close(NO_ERROR, b""),
                    Ok(_) => {}
                }
                deadline = Instant::now() + limits.idle;
            }
            () = sleep_until(deadline), if streams.is_empty() => {
                connection.close(NO_ERROR, b"");
                return Ok(Ending::Idle);
            }
        }
    }
}

/// The stream does not contain exactly one message with id 0, or one that may not be sent over QUIC.
struct Malformed;

/// Reads the message of a stream, answers it and writes the reply, within the idle time.
async fn message<A: Answer>(
    mut send: quinn::SendStream,
    receive: quinn::RecvStream,
    client: SocketAddr,
    limits: StreamLimits,
    answer: &A,
) -> Result<Option<Fault>, Malformed> {
    let exchange = exchange(&mut send, receive, client, limits.message, answer);
    timeout(limits.idle, exchange).await.unwrap_or_else(|_| {
        // A stream that is dropped ends as if it had all of its reply.
        let _ = send.reset(INTERNAL_ERROR);
        Ok(None)
    })
}

/// Works as [`message`], without a limit of time.
async fn exchange<A: Answer>(
    send: &mut quinn::SendStream,
    mut receive: quinn::RecvStream,
    client: SocketAddr,
    max: usize,
    answer: &A,
) -> Result<Option<Fault>, Malformed> {
    let mut message = match receive.read_to_end(2 + max).await {
        Ok(message) => message,
        Err(quinn::ReadToEndError::TooLong) => return Err(Malformed),
        // RFC 9250 section 4.3.1.
        Err(quinn::ReadToEndError::Read(_)) => {
            let _ = send.reset(REQUEST_CANCELLED);
            return Ok(None);
        }
    };
    let Some(&[high, low, 0, 0]) = message.first_chunk() else { return Err(Malformed) };
    let is_whole = usize::from(u16::from_be_bytes([high, low])) + 2 == message.len();
    if !is_whole || answer.is_forbidden(&message[2..]) {
        return Err(Malformed);
    }
    match answer.fault() {
        Some(Fault::Close) => return Ok(Some(Fault::Close)),
        Some(Fault::Reset) => {
            let _ = send.reset(INTERNAL_ERROR);
            return Ok(None);
        }
        Some(Fault::Status(_) | Fault::Refuse | Fault::GoAway) | None => {}
    }
    let sender = Sender { client, stream: Some(send.id().index()) };
    let reply = answer.answer(sender, message.split_off(2)).await;
    let Some(len) = u16::try_from(reply.len()).ok().filter(|len| *len > 0) else {
        // The end of the stream without a message means that there is no reply.
        let _ = send.reset(INTERNAL_ERROR);
        return Ok(None);
    };
    let mut framed = [Bytes::copy_from_slice(&len.to_be_bytes()), reply];
    // A client that does not accept its reply gets none.
    if send.write_all_chunks(&mut framed).await.is_ok() {
        let _ = send.finish();
    }
    Ok(None)
}

/// Serves HTTP/3 requests; each must end within the idle time.
async fn http3<A: Answer>(
    connection: quinn::Connection,
    limits: StreamLimits,
    answer: &A,
) -> io::Result<Ending> {
    let (client, quic) = (connection.remote_address(), connection.clone());
    let connection = h3_quinn::Connection::new(connection);
    let mut connection = h3::server::builder()
        .max_field_section_size(16 << 10)
        .send_grease(false)
        .build::<_, Bytes>(connection)
        .await
        .map_err(io::Error::other)?;
    let mut requests = FuturesUnordered::new();
    let mut deadline = Instant::now() + limits.idle;
    loop {
        tokio::select! {
            request = connection.accept() => match request.map_err(io::Error::other)? {
                // All requests are answered, but their replies may still be in transit: the client
                // closes the connection.
                None => sleep(DRAIN_PAUSE).await,
                Some(resolver) => requests.push(timeout(limits.idle, async {
                    let (request, stream) = resolver.resolve_request().await?;
                    Http3Connection { stream, client, limits, answer }.run(&request).await
                })),
            },
            Some(done) = requests.next(), if !requests.is_empty() => {
                match done {
                    Ok(Ok(Some(Fault::GoAway))) => {
                        connection.shutdown(0).await.map_err(io::Error::other)?;
                    }
                    Ok(Ok(Some(Fault::Close))) => {
                        quic.close(VarInt::from_u32(H3_NO_ERROR), b"");
                    }
                    _ => {}
                }
                deadline = Instant::now() + limits.idle;
            }
            () = sleep_until(deadline), if requests.is_empty() => {
                connection.shutdown(0).await.map_err(io::Error::other)?;
                return Ok(Ending::Idle);
            }
        }
    }
}

/// A request of HTTP/3 and its response; an error concerns only its client.
struct Http3Connection<'a, A> {
    stream: h3::server::RequestStream<h3_quinn::BidiStream<Bytes>, Bytes>,
    client: SocketAddr,
    limits: StreamLimits,
    answer: &'a A,
}

impl<A: Answer> Http3Connection<'_, A> {
    /// Handles the request; returns the fault that its connection gets.
    async fn run(
        mut self,
        request: &http::Request<()>,
    ) -> Result<Option<Fault>, h3::error::StreamError> {
        let message = match doh::read_head(request, PATH, self.limits.message) {
            RequestHead::Message(message) => Ok(message),
            RequestHead::Refused(status) => Err(status),
            RequestHead::InBody => self.body().await?,
        };
        let message = match message {
            Ok(message) => message,
            Err(status) => {
                self.drain().await?;
                return self.refuse(status).await;
            }
        };
        let fault = self.answer.fault();
        match fault {
            Some(Fault::Status(status)) => return self.refuse(status).await,
            Some(Fault::Reset) => {
                self.stream.stop_stream(Code::H3_INTERNAL_ERROR);
                return Ok(None);
            }
            Some(Fault::Refuse) => {
                self.stream.stop_stream(Code::H3_REQUEST_REJECTED);
                return Ok(None);
            }
            Some(Fault::Close) => return Ok(fault),
            Some(Fault::GoAway) | None => {}
        }
        let sender = Sender { client: self.client, stream: Some(self.stream.id().index()) };
        let reply = self.answer.answer(sender, message).await;
        if reply.is_empty() {
            return self.refuse(StatusCode::BAD_REQUEST).await;
        }
        let head = doh::reply(reply.len(), self.answer.freshness(&reply), None);
        self.stream.send_response(head).await?;
        self.stream.send_data(reply).await?;
        self.stream.finish().await?;
        Ok(fault)
    }

    /// Responds with a status and without a message.
    async fn refuse(
        &mut self,
        status: StatusCode,
    ) -> Result<Option<Fault>, h3::error::StreamError> {
        self.stream.send_response(doh::refusal(status, None)).await?;
        self.stream.finish().await?;
        Ok(None)
    }

    /// Reads the body; the status of a refusal if it is too long.
    async fn body(&mut self) -> Result<Result<Vec<u8>, StatusCode>, h3::error::StreamError> {
        let mut message = Vec::new();
        while let Some(mut part) = self.stream.recv_data().await? {
            if message.len() + part.remaining() > self.limits.message {
                return Ok(Err(StatusCode::PAYLOAD_TOO_LARGE));
            }
            message.extend_from_slice(&part.copy_to_bytes(part.remaining()));
        }
        Ok(Ok(message))
    }

    /// Reads the rest of a refused request's body, up to [`MAX_DRAINED`] bytes.
    async fn drain(&mut self) -> Result<(), h3::error::StreamError> {
        let mut drained = 0;
        while drained < MAX_DRAINED
            && let Some(part) = self.stream.recv_data().await?
        {
            drained += part.remaining();
        }
        Ok(())
    }
}
