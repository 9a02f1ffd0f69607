//! One load at one setting for one duration (RFC 2544's trial).

use std::borrow::Cow;
use std::collections::BTreeMap;

use measure::histogram::NotAHistogram;
use measure::{
    Disturbances, Limiter, LimiterProof, Link, Outstanding, Path, ScheduleTolerance, Slice,
    StartAt, Void, Warning,
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_with_macros::skip_serializing_none;

use crate::SCHEMA;
use crate::attack::Attack;
use crate::connections::Connections;
use crate::engine_kind::EngineKind;
use crate::pacing::RecordedPacing;
use crate::parts::Merged;
use crate::request::text;
use crate::samples;
use crate::series::{Second, Series, is_zero};
use crate::times::Times;

/// Result of one trial: counts, latencies in microseconds, limiter, conditions.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trial {
    /// Version of the JSON that is written.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: u32,
    /// Number of queries in the schedule; 0 for a window.
    pub planned: u64,
    /// Number of queries that left.
    pub sent: u64,
    /// Number of replies in time, valid or not.
    pub answered: u64,
    /// Number of valid replies in time.
    pub valid: u64,
    /// Number of invalid replies in time, by reason.
    pub invalid: BTreeMap<String, u64>,
    /// Number of valid replies in time that arrived while queries were still sent, used for the
    /// rate of answers; absent if unknown.
    pub valid_while_sending: Option<u64>,
    /// Number of replies after the timeout.
    pub late: u64,
    /// Number of queries that were sent and got no reply in time.
    pub lost: u64,
    /// Number of queries that were never sent, since no connection took them in time.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub unserved: u64,
    /// Number of further replies to answered queries.
    pub duplicates: u64,
    /// Number of replies that belong to no query.
    pub unexpected: u64,
    /// Number of queries outstanding when the trial was interrupted.
    pub unresolved: u64,
    /// Octets of the queries and of the replies in time.
    #[serde(skip_serializing_if = "Octets::is_zero", default)]
    pub octets: Octets,
    /// Queries sent a second, over the time of sending.
    pub offered_qps: f64,
    /// Queries answered in time a second; where the server fell behind, while queries were sent.
    pub answered_qps: f64,
    /// Duration of sending, in seconds.
    pub duration_s: f64,
    /// Time until the last query left, in seconds.
    pub last_sent_s: Option<f64>,
    /// Time from due to reply, in microseconds; a lost query counts with the timeout.
    pub latency_us: Times,
    /// Time from sent to reply, in microseconds; answered queries only.
    pub latency_from_send_us: Times,
    /// Time from due to sent, in microseconds.
    pub schedule_error_us: Times,
    /// Number of replies in time by return code.
    pub rcodes: BTreeMap<String, u64>,
    /// Number of valid replies in time with NOERROR and no record in their answer section; 0 where that was not looked at.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub empty: u64,
    /// Limiter of the trial; for a void trial the cause of that.
    pub limiter: Limiter,
    /// Proof of the limiter; absent if none is needed.
    pub limiter_proof: Option<LimiterProof>,
    /// False, or the reason why the trial is void.
    pub void: Voidness,
    /// Goal of the trial, if it has one.
    #[serialize_always]
    pub goal: Option<String>,
    /// Whether the goal was met; absent without a goal.
    #[serialize_always]
    pub passed: Option<bool>,
    /// Queries outstanding in the middle and at its end; absent for closed loops, ramps, and where sending ended early.
    pub outstanding: Option<Outstanding>,
    /// Whether the trial ended as soon as the goal was missed for certain.
    pub stopped_early: bool,
    /// CPU time by role: `tester`, `authdns`, `dut`.
    pub cpu: BTreeMap<String, Cpu>,
    /// Number of datagrams dropped, by place.
    pub drops: Drops,
    /// Connections of the trial; absent over UDP.
    pub connections: Option<Connections>,
    /// Stalls, late queries and losses during the trial, with their times.
    #[serde(skip_serializing_if = "Disturbances::is_empty", default)]
    pub disturbances: Disturbances,
    /// Counts of each second of the trial.
    pub series: Vec<Second>,
    /// Counts of steps of another length; absent unless they were requested.
    pub steps: Option<Steps>,
    /// Time of each experiment of 256 queries of a lock-step load, in milliseconds; empty for other loads.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub experiment_times_ms: Vec<f64>,
    /// Samples of the probes, by seconds since the start of the trial.
    #[serde(skip_serializing_if = "Vec::is_empty", default, with = "samples")]
    #[schemars(with = "samples::Samples")]
    pub probes: Vec<Series>,
    /// Outcome of the queries to each server, in the order of the request; empty for a single server.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub targets: Vec<TargetOutcome>,
    /// Work of each AuthDNS on a host of its own, in the order of the hosts; empty without such
    /// hosts.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub authdns: Vec<AuthDnsShare>,
    /// Parts of a trial that was merged from the trials of several Testers; absent for one Tester.
    pub merged: Option<Merged>,
    /// Conditions of the trial, which another one must share to be compared.
    pub conditions: Conditions,
    /// Warnings about the measurement, each with advice.
    pub warnings: Vec<Warning>,
}

