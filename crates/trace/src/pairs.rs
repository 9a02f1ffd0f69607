//! Pairs of queries and replies with the same key, by their times.
//!
//! A reply belongs to the last query with its key, up to `MAX_WAIT` before it. It may come before its query in the capture, as in those of
//! several interfaces or queues. At most `MAX_WAITING` queries wait, and as many replies without a query; the oldest then goes alone,
//! and is counted. A reply without a question, as of servers that cannot read the query, belongs to the last of the `RECENT` queries with
//! its ends and id.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hash, RandomState};

use measure::Nanos;

use crate::fragments;

/// Largest number of queries that wait for a reply, and of replies that wait for a query.
const MAX_WAITING: usize = 1 << 20;
/// Number of queries that are compared with a reply without a question.
pub(crate) const RECENT: usize = 1 << 12;
/// Largest time between a query and its reply.
pub(crate) const MAX_WAIT: Nanos = Nanos::from_secs(10);
/// Time for which a query is kept: its reply may be delivered with that delay.
const KEEP_TIME: Nanos = Nanos(MAX_WAIT.0 + fragments::MAX_WAIT.0);

/// The times of the last two packets. One with a wrong time does not move this clock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    before: Nanos,
    last: Nanos,
}

impl Clock {
    /// Advances the clock to the time of a packet.
    pub(crate) fn tick(&mut self, at: Nanos) {
        (self.before, self.last) = (self.last, at);
    }

    /// Returns whether a message of the time `since` has waited for `time`, or is so much later than both packets.
    pub(crate) fn is_over(self, since: Nanos, time: Nanos) -> bool {
        let (first, last) = (self.before.min(self.last), self.before.max(self.last));
        first.since(since) >= time || since.since(last) >= time
    }
}

/// Messages of one direction that wait for their counterparts.
#[derive(Clone, Debug)]
pub(crate) struct WaitingMessages<T> {
    /// Number, time and content of messages, by the hash of their keys.
    by_key: HashMap<u64, (u64, Nanos, T)>,
    /// Time, number and hash in the order of arrival; may contain messages that were taken.
    order: VecDeque<(Nanos, u64, u64)>,
    number: u64,
    /// Largest number of messages, and the time for which each is kept.
    most: usize,
    kept: Nanos,
    /// Number of messages that were dropped before their time.
    without_room: u64,
}

impl<T> WaitingMessages<T> {
    fn new(most: usize, kept: Nanos) -> Self {
        let (by_key, order) = (HashMap::new(), VecDeque::new());
        WaitingMessages { by_key, order, number: 0, most, kept, without_room: 0 }
    }

    /// Returns an empty set of up to `most` replies that came before their queries.
    pub(crate) fn of_replies(most: usize) -> Self {
        Self::new(most, MAX_WAIT)
    }

    /// Adds a message; returns the earlier one with the same key.
    pub(crate) fn insert(&mut self, at: Nanos, key: u64, message: T) -> Option<T> {
        self.number += 1;
        self.order.push_back((at, self.number, key));
        self.by_key.insert(key, (self.number, at, message)).map(|(.., before)| before)
    }

    /// Removes the message with this key if its time fits.
    pub(crate) fn take(&mut self, key: u64, fits: impl Fn(Nanos) -> bool) -> Option<T> {
        self.by_key.get(&key).filter(|(_, at, _)| fits(*at))?;
        self.by_key.remove(&key).map(|(.., message)| message)
    }

    /// Removes the last message that fits, of the recent ones.
    fn take_recent(&mut self, fits: impl Fn(Nanos, &T) -> bool) -> Option<T> {
        let fits =
            |key: &u64| self.by_key.get(key).is_some_and(|(_, at, message)| fits(*at, message));
        let key = self.order.iter().rev().take(RECENT).map(|(.., key)| *key).find(fits)?;
        self.by_key.remove(&key).map(|(.., message)| message)
    }

    /// Calls `visit` with the messages that have waited too long, and with the oldest if there are too many.
    pub(crate) fn expire(&mut self, clock: Clock, mut visit: impl FnMut(T)) {
        while let Some(&(since, ..)) = self.order.front()
            && (self.by_key.len() >= self.most || clock.is_over(since, self.kept))
        {
            let dropped = self.pop();
            let in_time = !clock.is_over(since, self.kept);
            self.without_room += u64::from(in_time && dropped.is_some());
            dropped.map(&mut visit);
        }
        // Entries of messages that found their pair are at most as many as waiting ones.
        if self.order.len() >= 2 * self.most {
            let waits = |(_, number, key): &(Nanos, u64, u64)| {
                self.by_key.get(key).is_some_and(|(own, ..)| own == number)
            };
            self.order.retain(waits);
        }
    }

    /// Calls `visit` with all messages.
    fn drain(&mut self, mut visit: impl FnMut(T)) {
        while !self.order.is_empty() {
            self.pop().into_iter().for_each(&mut visit);
        }
    }

    /// Removes the oldest entry; returns its message if it still waits.
    fn pop(&mut self) -> Option<T> {
        let (_, number, key) = self.order.pop_front()?;
        self.by_key.get(&key).filter(|(own, ..)| *own == number)?;
        self.by_key.remove(&key).map(|(.., message)| message)
    }
}

/// A query, a reply, or both.
pub(crate) type Pair<T> = (Option<T>, Option<T>);

