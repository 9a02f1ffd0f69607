//! Attempts of clients to connect over QUIC, between the thread of the socket and the thread that serves them.

use measure::Transport;
use streams::serve::Attempt;

use super::places::{Place, Unproven};

/// A client's attempt to connect over QUIC, on its way to the thread that serves it.
pub(crate) struct ConnectionAttempt {
    pub(super) transport: Transport,
    pub(super) attempt: Attempt,
    pub(super) right: Grant,
}

/// Permission for a handshake: with a place, or without for a client with an unproven address.
pub(super) enum Grant {
    Place(Place),
    Handshake(Unproven),
}
