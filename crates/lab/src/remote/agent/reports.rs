//! Observations of agents, added to the result of a trial: the CPU and the drops of the server and
//! of the AuthDNS, and their stalls.

use measure::stall::{Side, WatchedCore};
use measure::{Limiter, Stall};
use record::{AuthDnsShare, Cpu, Trial, TrialResult};

use crate::remote::message::Seen;

/// Observations of a trial by the agents on other hosts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reports<'a> {
    /// On the host of the server under test; absent without a server, in a self-test.
    pub dut: Option<&'a Seen>,
    /// On the host of each AuthDNS, with the host's name; empty if no agent watches it.
    pub authdns: &'a [(String, Seen)],
    /// Number of cores whose time the server may have at the most, if that is limited.
    pub cpu_limit: Option<f64>,
}

impl Reports<'_> {
    /// Adds the reports to the result of a trial, before its verdict is made.
    pub fn add_to(&self, result: &mut TrialResult) {
        let trial = &mut result.trial;
        for (host, seen) in self.authdns {
            add_stalls(trial, seen, Side::AuthDns);
            trial.drops.authdns_receive += seen.receive_drops;
            trial.authdns.push(share(host, seen));
        }
        trial.cpu.extend(cpu_of(self.authdns).map(|cpu| ("authdns".to_owned(), cpu)));
        if let Some(seen) = self.dut {
            add_stalls(trial, seen, Side::Dut);
            let cpu = Cpu { limit_cores: self.cpu_limit, ..seen.usage.clone() };
            trial.cpu.insert("dut".to_owned(), cpu);
            // The same sockets as observed by a Measurer on that host.
            trial.drops.dut_receive = seen.receive_drops;
            trial.drops.dut_not_taken += seen.not_taken;
        }
        // An agent knows more of its server than one of several Testers.
        let is_server = |limiter: &Limiter| matches!(limiter, Limiter::AuthDns | Limiter::Dut);
        result.facts.known.take_if(|(limiter, _)| is_server(limiter));
    }
}

/// Returns the busy share of a host's cores, or of its busiest thread.
fn busiest(seen: &Seen) -> f64 {
    seen.usage.busy.max(seen.usage.busiest_thread.unwrap_or(0.0))
}

/// Returns the work of one AuthDNS.
fn share(host: &str, seen: &Seen) -> AuthDnsShare {
    let longest = seen.disturbances.stalls.iter().map(|stall| stall.length).max();
    AuthDnsShare {
        host: host.to_owned(),
        queries: seen.queries,
        busy: busiest(seen),
        cpus: seen.usage.cpus.clone(),
        receive_drops: seen.receive_drops,
        longest_stall_ms: longest.map_or(0.0, |length| length.as_secs_f64() * 1e3),
    }
}

