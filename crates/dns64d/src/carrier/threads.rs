//! The threads that have the streams, as seen from the workers and from each other: a channel to each.

use dns64::streams::ToStreams;
use tokio::sync::mpsc;

use super::budget::Reservation;
use super::visit::ConnectionAttempt;

/// Number of bits for queries of one connection: the lower bits of a stream's number.
pub(super) const QUERY_BITS: u32 = 24;

pub(crate) enum Message {
    Outgoing(Outgoing),
    /// A client's attempt to connect over QUIC.
    Visit(Box<ConnectionAttempt>),
}

/// Message of a worker to a stream.
pub(crate) struct Outgoing {
    pub(crate) worker: usize,
    pub(crate) message: ToStreams,
    /// Memory reserved for an answer until it is written.
    pub(crate) reservation: Option<Reservation>,
}

/// Channels to the threads that have the streams.
#[derive(Clone)]
pub(crate) struct Threads(Vec<mpsc::UnboundedSender<Message>>);

impl Threads {
    /// Makes the channels; returns also their ends in the threads.
    pub(crate) fn new(count: usize) -> (Self, Vec<mpsc::UnboundedReceiver<Message>>) {
        let (senders, receivers) = (0..count.max(1)).map(|_| mpsc::unbounded_channel()).unzip();
        (Threads(senders), receivers)
    }

    /// Returns the number of threads.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Sends a message to a thread. The threads end last, so that sending fails only at the end.
    pub(super) fn send(&self, thread: usize, message: Message) {
        let _ = self.0[thread].send(message);
    }

    /// Sends a message of a worker to the thread that has the client's stream or the connection to
    /// the upstream server: connections to a server are spread over at most as many threads as
    /// there may be connections.
    pub(crate) fn pass(&self, outgoing: Outgoing, upstream_connections: usize) {
        let thread = match &outgoing.message {
            ToStreams::Answer { stream, .. } => (stream >> QUERY_BITS) as usize % self.len(),
            ToStreams::Query { .. } => {
                outgoing.worker % self.len().min(upstream_connections.max(1))
            }
        };
        self.send(thread, Message::Outgoing(outgoing));
    }
}
