//! The capacity of a server from rounds of closed loops, with its basis; the method `capacity` makes it.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

/// Valid answers a second that a server can give, from all rounds of its cell.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerCapacity {
    /// Capacity, in valid answers a second.
    pub qps: f64,
    /// Lower end of the capacity's interval, in answers a second.
    pub low_qps: f64,
    /// Upper end of the capacity's interval, in answers a second.
    pub high_qps: f64,
    /// Confidence (0 to 1) of the interval.
    pub confidence: f64,
    /// Basis of the capacity.
    pub basis: Basis,
    /// Whether the server can do more than `qps`: the Tester ended first, far from the server's limit.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub exceeded: bool,
    /// CPU time of the server for each valid answer (service demand) at the full speed of its
    /// cores, in microseconds; absent if unknown.
    pub cpu_us_per_answer: Option<f64>,
    /// CPU time over streams for a query, and for a new connection; absent where the loops opened
    /// no connections.
    pub streams: Option<StreamDemand>,
    /// Number of rounds that the capacity is from.
    pub rounds: u32,
    /// Number of queries outstanding in the closed loops.
    pub window: u32,
    /// Observations of the server's limit, and reasons why its CPU time is unknown.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub seen: Vec<Seen>,
}

/// CPU time of a server over streams for each query and for each new connection, each with its interval, in microseconds at the full
/// speed of its cores.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StreamDemand {
    /// CPU time for each query without its connection.
    pub cpu_us_per_query: f64,
    /// Lower end of the time's interval, with the confidence of the capacity.
    pub query_low_us: f64,
    /// Upper end of the time's interval.
    pub query_high_us: f64,
    /// CPU time for each new connection, its end included.
    pub cpu_us_per_connection: f64,
    /// Lower end of the interval.
    pub connection_low_us: f64,
    /// Upper end of the interval.
    pub connection_high_us: f64,
}

/// Basis of a capacity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// The server's CPU was the limit: cores divided by the demand.
    Saturated,
    /// The server answered no more although CPU was left, or its CPU time is not known: the
    /// capacity is the measured answers a second.
    #[default]
    Plateau,
    /// The Tester reached its limit first: cores divided by the demand at the reached rate.
    Demand,
}

measure::words! { Basis { Saturated = "saturated", Plateau = "plateau", Demand = "demand" } }

/// Observation of the limit of a server, or reason why its CPU time is unknown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Seen {
    /// Share (0 to 1) of the CPU that the server could have and did not use.
    CpuLeft(f64),
    /// Share (0 to 1) of the time in which the server's busiest thread ran, while its cores had time left.
    FullThread(f64),
    /// Share (0 to 1) of the queries that got no valid answer in time.
    Unanswered(f64),
    /// Share (0 to 1) of the server's CPU time for dropped queries: the time beyond that which
    /// loops without loss need for the valid answers.
    CpuOfUnanswered(f64),
    /// Share (0 to 1) of the time in which the Tester's core was busy.
    TesterBusy(f64),
    /// Share (0 to 1) of a core that the server uses without queries: it polls, so that its CPU
    /// time shows no limit.
    Polls(f64),
    /// The server may run on the cores of the Tester or of others of the testbed, whose packet work
    /// cannot be separated from its own: its CPU time is the time of its processes, and a plateau
    /// may be the limit of the cores.
    SharedCore,
    /// The server's CPU time is not visible.
    NoCpu,
    /// Programs in the kernel do the work, and what the kernel spends on it is not known: the user may not count it, it is not on the
    /// server's cores, or others on these were billed for part of it.
    InKernel,
    /// An open loop had this number of valid answers a second, more than the closed loops.
    OpenLoop(f64),
    /// Share (0 to 1) of the server's or the Tester's cores that other processes used, so that a
    /// plateau may not be the server's limit.
    Others(f64),
    /// Share (0 to 1) of their full speed at which the server's cores ran; the capacity is at full speed.
    SlowCore(f64),
}

