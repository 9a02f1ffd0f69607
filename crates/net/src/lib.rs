//! How bytes move; knows no DNS.
//!
//! ```text
//!   role (a state machine)          Measurer, AuthDNS, DNS64 server
//!     ^  RxBatch      | TxBatch
//!     |               v
//!   drive (the worker loop)         one thread, one engine, one role
//!     ^               |
//!     |               v
//!   Engine                          udp: batched sockets   sim: a virtual clock
//! ```
//!
//! All `unsafe` of the workspace lives in this crate: in `udp` and `cmsg` (system calls on batches)
//! and in `sys` (clocks, scheduling).

pub mod batch;
mod cmsg;
pub mod engine;
pub mod sim;
pub mod sys;
pub mod tcp;
pub mod udp;

pub use batch::{Destination, Received, RxBatch, SocketId, TxBatch};
pub use engine::{Engine, EngineCounters, Next, Role, Wait, WaitMode, drive};
pub use udp::{UdpEngine, UdpFacts, UdpOptions, sources};
