//! A queue of replies that are sent later: a lane for each delay.

use std::collections::VecDeque;

use engine::{Destination, Next, TxBatch};
use measure::Nanos;

/// Largest number of replies in a lane: 100 ms at 650,000 per second. When the lane is full, new replies are dropped.
const MAX_DELAYED: usize = 1 << 16;
/// Size of a usual reply, in octets; larger ones make the memory of a lane grow.
const USUAL: usize = 128;

/// A delayed reply.
#[derive(Debug)]
struct DelayedReply {
    due: Nanos,
    to: Destination,
    /// Size of the reply, in octets.
    len: usize,
}

/// Replies with the same delay, in the order in which they are due.
#[derive(Debug)]
struct Lane {
    delay: Nanos,
    replies: VecDeque<DelayedReply>,
    /// The octets of all replies, one after the other. Their memory grows to what the lane has held at once.
    octets: VecDeque<u8>,
}

/// The queue of delayed replies; not used if it has no lane.
#[derive(Debug)]
pub(crate) struct DelayQueue {
    lanes: Vec<Lane>,
}

impl DelayQueue {
    /// Returns a queue with a lane for each delay, and memory for its largest number of usual replies.
    pub(crate) fn new(delays: &[Nanos]) -> Self {
        let lane = |delay: &Nanos| Lane {
            delay: *delay,
            replies: VecDeque::with_capacity(MAX_DELAYED),
            octets: VecDeque::with_capacity(MAX_DELAYED * USUAL),
        };
        DelayQueue { lanes: delays.iter().map(lane).collect() }
    }

    /// Returns whether replies are delayed.
    #[inline]
    pub(crate) fn is_used(&self) -> bool {
        !self.lanes.is_empty()
    }

    /// Adds a reply to a lane, for a query of the time `from`; returns whether there was room.
    pub(crate) fn push(&mut self, lane: usize, from: Nanos, to: Destination, reply: &[u8]) -> bool {
        let lane = &mut self.lanes[lane];
        if lane.replies.len() == MAX_DELAYED {
            return false;
        }
        // The kernel's times of two sockets may be out of order by microseconds.
        let last = lane.replies.back().map_or(Nanos::ZERO, |reply| reply.due);
        let due = (from + lane.delay).max(last);
        lane.replies.push_back(DelayedReply { due, to, len: reply.len() });
        lane.octets.extend(reply);
        true
    }

    /// Sends the replies that are due, in the order of their times; returns when the next one is due.
    #[inline]
    pub(crate) fn release(&mut self, now: Nanos, tx: &mut TxBatch) -> Next {
        loop {
            let due = |lane: &&mut Lane| lane.replies.front().map_or(Nanos::MAX, |r| r.due);
            let Some(lane) = self.lanes.iter_mut().min_by_key(due) else { return Next::Idle };
            let Some(reply) = lane.replies.front() else { return Next::Idle };
            if reply.due > now {
                return Next::At(reply.due);
            }
            let (to, len) = (reply.to, reply.len);
            let fill = |out: &mut [u8]| {
                // The octets may be in two parts of the ring.
                let (first, second) = lane.octets.as_slices();
                let split = first.len().min(len);
                out[..split].copy_from_slice(&first[..split]);
                out[split..].copy_from_slice(&second[..len - split]);
                len
            };
            if !tx.push(to, len, fill) {
                return Next::Now;
            }
            lane.replies.pop_front();
            lane.octets.drain(..len);
        }
    }
}

#[cfg(test)]
mod tests {
    use engine::SocketId;

    use super::*;

    const TO: Destination = Destination::Connected(SocketId(0));

    #[test]
    fn the_queue_is_bounded_and_in_order() {
        let mut queue = DelayQueue::new(&[Nanos(1_000)]);
        let added = (0..MAX_DELAYED + 10)
            .filter(|i| queue.push(0, Nanos(*i as u64), TO, &[*i as u8]))
            .count();
        assert_eq!(added, MAX_DELAYED);
        // A full batch ends a release; the next one sends the rest.
        let mut tx = TxBatch::new(4, 100, 1);
        assert_eq!(queue.release(Nanos(999), &mut tx), Next::At(Nanos(1_000)));
        assert_eq!(queue.release(Nanos(1_001), &mut tx), Next::At(Nanos(1_002)));
        assert_eq!(tx.iter().map(|(_, bytes)| bytes[0]).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(queue.release(Nanos(9_999), &mut tx), Next::Now);
        assert_eq!((tx.len(), queue.lanes[0].replies.len()), (4, MAX_DELAYED - 4));
    }

    #[test]
    fn lanes_are_merged_by_time() {
        let mut queue = DelayQueue::new(&[Nanos(10), Nanos(25)]);
        for (lane, from) in [(1, 0), (0, 5), (0, 20), (1, 4), (0, 19)] {
            assert!(queue.push(lane, Nanos(from), TO, &[from as u8]));
        }
        let mut tx = TxBatch::new(8, 100, 1);
        assert_eq!(queue.release(Nanos(29), &mut tx), Next::At(Nanos(29 + 1)));
        assert_eq!(tx.iter().map(|(_, bytes)| bytes[0]).collect::<Vec<_>>(), [5, 0, 4]);
        // The last one came in with an earlier time than the one before it in its lane.
        assert_eq!(queue.release(Nanos(30), &mut tx), Next::Idle);
        let order: Vec<u8> = tx.iter().map(|(_, bytes)| bytes[0]).collect();
        assert_eq!(order, [5, 0, 4, 20, 19]);
    }
}
