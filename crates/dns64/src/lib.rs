//! A DNS64 server (RFC 6147): AAAA for names that have only A, so that hosts with IPv6 alone reach IPv4 through a NAT64.
//!
//! ```text
//!   config ──> policy ──> settings          what the operator wants, checked and prepared
//!                            │
//!   client ──datagram──> server (a role) ──datagram──> upstream
//!      └─────stream────>    │    └────────stream──────────┘
//!                           ├ admission     who may ask, how much
//!                           ├ cache         answers kept
//!                           ├ special       what is answered here
//!                           ├ upstream      servers, sockets, health
//!                           ├ transaction   a question under way; table: bounded tables of them
//!                           └ reply, compose, answer    what upstream says, what is made of it, what a client gets
//! ```
//!
//! [`Dns64`] is a state machine for one worker: it reads no clock and opens no socket. The `dns64d` program gives it
//! both.

mod admission;
mod answer;
mod cache;
mod compose;
pub mod config;
mod counters;
pub mod policy;
mod question;
mod reply;
mod server;
mod settings;
mod special;
pub mod streams;
mod table;
mod transaction;
mod upstream;

pub use config::{Config, ConfigError};
pub use counters::Counters;
pub use server::{Dns64, Gauges, ServerHealth};
pub use settings::Settings;
pub use upstream::SocketChange;
