//! Reasons why a trial is no result about the server.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::histogram::Histogram;
use crate::stall::Stall;
use crate::units::Nanos;
use crate::warning::{foreign_on_server, server_waited, slow_core};

/// Why a trial says nothing. To add a reason: a variant, its sentence in `Display`, its limiter.
/// The JSON has the name of the variant in kebab case: it is never renamed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum Void {
    /// Queries left too late, or not all that were planned left.
    ScheduleNotKept {
        /// Share (0 to 1) of the queries that left later than the tolerance.
        late: f64,
        /// Time by which a query may leave late.
        #[serde(rename = "tolerance_ns")]
        tolerance: Nanos,
        /// Share (0 to 1) of the planned queries that were sent.
        sent: f64,
    },
    /// The Tester waited for its CPU, or another process used it.
    Starved {
        /// Share (0 to 1) of the trial that the Measurer was ready to run and did not.
        run_delay: f64,
        /// Share (0 to 1) of the Tester's cores that other processes used.
        foreign: f64,
    },
    /// Processes that are not of the testbed used the server's cores, and the trial missed its goal.
    ForeignOnServer {
        /// Share (0 to 1) of these cores.
        share: f64,
    },
    /// The server was ready to run and others ran on its cores, and the trial missed its goal.
    ServerWaited {
        /// Share (0 to 1) of the time of sending.
        share: f64,
    },
    /// The server's cores were slower than at their best, and the trial missed its goal.
    SlowCore {
        /// Share (0 to 1) of that speed that they lacked.
        share: f64,
    },
    /// The trial failed by losses at times when a core stood still or queries left late.
    Stalled {
        /// Queries without a valid reply in time.
        lost: u64,
        /// Lost queries that were due near a stall or a late departure.
        by_stalls: u64,
        /// The longest stall by such a loss.
        longest: Stall,
    },
    /// A moderated link received on another core than its host's.
    LinkUnseated {
        /// Number of packets received by each core.
        seen: String,
    },
    /// The trial was interrupted by the user.
    Interrupted,
    /// No query was sent at all.
    NothingSent,
    /// The Tester's own device dropped queries, and the trial did not pass.
    NotSent {
        /// Number of queries that the device dropped.
        queries: u64,
    },
    /// The Tester's own device went away, was switched off or lost its carrier.
    LinkLost {
        /// Name of the network device.
        device: String,
    },
    /// The updates that accompany the queries ended before the queries.
    UpdatesRanOut {
        /// Time until the last update, in seconds.
        after_s: f64,
    },
    /// The server did not answer the legitimate load of a drill before the attack.
    UnansweredBefore {
        /// Share (0 to 1) of the valid answers in time.
        share: f64,
        /// Share (0 to 1) that has to get one.
        least: f64,
    },
    /// The parts of a load on several hosts did not start together.
    StartSpread {
        /// Largest time between two starts, the errors of the clocks included.
        #[serde(rename = "spread_ns")]
        spread: Nanos,
        /// Largest permitted value.
        #[serde(rename = "bound_ns")]
        bound: Nanos,
    },
    /// A part of a load on several hosts is void.
    Part {
        /// The part, such as `2/3 (b.json)`.
        part: String,
        /// Why that part is void.
        why: Box<Void>,
    },
    /// The Tester of a part was lost during the trial: it died, hung, was cut off or did not end its trial in time.
    TesterLost {
        /// Evidence of the loss.
        why: String,
    },
}

impl Void {
    /// Returns whether a trial at a lower rate may be sound where this one is not.
    pub fn depends_on_rate(&self) -> bool {
        match self {
            // At lower rates the Tester, and a server on the same cores, need less CPU time; other
            // processes do not.
            Void::Starved { run_delay, foreign } => run_delay > foreign,
            Void::ScheduleNotKept { .. } | Void::NotSent { .. } => true,
            Void::Part { why, .. } => why.depends_on_rate(),
            _ => false,
        }
    }