/// Outcome of the queries to one of several servers of a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TargetOutcome {
    /// Address and port of the server.
    pub target: String,
    /// Number of queries sent to the server.
    pub sent: u64,
    /// Number of valid replies in time.
    pub valid: u64,
    /// Number of queries without a valid reply in time.
    pub bad: u64,
}

/// Work of an AuthDNS on a host of its own in a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AuthDnsShare {
    /// Host of the AuthDNS, as named by the user.
    pub host: String,
    /// Number of received messages; absent if not reported.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub queries: Option<u64>,
    /// Busy share (0 to 1) of its cores or of its busiest thread, in the time of sending.
    pub busy: f64,
    /// Cores that the AuthDNS may use; empty if unknown.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub cpus: Vec<usize>,
    /// Number of datagrams and packets that its host received and dropped.
    pub receive_drops: u64,
    /// Longest stall of one of these cores, in milliseconds; 0 without one.
    pub longest_stall_ms: f64,
}

impl Trial {
    /// Returns the number of queries without a valid reply in time.
    pub fn bad(&self) -> u64 {
        self.answered - self.valid + self.lost + self.unserved
    }

    /// Returns the seconds of sending; late queries may have seconds of their own after the last.
    pub fn seconds_of_sending(&self) -> &[Second] {
        &self.series[..self.series.len().min(self.duration_s.ceil() as usize)]
    }

    /// Returns the number of offered queries: those that left, and those that found no connection.
    pub fn wanted(&self) -> u64 {
        self.sent + self.unserved
    }

    /// Returns the number of queries that no connection took although none failed, with the number of clients.
    pub fn without_room(&self) -> (u64, u32) {
        let connections = self.connections.as_ref().filter(|c| c.failed.is_empty());
        connections.map_or((0, 0), |c| (self.unserved, c.clients))
    }

    /// Returns the number of lost queries that the Tester's own host dropped, or whose replies it dropped: no fault of the server.
    pub fn dropped_here(&self) -> u64 {
        // A query refused by a socket is not counted as sent; drops of a device are known only
        // afterwards.
        let by_device = match self.conditions.engine {
            Some(EngineKind::Kernel) => self.drops.tester_send,
            _ => 0,
        };
        (self.drops.tester_receive + by_device).min(self.lost)
    }

    /// Returns the number of queries without a reply in time that the Tester's own host did not drop.
    pub fn lost_elsewhere(&self) -> u64 {
        self.lost - self.dropped_here()
    }

    /// Returns whether the server kept up with the rate until the end, as far as the record shows.
    pub fn is_sustained(&self) -> bool {
        self.outstanding.is_none_or(|numbers| numbers.is_sustained())
    }

    /// Returns whether the trial shows that the Tester kept its schedule: it is not void, and it
    /// has no warning about late queries.
    pub fn kept_its_schedule(&self) -> bool {
        let late = |warning: &Warning| matches!(warning, Warning::LateQueries { .. });
        !self.void.is_void() && !self.warnings.iter().any(late)
    }

