//! Runs, their cells, and the parts of a capacity.

use std::collections::BTreeMap;

use measure::{Histogram, Limiter, Link, Path};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::SCHEMA;
use crate::answers::AnswerDiff;
use crate::capacity::{CapacityRatio, LoadPoint, Round, Seen, ServerCapacity, WindowStep};
use crate::cells;
use crate::certificate::Certificate;
use crate::engine_kind::EngineKind;
use crate::gate::Gate;
use crate::plan::{Plan, Seam};
use crate::series::{Figure, Series};
use crate::times::Times;
use crate::trial_record::TrialRecord;

/// Figures that [`of_trial`](crate::of_trial) gives a cell.
pub(crate) const OF_TRIAL: [&str; 4] = ["valid_answers", "latency_p50", "latency_p99", "lost"];

/// Result of `dnsdyno search` or `dnsdyno run`: a plan, and the result of each of its cells.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// Version of the JSON that is written.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: u32,
    /// Number of the run in its store; absent if it was not stored.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub id: Option<i64>,
    /// Plan that the run follows.
    #[serde(flatten)]
    pub plan: Plan,
    /// Duration of the run without its interruptions, in seconds.
    pub elapsed_s: f64,
    /// Whether everything planned was done.
    pub complete: bool,
    /// Servers and settings that were not measured, and why.
    pub skipped: Vec<Skipped>,
    /// Decision of the conditions of `--fail-if`; absent without one, and until everything is measured.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub gate: Option<Gate>,
    /// Interruptions of a resumed run.
    #[serde(default)]
    pub seams: Vec<Seam>,
    /// Cells, one for each server and setting.
    #[serde(with = "cells")]
    #[schemars(schema_with = "cells::schema::<CellRecord>")]
    pub results: Vec<CellRecord>,
}

/// A server that was not measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Skipped {
    /// Name of the server that was not measured.
    pub server: String,
    /// Settings that were not measured; empty for all of them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub settings: BTreeMap<String, String>,
    /// Reason why the cell was not measured.
    pub why: String,
}

/// A cell of the experiment's matrix: one server at one setting. A search fills the capacity fields; other methods
/// leave them empty and fill `figures`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CellRecord {
    /// Name of the server, or address of the target.
    pub server: String,
    /// Version of the server, if known.
    pub server_version: Option<String>,
    /// Varied settings; with the server they identify the cell within the run.
    pub settings: BTreeMap<String, String>,
    /// Method of the measurement: `search`, `lockstep`, `load`, ...
    #[serde(default = "search_word")]
    pub method: String,
    /// Unit of the numbers of a search that are no queries a second: `clients` or `connections/s`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub over: Option<String>,
    /// Median of the repeats' capacities, in queries a second (or in the unit of `over`); absent if no repeat has one.
    pub median_qps: Option<f64>,
    /// 1st percentile of the capacities, in queries a second.
    pub p01_qps: Option<f64>,
    /// 99th percentile of the capacities, in queries a second.
    pub p99_qps: Option<f64>,
    /// Whether the capacities are lower bounds.
    pub at_least: bool,
    /// Number of repeats with a result; void repeats do not count.
    pub repeats: u32,
    /// Repeats without a result, because their trials stayed void; `dnsdyno run --resume` measures them again.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub void_repeats: Vec<VoidRepeat>,
    /// Whether the measurement conforms to RFC 8219 section 9.2.
    pub conforming: bool,
    /// Differences from RFC 8219, each in words; empty if `conforming`.
    pub differs: Vec<String>,
    /// Duration to which a test shortened every trial, in seconds; absent if none did. It is then no measurement.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub shortened_s: Option<f64>,
    /// Shortcomings of the server at these settings, such as a cache that cannot be switched off,
    /// and quantities that were not measured.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub notes: Vec<String>,
    /// Limiter of the capacity, or of the figures.
    pub limiter: Limiter,
    /// Goal of the search; empty without one.
    pub goal: String,
    /// Rule by which the search decides on a rate: `rfc8219` or `mlrsearch`; empty without a search.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub rule: String,
    /// Capacity from rounds of closed loops (the method `capacity`); absent for other methods.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub capacity: Option<ServerCapacity>,
    /// Ratio of the capacity to the baseline's; absent for the baseline itself.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ratio: Option<CapacityRatio>,
    /// Rounds of the method `capacity`.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub rounds: Vec<Round>,
    /// The same loops with more queries on each connection; empty unless the loops of the rounds
    /// open connections.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub longer_connections: Vec<Round>,
    /// Windows that were tried before the first round.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub windows: Vec<WindowStep>,
    /// Reasons why the CPU time of the server is unknown; empty if it is known.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub hidden: Vec<Seen>,
    /// Latency and loss at shares of the capacity.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub loads: Vec<LoadPoint>,
    /// Certificate of the Tester's self-test.
    pub certificate: Option<Certificate>,
    /// Result of each search, in the order of the repeats.
    pub capacities: Vec<Capacity>,
    /// Trials of all repeats, in the order in which they ran.
    pub trials: Vec<TrialRecord>,
    /// Other figures, by name, such as `zone_load` or `experiment_time`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub figures: BTreeMap<String, Figure>,
    /// Secondaries of a primary, in an experiment about updates; the first is the server under test.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub secondaries: Vec<Secondary>,
    /// Samples outside of the trials, such as while a server loads its zone.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub series: Vec<Series>,
    /// Answers of all servers at these settings, compared, in the first of their cells.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub answers: Option<Box<AnswerDiff>>,
    /// Configuration files as used, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub files: BTreeMap<String, String>,
}