/// Returns the CPU of all AuthDNS: times are added, the shares are the busiest host's; `None`
/// without an AuthDNS.
fn cpu_of(authdns: &[(String, Seen)]) -> Option<Cpu> {
    let all = || authdns.iter().map(|(_, seen)| seen);
    let first = all().max_by(|a, b| busiest(a).total_cmp(&busiest(b)))?;
    let sum = |time: fn(&Seen) -> f64| all().map(time).sum::<f64>();
    Some(Cpu {
        user_s: sum(|seen| seen.usage.user_s),
        system_s: sum(|seen| seen.usage.system_s),
        softirq_s: Some(sum(|seen| seen.usage.softirq_s.unwrap_or(0.0))),
        ..first.usage.clone()
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

#[cfg(test)]
mod tests {
    use measure::stall::LostQuery;
    use measure::{Disturbances, Facts, Goal, Histogram, LimiterProof, Nanos, Void};
    use record::Times;

    use super::*;

    /// A trial of a self-test that lost a tenth of its queries.
    fn lossy() -> TrialResult {
        let text = include_str!("../../../../record/tests/fixtures/trial.json");
        let mut trial: Trial = serde_json::from_str(text).expect("a trial");
        (trial.planned, trial.sent, trial.answered, trial.valid) = (1_000, 1_000, 900, 900);
        (trial.lost, trial.late, trial.unresolved) = (100, 0, 0);
        trial.invalid.clear();
        trial.cpu.clear();
        trial.warnings.clear();
        trial.drops = Default::default();
        (trial.merged, trial.disturbances) = (None, Disturbances::default());
        let mut replies = Histogram::new();
        replies.record(Nanos::from_millis(1));
        trial.latency_from_send_us = Times::from(&replies);
        TrialResult::new(trial, Some(Goal::zero_loss()), Facts::default())
    }

    /// A trial that agents saw.
    fn verdict_on(
        mut result: TrialResult,
        dut: Option<&Seen>,
        authdns: &[(String, Seen)],
    ) -> Trial {
        Reports { dut, authdns, cpu_limit: None }.add_to(&mut result);
        result.with_verdict()
    }

    /// A query that was lost, due after this time.
    fn lost(due: Nanos) -> LostQuery {
        let (port, address, seen_by_authdns) = (None, None, None);
        LostQuery { due, sent: due, socket: 0, port, id: 0, address, seen_by_authdns }
    }

    /// What an agent saw of a host with two cores.
    fn seen(busy: f64, receive_drops: u64) -> Seen {
        let usage = Cpu { busy, cpus: vec![0, 1], ..Cpu::default() };
        Seen { usage, receive_drops, alive: true, ..Seen::default() }
    }

    #[test]
    fn a_self_test_is_judged_by_the_host_of_the_authdns() {
        let thread = Cpu { busy: 0.5, busiest_thread: Some(1.0), ..seen(0.0, 0).usage };
        let table = [
            (seen(0.3, 0), Limiter::Target),
            (seen(0.3, 7), Limiter::AuthDns),
            (seen(0.97, 0), Limiter::AuthDns),
            (Seen { usage: thread, ..seen(0.0, 0) }, Limiter::AuthDns),
        ];
        for (seen, limiter) in table {
            let authdns = [("a".to_owned(), seen.clone())];
            let trial = verdict_on(lossy(), None, &authdns);
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
            let (a, b) = (Seen { queries: Some(30), ..a }, Seen { queries: Some(10), ..b });
            let authdns = [("a".to_owned(), a), ("b".to_owned(), b)];
            let trial = verdict_on(lossy(), None, &authdns);
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
        let mut result = lossy();
        let at = Nanos::from_secs(100);
        result.trial.disturbances.started = at;
        for number in 0..100 {
            let due = Nanos::from_millis(500) + Nanos::from_micros(number);
            result.trial.disturbances.add_lost(lost(due));
        }
        let mut seen = seen(0.3, 9);
        let (side, length) = (Side::Dut, Nanos::from_millis(40));
        let at = at + Nanos::from_millis(480);
        seen.disturbances.add_stall(Stall { side, at, length });
        let authdns = [("a".to_owned(), self::seen(0.1, 0)), ("b".to_owned(), seen)];
        let trial = verdict_on(result, None, &authdns);
        assert_eq!(trial.authdns[1].longest_stall_ms, 40.0);
        let Some(Void::Stalled { longest, .. }) = &trial.void.0 else { panic!("{trial:?}") };
        assert_eq!(longest.side, Side::AuthDns);
        assert_eq!((trial.limiter, &trial.limiter_proof), (Limiter::Unknown, &None));
    }

    #[test]
    fn the_server_and_one_of_several_testers_are_named() {
        let (auth, dut) = ([("a".to_owned(), seen(0.2, 0))], seen(0.99, 4));
        let trial = verdict_on(lossy(), Some(&dut), &auth);
        assert_eq!((trial.limiter, trial.drops.dut_receive), (Limiter::Dut, 4));
        assert!(matches!(
            trial.limiter_proof,
            Some(LimiterProof::ReceiveDrops { side: Side::Dut, .. })
        ));
        // The cores of one Tester were busy, which is not seen in the mean of all.
        let (cpu, input) = (Limiter::TesterCpu, Limiter::TesterInput);
        for (of_part, of_all) in [(cpu, cpu), (input, input), (Limiter::AuthDns, Limiter::Dut)] {
            let mut result = lossy();
            result.facts.known = Some((of_part, None));
            assert_eq!(verdict_on(result, Some(&dut), &auth).limiter, of_all);
        }
    }
}