    /// Returns valid replies in time per second of [`answering_s`](Self::answering_s), or 0.
    pub fn valid_qps(&self) -> f64 {
        let time_s = self.answering_s();
        let has_rate = time_s > 0.0 && self.fallen_behind_s().is_finite();
        if has_rate { self.valid as f64 / time_s } else { 0.0 }
    }

    /// Returns the queries sent a second until the last one left: fewer than offered by a Tester that fell behind its
    /// schedule.
    pub fn achieved_qps(&self) -> f64 {
        // The duration of a trial that was stopped ends with its last query.
        let late_s = if self.stopped_early { 0.0 } else { self.schedule_error_us.max / 1e6 };
        if self.duration_s > 0.0 { self.sent as f64 / (self.duration_s + late_s) } else { 0.0 }
    }

    /// Returns the share (0 to 1) of its queries that left later than a schedule allows.
    pub fn late_departures(&self) -> f64 {
        let late_after = ScheduleTolerance::default().late_after;
        self.schedule_error_us.histogram().map_or(0.0, |times| times.share_above(late_after))
    }

    /// Returns `count` as percent of the queries sent; 0 for a trial that sent none.
    pub fn percent_of_sent(&self, count: u64) -> f64 {
        if self.sent == 0 { 0.0 } else { 100.0 * count as f64 / self.sent as f64 }
    }

    /// Writes the buckets of each histogram out, beside its encoded form.
    ///
    /// # Errors
    /// If a histogram cannot be read.
    pub fn fill_buckets(&mut self) -> Result<(), NotAHistogram> {
        self.distributions_mut().into_iter().try_for_each(|(_, times)| times.fill_buckets())
    }

    /// Returns the distributions, by their names in the JSON.
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

/// A start that several Testers have agreed on, as one of them observed it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgreedStart {
    /// The agreed instant.
    #[serde(with = "text")]
    #[schemars(with = "String")]
    pub at: StartAt,
    /// Time from that instant to the start, by this host's clock after the trial, in microseconds; negative if it was early.
    pub error_us: f64,
    /// Largest error of this host's clock before the trial, in microseconds; absent if it was not
    /// measured.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub clock_error_us: Option<f64>,
}

/// Octets of the DNS messages of a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Octets {
    /// Octets of the queries sent.
    pub queries: u64,
    /// Octets of the replies in time.
    pub replies: u64,
}

impl Octets {
    /// Returns whether all counts are zero.
    fn is_zero(&self) -> bool {
        *self == Octets::default()
    }
}

/// Counts of a trial by steps of equal length, from its start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Steps {
    /// Length of a step, in seconds.
    pub length_s: f64,
    /// The steps in their order.
    pub steps: Vec<Step>,
}

/// Counts of one step of a trial.
#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// Queries a second that the schedule has in the middle of the step; absent for closed loops.
    pub target_qps: Option<f64>,
    /// Number of queries that left in this step.
    pub sent: u64,
    /// Number of replies in time that arrived in this step, valid or not.
    pub answered: u64,
    /// Number of queries that left in this step and got no reply in time.
    pub lost: Option<u64>,
    /// Number of replies in time with a return code other than NOERROR and NXDOMAIN.
    pub failed: u64,
    /// Mean time from sent to reply, in microseconds; 0 without a reply.
    pub latency_us: f64,
}

/// CPU time of programs in the kernel (BPF) in the time of sending, by the kernel's run statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramsCpu {
    /// Seconds for which the programs ran, without the time of their statistics.
    pub ran_s: f64,
    /// Number of runs of the programs.
    pub runs: u64,
    /// Seconds that the kernel's statistics of programs took, from the time that they add to each
    /// run of an empty program. They are not in `spent_s`.
    pub counting_s: f64,
}