/// A repeat whose trials stayed void: it is no result about the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VoidRepeat {
    /// Number of the repeat, from 0.
    pub repeat: u32,
    /// Reason, with the number of trials.
    pub why: String,
}

/// A secondary of a primary.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Secondary {
    /// Name of the secondary's server.
    pub server: String,
    /// Version of the server, if known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub server_version: Option<String>,
    /// Address of the server, from which it also fetches its zone.
    pub address: String,
    /// Transfers by kind (`axfr`, `ixfr`, `ixfr_in_full`, `ixfr_without_news`, `transfers_refused`), their octets
    /// (`axfr_octets`, ...), the lag (`lag_p50`, `lag_p99`, `lag_watched`, `lag_unseen`), and of one that is queried
    /// beside others its rate (`qps`).
    pub figures: BTreeMap<String, Figure>,
}

/// Share of the server's cores from which on others make a capacity too low (docs/method.md).
const OTHERS: f64 = 0.1;

/// Returns the method of records that do not name one.
fn search_word() -> String {
    "search".to_owned()
}

impl CellRecord {
    /// Returns whether the figures of the cell are those of a run of one trial, and say nothing more.
    pub(crate) fn repeats_its_trials(&self) -> bool {
        let figures = &self.figures;
        !self.trials.is_empty() && (figures.is_empty() || figures.contains_key(OF_TRIAL[0]))
    }

    /// Returns whether the cell's capacity of rounds is a lower bound.
    pub fn is_bound(&self) -> bool {
        self.capacity.as_ref().is_some_and(|capacity| capacity.exceeded)
    }

    /// Returns whether the server kept up with a load of its capacity: it answered 99 % while
    /// queries were sent, or no more of them
    /// were outstanding at the end than in the middle.
    pub fn kept_up(&self, load: &LoadPoint) -> bool {
        let of_load = |t: &&TrialRecord| t.rate_qps == load.asked_qps && !t.trial.void.is_void();
        load.answered_qps.is_none_or(|answered| answered >= 0.99 * load.offered_qps)
            || self.trials.iter().filter(of_load).all(|t| t.trial.is_sustained())
    }

    /// Returns the smallest and the largest share (0 to 1) of the server's cores that others used
    /// in the rounds of its capacity;
    /// `None` where it was less than a tenth in the middle one.
    pub fn others_used(&self) -> Option<[f64; 2]> {
        let mut shares: Vec<f64> = self.rounds.iter().filter_map(|round| round.foreign).collect();
        shares.sort_by(f64::total_cmp);
        let middle = *shares.get(shares.len() / 2)?;
        (middle >= OTHERS).then(|| [shares[0], shares[shares.len() - 1]])
    }

    /// Makes an empty cell for `server` at `settings`.
    pub fn new(server: &str, settings: BTreeMap<String, String>, method: &str) -> Self {
        let (server, method) = (server.to_owned(), method.to_owned());
        CellRecord { server, settings, method, ..CellRecord::default() }
    }

    /// Returns the unit of the cell's capacities: `qps`, or that of another searched quantity.
    pub fn capacity_unit(&self) -> &str {
        self.over.as_deref().unwrap_or("qps")
    }

    /// Names the quantity that the searches vary, by its unit, if it is not the rate.
    pub fn set_over(&mut self, unit: &str) {
        self.over = Some(unit.to_owned());
        let verdicts = self.capacities.iter_mut().map(|capacity| &mut capacity.verdict);
        for text in verdicts.chain(self.void_repeats.iter_mut().map(|void| &mut void.why)) {
            *text = text.replace(" qps", &format!(" {unit}"));
        }
    }

    /// Adds a note unless it is there already.
    pub fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Returns whether this is the cell of `server` at `settings`.
    pub fn is(&self, server: &str, settings: &BTreeMap<String, String>) -> bool {
        self.server == server && self.settings == *settings
    }

    /// Returns the number of repeats that were made, with a result or void.
    pub fn repeats_made(&self) -> u32 {
        self.repeats + self.void_repeats.len() as u32
    }

    /// Returns whether repeat `repeat` (from 0) was made and has a result. Repeats are made in their order.
    pub fn has_repeat(&self, repeat: u32) -> bool {
        repeat < self.repeats_made() && self.void_repeats.iter().all(|void| void.repeat != repeat)
    }

    /// Returns whether the cell has a capacity or a figure.
    pub fn has_figure(&self) -> bool {
        self.median_qps.is_some() || self.figures.values().any(|figure| !figure.values.is_empty())
    }

