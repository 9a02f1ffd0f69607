//! Queries without a reply in the stream.
//!
//! A reply is that of the query with its two addresses and ports, transport and id, within `MAX_WAIT`; the questions are not compared,
//! as [`Transactions`](crate::transactions::Transactions) do for tables. At most `MAX_WAITING` queries wait for their replies.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;

use measure::Nanos;

/// Largest number of queries that wait for a reply.
const MAX_WAITING: usize = 1 << 20;
/// Largest time between a query and its reply.
const MAX_WAIT: Nanos = Nanos::from_secs(10);

/// What a query and its reply share: client, server, whether TCP, id.
pub(super) type Ends = (SocketAddr, SocketAddr, bool, u16);

/// Counts queries without a reply.
#[derive(Clone, Debug, Default)]
pub(super) struct Unanswered {
    hashes: RandomState,
    /// Times of the waiting queries, by the hash of their ends.
    waiting: HashMap<u64, Nanos>,
    /// The same in the order of arrival; may contain answered ones.
    order: VecDeque<(Nanos, u64)>,
    count: u64,
}

impl Unanswered {
    /// Adds a query or a reply.
    #[inline]
    pub(super) fn add(&mut self, at: Nanos, ends: &Ends, is_response: bool) {
        while self.order.front().is_some_and(|(since, _)| {
            self.waiting.len() >= MAX_WAITING || at.since(*since) >= MAX_WAIT
        }) {
            self.give_up_oldest();
        }
        // Answered ones take no more room than those that wait.
        if self.order.len() >= 2 * MAX_WAITING {
            let waiting = &self.waiting;
            self.order.retain(|(since, key)| waiting.get(key) == Some(since));
        }
        let key = self.hashes.hash_one(ends);
        if is_response {
            self.waiting.remove(&key);
            return;
        }
        // The same query again: the reply is that of the later one.
        self.count += u64::from(self.waiting.insert(key, at).is_some());
        self.order.push_back((at, key));
    }

    /// Returns the number of queries without a reply, those among them that still wait.
    pub(super) fn count(&self) -> u64 {
        self.count + self.waiting.len() as u64
    }

    /// Counts the oldest query if it still waits.
    fn give_up_oldest(&mut self) {
        let Some((at, key)) = self.order.pop_front() else { return };
        if self.waiting.get(&key) == Some(&at) {
            self.waiting.remove(&key);
            self.count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_query_without_a_reply_counts_once() {
        let ends = |id| -> Ends {
            let at = |port| SocketAddr::from(([10, 0, 0, 1], port));
            (at(1_000), at(53), false, id)
        };
        // Seconds, id and whether it is a reply; then the number of queries without one.
        type Messages<'a> = &'a [(u64, u16, bool)];
        let table: [(Messages<'_>, u64); 6] = [
            (&[(1, 7, false), (1, 7, true)], 0),
            (&[(1, 7, false), (1, 8, true), (2, 9, true)], 1),
            (&[(1, 7, false), (2, 7, false), (2, 7, true)], 1),
            (&[(1, 7, false), (11, 7, true)], 1),
            (&[(1, 7, false), (1, 7, true), (1, 7, true), (2, 7, false)], 1),
            (&[(1, 7, false), (12, 8, false), (12, 8, true), (30, 7, false)], 2),
        ];
        for (messages, wanted) in table {
            let mut unanswered = Unanswered::default();
            for &(at, id, is_response) in messages {
                unanswered.add(Nanos::from_secs(at), &ends(id), is_response);
            }
            assert_eq!(unanswered.count(), wanted, "{messages:?}");
        }
    }
}
