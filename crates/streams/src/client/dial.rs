//! How a connection comes to be: a socket from the source whose turn it is, UDP, TCP or QUIC, TLS, HTTP.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use engine::clock;
use engine::stream::{ConnId, Failure, Opened};
use measure::Nanos;
use nix::sys::socket::{setsockopt, sockopt};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, HandshakeKind};
use socket2::{Domain, Socket, Type};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpSocket, TcpStream, UdpSocket};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::datagrams::Datagrams;
use super::exchange::Exchange;
use super::failure;
use super::http2::Http2;
use super::meter::{Meter, Metered};
use super::proxy;
use super::quic::Endpoints;
use crate::http::Resource;
use crate::tls::{ClientTls, FullHandshakes, TlsError};

/// How TLS is spoken to the peer.
#[derive(Clone, Debug)]
pub struct TlsDialer {
    /// Versions, protocols, verification, sessions to resume.
    pub config: Arc<ClientConfig>,
    /// The name that is sent (SNI) and that the certificate must be for.
    pub name: ServerName<'static>,
    /// Send what is ordered with the handshake where a session allows it (0-RTT).
    pub early_data: bool,
    /// Handshakes that were full ones, so far.
    pub(super) full_handshakes: FullHandshakes,
}

impl TlsDialer {
    /// Speaks TLS as `asked` to the server of this name.
    ///
    /// # Errors
    /// As [`ClientTls::build`].
    pub fn new(asked: &ClientTls, name: ServerName<'static>) -> Result<Self, TlsError> {
        let (config, full_handshakes) = asked.build_counted()?;
        let (config, early_data) = (Arc::new(config), asked.early_data);
        Ok(TlsDialer { config, name, early_data, full_handshakes })
    }
}

/// What carries messages on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carriage {
    /// A datagram of UDP each.
    Datagrams,
    /// A length before each, on TCP, or on TLS if there is a [`TlsDialer`].
    Framed,
    /// Requests of HTTP/2.
    Http2(Resource),
    /// Streams of QUIC.
    Quic,
    /// Requests of HTTP/3.
    Http3(Resource),
}

impl Carriage {
    /// Whether connections are QUIC's, not TCP's.
    pub fn is_quic(&self) -> bool {
        matches!(self, Carriage::Quic | Carriage::Http3(_))
    }
}

/// How connections come to be.
#[derive(Clone, Debug)]
pub struct Dialer {
    /// The peer.
    pub target: SocketAddr,
    /// Source addresses, used in turn by the connections' numbers; none: the kernel's choice.
    pub sources: Vec<IpAddr>,
    /// Clients that connections are for, by the PROXY protocol, used in turn; none: it is not spoken.
    pub proxied: Vec<IpAddr>,
    /// Where there is TLS, the PROXY protocol is the first that is said in it, not what stands in front of it.
    pub proxied_within: bool,
    /// TCP and TLS together must be done within this time.
    pub timeout: Duration,
    /// What carries messages.
    pub carriage: Carriage,
    /// TLS, if it is spoken; QUIC cannot do without.
    pub tls: Option<TlsDialer>,
    /// TCP Fast Open (RFC 7413): the first message travels with the SYN where the kernel has a cookie.
    pub fast_open: bool,
    /// End connections with a reset instead of a FIN, so that none of this host's ports waits (TIME_WAIT).
    pub reset: bool,
    /// A message longer than this ends the connection.
    pub max_message: usize,
}

impl Dialer {
    /// Plain TCP to `target`, 5 s.
    pub fn tcp(target: SocketAddr) -> Self {
        Dialer {
            target,
            sources: Vec::new(),
            proxied: Vec::new(),
            proxied_within: false,
            timeout: Duration::from_secs(5),
            carriage: Carriage::Framed,
            tls: None,
            fast_open: false,
            reset: false,
            max_message: usize::from(u16::MAX),
        }
    }

    /// The ports that QUIC is spoken from; none for another carriage.
    pub(super) fn endpoints(&self, connections: usize) -> io::Result<Option<Endpoints>> {
        let tls = self.tls.as_ref().filter(|_| self.carriage.is_quic());
        tls.map(|tls| Endpoints::new(self.target, &self.sources, connections, tls)).transpose()
    }

    /// Opens the connection number `conn`.
    pub(super) async fn dial(
        &self,
        conn: ConnId,
        meter: Meter,
        endpoints: Option<&Endpoints>,
    ) -> Result<Dialed, Failure> {
        let (deadline, most) = (Instant::now() + self.timeout, self.max_message);
        if let Some((endpoints, tls)) = endpoints.zip(self.tls.as_ref()) {
            let exchange = endpoints.open(conn, (&self.carriage, most), tls, deadline, meter);
            return Ok(Dialed::Exchange(exchange.await?));
        }
        if self.carriage == Carriage::Datagrams {
            let made = self.datagrams(conn, meter).map_err(|error| failure::of(&error));
            return Ok(Dialed::Datagrams(made?));
        }
        let stream = self.dial_tcp(conn, meter, deadline).await?;
        Ok(match &self.carriage {
            Carriage::Http2(resource) => {
                let http = timeout_at(deadline, Http2::new(stream, resource.clone(), most)).await;
                Dialed::Exchange(Box::new(http.map_err(|_| Failure::HandshakeStalled)??))
            }
            _ => Dialed::Framed(stream),
        })
    }

