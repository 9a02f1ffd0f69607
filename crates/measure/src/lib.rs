//! The parts of a measurement: units, goals, pacing schedules, histograms, statistics, limiters and warnings.
//!
//! ```text
//! units ──> pacing ──> histogram ──> stats
//!   └─────> goal ────────┘             └──> limiter, warning
//! ```
//!
//! This crate is pure: it reads no clock, opens no socket and prints nothing.

mod clock;
pub mod counted;
pub mod exposition;
pub mod goal;
pub mod histogram;
pub mod limiter;
mod link;
mod modes;
pub mod pacing;
pub mod procfs;
mod proof;
pub mod rng;
mod slice;
pub mod stall;
mod start;
pub mod stats;
pub mod strace;
mod sums;
mod sustained;
mod transport;
mod units;
mod update_rate;
pub mod verdict;
pub mod warning;
mod words;
mod zipf;

pub use clock::Reading;
pub use goal::Goal;
pub use histogram::Histogram;
pub use limiter::{Evidence, Limiter, Places, ScheduleTolerance, Void};
pub use link::{Link, Path};
pub use modes::{HttpMethod, TlsVersion, WaitMode, WriteMode};
pub use pacing::{OpenPacing, Pacing, Schedule};
pub use proof::LimiterProof;
pub use rng::Rng;
pub use slice::{MAX_SLICES, NotASlice, Slice};
pub use stall::{Disturbances, Stall};
pub use start::{ClockBound, NotAnInstant, StartAt};
pub use sustained::Outstanding;
pub use transport::{Transport, any_address};
pub use units::{Nanos, Qps};
pub use update_rate::UpdateRate;
pub use verdict::{Facts, TrialVerdict};
pub use warning::Warning;
pub use words::UnknownWord;
pub use zipf::Zipf;
