//! Replies of a server that is far away: each leaves a round trip after its message came.
//!
//! ```text
//! client    connects    sends a query                             sees the reply
//! server    accepts     reads and answers it                      writes the reply
//!              ├─────────── round trip ──────────┤
//!                            (the handshake)     ├── round trip ──┤
//! ```
//!
//! A client of a far server could not send before the handshake is over. Here the kernel completes it at once, so that a query that
//! comes earlier counts as one of its end.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// The replies of one connection to a far server, in their order.
#[derive(Debug)]
pub(super) struct Far {
    round_trip: Duration,
    /// End of the handshake.
    begins: Instant,
    /// Replies that wait, with their lengths in front, and the time at which they are due.
    waiting: VecDeque<(Instant, Vec<u8>)>,
    /// Number of octets that wait.
    octets: usize,
}

impl Far {
    /// Returns the replies of a connection that was accepted at `now`.
    pub(super) fn new(now: Instant, round_trip: Duration) -> Self {
        let begins = now + round_trip;
        Far { round_trip, begins, waiting: VecDeque::new(), octets: 0 }
    }

    /// Returns the number of octets that wait.
    pub(super) fn octets(&self) -> usize {
        self.octets
    }

    /// Returns when the next reply is due; `None` if no reply waits.
    pub(super) fn due(&self) -> Option<Instant> {
        self.waiting.front().map(|(due, _)| *due)
    }

    /// Keeps the replies in `output` to messages that came at `now`, and puts those that are due in their place.
    pub(super) fn exchange(&mut self, now: Instant, output: &mut Vec<u8>) {
        if !output.is_empty() {
            self.octets += output.len();
            let due = now.max(self.begins) + self.round_trip;
            self.waiting.push_back((due, std::mem::take(output)));
        }
        while self.due().is_some_and(|due| due <= now)
            && let Some((_, replies)) = self.waiting.pop_front()
        {
            self.octets -= replies.len();
            output.extend_from_slice(&replies);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_leave_a_round_trip_after_their_messages_and_the_first_ones_after_the_handshake() {
        let (ms, start) = (Duration::from_millis, Instant::now());
        let mut far = Far::new(start, ms(40));
        // Times in milliseconds: of an exchange, its replies, those that leave, when the next is due, octets that wait.
        let table: [(u64, &str, &str, Option<u64>, usize); 5] = [
            (0, "", "", None, 0),
            // It came before the handshake of a far server would have ended.
            (5, "first", "", Some(80), 5),
            (55, "second", "", Some(80), 11),
            (80, "third", "first", Some(95), 11),
            (120, "", "secondthird", None, 0),
        ];
        for (at, replies, leave, due, octets) in table {
            let mut output = replies.as_bytes().to_vec();
            far.exchange(start + ms(at), &mut output);
            assert_eq!(String::from_utf8_lossy(&output), leave, "at {at} ms");
            let due = due.map(|due| start + ms(due));
            assert_eq!((far.due(), far.octets()), (due, octets), "at {at} ms");
        }
    }
}
