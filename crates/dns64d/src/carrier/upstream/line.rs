//! A connection to an upstream server: its messages follow each other (TCP, TLS), or have streams of their own (HTTP, QUIC).

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use dns64::Config;
use measure::any_address;
use socket2::{Domain, Socket, Type};
use streams::client::{Carriage, Reply, Requests, Unanswered};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use wire::message::reduce_ttls;

use super::super::active::{ActiveSettings, TlsWarnings};
use super::super::frames::{self, Frames};
use crate::route;
use crate::upstream_tls::UpstreamTls;

const MAX_REPLY: usize = u16::MAX as usize;

/// Id of a query, and its reply; `None` if there is no reply.
type ReceivedReply = (u16, Option<Vec<u8>>);

/// How a connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionEnd {
    /// The server closed the connection, it was idle for too long (RFC 7766 section 6.2.3), or it
    /// has carried its last query.
    Closed,
    /// The server announced that it takes no more queries on the connection, or refused one.
    GoingAway,
    /// There was no connection, or a useless one: the server is silent, or sends no messages.
    Failed,
}

/// A connection to an upstream server, by how it carries messages.
pub(super) enum Line {
    /// Messages with their lengths in front.
    Framed {
        frames: Frames,
        reader: Box<dyn AsyncRead + Unpin>,
        writer: Box<dyn AsyncWrite + Unpin>,
        output: Vec<u8>,
    },
    /// Messages with streams of their own.
    Requests {
        requests: Requests,
        pending: JoinSet<(u16, Result<Vec<u8>, Unanswered>)>,
        /// Whether the connection takes no more queries.
        is_closing: bool,
        has_ended: bool,
    },
}

impl Line {
    /// Connects to a server over its transport, within a time that the caller ends too.
    ///
    /// # Errors
    /// Errors of the socket and of TLS, which are logged.
    pub(super) async fn connect(
        server: SocketAddr,
        within: Duration,
        active: &ActiveSettings,
        warnings: &TlsWarnings,
    ) -> io::Result<Self> {
        let no_prefix = || io::Error::other("the prefix of its NAT64 is not known");
        let way = active.settings.way_to(server).ok_or_else(no_prefix)?;
        let open = |kind| open(server, way, kind, &active.settings.config);
        let tls = active.upstream_tls.get(&server);
        if let Some(UpstreamTls { dialer, carriage }) = tls
            && carriage.is_quic()
        {
            let socket = open(Type::DGRAM)?.into();
            let requests = Requests::over_quic(socket, way, carriage, dialer, within).await;
            return requests.map(Line::of).inspect_err(|e| warnings.failed(server, e));
        }
        let socket = TcpSocket::from_std_stream(open(Type::STREAM)?.into());
        let stream = socket.connect(way).await?;
        stream.set_nodelay(true)?;
        let Some(tls) = tls else {
            let (reader, writer) = stream.into_split();
            return Ok(Line::framed(reader, writer));
        };
        Self::encrypted(stream, tls).await.inspect_err(|e| warnings.failed(server, e))
    }

    /// Begins TLS on a connection over TCP.
    async fn encrypted(stream: TcpStream, tls: &UpstreamTls) -> io::Result<Self> {
        let UpstreamTls { dialer, carriage } = tls;
        if let Carriage::Http2(resource) = carriage {
            return Ok(Line::of(Requests::over_tcp(stream, resource, dialer).await?));
        }
        let connector = TlsConnector::from(dialer.config.clone());
        let (reader, writer) =
            tokio::io::split(connector.connect(dialer.name.clone(), stream).await?);
        Ok(Line::framed(reader, writer))
    }

    fn framed(
        reader: impl AsyncRead + Unpin + 'static,
        writer: impl AsyncWrite + Unpin + 'static,
    ) -> Self {
        Line::Framed {
            frames: Frames::new(MAX_REPLY),
            reader: Box::new(reader),
            writer: Box::new(writer),
            output: Vec::new(),
        }
    }

