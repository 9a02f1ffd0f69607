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

/// A query of a worker.
pub(super) struct Query {
    pub(super) worker: usize,
    pub(super) lookup: u32,
    pub(super) ticket: u32,
    pub(super) message: Vec<u8>,
    /// Whether it may be sent on another connection if this one is closed before the reply.
    pub(super) again: bool,
}

/// The connections to one server, and the index of the next one to use.
#[derive(Default)]
pub(super) struct Pool {
    connections: Vec<mpsc::Sender<Query>>,
    next: usize,
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
            tokio::task::spawn_local(async move {
                connection(server, queries, query_timeout, &carrier).await;
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

/// Runs one connection. When it ends, unanswered queries are sent once more on another one.
async fn connection(
    server: SocketAddr,
    mut queries: mpsc::Receiver<Query>,
    query_timeout: Duration,
    carrier: &Rc<Carrier>,
) {
    let mut waiting = HashMap::new();
    let answered = exchange(server, &mut queries, query_timeout, &mut waiting, carrier).await;
    queries.close();
    while let Ok(query) = queries.try_recv() {
        waiting.insert(waiting.len() as u32 + (1 << 16), query);
    }
    for (_, mut query) in waiting {
        // A server may close a connection that has served its time (RFC 7766 section 6.2.3).
        if std::mem::take(&mut query.again) && matches!(answered, Ok(1..)) {
            carrier.query_upstream(server, query);
        } else {
            carrier.reply(&query, None);
        }
    }
}

/// The two directions of a connection, whatever it is.
type Ways = (Box<dyn AsyncRead + Unpin>, Box<dyn AsyncWrite + Unpin>);

/// Opens a socket for a connection to a server, bound as configured.
fn open(server: SocketAddr, config: &Config) -> io::Result<TcpSocket> {
    let socket = if server.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    route::prepare(&config.upstream.route, socket.as_fd())?;
    if let Some(source) = config.source_of(server) {
        socket.bind(SocketAddr::new(source, 0))?;
    }
    Ok(socket)
}

/// Connects to a server, with TLS where that is what upstream is asked by.
async fn connect(server: SocketAddr, carrier: &Carrier) -> io::Result<Ways> {
    let active = carrier.active();
    let stream = open(server, &active.settings.config)?.connect(server).await?;
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

/// Sends queries and receives replies until the connection ends; returns how many were answered.
async fn exchange(
    server: SocketAddr,
    queries: &mut mpsc::Receiver<Query>,
    query_timeout: Duration,
    waiting: &mut HashMap<u32, Query>,
    carrier: &Rc<Carrier>,
) -> io::Result<u64> {
    let connecting = connect(server, carrier);
    let (mut reader, mut writer) =
        timeout(query_timeout, connecting).await.map_err(io::Error::from)??;
    let (mut frames, mut output) = (Frames::new(MAX_REPLY), Vec::new());
    let (mut id, mut answered) = (0u16, 0);
    let mut deadline = Instant::now() + IDLE_TIME;
    loop {
        while let Some(message) = frames.next()? {
            let Some(&id) = message.first_chunk::<2>() else { continue };
            // Ids without a pending query are ignored.
            if let Some(query) = waiting.remove(&u32::from(u16::from_be_bytes(id))) {
                carrier.reply(&query, Some(message));
                answered += 1;
                deadline =
                    Instant::now() + if waiting.is_empty() { IDLE_TIME } else { query_timeout };
            }
        }
        tokio::select! {
            more = frames.read(&mut reader) => {
                if !more? {
                    return Ok(answered);
                }
            }
            query = queries.recv(), if waiting.len() < MAX_WAITING => {
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
                    next = if waiting.len() < MAX_WAITING { queries.try_recv().ok() } else { None };
                }
                let written = async {
                    writer.write_all(&output).await?;
                    writer.flush().await
                };
                timeout(query_timeout, written).await.map_err(io::Error::from)??;
                output.clear();
            }
            () = tokio::time::sleep_until(deadline) => return Ok(if waiting.is_empty() { answered } else { 0 }),
        }
    }
}
