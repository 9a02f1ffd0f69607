//! Connections of clients over TCP: frames, TLS and HTTP.

use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use dns64::streams::FromStreams;
use http::HeaderValue;
use measure::Transport;
use streams::http::ALPN_H2;
use streams::serve::{self, Ending};
use streams::tls::ServerTls;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, timeout};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use wire::proxy::{self, Unreadable};

use super::frames::{self, Frames};
use super::places::{HANDSHAKE, Place, Refusal, Usage};
use super::requests::{self, Requests};
use super::shared::{Carrier, Common, MAX_QUERY, ReservedAnswer};
use super::threads::QUERY_BITS;

/// Highest number of octets of replies that are written together.
const MAX_OUTPUT: usize = 64 << 10;
/// Highest number of octets that TLS keeps until the client takes them.
const TLS_BUFFER: usize = 16 << 10;

/// Highest number of connections from proxies to one address whose PROXY headers are awaited.
const MAX_PENDING_HEADERS: usize = 256;

/// Protocol of a connection over TCP.
#[derive(Clone)]
pub(crate) enum Protocol {
    /// Messages with their lengths in front.
    Frames,
    /// Messages with their lengths in front, in TLS.
    Tls(ServerTls),
    /// HTTP in TLS, and the value of the Alt-Svc header.
    Http(ServerTls, Option<HeaderValue>),
}

impl Protocol {
    fn transport(&self) -> Transport {
        match self {
            Protocol::Frames => Transport::Tcp,
            Protocol::Tls(_) => Transport::Tls,
            Protocol::Http(..) => Transport::Https,
        }
    }
}

