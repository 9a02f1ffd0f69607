//! The client's side of streams: many connections, each carrying many messages.
//!
//! ```text
//!   StreamRole (a state machine)      decides which connection opens, what it sends, when it closes
//!     ^ opened, message, closed  | Orders
//!     |                          v
//!   StreamEngine                      one thread: a tokio runtime, a task for each connection, one for the time
//!     ^                          |
//!     |                          v
//!   dial                              TCP, TLS, QUIC, HTTP: how a connection comes to be, and why it does not
//! ```
//!
//! What is ordered together for a connection is written together; what arrived together is read together.
//! No task is made for a message, and, unless each has a stream of its own (`exchange`), nothing allocated.

mod alarm;
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
mod runtime;

pub use dial::{Carriage, Dialer, TlsDialer};
pub use meter::Bytes;
pub use runtime::StreamEngine;

#[cfg(test)]
mod tests;
