//! A network with a virtual clock for clients: connections open after a handshake, and a scripted server answers.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use engine::Next;
use engine::stream::{ConnId, End, Opened, Orders, StreamRole, first_message};
use load::Clients;
use measure::Nanos;

use super::answer;

/// What arrives at the clients.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Arrival {
    Opened,
    Reply(Vec<u8>),
}

/// Counts of one connection as the server sees them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) is_open: bool,
    /// Queries on all connections of this number, and on the present one.
    pub(crate) queries: u64,
    pub(crate) on_connection: u64,
    /// Queries without a reply yet, and those that wait for the connection.
    pub(crate) outstanding: u64,
    pub(crate) waiting: u64,
}

/// The network, its clock and what the server saw.
pub(crate) struct Net<S> {
    pub(crate) clients: Clients,
    orders: Orders,
    now: Nanos,
    handshake: Nanos,
    arrivals: BinaryHeap<Reverse<(Nanos, u64, ConnId, Arrival)>>,
    order: u64,
    /// Returns after which time a query that arrives now is answered; `None` for never.
    server: S,
    pub(crate) seen: Vec<Seen>,
    pub(crate) replies: u64,
}

impl<S: FnMut(Nanos, ConnId) -> Option<Nanos>> Net<S> {
    pub(crate) fn new(clients: Clients, handshake: Nanos, server: S) -> Self {
        let connections = clients.count();
        Net {
            clients,
            orders: Orders::new(connections),
            now: Nanos::ZERO,
            handshake,
            arrivals: BinaryHeap::new(),
            order: 0,
            server,
            seen: vec![Seen::default(); connections],
            replies: 0,
        }
    }

    /// Returns the number of queries without a reply.
    pub(crate) fn outstanding(&self) -> u64 {
        self.seen.iter().map(|seen| seen.outstanding).sum()
    }

    /// Returns the number of queries that wait for their connections.
    pub(crate) fn waiting(&self) -> u64 {
        self.seen.iter().map(|seen| seen.waiting).sum()
    }

    fn arrive(&mut self, after: Nanos, conn: ConnId, what: Arrival) {
        self.order += 1;
        self.arrivals.push(Reverse((self.now + after, self.order, conn, what)));
    }

    /// Calls the clients and carries out their orders.
    fn call(&mut self) -> Next {
        let next = self.clients.orders(self.now, &mut self.orders);
        let mut opens = Vec::new();
        self.orders.hand_out(None, |conn| opens.push(conn));
        for conn in opens {
            self.arrive(self.handshake, conn, Arrival::Opened);
        }
        for conn in 0..self.seen.len() as ConnId {
            self.carry_out(conn);
        }
        next
    }

    /// Sends what is ordered for a connection, and closes it if that is ordered.
    fn carry_out(&mut self, conn: ConnId) {
        let slot = self.orders.slot(conn);
        let seen = &mut self.seen[conn as usize];
        if !seen.is_open {
            seen.waiting = messages(&slot.output).count() as u64;
            return;
        }
        seen.waiting = 0;
        let output = std::mem::take(&mut slot.output);
        let closing = std::mem::take(&mut slot.closing);
        if !output.is_empty() {
            self.clients.sent(self.now, conn);
        }
        for message in messages(&output) {
            let seen = &mut self.seen[conn as usize];
            (seen.queries, seen.on_connection) = (seen.queries + 1, seen.on_connection + 1);
            seen.outstanding += 1;
            if let Some(after) = (self.server)(self.now, conn) {
                self.arrive(after, conn, Arrival::Reply(answer(message)));
            }
        }
        if closing {
            self.seen[conn as usize].is_open = false;
            self.clients.closed(self.now, conn, End::Ordered);
        }
    }

    fn take(&mut self, conn: ConnId, what: Arrival) {
        let seen = &mut self.seen[conn as usize];
        match what {
            Arrival::Opened => {
                (seen.is_open, seen.on_connection) = (true, 0);
                self.clients.opened(self.now, conn, Opened::default());
            }
            Arrival::Reply(message) => {
                seen.outstanding -= 1;
                self.replies += 1;
                self.clients.message(self.now, conn, &message);
            }
        }
    }

    /// Works until the clients are done; `look` sees each instant at which something happened, when all is sent.
    pub(crate) fn drive(&mut self, mut look: impl FnMut(Nanos, &Self)) {
        loop {
            let next = self.call();
            let due = match next {
                Next::Done => return,
                Next::Now => continue,
                Next::At(at) => at.max(self.now),
                Next::Idle => Nanos::MAX,
            };
            let arrival = self.arrivals.peek().map_or(Nanos::MAX, |Reverse((at, ..))| *at);
            let at = due.min(arrival);
            assert!(at < Nanos::MAX, "the clients wait for nothing");
            if at > self.now {
                look(self.now, self);
            }
            self.now = at;
            if arrival == at {
                let Reverse((_, _, conn, what)) = self.arrivals.pop().expect("it was peeked");
                self.take(conn, what);
            }
        }
    }
}

/// Returns the messages of an output.
fn messages(mut output: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let message = first_message(output)?;
        output = &output[2 + message.len()..];
        Some(message)
    })
}
