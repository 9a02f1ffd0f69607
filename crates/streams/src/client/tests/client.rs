//! A client of one connection, which notes what becomes of its queries; the tests of dns64d use
//! it too.

// Those use a part of it.
#![allow(dead_code)]

use engine::Next;
use engine::stream::{ConnId, End, Opened, Orders, QueryFailure, StreamRole};
use measure::Nanos;

/// Opens one connection, sends `messages` together and records the events; done when as many
/// replies have arrived or the connection has ended.
#[derive(Default)]
pub(crate) struct Client {
    pub(crate) messages: Vec<Vec<u8>>,
    pub(crate) ordered: bool,
    /// Leaves the close to the peer.
    pub(crate) stays_open: bool,
    /// Aborts the connection in the same orders as the messages.
    pub(crate) aborts: bool,
    pub(crate) opened: Option<Opened>,
    pub(crate) replies: Vec<Vec<u8>>,
    pub(crate) failed: Vec<(u8, QueryFailure)>,
    pub(crate) turned_away: Vec<Vec<u8>>,
    /// Tags of the queries that never left.
    pub(crate) never_left: Vec<u8>,
    /// Number of queries that leave and get no reply.
    pub(crate) silent: usize,
    pub(crate) end: Option<End>,
    pub(crate) sent: u32,
    /// Time at which it gives up: a query of a broken engine may have no end.
    pub(crate) limit: Option<Nanos>,
}

impl Client {
    /// The sorted tags of the messages that were turned away.
    pub(crate) fn turned_away_tags(&self) -> Vec<u8> {
        let mut tags: Vec<u8> = self.turned_away.iter().map(|message| message[0]).collect();
        tags.sort_unstable();
        tags
    }
}

impl StreamRole for Client {
    fn opened(&mut self, _now: Nanos, _conn: ConnId, how: Opened) {
        self.opened = Some(how);
    }

    fn message(&mut self, _now: Nanos, _conn: ConnId, message: &[u8]) {
        self.replies.push(message.to_vec());
    }

    fn failed(&mut self, _now: Nanos, _conn: ConnId, tag: [u8; 2], why: QueryFailure) {
        self.failed.push((tag[0], why));
    }

    fn never_left(&mut self, _now: Nanos, _conn: ConnId, tag: [u8; 2]) {
        self.never_left.push(tag[0]);
    }

    fn turned_away(&mut self, _now: Nanos, _conn: ConnId, message: &[u8]) {
        self.turned_away.push(message.to_vec());
    }

    fn closed(&mut self, _now: Nanos, _conn: ConnId, end: End) {
        self.end = Some(end);
    }

    fn orders(&mut self, now: Nanos, orders: &mut Orders) -> Next {
        let limit = *self.limit.get_or_insert(now + Nanos::from_secs(30));
        if !self.ordered {
            self.ordered = true;
            orders.open(0);
            for message in &self.messages {
                orders.send(0, message.len(), |place| {
                    place.copy_from_slice(message);
                    message.len()
                });
            }
            if self.aborts {
                orders.abort(0);
            }
        }
        let ended = self.replies.len() + self.failed.len() + self.turned_away.len();
        let ended = ended + self.never_left.len() + self.silent;
        let over =
            self.end.is_some_and(|end| end != End::GoingAway || ended == self.messages.len());
        if over || now >= limit {
            return Next::Done;
        }
        if ended == self.messages.len() && !self.stays_open {
            orders.close(0);
        }
        Next::At(limit)
    }

    fn sent(&mut self, _at: Nanos, _conn: ConnId) {
        self.sent += 1;
    }
}
