//! Connections to upstream servers: a few to each, opened when needed, with many queries on each.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::Duration;

use dns64::Config;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use super::frames::{self, Frames};
use super::shared::Carrier;
use crate::route;

/// Time after which a connection without queries is closed.
const IDLE_TIME: Duration = Duration::from_secs(10);
/// Shortest time between two warnings about TLS.
const WARNING_INTERVAL: Duration = Duration::from_secs(10);
/// Longest reply, in octets.
const MAX_REPLY: usize = u16::MAX as usize;
/// Highest number of outstanding queries on one connection; ids are drawn from 65,536.
const MAX_WAITING: usize = 1_000;
/// Number of connections on which a query may be sent.
pub(super) const TRIES: u8 = 4;
/// Time for which no more queries are sent on a connection than the server has answered before it closed one.
const REMEMBERED: Duration = Duration::from_secs(60);

/// A query of a worker.
pub(super) struct Query {
    pub(super) worker: usize,
    pub(super) lookup: u32,
    pub(super) ticket: u32,
    pub(super) message: Vec<u8>,
    /// Number of connections on which it may still be sent, if the server closes them without a reply: one that makes the server
    /// close every connection ends.
    pub(super) tries: u8,
    /// Time until which it may be sent on another one.
    pub(super) until: Instant,
}

/// The connections to one server, and the index of the next one to use.
#[derive(Default)]
pub(super) struct Pool {
    connections: Vec<mpsc::Sender<Query>>,
    next: usize,
    /// How many queries the server has answered on a connection that it closed before it had answered all, and when.
    closes_after: Option<(usize, Instant)>,
}

/// How a connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The server has closed it, or it has served its time (RFC 7766 section 6.2.3).
    Closed,
    /// There was none, or it is of no use: the server is silent, or sends no messages.
    Failed,
}

impl Carrier {
    /// Logs that TLS with a server failed, at most once in a while, since every query would repeat it.
    fn warn_about_tls(&self, server: SocketAddr, error: &io::Error) {
        let now = Instant::now();
        if self.warned_at.get().is_none_or(|last| now - last >= WARNING_INTERVAL) {
            self.warned_at.set(Some(now));
            tracing::warn!(%server, "no TLS with upstream: {error}");
        }
    }

    /// Sends a query to a server; the reply or failure goes to the worker.
    pub(super) fn query_upstream(self: &Rc<Self>, server: SocketAddr, query: Query) {
        let config = &self.settings().config.upstream;
        let mut upstreams = self.upstreams.borrow_mut();
        let pool = upstreams.entry(server).or_default();
        pool.connections.retain(|connection| !connection.is_closed());
        let mut query = query;
        // First an idle connection, then a new one, then any with room.
        let idle = pool.connections.iter().position(|c| c.capacity() == c.max_capacity());
        if let Some(idle) = idle {
            match pool.connections[idle].try_send(query) {
                Ok(()) => return,
                Err(error) => query = error.into_inner(),
            }
        }
        if pool.connections.len() < self.upstream_share(config.tcp_connections) {
            let (sender, queries) = mpsc::channel(MAX_WAITING);
            let carrier = self.clone();
            let query_timeout = Duration::from(config.tcp_timeout);
            let known = pool.closes_after.filter(|(_, since)| since.elapsed() < REMEMBERED);
            let most = known.map_or(usize::MAX, |(most, _)| most);
            tokio::task::spawn_local(async move {
                connection(server, queries, most, query_timeout, &carrier).await;
            });
            pool.connections.push(sender);
            pool.next = pool.connections.len() - 1;
        } else {
            pool.next = (pool.next + 1) % pool.connections.len();
        }
        if let Err(error) = pool.connections[pool.next].try_send(query) {
            drop(upstreams);
            self.reply(&error.into_inner(), None);
        }
    }
}

/// Runs one connection, for `most` queries. When it ends, unanswered queries are sent on another one (RFC 7766 section 6.2.4).
async fn connection(
    server: SocketAddr,
    mut queries: mpsc::Receiver<Query>,
    most: usize,
    query_timeout: Duration,
    carrier: &Rc<Carrier>,
) {
    let mut waiting = HashMap::new();
    let mut answered = 0;
    let bounds = Bounds { most, query_timeout };
    let end = exchange(server, &mut queries, bounds, &mut waiting, &mut answered, carrier).await;
    queries.close();
    if end == End::Closed && !waiting.is_empty() && answered > 0 {
        let mut upstreams = carrier.upstreams.borrow_mut();
        upstreams.entry(server).or_default().closes_after = Some((answered, Instant::now()));
    }
    for query in waiting.values_mut() {
        query.tries -= 1;
    }
    let queued = std::iter::from_fn(|| queries.try_recv().ok());
    for query in waiting.into_values().chain(queued) {
        if end == End::Closed && query.tries > 0 && Instant::now() < query.until {
            carrier.query_upstream(server, query);
        } else {
            carrier.reply(&query, None);
        }
    }
}

