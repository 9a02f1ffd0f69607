//! The Measurer: the side that sends queries to the DUT and judges the replies (RFC 8219).
//!
//! ```text
//! workload ──> schedule ──> batch ──> flight ──> tally
//! (what)       (when)       (net)     (who waits) (what became of it)
//! ```
//!
//! Roles on [`net::Engine`]s: no clock is read here and no socket opened, so that pacing, expiry and
//! early stops are tested to the nanosecond on the simulated engine.

pub mod flight;
pub mod lockstep;
pub mod measurer;
pub mod permutation;
pub mod tally;
pub mod workload;

pub use flight::sockets_needed;
pub use lockstep::{LockStep, LockStepResult};
pub use measurer::{Measurer, Plan};
pub use tally::{Live, Tally};
pub use workload::Workload;
