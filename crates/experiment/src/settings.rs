//! Settings of an experiment file, table by table. Unknown keys are refused.
//!
//! One value of [`Settings`] describes one point of the matrix: varied values are merged before the file is parsed,
//! so that every key can be varied without code of its own.

mod answers;
mod cpus;
mod drill;
mod internet;
mod method;
mod slice;
mod tester;
mod values;
mod workload;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use measure::{Goal, Link, Nanos, OpenPacing, Path, Qps, TlsVersion, Transport, UpdateRate};
use record::EngineChoice;
use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};

use crate::custom::Custom;
pub use crate::generator::{Generator, GeneratorSettings};
use crate::known::Known;
use crate::search::{Rule, RuleError, RuleName, Search};
pub use answers::AnswersSettings;
pub use cpus::CpuPlan;
pub use drill::DrillSettings;
pub use internet::InternetSettings;
pub use method::Method;
pub use slice::ZoneSlice;
pub use tester::Family;
use values::{one_second, some_text, texts};
pub(crate) use values::{text, time_text};
pub(crate) use workload::closed_names_per_s;
pub use workload::{AUTO, Workload};

/// An experiment at one point of its matrix.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Name by which the command line, the store and reports call the experiment.
    pub name: String,
    /// What the experiment measures, in one line of text.
    pub title: String,
    /// Servers, by the names of their adapters; empty if only the command line names servers.
    #[serde(default)]
    pub servers: Vec<String>,
    /// Server that the capacities of the others are compared with; the first one if absent.
    pub baseline: Option<String>,
    /// Role of the servers: it determines their queries and their upstream.
    pub role: Role,
    /// Method of the measurement.
    #[serde(default)]
    pub method: Method,
    /// Number of times each cell is measured.
    #[serde(default = "default_repeats")]
    pub repeats: u32,
    /// Order in which servers and points are visited.
    #[serde(default)]
    pub order: Order,
    /// Time after which no further repeat begins, in nanoseconds.
    #[serde(default, deserialize_with = "some_text")]
    pub budget: Option<Nanos>,
    /// Time for which a server is loaded after each start, before the measurement, in nanoseconds.
    #[serde(default, deserialize_with = "text")]
    pub warm_up: Nanos,
    /// Queries of the trials, and the zone that they are for.
    #[serde(default)]
    pub workload: Workload,
    /// Settings of the methods `search` and `clients`.
    pub search: Option<SearchSettings>,
    /// Settings of the method `capacity`.
    #[serde(default)]
    pub capacity: CapacitySettings,
    /// Settings of the method `lockstep`.
    #[serde(default)]
    pub lockstep: LockStepSettings,
    /// Settings of the method `load`.
    pub load: Option<LoadSettings>,
    /// Settings of the method `drill`.
    pub drill: Option<DrillSettings>,
    /// Settings of the method `answers`.
    #[serde(default)]
    pub answers: AnswersSettings,
    /// Settings of the method `closed`, of the rate of `zone-load`, and of queries beside updates.
    #[serde(default)]
    pub closed: ClosedSettings,
    /// Settings of the method `zone-load`.
    #[serde(default)]
    pub zone_load: ZoneLoadSettings,
    /// Settings of the method `generators`.
    #[serde(default)]
    pub generators: GeneratorSettings,
    /// Settings of the methods about updates: `update-rate`, `query-under-update`, `signed-unsigned`.
    #[serde(default)]
    pub replication: ReplicationSettings,
    /// Settings of the server under test.
    #[serde(default)]
    pub dut: DutSettings,
    /// Settings of the Measurer: engine, ports, pacing, transport, connections.
    #[serde(default)]
    pub tester: TesterSettings,
    /// Settings of the host that runs the testbed; they are undone after the run.
    #[serde(default)]
    pub host: HostSettings,
    /// Cores of each role; the lab chooses those that are not given.
    #[serde(default)]
    pub cpus: CpuPlan,
    /// Custom servers of the user, by name.
    #[serde(default)]
    pub custom: BTreeMap<String, Custom>,
    /// Variables for the templates of the servers' adapters.
    #[serde(default)]
    pub variables: BTreeMap<String, Scalar>,
    /// Servers that are measured at this point of the matrix; all if empty.
    #[serde(default)]
    pub only: Vec<String>,
}

impl Settings {
    /// Returns the largest number of clients of a trial, each of which has a connection.
    pub fn most_clients(&self) -> u32 {
        match (&self.search, self.method) {
            (Some(search), Method::Clients) => search.max.get() as u32,
            _ => self.tester.clients.unwrap_or(1),
        }
    }