    fn of(requests: Requests) -> Self {
        Line::Requests { requests, pending: JoinSet::new(), is_closing: false, has_ended: false }
    }

    /// Returns whether the connection takes no more queries, but may still bring replies.
    pub(super) fn is_closing(&self) -> bool {
        matches!(self, Line::Requests { is_closing, has_ended, .. } if *is_closing || *has_ended)
    }

    /// Prepares a query with this id to be sent; a stream of its own ends without a reply after `query_timeout`.
    pub(super) fn push(&mut self, id: u16, query: &mut [u8], query_timeout: Duration) {
        match self {
            Line::Framed { output, .. } => {
                query[..2].copy_from_slice(&id.to_be_bytes());
                frames::push(output, query);
            }
            // The stream relates the reply to the query (RFC 8484 section 4.1, RFC 9250 section 4.2.1).
            Line::Requests { requests, pending, .. } => {
                query[..2].fill(0);
                let reply = timeout(query_timeout, requests.send(query.to_vec()));
                pending.spawn_local(async move {
                    let reply = reply.await.unwrap_or(Err(Unanswered::Failed));
                    let message = reply.map(|Reply { mut message, age }| {
                        reduce_ttls(&mut message, age);
                        message
                    });
                    (id, message)
                });
            }
        }
    }

    /// Sends the prepared octets.
    ///
    /// # Errors
    /// If the connection has ended.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        // Queries with streams of their own are sent by their tasks.
        let Line::Framed { writer, output, .. } = self else { return Ok(()) };
        writer.write_all(output).await?;
        writer.flush().await?;
        output.clear();
        Ok(())
    }

    /// Returns the next reply; `None` if it [is closing](Self::is_closing) now. If the future is dropped before it is ready, nothing
    /// is lost.
    ///
    /// # Errors
    /// How the connection has ended.
    pub(super) async fn receive(&mut self) -> Result<Option<ReceivedReply>, ConnectionEnd> {
        let is_closing = self.is_closing();
        match self {
            Line::Framed { frames, reader, .. } => loop {
                while let Some(message) = frames.next().map_err(|_| ConnectionEnd::Failed)? {
                    if let Some(&id) = message.first_chunk() {
                        return Ok(Some((u16::from_be_bytes(id), Some(message.to_vec()))));
                    }
                }
                // A server that closes a connection with unread queries resets it.
                if !matches!(frames.read(reader).await, Ok(true)) {
                    return Err(ConnectionEnd::Closed);
                }
            },
            Line::Requests { pending, .. } if is_closing && pending.is_empty() => {
                Err(ConnectionEnd::GoingAway)
            }
            Line::Requests { requests, pending, is_closing, has_ended } => {
                tokio::select! {
                    biased;
                    Some(Ok((id, reply))) = pending.join_next() => match reply {
                        Ok(message) => return Ok(Some((id, Some(message)))),
                        Err(Unanswered::Failed) => return Ok(Some((id, None))),
                        // The caller sends it on another connection.
                        Err(Unanswered::Closed) => *is_closing = true,
                    },
                    // Replies received before the end count.
                    () = requests.ended(), if !*has_ended => *has_ended = true,
                    else => {}
                }
                Ok(None)
            }
        }
    }
}

/// Opens a socket for a connection to a server, bound as configured.
fn open(server: SocketAddr, way: SocketAddr, kind: Type, config: &Config) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(way), kind, None)?;
    socket.set_nonblocking(true)?;
    route::prepare(&config.upstream.route, socket.as_fd())?;
    let source = config.source_of(server, way);
    // QUIC needs a port before the first packet.
    if let Some(source) = source.or((kind == Type::DGRAM).then(|| any_address(way.ip()))) {
        socket.bind(&SocketAddr::new(source, 0).into())?;
    }
    Ok(socket)
}