impl Seen {
    /// Returns whether the observation makes the CPU time of the server unknown, so that only a
    /// plateau can be reported.
    pub fn hides_cpu(&self) -> bool {
        matches!(self, Seen::Polls(_) | Seen::NoCpu | Seen::InKernel)
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: &f64| share * 100.0;
        match self {
            Seen::CpuLeft(share) => {
                write!(f, "the server left {:.0} % of its CPU time unused", percent(share))
            }
            Seen::FullThread(share) => write!(
                f,
                "the server's busiest thread ran {:.0} % of the time, while its cores had time left",
                percent(share)
            ),
            Seen::Unanswered(share) => {
                write!(f, "{:.1} % of the queries got no valid answer in time", percent(share))
            }
            Seen::CpuOfUnanswered(share) => write!(
                f,
                "queries without a valid answer took about {:.0} % of the server's CPU time",
                percent(share)
            ),
            Seen::TesterBusy(share) => write!(
                f,
                "the Tester's core was {:.0} % busy: a faster Tester (a second core, --engine kernel) shows more",
                percent(share)
            ),
            Seen::Polls(share) => write!(
                f,
                "the server uses {:.0} % of a core without queries: it polls, so its CPU time does not show its load",
                percent(share)
            ),
            Seen::SharedCore => f.write_str(
                "the server shares cores with the Tester: only the time of its own processes is counted",
            ),
            Seen::Others(share) => write!(
                f,
                "other processes used {:.0} % of its cores or the Tester's: without these it may answer more",
                percent(share)
            ),
            Seen::SlowCore(share) => write!(
                f,
                "the server's cores ran at {:.0} % of their full speed; the capacity was converted to full speed",
                percent(share)
            ),
            Seen::NoCpu => f.write_str("the server's CPU time was not counted"),
            Seen::InKernel => f.write_str(
                "programs in the kernel answer, and the kernel's CPU time for them is not known",
            ),
            Seen::OpenLoop(qps) => {
                write!(
                    f,
                    "a constant rate got {qps:.0} answers a second: the closed loop was the limit"
                )
            }
        }
    }
}

/// One round of a cell: a closed loop at its window.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Round {
    /// Number of the round, from 0.
    pub round: u32,
    /// Valid answers a second while queries were sent.
    pub qps: f64,
    /// CPU time of the server for each valid answer, in microseconds; absent where it is not known.
    pub cpu_us_per_answer: Option<f64>,
    /// Mean time of a fixed piece of arithmetic on the server's cores during the loop, in nanoseconds; absent where it was not measured.
    pub work_ns: Option<u64>,
    /// Shortest time of this piece on the same cores since the run began, in nanoseconds: the time at their full speed.
    pub full_speed_work_ns: Option<u64>,
    /// Part of this CPU time in the server's programs in the kernel, in microseconds; absent
    /// without such programs, and where they are not counted.
    pub programs_us_per_answer: Option<f64>,
    /// Number of cores whose time the server could have; absent where its CPU time is not known.
    pub cores: Option<f64>,
    /// Share (0 to 1 and above) of the server's cores that it used, of the time that other
    /// processes left; absent if unknown.
    pub busy: Option<f64>,
    /// Share (0 to 1) of the time in which the server's busiest thread ran; absent if unknown, and
    /// for a single thread on one core.
    pub busiest_thread: Option<f64>,
    /// Share (0 to 1) of the Tester's cores that the Tester and the AuthDNS used, of the time that
    /// other processes left.
    pub tester_busy: Option<f64>,
    /// Share (0 to 1) of the server's cores that others used.
    pub foreign: Option<f64>,
    /// Share (0 to 1) of the Tester's cores that others used; where the server's processes are not known the share of the time in which
    /// the Tester waited for a core, if it is over a tenth.
    pub tester_foreign: Option<f64>,
    /// Share (0 to 1) of the queries without a valid answer in time.
    pub unanswered: f64,
    /// Connections opened for each valid answer; absent for loops that keep their connections.
    pub connections_per_answer: Option<f64>,
}

