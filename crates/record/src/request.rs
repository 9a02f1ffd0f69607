//! The request for one trial: everything that the Measurer needs to know before it starts.
//!
//! ```text
//! arguments of `load` ──┐                       ┌──> the Tester of this process
//!                       ├──> TrialRequest ──────┤
//! point of a matrix  ───┘     (JSON, a pipe)    └──> the Measurer process of the lab ──> TrialResult
//! ```
//!
//! A request is a value of plain types, so that it can be built without knowing DNS and sent to another process. The
//! Tester parses names, types and prefixes once, and names the first field that it cannot accept.

mod attack;
mod connections;
mod hardware;
mod sockets;
pub(crate) mod text;
mod workload;

use std::net::SocketAddr;
use std::path::PathBuf;

use measure::{ClockBound, Facts, Goal, Nanos, Pacing, Slice, StartAt, Transport};
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_with_macros::skip_serializing_none;

use crate::Trial;
use crate::engine_kind::EngineKind;

pub use attack::{AttackOutcome, AttackRequest};
pub use connections::{Close, Connecting, Http, Pick, Proxy, Tls, TransportShare};
pub use hardware::{BadHardwareAddress, HardwareAddress};
pub use sockets::{Gso, Sockets};
pub use workload::{Edns, Expect, Names, NamespaceExpect, Query, Repeats, Workload};

/// Version of [`TrialRequest`] in JSON.
pub const VERSION: u32 = 1;

/// Request for one trial, complete: the same request makes the same load.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrialRequest {
    /// Version of this type, [`VERSION`]; other versions are refused.
    #[serde(deserialize_with = "version")]
    pub version: u32,
    /// Address and port of the server.
    pub target: SocketAddr,
    /// Further servers that are queried at the same time, over UDP. In a closed loop each has
    /// workers and sockets of its own, and the same part of the window; in an open loop the sockets
    /// of each worker go to the target and to these servers in turn.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub also: Vec<SocketAddr>,
    /// Engine that carries the messages.
    pub engine: Engine,
    /// Queries, and the expected answers.
    pub workload: Workload,
    /// Schedule of the queries; a replay has its own times instead.
    #[serde(with = "text")]
    pub pacing: Pacing,
    /// Duration of sending, in nanoseconds; a replay and a lock-step load have their own.
    #[serde(with = "text")]
    pub duration: Nanos,
    /// Time within which a reply counts, in nanoseconds.
    #[serde(with = "text")]
    pub timeout: Nanos,
    /// Goal of the trial; without one no trial passes or fails.
    #[serde(with = "text::option", default)]
    pub goal: Option<Goal>,
    /// Whether the trial ends as soon as the goal is missed for certain.
    #[serde(default)]
    pub early_stop: bool,
    /// Number of queries outstanding at which the sending of an open loop ends; no limit if absent.
    pub most_outstanding: Option<u64>,
    /// Whether a query of a closed loop keeps its place until its timeout; otherwise only as long
    /// as a reply is likely.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub keep_places: bool,
    /// Length of the steps whose queries are counted separately, in nanoseconds; no steps if
    /// absent.
    #[serde(with = "text::option", default)]
    pub step: Option<Nanos>,
    /// Slice of the load that this Tester sends; the whole if absent.
    #[serde(with = "text", skip_serializing_if = "Slice::is_whole", default)]
    pub slice: Slice,
    /// Instant at which the load starts; as soon as possible if absent.
    #[serde(with = "text::option", default)]
    pub start_at: Option<StartAt>,
    /// Largest error of this host's clock for an agreed start.
    #[serde(with = "text", default)]
    pub clock_bound: ClockBound,
    /// Sockets and threads of the Measurer.
    pub sockets: Sockets,
    /// Seed of all random choices.
    pub seed: u64,
    /// File to which the counters are written four times a second.
    pub live: Option<PathBuf>,
    /// Cores of the server, if it runs on this host: they are watched for stalls, there are 64 source ports for each, and
    /// the table of a lock-step load shows their use (that of all cores of the host if empty).
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub dut_cpus: Vec<usize>,
    /// Cores of the AuthDNS, if it runs on this host: they are watched for stalls.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub auth_cpus: Vec<usize>,
}

/// Values that a method chooses for each trial.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialSpec {
    /// Schedule or window of the queries.
    pub pacing: Pacing,
    /// Duration of sending, in nanoseconds.
    pub duration: Nanos,
    /// Time within which a reply counts, in nanoseconds.
    pub timeout: Nanos,
    /// Goal; without one no trial passes or fails.
    pub goal: Option<Goal>,
    /// Whether the trial ends as soon as the goal is missed for certain.
    pub early_stop: bool,
    /// Number of the first name of the namespace to use.
    pub first_name: u64,
    /// Number of names from there on.
    pub names: u64,
    /// Length of the steps whose queries are counted apart.
    pub step: Option<Nanos>,
    /// Number of queries of a connection; `None` for the request's number.
    pub queries_per_connection: Option<u64>,
    /// Whether the trial waits until the server has finished the work of the last one: an estimate
    /// from many trials, none of which decides alone, has no time for that.
    pub waits: bool,
}

impl TrialSpec {
    /// Makes a trial without a goal and without names.
    pub fn new(pacing: Pacing, duration: Nanos, timeout: Nanos) -> Self {
        TrialSpec {
            pacing,
            duration,
            timeout,
            goal: None,
            early_stop: false,
            first_name: 0,
            names: 0,
            step: None,
            queries_per_connection: None,
            waits: true,
        }
    }
}

