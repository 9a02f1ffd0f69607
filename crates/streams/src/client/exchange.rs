//! A connection on which each message and its reply have their own stream: HTTP/2, HTTP/3, QUIC.
//!
//! Streams relate replies to queries, so that the tag of a message is sent as 0 (RFC 8484 section 4.1, RFC
//! 9250 section 4.2.1) and put back into the reply. The libraries allocate memory for each message, as in any
//! client.
//!
//! ```text
//! reply                                   message
//! status, reset, no message               failed: the connection goes on
//! refused, not processed                  sent again after a pause, REFUSALS times; then failed
//! not processed, GOAWAY                   turned away; the connection takes no new queries (`GoingAway`)
//! connection lost                         the end of the connection
//! ```

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use engine::clock;
use engine::stream::{ConnId, End, Failure, Opened, QueryFailure, StreamRole, first_message};
use futures_util::stream::{FuturesUnordered, StreamExt};
use measure::WriteMode;
use tokio::time::{Instant, sleep, sleep_until};

use super::meter::Meter;
use super::shared::{Caller, Shared};

/// A query whose stream the peer refuses is sent again this many times at most: 127 ms in all.
const MAX_REFUSALS: u32 = 7;
/// Pause after the first refusal; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(1);

/// Reason why a stream brought no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoReply {
    /// The query failed, for this reason.
    Failed(QueryFailure),
    /// The peer has not processed the query; it may be sent again on this connection.
    Refused,
    /// The peer has not processed the query and accepts no more on this connection.
    TurnedAway,
    /// The connection has ended, with this result.
    Over(End),
    /// The query is overdue and its stream cancelled.
    Overdue,
}

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The DNS message.
    pub message: Vec<u8>,
    /// How long it has been in caches of HTTP, in seconds.
    pub age: u32,
}

/// A pending query, which returns its reply. Its future starts when it is polled.
pub(super) type PendingReply = Pin<Box<dyn Future<Output = Result<Reply, NoReply>>>>;

/// Whether a query has, or had, a stream of its own, which the peer permits.
pub(super) type HasStream = Rc<Cell<bool>>;

/// A connection for queries with their own streams.
pub(super) trait Exchange {
    /// Sends the query `message`; sets `has_stream` when its stream is open.
    fn send_query(&mut self, message: Bytes, has_stream: HasStream) -> PendingReply;
    /// Does the work of the connection itself; ready when it has ended. `GoingAway` means that the peer has not processed
    /// the pending queries.
    fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<End>;
    /// Returns the properties of the established connection, once the handshake is done.
    fn opened(&mut self) -> Option<Opened>;
    /// Closes the connection as its protocol demands, so that the peer sees no error.
    fn close(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()>>>;
}

/// One connection with its pending queries.
pub(super) struct Task {
    conn: ConnId,
    exchange: Box<dyn Exchange>,
    /// Time after which the stream of a query without a reply is cancelled.
    query_timeout: Option<Duration>,
    write_mode: WriteMode,
    meter: Meter,
    pending: FuturesUnordered<Pending>,
    /// Number of bytes of the output that are handed to the connection.
    taken: usize,
    /// Whether the role knows that the connection is established.
    announced: bool,
    /// Whether the peer accepts no more queries.
    going_away: bool,
    /// End of the connection as one of its streams reported it.
    lost: Option<End>,
    /// End of the connection as the connection itself reported it.
    over: Option<End>,
}

/// Rest of the orders of a connection after messages were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RestOfOrders {
    Nothing,
    Messages,
    /// The end of the connection, once all its queries have ended.
    Closing,
    /// An immediate end, with queries outstanding.
    Aborted,
}

/// A query that may be sent again.
struct Query {
    tag: [u8; 2],
    message: Bytes,
    /// Number of times that the peer refused it.
    refusals: u32,
    /// Time at which the query's stream is cancelled.
    deadline: Option<Instant>,
    has_stream: HasStream,
}

impl Query {
    /// Returns the message as the role ordered it.
    fn ordered(&self) -> Vec<u8> {
        [&self.tag, &self.message[2..]].concat()
    }
}

/// A pending query with its stream.
struct Pending {
    query: Option<Query>,
    reply: PendingReply,
}

impl Future for Pending {
    type Output = (Query, Result<Reply, NoReply>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let reply = std::task::ready!(self.reply.as_mut().poll(cx));
        Poll::Ready((self.query.take().expect("a query has one outcome"), reply))
    }
}

