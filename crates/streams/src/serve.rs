//! The server side of transports on which each message has its own stream: HTTP/2, QUIC, HTTP/3.
//!
//! It knows no DNS: it passes each message to an implementation of [`Answer`], which may take time to reply.
//! Connections, streams, idle time and sizes are limited.

mod fault;
mod http2;
#[cfg_attr(not(feature = "quic"), path = "serve/no_quic.rs")]
mod quic;

pub use fault::{BadFaultPlan, Fault, FaultPlan, Faults};
pub use http2::http2;
pub use quic::{listen, quic};

use std::any::Any;
use std::net::SocketAddr;
use std::time::Duration;

/// Answers messages.
pub trait Answer {
    /// Returns a value that is held as long as a QUIC connection lasts; `None` refuses the connection.
    fn place(&self, _client: SocketAddr) -> Option<Box<dyn Any>> {
        Some(Box::new(()))
    }

    /// Returns the reply to `message` of `client`; an empty one for no reply.
    fn answer(&self, client: SocketAddr, message: Vec<u8>) -> impl Future<Output = Vec<u8>>;

    /// Returns the failure that the next message meets on purpose; called once for each.
    fn fault(&self) -> Option<Fault> {
        None
    }

    /// Returns how many seconds an HTTP cache may keep `reply` (RFC 8484 section 5.1); `None` if not stated.
    fn freshness(&self, _reply: &[u8]) -> Option<u32> {
        None
    }
}

/// Limits of connections with streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    /// Highest number of QUIC connections; beyond that new ones are refused.
    pub connections: usize,
    /// Highest number of concurrent streams of a connection.
    pub streams: u32,
    /// Time after which a connection without a stream, or with an incomplete message, ends.
    pub idle: Duration,
}

impl Default for StreamLimits {
    /// Returns 1,000 connections, 100 streams each (RFC 9113 section 6.5.2 recommends at least that), 30 s.
    fn default() -> Self {
        StreamLimits { connections: 1_000, streams: 100, idle: Duration::from_secs(30) }
    }
}

/// Longest message, in bytes.
const MAX_MESSAGE: usize = u16::MAX as usize;
