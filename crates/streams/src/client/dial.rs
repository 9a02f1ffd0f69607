//! Establishing connections: a socket with the next source address, then UDP, TCP or QUIC, TLS, HTTP.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use engine::clock;
use engine::stream::{ConnId, Failure};
use measure::WriteMode;
use nix::sys::socket::{setsockopt, sockopt};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use socket2::{Domain, Socket, Type};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream, UdpSocket};
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

use super::datagrams::Datagrams;
use super::exchange::Exchange;
use super::failure;
use super::http2::Http2;
use super::meter::{Meter, Metered};
use super::proxy;
use super::quic::Endpoints;
use super::stream::{Stream, WhenOpened};
use super::tcp_info;
use crate::http::Resource;
use crate::tls::{ClientTls, FullHandshakes, TlsError};

/// TLS settings of a dialer.
#[derive(Clone, Debug)]
pub struct TlsDialer {
    /// Versions, protocols, verification, sessions to resume.
    pub config: Arc<ClientConfig>,
    /// Name that is sent (SNI) and for which the certificate must be.
    pub name: ServerName<'static>,
    /// Whether ordered messages are sent with the handshake if a session permits it (0-RTT).
    pub early_data: bool,
    /// Number of full handshakes so far.
    #[cfg_attr(not(feature = "quic"), expect(dead_code, reason = "quinn alone uses this value"))]
    pub(super) full_handshakes: FullHandshakes,
}

impl TlsDialer {
    /// Makes the TLS settings of a client for the server of this name.
    ///
    /// # Errors
    /// As [`ClientTls::build`].
    pub fn new(settings: &ClientTls, name: ServerName<'static>) -> Result<Self, TlsError> {
        let (config, full_handshakes) = settings.build_counted()?;
        let (config, early_data) = (Arc::new(config), settings.early_data);
        Ok(TlsDialer { config, name, early_data, full_handshakes })
    }
}

/// Transport of messages on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carriage {
    /// One UDP datagram per message.
    Datagrams,
    /// Messages with a length in front, on TCP, or on TLS if there is a [`TlsDialer`].
    Framed,
    /// HTTP/2 requests to this resource, on TLS.
    Http2(Resource),
    /// QUIC streams, one for each message.
    Quic,
    /// HTTP/3 requests to this resource, on QUIC.
    Http3(Resource),
}

impl Carriage {
    /// Returns whether connections use QUIC, not TCP.
    pub fn is_quic(&self) -> bool {
        matches!(self, Carriage::Quic | Carriage::Http3(_))
    }
}

/// Settings with which connections are established.
#[derive(Clone, Debug)]
pub struct Dialer {
    /// Address and port of the peer.
    pub target: SocketAddr,
    /// Source addresses, used in turn by the numbers of the connections; empty: the kernel chooses.
    pub sources: Vec<IpAddr>,
    /// Clients named in the PROXY protocol, used in turn; empty: the protocol is not used.
    pub proxied: Vec<IpAddr>,
    /// Whether the header of the PROXY protocol is inside TLS, not in front of it.
    pub proxied_within: bool,
    /// Timeout of establishing a connection, TCP and TLS together.
    pub timeout: Duration,
    /// Transport of the messages on each connection.
    pub carriage: Carriage,
    /// TLS settings, if TLS is used; QUIC requires them.
    pub tls: Option<TlsDialer>,
    /// Whether TCP Fast Open (RFC 7413) is used: the first message is in the SYN if the kernel has a cookie.
    pub fast_open: bool,
    /// Whether connections end with a reset instead of a FIN, so that no port of this host stays in
    /// TIME_WAIT.
    pub reset: bool,
    /// Longest message in bytes; a longer one ends its stream, or the connection if messages share one.
    pub max_message: usize,
    /// Method by which queries that are due together are written over TCP; QUIC forms its packets
    /// itself.
    pub write: WriteMode,
    /// Time after which the stream of a query without a reply is cancelled; `None` for never.
    pub query_timeout: Option<Duration>,
}