    /// Opens a connection of TCP, and of TLS on it.
    async fn dial_tcp(
        &self,
        conn: ConnId,
        meter: Meter,
        deadline: Instant,
    ) -> Result<Stream, Failure> {
        let began = clock::monotonic();
        let failed = |e: io::Error| failure::of(&e);
        let socket = self.socket(conn).map_err(failed)?;
        let stream = match timeout_at(deadline, socket.connect(self.target)).await {
            Err(_) => return Err(Failure::ConnectStalled),
            Ok(connected) => connected.map_err(failed)?,
        };
        // A failure here shows with the first read.
        let _ = stream.set_nodelay(true);
        if self.reset {
            reset_at_end(&stream);
        }
        let connect = clock::monotonic().since(began);
        let mut tcp = Metered { inner: stream, meter };
        let port = tcp.inner.local_addr().map_err(failed)?.port();
        let header = self.header(conn, port, proxy::Carries::Stream);
        let within = self.proxied_within && self.tls.is_some();
        if !within {
            // So short a thing fits into the buffer of a new connection.
            tcp.write_all(&header).await.map_err(failed)?;
        }
        let Some(tls) = &self.tls else { return Ok(Stream::Tcp { tcp, connect }) };
        let connector = TlsConnector::from(tls.config.clone()).early_data(tls.early_data);
        let mut tls = match timeout_at(deadline, connector.connect(tls.name.clone(), tcp)).await {
            Err(_) => return Err(Failure::HandshakeStalled),
            Ok(tls) => Box::new(tls.map_err(failed)?),
        };
        if within {
            // The same; not flushed, since with early data that would be the end of the handshake.
            tls.write_all(&header).await.map_err(failed)?;
        }
        Ok(Stream::Tls { tls, began, connect })
    }

    /// The PROXY protocol's header for a connection from `port`; nothing where there is none.
    fn header(&self, conn: ConnId, port: u16, carries: proxy::Carries) -> Vec<u8> {
        if self.proxied.is_empty() {
            return Vec::new();
        }
        let client = self.proxied[conn as usize % self.proxied.len()];
        proxy::header(SocketAddr::new(client, port), self.target, carries)
    }

    /// A client that asks by UDP.
    fn datagrams(&self, conn: ConnId, meter: Meter) -> io::Result<Datagrams> {
        let socket = self.bound(conn, Type::DGRAM)?;
        socket.connect(&self.target.into())?;
        let socket = UdpSocket::from_std(socket.into())?;
        let port = socket.local_addr()?.port();
        let header = self.header(conn, port, proxy::Carries::Datagrams);
        Ok(Datagrams::new(conn, socket, header, meter))
    }

    /// A socket that is bound where it shall come from.
    fn socket(&self, conn: ConnId) -> io::Result<TcpSocket> {
        let socket = self.bound(conn, Type::STREAM)?;
        if self.fast_open {
            setsockopt(&socket, sockopt::TcpFastOpenConnect, &true)?;
        }
        Ok(TcpSocket::from_std_stream(socket.into()))
    }

    /// The same of any type.
    fn bound(&self, conn: ConnId, kind: Type) -> io::Result<Socket> {
        let socket = Socket::new(Domain::for_address(self.target), kind, None)?;
        socket.set_nonblocking(true)?;
        if !self.sources.is_empty() {
            let source = self.sources[conn as usize % self.sources.len()];
            // Addresses of a routed prefix need not be on an interface; the port is chosen when
            // the peer is known, so that each peer has all of them.
            let _ = if source.is_ipv4() {
                socket.set_freebind_v4(true)
            } else {
                socket.set_freebind_v6(true)
            };
            setsockopt(&socket, sockopt::IpBindAddressNoPort, &true)?;
            socket.bind(&SocketAddr::new(source, 0).into())?;
        }
        Ok(socket)
    }
}

/// Has the kernel reset the connection when it is closed.
fn reset_at_end(stream: &TcpStream) {
    // Where this fails it is closed in the usual way.
    let _ = socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO));
}

/// What a connection is to its task.
pub(super) enum Dialed {
    /// Messages one behind the other.
    Framed(Stream),
    /// A stream for each message.
    Exchange(Box<dyn Exchange>),
    /// A datagram for each message.
    Datagrams(Datagrams),
}

/// A connection that is up, or whose first messages may travel with the handshake.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp { tcp: Metered, connect: Nanos },
    Tls { tls: Box<TlsStream<Metered>>, began: Nanos, connect: Nanos },
}

impl Stream {
    /// How it came to be, once the handshake is done.
    pub(super) fn opened(&self) -> Option<Opened> {
        match *self {
            Stream::Tcp { connect, .. } => {
                Some(Opened { connect, handshake: connect, ..Opened::default() })
            }
            Stream::Tls { ref tls, began, connect } => {
                let session = tls.get_ref().1;
                (!session.is_handshaking()).then(|| Opened {
                    connect,
                    handshake: clock::monotonic().since(began),
                    resumed: session.handshake_kind() == Some(HandshakeKind::Resumed),
                    early_data: session.is_early_data_accepted(),
                })
            }
        }
    }

    /// Says goodbye, for a moment at most, and closes.
    pub(super) async fn close(mut self, goodbye: Duration) {
        // Whoever does not take the goodbye goes without.
        let _ = timeout(goodbye, self.shutdown()).await;
    }
}

impl AsyncRead for Stream {
    #[inline]
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp { tcp, .. } => Pin::new(tcp).poll_read(cx, buf),
            Stream::Tls { tls, .. } => Pin::new(tls).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    #[inline]
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Tcp { tcp, .. } => Pin::new(tcp).poll_write(cx, buf),
            Stream::Tls { tls, .. } => Pin::new(tls).poll_write(cx, buf),
        }
    }

    #[inline]
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp { tcp, .. } => Pin::new(tcp).poll_flush(cx),
            Stream::Tls { tls, .. } => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp { tcp, .. } => Pin::new(tcp).poll_shutdown(cx),
            Stream::Tls { tls, .. } => Pin::new(tls).poll_shutdown(cx),
        }
    }
}
