//! Messages between a worker and the thread that has the streams (TCP and the transports above it).
//!
//! A worker knows streams by numbers only. [`Dns64::push_from_streams`] puts a message into the worker's
//! inbox; [`Dns64::drain_to_streams`](crate::Dns64::drain_to_streams) returns the messages to send.
//!
//! [`Dns64::push_from_streams`]: crate::Dns64::push_from_streams

use std::net::{IpAddr, SocketAddr};

use measure::Transport;

use crate::plain::ContinuedQuery;

/// Number of the stream that gets the answer to [`FromStreams::Discovery`]; no client has it.
pub const DISCOVERY: u64 = u64::MAX;

/// Message from the thread of the streams to a worker.
#[derive(Debug)]
pub enum FromStreams {
    /// A query of a client.
    Query {
        /// Number of the stream on which the query came.
        stream: u64,
        /// TCP, or the transport above it.
        transport: Transport,
        /// Address of the client, for access rules and shares.
        client: IpAddr,
        /// The query without its length.
        message: Vec<u8>,
    },
    /// The reply of an upstream server, or a failure.
    Reply {
        /// Number of the lookup, from [`ToStreams::Query`].
        lookup: u32,
        /// Number of the query of that lookup, from [`ToStreams::Query`].
        ticket: u32,
        /// The reply; `None` after a failure.
        message: Option<Vec<u8>>,
    },
    /// Query upstream's prefixes (RFC 7050); the answer goes to the stream [`DISCOVERY`].
    Discovery,
    /// A query over UDP that a program in front of the server has begun to resolve.
    Begun(ContinuedQuery),
}

/// Message from a worker to the thread of the streams.
#[derive(Debug, PartialEq, Eq)]
pub enum ToStreams {
    /// A reply to a client; empty if it gets none.
    Answer {
        /// Number of the stream on which the query came.
        stream: u64,
        /// Address of the client, whose share the reply ends.
        client: IpAddr,
        /// The reply without its length.
        message: Vec<u8>,
    },
    /// A query to an upstream server.
    Query {
        /// Address of the upstream server.
        server: SocketAddr,
        /// Number of the lookup, which [`FromStreams::Reply`] repeats.
        lookup: u32,
        /// Number of this query, which [`FromStreams::Reply`] repeats: a later query of the lookup
        /// has another number.
        ticket: u32,
        /// The query without its length.
        message: Vec<u8>,
    },
}

/// Share of the memory for the answers of one step from which on no further message is handled in this step.
const STEP_MEMORY_DIVISOR: usize = 8;

/// Messages from a worker that have not been fetched.
#[derive(Debug)]
pub(crate) struct Outbox {
    messages: Vec<ToStreams>,
    /// Total octets of the answers among the messages.
    octets: usize,
    /// Memory for the answers of one step, in octets; further clients get no reply.
    limit: usize,
}

impl Outbox {
    /// Makes an empty one with memory for `limit` octets of answers.
    pub(crate) fn new(limit: usize) -> Self {
        Outbox { messages: Vec::new(), octets: 0, limit }
    }

    /// Adds a query to a server.
    pub(crate) fn query(&mut self, query: ToStreams) {
        self.messages.push(query);
    }

    /// Adds the answer that `make` writes into a buffer of `len` octets. Returns whether there was room;
    /// otherwise the stream gets an empty answer.
    pub(crate) fn answer(
        &mut self,
        stream: u64,
        client: IpAddr,
        len: usize,
        make: impl FnOnce(&mut [u8]) -> usize,
    ) -> bool {
        let fits = self.octets + len <= self.limit;
        let mut message = Vec::new();
        if fits {
            message.resize(len, 0);
            let len = make(&mut message);
            message.truncate(len);
            self.octets += len;
        }
        self.messages.push(ToStreams::Answer { stream, client, message });
        fits
    }

    /// Returns whether there are enough answers for one step.
    pub(crate) fn has_enough(&self) -> bool {
        self.octets >= self.limit / STEP_MEMORY_DIVISOR
    }

    /// Returns whether there are no messages.
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Removes and returns all messages.
    pub(crate) fn drain(&mut self) -> std::vec::Drain<'_, ToStreams> {
        self.octets = 0;
        self.messages.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answers_of_a_step_are_limited() {
        const LIMIT: usize = 8 << 20;
        const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
        let mut outbox = Outbox::new(LIMIT);
        let mut put = |len: usize| outbox.answer(7, CLIENT, len, |room| room.len());
        assert!(put(LIMIT / STEP_MEMORY_DIVISOR));
        assert!(!put(LIMIT));
        assert!(put(LIMIT - LIMIT / STEP_MEMORY_DIVISOR));
        assert!(!put(1));
        assert!(outbox.has_enough());
        let lengths: Vec<usize> = outbox
            .drain()
            .map(|message| match message {
                ToStreams::Answer { message, .. } | ToStreams::Query { message, .. } => {
                    message.len()
                }
            })
            .collect();
        assert_eq!(
            lengths,
            [LIMIT / STEP_MEMORY_DIVISOR, 0, LIMIT - LIMIT / STEP_MEMORY_DIVISOR, 0]
        );
        assert!(!outbox.has_enough() && outbox.answer(7, CLIENT, LIMIT, |room| room.len()));
    }
}