    /// Returns whether a server is measured at this point of the matrix.
    pub fn measures(&self, server: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == server)
    }
}

/// Role of a server under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// A DNS64 server whose upstream is our AuthDNS.
    Dns64,
    /// A resolver whose upstream is our AuthDNS.
    Resolver,
    /// An authoritative server of a generated namespace zone.
    Authoritative,
}

measure::words! { Role { Dns64 = "dns64", Resolver = "resolver", Authoritative = "authoritative" } }

/// Order in which cells are measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Repeat by repeat, the cells of each shuffled, every second repeat backwards (A B B A): drift affects all
    /// equally.
    #[default]
    Interleaved,
    /// Cell by cell, in the order of the file.
    Grouped,
}

measure::words! { Order { Interleaved = "interleaved", Grouped = "grouped" } }

/// Settings of the search for the capacity. Its rates are numbers of clients for the method `clients`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SearchSettings {
    /// Rule that decides on a rate.
    #[serde(deserialize_with = "text", default)]
    pub rule: RuleName,
    /// Goal that a rate must meet to pass.
    #[serde(deserialize_with = "text")]
    pub goal: Goal,
    /// Further goals, for the rule `mlrsearch`.
    #[serde(deserialize_with = "texts", default)]
    pub also: Vec<Goal>,
    /// Sum of the durations of the trials that decide a rate, in nanoseconds, for the rule `mlrsearch`; five trials
    /// if absent.
    #[serde(deserialize_with = "some_text", default)]
    pub duration_sum: Option<Nanos>,
    /// Rate of the first trial; repeats begin near it.
    #[serde(deserialize_with = "text")]
    pub start: Qps,
    /// Lowest rate; below it the search ends without a capacity.
    #[serde(deserialize_with = "text", default = "default_min")]
    pub min: Qps,
    /// Highest rate; the Tester must be certified for it.
    #[serde(deserialize_with = "text")]
    pub max: Qps,
    /// Width of the final bracket, as a share (0 to 1) of the rate.
    pub resolution: f64,
    /// Duration of one trial, in nanoseconds.
    #[serde(deserialize_with = "text")]
    pub duration: Nanos,
    /// Timeout of one query, in nanoseconds.
    #[serde(deserialize_with = "text", default = "one_second")]
    pub timeout: Nanos,
    /// Whether the Tester's self-test runs first (RFC 8219 section 9.2).
    #[serde(default = "default_true")]
    pub self_test: bool,
}

/// Settings of the method `lockstep`: experiments as dns64perf makes them.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct LockStepSettings {
    /// Number of threads of dns64perf, at most 256.
    pub lanes: u32,
    /// Number of experiments of 256 queries in each repeat.
    pub experiments: u32,
    /// Whether lanes are threads that start anew for each experiment, as in dns64perf2; otherwise sockets of the Tester's cores.
    pub new_threads: bool,
    /// Timeout of one query, in nanoseconds.
    #[serde(deserialize_with = "text")]
    pub timeout: Nanos,
}

impl Default for LockStepSettings {
    fn default() -> Self {
        let timeout = one_second();
        LockStepSettings { lanes: 1, experiments: 256, new_threads: false, timeout }
    }
}

/// Settings of open-loop trials at given rates.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LoadSettings {
    /// Rates; each repeat runs one trial at each.
    #[serde(deserialize_with = "texts")]
    pub rates: Vec<Qps>,
    /// Duration of one trial, in nanoseconds.
    #[serde(deserialize_with = "text")]
    pub duration: Nanos,
    /// Timeout of one query, in nanoseconds.
    #[serde(deserialize_with = "text", default = "one_second")]
    pub timeout: Nanos,
}

/// Settings of a closed loop.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct ClosedSettings {
    /// Number of queries outstanding; the next one is sent when one is answered or timed out.
    pub window: u32,
    /// Duration of one trial, in nanoseconds.
    #[serde(deserialize_with = "text")]
    pub duration: Nanos,
    /// Timeout of one query, in nanoseconds.
    #[serde(deserialize_with = "text")]
    pub timeout: Nanos,
}

impl Default for ClosedSettings {
    fn default() -> Self {
        ClosedSettings { window: 256, duration: Nanos::from_secs(5), timeout: one_second() }
    }
}

