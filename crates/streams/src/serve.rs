//! The server's side of transports on which each message has a stream of its own: HTTP/2, QUIC, HTTP/3.
//!
//! Knows no DNS: a message in, a message out, by whoever implements [`Answer`]; that may take its time.
//! Connections, streams, idle time and sizes are bounded.

mod http2;
#[cfg_attr(not(feature = "quic"), path = "no_quic.rs")]
mod quic;

pub use http2::http2;
pub use quic::{listen, quic};

use std::any::Any;
use std::net::SocketAddr;
use std::time::Duration;

/// Who answers messages.
pub trait Answer {
    /// A place for a connection of QUIC, held while it lasts; `None` refuses it.
    fn place(&self, _client: SocketAddr) -> Option<Box<dyn Any>> {
        Some(Box::new(()))
    }

    /// The reply to `message` of `client`; an empty one where there is to be none.
    fn answer(&self, client: SocketAddr, message: Vec<u8>) -> impl Future<Output = Vec<u8>>;

    /// For how many seconds `reply` may be kept by a cache of HTTP (RFC 8484 section 5.1); `None`: not told.
    fn freshness(&self, _reply: &[u8]) -> Option<u32> {
        None
    }
}

/// Bounds of a connection with streams, and of all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    /// Connections of QUIC at once; over it new ones are refused.
    pub connections: usize,
    /// Streams of a connection at once.
    pub streams: u32,
    /// A connection without a stream, or a message that is not all there, ends after this time.
    pub idle: Duration,
}

impl Default for StreamLimits {
    /// 1,000 connections, 100 streams each (RFC 9113 section 6.5.2 wants as many at least), 30 s.
    fn default() -> Self {
        StreamLimits { connections: 1_000, streams: 100, idle: Duration::from_secs(30) }
    }
}

/// The longest message.
const MAX_MESSAGE: usize = u16::MAX as usize;
