//! A connection on which each message has a stream of its own, its reply on the same: HTTP/2, HTTP/3, QUIC.
//!
//! Their streams tell replies apart, so the tag of a message goes out as 0 (RFC 8484 section 4.1, RFC 9250
//! section 4.2.1) and is put back into the reply. Here libraries allocate for each message, as any client's do.

use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use engine::clock;
use engine::stream::{ConnId, End, Failure, Opened, StreamRole, first_message};
use futures_util::stream::{FuturesUnordered, StreamExt};

use super::runtime::Shared;

/// A question under way; its reply.
pub(super) type Asking = Pin<Box<dyn Future<Output = Result<Vec<u8>, End>>>>;

/// A connection that carries questions.
pub(super) trait Exchange {
    /// Asks `message`.
    fn ask(&mut self, message: Bytes) -> Asking;
    /// Does what the connection itself needs; ready when it is over.
    fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<End>;
    /// How it came to be, once the handshake is done.
    fn opened(&mut self) -> Option<Opened>;
    /// Says goodbye.
    fn close(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()>>>;
}

/// One connection's part of the way.
pub(super) struct Exchanged {
    conn: ConnId,
    exchange: Box<dyn Exchange>,
    asking: FuturesUnordered<Tagged>,
    /// Whether the role knows that it is up.
    announced: bool,
}

/// A question with its tag.
struct Tagged {
    tag: [u8; 2],
    asking: Asking,
}

impl Future for Tagged {
    type Output = ([u8; 2], Result<Vec<u8>, End>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let tag = self.tag;
        self.asking.as_mut().poll(cx).map(|reply| (tag, reply))
    }
}

impl Exchanged {
    pub(super) fn new(conn: ConnId, exchange: Box<dyn Exchange>) -> Self {
        Exchanged { conn, exchange, asking: FuturesUnordered::new(), announced: false }
    }

    /// Closes the connection.
    pub(super) fn close(self) -> Pin<Box<dyn Future<Output = ()>>> {
        drop(self.asking);
        self.exchange.close()
    }

    /// Asks and listens until there is nothing to be done; ready when the connection is over.
    pub(super) fn poll<R: StreamRole + 'static>(
        &mut self,
        shared: &Rc<Shared<R>>,
        cx: &mut Context<'_>,
    ) -> Poll<End> {
        loop {
            let mut news = self.announce(shared);
            let closing = match self.ask(shared, cx) {
                Ok(closing) => closing,
                Err(end) => return Poll::Ready(end),
            };
            match self.listen(shared, cx) {
                Ok(any) => news |= any,
                Err(end) => return Poll::Ready(end),
            }
            if closing && self.asking.is_empty() {
                return Poll::Ready(End::Ordered);
            }
            // What was asked leaves here.
            if let Poll::Ready(end) = self.exchange.poll_over(cx) {
                // Replies that came before the end count.
                return Poll::Ready(self.listen(shared, cx).err().unwrap_or(end));
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

    /// Hands what was ordered to the connection; whether the role wants the end.
    fn ask<R: StreamRole>(
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
            let asking = self.exchange.ask(untagged.into());
            self.asking.push(Tagged { tag, asking });
        }
        slot.output.clear();
        // A connection's task is one task for life: its waker never changes.
        slot.waker.get_or_insert_with(|| cx.waker().clone());
        Ok(slot.closing)
    }

    /// Hands the replies that are there to the role; whether there were any.
    fn listen<R: StreamRole>(
        &mut self,
        shared: &Shared<R>,
        cx: &mut Context<'_>,
    ) -> Result<bool, End> {
        let mut ready = VecDeque::new();
        while let Poll::Ready(Some((tag, reply))) = self.asking.poll_next_unpin(cx) {
            ready.push_back((tag, reply));
        }
        let any = !ready.is_empty();
        // A 0-RTT reply comes with the end of the handshake.
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
