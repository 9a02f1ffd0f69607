//! Searches and runs: what a capacity is made of.

use std::collections::BTreeMap;

use measure::Limiter;
use serde::{Deserialize, Serialize};

use crate::trial::{Trial, limiter_word};

/// What `dnsdyno search` and `dnsdyno run` measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Version of the JSON.
    pub schema: u32,
    /// The experiment's name, or `search`.
    pub experiment: String,
    /// The version of dnsdyno.
    pub version: String,
    /// The command line.
    pub command: String,
    /// When it began, seconds since 1970.
    pub started_unix_s: f64,
    /// How long it took, seconds.
    pub elapsed_s: f64,
    /// Whether everything planned was done.
    pub complete: bool,
    /// What was not done, and why.
    pub skipped: Vec<Skipped>,
    /// What the testbed was, in words: namespaces, cores, packet steering.
    pub testbed: BTreeMap<String, String>,
    /// One for each server and setting.
    pub results: Vec<SearchRecord>,
}

/// A server that was not measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Which.
    pub server: String,
    /// Why.
    pub why: String,
}

/// The capacity of one server at one setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchRecord {
    /// The server's name, or the target's address.
    pub server: String,
    /// The server's version, where it is known.
    pub server_version: Option<String>,
    /// What was varied.
    pub settings: BTreeMap<String, String>,
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
    /// The goal of the search.
    pub goal: String,
    /// The Tester's self-test.
    pub certificate: Option<Certificate>,
    /// What each search found.
    pub capacities: Vec<Capacity>,
    /// Every trial of every search, in order.
    pub trials: Vec<TrialRecord>,
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
