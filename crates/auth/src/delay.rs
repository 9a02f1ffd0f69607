//! A queue that delays all replies by the same time.

use std::collections::VecDeque;

use engine::{Destination, Next, TxBatch};
use measure::Nanos;

use crate::responder::MAX_REPLY;

/// Largest number of delayed replies: 100 ms at 650,000 per second. When the queue is full, new replies are dropped.
const MAX_DELAYED: usize = 1 << 16;

/// A delayed reply.
#[derive(Debug)]
struct DelayedReply {
    due: Nanos,
    to: Destination,
    len: usize,
    bytes: [u8; MAX_REPLY],
}

/// The queue of delayed replies; not used if the delay is zero.
#[derive(Debug)]
pub(crate) struct DelayQueue {
    delay: Nanos,
    replies: VecDeque<DelayedReply>,
}

impl DelayQueue {
    /// Returns a queue with memory for its largest number of replies.
    pub(crate) fn new(delay: Nanos) -> Self {
        let room = if delay > Nanos::ZERO { MAX_DELAYED } else { 0 };
        DelayQueue { delay, replies: VecDeque::with_capacity(room) }
    }

    /// Whether replies are delayed.
    #[inline]
    pub(crate) fn is_used(&self) -> bool {
        self.delay > Nanos::ZERO
    }

    /// Adds a reply; returns whether there was room.
    pub(crate) fn push(&mut self, now: Nanos, to: Destination, reply: &[u8]) -> bool {
        if self.replies.len() == MAX_DELAYED {
            return false;
        }
        let mut bytes = [0; MAX_REPLY];
        bytes[..reply.len()].copy_from_slice(reply);
        self.replies.push_back(DelayedReply { due: now + self.delay, to, len: reply.len(), bytes });
        true
    }

    /// Sends the replies that are due; returns when the next one is due.
    #[inline]
    pub(crate) fn release(&mut self, now: Nanos, tx: &mut TxBatch) -> Next {
        while let Some(reply) = self.replies.front() {
            if reply.due > now {
                return Next::At(reply.due);
            }
            let fill = |out: &mut [u8]| {
                out.copy_from_slice(&reply.bytes[..reply.len]);
                reply.len
            };
            if !tx.push(reply.to, reply.len, fill) {
                return Next::Now;
            }
            self.replies.pop_front();
        }
        Next::Idle
    }
}

#[cfg(test)]
mod tests {
    use engine::SocketId;

    use super::*;

    #[test]
    fn the_queue_is_bounded_and_in_order() {
        let to = Destination::Connected(SocketId(0));
        let mut queue = DelayQueue::new(Nanos(1_000));
        let added =
            (0..MAX_DELAYED + 10).filter(|i| queue.push(Nanos(*i as u64), to, &[*i as u8])).count();
        assert_eq!(added, MAX_DELAYED);
        // A full batch ends a release; the next one sends the rest.
        let mut tx = TxBatch::new(4, 100, 1);
        assert_eq!(queue.release(Nanos(999), &mut tx), Next::At(Nanos(1_000)));
        assert_eq!(queue.release(Nanos(1_001), &mut tx), Next::At(Nanos(1_002)));
        assert_eq!(tx.iter().map(|(_, bytes)| bytes[0]).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(queue.release(Nanos(9_999), &mut tx), Next::Now);
        assert_eq!((tx.len(), queue.replies.len()), (4, MAX_DELAYED - 4));
    }
}
