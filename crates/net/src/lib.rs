//! How bytes move; knows no DNS.
//!
//! ```text
//!   role (a state machine)          Measurer, AuthDNS, DNS64 server
//!     ^  RxBatch      | TxBatch
//!     |               v
//!   drive (the worker loop)         one thread, one engine, one role
//!     ^               |
//!     |               v
//!   Engine                          udp: batched sockets; sim: a virtual clock and one scripted peer
//!
//!   StreamRole ──> StreamEngine     the same for connections (`stream`): TCP, TLS, HTTP, QUIC
//! ```
//!
//! All `unsafe` of the workspace lives in this crate: in `udp` (system calls on batches), in `sys`
//! (clocks, scheduling), in `capture` (packet sockets) and in `scrape` (a socket that comes over exec).

mod address_error;
pub mod batch;
pub mod capture;
pub mod drive;
pub mod engine;
pub mod http;
pub mod scrape;
pub mod serve;
pub mod sim;
pub mod stream;
pub mod sys;
pub mod tcp;
pub mod tls;
pub mod udp;

pub use batch::{Destination, Received, RxBatch, SocketId, TxBatch};
pub use drive::{Next, Role, Tended, UNSEEN, WaitMode, drive, drive_and_tend};
pub use engine::{Engine, EngineCounters, Wait};
pub use stream::{StreamEngine, StreamRole};
pub use udp::{Doorbell, UdpEngine, UdpFacts, UdpOptions, sources};
