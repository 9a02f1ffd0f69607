//! The Measurer: the side that sends queries to the DUT and judges the replies (RFC 8219).
//!
//! ```text
//! workload ──> schedule ──> batch ──> flight ──> tally
//! (what)       (when)       (net)     (who waits) (what became of it)
//! ```
//!
//! Roles on [`net::Engine`]s: no clock is read here and no socket opened, so that pacing, expiry and
//! early stops are tested to the nanosecond on the simulated engine.

pub mod clients;
mod connections;
pub mod flight;
pub mod live;
pub mod lockstep;
pub mod measurer;
mod outcome;
mod pace;
pub mod permutation;
pub mod pipeline;
pub mod plan;
pub mod population;
pub mod replay;
pub mod tally;
pub mod workload;

pub use clients::{ClientPlan, Clients, ClientsResult};
pub use connections::ConnectionTally;
pub use flight::{sockets_for, sockets_needed};
pub use live::{LATENCY_BOUNDS, Live};
pub use lockstep::{LockStep, LockStepResult};
pub use measurer::Measurer;
pub use plan::Plan;
pub use population::{Networks, Population};
pub use replay::{Recorder, Recording, ReplayPlan, Replayer};
pub use tally::Tally;
pub use workload::Workload;