/// CPU time of a role during a trial.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cpu {
    /// Seconds in the role's own code; for a server and an AuthDNS in the time of sending, if that is known. The sum with `system_s` is
    /// exact, and divided as the kernel's ticks saw it (250 a second, for instance).
    pub user_s: f64,
    /// Seconds in the kernel on behalf of the role.
    pub system_s: f64,
    /// Seconds of soft interrupts on its cores, for any process; absent if not visible.
    pub softirq_s: Option<f64>,
    /// Seconds of hard interrupts on its cores; absent where the kernel bills them, and soft ones
    /// too, to the task that they interrupt (without `CONFIG_IRQ_TIME_ACCOUNTING`).
    pub irq_s: Option<f64>,
    /// Seconds that kernel threads for packets and files (`ksoftirqd`, `napi`, `kworker`, `jbd2`)
    /// ran on its cores, for any process. Absent where they cannot be seen.
    pub kernel_threads_s: Option<f64>,
    /// The role's programs in the kernel; absent if they were not counted, or there are none.
    pub programs: Option<ProgramsCpu>,
    /// Busy share (0 to 1) of its cores by its own work, in the time of sending.
    pub busy: f64,
    /// Seconds of the role's own work in the time of sending: its processes in user mode and in the
    /// kernel, with the kernel threads and interrupts on its cores that work for it; absent if
    /// unknown.
    pub spent_s: Option<f64>,
    /// Seconds of `spent_s` that were the kernel's outside of its processes: kernel threads and interrupts that handle packets and files.
    pub kernel_s: Option<f64>,
    /// Limit of the role's CPU time in cores, if there is one.
    pub limit_cores: Option<f64>,
    /// Share (0 to 1) of the time of sending in which its busiest thread ran; absent if unknown.
    pub busiest_thread: Option<f64>,
    /// Number of its threads that ran for a hundredth of the time of sending or longer; absent if
    /// unknown.
    pub threads: Option<u32>,
    /// Mean time of a fixed piece of arithmetic on the server's cores in the time of sending, in nanoseconds: more on slower cores. Absent
    /// for others, and where it was not measured.
    pub work_ns: Option<u64>,
    /// Longest time among the fastest tenth of these pieces of work, in nanoseconds: about what one takes while no neighbour is busy.
    pub best_work_ns: Option<u64>,
    /// The shortest `best_work_ns` of these cores since the run began, also before an interruption: the time of the piece at their full speed, in nanoseconds.
    pub full_speed_work_ns: Option<u64>,
    /// Share (0 to 1) of the trial in which the role was ready to run but did not; absent if not visible.
    pub run_delay: Option<f64>,
    /// The same wait without the time used by the role's own threads and the kernel's work for
    /// packets, so only the wait for others; absent if unknown.
    pub waited: Option<f64>,
    /// Share (0 to 1) of its cores that processes outside the testbed and the hypervisor used;
    /// absent if unknown.
    pub foreign: Option<f64>,
    /// Cores of the role; empty if it may run on any.
    pub cpus: Vec<usize>,
}

impl Cpu {
    /// Returns the number of cores whose time it could have.
    pub fn cores(&self) -> f64 {
        self.limit_cores.unwrap_or(self.cpus.len() as f64)
    }

    /// Returns the role's shares and times whose digits exceed their precision.
    pub(crate) fn measured_mut(&mut self) -> impl Iterator<Item = &mut f64> {
        let programs = self.programs.iter_mut().flat_map(|p| [&mut p.ran_s, &mut p.counting_s]);
        let known = [
            &mut self.softirq_s,
            &mut self.irq_s,
            &mut self.kernel_threads_s,
            &mut self.spent_s,
            &mut self.kernel_s,
            &mut self.busiest_thread,
            &mut self.run_delay,
            &mut self.waited,
            &mut self.foreign,
        ];
        let always = [&mut self.user_s, &mut self.system_s, &mut self.busy];
        always.into_iter().chain(known.into_iter().flatten()).chain(programs)
    }

    /// Returns the share (0 to 1) of the role's cores that other processes left.
    pub fn left(&self) -> f64 {
        (1.0 - self.foreign.unwrap_or(0.0)).max(0.01)
    }

    /// Returns the share (0 to 1 and above) of its cores that the role used in `seconds` of
    /// sending, relative to the time that other processes left; `None` if unknown.
    pub fn used(&self, seconds: f64) -> Option<f64> {
        let counting_s = self.programs.map_or(0.0, |programs| programs.counting_s);
        Some((self.spent_s? + counting_s) / (self.cores() * seconds.max(1e-9) * self.left()))
    }
}

