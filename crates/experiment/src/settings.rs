//! What an experiment file may say, table by table. Unknown keys are refused.
//!
//! One value of this stands for one point of the matrix: what is varied is put in its place before
//! the file is understood, so that every key can be varied and none needs code for it.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use measure::{Goal, Link, Nanos, OpenPacing, Path, Qps, Transport, UpdateRate};
use record::Certificate;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

use crate::custom::Custom;
use crate::search::{Rule, Search};

/// An experiment at one point of its matrix.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Its name.
    pub name: String,
    /// One line on what it is.
    pub title: String,
    /// The servers, by the names of their adapters.
    pub servers: Vec<String>,
    /// What the servers are.
    pub role: Role,
    /// How they are measured.
    #[serde(default)]
    pub method: Method,
    /// How often each cell is measured.
    #[serde(default = "default_repeats")]
    pub repeats: u32,
    /// In which order.
    #[serde(default)]
    pub order: Order,
    /// No repeat is begun after this time.
    #[serde(default, deserialize_with = "some_text")]
    pub budget: Option<Nanos>,
    /// So long a server is loaded after each start before anything is measured.
    #[serde(default, deserialize_with = "text")]
    pub warm_up: Nanos,
    /// What is asked.
    #[serde(default)]
    pub workload: Workload,
    /// Of the method `search`.
    pub search: Option<SearchSettings>,
    /// Of the method `lockstep`.
    #[serde(default)]
    pub lockstep: LockStepSettings,
    /// Of the method `load`.
    pub load: Option<LoadSettings>,
    /// Of the method `closed`, of the rate of `zone-load`, and of queries beside updates.
    #[serde(default)]
    pub closed: ClosedSettings,
    /// Of the method `zone-load`.
    #[serde(default)]
    pub zone_load: ZoneLoadSettings,
    /// Of the method `generators`.
    #[serde(default)]
    pub generators: GeneratorSettings,
    /// Of the methods about updates: `update-rate`, `query-under-update`, `signed-unsigned`.
    #[serde(default)]
    pub replication: ReplicationSettings,
    /// The server under test.
    #[serde(default)]
    pub dut: DutSettings,
    /// The Measurer.
    #[serde(default)]
    pub tester: TesterSettings,
    /// The machine.
    #[serde(default)]
    pub host: HostSettings,
    /// Which cores are whose.
    #[serde(default)]
    pub cpus: CpuPlan,
    /// Servers of the user's own, by name.
    #[serde(default)]
    pub custom: BTreeMap<String, Custom>,
    /// Variables for the templates of the servers' adapters.
    #[serde(default)]
    pub variables: BTreeMap<String, Scalar>,
}

/// What a server under test is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// A DNS64 server that asks our AuthDNS.
    Dns64,
    /// A resolver that asks our AuthDNS.
    Resolver,
    /// An authoritative server of a generated namespace zone.
    Authoritative,
}

/// How cells are measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// The highest rate that meets a goal, by bracketing and bisection.
    #[default]
    Search,
    /// dns64perf's lanes: each asks its next query when the last one was answered.
    Lockstep,
    /// Open loop at given rates.
    Load,
    /// So many queries outstanding, as dnsperf does it.
    Closed,
    /// How long a server takes to load its zone, what memory it takes, and how fast it is then.
    ZoneLoad,
    /// Experiments of 256 queries by different generators.
    Generators,
    /// Updates into a primary as fast as it commits them, and whether they survive SIGKILL.
    UpdateRate,
    /// Queries to a secondary whose primary is updated.
    QueryUnderUpdate,
    /// Queries for a zone that is signed or not, and the octets of their replies.
    SignedUnsigned,
}

impl Method {
    /// Its word in files and records.
    pub fn word(self) -> &'static str {
        match self {
            Method::Search => "search",
            Method::Lockstep => "lockstep",
            Method::Load => "load",
            Method::Closed => "closed",
            Method::ZoneLoad => "zone-load",
            Method::Generators => "generators",
            Method::UpdateRate => "update-rate",
            Method::QueryUnderUpdate => "query-under-update",
            Method::SignedUnsigned => "signed-unsigned",
        }
    }
}

impl Method {
    /// Whether it is about a zone of delegations, its primary and its secondaries (`[replication]`).
    pub fn replicates(self) -> bool {
        matches!(self, Method::UpdateRate | Method::QueryUnderUpdate | Method::SignedUnsigned)
    }
}

