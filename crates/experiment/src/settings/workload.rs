//! The queries of an experiment: their names, and the number of names for a trial.

use std::path::PathBuf;

use measure::Qps;
use measure::pacing::EXPERIMENT;
use serde::Deserialize;

use super::{InternetSettings, LoadSettings, Method, Settings, ZoneSlice, some_text};
use crate::names::{ClientNames, most_names};

/// Queries of the trials, and the zone that they are for.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Workload {
    /// Block of IPv4 addresses whose names are queried; [`AUTO`] for the zone of an authoritative server that has a name for
    /// each query of a trial, or as many as the memory permits.
    pub namespace: String,
    /// Whether the numbers in the names have no leading zeros, as in dns64perf and dns64perf2.
    pub unpadded: bool,
    /// Type of the queries, such as `AAAA`.
    #[serde(rename = "type")]
    pub qtype: String,
    /// Prefix of the addresses that DNS64 servers synthesise (RFC 6052), a /96.
    pub pref64: String,
    /// Share (0 to 1) of names that have AAAA records of their own.
    pub aaaa_share: f64,
    /// Share (0 to 1) of queries that repeat a name, which a cache can answer.
    pub repeat_share: f64,
    /// Number of names from which repeats are chosen: evenly, or by Zipf's law for clients of the
    /// method `clients`.
    pub repeat_names: u64,
    /// Query file in place of the namespace's names. As all paths here, a relative one begins at the experiment's folder.
    pub queries: Option<PathBuf>,
    /// Capture whose queries are sent in place of the namespace's names.
    pub replay: Option<PathBuf>,
    /// Zone file in place of the namespace's zone; if there is no stream of queries, one is generated for its names.
    pub zone_file: Option<PathBuf>,
    /// Number of hosts of a generated zone in place of the namespace's, with generated queries.
    pub hosts: Option<u64>,
    /// Number of delegations of a generated zone like a top-level domain, in place of the
    /// namespace's zone, with generated queries.
    pub delegations: Option<u64>,
    /// Number of names of a generated zone with names of every kind that a DNS64 server treats
    /// specially, in place of the namespace's, with a query for each.
    pub mixed: Option<u64>,
    /// Internet in a box in place of the namespace, with generated queries; its resolvers start at the root.
    pub internet: Option<InternetSettings>,
    /// Part of the zone, with the queries for its names.
    #[serde(deserialize_with = "some_text")]
    pub slice: Option<ZoneSlice>,
    /// Server that has the zone behind a resolver or a DNS64 server, by the name of its adapter.
    pub authority: String,
    /// Mean rate of a client of the method `clients`, in queries a second, if there is no `replay` with clients.
    pub client_rate: f64,
}

impl Workload {
    /// Returns whether there is a zone in place of the namespace's.
    pub fn has_zone(&self) -> bool {
        self.zone_file.is_some() || self.made_zones() > 0
    }

    /// Returns the number of zone settings; at most one is allowed.
    pub(crate) fn made_zones(&self) -> usize {
        [self.hosts, self.delegations, self.mixed].iter().flatten().count()
    }

    /// Returns whether the queries are a stream of a file, a capture or a zone, not the namespace's names.
    pub fn is_stream(&self) -> bool {
        let has_file = self.queries.is_some() || self.replay.is_some();
        has_file || self.has_zone() || self.internet.is_some()
    }
}

impl Default for Workload {
    /// Returns RFC 8219's worst case, over a network-specific prefix: some of the names' addresses
    /// are not global, and a correct server does not embed them under the well-known prefix (RFC
    /// 6052 section 3.1).
    fn default() -> Self {
        Workload {
            namespace: "0.0.0.0/2".into(),
            unpadded: false,
            qtype: "AAAA".into(),
            pref64: "2001:db8:64::/96".into(),
            aaaa_share: 0.0,
            repeat_share: 0.0,
            repeat_names: 1_000,
            queries: None,
            replay: None,
            zone_file: None,
            hosts: None,
            delegations: None,
            mixed: None,
            internet: None,
            slice: None,
            authority: "nsd".into(),
            client_rate: 1.0,
        }
    }
}

/// The namespace that the lab chooses.
pub const AUTO: &str = "auto";
/// Number of names for each second of a closed loop against a server of unknown speed.
const CLOSED_NAMES_PER_S: f64 = 500_000.0;
/// Factor by which a closed loop may use more names than the previous loop had answers: doubling
/// the window hardly more than doubles the answers.
const MORE_NAMES: f64 = 4.0;

/// Returns the number of names for each second of a closed loop of a server that answered `seen` queries a second before.
pub(crate) fn closed_names_per_s(seen: f64) -> f64 {
    CLOSED_NAMES_PER_S.max(MORE_NAMES * seen)
}

impl Settings {
    /// Returns the names that clients query; `None` for other methods than `clients`.
    pub fn client_names(&self) -> Option<ClientNames> {
        let w = &self.workload;
        let new_per_s = w.client_rate * (1.0 - w.repeat_share);
        let popular = if w.repeat_share > 0.0 { w.repeat_names } else { 0 };
        (self.method == Method::Clients).then_some(ClientNames { popular, new_per_s })
    }

    /// Returns the number of names that the longest trial can use: one for each query, or as many
    /// as its clients query.
    pub fn names_of_a_trial(&self) -> u64 {
        let most = |rate: Qps, duration| most_names(self.tester.pacing.at(rate), duration);
        let experiments = |count: u32| u64::from(count) * u64::from(EXPERIMENT);
        match self.method {
            Method::Search => self.search.as_ref().map_or(0, |s| most(s.max, s.duration)),
            Method::Clients => match (&self.search, self.client_names()) {
                (Some(s), Some(names)) => names.count(s.max.get(), s.duration),
                _ => 0,
            },
            Method::Load => {
                let of = |load: &LoadSettings| {
                    load.rates.iter().map(|rate| most(*rate, load.duration)).max().unwrap_or(0)
                };
                self.load.as_ref().map_or(0, of)
            }
            Method::Capacity => (CLOSED_NAMES_PER_S * self.capacity.duration.as_secs_f64()) as u64,
            Method::Drill => self.drill.as_ref().map_or(0, |d| most(d.queries, d.duration())),
            Method::Closed | Method::ZoneLoad => {
                (CLOSED_NAMES_PER_S * self.closed.duration.as_secs_f64()) as u64
            }
            Method::Lockstep => experiments(self.lockstep.experiments),
            Method::Generators => self.generators.names(),
            Method::UpdateRate
            | Method::QueryUnderUpdate
            | Method::SignedUnsigned
            | Method::Answers => 0,
        }
    }
}
