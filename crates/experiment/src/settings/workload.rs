//! The queries of an experiment: their names, and how many a trial needs.

use measure::Qps;
use measure::pacing::EXPERIMENT;
use serde::Deserialize;

use super::{LoadSettings, Method, Settings};
use crate::names::most_names;

/// Queries of the trials.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Workload {
    /// Block of IPv4 addresses whose names are queried; [`AUTO`] for the zone of an authoritative server that has a name for
    /// each query of a trial, or as many as the memory permits.
    pub namespace: String,
    /// Whether the numbers in the names have no leading zeros, as those of dns64perf and dns64perf2.
    pub unpadded: bool,
    /// Type of the queries.
    #[serde(rename = "type")]
    pub qtype: String,
    /// Prefix of synthesised addresses.
    pub pref64: String,
    /// Share (0 to 1) of names that have AAAA records of their own.
    pub aaaa_share: f64,
    /// Share (0 to 1) of queries that repeat a name, which a cache can answer.
    pub repeat_share: f64,
    /// Number of names that these repeats are taken from, evenly.
    pub repeat_names: u64,
}

impl Default for Workload {
    /// Returns RFC 8219's worst case, over a network-specific prefix: some of the names' addresses are not global,
    /// and a correct server does not embed those under the well-known prefix (RFC 6052 section 3.1).
    fn default() -> Self {
        Workload {
            namespace: "0.0.0.0/2".into(),
            unpadded: false,
            qtype: "AAAA".into(),
            pref64: "2001:db8:64::/96".into(),
            aaaa_share: 0.0,
            repeat_share: 0.0,
            repeat_names: 1_000,
        }
    }
}

/// The namespace that the lab chooses.
pub const AUTO: &str = "auto";
/// Number of names for each second of a closed loop: more than a server behind one link answers.
pub(crate) const CLOSED_NAMES_PER_S: f64 = 500_000.0;

impl Settings {
    /// Returns the number of names that the longest trial can use, if each query is for another one.
    pub fn names_of_a_trial(&self) -> u64 {
        let most = |rate: Qps, duration| most_names(self.tester.pacing.at(rate), duration);
        let experiments = |count: u32| u64::from(count) * u64::from(EXPERIMENT);
        match self.method {
            Method::Search => self.search.as_ref().map_or(0, |s| most(s.max, s.duration)),
            Method::Load => {
                let of = |load: &LoadSettings| {
                    load.rates.iter().map(|rate| most(*rate, load.duration)).max().unwrap_or(0)
                };
                self.load.as_ref().map_or(0, of)
            }
            Method::Closed | Method::ZoneLoad => {
                (CLOSED_NAMES_PER_S * self.closed.duration.as_secs_f64()) as u64
            }
            Method::Lockstep => experiments(self.lockstep.experiments),
            Method::Generators => experiments(self.generators.experiments),
            Method::UpdateRate | Method::QueryUnderUpdate | Method::SignedUnsigned => 0,
        }
    }
}
