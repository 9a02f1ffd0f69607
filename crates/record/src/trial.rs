//! One load at one setting for one duration (RFC 2544's trial).

use std::collections::BTreeMap;

use measure::{Limiter, Link, Path, Void, Warning};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::connections::Connections;
use crate::series::Series;
use crate::times::Times;

/// What a trial measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Version of the JSON.
    pub schema: u32,
    /// Queries planned.
    pub planned: u64,
    /// Queries sent.
    pub sent: u64,
    /// Replies in time, valid or not.
    pub answered: u64,
    /// Valid replies in time.
    pub valid: u64,
    /// Invalid replies in time, by reason.
    pub invalid: BTreeMap<String, u64>,
    /// Replies after the timeout.
    pub late: u64,
    /// Queries without a reply in time.
    pub lost: u64,
    /// Further replies to answered queries.
    pub duplicates: u64,
    /// Replies that belong to no query.
    pub unexpected: u64,
    /// Queries outstanding when the trial was interrupted.
    pub unresolved: u64,
    /// Sent per second.
    pub offered_qps: f64,
    /// Answered in time per second.
    pub answered_qps: f64,
    /// Seconds of sending.
    pub duration_s: f64,
    /// From due to reply; lost queries count with the timeout.
    pub latency_us: Times,
    /// From sent to reply; answered queries only.
    pub latency_from_send_us: Times,
    /// From due to sent.
    pub schedule_error_us: Times,
    /// Replies in time by return code.
    pub rcodes: BTreeMap<String, u64>,
    /// What limited it.
    #[serde(with = "limiter_word")]
    pub limiter: Limiter,
    /// False, or why the trial says nothing.
    pub void: Voidness,
    /// The goal, if it had one.
    pub goal: Option<String>,
    /// Whether the goal was met.
    pub passed: Option<bool>,
    /// Whether it ended as soon as the goal was missed for certain.
    pub stopped_early: bool,
    /// CPU time by role: `tester`, `authdns`, `dut`.
    pub cpu: BTreeMap<String, Cpu>,
    /// Datagrams dropped, by place.
    pub drops: Drops,
    /// What became of the connections; absent over UDP.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub connections: Option<Connections>,
    /// Seconds of the trial.
    pub series: Vec<Second>,
    /// What the probes sampled during it, seconds since its beginning.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub probes: Vec<Series>,
    /// Under which conditions.
    pub conditions: Conditions,
    /// Doubts about the measurement.
    pub warnings: Vec<Warning>,
}

impl Trial {
    /// Queries without a valid reply in time.
    pub fn bad(&self) -> u64 {
        self.answered - self.valid + self.lost
    }

    /// Invalid replies in time, whatever the reason.
    pub fn invalid_count(&self) -> u64 {
        self.invalid.values().sum()
    }

    /// Valid replies in time per second of sending; 0 for a trial that did not send.
    pub fn valid_qps(&self) -> f64 {
        if self.duration_s > 0.0 { self.valid as f64 / self.duration_s } else { 0.0 }
    }

    /// `count` as percent of the queries sent; 0 for a trial that sent none.
    pub fn percent_of_sent(&self, count: u64) -> f64 {
        if self.sent == 0 { 0.0 } else { 100.0 * count as f64 / self.sent as f64 }
    }

    /// Its distributions, by their names in the JSON.
    pub(crate) fn distributions_mut(&mut self) -> Vec<(&'static str, &mut Times)> {
        let mut all = vec![
            ("latency_us", &mut self.latency_us),
            ("latency_from_send_us", &mut self.latency_from_send_us),
            ("schedule_error_us", &mut self.schedule_error_us),
        ];
        if let Some(connections) = &mut self.connections {
            all.extend([
                ("connections.connect_us", &mut connections.connect_us),
                ("connections.handshake_us", &mut connections.handshake_us),
                ("connections.first_query_us", &mut connections.first_query_us),
                ("connections.steady_us", &mut connections.steady_us),
            ]);
        }
        all
    }
}

