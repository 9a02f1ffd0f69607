//! The merge: combines the workers' reports into the result of one trial, with the Tester's own
//! facts.

use std::collections::BTreeMap;

use engine::EngineCounters;
use load::Tally;
use measure::limiter::MAX_RUN_DELAY;
use measure::{
    Disturbances, Evidence, Facts, Nanos, Outstanding, Pacing, Path, Qps, Transport, Void, Warning,
};
use record::{
    AgreedStart, Conditions, Cpu, Drops, Octets, SCHEMA, Second, Step, Steps, TargetOutcome, Times,
    Trial, TrialResult,
};
use udp::{UdpFacts, sys};
use wire::{Invalid, rr::Rcode};

use crate::connections::{ConnectionReport, ConnectionSetup};
use crate::local_server::ServerSeen;
use crate::setup::Setup;
use crate::unix_now;
use crate::worker::Report;
use crate::workload::WorkloadPlan;

/// Observations of a trial in addition to the reports of its workers.
pub(crate) struct TrialObservations {
    pub(crate) facts: UdpFacts,
    /// Observed start, if one was agreed.
    pub(crate) agreed: Option<AgreedStart>,
    /// Stalls of the cores that were watched.
    pub(crate) disturbances: Disturbances,
    /// Cores of the workers; empty if they may run on any.
    pub(crate) pinned: Vec<usize>,
    /// Share (0 to 1) of the workers' cores, or of all on which they may run, that other processes used.
    pub(crate) foreign: Option<f64>,
    /// Warning about the process that used most of these cores.
    pub(crate) taken: Option<Warning>,
    /// Warning about a core that the worker avoided.
    pub(crate) avoided: Option<Warning>,
    /// Observations of a server on this host.
    pub(crate) server: ServerSeen,
    pub(crate) interrupted: bool,
    /// Device of the programs in the kernel, if it lost its link during the trial.
    pub(crate) link_lost: Option<String>,
}

impl TrialObservations {
    /// Returns why a trial is void that did not last to its end.
    fn cut_short(&self) -> Option<Void> {
        let lost = self.link_lost.clone().map(|device| Void::LinkLost { device });
        if self.interrupted { Some(Void::Interrupted) } else { lost }
    }

    /// Returns the warnings about the workers' cores, if they are the Tester's own, and about the
    /// avoided ones.
    fn of_cores(&self, own: bool) -> impl Iterator<Item = Warning> {
        self.taken.clone().filter(|_| own).into_iter().chain(self.avoided.clone())
    }
}

/// Sum of the workers' reports.
struct MergedReports {
    tally: Tally,
    counters: EngineCounters,
    connections: Option<ConnectionReport>,
    elapsed: Nanos,
    cpu: Nanos,
    run_delay: Option<Nanos>,
}

impl MergedReports {
    fn new(reports: Vec<Report>) -> Self {
        let (mut cpu, mut run_delay, mut elapsed) = (Nanos::ZERO, None, Nanos::ZERO);
        let mut counters = EngineCounters::default();
        let mut merged: Option<Tally> = None;
        let mut connections: Option<ConnectionReport> = None;
        let mut drops: BTreeMap<u64, u64> = BTreeMap::new();
        for report in reports {
            let spent = report.spent;
            cpu += spent.cpu;
            elapsed = elapsed.max(spent.elapsed);
            run_delay =
                spent.run_delay.map(|delay| run_delay.unwrap_or(Nanos::ZERO) + delay).or(run_delay);
            counters.merge(&report.counters);
            for (socket, dropped) in report.drops {
                let known = drops.entry(socket).or_default();
                *known = dropped.max(*known);
            }
            if let Some(report) = report.connections {
                connections.get_or_insert_default().merge(&report);
            }
            match &mut merged {
                None => merged = Some(report.tally),
                Some(all) => all.merge(&report.tally),
            }
        }
        counters.dropped += drops.values().sum::<u64>();
        let tally = merged.expect("there is at least one worker");
        MergedReports { tally, counters, connections, elapsed, cpu, run_delay }
    }
}

