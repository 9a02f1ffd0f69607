//! Records of measurements, and their JSON. This crate is the only serde boundary of results.
//!
//! ```text
//! load::Tally ──(cli)──> Trial ──(experiment)──> CellRecord ──> Run ──> report, JSON file
//!                                                     └──────────┴──> store (SQLite)
//! ```
//!
//! Top-level names are a contract with scripts: names are added, never renamed. [`SCHEMA`] counts the incompatible
//! versions.

mod answers;
mod attack;
mod beside;
mod capacity;
mod cells;
pub mod certificate;
pub mod check;
mod client_stats;
mod compact;
pub mod compare;
mod connections;
mod csv;
mod dns_metrics;
mod engine_kind;
mod file;
mod gate;
pub mod host;
mod json_lines;
mod limiters;
mod lockstep;
mod merge;
mod name;
mod pacing;
mod parts;
mod plan;
pub mod request;
mod run;
mod samples;
mod series;
mod snapshot;
mod source;
pub mod store;
pub mod testbed;
mod times;
mod trace;
mod transfers;
mod trial;
mod trial_record;
pub mod updates;
mod verdict;
mod version;

pub use self::csv::{Table, capacity_numbers, six_digits, write_csv};
pub use answers::{
    AnswerDiff, AnswerDifference, AnswerKind, AnswerPair, AnswerSeen, AnswerServer, AnswerVerdict,
};
pub use attack::{Attack, AttackKind};
pub use capacity::{
    Basis, CapacityRatio, LoadPoint, Round, Seen, ServerCapacity, StreamDemand, WindowStep,
};
pub use certificate::{Certificate, CertificateError, CertificateFile, Coverage, SelfTest, Tested};
pub use check::{Bound, Check, CheckVerdict, Known, TruthSource};
pub use client_stats::{ClientStats, Quantiles};
pub use compact::RESIDENT;
pub use compare::{
    CompareTerms, Compared, Comparison, Decision, FailIf, FailIfError, Missing, Outcome, compare,
};
pub use connections::Connections;
pub use dns_metrics::write_dns_metrics;
pub use engine_kind::{EngineChoice, EngineKind};
pub use file::{RecordError, read, try_writing, write, write_bytes};
pub use gate::{DecidedCondition, Gate};
pub use host::HostFacts;
pub use json_lines::write_json_lines;
pub use limiters::LimiterCounts;
pub use lockstep::{LockStepRow, LockStepTable};
pub use merge::{LostPart, MergeError, MergeTerms, Part, merge};
pub use name::cell_name;
pub use pacing::RecordedPacing;
pub use parts::{Merged, PartClock, PartOutcome};
pub use plan::{Form, InputFile, Plan, Seam};
pub use request::{AttackOutcome, AttackRequest, LockStepTimes, TrialRequest, TrialResult};
pub use run::{Capacity, CellRecord, GoalCapacity, Run, Secondary, Skipped, VoidRepeat};
pub use series::{Figure, Second, Series};
pub use snapshot::{Snapshot, TesterCount};
pub use source::{of_repeats, of_trial, read_repeats, read_run};
pub use store::{CellLine, CellState, Recording, RunLine, RunState, Store, StoreError};
pub use testbed::{
    AuthHost, BuildOutcome, BuiltServer, Choices, CustomHow, CustomServer, DutHost, TestbedFacts,
};
pub use times::Times;
pub use trace::{
    TraceClients, TraceCode, TraceDirection, TracePackets, TraceRates, TraceSeries, TraceStats,
    TraceType,
};
pub use transfers::{TransferCount, TransferCounts, Transfers};
pub use trial::{
    AgreedStart, AuthDnsShare, Conditions, Cpu, Drops, Octets, ProgramsCpu, Step, Steps,
    TargetOutcome, Trial, Voidness,
};
pub use trial_record::TrialRecord;
pub use updates::{Durability, Lag, UpdateCheck, UpdateRun};
pub use version::VersionOrder;

/// Version of the JSON of these types.
pub const SCHEMA: u32 = 1;