    /// Returns the rates, in queries a second and rising, at which every trial of repeat `repeat` was void.
    pub fn void_rates(&self, repeat: u32) -> Vec<f64> {
        let of = || self.trials.iter().filter(|t| t.repeat == repeat);
        let valid = |rate: f64| of().any(|t| t.rate_qps == rate && !t.trial.void.is_void());
        let mut rates: Vec<f64> = of().map(|t| t.rate_qps).filter(|rate| !valid(*rate)).collect();
        rates.sort_by(f64::total_cmp);
        rates.dedup();
        rates
    }

    /// Returns the result of each search with the number of its repeat, from 0; a void repeat has no result.
    pub fn searches(&self) -> impl Iterator<Item = (u32, &Capacity)> {
        (0..self.repeats_made()).filter(|repeat| self.has_repeat(*repeat)).zip(&self.capacities)
    }

    /// Returns the valid trials that represent the cell. For each search: the trials at the rate
    /// that it found that met the goal, or, if it found no rate, the trials at its lowest rate. For
    /// other methods: the last trial of each repeat at the highest rate.
    pub fn deciding(&self) -> Vec<&TrialRecord> {
        let valid = |repeat: u32| {
            self.trials.iter().filter(move |t| t.repeat == repeat && !t.trial.void.is_void())
        };
        if self.method == "search" {
            let of_search = |(repeat, capacity): (u32, &Capacity)| {
                let lowest = || valid(repeat).map(|t| t.rate_qps).reduce(f64::min);
                let (found, rate) = (capacity.qps.is_some(), capacity.qps.or_else(lowest));
                let stands = move |t: &&TrialRecord| {
                    Some(t.rate_qps) == rate && !(found && t.trial.passed == Some(false))
                };
                valid(repeat).filter(stands)
            };
            return self.searches().flat_map(of_search).collect();
        }
        let highest = |repeat| valid(repeat).max_by(|a, b| a.rate_qps.total_cmp(&b.rate_qps));
        let repeats = (0..self.repeats_made()).filter(|repeat| self.has_repeat(*repeat));
        repeats.filter_map(highest).collect()
    }

    /// Returns the deciding trials at one rate, since latencies at different rates cannot be
    /// merged: the found rate nearest to the median, the first of two. For other methods, and for
    /// searches that found nothing, all deciding trials.
    pub fn representative(&self) -> Vec<&TrialRecord> {
        let mut trials = self.deciding();
        let Some(median) = self.median_qps.filter(|_| self.method == "search") else {
            return trials;
        };
        let found = self.found_qps().into_iter();
        let off = |qps: &f64| (qps - median).abs();
        if let Some(nearest) = found.min_by(|a, b| off(a).total_cmp(&off(b))) {
            trials.retain(|t| t.rate_qps == nearest);
        }
        trials
    }

    /// Returns the merged distribution of `which` over the trials that represent the cell; `None` without any.
    pub fn merged(&self, which: impl Fn(&TrialRecord) -> &Times) -> Option<Histogram> {
        let mut all = Histogram::new();
        for trial in self.representative() {
            all.merge(&which(trial).histogram().ok()?);
        }
        (all.count() > 0).then_some(all)
    }

    /// Returns the kind of the testbed's links in its first trial; `None` if that is not known.
    pub fn link(&self) -> Option<Link> {
        self.trials.first()?.trial.conditions.link
    }

    /// Returns the engine that carried the queries of its first trial; `None` if that is not known.
    pub fn engine(&self) -> Option<EngineKind> {
        self.trials.first()?.trial.conditions.engine
    }

    /// Returns the path of datagrams in the cell's first trial; `None` if unknown.
    pub fn path(&self) -> Option<Path> {
        self.trials.first()?.trial.conditions.path
    }

    /// Returns the capacity of each search that has one, in queries a second.
    pub fn found_qps(&self) -> Vec<f64> {
        self.capacities.iter().filter_map(|c| c.qps).collect()
    }
}

/// Result of one search: the capacity, or the reason why there is none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Capacity {
    /// Highest passing rate, in queries a second; absent if none passed.
    pub qps: Option<f64>,
    /// Lowest failing rate above it, in queries a second; absent if none failed.
    pub failed_qps: Option<f64>,
    /// Whether the capacity is a lower bound.
    pub at_least: bool,
    /// Limiter of the capacity.
    pub limiter: Limiter,
    /// Verdict on the search, in words.
    pub verdict: String,
    /// Results for each goal of a search for several goals; the first is the goal of `qps`.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub also: Vec<GoalCapacity>,
}

/// Result of MLRsearch for one goal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GoalCapacity {
    /// Goal of these rates.
    pub goal: String,
    /// Highest rate that meets the goal, below one that does not, in queries a second.
    pub qps: Option<f64>,
    /// Lowest rate that does not meet the goal, in queries a second.
    pub failed_qps: Option<f64>,
    /// Rate of valid answers at `qps` (conditional throughput), a second.
    pub conditional_qps: Option<f64>,
}