impl Setup {
    /// Merges the reports of all workers into one result.
    pub(crate) fn conclude(&self, reports: Vec<Report>, seen: &TrialObservations) -> TrialResult {
        let (workers, merged) = (reports.len(), MergedReports::new(reports));
        let MergedReports { mut tally, counters, connections, elapsed, cpu, run_delay } = merged;
        tally.disturbances.merge(&seen.disturbances);
        let most = self.workload.most_queries(self.request.slice, &tally);
        tally.planned = tally.planned.min(most);
        let (facts, pinned, sockets) = (seen.facts, &seen.pinned, &self.request.sockets);
        let cores = if pinned.is_empty() { workers } else { pinned.len() };
        let of_cores =
            |time: Nanos| time.as_secs_f64() / elapsed.as_secs_f64().max(1e-9) / cores as f64;
        // Workers that share a core wait for each other.
        let run_delay = run_delay.map(of_cores).filter(|_| self.request.loops() == 1);
        let busy = (of_cores(cpu) + self.put_off(run_delay, seen.foreign)).min(1.0);
        // A Tester without its own core that did not wait for one disturbed no process.
        let waited = run_delay.is_some_and(|delay| delay > MAX_RUN_DELAY);
        let has_own = waited || !sockets.cpus.is_empty();
        let connections = self.connections.as_ref().zip(connections).map(|(setup, report)| {
            let record = setup.record(&report, self.request.slice, workers as u32);
            (record, setup.warnings(&report, self.request.pacing))
        });
        let evidence = Evidence {
            tester_run_delay: run_delay.filter(|_| !sockets.shared_core),
            foreign_busy: seen.foreign.filter(|_| has_own && !sockets.shared_core),
            input_waited: tally.starved_share(),
            dut_busy: seen.server.saturated(),
            ..Evidence::default()
        };
        let role_cpu = Cpu {
            user_s: cpu.as_secs_f64(),
            busy,
            run_delay,
            foreign: seen.foreign.filter(|_| has_own),
            cpus: pinned.clone(),
            ..Cpu::default()
        };
        let mut trial = self.record(&tally, facts, workers, seen.interrupted);
        trial.cpu = [("tester".to_owned(), role_cpu)].into();
        trial.drops = Drops {
            tester_receive: counters.dropped,
            tester_send: counters.send_errors,
            dut_receive: seen.server.drops,
            ..Drops::default()
        };
        trial.warnings.extend(self.warnings(&tally, &counters, facts));
        trial.warnings.extend(seen.of_cores(has_own && !sockets.shared_core));
        if let Some((record, warnings)) = connections {
            trial.warnings.extend(record.places().too_few().into_iter().chain(warnings));
            trial.connections = Some(record);
        }
        (trial.conditions.cpus, trial.conditions.agreed_start) = (pinned.clone(), seen.agreed);
        trial.conditions.started_unix_s = Some(unix_now() - elapsed.as_secs_f64());
        let doubts = seen.cut_short().into_iter().chain(self.not_sent(&trial)).collect();
        let facts = Facts { doubts, evidence, ..Facts::default() };
        TrialResult::new(trial, self.request.goal.clone(), facts)
    }

    /// Returns the largest share (0 to 1) of the time that packets may have waited for a generator
    /// in the kernel. It never sleeps, so work that the kernel does outside of interrupts takes
    /// turns with it, and waits as long as it does. Waiting that other processes can explain is
    /// subtracted.
    fn put_off(&self, run_delay: Option<f64>, foreign: Option<f64>) -> f64 {
        let delay = run_delay.filter(|_| self.kernel.is_some()).unwrap_or(0.0);
        2.0 * (delay - foreign.unwrap_or(0.0)).max(0.0)
    }

