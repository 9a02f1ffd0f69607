//! What agents saw, in the record of a trial: the CPU and the drops of the server and of the AuthDNS, and the verdict with them.

use measure::stall::{Side, WatchedCore};
use measure::{Evidence, Goal, Limiter, Stall};
use record::{AuthDnsShare, Connections, Cpu, Trial, TrialRequest};

use crate::probe::evidence::{server_busy, server_waited, unanswered};
use crate::remote::message::Seen;

/// What the agents on other hosts saw of a trial.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reports<'a> {
    /// On the host of the server under test; absent without a server, in a self-test.
    pub dut: Option<&'a Seen>,
    /// On the host of each AuthDNS, with the host's name; empty if that is none of an agent.
    pub authdns: &'a [(String, Seen)],
}

impl<'a> Reports<'a> {
    /// Returns the host that bounds all AuthDNS: the one that dropped most, or the busiest if none dropped.
    fn worst_authdns(&self) -> Option<&'a (String, Seen)> {
        let worse = |(_, a): &&(String, Seen), (_, b): &&(String, Seen)| {
            let by_drops = a.receive_drops.cmp(&b.receive_drops);
            by_drops.then_with(|| busiest(a).total_cmp(&busiest(b)))
        };
        // Of equals the first one.
        self.authdns.iter().rev().max_by(worse)
    }
}

/// Returns the busy share of a host's cores, or of its busiest thread.
fn busiest(seen: &Seen) -> f64 {
    seen.usage.busy.max(seen.usage.busiest_thread)
}

/// What is known of a trial beside its record.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    /// Whether the AuthDNS shares the Measurer's core by design.
    pub shared_core: bool,
    /// The goal of the trial.
    pub goal: Option<Goal>,
    /// Number of cores whose time the server may have at the most, if that is limited.
    pub cpu_limit: Option<f64>,
}

impl Conditions {
    /// Returns the conditions of a request.
    pub fn of(request: &TrialRequest) -> Self {
        Conditions {
            shared_core: request.sockets.shared_core,
            goal: request.goal.clone(),
            cpu_limit: None,
        }
    }
}

/// Adds what the agents saw to a trial, and decides anew whether it is void and what limited it.
pub fn judge(trial: &mut Trial, reports: &Reports<'_>, conditions: &Conditions) {
    for (host, seen) in reports.authdns {
        add_stalls(trial, seen, Side::AuthDns);
        trial.drops.authdns_receive += seen.receive_drops;
        trial.authdns.push(share(host, seen));
    }
    trial.cpu.extend(cpu_of(reports.authdns).map(|cpu| ("authdns".to_owned(), cpu)));
    if let Some(seen) = reports.dut {
        add_stalls(trial, seen, Side::Dut);
        trial.cpu.insert("dut".to_owned(), seen.usage.record(&seen.cpus));
        // The same sockets as a Measurer on that host has seen.
        trial.drops.dut_receive = seen.receive_drops;
        trial.drops.dut_not_taken += seen.not_taken;
    }
    let evidence = evidence(trial, reports, conditions);
    trial.warnings.extend(evidence.server_warnings());
    let known = ended_on_one_of_several(trial).then(|| (trial.limiter, trial.limiter_proof.take()));
    let doubts: Vec<_> = evidence.doubts().chain(trial.stalled(conditions.goal.as_ref())).collect();
    trial.judge(doubts, evidence, known);
}

/// Returns what one AuthDNS did.
fn share(host: &str, seen: &Seen) -> AuthDnsShare {
    let longest = seen.disturbances.stalls.iter().map(|stall| stall.length).max();
    AuthDnsShare {
        host: host.to_owned(),
        queries: seen.queries,
        busy: busiest(seen),
        receive_drops: seen.receive_drops,
        longest_stall_ms: longest.map_or(0.0, |length| length.as_secs_f64() * 1e3),
    }
}

/// Returns the CPU of all AuthDNS: times are added, and the shares are those of the busiest host; `None` without one.
fn cpu_of(authdns: &[(String, Seen)]) -> Option<Cpu> {
    let all = || authdns.iter().map(|(_, seen)| seen);
    let first = all().max_by(|a, b| busiest(a).total_cmp(&busiest(b)))?;
    let sum = |time: fn(&Seen) -> f64| all().map(time).sum::<f64>();
    Some(Cpu {
        user_s: sum(|seen| seen.usage.user_s),
        system_s: sum(|seen| seen.usage.system_s),
        softirq_s: Some(sum(|seen| seen.usage.softirq_s)),
        ..first.usage.record(&first.cpus)
    })
}

/// Adds the stalls of a host.
fn add_stalls(trial: &mut Trial, seen: &Seen, side: Side) {
    for stall in &seen.disturbances.stalls {
        trial.disturbances.add_stall(Stall { side, ..*stall });
    }
    let watched = seen.disturbances.watched.iter();
    trial.disturbances.watched.extend(watched.map(|core| WatchedCore {
        side,
        work_ns: None,
        best_work_ns: None,
        ..*core
    }));
}