/// A matcher of queries and replies.
#[derive(Clone, Debug)]
pub(crate) struct Pairs<T> {
    hashes: RandomState,
    clock: Clock,
    queries: WaitingMessages<T>,
    replies: WaitingMessages<T>,
}

impl<T> Default for Pairs<T> {
    fn default() -> Self {
        let queries = WaitingMessages::new(MAX_WAITING, KEEP_TIME);
        let (hashes, clock) = (RandomState::new(), Clock::default());
        Pairs { hashes, clock, queries, replies: WaitingMessages::of_replies(MAX_WAITING) }
    }
}

impl<T> Pairs<T> {
    /// Adds a query or a reply; calls `visit` with each pair that is complete, and with messages
    /// whose wait is over.
    pub(crate) fn add(
        &mut self,
        at: Nanos,
        key: &impl Hash,
        is_reply: bool,
        message: T,
        visit: &mut impl FnMut(Pair<T>),
    ) {
        self.clock.tick(at);
        self.queries.expire(self.clock, |query| visit((Some(query), None)));
        self.replies.expire(self.clock, |reply| visit((None, Some(reply))));
        let key = self.hashes.hash_one(key);
        if is_reply {
            match self.queries.take(key, |query| at.since(query) < MAX_WAIT) {
                Some(query) => visit((Some(query), Some(message))),
                None => {
                    if let Some(before) = self.replies.insert(at, key, message) {
                        visit((None, Some(before)));
                    }
                }
            }
        } else if let Some(reply) = self.replies.take(key, |reply| belongs(at, reply)) {
            visit((Some(message), Some(reply)));
        } else if let Some(before) = self.queries.insert(at, key, message) {
            // The same query was sent again before the reply, which then belongs to the later query.
            visit((Some(before), None));
        }
    }

    /// Takes the query of a reply of the time `at` that has no question.
    pub(crate) fn take_query(&mut self, at: Nanos, asks: impl Fn(&T) -> bool) -> Option<T> {
        self.queries.take_recent(|query, message| belongs(query, at) && asks(message))
    }

    /// Returns the number of queries and of replies that were given up before their time; replies among queries only.
    pub(crate) fn without_room(&self) -> [u64; 2] {
        let replies = if self.queries.number > 0 { self.replies.without_room } else { 0 };
        [self.queries.without_room, replies]
    }

    /// Returns the number of queries that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.queries.by_key.len()
    }

    /// Calls `visit` with the messages that still wait.
    pub(crate) fn finish(&mut self, visit: &mut impl FnMut(Pair<T>)) {
        self.queries.drain(|query| visit((Some(query), None)));
        self.replies.drain(|reply| visit((None, Some(reply))));
    }
}

/// Returns whether a reply that came first in the capture belongs to a query of the time `query`.
pub(crate) fn belongs(query: Nanos, reply: Nanos) -> bool {
    reply >= query && reply.since(query) < MAX_WAIT
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds, key and whether it is a reply; then the times of queries and replies that belong together.
    type Case<'a> = (&'a [(u64, u16, bool)], &'a [(Option<u64>, Option<u64>)]);

    #[test]
    fn queries_and_replies_are_paired_by_their_times() {
        let table: [Case<'_>; 9] = [
            (&[(1, 7, false), (1, 7, true)], &[(Some(1), Some(1))]),
            (&[(1, 7, false), (1, 8, true)], &[(Some(1), None), (None, Some(1))]),
            (&[(1, 7, false), (2, 7, false), (2, 7, true)], &[(Some(1), None), (Some(2), Some(2))]),
            (&[(1, 7, false), (11, 7, true)], &[(Some(1), None), (None, Some(11))]),
            (&[(1, 7, false), (1, 7, true), (1, 7, true)], &[(Some(1), Some(1)), (None, Some(1))]),
            // The reply comes first in the capture, but not in time.
            (&[(2, 7, true), (1, 7, false)], &[(Some(1), Some(2))]),
            (&[(1, 7, true), (2, 7, false)], &[(Some(2), None), (None, Some(1))]),
            // A later time than all others, and none at all.
            (
                &[(1, 7, false), (9_999, 8, false), (1, 7, true)],
                &[(Some(1), Some(1)), (Some(9_999), None)],
            ),
            (
                &[(99, 7, false), (0, 8, false), (99, 7, true)],
                &[(Some(99), Some(99)), (Some(0), None)],
            ),
        ];
        for (messages, wanted) in table {
            let (mut pairs, mut found) = (Pairs::default(), Vec::new());
            for &(at, key, is_reply) in messages {
                let time = Nanos::from_secs(at);
                pairs.add(time, &key, is_reply, at, &mut |pair| found.push(pair));
            }
            pairs.finish(&mut |pair| found.push(pair));
            assert_eq!(found, wanted, "{messages:?}");
        }
    }

    /// The replies of one queue may all lie before the queries of another.
    #[test]
    fn many_replies_come_before_their_queries() {
        const ALL: u64 = 200_000;
        let (mut pairs, mut found) = (Pairs::default(), 0);
        for (at, is_reply) in [(2, true), (1, false)] {
            for key in 0..ALL {
                pairs.add(Nanos::from_secs(at), &key, is_reply, (), &mut |pair| {
                    found += u64::from(pair == (Some(()), Some(())));
                });
            }
        }
        assert_eq!((found, pairs.without_room()), (ALL, [0, 0]));
    }
}