impl Dialer {
    /// Makes a dialer for plain TCP to `target` with a timeout of 5 s.
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
            write: WriteMode::default(),
            query_timeout: None,
        }
    }

    /// Makes the endpoints for QUIC; `None` for other transports.
    pub(super) fn endpoints(&self, connections: usize) -> io::Result<Option<Endpoints>> {
        let tls = self.tls.as_ref().filter(|_| self.carriage.is_quic());
        tls.map(|tls| Endpoints::new(self.target, &self.sources, connections, tls)).transpose()
    }

    /// Opens the connection with number `conn`.
    pub(super) async fn dial(
        &self,
        conn: ConnId,
        meter: Meter,
        endpoints: Option<&Endpoints>,
    ) -> Result<DialedConnection, Failure> {
        let (deadline, most) = (Instant::now() + self.timeout, self.max_message);
        if let Some((endpoints, tls)) = endpoints.zip(self.tls.as_ref()) {
            let exchange = endpoints.open(conn, &self.carriage, most, tls, deadline, meter);
            return Ok(DialedConnection::Exchange(exchange.await?));
        }
        if self.carriage == Carriage::Datagrams {
            let made = self.datagrams(conn, meter).map_err(|error| failure::of(&error));
            return Ok(DialedConnection::Framed(Stream::Udp(made?)));
        }
        let stream = self.dial_tcp(conn, meter.clone(), deadline).await?;
        Ok(match &self.carriage {
            Carriage::Http2(resource) => {
                let http = Http2::new(stream, resource.clone(), most, meter);
                let http = timeout_at(deadline, http).await;
                DialedConnection::Exchange(Box::new(http.map_err(|_| Failure::HandshakeStalled)??))
            }
            _ => DialedConnection::Framed(stream),
        })
    }

    /// Opens a TCP connection, with TLS if configured.
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
        // A failure here shows at the first read.
        let _ = stream.set_nodelay(true);
        if self.reset {
            reset_at_end(&stream);
        }
        // The kernel's figure does not contain the time until this thread ran again.
        let connect =
            tcp_info::syn_round_trip(&stream).unwrap_or_else(|| clock::monotonic().since(began));
        let mut tcp = Metered { inner: stream, meter };
        let port = tcp.inner.local_addr().map_err(failed)?.port();
        let header = self.header(conn, port, proxy::Carries::Stream);
        let within = self.proxied_within && self.tls.is_some();
        if !within {
            // The header fits into the buffer of a new connection.
            tcp.write_all(&header).await.map_err(failed)?;
        }
        let Some(tls) = &self.tls else { return Ok(Stream::Tcp { tcp, connect }) };
        let connector = TlsConnector::from(tls.config.clone()).early_data(tls.early_data);
        let mut tls = match timeout_at(deadline, connector.connect(tls.name.clone(), tcp)).await {
            Err(_) => return Err(Failure::HandshakeStalled),
            Ok(tls) => Box::new(tls.map_err(failed)?),
        };
        if within {
            // The header fits into the buffer here too. It is not flushed, since with early data a flush
            // would wait for the end of the handshake.
            tls.write_all(&header).await.map_err(failed)?;
        }
        Ok(Stream::Tls { tls, began, connect, seen: WhenOpened::default() })
    }

    /// Returns the PROXY protocol header of a connection from `port`; empty without the protocol.
    fn header(&self, conn: ConnId, port: u16, carries: proxy::Carries) -> Vec<u8> {
        if self.proxied.is_empty() {
            return Vec::new();
        }
        let client = self.proxied[conn as usize % self.proxied.len()];
        proxy::header(SocketAddr::new(client, port), self.target, carries)
    }

    /// Makes a client that sends queries by UDP.
    fn datagrams(&self, conn: ConnId, meter: Meter) -> io::Result<Datagrams> {
        let socket = self.bound(conn, Type::DGRAM)?;
        socket.connect(&self.target.into())?;
        let socket = UdpSocket::from_std(socket.into())?;
        let port = socket.local_addr()?.port();
        let header = self.header(conn, port, proxy::Carries::Datagrams);
        Ok(Datagrams::new(socket, header, meter))
    }

    /// Opens a TCP socket bound to the source address of a connection.
    fn socket(&self, conn: ConnId) -> io::Result<TcpSocket> {
        let socket = self.bound(conn, Type::STREAM)?;
        if self.fast_open {
            setsockopt(&socket, sockopt::TcpFastOpenConnect, &true)?;
        }
        Ok(TcpSocket::from_std_stream(socket.into()))
    }

    /// Opens a socket of any type bound to the source address of a connection.
    fn bound(&self, conn: ConnId, kind: Type) -> io::Result<Socket> {
        let socket = Socket::new(Domain::for_address(self.target), kind, None)?;
        socket.set_nonblocking(true)?;
        if !self.sources.is_empty() {
            let source = self.sources[conn as usize % self.sources.len()];
            // Addresses of a routed prefix need not be on an interface. The port is chosen when the peer is
            // known, so that all ports are available for each peer.
            let _ = if source.is_ipv4() {
                socket.set_freebind_v4(true)
            } else {
                socket.set_freebind_v6(true)
            };
            setsockopt(&socket, sockopt::IpBindAddressNoPort, &true)?;
            socket.bind(&engine::on_link_of(self.target, source, 0).into())?;
        }
        Ok(socket)
    }
}

/// Makes the kernel reset the connection when it is closed.
fn reset_at_end(stream: &TcpStream) {
    // If this fails, the socket is closed with a FIN.
    let _ = socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO));
}

/// An established connection, by its kind of transport.
pub(super) enum DialedConnection {
    /// One stream, on which one message follows the other.
    Framed(Stream),
    /// A stream for each message.
    Exchange(Box<dyn Exchange>),
}