/// Datagrams and packets dropped during a trial, by place, and connections that were not accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Drops {
    /// Datagrams dropped in the Tester's receive queues.
    pub tester_receive: u64,
    /// Datagrams dropped in the AuthDNS's receive queues.
    pub authdns_receive: u64,
    /// Datagrams dropped in the DUT's receive queues.
    pub dut_receive: u64,
    /// Number of connections that the DUT did not accept in time (accept queue full); absent if none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dut_not_taken: u64,
    /// Packets dropped on the links of the testbed.
    pub link: u64,
    /// Datagrams that the Tester's kernel did not accept for sending.
    pub tester_send: u64,
}

/// Conditions of a trial. In a run, `shared` of the cell has those that most of its trials have.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = none_required)]
pub struct Conditions {
    /// Start of the trial, in seconds since 1970; absent if not known.
    pub started_unix_s: Option<f64>,
    /// Version of dnsdyno that made the trial.
    pub version: String,
    /// Command line; of a trial of an experiment without the options in which the trials of a cell differ.
    pub command: String,
    /// The other options, which follow `command`; absent if there are none.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub options: String,
    /// Address and port of the server.
    pub target: String,
    /// Transport of the queries: udp, tcp, tls and so on.
    #[serde(default)]
    pub transport: String,
    /// Engine that carried the queries.
    pub engine: Option<EngineKind>,
    /// Description of the queries, in words.
    pub workload: String,
    /// Number of names of a namespace, and the first of them; absent for other workloads.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub names: String,
    /// Pacing of the queries, as in arguments.
    #[schemars(with = "String")]
    pub pacing: RecordedPacing,
    /// Timeout of one query, in seconds.
    pub timeout_s: f64,
    /// Longest time that a due query may be held back to leave together with others, in microseconds.
    pub max_burst_us: f64,
    /// Number of connected sockets over all workers.
    pub sockets: usize,
    /// Number of workers, one thread each.
    pub workers: usize,
    /// Cores of the workers; empty if they may run on any.
    pub cpus: Vec<usize>,
    /// Method of waiting of the workers: spin, yield, sleep or auto.
    pub wait: String,
    /// Whether segmentation offload was used for sending.
    pub gso: bool,
    /// Whether replies were received coalesced (UDP_GRO).
    pub gro: bool,
    /// Whether the kernel timestamped arrivals.
    pub timestamps: bool,
    /// Size of the receive buffer of each socket, in bytes.
    pub receive_buffer: usize,
    /// Seed of all random choices.
    pub seed: u64,
    /// Slice of the load that was sent; the whole if absent.
    #[serde(with = "text", skip_serializing_if = "Slice::is_whole", default)]
    #[schemars(with = "String")]
    pub slice: Slice,
    /// Start that several Testers had agreed on; absent without one.
    pub agreed_start: Option<AgreedStart>,
    /// Attack on the server during the trial; absent without one.
    pub attack: Option<Attack>,
    /// Kind of the testbed's links; absent without a testbed.
    pub link: Option<Link>,
    /// Path of datagrams over the links; absent if unknown.
    pub path: Option<Path>,
}

/// Marks in a schema each member as optional, since it may be elsewhere.
fn none_required(schema: &mut Schema) {
    schema.remove("required");
}

/// False, or the reason why a trial is void.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Voidness(pub Option<Void>);

impl Voidness {
    /// Returns whether the trial is void.
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
        enum BoolOrReason {
            Bool(bool),
            Why(Void),
        }
        match BoolOrReason::deserialize(deserializer)? {
            BoolOrReason::Bool(false) => Ok(Voidness(None)),
            BoolOrReason::Bool(true) => Err(de::Error::custom("`void` is false or the reason")),
            BoolOrReason::Why(why) => Ok(Voidness(Some(why))),
        }
    }
}

impl JsonSchema for Voidness {
    fn schema_name() -> Cow<'static, str> {
        "Voidness".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "False, or the reason why the trial is void.",
            "anyOf": [{ "const": false }, generator.subschema_for::<Void>()],
        })
    }
}