/// Settings of rounds of closed loops; `repeats` is the largest number of rounds.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct CapacitySettings {
    /// Duration of the closed loop of a round.
    #[serde(deserialize_with = "text")]
    pub duration: Nanos,
    /// Timeout of one query, in nanoseconds.
    #[serde(deserialize_with = "text")]
    pub timeout: Nanos,
    /// Half of the interval's width at which no further round is made, as a share of the figure.
    pub precision: f64,
    /// Whether latency and loss are measured at shares of the capacity.
    pub loads: bool,
    /// Results of earlier rounds of the cell, set by the lab, not by a file.
    #[serde(skip)]
    pub known: Known,
}

impl Default for CapacitySettings {
    fn default() -> Self {
        let (duration, timeout) = (one_second(), one_second());
        CapacitySettings {
            duration,
            timeout,
            precision: 0.03,
            loads: true,
            known: Known::default(),
        }
    }
}

/// Settings of the method `zone-load`, which measures the time until a server answers from its
/// zone.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct ZoneLoadSettings {
    /// Whether a closed loop (`[closed]`) measures the server afterwards.
    pub rate: bool,
    /// Number of further starts, with the state that the first start left behind.
    pub later: u32,
}

impl Default for ZoneLoadSettings {
    fn default() -> Self {
        ZoneLoadSettings { rate: true, later: 1 }
    }
}

/// Largest number of secondaries beside the server that is measured, its further instances
/// included: limited by the addresses of the lab.
pub const MAX_SECONDARIES: usize = 20;

/// Settings of a primary, its secondaries, and their zone.
///
/// The servers of the experiment are measured. With `primary` they are its secondaries; without it
/// each one loads the zone from a file, and receives the updates itself if the method sends any.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct ReplicationSettings {
    /// Server that receives the updates, by the name of its adapter.
    pub primary: Option<String>,
    /// Number of instances of the server that is measured, all of them secondaries and all of them queried.
    pub instances: usize,
    /// Further secondaries of the primary, which are not queried.
    pub secondaries: Vec<String>,
    /// Number of delegations of the whole zone.
    pub delegations: u64,
    /// Slice of the zone that is used instead of the whole.
    #[serde(deserialize_with = "some_text")]
    pub slice: Option<ZoneSlice>,
    /// Whether the zone is signed: by its primary, or once for all servers if the method sends no updates.
    pub signed: bool,
    /// Rate of updates while queries are sent.
    #[serde(deserialize_with = "scalar_text")]
    pub update_rate: UpdateRate,
    /// Number of updates of the method `update-rate`.
    pub updates: u64,
    /// Number of acknowledged updates after which the method `update-rate` kills the primary.
    pub killed_after: u64,
}

impl Default for ReplicationSettings {
    fn default() -> Self {
        ReplicationSettings {
            primary: None,
            instances: 1,
            secondaries: Vec::new(),
            delegations: 1_000_000,
            slice: None,
            signed: false,
            update_rate: UpdateRate::None,
            updates: 10_000,
            killed_after: 1_000,
        }
    }
}

/// Settings of the server under test.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct DutSettings {
    /// Number of cores, apart from the Tester's; as many as `[cpus]` gives, or the lab chooses, if
    /// absent.
    pub cores: Option<usize>,
    /// Number of threads or processes; one for each core if absent.
    pub threads: Option<usize>,
    /// Largest CPU time, in cores: 0.5 is half a core. It slows a server down on purpose, to test a comparison.
    pub cpu_limit: Option<f64>,
}

/// Settings of the Measurer: how it sends queries and receives replies.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct TesterSettings {
    /// Engine of the queries over UDP: `sockets`, `kernel`, or `auto` for the one that is certified for more.
    pub engine: EngineChoice,
    /// Number of source ports; as many as the rate needs if absent.
    pub ports: Option<u16>,
    /// Number of source ports of each core of the Measurer instead, as dns64perf++ has it (2,048 in seed 003).
    pub ports_per_thread: Option<u16>,
    /// Spacing of the queries of an open loop.
    pub pacing: OpenPacing,
    /// Whether queries that leave together are one segmented message, from one source port; they are in any case where
    /// messages cross the links whole.
    pub gso: bool,
    /// Whether replies are received joined (UDP_GRO), where messages cross the links whole or the server is remote.
    pub gro: bool,
    /// Transport of the queries; all but UDP have connections.
    #[serde(deserialize_with = "text")]
    pub transport: Transport,
    /// Protocol that carries the queries, if the server listens on both.
    pub family: Family,
    /// Number of queries on a connection before it is closed; unlimited if absent.
    pub queries_per_connection: Option<u32>,
    /// Number of connections of a stream transport at a time; of source ports over UDP.
    pub clients: Option<u32>,
    /// Number of queries outstanding on a connection; its share of the window if absent.
    pub outstanding: Option<u32>,
    /// Whether queries are sent with the handshake of TCP, if the server has given a cookie (TCP Fast Open, RFC 7413).
    pub fast_open: bool,
    /// The only version of TLS that is used; any if absent.
    pub tls_version: Option<TlsVersion>,
    /// Whether TLS sessions are resumed.
    pub resume: bool,
    /// Whether queries are sent with the handshake of a resumed session (0-RTT).
    pub early_data: bool,
    /// Time without a query after which a client closes its connection, in nanoseconds; never if absent.
    #[serde(deserialize_with = "some_text")]
    pub close_idle: Option<Nanos>,
}