pub(super) async fn accept(listener: TcpListener, protocol: Protocol, carrier: Rc<Carrier>) {
    let transport = protocol.transport();
    let headers = Arc::new(Semaphore::new(MAX_PENDING_HEADERS));
    loop {
        // A failed accept is temporary (the connection was reset, or no descriptor is free).
        let Ok((stream, mut peer)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        // A socket that was passed to this server may be of both families.
        peer.set_ip(peer.ip().to_canonical());
        if !carrier.settings().config.server.is_proxy(peer.ip()) {
            enter(stream, peer, &protocol, &carrier);
            continue;
        }
        let Ok(header) = headers.clone().try_acquire_owned() else {
            carrier.common.places.refuse(transport, Refusal::Handshakes);
            continue;
        };
        let (protocol, carrier) = (protocol.clone(), carrier.clone());
        tokio::task::spawn_local(async move {
            let mut stream = stream;
            match timeout(HANDSHAKE, named_client(&mut stream)).await {
                Ok(Ok(client)) => {
                    let mut client = client.unwrap_or(peer);
                    client.set_ip(client.ip().to_canonical());
                    enter(stream, client, &protocol, &carrier);
                }
                Ok(Err(_)) | Err(_) => carrier.common.places.refuse(transport, Refusal::Proxy),
            }
            drop(header);
        });
    }
}

/// Reads the PROXY header of a connection; returns the client that it names, if it does.
async fn named_client(stream: &mut TcpStream) -> io::Result<Option<SocketAddr>> {
    let mut octets = Vec::new();
    loop {
        match proxy::read(&octets) {
            Ok(header) => return Ok(header.client),
            // The octets after the header are the client's.
            Err(Unreadable::Incomplete(needed)) => {
                let known = octets.len();
                octets.resize(needed, 0);
                stream.read_exact(&mut octets[known..]).await?;
            }
            Err(Unreadable::Invalid) => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// Gives a client's connection a place and serves it, unless the client is not permitted or there is no place.
fn enter(stream: TcpStream, client: SocketAddr, protocol: &Protocol, carrier: &Rc<Carrier>) {
    let transport = protocol.transport();
    let config = &carrier.settings().config;
    let places = &carrier.common.places;
    if !config.server.permits(client.ip()) {
        return places.refuse(transport, Refusal::Client);
    }
    let Ok(place) = places.take(transport, client.ip(), &config.limits) else { return };
    let (protocol, carrier) = (protocol.clone(), carrier.clone());
    tokio::task::spawn_local(async move {
        let connection = ClientConnection { carrier, client, usage: place.usage() };
        connection.run(stream, protocol, place).await;
    });
}

/// A connection of a client.
struct ClientConnection {
    carrier: Rc<Carrier>,
    client: SocketAddr,
    usage: Usage,
}

impl ClientConnection {
    /// Serves the connection from its handshake on, as long as it has its place.
    async fn run(self, stream: TcpStream, protocol: Protocol, place: Place) {
        // If this fails, answers are only delayed.
        let _ = stream.set_nodelay(true);
        let (Protocol::Tls(tls) | Protocol::Http(tls, _)) = &protocol else {
            let (reader, writer) = stream.into_split();
            return place.run(self.frames(Frames::new(MAX_QUERY), reader, writer)).await;
        };
        let accepting = TlsAcceptor::from(tls.current()).accept(stream);
        let Some(stream) = place.handshake(timeout(HANDSHAKE, accepting)).await else { return };
        place.run(self.encrypted(stream, protocol)).await;
    }

    /// Serves the connection after its handshake.
    async fn encrypted(
        self,
        mut stream: TlsStream<TcpStream>,
        protocol: Protocol,
    ) -> io::Result<Ending> {
        let tls = stream.get_mut().1;
        tls.set_buffer_limit(Some(TLS_BUFFER));
        let http2 = tls.alpn_protocol() == Some(ALPN_H2);
        let mut early = Vec::new();
        if let Some(mut data) = tls.early_data() {
            data.read_to_end(&mut early)?;
        }
        if let Protocol::Http(_, alternative) = protocol {
            let (client, limits) = (self.client, requests::limits(&self.carrier));
            let requests = Requests { carrier: self.carrier, usage: self.usage, alternative };
            return serve::http(stream, early, client, limits, &requests, http2).await;
        }
        let (reader, writer) = tokio::io::split(stream);
        self.frames(Frames::after(early, MAX_QUERY), reader, writer).await
    }

    /// Serves queries in frames: reads queries, writes answers as they arrive.
    async fn frames(
        self,
        mut frames: Frames,
        mut reader: impl AsyncRead + Unpin,
        mut writer: impl AsyncWrite + Unpin,
    ) -> io::Result<Ending> {
        let settings = self.carrier.settings();
        let limits = &settings.config.limits;
        let idle = Duration::from(limits.tcp_idle);
        let mut line = self.carrier.answer_channel();
        let (mut output, mut reservations) = (Vec::new(), Vec::new());
        let (mut sent, mut waiting, mut open) = (0u64, Vec::new(), true);
        let mut deadline = Instant::now() + idle;
        let mut ending = Ending::Client;
        loop {
            while waiting.len() < limits.tcp_pipelined
                && let Some(message) = frames.next()?
            {
                let pending = self.usage.query();
                // A query that the worker has no room for gets no answer, as if it was lost.
                if line.query(Some(sent), self.client.ip(), &self.usage, message.to_vec()) {
                    waiting.push(pending);
                }
                sent += 1;
                deadline = Instant::now() + idle;
            }
            if !open && waiting.is_empty() {
                break;
            }
            tokio::select! {
                more = frames.read(&mut reader), if open && waiting.len() < limits.tcp_pipelined => {
                    open = more?;
                }
                Some(answer) = line.answers.recv(), if !waiting.is_empty() => {
                    let mut next = Some(answer);
                    let mut answered = Vec::new();
                    while let Some(ReservedAnswer { message, reservation }) = next {
                        answered.extend(waiting.pop());
                        if !message.is_empty() {
                            frames::push(&mut output, &message);
                        }
                        reservations.extend(reservation);
                        next = if output.len() < MAX_OUTPUT { line.answers.try_recv().ok() } else { None };
                    }
                    let written = write(&mut writer, &output, &self.usage);
                    timeout(idle, written).await.map_err(io::Error::from)??;
                    output = Vec::new();
                    reservations.clear();
                    deadline = Instant::now() + idle;
                }
                () = tokio::time::sleep_until(deadline), if waiting.is_empty() => {
                    ending = Ending::Idle;
                    break;
                }
            }
        }
        timeout(idle, writer.shutdown()).await.map_err(io::Error::from)??;
        Ok(ending)
    }
}

/// Writes answers; notes how far the client takes them.
async fn write(
    writer: &mut (impl AsyncWrite + Unpin),
    mut output: &[u8],
    usage: &Usage,
) -> io::Result<()> {
    while !output.is_empty() {
        usage.writes();
        match writer.write(output).await? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            taken => output = &output[taken..],
        }
    }
    writer.flush().await?;
    usage.has_written();
    Ok(())
}

/// The channel to one connection, or to one request, of a client; closed when it is dropped.
pub(super) struct AnswerChannel<'a> {
    carrier: &'a Carrier,
    number: u64,
    pub(super) answers: mpsc::UnboundedReceiver<ReservedAnswer>,
}

impl Carrier {
    pub(super) fn answer_channel(&self) -> AnswerChannel<'_> {
        let (sender, answers) = mpsc::unbounded_channel();
        let number = self.number();
        self.connections.borrow_mut().insert(number, sender);
        AnswerChannel { carrier: self, number, answers }
    }
}

impl AnswerChannel<'_> {
    /// Passes a query to a worker: with its number on a connection, or `None` for a request. Returns whether the worker
    /// took it.
    pub(super) fn query(
        &self,
        number: Option<u64>,
        client: IpAddr,
        usage: &Usage,
        message: Vec<u8>,
    ) -> bool {
        let (own, Common { threads, workers, .. }) = (self.number, &self.carrier.common);
        let stream = own << QUERY_BITS | number.unwrap_or(0) & ((1 << QUERY_BITS) - 1);
        let worker = own as usize / threads.len() % workers.len();
        let memory = usage.account().take(message.len());
        let transport = usage.transport();
        let message = FromStreams::Query { stream, transport, client, message };
        workers[worker].send(message, memory)
    }
}

impl Drop for AnswerChannel<'_> {
    fn drop(&mut self) {
        self.carrier.connections.borrow_mut().remove(&self.number);
    }
}
