//! The Measurer: the side of the Tester that sends queries to the DUT and validates the replies (RFC 8219).
//!
//! ```text
//! workload ──> schedule ──> batch ──> flight ──> tally
//! (what)       (when)       (engine)  (outstanding) (outcomes)
//! ```
//!
//! The roles here run on an engine. They read no clock and open no socket, so that pacing, expiry and early
//! stops are tested to the nanosecond on the simulated engine.

mod clients;
mod collector;
mod connections;
mod flight;
mod kept;
mod live;
pub mod lockstep;
mod measurer;
mod outcome;
mod outstanding;
mod pace;
mod patience;
mod permutation;
pub mod pipeline;
mod plan;
mod population;
mod replay;
mod rings;
mod stall_watch;
mod steps;
pub mod tally;
mod window;
pub mod workload;

pub use clients::{ClientPlan, ClientReplay, Clients, ClientsResult};
pub use collector::{Collector, CountedTimes};
pub use connections::ConnectionTally;
pub use flight::{sockets_for, sockets_needed};
pub use live::{Journal, LATENCY_BOUNDS, Live, QueryOutcome};
pub use lockstep::{LockStep, LockStepPlan, LockStepResult, Rounds};
pub use measurer::Measurer;
pub use permutation::OrderParameters;
pub use plan::Plan;
pub use population::{Networks, Population};
pub use replay::records::{Recorder, Recording};
pub use replay::{ReplayPlan, Replayer};
pub use steps::{Step, Steps};
pub use tally::Tally;
pub use workload::Workload;