/// A second of a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Second {
    /// Queries that were due in it and sent.
    pub sent: u64,
    /// Valid answers to queries that were due in it.
    pub valid: u64,
}

/// CPU time of a role during a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// Seconds in the role's own code.
    pub user_s: f64,
    /// Seconds in the kernel on its behalf.
    pub system_s: f64,
    /// Seconds of soft interrupts on its cores, whoever caused them; absent where not visible.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub softirq_s: Option<f64>,
    /// The busy share (0 to 1) of its cores.
    pub busy: f64,
    /// Share (0 to 1) of the trial that it was ready to run and did not; absent where not visible.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub run_delay: Option<f64>,
    /// Its cores; empty when it may run on any.
    pub cpus: Vec<usize>,
}

/// Datagrams dropped during a trial, by place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drops {
    /// In the Tester's receive queues.
    pub tester_receive: u64,
    /// In the AuthDNS's receive queues.
    pub authdns_receive: u64,
    /// In the DUT's receive queues.
    pub dut_receive: u64,
    /// On links.
    pub link: u64,
    /// Not taken by the Tester's kernel for sending.
    pub tester_send: u64,
}

/// The conditions of a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// When the trial began, seconds since 1970; absent where it is not known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub started_unix_s: Option<f64>,
    /// The version of dnsdyno.
    pub version: String,
    /// The command line.
    pub command: String,
    /// Where the queries went.
    pub target: String,
    /// How queries were carried: udp, tcp, tls and so on.
    #[serde(default)]
    pub transport: String,
    /// What was asked.
    pub workload: String,
    /// When queries left.
    pub pacing: String,
    /// Seconds after which a query is lost.
    pub timeout_s: f64,
    /// Microseconds that a due query may be held back to leave with others.
    pub max_burst_us: f64,
    /// Connected sockets over all workers.
    pub sockets: usize,
    /// Workers, a thread each.
    pub workers: usize,
    /// Cores of the workers; empty when they may run on any.
    pub cpus: Vec<usize>,
    /// How workers wait: spin, sleep or auto.
    pub wait: String,
    /// Segmentation offload on sending was in force.
    pub gso: bool,
    /// Coalescing on receiving was in force.
    pub gro: bool,
    /// The kernel stamped arrivals.
    pub timestamps: bool,
    /// Bytes of receive buffer of each socket.
    pub receive_buffer: usize,
    /// The seed.
    pub seed: u64,
    /// Whether receive packet steering was on in the testbed, of records that name no link.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub packet_steering: Option<bool>,
    /// The kind of the testbed's links; absent without a testbed.
    #[serde(skip_serializing_if = "Option::is_none", default, with = "optional_word")]
    pub link: Option<Link>,
    /// What a datagram was on its way to the server; absent where it is not known.
    #[serde(skip_serializing_if = "Option::is_none", default, with = "optional_word")]
    pub path: Option<Path>,
}

/// False, or why a trial says nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Voidness(pub Option<Void>);

impl Voidness {
    /// Whether the trial says nothing.
    pub fn is_void(&self) -> bool {
        self.0.is_some()
    }
}

impl Serialize for Voidness {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            None => serializer.serialize_bool(false),
            Some(why) => why.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Voidness {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Bool(bool),
            Why(Void),
        }
        match Either::deserialize(deserializer)? {
            Either::Bool(false) => Ok(Voidness(None)),
            Either::Bool(true) => Err(de::Error::custom("`void` is false or the reason")),
            Either::Why(why) => Ok(Voidness(Some(why))),
        }
    }
}

/// An optional value as its word.
pub(crate) mod optional_word {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(crate) fn serialize<T: Display, S: Serializer>(
        value: &Option<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => serializer.collect_str(value),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        let word: Option<String> = Option::deserialize(deserializer)?;
        word.map(|word| word.parse().map_err(de::Error::custom)).transpose()
    }
}

/// A limiter as its word.
pub(crate) mod limiter_word {
    use measure::Limiter;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(crate) fn serialize<S: Serializer>(
        limiter: &Limiter,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(limiter.word())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Limiter, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}
