//! The Tester: runs a role on threads with an engine, and merges the workers' results into a trial.
//!
//! ```text
//! TrialRequest ──> Setup ──> worker ┐                                    ┌> worker's tally ┐
//! (record)         (checked)        ├ a role of `load` on an engine ─────┤                 ├─ merge ──> TrialResult
//!                            worker ┘ of `udp` or `streams`, one a core  └> worker's tally ┘
//! ```
//!
//! A request contains texts and numbers; [`Setup::new`] converts them to the types of roles and engines, or names the
//! invalid field. A worker is a thread; workers synchronise at the barrier that starts a trial and at the merge that
//! ends it.

mod agreed;
mod anew;
mod authdns;
mod background;
mod busy;
pub mod ceilings;
mod conclude;
mod connection_check;
mod connections;
mod core_watch;
mod error;
mod failures;
mod host;
mod in_kernel;
mod kernel_setup;
mod latencies;
mod live_file;
mod local_server;
mod neighbours;
mod replay;
mod run;
mod setup;
mod shares;
mod sockets;
mod worker;
mod workload;

pub use authdns::{AuthListen, AuthServer, ConnectionPlan, EncryptedListen};
pub use background::Background;
pub use connections::dialer_alone;
pub use core_watch::CoreWatch;
pub use error::{Invalid, TesterError};
pub use live_file::{snapshot, write_live};
pub use setup::Setup;
pub use sockets::udp_options;

/// Returns the time in seconds since 1970.
pub fn unix_now() -> f64 {
    use std::time::{SystemTime, UNIX_EPOCH};
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64())
}
