//! What makes a measurement: units, goals, pacing schedules, histograms, statistics, limiters.
//!
//! ```text
//! units ──> pacing ──> histogram ──> stats
//!   └─────> goal ────────┘             └──> limiter
//! ```
//!
//! Pure: no clock is read, no socket opened, nothing printed.

pub mod units;

pub use units::{Nanos, Qps};