/// Returns whether one of several Testers was at its end, which bounds all of them and does not show in their sums.
fn ended_on_one_of_several(trial: &Trial) -> bool {
    let of_a_tester = [
        Limiter::TesterCpu,
        Limiter::TesterSchedule,
        Limiter::TesterDrops,
        Limiter::TesterClients,
        Limiter::Link,
    ];
    trial.merged.is_some() && of_a_tester.contains(&trial.limiter)
}

fn evidence(trial: &Trial, reports: &Reports<'_>, conditions: &Conditions) -> Evidence {
    let tester = trial.cpu.get("tester").cloned().unwrap_or_default();
    let (own, limit) = (!conditions.shared_core, conditions.cpu_limit);
    let authdns = trial.cpu.get("authdns");
    // Waiting while the AuthDNS uses the core does not count as starvation.
    let beside = authdns.filter(|_| !own).map(|authdns| authdns.busy);
    let run_delay = tester.run_delay.filter(|_| own || beside.is_some());
    let worst = reports.worst_authdns();
    let several = reports.authdns.len() > 1;
    let dut = reports.dut;
    Evidence {
        tester_busy: (!trial.conditions.pacing.is_open_loop()).then_some(tester.busy),
        tester_run_delay: run_delay.map(|delay| (delay - beside.unwrap_or(0.0)).max(0.0)),
        foreign_busy: tester.foreign.filter(|_| own),
        tester_drops: trial.drops.tester_receive,
        authdns_busy: worst
            .map(|(_, seen)| busiest(seen))
            .or_else(|| authdns.map(|authdns| authdns.busy)),
        authdns_waited: authdns.filter(|_| !own).and_then(|authdns| authdns.run_delay),
        authdns_drops: worst.map_or(trial.drops.authdns_receive, |(_, seen)| seen.receive_drops),
        authdns_host: worst.filter(|_| several).map(|(host, _)| host.clone()),
        places: trial.connections.as_ref().map(Connections::places).unwrap_or_default(),
        link_drops: trial.drops.link,
        dut_busy: dut.map(|seen| server_busy(&seen.usage, seen.cpus.len(), limit)),
        dut_foreign: dut.map(|seen| seen.usage.foreign),
        dut_waited: dut.and_then(|seen| server_waited(&seen.usage, limit)),
        // Not known: the agent looks before and after the sending, too, when the core is idle and may be slower.
        dut_slow: None,
        unanswered: unanswered(trial),
        // The queries of a lab are in files.
        input_waited: 0.0,
        unserved: trial.without_room(),
        dut_drops: dut.map_or(0, |seen| seen.receive_drops),
        dut_not_taken: dut.map_or(0, |seen| seen.not_taken),
        cpus: [
            tester.cpus,
            worst
                .map(|(_, seen)| &seen.cpus)
                .or(authdns.map(|a| &a.cpus))
                .cloned()
                .unwrap_or_default(),
            dut.map_or(Vec::new(), |seen| seen.cpus.clone()),
        ],
        complete: trial.is_complete(),
    }
}

#[cfg(test)]
mod tests {
    use measure::stall::LostQuery;
    use measure::{Disturbances, Histogram, LimiterProof, Nanos, Void};
    use record::{Merged, Times, Voidness};

    use super::*;
    use crate::probe::HostUse;

    /// A trial of a self-test that lost a tenth of its queries, and its conditions.
    fn lossy() -> (Trial, Conditions) {
        let text = include_str!("../../../../record/tests/fixtures/trial.json");
        let mut trial: Trial = serde_json::from_str(text).expect("a trial");
        (trial.planned, trial.sent, trial.answered, trial.valid) = (1_000, 1_000, 900, 900);
        (trial.lost, trial.late, trial.unresolved, trial.passed) = (100, 0, 0, Some(false));
        trial.invalid.clear();
        trial.cpu.clear();
        trial.warnings.clear();
        trial.drops = Default::default();
        trial.void = Voidness(None);
        (trial.limiter, trial.limiter_proof) = (Limiter::Target, None);
        (trial.merged, trial.disturbances) = (None, Disturbances::default());
        let mut replies = Histogram::new();
        replies.record(Nanos::from_millis(1));
        trial.latency_from_send_us = Times::from(&replies);
        let goal = Some(Goal::zero_loss());
        (trial, Conditions { goal, ..Conditions::default() })
    }

    /// A query that was lost, due after this time.
    fn lost(due: Nanos) -> LostQuery {
        let (port, address, seen_by_authdns) = (None, None, None);
        LostQuery { due, sent: due, socket: 0, port, id: 0, address, seen_by_authdns }
    }

    /// What an agent saw of a host with two cores.
    fn seen(busy: f64, receive_drops: u64) -> Seen {
        let usage = HostUse { busy, ..HostUse::default() };
        Seen { usage, cpus: vec![0, 1], receive_drops, alive: true, ..Seen::default() }
    }

