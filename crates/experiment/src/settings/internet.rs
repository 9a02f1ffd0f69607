//! The Internet in a box behind resolvers that start at its root.

use std::path::PathBuf;

use measure::Nanos;
use serde::Deserialize;

use super::values::texts;

/// Settings of an Internet in a box, whose names are queried.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct InternetSettings {
    /// A capture whose names the Internet in a box uses, in place of generated ones.
    pub capture: Option<PathBuf>,
    /// Number of top-level domains below the root.
    pub tlds: u32,
    /// Number of domains in each of them.
    pub domains: u32,
    /// Number of names in each domain.
    pub hosts: u32,
    /// Number of queries for these names: the longest trial.
    pub queries: u64,
    /// Share (0 to 1) of the queries that repeat an earlier one, which a cache can answer.
    pub hit_rate: f64,
    /// Share (0 to 1) of the names that do not exist.
    pub missing: f64,
    /// Share (0 to 1) of domains without glue.
    pub glueless: f64,
    /// Share (0 to 1) of domains with a wildcard.
    pub wildcards: f64,
    /// Share (0 to 1) of domains that are signed; above 0 resolvers validate from the root.
    pub signed: f64,
    /// Number of servers of domains.
    pub servers: u32,
    /// Delays of replies over UDP, in nanoseconds; each server has one of them.
    #[serde(deserialize_with = "texts")]
    pub delays: Vec<Nanos>,
    /// Share (0 to 1) of replies over UDP that are lost.
    pub loss: f64,
    /// Share (0 to 1) of replies over UDP that are truncated, so that the resolver repeats the
    /// query over TCP.
    pub truncated: f64,
}

impl Default for InternetSettings {
    /// Returns 100,000 names in 2,000 domains, none of them signed, without delays.
    fn default() -> Self {
        InternetSettings {
            capture: None,
            tlds: 20,
            domains: 100,
            hosts: 50,
            queries: 100_000,
            hit_rate: 0.5,
            missing: 0.1,
            glueless: 0.3,
            wildcards: 0.05,
            signed: 0.0,
            servers: 500,
            delays: Vec::new(),
            loss: 0.0,
            truncated: 0.0,
        }
    }
}
