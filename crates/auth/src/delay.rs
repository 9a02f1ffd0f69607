//! A queue of replies that are sent later: a lane for each delay.
//!
//! ```text
//!   lanes    2 ms: 3 ──> 0     20 ms: 1 ──> 4 ──> 2     places of their replies, in the order in which they are due
//!   places   0    1    2    3    4    5    ...          a reply and its octets each; all lanes share them
//! ```

use engine::{Destination, Next, TxBatch};
use measure::Nanos;

/// Largest number of replies that wait, in all lanes together: 100 ms at 650,000 per second. New
/// replies are dropped while that many wait. With 1,232 octets for each of them the memory is 87
/// MB; the kernel allocates each page at its first use.
const MAX_DELAYED: usize = 1 << 16;

/// A delayed reply; its octets are in the buffer of its place.
#[derive(Debug)]
struct DelayedReply {
    due: Nanos,
    to: Destination,
    /// Size of the reply, in octets.
    len: usize,
    /// Place of the next reply of its lane.
    next: Option<usize>,
}

/// Replies with the same delay, in the order in which they are due.
#[derive(Clone, Copy, Debug)]
struct Lane {
    delay: Nanos,
    /// Places of the first and the last reply of the lane; `None` if the lane is empty.
    ends: Option<(usize, usize)>,
}

/// The queue of delayed replies; not used if it has no lane.
#[derive(Debug)]
pub(crate) struct DelayQueue {
    lanes: Vec<Lane>,
    /// The replies by their places.
    replies: Vec<DelayedReply>,
    /// The octets by places: `room` for each.
    octets: Vec<u8>,
    room: usize,
    /// Places whose replies were sent. The last one is taken first: places that were never needed stay untouched.
    free: Vec<usize>,
}

impl DelayQueue {
    /// Returns a queue with a lane for each delay, and with all its memory: `room` octets for each of its largest number of
    /// replies.
    pub(crate) fn new(delays: &[Nanos], room: usize) -> Self {
        let places = if delays.is_empty() { 0 } else { MAX_DELAYED };
        DelayQueue {
            lanes: delays.iter().map(|delay| Lane { delay: *delay, ends: None }).collect(),
            replies: Vec::with_capacity(places),
            octets: vec![0; places * room],
            room,
            free: Vec::with_capacity(places),
        }
    }

    /// Returns whether replies are delayed.
    #[inline]
    pub(crate) fn is_used(&self) -> bool {
        !self.lanes.is_empty()
    }

    /// Returns the delay of a lane.
    #[inline]
    pub(crate) fn delay(&self, lane: usize) -> Nanos {
        self.lanes[lane].delay
    }

    /// Adds a reply to a lane, for a query of the time `from`; returns whether there was a place.
    ///
    /// # Panics
    /// If the reply is longer than `room`.
    pub(crate) fn push(&mut self, lane: usize, from: Nanos, to: Destination, reply: &[u8]) -> bool {
        assert!(reply.len() <= self.room, "a reply of {} octets", reply.len());
        let Lane { delay, ends } = self.lanes[lane];
        // The kernel's times of two sockets may be out of order by microseconds.
        let earliest = ends.map_or(Nanos::ZERO, |(_, last)| self.replies[last].due);
        let due = (from + delay).max(earliest);
        let added = DelayedReply { due, to, len: reply.len(), next: None };
        let Some(place) = self.put(added) else { return false };
        self.octets[place * self.room..][..reply.len()].copy_from_slice(reply);
        if let Some((_, last)) = ends {
            self.replies[last].next = Some(place);
        }
        self.lanes[lane].ends = Some((ends.map_or(place, |(first, _)| first), place));
        true
    }

    /// Puts a reply at a place and returns the place; `None` if all are taken.
    fn put(&mut self, reply: DelayedReply) -> Option<usize> {
        if let Some(place) = self.free.pop() {
            self.replies[place] = reply;
            return Some(place);
        }
        let place = self.replies.len();
        (place < MAX_DELAYED).then(|| {
            self.replies.push(reply);
            place
        })
    }

    /// Sends the replies that are due, in the order of their times; returns when the next one is due.
    #[inline]
    pub(crate) fn release(&mut self, now: Nanos, tx: &mut TxBatch) -> Next {
        loop {
            let due = |lane: &&mut Lane| match lane.ends {
                Some((first, _)) => self.replies[first].due,
                None => Nanos::MAX,
            };
            let Some(lane) = self.lanes.iter_mut().min_by_key(due) else { return Next::Idle };
            let Some((first, last)) = lane.ends else { return Next::Idle };
            let reply = &self.replies[first];
            if reply.due > now {
                return Next::At(reply.due);
            }
            let octets = &self.octets[first * self.room..][..reply.len];
            let fill = |out: &mut [u8]| {
                out.copy_from_slice(octets);
                octets.len()
            };
            if !tx.push(reply.to, octets.len(), fill) {
                return Next::Now;
            }
            lane.ends = reply.next.map(|next| (next, last));
            self.free.push(first);
        }
    }
}

#[cfg(test)]
mod tests {
    use engine::SocketId;

    use super::*;

    const TO: Destination = Destination::Connected(SocketId(0));
    const ROOM: usize = 8;

    #[test]
    fn the_queue_is_bounded_and_in_order() {
        let mut queue = DelayQueue::new(&[Nanos(1_000)], ROOM);
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
        assert_eq!((tx.len(), queue.free.len()), (4, 4));
    }

    #[test]
    fn all_lanes_share_the_places_and_the_memory_of_the_start() {
        let mut queue = DelayQueue::new(&[Nanos(10), Nanos(20), Nanos(5_000)], ROOM);
        let memory = |queue: &DelayQueue| {
            (queue.replies.capacity(), queue.octets.capacity(), queue.free.capacity())
        };
        let (at_first, mut tx) = (memory(&queue), TxBatch::new(2 * MAX_DELAYED, 1 << 20, 1));
        let half = MAX_DELAYED / 2;
        for (round, lanes) in [[0, 2], [1, 0], [2, 1]].into_iter().enumerate() {
            let from = Nanos(round as u64 * 10_000);
            for lane in lanes {
                assert!((0..half).all(|_| queue.push(lane, from, TO, &[lane as u8; ROOM])));
            }
            assert!((0..3).all(|lane| !queue.push(lane, from, TO, &[9])), "all places are taken");
            tx.clear();
            assert_eq!(queue.release(from + Nanos(5_000), &mut tx), Next::Idle);
            let sent = lanes
                .map(|lane| tx.iter().filter(|(_, bytes)| *bytes == [lane as u8; ROOM]).count());
            assert_eq!((tx.len(), sent), (MAX_DELAYED, [half; 2]));
        }
        assert_eq!(memory(&queue), at_first);
        assert_eq!(memory(&DelayQueue::new(&[], ROOM)), (0, 0, 0));
    }

    #[test]
    fn lanes_are_merged_by_time() {
        let mut queue = DelayQueue::new(&[Nanos(10), Nanos(25)], ROOM);
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
