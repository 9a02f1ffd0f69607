//! Connections to upstream servers: a few to each, opened when needed, with many queries on each.

use std::cell::Cell;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use self::line::{ConnectionEnd, Line};
use super::shared::Carrier;
use crate::upstream_tls::UpstreamTlsMap;

mod line;

/// Time after which a connection without queries is closed.
const IDLE_TIME: Duration = Duration::from_secs(10);
/// Highest number of outstanding queries on one connection; ids are drawn from 65,536.
const MAX_WAITING: usize = 1_000;
/// Number of connections on which a query may be sent.
pub(super) const TRIES: u8 = 4;
/// Time after a server closed a connection for which a connection gets at most as many queries as
/// the closed connection had answered.
const LIMIT_KEPT_FOR: Duration = Duration::from_secs(60);

/// A query of a worker.
pub(super) struct Query {
    pub(super) worker: usize,
    pub(super) lookup: u32,
    pub(super) ticket: u32,
    pub(super) message: Vec<u8>,
    /// Number of connections on which the query may still be sent, if the server closes them
    /// without a reply: one that makes the server close every connection ends.
    pub(super) tries: u8,
    /// Time until which the query may be sent on another connection.
    pub(super) until: Instant,
}

/// The connections to one server, each with the number of its queries without a reply.
#[derive(Default)]
pub(super) struct ConnectionPool {
    connections: Vec<(mpsc::Sender<Query>, Rc<Cell<usize>>)>,
    /// Number of queries that the server answered on a connection before it closed it early, and
    /// the time of the close.
    closes_after: Option<(usize, Instant)>,
    /// TLS settings with which the connections were made.
    made_by: UpstreamTlsMap,
}

impl Carrier {
    /// Sends a query to a server; the reply or failure goes to the worker.
    pub(super) fn query_upstream(self: &Rc<Self>, server: SocketAddr, query: Query) {
        let active = self.active();
        let config = &active.settings.config.upstream;
        let mut upstreams = self.upstreams.borrow_mut();
        let pool = upstreams.entry(server).or_default();
        if !Arc::ptr_eq(&pool.made_by, &active.upstream_tls) {
            // A reload may have changed the transport. Connections without a pool end after their last replies.
            *pool = ConnectionPool {
                made_by: active.upstream_tls.clone(),
                ..ConnectionPool::default()
            };
        }
        pool.connections.retain(|(connection, _)| !connection.is_closed());
        // First an idle connection, then a new one, then the one with the fewest queries: a server may answer
        // those of one connection in their order (RFC 7766 section 6.2.1.1).
        let pending = |(_, pending): &(_, Rc<Cell<usize>>)| pending.get();
        let has_idle = pool.connections.iter().any(|connection| pending(connection) == 0);
        if !has_idle && pool.connections.len() < self.upstream_share(config.tcp_connections) {
            let (sender, queries) = mpsc::channel(MAX_WAITING);
            let pending = Rc::<Cell<usize>>::default();
            let known = pool.closes_after.filter(|(_, since)| since.elapsed() < LIMIT_KEPT_FOR);
            let connection = UpstreamConnection {
                server,
                queries,
                most: known.map_or(usize::MAX, |(most, _)| most),
                query_timeout: Duration::from(config.tcp_timeout),
                waiting: HashMap::new(),
                pending: pending.clone(),
                answered: 0,
                carrier: self.clone(),
            };
            tokio::task::spawn_local(connection.run());
            pool.connections.push((sender, pending));
        }
        let least = pool.connections.iter().min_by_key(|connection| pending(connection));
        let (connection, pending) = least.expect("a connection exists or was just added");
        match connection.try_send(query) {
            Ok(()) => pending.update(|pending| pending + 1),
            Err(error) => {
                drop(upstreams);
                self.reply(&error.into_inner(), None);
            }
        }
    }
}

/// A connection with its queries.
struct UpstreamConnection {
    server: SocketAddr,
    queries: mpsc::Receiver<Query>,
    /// Number of queries that are sent on it.
    most: usize,
    query_timeout: Duration,
    /// Queries without a reply, by their ids.
    waiting: HashMap<u16, Query>,
    /// Number of waiting and queued queries.
    pending: Rc<Cell<usize>>,
    answered: usize,
    carrier: Rc<Carrier>,
}

