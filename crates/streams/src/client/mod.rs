//! The client side of streams: many connections with many messages each.
//!
//! ```text
//!   StreamRole (a state machine)      decides which connection opens, what it sends, when it closes
//!     ^ opened, message, closed  | Orders
//!     |                          v
//!   StreamEngine                      one thread: a tokio runtime, one task per connection, one for timing
//!     ^                          |
//!     |                          v
//!   dial                              TCP, TLS, QUIC, HTTP: establishes connections, or returns why not
//! ```
//!
//! Messages ordered together for a connection are written together, and messages that arrived together are
//! read together. No task is made for a message, and nothing is allocated unless each message has its own
//! stream (`exchange`).
//!
//! A caller with a runtime of its own uses one connection with streams by itself ([`Requests`]).

mod datagrams;
mod dial;
mod exchange;
mod failure;
mod framed;
mod http2;
#[cfg(feature = "quic")]
mod http3;
mod meter;
mod proxy;
#[cfg_attr(not(feature = "quic"), path = "no_quic.rs")]
mod quic;
mod requests;
mod runtime;
mod shared;
mod stream;
mod tcp_info;

pub use measure::WriteMode;

pub use dial::{Carriage, Dialer, TlsDialer};
pub use exchange::Reply;
pub use meter::{Bytes, StreamCounts};
pub use requests::{Requests, Unanswered};
pub use runtime::StreamEngine;

#[cfg(test)]
mod tests;