    #[test]
    fn a_self_test_is_judged_by_the_host_of_the_authdns() {
        let thread = HostUse { busy: 0.5, busiest_thread: 1.0, ..HostUse::default() };
        let table = [
            (seen(0.3, 0), Limiter::Target),
            (seen(0.3, 7), Limiter::AuthDns),
            (seen(0.97, 0), Limiter::AuthDns),
            (Seen { usage: thread, ..seen(0.0, 0) }, Limiter::AuthDns),
        ];
        for (seen, limiter) in table {
            let (mut trial, conditions) = lossy();
            let authdns = [("a".to_owned(), seen.clone())];
            judge(&mut trial, &Reports { authdns: &authdns, dut: None }, &conditions);
            assert_eq!((trial.limiter, trial.void.is_void()), (limiter, false), "{seen:?}");
            assert_eq!(trial.limiter_proof.is_some(), limiter == Limiter::AuthDns, "{seen:?}");
            assert_eq!(trial.drops.authdns_receive, seen.receive_drops);
            assert_eq!(trial.cpu["authdns"].cpus, [0, 1]);
            assert!(!trial.cpu.contains_key("dut"));
        }
    }

    #[test]
    fn the_worst_of_several_authdns_is_named() {
        let idle = || seen(0.1, 0);
        let table = [
            ([idle(), seen(0.97, 0)], Some("b"), 0.97),
            ([seen(0.97, 0), seen(0.3, 7)], Some("b"), 0.97),
            ([seen(0.95, 0), seen(0.4, 0)], Some("a"), 0.95),
            ([idle(), seen(0.5, 0)], None, 0.5),
        ];
        for ([a, b], named, busy) in table {
            let (mut trial, conditions) = lossy();
            let (a, b) = (Seen { queries: Some(30), ..a }, Seen { queries: Some(10), ..b });
            let authdns = [("a".to_owned(), a), ("b".to_owned(), b)];
            judge(&mut trial, &Reports { authdns: &authdns, dut: None }, &conditions);
            let limiter = if named.is_some() { Limiter::AuthDns } else { Limiter::Target };
            assert_eq!((trial.limiter, trial.void.is_void()), (limiter, false), "{named:?}");
            let host = match trial.limiter_proof {
                Some(LimiterProof::Busy { host, .. } | LimiterProof::ReceiveDrops { host, .. }) => {
                    host
                }
                _ => None,
            };
            assert_eq!(host.as_deref(), named, "{authdns:?}");
            assert_eq!(trial.cpu["authdns"].busy, busy);
            let queries: Vec<Option<u64>> = trial.authdns.iter().map(|one| one.queries).collect();
            assert_eq!(queries, [Some(30), Some(10)]);
            assert_eq!(trial.drops.authdns_receive, trial.authdns[1].receive_drops);
        }
    }

    #[test]
    fn losses_while_the_authdns_stood_still_are_no_verdict() {
        let (mut trial, conditions) = lossy();
        let at = Nanos::from_secs(100);
        trial.disturbances.started = at;
        for number in 0..100 {
            let due = Nanos::from_millis(500) + Nanos::from_micros(number);
            trial.disturbances.add_lost(lost(due));
        }
        let mut seen = seen(0.3, 9);
        let (side, length) = (Side::Dut, Nanos::from_millis(40));
        let at = at + Nanos::from_millis(480);
        seen.disturbances.add_stall(Stall { side, at, length });
        let authdns = [("a".to_owned(), self::seen(0.1, 0)), ("b".to_owned(), seen)];
        judge(&mut trial, &Reports { authdns: &authdns, dut: None }, &conditions);
        assert_eq!(trial.authdns[1].longest_stall_ms, 40.0);
        let Some(Void::Stalled { longest, .. }) = &trial.void.0 else { panic!("{trial:?}") };
        assert_eq!(longest.side, Side::AuthDns);
        assert_eq!((trial.limiter, &trial.limiter_proof), (Limiter::Unknown, &None));
    }

    #[test]
    fn the_server_and_one_of_several_testers_are_named() {
        let (auth, dut) = ([("a".to_owned(), seen(0.2, 0))], seen(0.99, 4));
        let reports = Reports { dut: Some(&dut), authdns: &auth };
        let (mut trial, conditions) = lossy();
        judge(&mut trial, &reports, &conditions);
        assert_eq!((trial.limiter, trial.drops.dut_receive), (Limiter::Dut, 4));
        assert!(matches!(
            trial.limiter_proof,
            Some(LimiterProof::ReceiveDrops { side: Side::Dut, .. })
        ));
        // The cores of one Tester were busy, which is not seen in the mean of all.
        let (mut trial, _) = lossy();
        let (start_spread_us, start_bound_us, parts) = (0.0, 1.0, Vec::new());
        trial.merged = Some(Merged { start_spread_us, start_bound_us, parts });
        trial.limiter = Limiter::TesterCpu;
        judge(&mut trial, &reports, &conditions);
        assert_eq!(trial.limiter, Limiter::TesterCpu);
    }
}