impl Task {
    pub(super) fn new(
        conn: ConnId,
        exchange: Box<dyn Exchange>,
        query_timeout: Option<Duration>,
        write_mode: WriteMode,
        meter: Meter,
    ) -> Self {
        Task {
            conn,
            exchange,
            query_timeout,
            write_mode,
            meter,
            pending: FuturesUnordered::new(),
            taken: 0,
            announced: false,
            going_away: false,
            lost: None,
            over: None,
        }
    }

    /// Closes the connection; pending queries get no reply.
    pub(super) fn close(self) -> Pin<Box<dyn Future<Output = ()>>> {
        drop(self.pending);
        self.exchange.close()
    }

    /// Sends and receives until no work is left; ready when the connection has ended or accepts no
    /// more queries. Messages that were not sent go back to the role, also after a failure or an
    /// abort.
    pub(super) fn poll<R: StreamRole + 'static>(
        &mut self,
        shared: &Rc<Shared<R>>,
        cx: &mut Context<'_>,
    ) -> Poll<End> {
        loop {
            let mut news = self.announce(shared);
            let rest = self.send_queries(shared, cx);
            news |= self.receive(shared, cx);
            if rest == RestOfOrders::Aborted
                || rest == RestOfOrders::Closing && self.pending.is_empty()
            {
                shared.end_unwritten(self.conn, self.taken, End::Ordered);
                self.report_without_stream(shared);
                return Poll::Ready(End::Ordered);
            }
            // This call sends the queries.
            let end = match self.poll_over(shared, cx) {
                _ if self.going_away => Some(End::GoingAway),
                end => end,
            };
            if let Some(end) = end {
                shared.end_unwritten(self.conn, self.taken, end);
                if end != End::GoingAway {
                    self.report_without_stream(shared);
                }
                return Poll::Ready(end);
            }
            if rest == RestOfOrders::Messages {
                continue;
            }
            if !news {
                return Poll::Pending;
            }
            shared.pump(Caller::Connection(self.conn));
        }
    }

    /// Receives the replies that are outstanding on a connection that accepts no more queries;
    /// ready when there are none.
    pub(super) fn poll_going_away<R: StreamRole + 'static>(
        &mut self,
        shared: &Rc<Shared<R>>,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        loop {
            let news = self.receive(shared, cx);
            let over = self.poll_over(shared, cx);
            if let Some(end) = over {
                let (now, mut role) = (clock::monotonic(), shared.role.borrow_mut());
                for query in self.pending.iter().filter_map(|pending| pending.query.as_ref()) {
                    let why = match end {
                        End::GoingAway => {
                            role.turned_away(now, self.conn, &query.ordered());
                            continue;
                        }
                        _ if !query.has_stream.get() => {
                            role.never_left(now, self.conn, query.tag);
                            continue;
                        }
                        End::Failed(failure) => failure,
                        End::ByPeer | End::Ordered => Failure::ClosedEarly,
                    };
                    role.failed(now, self.conn, query.tag, QueryFailure::Connection(why));
                }
            }
            if news || over.is_some() {
                shared.pump(Caller::Other);
            }
            if over.is_some() || self.pending.is_empty() {
                return Poll::Ready(());
            }
            if !news {
                return Poll::Pending;
            }
        }
    }

    /// Does the work of the connection itself; returns its end, if it has ended.
    fn poll_over<R: StreamRole>(
        &mut self,
        shared: &Shared<R>,
        cx: &mut Context<'_>,
    ) -> Option<End> {
        if self.over.is_none()
            && let Poll::Ready(end) = self.exchange.poll_over(cx)
        {
            self.over = Some(end);
            // Replies that arrived before the end count.
            self.receive(shared, cx);
        }
        self.over.or(self.lost)
    }

    /// Reports to the role the pending queries that end with the connection before they were sent.
    fn report_without_stream<R: StreamRole>(&self, shared: &Shared<R>) {
        let (now, mut role) = (clock::monotonic(), shared.role.borrow_mut());
        let queries = self.pending.iter().filter_map(|pending| pending.query.as_ref());
        for query in queries.filter(|query| !query.has_stream.get()) {
            role.never_left(now, self.conn, query.tag);
        }
    }

    fn announce<R: StreamRole>(&mut self, shared: &Shared<R>) -> bool {
        if self.announced {
            return false;
        }
        let Some(how) = self.exchange.opened() else { return false };
        self.announced = true;
        shared.role.borrow_mut().opened(clock::monotonic(), self.conn, how);
        true
    }

    /// Passes the ordered messages to the connection, or one of them if each is written on its own.
    fn send_queries<R: StreamRole>(
        &mut self,
        shared: &Shared<R>,
        cx: &mut Context<'_>,
    ) -> RestOfOrders {
        let mut orders = shared.orders.borrow_mut();
        let slot = orders.slot(self.conn);
        if slot.aborted {
            return RestOfOrders::Aborted;
        }
        if std::mem::take(&mut slot.fresh) {
            shared.role.borrow_mut().sent(clock::monotonic(), self.conn);
        }
        let deadline = self.query_timeout.map(|timeout| Instant::now() + timeout);
        let each = self.write_mode == WriteMode::Each;
        while let Some(message) = first_message(&slot.output[self.taken..]) {
            self.taken += 2 + message.len();
            let Some((&tag, rest)) = message.split_first_chunk() else { continue };
            let message = [&[0, 0], rest].concat().into();
            let has_stream = HasStream::default();
            self.send_query(Query { tag, message, refusals: 0, deadline, has_stream });
            if each && self.taken < slot.output.len() {
                return RestOfOrders::Messages;
            }
        }
        slot.output.clear();
        self.taken = 0;
        // The task of a connection is the same task for each connection, so that its waker never
        // changes.
        slot.waker.get_or_insert_with(|| cx.waker().clone());
        if slot.closing { RestOfOrders::Closing } else { RestOfOrders::Nothing }
    }

    /// Sends a query, after a pause if the peer refused it before.
    fn send_query(&mut self, query: Query) {
        let reply = self.exchange.send_query(query.message.clone(), query.has_stream.clone());
        let pause = (query.refusals > 0).then(|| FIRST_PAUSE * (1 << (query.refusals - 1)));
        let deadline = query.deadline;
        let reply: PendingReply = match (pause, deadline) {
            (None, None) => reply,
            _ => Box::pin(async move {
                let whole = async {
                    if let Some(pause) = pause {
                        sleep(pause).await;
                    }
                    reply.await
                };
                match deadline {
                    None => whole.await,
                    // The deadline first: an overdue query does not use a place that becomes free
                    // at the same time.
                    Some(deadline) => tokio::select! {
                        biased;
                        () = sleep_until(deadline) => Err(NoReply::Overdue),
                        reply = whole => reply,
                    },
                }
            }),
        };
        self.pending.push(Pending { query: Some(query), reply });
    }

    /// Passes the available replies to the role; returns whether there were any.
    fn receive<R: StreamRole>(&mut self, shared: &Shared<R>, cx: &mut Context<'_>) -> bool {
        let mut any = false;
        while let Poll::Ready(Some((query, reply))) = self.pending.poll_next_unpin(cx) {
            // A 0-RTT reply arrives with the end of the handshake.
            self.announce(shared);
            let now = clock::monotonic();
            let mut role = shared.role.borrow_mut();
            let outcome =
                reply.and_then(|Reply { mut message, .. }| match message.first_chunk_mut() {
                    Some(place) => {
                        *place = query.tag;
                        Ok(message)
                    }
                    None => Err(NoReply::Failed(QueryFailure::Incomplete)),
                });
            any = true;
            match outcome {
                Ok(reply) => role.message(now, self.conn, &reply),
                Err(NoReply::Failed(why)) => role.failed(now, self.conn, query.tag, why),
                Err(NoReply::Refused) if query.refusals == MAX_REFUSALS => {
                    role.failed(now, self.conn, query.tag, QueryFailure::StreamRefused);
                }
                Err(NoReply::Refused) => {
                    self.meter.count_streams(|streams| streams.refused += 1);
                    self.send_query(Query { refusals: query.refusals + 1, ..query });
                }
                Err(NoReply::TurnedAway) => {
                    self.going_away = true;
                    role.turned_away(now, self.conn, &query.ordered());
                }
                Err(NoReply::Over(end)) => {
                    self.lost.get_or_insert(end);
                    // The request ends when its connection ends.
                    let reply = Box::pin(std::future::pending());
                    self.pending.push(Pending { query: Some(query), reply });
                }
                Err(NoReply::Overdue) if query.has_stream.get() => {}
                Err(NoReply::Overdue) => role.never_left(now, self.conn, query.tag),
            }
        }
        any
    }
}