/// Engine that carries the messages of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// UDP sockets, which take many datagrams with one system call.
    Udp,
    /// Clients with connections, or with one UDP port each.
    Streams(Box<Connecting>),
    /// Programs in the kernel (XDP), over UDP.
    Kernel(InKernel),
}

impl Engine {
    /// Returns the length in octets of the longest message that every transport takes to `target`.
    pub fn longest_message(&self, target: SocketAddr) -> usize {
        let streams_only = match self {
            Engine::Udp | Engine::Kernel(_) => false,
            Engine::Streams(c) => c.transports.iter().all(|t| t.transport != Transport::Udp),
        };
        match (streams_only, target.is_ipv4()) {
            (true, _) => usize::from(u16::MAX),
            // A datagram less the headers of UDP, and of IPv4.
            (false, true) => 65_507,
            (false, false) => 65_527,
        }
    }

    /// Returns the kind that records name.
    pub fn kind(&self) -> EngineKind {
        match self {
            Engine::Udp => EngineKind::Sockets,
            Engine::Streams(_) => EngineKind::Streams,
            Engine::Kernel(_) => EngineKind::Kernel,
        }
    }
}

/// Path of the queries that the kernel sends by itself.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct InKernel {
    /// Network device; the device of the source address if absent.
    pub device: Option<String>,
    /// Hardware address of the server, or of the router on the way to it; looked up if absent.
    pub neighbour: Option<HardwareAddress>,
}

/// Result of a trial without its verdict. The caller adds further facts, and then makes the verdict
/// once.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialResult {
    /// Version of this form of JSON.
    pub schema: u32,
    /// Record of the trial, without its verdict.
    pub trial: Trial,
    /// Goal of the request, which the verdict needs.
    #[serde(with = "text::option", default)]
    pub goal: Option<Goal>,
    /// Facts in addition to the record.
    pub facts: Facts,
    /// Times of the experiments of a lock-step load.
    pub lockstep: Option<LockStepTimes>,
}

/// Times of the experiments of a lock-step load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LockStepTimes {
    /// Time of each experiment, in milliseconds.
    pub times_ms: Vec<f64>,
    /// Busy share of the watched cores, in percent: one sample each second, in a short run one each tenth of a second.
    pub busy_percent: Vec<f64>,
}

impl LockStepTimes {
    /// Returns the share (0 to 1) of their time that experiments waited for `lost` replies at most, each for `timeout_s`: where
    /// one lasted for less it lost none.
    pub(crate) fn share_lost(&self, lost: u64, timeout_s: f64) -> f64 {
        let timeout_ms = timeout_s * 1e3;
        let above: f64 = self.times_ms.iter().filter(|time_ms| **time_ms >= timeout_ms).sum();
        above.min(lost as f64 * timeout_ms) / self.times_ms.iter().sum::<f64>().max(1e-9)
    }
}

impl TrialRequest {
    /// Makes the request of a trial of one second over UDP, without a goal, with the usual sockets and the seed 1.
    pub fn new(target: SocketAddr, workload: Workload, pacing: Pacing) -> Self {
        TrialRequest {
            version: VERSION,
            target,
            also: Vec::new(),
            engine: Engine::Udp,
            workload,
            pacing,
            duration: Nanos::from_secs(1),
            timeout: Nanos::from_secs(1),
            goal: None,
            early_stop: false,
            most_outstanding: None,
            keep_places: false,
            step: None,
            slice: Slice::default(),
            start_at: None,
            clock_bound: ClockBound::default(),
            sockets: Sockets::default(),
            seed: 1,
            live: None,
            dut_cpus: Vec::new(),
            auth_cpus: Vec::new(),
        }
    }

    /// Returns all servers: the target, then the further ones.
    pub fn targets(&self) -> impl Iterator<Item = SocketAddr> + Clone + '_ {
        std::iter::once(self.target).chain(self.also.iter().copied())
    }

    /// Returns the number of servers that have workers of their own: all in a closed loop; in an open one they share all workers.
    pub fn loops(&self) -> usize {
        if self.pacing.is_open_loop() { 1 } else { 1 + self.also.len() }
    }

    /// Copies everything from `spec` except the names, whose range is counted in different ways.
    /// Steps and the queries of a connection are kept if `spec` has none.
    pub fn set_trial(&mut self, spec: &TrialSpec) {
        self.pacing = spec.pacing;
        (self.duration, self.timeout) = (spec.duration, spec.timeout);
        self.goal.clone_from(&spec.goal);
        self.early_stop = spec.early_stop;
        self.step = spec.step.or(self.step);
        if let (Engine::Streams(connecting), Some(_)) =
            (&mut self.engine, spec.queries_per_connection)
        {
            connecting.queries_per_connection = spec.queries_per_connection;
        }
    }

    /// Returns the number of clients that open connections before the trial.
    pub fn clients(&self) -> u32 {
        match &self.engine {
            Engine::Udp | Engine::Kernel(_) => 0,
            Engine::Streams(connecting) => connecting.clients,
        }
    }

    /// Returns the transports of the queries, each with its share of the clients, and its port if that differs from
    /// the target's.
    pub fn transports(&self) -> Vec<TransportShare> {
        match &self.engine {
            Engine::Udp | Engine::Kernel(_) => vec![TransportShare::only(Transport::Udp)],
            Engine::Streams(connecting) => connecting.transports.clone(),
        }
    }
}

/// Reads the version; refuses all but this one.
fn version<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    match u32::deserialize(deserializer)? {
        VERSION => Ok(VERSION),
        other => Err(de::Error::custom(format!(
            "the request has version {other}, this program reads version {VERSION}"
        ))),
    }
}

#[cfg(test)]
mod tests;
