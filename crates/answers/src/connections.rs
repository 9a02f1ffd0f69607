//! Asking servers over connections: one of each worker to each server, opened when it is needed and kept for the next query.
//!
//! ```text
//!   Connections ── query, time limit ──> Asking (a StreamRole) ──> StreamEngine ──> servers
//!               <── outcome of each ──
//! ```
//!
//! A connection that the server has closed since the last query is opened again, once for a query.
//! One on which a reply does not come in time is closed, as a socket is.

use std::sync::atomic::AtomicBool;

use engine::stream::{ConnId, End, Failure, Mix, Opened, Orders, QueryFailure, StreamRole};
use engine::{Next, WaitMode};
use measure::Nanos;
use streams::StreamEngine;
use streams::client::Dialer;

use crate::ask::is_reply;
use crate::spool::Raw;

/// A wait ends by the time limit of the query.
static NOT_STOPPED: AtomicBool = AtomicBool::new(false);

/// The connections of one worker.
pub(crate) struct Connections {
    dialers: Vec<Dialer>,
    /// Made with the first query.
    engine: Option<StreamEngine<QueryInProgress>>,
}

impl Connections {
    /// Makes the connections, without opening them.
    pub(crate) fn new(dialers: Vec<Dialer>) -> Self {
        Connections { dialers, engine: None }
    }

    /// Sends a query to each server, and returns the outcome of each until then.
    pub(crate) fn ask(&mut self, query: &[u8], until: Nanos) -> Vec<Raw> {
        if self.dialers.is_empty() {
            return Vec::new();
        }
        self.try_asking(query, until).unwrap_or_else(|error| {
            let failed = Raw::Failed(error.to_string());
            vec![failed; self.dialers.len()]
        })
    }

    fn try_asking(&mut self, query: &[u8], until: Nanos) -> std::io::Result<Vec<Raw>> {
        let engine = match &mut self.engine {
            Some(engine) => engine,
            none => none.insert(engine(&self.dialers)?),
        };
        engine.role(|asking| asking.begin(query, until));
        engine.drive(WaitMode::Sleep, &NOT_STOPPED)?;
        Ok(engine.role(QueryInProgress::outcomes))
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        // QUIC tells the servers that its connections end.
        self.engine.take().map(StreamEngine::into_role);
    }
}

/// Makes the engine of a connection by each of the dialers.
fn engine(dialers: &[Dialer]) -> std::io::Result<StreamEngine<QueryInProgress>> {
    let mix = Mix::new(&vec![1; dialers.len()]).unwrap_or_else(Mix::one);
    let servers = dialers.iter().map(|_| Server::default()).collect();
    let asking = QueryInProgress { query: Vec::new(), until: Nanos::ZERO, servers };
    StreamEngine::new(dialers.to_vec(), mix, dialers.len(), asking)
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Closed,
    Opening,
    Open,
    /// The role has ordered the end of the connection, or the engine will report it.
    Ending,
}

/// A server, with its connection and the current query there.
#[derive(Debug, Default)]
struct Server {
    state: State,
    /// Whether the query is sent, or will be when the connection is open.
    ordered: bool,
    /// Whether the connection was opened for this query.
    fresh: bool,
    /// Whether the query is sent the second time.
    again: bool,
    outcome: Option<Raw>,
}

impl Server {
    /// Returns whether the query has no outcome at this server yet.
    fn is_asked(&self) -> bool {
        self.ordered && self.outcome.is_none()
    }

    /// Sends the query again if that may help: over a new connection.
    fn fail(&mut self, may_help: bool, why: QueryFailure) {
        if may_help && !self.again {
            (self.ordered, self.again) = (false, true);
            return;
        }
        self.outcome = Some(match why {
            QueryFailure::Connection(
                Failure::ConnectStalled | Failure::HandshakeStalled | Failure::Stalled,
            ) => Raw::Timeout,
            QueryFailure::Connection(why) => Raw::Failed(format!("the connection failed: {why}")),
            why => Raw::Failed(format!("the query failed: {}", why.reason())),
        });
    }
}

