//! Attempts of clients to connect over QUIC, between the thread of the socket and the thread that serves them.

use measure::Transport;
use streams::serve::Attempt;

use super::places::{Place, Unproven};

/// A client's attempt to connect over QUIC, on its way to the thread that serves it.
pub(crate) struct Visit {
    pub(super) transport: Transport,
    pub(super) attempt: Attempt,
    pub(super) right: Right,
}

/// What a handshake needs: a place, or for a client that has not shown that it is at its address, less than that.
pub(super) enum Right {
    Place(Place),
    Handshake(Unproven),
}
