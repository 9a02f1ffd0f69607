//! Plans and methods: how trials are combined to a number. Pure: a [`Bench`] runs the trials.
//!
//! ```text
//! file (TOML) ──> Experiment ──> per server: certificate ──> repeats x search ──> CellRecord
//!                                                             └── Bench::trial(rate) ──> Trial
//! ```
//!
//! No process is started here and no clock read, so that a search is tested against a scripted bench.

pub mod bench;
pub mod certify;
pub mod conformance;
pub mod file;
pub mod names;
pub mod repeats;
pub mod search;

pub use bench::{Bench, BenchError, TrialSpec};
pub use certify::certify;
pub use conformance::differs;
pub use file::{Experiment, FileError};
pub use names::{NameBudget, NamesExhausted};
pub use repeats::{Progress, Repeats};
pub use search::{Search, SearchTrace};
