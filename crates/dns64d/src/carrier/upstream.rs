//! Connections to upstream servers: a few to each, opened when they are needed, with many queries on each.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use super::Carrier;
use super::frames::{self, Frames};

/// How long a connection without queries is kept.
const KEEP: Duration = Duration::from_secs(10);
/// The least time between two warnings about TLS.
const COMPLAIN_EVERY: Duration = Duration::from_secs(10);
/// Queries that wait on one connection; ids are drawn from 65,536.
const MAX_WAITING: usize = 1_000;

/// A worker's query.
pub(super) struct Ask {
    pub(super) worker: usize,
    pub(super) lookup: u32,
    pub(super) ticket: u32,
    pub(super) message: Vec<u8>,
    /// Whether it may be asked on another connection, should this one be closed before the reply.
    pub(super) again: bool,
}

/// The connections to one server, and which one is next.
#[derive(Default)]
pub(super) struct Pool {
    connections: Vec<mpsc::Sender<Ask>>,
    next: usize,
}

impl Carrier {
    /// Logs that a server's TLS is of no use, once in a while: each query would find it so.
    fn complain(&self, server: SocketAddr, error: &io::Error) {
        let now = Instant::now();
        if self.complained.get().is_none_or(|last| now - last >= COMPLAIN_EVERY) {
            self.complained.set(Some(now));
            tracing::warn!(%server, "no TLS with upstream: {error}");
        }
    }

    /// Asks a server; what comes of it goes to the worker.
    pub(super) fn ask(self: &Rc<Self>, server: SocketAddr, ask: Ask) {
        let config = &self.settings().config.upstream;
        let mut upstreams = self.upstreams.borrow_mut();
        let pool = upstreams.entry(server).or_default();
        pool.connections.retain(|connection| !connection.is_closed());
        let mut ask = ask;
        // One with nothing to do, else a new one, else any with room.
        let idle = pool.connections.iter().position(|c| c.capacity() == c.max_capacity());
        if let Some(idle) = idle {
            match pool.connections[idle].try_send(ask) {
                Ok(()) => return,
                Err(error) => ask = error.into_inner(),
            }
        }
        if pool.connections.len() < config.tcp_connections.max(1) {
            let (sender, queries) = mpsc::channel(MAX_WAITING);
            let carrier = self.clone();
            let patience = Duration::from(config.tcp_timeout);
            tokio::task::spawn_local(async move {
                connection(server, queries, patience, &carrier).await;
            });
            pool.connections.push(sender);
            pool.next = pool.connections.len() - 1;
        } else {
            pool.next = (pool.next + 1) % pool.connections.len();
        }
        if let Err(error) = pool.connections[pool.next].try_send(ask) {
            drop(upstreams);
            self.reply(&error.into_inner(), None);
        }
    }
}

/// One connection: when it ends, what was not answered is asked again on another one, once.
async fn connection(
    server: SocketAddr,
    mut queries: mpsc::Receiver<Ask>,
    patience: Duration,
    carrier: &Rc<Carrier>,
) {
    let mut waiting = HashMap::new();
    let answered = exchange(server, &mut queries, patience, &mut waiting, carrier).await;
    queries.close();
    while let Ok(ask) = queries.try_recv() {
        waiting.insert(waiting.len() as u32 + (1 << 16), ask);
    }
    for (_, mut ask) in waiting {
        // A server may close a connection that has served its time (RFC 7766 section 6.2.3).
        if std::mem::take(&mut ask.again) && matches!(answered, Ok(1..)) {
            carrier.ask(server, ask);
        } else {
            carrier.reply(&ask, None);
        }
    }
}

/// The two directions of a connection, whatever it is.
type Ways = (Box<dyn AsyncRead + Unpin>, Box<dyn AsyncWrite + Unpin>);

/// Connects to a server, with TLS where that is what upstream is asked by.
async fn connect(server: SocketAddr, carrier: &Carrier) -> io::Result<Ways> {
    let in_force = carrier.in_force();
    let stream = TcpStream::connect(server).await?;
    stream.set_nodelay(true)?;
    let Some(tls) = in_force.upstream_tls else {
        let (reader, writer) = stream.into_split();
        return Ok((Box::new(reader), Box::new(writer)));
    };
    let name = match in_force.settings.config.upstream.tls_name.as_str() {
        "" => ServerName::from(server.ip()),
        name => ServerName::try_from(name.to_owned()).map_err(io::Error::other)?,
    };
    let connected = TlsConnector::from(tls).connect(name, stream).await;
    let stream = connected.inspect_err(|error| carrier.complain(server, error))?;
    let (reader, writer) = tokio::io::split(stream);
    Ok((Box::new(reader), Box::new(writer)))
}

/// Sends queries and takes replies until the connection ends; how many were answered.
async fn exchange(
    server: SocketAddr,
    queries: &mut mpsc::Receiver<Ask>,
    patience: Duration,
    waiting: &mut HashMap<u32, Ask>,
    carrier: &Rc<Carrier>,
) -> io::Result<u64> {
    let connecting = connect(server, carrier);
    let (mut reader, mut writer) =
        timeout(patience, connecting).await.map_err(io::Error::from)??;
    let (mut frames, mut output) = (Frames::new(), Vec::new());
    let (mut id, mut answered) = (0u16, 0);
    let mut deadline = Instant::now() + KEEP;
    loop {
        while let Some(message) = frames.next() {
            let Some(&id) = message.first_chunk::<2>() else { continue };
            // Somebody waits for this id, or it is not his.
            if let Some(ask) = waiting.remove(&u32::from(u16::from_be_bytes(id))) {
                carrier.reply(&ask, Some(message.to_vec()));
                answered += 1;
                deadline = Instant::now() + if waiting.is_empty() { KEEP } else { patience };
            }
        }
        tokio::select! {
            more = frames.read(&mut reader) => {
                if !more? {
                    return Ok(answered);
                }
            }
            ask = queries.recv(), if waiting.len() < MAX_WAITING => {
                let mut next = ask;
                if waiting.is_empty() {
                    deadline = Instant::now() + patience;
                }
                while let Some(mut ask) = next {
                    while waiting.contains_key(&u32::from(id)) {
                        id = id.wrapping_add(1);
                    }
                    ask.message[..2].copy_from_slice(&id.to_be_bytes());
                    frames::push(&mut output, &ask.message);
                    waiting.insert(id.into(), ask);
                    id = id.wrapping_add(1);
                    next = if waiting.len() < MAX_WAITING { queries.try_recv().ok() } else { None };
                }
                let written = async {
                    writer.write_all(&output).await?;
                    writer.flush().await
                };
                timeout(patience, written).await.map_err(io::Error::from)??;
                output.clear();
            }
            () = tokio::time::sleep_until(deadline) => return Ok(if waiting.is_empty() { answered } else { 0 }),
        }
    }
}