    /// Returns the outcome of the queries to each of several servers; empty for a single one, and
    /// if they share the workers. Those of a closed loop are assigned to the servers in turn.
    pub(crate) fn of_each_target(&self, reports: &[Report]) -> Vec<TargetOutcome> {
        let servers = self.request.loops();
        if servers == 1 {
            return Vec::new();
        }
        let outcome = |(number, target): (usize, std::net::SocketAddr)| {
            let mut outcome = TargetOutcome { target: target.to_string(), ..Default::default() };
            for report in reports.iter().skip(number).step_by(servers) {
                outcome.sent += report.tally.sent;
                outcome.valid += report.tally.valid;
                outcome.bad += report.tally.bad();
            }
            outcome
        };
        self.request.targets().enumerate().map(outcome).collect()
    }

    /// Returns whether the server's address is one of this host.
    pub fn target_is_local(&self) -> bool {
        sys::is_own_address(self.request.target)
    }

    /// Returns the path of datagrams to a server on this host.
    fn local_path(&self, facts: UdpFacts) -> Path {
        Path::on_one_host(facts.gso && self.connections.is_none())
    }

    /// Returns the reason why a trial is void that failed only because the device dropped queries
    /// of the programs in the kernel: they never left the Tester. Queries refused by a socket are
    /// counted as unsent, and only cause a warning.
    fn not_sent(&self, trial: &Trial) -> Option<Void> {
        let (bad, queries) = (trial.bad(), trial.drops.tester_send);
        let planned = trial.planned.max(trial.sent);
        let allowed = self.request.goal.as_ref().map_or(0, |goal| goal.allowed_losses(planned));
        let explained = queries > 0 && bad > 0 && bad.saturating_sub(queries) <= allowed;
        // In a closed loop without a goal such a query only occupies a place for a while.
        let judged = self.request.pacing.is_open_loop() || self.request.goal.is_some();
        let counts = self.kernel.is_some() && judged;
        (counts && explained).then_some(Void::NotSent { queries })
    }

    /// Returns the warnings about the trial.
    fn warnings(&self, tally: &Tally, counters: &EngineCounters, facts: UdpFacts) -> Vec<Warning> {
        let (bytes, wanted) = (facts.receive_buffer as u64, self.request.sockets.buffer as u64);
        let all = [
            (
                counters.refused > 0,
                Warning::NobodyListens {
                    times: counters.refused,
                    target: self.request.target.to_string(),
                },
            ),
            (tally.blocked > 0, Warning::NoFreeId { times: tally.blocked }),
            (
                tally.cut_off,
                Warning::NotOffered { queries: tally.planned.saturating_sub(tally.wanted()) },
            ),
            (counters.send_errors > 0, Warning::NotSent { datagrams: counters.send_errors }),
            (
                tally.window_held_at.is_some(),
                Warning::WindowHeld {
                    held: tally.window_held_at.unwrap_or(0),
                    wanted: self
                        .request
                        .slice
                        .share(self.request.pacing.outstanding().map_or(0, u64::from)),
                },
            ),
            (
                self.target_is_local() && self.local_path(facts) == Path::HostOffload,
                Warning::Segmented,
            ),
            (self.workload.accepts_any_address(), Warning::AddressNotChecked),
            (tally.unexpected > 0, Warning::UnexpectedReplies { replies: tally.unexpected }),
            (
                self.connections.is_none() && bytes < wanted,
                Warning::SmallReceiveBuffers { bytes, wanted },
            ),
        ];
        let all = all.into_iter().filter_map(|(doubt, warning)| doubt.then_some(warning));
        all.chain(self.workload.warnings()).collect()
    }