/// In which order cells are measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Repeat by repeat, the cells of each shuffled, every second repeat backwards (A B B A): drift hits all alike.
    #[default]
    Interleaved,
    /// Cell by cell, as the file has them.
    Grouped,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Workload {
    /// The block of addresses whose names are asked.
    pub namespace: String,
    /// The type.
    #[serde(rename = "type")]
    pub qtype: String,
    /// The prefix of synthesised addresses.
    pub pref64: String,
    /// The share (0 to 1) of names that have AAAA records of their own.
    pub aaaa_share: f64,
    /// The share (0 to 1) of queries for names that were asked before, which a cache can answer.
    pub repeat_share: f64,
    /// From so many names they are taken, evenly.
    pub repeat_names: u64,
}

impl Default for Workload {
    /// RFC 8219's worst case, over a network-specific prefix: the names' addresses are not all global, and
    /// a right server does not embed the others under the well-known one (RFC 6052 section 3.1).
    fn default() -> Self {
        Workload {
            namespace: "0.0.0.0/2".into(),
            qtype: "AAAA".into(),
            pref64: "2001:db8:64::/96".into(),
            aaaa_share: 0.0,
            repeat_share: 0.0,
            repeat_names: 1_000,
        }
    }
}

/// How the capacity is sought.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SearchSettings {
    /// How it decides: `rfc8219`, `mlrsearch` or `clean-windows`.
    #[serde(deserialize_with = "text", default)]
    pub rule: Rule,
    /// The goal.
    #[serde(deserialize_with = "text")]
    pub goal: Goal,
    /// Further goals, of the rule `mlrsearch`.
    #[serde(deserialize_with = "texts", default)]
    pub also: Vec<Goal>,
    /// Sum of the trials that decide a rate, of the rule `mlrsearch`; five trials where it is absent.
    #[serde(deserialize_with = "some_text", default)]
    pub duration_sum: Option<Nanos>,
    /// The first rate.
    #[serde(deserialize_with = "text")]
    pub start: Qps,
    /// The lowest rate.
    #[serde(deserialize_with = "text", default = "default_min")]
    pub min: Qps,
    /// The highest rate, which the Tester is to be certified for.
    #[serde(deserialize_with = "text")]
    pub max: Qps,
    /// The width of the bracket at the end, as a share of the rate.
    pub resolution: f64,
    /// Of a trial.
    #[serde(deserialize_with = "text")]
    pub duration: Nanos,
    /// Of a query.
    #[serde(deserialize_with = "text", default = "one_second")]
    pub timeout: Nanos,
    /// Whether the Tester is tested first (RFC 8219 section 9.2).
    #[serde(default = "yes")]
    pub self_test: bool,
}

/// dns64perf's experiments.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct LockStepSettings {
    /// Threads of dns64perf: a power of two, at most 256.
    pub lanes: u32,
    /// Experiments of 256 queries in each repeat.
    pub experiments: u32,
    /// Of a query.
    #[serde(deserialize_with = "text")]
    pub timeout: Nanos,
}

impl Default for LockStepSettings {
    fn default() -> Self {
        LockStepSettings { lanes: 1, experiments: 256, timeout: one_second() }
    }
}

/// Open loop at given rates.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LoadSettings {
    /// The rates, one trial at each in a repeat.
    #[serde(deserialize_with = "texts")]
    pub rates: Vec<Qps>,
    /// Of a trial.
    #[serde(deserialize_with = "text")]
    pub duration: Nanos,
    /// Of a query.
    #[serde(deserialize_with = "text", default = "one_second")]
    pub timeout: Nanos,
}

/// Closed loop.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct ClosedSettings {
    /// Queries outstanding.
    pub window: u32,
    /// Of a trial.
    #[serde(deserialize_with = "text")]
    pub duration: Nanos,
    /// Of a query.
    #[serde(deserialize_with = "text")]
    pub timeout: Nanos,
}

impl Default for ClosedSettings {
    fn default() -> Self {
        ClosedSettings { window: 256, duration: Nanos::from_secs(5), timeout: one_second() }
    }
}

/// Zone loading.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct ZoneLoadSettings {
    /// Whether the server is loaded afterwards, as `[closed]` says.
    pub rate: bool,
    /// So many times it is started again, over the state that the first start left behind.
    pub later: u32,
}

