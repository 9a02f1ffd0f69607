//! Events of a running experiment.

use std::path::Path;

use experiment::VisitResult;
use measure::Nanos;
use record::{CellRecord, Certificate, EngineKind, Plan, Skipped, TrialRecord};

/// Event of a running experiment.
#[derive(Debug)]
pub enum Event<'a> {
    /// The testbed is up; the plan of the run. No measurement was made yet.
    Begun(&'a Plan),
    /// The self-test with an engine begins.
    SelfTest(EngineKind),
    /// A trial of the self-test ended.
    SelfTestTrial(&'a TrialRecord),
    /// The self-test with an engine ended.
    Certified(EngineKind, &'a Certificate),
    /// The lab chose the engine of the queries.
    Engine {
        /// Engine that sends the queries of the trials.
        engine: EngineKind,
        /// Why the engine was chosen, in words.
        why: &'a str,
        /// Highest rate at which servers may be measured with the engine, in queries a second;
        /// `None` if the method requires no certificate.
        certified_qps: Option<f64>,
    },
    /// The cells, in their order, and the expected time of their visits.
    Planned(&'a [CellRecord], Nanos),
    /// A visit of a cell begins.
    Visit {
        /// Cell that is visited, with the results of earlier visits.
        cell: &'a CellRecord,
        /// Number of the repeat, from 0.
        repeat: u32,
        /// Number of this visit, from 1, and number of all visits.
        number: (usize, usize),
        /// Expected time of this visit and the later ones.
        remaining: Nanos,
    },
    /// A server is up; its title and version.
    Serving(&'a str, Option<&'a str>),
    /// A trial of a cell ended.
    Trial(&'a CellRecord, &'a TrialRecord),
    /// A visit ended with findings.
    Visited {
        /// Cell, with the findings of this visit.
        cell: &'a CellRecord,
        /// Number of the repeat, from 0, and number of all repeats.
        repeat: (u32, u32),
        /// Findings that the visit has added to the cell.
        found: &'a VisitResult,
    },
    /// The capacity of a cell was computed from all its rounds, after the last one.
    SummedUp(&'a CellRecord),
    /// The trials of a repeat are discarded and repeated: it was void, or was interrupted and cannot be continued.
    Forgotten(&'a CellRecord, u32),
    /// A server was not measured, or only in part.
    Skipped(&'a Skipped),
    /// Path of the run's directory, which is not removed.
    Kept(&'a Path),
}
