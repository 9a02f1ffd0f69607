//! Runs and their cells: what a capacity is made of.

use std::collections::BTreeMap;

use measure::Limiter;
use serde::{Deserialize, Serialize};

use crate::plan::{Plan, Seam};
use crate::series::{Figure, Series};
use crate::trial::{Trial, limiter_word};

/// What `dnsdyno search` and `dnsdyno run` measured: a plan, and what became of each of its cells.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Version of the JSON.
    pub schema: u32,
    /// Its number in the store it was kept in; absent when it was not stored.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub id: Option<i64>,
    /// What was to be done, by whom, where.
    #[serde(flatten)]
    pub plan: Plan,
    /// How long it took, seconds, less its interruptions.
    pub elapsed_s: f64,
    /// Whether everything planned was done.
    pub complete: bool,
    /// What was not done, and why.
    pub skipped: Vec<Skipped>,
    /// Interruptions, where it was taken up again.
    #[serde(default)]
    pub seams: Vec<Seam>,
    /// One for each server and setting.
    pub results: Vec<CellRecord>,
}

/// A server that was not measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Which.
    pub server: String,
    /// At which settings; empty when it is all of them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub settings: BTreeMap<String, String>,
    /// Why.
    pub why: String,
}

/// A cell of the experiment's matrix: one server at one setting. A search fills the figures of a
/// capacity; other methods leave them empty and put what they found into `figures`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CellRecord {
    /// The server's name, or the target's address.
    pub server: String,
    /// The server's version, where it is known.
    pub server_version: Option<String>,
    /// What was varied; with the server it says which cell this is, no two are equal in a run.
    pub settings: BTreeMap<String, String>,
    /// How it was measured: `search`, `lockstep`, `load`, ...
    #[serde(default = "search_word")]
    pub method: String,
    /// Median of the repeats' capacities, queries per second; absent when no repeat has one.
    pub median_qps: Option<f64>,
    /// Their 1st percentile.
    pub p01_qps: Option<f64>,
    /// Their 99th percentile.
    pub p99_qps: Option<f64>,
    /// Whether the figures are lower bounds of the server's capacity.
    pub at_least: bool,
    /// How many searches there were.
    pub repeats: u32,
    /// Whether all was done as RFC 8219 section 9.2 wants it.
    pub conforming: bool,
    /// What was not.
    pub differs: Vec<String>,
    /// What bounded the capacity.
    #[serde(with = "limiter_word")]
    pub limiter: Limiter,
    /// The goal of the search; empty without one.
    pub goal: String,
    /// The Tester's self-test.
    pub certificate: Option<Certificate>,
    /// What each search found.
    pub capacities: Vec<Capacity>,
    /// Every trial, in order.
    pub trials: Vec<TrialRecord>,
    /// What else was measured, by name, such as `zone_load` or `experiment_time`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub figures: BTreeMap<String, Figure>,
    /// The servers that follow a primary, in an experiment about updates; the first is the one asked.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub secondaries: Vec<Secondary>,
    /// What was sampled beside the trials, as while a server loads its zone.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub series: Vec<Series>,
    /// Configuration files as used, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub files: BTreeMap<String, String>,
}

/// A server that follows a primary.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Secondary {
    /// Its name.
    pub server: String,
    /// Its version, where it is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub server_version: Option<String>,
    /// The address that it answers at and fetches its zone from.
    pub address: String,
    /// The transfers it got by kind (`axfr`, `ixfr`, `ixfr_in_full`, `ixfr_without_news`, `transfers_refused`), the
    /// octets of each (`axfr_octets`, ...), and how far it was behind (`lag_p50`, `lag_p99`, `lag_watched`,
    /// `lag_unseen`).
    pub figures: BTreeMap<String, Figure>,
}

/// The method of records that name none.
fn search_word() -> String {
    "search".to_owned()
}

impl CellRecord {
    /// An empty cell for `server` at `settings`.
    pub fn new(server: &str, settings: BTreeMap<String, String>, method: &str) -> Self {
        let (server, method) = (server.to_owned(), method.to_owned());
        CellRecord { server, settings, method, ..CellRecord::default() }
    }

    /// Whether this is the cell of `server` at `settings`.
    pub fn is(&self, server: &str, settings: &BTreeMap<String, String>) -> bool {
        self.server == server && self.settings == *settings
    }

    /// The capacities found, one for each search that has one, queries per second.
    pub fn found_qps(&self) -> Vec<f64> {
        self.capacities.iter().filter_map(|c| c.qps).collect()
    }
}

/// What one search found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Capacity {
    /// The highest passing rate; absent when none passed.
    pub qps: Option<f64>,
    /// The lowest failing rate above it; absent when none failed.
    pub failed_qps: Option<f64>,
    /// Whether it is a lower bound.
    pub at_least: bool,
    /// What bounded it.
    #[serde(with = "limiter_word")]
    pub limiter: Limiter,
    /// The verdict in words.
    pub verdict: String,
    /// What a search for several goals found for each; the first is the goal of `qps`.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub also: Vec<GoalCapacity>,
}

/// What MLRsearch found for one goal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GoalCapacity {
    /// The goal.
    pub goal: String,
    /// The highest rate that meets it below one that does not, in queries a second.
    pub qps: Option<f64>,
    /// The lowest rate that does not meet it, in queries a second.
    pub failed_qps: Option<f64>,
    /// The rate of valid answers that `qps` stands for (conditional throughput), a second.
    pub conditional_qps: Option<f64>,
}

/// A trial of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialRecord {
    /// Which search, from 0.
    pub repeat: u32,
    /// The rate asked for.
    pub rate_qps: f64,
    /// What it measured.
    #[serde(flatten)]
    pub trial: Trial,
}

/// The Tester's self-test: a Tester certified for a rate may judge servers up to it (RFC 8219 section 9.2).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Certificate {
    /// The rate that servers may be judged up to; zero when no self-test passed.
    pub certified_qps: f64,
    /// The rate of the self-test: 2.2 times that.
    pub self_test_qps: f64,
    /// Its timeout, seconds: a quarter of the servers'.
    pub timeout_s: f64,
    /// Its duration, seconds.
    pub duration_s: f64,
    /// Whether it passed.
    pub passed: bool,
    /// Its trials, the last one deciding.
    pub trials: Vec<TrialRecord>,
}

/// What `dnsdyno selftest` measured: the names of a trial at the top, and the certificate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SelfTest {
    /// What was measured.
    #[serde(flatten)]
    pub trial: Trial,
    /// Whether the self-test passed.
    pub self_test_passed: bool,
    /// The rate that servers may be judged up to.
    pub certified_qps: f64,
}

impl From<&Certificate> for SelfTest {
    /// Of the last trial.
    ///
    /// # Panics
    /// When the certificate has no trial.
    fn from(certificate: &Certificate) -> Self {
        let last = certificate.trials.last().expect("a self-test has a trial");
        SelfTest {
            trial: last.trial.clone(),
            self_test_passed: certificate.passed,
            certified_qps: certificate.certified_qps,
        }
    }
}
