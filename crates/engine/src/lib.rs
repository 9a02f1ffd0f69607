//! Roles, engines, and the worker loop that joins them. This crate knows no DNS and opens no socket.
//!
//! ```text
//!   role (a state machine)          Measurer, AuthDNS, DNS64 server
//!     ^  RxBatch      | TxBatch
//!     |               v
//!   drive (the worker loop)         one thread, one engine, one role
//!     ^               |
//!     |               v
//!   Engine                          sockets (crate `udp`); sim: a virtual clock and one scripted peer
//!
//!   StreamRole ──> its engine       the same for connections (crate `streams`): TCP, TLS, HTTP, QUIC
//! ```

mod address_error;
pub mod batch;
pub mod clock;
mod drive;
mod echo;
mod engine;
mod link_local;
pub mod sim;
pub mod stream;

pub use address_error::named;
pub use batch::{Destination, Received, RxBatch, SocketId, TxBatch};
pub use drive::{AUTO_SPIN, HookResult, Next, Role, UNSEEN, Worker, drive, drive_with_hook};
pub use echo::Echo;
pub use engine::{Engine, EngineCounters, Wait};
pub use link_local::on_link_of;
pub use measure::WaitMode;
pub use stream::StreamRole;
