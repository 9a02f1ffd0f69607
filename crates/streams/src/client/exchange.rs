//! A connection on which each message and its reply have their own stream: HTTP/2, HTTP/3, QUIC.
//!
//! Streams relate replies to queries, so that the tag of a message is sent as 0 (RFC 8484 section 4.1, RFC
//! 9250 section 4.2.1) and put back into the reply. The libraries allocate memory for each message, as in any
//! client.

use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use engine::clock;
use engine::stream::{ConnId, End, Failure, Opened, StreamRole, first_message};
use futures_util::stream::{FuturesUnordered, StreamExt};

use super::shared::Shared;

/// A pending query, which returns its reply.
pub(super) type PendingReply = Pin<Box<dyn Future<Output = Result<Vec<u8>, End>>>>;

/// A connection for queries with their own streams.
pub(super) trait Exchange {
    /// Sends the query `message`.
    fn send_query(&mut self, message: Bytes) -> PendingReply;
    /// Does the work of the connection itself; ready when it has ended.
    fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<End>;
    /// Returns how it was established, once the handshake is done.
    fn opened(&mut self) -> Option<Opened>;
    /// Closes the connection properly.
    fn close(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()>>>;
}

/// One connection with its pending queries.
pub(super) struct Exchanged {
    conn: ConnId,
    exchange: Box<dyn Exchange>,
    pending: FuturesUnordered<Tagged>,
    /// Whether the role knows that the connection is established.
    announced: bool,
}

/// A pending query with its tag.
struct Tagged {
    tag: [u8; 2],
    pending: PendingReply,
}

impl Future for Tagged {
    type Output = ([u8; 2], Result<Vec<u8>, End>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let tag = self.tag;
        self.pending.as_mut().poll(cx).map(|reply| (tag, reply))
    }
}

impl Exchanged {
    pub(super) fn new(conn: ConnId, exchange: Box<dyn Exchange>) -> Self {
        Exchanged { conn, exchange, pending: FuturesUnordered::new(), announced: false }
    }

    /// Closes the connection.
    pub(super) fn close(self) -> Pin<Box<dyn Future<Output = ()>>> {
        drop(self.pending);
        self.exchange.close()
    }

    /// Sends and receives until nothing is left to do; ready when the connection has ended.
    pub(super) fn poll<R: StreamRole + 'static>(
        &mut self,
        shared: &Rc<Shared<R>>,
        cx: &mut Context<'_>,
    ) -> Poll<End> {
        loop {
            let mut news = self.announce(shared);
            let closing = match self.send_query(shared, cx) {
                Ok(closing) => closing,
                Err(end) => return Poll::Ready(end),
            };
            match self.receive(shared, cx) {
                Ok(any) => news |= any,
                Err(end) => return Poll::Ready(end),
            }
            if closing && self.pending.is_empty() {
                return Poll::Ready(End::Ordered);
            }
            // The queries leave here.
            if let Poll::Ready(end) = self.exchange.poll_over(cx) {
                // Replies that arrived before the end count.
                return Poll::Ready(self.receive(shared, cx).err().unwrap_or(end));
            }
            if !news {
                return Poll::Pending;
            }
            shared.pump(Some(self.conn));
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

    /// Passes the ordered messages to the connection; returns whether the role closes it.
    fn send_query<R: StreamRole>(
        &mut self,
        shared: &Shared<R>,
        cx: &mut Context<'_>,
    ) -> Result<bool, End> {
        let mut orders = shared.orders.borrow_mut();
        let slot = orders.slot(self.conn);
        if slot.aborted {
            return Err(End::Ordered);
        }
        if std::mem::take(&mut slot.fresh) {
            shared.role.borrow_mut().sent(clock::monotonic(), self.conn);
        }
        let mut output = &slot.output[..];
        while let Some(message) = first_message(output) {
            output = &output[2 + message.len()..];
            let Some((&tag, rest)) = message.split_first_chunk() else { continue };
            let untagged = [&[0, 0], rest].concat();
            let pending = self.exchange.send_query(untagged.into());
            self.pending.push(Tagged { tag, pending });
        }
        slot.output.clear();
        // The task of a connection stays the same, so that its waker never changes.
        slot.waker.get_or_insert_with(|| cx.waker().clone());
        Ok(slot.closing)
    }

    /// Passes the available replies to the role; returns whether there were any.
    fn receive<R: StreamRole>(
        &mut self,
        shared: &Shared<R>,
        cx: &mut Context<'_>,
    ) -> Result<bool, End> {
        let mut ready = VecDeque::new();
        while let Poll::Ready(Some((tag, reply))) = self.pending.poll_next_unpin(cx) {
            ready.push_back((tag, reply));
        }
        let any = !ready.is_empty();
        // A 0-RTT reply arrives with the end of the handshake.
        if any && !self.announced && self.exchange.opened().is_some() {
            self.announce(shared);
        }
        let now = clock::monotonic();
        for (tag, reply) in ready {
            let mut reply = reply?;
            let Some(place) = reply.first_chunk_mut() else {
                return Err(End::Failed(Failure::Protocol));
            };
            *place = tag;
            shared.role.borrow_mut().message(now, self.conn, &reply);
        }
        Ok(any)
    }
}