    fn record(&self, tally: &Tally, facts: UdpFacts, workers: usize, interrupted: bool) -> Trial {
        let whole = self.request.pacing.is_timed() && self.sent_to_the_end(tally) && !interrupted;
        let duration = if whole { self.request.duration } else { self.sending_time(tally) };
        let duration_s = duration.as_secs_f64().max(1e-9);
        let reasons = tally.invalid.iter().enumerate().filter(|(_, count)| **count > 0);
        let rcodes = tally.rcodes.iter().enumerate().filter(|(_, count)| **count > 0);
        let mut trial = Trial {
            schema: SCHEMA,
            planned: tally.planned,
            sent: tally.sent,
            answered: tally.answered,
            valid: tally.valid,
            invalid: reasons.map(|(i, n)| (reason(i), *n)).collect(),
            valid_while_sending: whole.then_some(tally.valid_while_sending),
            late: tally.late,
            lost: tally.lost,
            unserved: tally.unserved,
            duplicates: tally.duplicates,
            unexpected: tally.unexpected,
            unresolved: tally.unresolved,
            empty: tally.empty,
            octets: Octets { queries: tally.query_bytes, replies: tally.reply_bytes },
            duration_s,
            last_sent_s: Some(tally.last_sent.since(tally.started).as_secs_f64()),
            latency_us: Times::from(&tally.latency),
            latency_from_send_us: Times::from(&tally.latency_from_send),
            schedule_error_us: Times::from(&tally.schedule_error),
            rcodes: rcodes.map(|(code, n)| (Rcode(code as u16).to_string(), *n)).collect(),
            outstanding: self.outstanding(tally).filter(|_| !interrupted),
            stopped_early: tally.stopped_early,
            disturbances: tally.disturbances.clone(),
            series: series(tally, duration_s),
            steps: tally.steps.as_ref().map(|steps| self.steps(steps, duration)),
            conditions: self.conditions(facts, workers),
            // Other parts of the program add the remaining fields, and the verdict.
            ..Trial::default()
        };
        // A closed loop's last places are answered after the sending.
        let closed = !self.request.pacing.is_open_loop();
        trial.set_rates(if closed { answering(tally).as_secs_f64() } else { 0.0 });
        trial
    }

    /// Returns the steps that began while queries were sent, for `duration`; an incomplete last
    /// step is omitted unless it is the only one.
    fn steps(&self, steps: &load::Steps, duration: Nanos) -> Steps {
        let length_s = steps.length.as_secs_f64();
        let whole = ((duration.0 / steps.length.0) as usize).clamp(1, steps.counts.len());
        let all = self.request.duration;
        let step = |(number, step): (usize, &load::Step)| Step {
            target_qps: self
                .request
                .pacing
                .rate_at(Nanos::from_secs_f64((number as f64 + 0.5) * length_s), all)
                .map(|rate| rate.get() / f64::from(self.request.slice.of())),
            sent: step.sent,
            answered: step.answered,
            lost: Some(step.sent.saturating_sub(step.answered_of_sent)),
            failed: step.failed,
            latency_us: step.latency_ns as f64 / 1e3 / step.answered.max(1) as f64,
        };
        Steps { length_s, steps: steps.counts.iter().take(whole).enumerate().map(step).collect() }
    }

    /// Returns the time of sending: up to the last query, at a rate up to the due time of the next
    /// one, in a closed loop up to the last reply.
    fn sending_time(&self, tally: &Tally) -> Nanos {
        let sending = tally.last_sent.since(tally.started);
        match (self.request.pacing, &self.workload) {
            (_, WorkloadPlan::Replay(_)) => sending,
            (Pacing::Constant { rate } | Pacing::Poisson { rate }, _) if tally.exhausted => {
                let gap = Nanos::from_secs_f64(f64::from(self.request.slice.of()) / rate.get());
                (sending + gap).min(self.request.duration.max(sending))
            }
            (pacing, _) if !pacing.is_open_loop() => answering(tally),
            _ => sending,
        }
    }

    /// Returns whether queries were sent until the end: neither an early stop nor a lack of names ended the sending.
    fn sent_to_the_end(&self, tally: &Tally) -> bool {
        !tally.stopped_early && !tally.exhausted
    }

