//! What passes between a worker and whoever carries its streams (TCP and what is built on it).
//!
//! A worker knows streams by numbers only. What comes is put into the worker's inbox by [`Dns64::take`]; what is to go
//! is fetched by [`Dns64::give`](crate::Dns64::give).
//!
//! [`Dns64::take`]: crate::Dns64::take

use std::net::{IpAddr, SocketAddr};

/// What comes to a worker.
#[derive(Debug)]
pub enum FromStreams {
    /// A client asks.
    Query {
        /// His stream.
        stream: u64,
        /// Whether it comes among others of a connection of TCP or TLS, which he may be told to keep.
        framed: bool,
        /// His address.
        client: IpAddr,
        /// His query.
        message: Vec<u8>,
    },
    /// Upstream has answered, or will not.
    Reply {
        /// What was stated in [`ToStreams::Ask`].
        lookup: u32,
        /// What was stated there, too.
        ticket: u32,
        /// The reply; `None` after a failure.
        message: Option<Vec<u8>>,
    },
}

/// What a worker wants carried.
#[derive(Debug, PartialEq, Eq)]
pub enum ToStreams {
    /// A reply to a client; an empty one where he is to get none.
    Answer {
        /// His stream.
        stream: u64,
        /// The reply.
        message: Vec<u8>,
    },
    /// A query to an upstream server.
    Ask {
        /// The server.
        server: SocketAddr,
        /// For the reply.
        lookup: u32,
        /// For the reply.
        ticket: u32,
        /// The query.
        message: Vec<u8>,
    },
}

/// Answers of one step, octets; the clients beyond get none.
const MAX_ANSWERS: usize = 8 << 20;
/// From so many on no further message is taken up in this step.
const ENOUGH: usize = 1 << 20;

/// What a worker wants carried, until it is fetched.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    messages: Vec<ToStreams>,
    /// Octets of the answers among them.
    octets: usize,
}

impl Outbox {
    /// Puts in a query to a server.
    pub(crate) fn ask(&mut self, ask: ToStreams) {
        self.messages.push(ask);
    }

    /// Puts in the answer that `make` writes into room for `len` octets. Whether there was room; if not, the stream is
    /// told that there is no answer.
    pub(crate) fn answer(
        &mut self,
        stream: u64,
        len: usize,
        make: impl FnOnce(&mut [u8]) -> usize,
    ) -> bool {
        let fits = self.octets + len <= MAX_ANSWERS;
        let mut message = Vec::new();
        if fits {
            message.resize(len, 0);
            let len = make(&mut message);
            message.truncate(len);
            self.octets += len;
        }
        self.messages.push(ToStreams::Answer { stream, message });
        fits
    }

    /// Whether there is enough for one step.
    pub(crate) fn has_enough(&self) -> bool {
        self.octets >= ENOUGH
    }

    /// Hands all out.
    pub(crate) fn drain(&mut self) -> std::vec::Drain<'_, ToStreams> {
        self.octets = 0;
        self.messages.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_a_step_are_bounded() {
        let mut outbox = Outbox::default();
        let mut put = |len: usize| outbox.answer(7, len, |room| room.len());
        assert!(put(ENOUGH));
        assert!(!put(MAX_ANSWERS));
        assert!(put(MAX_ANSWERS - ENOUGH));
        assert!(!put(1));
        assert!(outbox.has_enough());
        let lengths: Vec<usize> = outbox
            .drain()
            .map(|message| match message {
                ToStreams::Answer { message, .. } | ToStreams::Ask { message, .. } => message.len(),
            })
            .collect();
        assert_eq!(lengths, [ENOUGH, 0, MAX_ANSWERS - ENOUGH, 0]);
        assert!(!outbox.has_enough() && outbox.answer(7, MAX_ANSWERS, |room| room.len()));
    }
}