impl Round {
    /// Returns the speed of the server's cores as a share (0 to 1) of their full speed, at which the piece of arithmetic takes
    /// `full_speed_work_ns`; `None` where it was not measured.
    pub fn core_speed(&self, full_speed_work_ns: u64) -> Option<f64> {
        Some((full_speed_work_ns as f64 / self.work_ns?.max(1) as f64).min(1.0))
    }

    /// Returns the share (0 to 1) of the server's cores or of the Tester's that others used, the larger one.
    pub fn others(&self) -> f64 {
        self.foreign.unwrap_or(0.0).max(self.tester_foreign.unwrap_or(0.0))
    }
}

/// One step of the search for the window of a cell. After the first with a highest rate all last for whole seconds.
#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WindowStep {
    /// Number of queries outstanding in this step.
    pub window: u32,
    /// Highest rate of the queries, in queries a second; absent without one.
    pub most_qps: Option<f64>,
    /// Valid answers a second in this step.
    pub qps: f64,
    /// CPU time of the server for each valid answer, in microseconds; absent where it is not known.
    pub cpu_us_per_answer: Option<f64>,
    /// Answers a second at which the server's CPU would be used up; absent if it used less than 90
    /// % of the time that other processes left.
    pub limit_qps: Option<f64>,
    /// Mean time of a fixed piece of arithmetic on the server's cores during the loop, in nanoseconds; absent where it was not measured.
    pub work_ns: Option<u64>,
    /// Share (0 to 1) of the queries without a valid answer in time.
    pub unanswered: f64,
    /// Share (0 to 1) of the queries without any answer in time.
    #[serde(default)]
    pub lost: f64,
}

/// Latency and loss of a server at a share of its capacity, from open loops.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadPoint {
    /// Requested share (0 to 1) of the capacity at the speed that the cores had.
    pub share: f64,
    /// Queries a second that the Tester was to send.
    pub asked_qps: f64,
    /// Queries that the Tester sent a second; fewer if it cannot offer them.
    pub offered_qps: f64,
    /// Valid answers a second during the sending.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub answered_qps: Option<f64>,
    /// Whether the Tester offered the requested rate.
    pub reached: bool,
    /// Median of the latency, in microseconds.
    pub p50_us: f64,
    /// 90th percentile of the latency, in microseconds.
    pub p90_us: f64,
    /// 99th percentile of the latency, in microseconds.
    pub p99_us: f64,
    /// Share (0 to 1) of the queries without a valid answer in time.
    pub unanswered: f64,
    /// Share (0 to 1) of the queries that left later than the schedule allows.
    pub late_departures: f64,
}

impl LoadPoint {
    /// Largest share of late departures of a load that the Tester offered; the latency of others is
    /// partly the Tester's.
    pub const MAX_LATE_SHARE: f64 = 0.01;

    /// Share of a rate that counts as the whole rate.
    const WHOLE_RATE: f64 = 0.98;

    /// Returns whether the Tester offered the requested rate, whether late or not.
    pub fn is_offered(&self) -> bool {
        self.offered_qps >= Self::WHOLE_RATE * self.asked_qps
    }

    /// Returns the share (0 to 1) of the capacity that the Tester offered.
    pub fn offered_share(&self) -> f64 {
        self.share * self.offered_qps / self.asked_qps.max(1e-9)
    }
}

/// Ratio of a cell's capacity to the baseline's at the same settings, paired by round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CapacityRatio {
    /// Name of the server that the ratio is to.
    pub baseline: String,
    /// Speed of the server as a multiple of the baseline's.
    pub value: f64,
    /// Lower end of the interval, with the confidence of the capacity.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}