    /// Returns what the user can do about it; `None` if nothing is known, or the user caused it.
    pub fn remedy(&self) -> Option<&'static str> {
        Some(match self {
            Void::ScheduleNotKept { .. } | Void::NotSent { .. } => {
                "take lower rates, or give the Tester more cores"
            }
            Void::Starved { .. } => {
                "leave the Tester cores of its own (`--cpus 0`, and `taskset -c 1` before the server), or stop what else runs there"
            }
            Void::ForeignOnServer { .. } | Void::ServerWaited { .. } => {
                "give the server cores of its own, or stop the other programs on its cores"
            }
            Void::SlowCore { .. } | Void::Stalled { .. } => {
                "this host has busy neighbours: measure again later, or on another host"
            }
            Void::LinkUnseated { .. } | Void::TesterLost { .. } => "run the command again",
            Void::LinkLost { .. } => "bring the device up, and run the command again",
            Void::UpdatesRanOut { .. } => "make more updates, or shorter trials",
            Void::StartSpread { .. } => "check the clocks of the Testers",
            Void::Part { why, .. } => return why.remedy(),
            Void::Interrupted | Void::NothingSent | Void::UnansweredBefore { .. } => return None,
        })
    }

    /// Returns the rank of the reason; the lowest is named: what ended the trial, then the Tester's
    /// part (a slice of the load before the whole), then the server's.
    pub(crate) fn rank(&self) -> u8 {
        match self {
            Void::Interrupted | Void::LinkLost { .. } | Void::TesterLost { .. } => 0,
            Void::Part { why, .. } if matches!(**why, Void::TesterLost { .. }) => 0,
            Void::NothingSent => 1,
            Void::Starved { .. } | Void::Part { .. } => 2,
            Void::ScheduleNotKept { .. } => 3,
            Void::StartSpread { .. } => 4,
            Void::Stalled { .. } | Void::NotSent { .. } => 5,
            Void::ForeignOnServer { .. } | Void::ServerWaited { .. } | Void::SlowCore { .. } => 6,
            Void::LinkUnseated { .. }
            | Void::UpdatesRanOut { .. }
            | Void::UnansweredBefore { .. } => 7,
        }
    }

    /// Returns whether the machine was disturbed: an estimate from many trials still learns from this one.
    pub fn is_disturbance(&self) -> bool {
        matches!(
            self,
            Void::ScheduleNotKept { .. }
                | Void::Starved { .. }
                | Void::ForeignOnServer { .. }
                | Void::ServerWaited { .. }
                | Void::SlowCore { .. }
                | Void::Stalled { .. }
        )
    }
}