impl Default for ZoneLoadSettings {
    fn default() -> Self {
        ZoneLoadSettings { rate: true, later: 1 }
    }
}

/// The comparison of generators.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct GeneratorSettings {
    /// Which.
    pub generator: Generator,
    /// Experiments of 256 queries in each repeat.
    pub experiments: u32,
}

impl Default for GeneratorSettings {
    fn default() -> Self {
        GeneratorSettings { generator: Generator::Lockstep1, experiments: 256 }
    }
}

/// A primary, the servers that follow it, and the zone they have.
///
/// The servers of the experiment are those that are measured. With `primary` they follow that one; without it each
/// has the zone from its file, and takes the updates itself where the method sends any.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct ReplicationSettings {
    /// The server that takes the updates, by the name of its adapter.
    pub primary: Option<String>,
    /// Further servers that follow it beside the one that is measured, which is left out here.
    pub secondaries: Vec<String>,
    /// Delegations of the zone.
    pub delegations: u64,
    /// Whether the zone is signed: by its primary, or once for all servers where nothing is updated.
    pub signed: bool,
    /// How fast updates are sent while queries are.
    #[serde(deserialize_with = "scalar_text")]
    pub update_rate: UpdateRate,
    /// Updates of the method `update-rate`.
    pub updates: u64,
    /// Acknowledged updates after which the method `update-rate` kills the primary.
    pub killed_after: u64,
}

impl Default for ReplicationSettings {
    fn default() -> Self {
        ReplicationSettings {
            primary: None,
            secondaries: Vec::new(),
            delegations: 1_000_000,
            signed: false,
            update_rate: UpdateRate::None,
            updates: 10_000,
            killed_after: 1_000,
        }
    }
}

/// What sends the 256 queries of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Generator {
    /// A shell script that starts 256 `host` processes, four at a time (seed 002's baseline).
    #[serde(rename = "script")]
    Script,
    /// dns64perf with one thread, as ours does it.
    #[serde(rename = "lockstep-1")]
    Lockstep1,
    /// dns64perf with four threads, as ours does it.
    #[serde(rename = "lockstep-4")]
    Lockstep4,
    /// dnsperf in its usual way: 100 queries outstanding.
    #[serde(rename = "dnsperf")]
    Dnsperf,
    /// Our closed loop with 100 queries outstanding.
    #[serde(rename = "window")]
    Window,
}

impl Generator {
    /// Its word in files and records.
    pub fn word(self) -> &'static str {
        match self {
            Generator::Script => "script",
            Generator::Lockstep1 => "lockstep-1",
            Generator::Lockstep4 => "lockstep-4",
            Generator::Dnsperf => "dnsperf",
            Generator::Window => "window",
        }
    }
}

/// The server under test.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct DutSettings {
    /// So many cores, beside those of the Tester; `[cpus]` where it is absent.
    pub cores: Option<usize>,
    /// So many threads or processes; one for each core where it is absent.
    pub threads: Option<usize>,
    /// So much CPU time it gets at most, in cores: 0.5 is half a core. A handicap, to try a comparison on.
    pub cpu_limit: Option<f64>,
}

/// The Measurer.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct TesterSettings {
    /// Source ports; as many as the rate needs where it is absent.
    pub ports: Option<u16>,
    /// How an open loop spaces its queries.
    pub pacing: OpenPacing,
    /// Whether queries that leave together are one segmented message.
    pub gso: bool,
    /// Whether replies are received coalesced.
    pub gro: bool,
    /// How queries travel.
    #[serde(deserialize_with = "text")]
    pub transport: Transport,
    /// Queries on a connection before it is closed; without an end where it is absent.
    pub queries_per_connection: Option<u32>,
    /// Connections of a stream transport at a time; source ports of UDP.
    pub clients: Option<u32>,
    /// Queries outstanding on a connection; the window's share where it is absent.
    pub outstanding: Option<u32>,
    /// Whether TLS sessions are resumed.
    pub resume: bool,
    /// Whether queries travel with the handshake of a resumed session (0-RTT).
    pub early_data: bool,
}

impl Default for TesterSettings {
    fn default() -> Self {
        TesterSettings {
            ports: None,
            pacing: OpenPacing::Constant,
            gso: true,
            gro: true,
            transport: Transport::Udp,
            queries_per_connection: None,
            clients: None,
            outstanding: None,
            resume: false,
            early_data: false,
        }
    }
}