    /// Queries outstanding in the middle and at the end of a load at one rate that was sent to its end. They count from when
    /// they were due: of a load that was cut off they show how late the Tester was.
    fn outstanding(&self, tally: &Tally) -> Option<Outstanding> {
        match (self.request.pacing, &self.workload) {
            (_, WorkloadPlan::Replay(_)) => None,
            _ if tally.cut_off => None,
            (Pacing::Constant { rate } | Pacing::Poisson { rate }, _)
                if self.sent_to_the_end(tally) =>
            {
                let rate = Qps::new(rate.get() / f64::from(self.request.slice.of()))?;
                tally.outstanding(self.request.duration, rate)
            }
            _ => None,
        }
    }

    fn conditions(&self, facts: UdpFacts, workers: usize) -> Conditions {
        Conditions {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            command: self.command.clone(),
            target: self.request.target.to_string(),
            transport: self
                .connections
                .as_ref()
                .map_or(Transport::Udp.to_string(), ConnectionSetup::describe),
            engine: Some(self.request.engine.kind()),
            workload: self.workload.describe(),
            names: self.workload.describe_names(),
            pacing: match &self.workload {
                WorkloadPlan::Replay(replay) => replay.describe_pacing().into(),
                _ => self.request.pacing.into(),
            },
            timeout_s: self.request.timeout.as_secs_f64(),
            max_burst_us: self.request.sockets.max_burst.as_micros_f64(),
            sockets: facts.sockets * workers,
            workers,
            wait: self.wait_mode().word().to_owned(),
            gso: facts.gso,
            gro: facts.gro,
            timestamps: facts.timestamps,
            receive_buffer: facts.receive_buffer,
            seed: self.request.seed,
            slice: self.request.slice,
            path: self.target_is_local().then(|| self.local_path(facts)),
            ..Conditions::default()
        }
    }
}

/// Makes the records of the seconds of sending, and of those after it with events.
fn series(tally: &Tally, duration_s: f64) -> Vec<Second> {
    let empty = load::tally::Second::default();
    let used = tally.series.iter().rposition(|second| *second != empty).map_or(0, |at| at + 1);
    let seconds = used.max(duration_s.ceil() as usize).min(tally.series.len());
    tally.series[..seconds].iter().map(second).collect()
}

/// Makes the record of a second. In a trial that was stopped, queries without an outcome count as
/// lost.
fn second(s: &load::tally::Second) -> Second {
    let mut of = Second {
        sent: s.sent,
        unserved: s.unserved,
        valid: s.valid,
        lost: s.sent.saturating_sub(s.answered),
        connections: s.connections,
        ..Second::default()
    };
    let Some(codes) = &s.codes else { return of };
    let others = codes.rcodes[1..].iter().map(|n| u64::from(*n)).sum::<u64>();
    let noerror = [s.answered.saturating_sub(others)];
    let all = noerror.into_iter().chain(codes.rcodes[1..].iter().map(|n| u64::from(*n)));
    let rcodes = all.enumerate().filter(|(_, n)| *n > 0);
    of.rcodes = rcodes.map(|(code, n)| (Rcode(code as u16).to_string(), n)).collect();
    let invalid = codes.invalid.iter().enumerate().filter(|(_, n)| **n > 0);
    of.invalid = invalid.map(|(i, n)| (reason(i), u64::from(*n))).collect();
    of
}

/// Returns the word of the reason with an index.
fn reason(index: usize) -> String {
    Invalid::from_index(index).map_or("unknown", Invalid::reason).to_owned()
}

/// Returns the time from the start in which the answers of a closed loop arrived: up to the last
/// reply, but at most two mean latencies after the last query, since a single late reply is no
/// measure of the others.
fn answering(tally: &Tally) -> Nanos {
    let (sending, mean) = (tally.last_sent.since(tally.started), tally.latency.mean_ns() as u64);
    sending.max(tally.last_reply.min(sending + Nanos(2 * mean)))
}