impl Default for TesterSettings {
    fn default() -> Self {
        TesterSettings {
            engine: EngineChoice::Sockets,
            ports: None,
            ports_per_thread: None,
            pacing: OpenPacing::Constant,
            gso: false,
            gro: true,
            transport: Transport::Udp,
            family: Family::Ipv6,
            queries_per_connection: None,
            clients: None,
            outstanding: None,
            fast_open: false,
            tls_version: None,
            resume: false,
            early_data: false,
            close_idle: None,
        }
    }
}

/// Settings of the host; a setting that the host refuses is skipped with the reason.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct HostSettings {
    /// Frequency governor of all cores; `unchanged` keeps the current one.
    pub governor: String,
    /// What idle cores do during a visit.
    pub idle: Idle,
    /// Kind of the testbed's links: `plain`, `moderated` or `steered`; the lab's choice for the method if absent.
    #[serde(deserialize_with = "some_text")]
    pub link: Option<Link>,
    /// How a datagram crosses the links: as a packet (`wire`), or within a message that crosses whole
    /// (`host-offload`).
    #[serde(deserialize_with = "text")]
    pub path: Path,
    /// Whether the links receive in threads of their own.
    pub threaded_napi: bool,
    /// Settings of the hosts' network namespaces, by their path below /proc/sys, with dots for slashes.
    pub sysctl: BTreeMap<String, Scalar>,
}

impl Default for HostSettings {
    fn default() -> Self {
        HostSettings {
            governor: "unchanged".into(),
            idle: Idle::Poll,
            link: None,
            path: Path::default(),
            threaded_napi: false,
            sysctl: BTreeMap::new(),
        }
    }
}

/// Behaviour of idle cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Idle {
    /// Idle cores poll, if the lab may set this, and wake at once.
    #[default]
    Poll,
    /// Idle cores sleep under the kernel's idle driver, and take time to wake.
    Sleep,
}

/// A plain value: text, number or Boolean, kept as its text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scalar(pub String);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a text, a number, true or false")]
        enum AnyValue {
            Text(String),
            Whole(i64),
            Number(f64),
            Truth(bool),
        }
        Ok(Scalar(match AnyValue::deserialize(deserializer)? {
            AnyValue::Text(text) => text,
            AnyValue::Whole(n) => n.to_string(),
            AnyValue::Number(x) => x.to_string(),
            AnyValue::Truth(b) => b.to_string(),
        }))
    }
}

impl SearchSettings {
    /// Returns the rule with its settings.
    ///
    /// # Errors
    /// If a setting is given that the rule does not have.
    pub(crate) fn rule(&self) -> Result<Rule, RuleError> {
        self.rule.rule(&self.also, self.duration_sum, self.duration)
    }
}

impl Settings {
    /// Returns the search of one repeat; `None` if the file has no `[search]`.
    pub fn search(&self) -> Option<Search> {
        let search = self.search.as_ref().map(|s| Search {
            // A checked experiment has no setting that its rule does not have.
            rule: s.rule().unwrap_or(Rule::Rfc8219),
            goal: s.goal.clone(),
            start: s.start,
            expected: None,
            min: s.min,
            max: s.max,
            resolution: s.resolution,
            duration: s.duration,
            timeout: s.timeout,
            client_names: self.client_names(),
            pacing: self.tester.pacing,
        })?;
        Some(match &self.capacity.known.step {
            Some(step) => search.near(step.qps),
            None => search,
        })
    }
}

/// Returns the default of the lowest rate: a DNS server below it is not worth measuring.
fn default_min() -> Qps {
    Qps::new(1_000.0).expect("a rate")
}

/// Returns the default number of repeats: enough to show the spread.
fn default_repeats() -> u32 {
    5
}

fn default_true() -> bool {
    true
}

/// Reads a value written as text or as a number, such as `8`.
fn scalar_text<'de, D: Deserializer<'de>, T: FromStr<Err: fmt::Display>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Scalar::deserialize(deserializer)?.0.parse().map_err(D::Error::custom)
}