impl fmt::Display for Void {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Void::ScheduleNotKept { late, tolerance, sent } => write!(
                f,
                "the schedule was not kept: {:.2} % of the queries left more than {tolerance} late, {:.2} % of the planned ones were sent",
                late * 100.0,
                sent * 100.0
            ),
            Void::Starved { run_delay, foreign } => {
                let waited = run_delay * 100.0;
                write!(
                    f,
                    "the Tester was starved: it waited for its CPU {waited:.0} % of the time"
                )?;
                // A short trial does not show it.
                match foreign * 100.0 {
                    0.0 => Ok(()),
                    used => write!(f, ", other processes used {used:.0} % of its cores"),
                }
            }
            Void::ForeignOnServer { share } => {
                f.write_str(&foreign_on_server(&format!("{:.0}", share * 100.0)))
            }
            Void::ServerWaited { share } => {
                f.write_str(&server_waited(&format!("{:.0}", share * 100.0)))
            }
            Void::SlowCore { share } => f.write_str(&slow_core(&format!("{:.0}", share * 100.0))),
            Void::Stalled { lost, by_stalls, longest } => write!(
                f,
                "{by_stalls} of {lost} lost queries were due near a stall or a late departure, the longest {longest}"
            ),
            Void::LinkUnseated { seen } => {
                write!(f, "a moderated link received on the wrong core: {seen}")
            }
            Void::Interrupted => f.write_str("interrupted"),
            Void::NothingSent => f.write_str("nothing was sent"),
            Void::NotSent { queries } => {
                write!(f, "the Tester's own device dropped {queries} queries")
            }
            Void::LinkLost { device } => {
                write!(f, "the Tester's device {device} was removed or lost its link")
            }
            Void::UpdatesRanOut { after_s } => {
                write!(f, "the updates ran out after {after_s:.1} s")
            }
            Void::UnansweredBefore { share, least } => write!(
                f,
                "the server did not answer the legitimate load before the attack: {:.1} % of its queries got a valid answer in time, at least {:.0} % are required",
                share * 100.0,
                least * 100.0
            ),
            Void::StartSpread { spread, bound } => write!(
                f,
                "the parts started up to {:.3} ms apart, {:.3} ms are allowed",
                spread.as_secs_f64() * 1e3,
                bound.as_secs_f64() * 1e3
            ),
            Void::Part { part, why } => write!(f, "part {part}: {why}"),
            Void::TesterLost { why } => write!(f, "the Tester was lost: {why}"),
        }
    }
}

/// How much an open loop may deviate from its schedule before its trial is void.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScheduleTolerance {
    /// Delay after its due time from which on a query is late.
    pub late_after: Nanos,
    /// Highest share (0 to 1) of late queries.
    pub max_late: f64,
    /// Lowest share (0 to 1) of the planned queries that must be sent.
    pub min_sent: f64,
}

impl Default for ScheduleTolerance {
    /// Returns 1 ms, 3 %, 99.9 %.
    ///
    /// RFC 8219 has a timeout of 1 s and a self-test at 0.25 s. A millisecond is small compared with both,
    /// and large compared with scheduling delays of a Measurer with its own core. Virtual machines lose up to
    /// 10 ms at a time to their host, 0.5 % of the time and more, which is not reported as steal time; while
    /// the Measurer catches up, 1 % of the queries are late.
    fn default() -> Self {
        ScheduleTolerance { late_after: Nanos::from_millis(1), max_late: 0.03, min_sent: 0.999 }
    }
}