impl UpstreamConnection {
    /// Sends the queries until the connection ends. Unanswered ones are then sent on another one (RFC 7766 section 6.2.4).
    async fn run(mut self) {
        let end = self.exchange().await;
        self.queries.close();
        let UpstreamConnection { server, mut queries, mut waiting, answered, carrier, .. } = self;
        if end == ConnectionEnd::Closed && !waiting.is_empty() && answered > 0 {
            let mut upstreams = carrier.upstreams.borrow_mut();
            upstreams.entry(server).or_default().closes_after = Some((answered, Instant::now()));
        }
        for query in waiting.values_mut() {
            query.tries -= 1;
        }
        let queued = std::iter::from_fn(|| queries.try_recv().ok());
        for query in waiting.into_values().chain(queued) {
            if end != ConnectionEnd::Failed && query.tries > 0 && Instant::now() < query.until {
                carrier.query_upstream(server, query);
            } else {
                carrier.reply(&query, None);
            }
        }
    }

    /// Sends queries and receives replies until the connection ends.
    async fn exchange(&mut self) -> ConnectionEnd {
        let query_timeout = self.query_timeout;
        let (active, warnings) = (self.carrier.active(), &self.carrier.tls_warnings);
        let connecting = Line::connect(self.server, query_timeout, &active, warnings);
        let mut line = match timeout(query_timeout, connecting).await {
            Ok(Ok(line)) => line,
            Ok(Err(_)) => return ConnectionEnd::Failed,
            Err(_) => {
                if active.upstream_tls.get(&self.server).is_some() {
                    let why = "its handshake did not end in time";
                    let error = io::Error::new(io::ErrorKind::TimedOut, why);
                    warnings.failed(self.server, &error);
                }
                return ConnectionEnd::Failed;
            }
        };
        let (mut id, mut sent) = (0u16, 0);
        let mut deadline = Instant::now() + IDLE_TIME;
        loop {
            if line.is_closing() {
                self.queries.close();
            }
            let takes = sent < self.most && !self.queries.is_closed();
            if self.waiting.is_empty() && !takes {
                return ConnectionEnd::Closed;
            }
            tokio::select! {
                received = line.receive() => {
                    let (id, message) = match received {
                        Ok(Some(received)) => received,
                        Ok(None) => continue,
                        Err(end) => return end,
                    };
                    // Ids without a pending query are ignored.
                    let Some(query) = self.waiting.remove(&id) else { continue };
                    self.pending.update(|pending| pending - 1);
                    if message.is_some() {
                        let is_idle = self.waiting.is_empty();
                        let wait = if is_idle { IDLE_TIME } else { query_timeout };
                        (self.answered, deadline) = (self.answered + 1, Instant::now() + wait);
                    }
                    self.carrier.reply(&query, message);
                }
                query = self.queries.recv(), if takes && self.waiting.len() < MAX_WAITING => {
                    let mut next = query;
                    if self.waiting.is_empty() {
                        deadline = Instant::now() + query_timeout;
                    }
                    while let Some(mut query) = next {
                        while self.waiting.contains_key(&id) {
                            id = id.wrapping_add(1);
                        }
                        line.push(id, &mut query.message, query_timeout);
                        self.waiting.insert(id, query);
                        (id, sent) = (id.wrapping_add(1), sent + 1);
                        let has_room = self.waiting.len() < MAX_WAITING && sent < self.most;
                        next = if has_room { self.queries.try_recv().ok() } else { None };
                    }
                    match timeout(query_timeout, line.flush()).await {
                        Ok(Ok(())) => {}
                        Ok(Err(_)) => return ConnectionEnd::Closed,
                        Err(_) => return ConnectionEnd::Failed,
                    }
                }
                () = tokio::time::sleep_until(deadline) => {
                    return if self.waiting.is_empty() { ConnectionEnd::Closed } else { ConnectionEnd::Failed };
                }
            }
        }
    }
}