/// One query at a time to each server.
struct QueryInProgress {
    query: Vec<u8>,
    until: Nanos,
    /// The servers, by the number of their connection.
    servers: Vec<Server>,
}

impl QueryInProgress {
    fn begin(&mut self, query: &[u8], until: Nanos) {
        (self.query, self.until) = (query.to_vec(), until);
        for server in &mut self.servers {
            *server = Server { state: server.state, ..Server::default() };
        }
    }

    fn outcomes(&mut self) -> Vec<Raw> {
        let outcome = |server: &mut Server| server.outcome.take().unwrap_or(Raw::Timeout);
        self.servers.iter_mut().map(outcome).collect()
    }

    /// Returns the server with this connection, if a message with this tag is about its current query.
    fn about(&mut self, conn: ConnId, tag: Option<&[u8]>) -> Option<&mut Server> {
        let current = tag == self.query.get(..2);
        self.servers.get_mut(conn as usize).filter(|server| current && server.is_asked())
    }
}

impl StreamRole for QueryInProgress {
    fn opened(&mut self, _now: Nanos, conn: ConnId, _how: Opened) {
        let server = &mut self.servers[conn as usize];
        if server.state == State::Opening {
            server.state = State::Open;
        }
    }

    fn message(&mut self, _now: Nanos, conn: ConnId, message: &[u8]) {
        if let Some(server) = self.about(conn, message.get(..2))
            && message.first_chunk().is_some_and(|id| is_reply(message, u16::from_be_bytes(*id)))
        {
            server.outcome = Some(Raw::Message { bytes: message.to_vec(), tcp: false });
        }
    }

    fn failed(&mut self, _now: Nanos, conn: ConnId, tag: [u8; 2], why: QueryFailure) {
        if let Some(server) = self.about(conn, Some(&tag)) {
            let lost = matches!(why, QueryFailure::Connection(_));
            server.fail(lost && !server.fresh, why);
        }
    }

    fn turned_away(&mut self, _now: Nanos, conn: ConnId, message: &[u8]) {
        if let Some(server) = self.about(conn, message.get(..2)) {
            server.fail(true, QueryFailure::Connection(Failure::ClosedEarly));
            if matches!(server.state, State::Opening | State::Open) {
                server.state = State::Ending;
            }
        }
    }

    fn closed(&mut self, _now: Nanos, conn: ConnId, end: End) {
        let server = &mut self.servers[conn as usize];
        server.state = State::Closed;
        if !server.is_asked() {
            return;
        }
        let why = match end {
            // The engine reports the end of its query later.
            End::GoingAway => return,
            End::Failed(why) => why,
            End::ByPeer | End::Ordered => Failure::ClosedEarly,
        };
        server.fail(!server.fresh, QueryFailure::Connection(why));
    }

    fn orders(&mut self, now: Nanos, orders: &mut Orders) -> Next {
        for (conn, server) in (0..).zip(&mut self.servers) {
            if server.outcome.is_some() {
                continue;
            }
            if now >= self.until {
                server.outcome = Some(Raw::Timeout);
                if matches!(server.state, State::Opening | State::Open) {
                    orders.abort(conn);
                    server.state = State::Ending;
                }
            } else if !server.ordered && server.state != State::Ending {
                if server.state == State::Closed {
                    orders.open(conn);
                    (server.state, server.fresh) = (State::Opening, true);
                }
                let query = &self.query;
                orders.send(conn, query.len(), |place| {
                    place.copy_from_slice(query);
                    query.len()
                });
                server.ordered = true;
            }
        }
        let all = self.servers.iter().all(|server| server.outcome.is_some());
        if all { Next::Done } else { Next::At(self.until) }
    }

    fn sent(&mut self, _at: Nanos, _conn: ConnId) {}
}