/// The two directions of a connection, whatever it is.
type Ways = (Box<dyn AsyncRead + Unpin>, Box<dyn AsyncWrite + Unpin>);

/// Opens a socket for a connection to a server, bound as configured.
fn open(server: SocketAddr, way: SocketAddr, config: &Config) -> io::Result<TcpSocket> {
    let socket = if way.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    route::prepare(&config.upstream.route, socket.as_fd())?;
    if let Some(source) = config.source_of(server, way) {
        socket.bind(SocketAddr::new(source, 0))?;
    }
    Ok(socket)
}

/// Connects to a server, with TLS where that is what upstream is asked by.
async fn connect(server: SocketAddr, carrier: &Carrier) -> io::Result<Ways> {
    let active = carrier.active();
    let no_prefix = || io::Error::other("the prefix of its NAT64 is not known");
    let way = active.settings.way_to(server).ok_or_else(no_prefix)?;
    let stream = open(server, way, &active.settings.config)?.connect(way).await?;
    stream.set_nodelay(true)?;
    let Some(tls) = active.upstream_tls.get(&server) else {
        let (reader, writer) = stream.into_split();
        return Ok((Box::new(reader), Box::new(writer)));
    };
    let name = match tls.name.as_str() {
        "" => ServerName::from(server.ip()),
        name => ServerName::try_from(name.to_owned()).map_err(io::Error::other)?,
    };
    let connected = TlsConnector::from(tls.config.clone()).connect(name, stream).await;
    let stream = connected.inspect_err(|error| carrier.warn_about_tls(server, error))?;
    let (reader, writer) = tokio::io::split(stream);
    Ok((Box::new(reader), Box::new(writer)))
}

/// Bounds of a connection.
#[derive(Clone, Copy)]
struct Bounds {
    /// Number of queries.
    most: usize,
    query_timeout: Duration,
}

/// Sends queries and receives replies until the connection ends; counts those that were answered.
async fn exchange(
    server: SocketAddr,
    queries: &mut mpsc::Receiver<Query>,
    bounds: Bounds,
    waiting: &mut HashMap<u32, Query>,
    answered: &mut usize,
    carrier: &Rc<Carrier>,
) -> End {
    let Bounds { most, query_timeout } = bounds;
    let connected = timeout(query_timeout, connect(server, carrier)).await;
    let Ok(Ok((mut reader, mut writer))) = connected else { return End::Failed };
    let (mut frames, mut output) = (Frames::new(MAX_REPLY), Vec::new());
    let (mut id, mut sent) = (0u16, 0);
    let mut deadline = Instant::now() + IDLE_TIME;
    loop {
        let Ok(replies) = pass_replies(&mut frames, waiting, carrier) else { return End::Failed };
        *answered += replies;
        if replies > 0 {
            let wait = if waiting.is_empty() { IDLE_TIME } else { query_timeout };
            deadline = Instant::now() + wait;
        }
        if waiting.is_empty() && sent >= most {
            return End::Closed;
        }
        tokio::select! {
            more = frames.read(&mut reader) => {
                // A server that closes a connection with unread queries resets it.
                if !matches!(more, Ok(true)) {
                    return End::Closed;
                }
            }
            query = queries.recv(), if waiting.len() < MAX_WAITING && sent < most => {
                let mut next = query;
                if waiting.is_empty() {
                    deadline = Instant::now() + query_timeout;
                }
                while let Some(mut query) = next {
                    while waiting.contains_key(&u32::from(id)) {
                        id = id.wrapping_add(1);
                    }
                    query.message[..2].copy_from_slice(&id.to_be_bytes());
                    frames::push(&mut output, &query.message);
                    waiting.insert(id.into(), query);
                    id = id.wrapping_add(1);
                    sent += 1;
                    let has_room = waiting.len() < MAX_WAITING && sent < most;
                    next = if has_room { queries.try_recv().ok() } else { None };
                }
                let written = async {
                    writer.write_all(&output).await?;
                    writer.flush().await
                };
                match timeout(query_timeout, written).await {
                    Ok(Ok(())) => output.clear(),
                    Ok(Err(_)) => return End::Closed,
                    Err(_) => return End::Failed,
                }
            }
            () = tokio::time::sleep_until(deadline) => {
                return if waiting.is_empty() { End::Closed } else { End::Failed };
            }
        }
    }
}

/// Passes the replies that have come to those who wait for them; returns their number.
fn pass_replies(
    frames: &mut Frames,
    waiting: &mut HashMap<u32, Query>,
    carrier: &Rc<Carrier>,
) -> io::Result<usize> {
    let mut replies = 0;
    while let Some(message) = frames.next()? {
        let Some(&id) = message.first_chunk::<2>() else { continue };
        // Ids without a pending query are ignored.
        if let Some(query) = waiting.remove(&u32::from(u16::from_be_bytes(id))) {
            carrier.reply(&query, Some(message));
            replies += 1;
        }
    }
    Ok(replies)
}
