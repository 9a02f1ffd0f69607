//! Control of a running server over a UNIX socket: the server's side ([`run`]) and that of `dns64d ctl` ([`client`]).
//!
//! ```text
//!   dns64d ctl ──one line of JSON──> control ──> workers (cache), metrics, log, the main thread (reload)
//!              <──lines of JSON────────┘
//! ```
//!
//! A connection has one request. The answer is one document; a dump has one for each part of a cache, so that neither a
//! worker nor the memory is held up by a large one. Who may connect is a matter of the file's mode: its owner only.

mod client;
mod request;
mod server;
mod show;

pub(crate) use self::client::Ctl;
pub(crate) use self::server::{Server, listen, run};