#[cfg(test)]
mod tests {
    use kernel::tester::Route;
    use record::TrialRequest;
    use record::request::{Expect, Query, Workload};

    use super::*;
    use crate::kernel_setup::KernelSetup;

    const TARGET: &str = "192.0.2.1";

    /// Makes a request for a trial with this pacing.
    fn request(pacing: &str) -> TrialRequest {
        let workload = Workload::Name {
            name: "x.test".to_owned(),
            qtype: "A".to_owned(),
            expect: Expect::Answered,
            query: Query { recursion: true, class: None, edns: None },
        };
        let target = std::net::SocketAddr::new(TARGET.parse().expect("an address"), 53);
        TrialRequest::new(target, workload, pacing.parse().expect("a pacing"))
    }

    #[test]
    fn queries_that_the_device_dropped_make_what_they_explain_void() {
        let route = Route {
            device: "none".to_owned(),
            source: TARGET.parse().expect("an address"),
            hardware: [0; 6],
            neighbour: [0; 6],
        };
        for (pacing, goal, lost, dropped, is_void) in [
            ("constant 1k", None, 5, 5, true),
            ("constant 1k", None, 6, 5, false),
            ("constant 1k", Some("zero-loss"), 5, 5, true),
            ("window 10", None, 5, 5, false),
            ("window 10", Some("zero-loss"), 5, 5, true),
            ("window 10", Some("zero-loss"), 6, 5, false),
            ("window 10", Some("loss < 1%"), 6, 5, true),
            ("window 10", Some("zero-loss"), 0, 5, false),
        ] {
            let mut request = request(pacing);
            request.goal = goal.map(|goal| goal.parse().expect("a goal"));
            let mut setup = Setup::new(request, String::new()).expect("a setup");
            let mut trial = Trial { sent: 1_000, lost, ..Trial::default() };
            trial.drops.tester_send = dropped;
            assert_eq!(setup.not_sent(&trial), None, "a socket knows what it does not take");
            setup.kernel = Some(KernelSetup { route: route.clone(), listed: None });
            let void = is_void.then_some(Void::NotSent { queries: dropped });
            assert_eq!(setup.not_sent(&trial), void, "{pacing}, {goal:?}, {lost} lost");
        }
    }

    #[test]
    fn the_answers_of_a_closed_loop_come_up_to_its_last_reply() {
        // A server of 100 answers a second has 100 queries left when a second is over.
        let second = Nanos::from_secs(1);
        let mut tally = Tally::new(second);
        (tally.sent, tally.answered, tally.last_reply) = (200, 200, Nanos::from_secs(2));
        tally.last_sent = Nanos::from_millis(999);
        tally.latency.record_many(second, 200);
        for (pacing, exhausted, rates) in [
            ("window 100", false, (1.0, 200.0, 100.0)),
            ("window 100", true, (2.0, 100.0, 100.0)),
            ("constant 200", false, (1.0, 200.0, 200.0)),
        ] {
            let mut request = request(pacing);
            request.duration = second;
            let setup = Setup::new(request, String::new()).expect("a setup");
            tally.exhausted = exhausted;
            let trial = setup.record(&tally, UdpFacts::default(), 1, false);
            let found = (trial.duration_s, trial.offered_qps, trial.answered_qps);
            assert_eq!(found, rates, "{pacing}, {exhausted}");
        }
        // One of a thousand replies of 2 ms comes half a second later.
        let mut tally = Tally::new(second);
        tally.latency.record_many(Nanos::from_millis(2), 999);
        (tally.started, tally.last_sent) = (Nanos::ZERO, second);
        tally.last_reply = Nanos::from_millis(1_500);
        let until_ms = answering(&tally).as_micros_f64() / 1e3;
        assert_eq!(until_ms.round(), 1_004.0);
    }
}
