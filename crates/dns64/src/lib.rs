//! A DNS64 server (RFC 6147). It answers AAAA queries for names that have only A records, so that IPv6-only
//! hosts reach IPv4 servers through a NAT64.
//!
//! ```text
//!   config ──> policy ──> settings          the operator's settings, validated and prepared
//!                            │
//!   client ──datagram──> server (a role) ──datagram──> upstream
//!      └─────stream────>    │    └────────stream──────────┘
//!                           ├ follow        learned prefixes, NAT64s that fail
//!                           ├ clients       what the rules say about networks of clients
//!                           ├ admission     which clients may send queries, and how many
//!                           ├ cache         stored answers
//!                           ├ cache         stored answers; snapshot: a file of them
//!                           ├ mirror        copies of stored answers, for a second cache in front of the server
//!                           ├ plain         what a program in front of the server may resolve itself
//!                           ├ rules         an operator's rules for single names, from files
//!                           ├ special       queries answered locally; designation: what clients are told of encrypted transports
//!                           ├ subnet        the client subnet of a query
//!                           ├ upstream      servers, sockets, health
//!                           ├ statistics    what clients ask and get; tap: single messages, for query log and dnstap
//!                           ├ transaction   a pending question; table: bounded tables of them
//!                           └ reply, compose, answer    upstream's reply, the composed answer, the client's copy
//! ```
//!
//! [`Dns64`] is the state machine of one worker. It reads no clock and opens no socket; the `dns64d` program
//! provides both.

mod admission;
mod answer;
mod cache;
mod clients;
mod compose;
pub mod config;
mod cookie;
mod counters;
mod designation;
mod extended_error;
pub mod follow;
mod mirror;
mod nat64;
pub mod plain;
mod policy;
mod question;
mod record;
mod reply;
pub mod rules;
mod server;
mod settings;
mod snapshot;
mod special;
mod statistics;
pub mod streams;
mod subnet;
mod table;
mod tap;
mod transaction;
mod tsig;
mod upstream;

pub use answer::OUR_UDP_SIZE;
pub use cache::{CachedAnswer, Domain, Dump};
pub use clients::ClientClass;
pub use config::{Config, ConfigError};
pub use counters::Counters;
pub use mirror::{MirroredAnswer, StepCopies};
pub use nat64::{Lifetime, Nat64, Nat64s};
pub use rules::{RuleSets, Rules};
pub use server::{Dns64, Gauges, ServerHealth};
pub use settings::Settings;
pub use snapshot::{Snapshot, SnapshotError, SnapshotWriter};
pub use statistics::{LatencyClass, Statistics};
pub use tap::{Observed, ObservedMessage, TapKind};
pub use upstream::SocketChange;