/// The machine; what it does not let itself be told, is skipped with the reason.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct HostSettings {
    /// Frequency governor of all cores; `unchanged` leaves it as it is.
    pub governor: String,
    /// The kind of the testbed's links: `plain`, `moderated` or `steered`.
    #[serde(deserialize_with = "text")]
    pub link: Link,
    /// What a datagram is on them: a packet (`wire`), or part of a message that crosses whole (`host-offload`).
    #[serde(deserialize_with = "text")]
    pub path: Path,
    /// Whether the links receive in threads of their own.
    pub threaded_napi: bool,
    /// Settings of the hosts' network namespaces, by their path below /proc/sys, dots for slashes.
    pub sysctl: BTreeMap<String, Scalar>,
}

impl Default for HostSettings {
    fn default() -> Self {
        HostSettings {
            governor: "unchanged".into(),
            link: Link::default(),
            path: Path::default(),
            threaded_napi: false,
            sysctl: BTreeMap::new(),
        }
    }
}

/// Which cores are whose.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct CpuPlan {
    /// The Measurer's.
    pub tester: Vec<usize>,
    /// The AuthDNS's.
    pub auth: Vec<usize>,
    /// The server's.
    pub dut: Vec<usize>,
}

impl Default for CpuPlan {
    /// For two cores: the Tester, both of its parts, on core 0, the server on core 1.
    fn default() -> Self {
        CpuPlan { tester: vec![0], auth: vec![0], dut: vec![1] }
    }
}

/// A plain value: text, number or truth, kept as its text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scalar(pub String);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a text, a number, true or false")]
        enum Any {
            Text(String),
            Whole(i64),
            Number(f64),
            Truth(bool),
        }
        Ok(Scalar(match Any::deserialize(deserializer)? {
            Any::Text(text) => text,
            Any::Whole(n) => n.to_string(),
            Any::Number(x) => x.to_string(),
            Any::Truth(b) => b.to_string(),
        }))
    }
}

impl Settings {
    /// The search of one repeat; `None` where the file has no `[search]`.
    pub fn search(&self) -> Option<Search> {
        self.search.as_ref().map(|s| Search {
            rule: s.rule,
            goal: s.goal.clone(),
            also: s.also.clone(),
            duration_sum: s.duration_sum.unwrap_or(Nanos(s.duration.0.saturating_mul(5))),
            start: s.start,
            min: s.min,
            max: s.max,
            resolution: s.resolution,
            duration: s.duration,
            timeout: s.timeout,
            void_retries: 2,
            pacing: self.tester.pacing,
        })
    }

    /// These settings with a search that goes no higher than the Tester is certified for.
    pub fn within(&self, certificate: Option<&Certificate>) -> Settings {
        let mut settings = self.clone();
        let certified =
            certificate.and_then(|c| Qps::new(c.certified_qps)).filter(|q| q.get() > 0.0);
        if let (Some(search), Some(certified)) = (&mut settings.search, certified)
            && certified.get() < search.max.get()
        {
            search.max = certified;
            search.min = if search.min.get() > certified.get() { certified } else { search.min };
            search.start =
                if search.start.get() > certified.get() { certified } else { search.start };
        }
        settings
    }
}

/// Rates below this are hardly a DNS server's.
fn default_min() -> Qps {
    Qps::new(1_000.0).expect("a rate")
}

/// Enough to tell a scatter.
fn default_repeats() -> u32 {
    5
}

/// RFC 8219's timeout.
fn one_second() -> Nanos {
    Nanos::from_secs(1)
}

fn yes() -> bool {
    true
}

/// A value written as text, such as `"5s"`.
pub(crate) fn text<'de, D: Deserializer<'de>, T: FromStr<Err: fmt::Display>>(
    deserializer: D,
) -> Result<T, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}

/// The same of a value that may also be written as a number, such as `8`.
fn scalar_text<'de, D: Deserializer<'de>, T: FromStr<Err: fmt::Display>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Scalar::deserialize(deserializer)?.0.parse().map_err(D::Error::custom)
}

/// The same, when it is there.
fn some_text<'de, D: Deserializer<'de>, T: FromStr<Err: fmt::Display>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    text(deserializer).map(Some)
}

/// A list of such values.
fn texts<'de, D: Deserializer<'de>, T: FromStr<Err: fmt::Display>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    texts.iter().map(|text| text.parse().map_err(D::Error::custom)).collect()
}