impl ScheduleTolerance {
    /// Returns why a finished trial is void by its schedule errors, or since the load handed on only `sent` of its
    /// `planned` queries; `None` if it is valid. For random arrivals `planned` is the number that was drawn.
    pub fn verdict(&self, planned: u64, sent: u64, errors: &Histogram) -> Option<Void> {
        if sent == 0 {
            return Some(Void::NothingSent);
        }
        let late = errors.count_above(self.late_after) as f64 / errors.count().max(1) as f64;
        let sent = sent as f64 / planned.max(1) as f64;
        (late > self.max_late || sent < self.min_sent).then_some(Void::ScheduleNotKept {
            late,
            tolerance: self.late_after,
            sent,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stall::Side;

    #[test]
    fn reasons_have_stable_names_and_their_data() {
        let late =
            Void::ScheduleNotKept { late: 0.25, tolerance: Nanos::from_millis(1), sent: 1.0 };
        let table = [
            (
                late,
                r#"{"reason":"schedule-not-kept","late":0.25,"tolerance_ns":1000000,"sent":1.0}"#,
                "the schedule was not kept: 25.00 % of the queries left more than 1ms late, 100.00 % of the planned ones were sent",
            ),
            (
                Void::Starved { run_delay: 0.5, foreign: 0.0 },
                r#"{"reason":"starved","run_delay":0.5,"foreign":0.0}"#,
                "the Tester was starved: it waited for its CPU 50 % of the time",
            ),
            (
                Void::ForeignOnServer { share: 0.3 },
                r#"{"reason":"foreign-on-server","share":0.3}"#,
                "processes that are not of the testbed used 30 % of the server's cores",
            ),
            (
                Void::ServerWaited { share: 0.06 },
                r#"{"reason":"server-waited","share":0.06}"#,
                "the server waited 6 % of the time for its cores while others ran there",
            ),
            (
                Void::SlowCore { share: 0.16 },
                r#"{"reason":"slow-core","share":0.16}"#,
                "the server's core was 16 % slower than at its best",
            ),
            (
                Void::Stalled {
                    lost: 12,
                    by_stalls: 12,
                    longest: Stall {
                        side: Side::Dut,
                        at: Nanos::from_secs(5),
                        length: Nanos::from_micros(8_250),
                    },
                },
                r#"{"reason":"stalled","lost":12,"by_stalls":12,"longest":{"side":"dut","at_ns":5000000000,"length_ns":8250000}}"#,
                "12 of 12 lost queries were due near a stall or a late departure, the longest 8.2 ms of the server's core",
            ),
            (Void::NothingSent, r#"{"reason":"nothing-sent"}"#, "nothing was sent"),
            (
                Void::NotSent { queries: 7 },
                r#"{"reason":"not-sent","queries":7}"#,
                "the Tester's own device dropped 7 queries",
            ),
            (
                Void::LinkLost { device: "v0".into() },
                r#"{"reason":"link-lost","device":"v0"}"#,
                "the Tester's device v0 was removed or lost its link",
            ),
            (
                Void::UpdatesRanOut { after_s: 2.0 },
                r#"{"reason":"updates-ran-out","after_s":2.0}"#,
                "the updates ran out after 2.0 s",
            ),
            (
                Void::UnansweredBefore { share: 0.125, least: 0.9 },
                r#"{"reason":"unanswered-before","share":0.125,"least":0.9}"#,
                "the server did not answer the legitimate load before the attack: 12.5 % of its queries got a valid answer in time, at least 90 % are required",
            ),
            (
                Void::StartSpread {
                    spread: Nanos::from_micros(1_500),
                    bound: Nanos::from_millis(1),
                },
                r#"{"reason":"start-spread","spread_ns":1500000,"bound_ns":1000000}"#,
                "the parts started up to 1.500 ms apart, 1.000 ms are allowed",
            ),
            (
                Void::Part { part: "2/3 (b.json)".into(), why: Box::new(Void::NothingSent) },
                r#"{"reason":"part","part":"2/3 (b.json)","why":{"reason":"nothing-sent"}}"#,
                "part 2/3 (b.json): nothing was sent",
            ),
            (
                Void::TesterLost { why: "silent for 10s".into() },
                r#"{"reason":"tester-lost","why":"silent for 10s"}"#,
                "the Tester was lost: silent for 10s",
            ),
        ];
        for (void, json, sentence) in table {
            assert_eq!(serde_json::to_string(&void).expect("serialises"), json);
            assert_eq!(serde_json::from_str::<Void>(json).expect("reads"), void);
            assert_eq!(void.to_string(), sentence);
        }
    }

    #[test]
    fn schedules_get_a_verdict() {
        let tolerance = ScheduleTolerance::default();
        let mut errors = Histogram::new();
        assert_eq!(tolerance.verdict(100, 0, &errors), Some(Void::NothingSent));
        for _ in 0..970 {
            errors.record(Nanos::from_micros(20));
        }
        for _ in 0..30 {
            errors.record(Nanos::from_millis(3));
        }
        assert_eq!(tolerance.verdict(1_000, 1_000, &errors), None);
        assert!(matches!(
            tolerance.verdict(1_002, 1_000, &errors),
            Some(Void::ScheduleNotKept { .. })
        ));
        errors.record(Nanos::from_millis(3));
        assert!(matches!(
            tolerance.verdict(1_001, 1_001, &errors),
            Some(Void::ScheduleNotKept { .. })
        ));
    }
}
