//! Plans and methods: how trials are combined to a number. This crate is pure: a [`Bench`] runs the trials.
//!
//! ```text
//! file (TOML) ──> Experiment ──> per server: certificate ──> repeats x search ──> CellRecord
//!                                                             └── Bench::trial(rate) ──> Trial
//! ```
//!
//! This crate starts no process and reads no clock, so that a search is tested against a scripted bench.

mod answers;
mod bench;
pub mod bisect;
pub mod capacity;
pub mod certify;
pub mod conformance;
mod custom;
mod drill;
mod error;
pub mod file;
mod generator;
mod known;
pub mod mlrsearch;
mod names;
mod plan;
mod repeats;
mod replication;
pub mod search;
pub mod settings;
mod validate;
pub mod verify;
pub mod visit;

pub use answers::{ComparedAnswers, figures as answer_figures};
pub use bench::{
    Bench, BenchError, GeneratorSpec, GeneratorTimes, LockStepSpec, RoleCpu, TrialSpec,
};
pub use certify::certify;
pub use conformance::{Circumstances, Joined, OneHost, differs, of_method, of_settings, planned};
pub use custom::Custom;
pub use drill::{DrillSpec, Drilled};
pub use file::{Experiment, FileError, Point};
pub use names::{ClientNames, NameBudget, NameUse, NamesExhausted};
pub use plan::{Visit, estimate, self_test_estimate, servers_at, visit_estimate, visits};
pub use repeats::{Progress, Repeats};
pub use replication::{Replication, Sizes, Syncs, UpdateResult, UpdateSpec};
pub use search::{Rule, RuleError, RuleName, Search, SearchTrace};
pub use settings::{Method, Settings};
pub use verify::{Behaviour, Capture, Captured, TruthBench, Verified, VerifyPlan, verify};
pub use visit::{Replay, VisitResult, add_visit, visit};
