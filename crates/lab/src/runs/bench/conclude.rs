//! The end of a trial: observations of the probes are added to the Measurer's result.

use measure::{Link, Path, Void, Warning};
use record::{Cpu, Trial, TrialResult};
use udp::core_speed::WorkTimes;

use super::{LabBench, MeasurerCounters, Upstream};
use crate::probe::{Observed, Sending, Span};
use crate::runs::attack::ATTACKER;
use crate::testbed::Host;
use crate::testbed::core_speed::lacked;
use crate::testbed::cpus::CpuList;

impl LabBench<'_> {
    /// Returns whether the lab has started the server, here or by an agent: other servers get no
    /// more load than the search allows.
    pub(crate) fn has_started_server(&self) -> bool {
        self.remote.outside.is_none() || self.remote.started.is_some()
    }

    /// Computes the observations of the probes during `trial`.
    fn observed(&self, trial: &Trial, spent: &MeasurerCounters) -> Observed {
        let mut times = spent.run_times.during(&Sending::of(trial));
        if self.testbed.link() != Link::Plain || spent.after.interrupts_are_apart() {
            times = times.without_packets();
        }
        let span = Span {
            sending_s: trial.duration_s,
            times,
            watched: &trial.disturbances.watched,
            ..Span::default()
        };
        Observed::between(&spent.before, &spent.after, self.testbed, &span)
    }

    /// Adds the probes' observations to the Measurer's result.
    pub(super) fn conclude(&self, mut result: TrialResult, spent: MeasurerCounters) -> TrialResult {
        let (trial, evidence) = (&mut result.trial, &mut result.facts.evidence);
        let observed = &self.observed(trial, &spent);
        // The Measurer has its own series, of latencies.
        trial.probes.extend(spent.series);
        let has_server = self.server.is_some();
        let work = self.testbed.core_speed(Host::Dut, &trial.disturbances.watched);
        let work = work.filter(|_| has_server).map(|times| {
            let cpus = self.testbed.cpus(Host::Dut).cpus();
            (times, self.lab.full_speed().note(cpus, times))
        });
        evidence.dut_slow = work.map(|(times, _)| lacked(times, self.fastest_work_ns));
        let (tester, auth) = (observed.usage(Host::Tester), observed.usage(Host::Auth));
        // Waiting while the AuthDNS uses the core does not count as starvation.
        let excused = if self.shares_core() { auth.busy } else { 0.0 };
        let run_delay = trial.cpu.get("tester").and_then(|cpu| cpu.run_delay);
        evidence.tester_run_delay = run_delay.map(|delay| (delay - excused).max(0.0));
        evidence.foreign_busy =
            evidence.foreign_busy.into_iter().chain(tester.foreign).reduce(f64::max);
        // A busy primary does not slow down queries to its secondary.
        let shared = self.shares_core() && self.authdns.is_some();
        evidence.authdns_waited = auth.run_delay.filter(|_| shared);
        let outside = self.remote.outside.is_some();
        if !outside && self.testbed.path() == Path::Wire {
            // The links cut such messages into packets.
            trial.warnings.retain(|warning| *warning != Warning::Segmented);
        }
        if matches!(self.authdns, Some(Upstream::Late(_))) {
            // The replies of a resolver wait for the delayed ones that it gets.
            trial.warnings.retain(|warning| !matches!(warning, Warning::DelayedReplies { .. }));
        }
        self.ask_for_lost(&mut trial.disturbances.lost);
        trial.drops.tester_receive += observed.receive_drops(Host::Tester);
        trial.drops.authdns_receive = observed.receive_drops(Host::Auth);
        if !outside {
            // Without a probe only the Measurer observes a server on its host.
            (evidence.dut_busy, trial.drops.dut_receive) =
                (None, observed.receive_drops(Host::Dut));
        }
        trial.drops.dut_not_taken = observed.connections_not_taken(Host::Dut);
        trial.drops.link = observed.link_drops;
        self.record_cpu(trial, observed, spent.beside, work);
        let unseated = self.testbed.check_links().err().map(|seen| Void::LinkUnseated { seen });
        result.facts.doubts.extend(unseated);
        trial.conditions.link = Some(self.testbed.link()).filter(|_| !outside);
        // The Measurer knows the addresses of its host.
        trial.conditions.path = match trial.conditions.path.filter(|_| outside) {
            None => Some(self.path_to_server(trial.conditions.gso)),
            here => here,
        };
        result
    }

    /// Returns how datagrams cross to the server: over the testbed's links, or as its agent
    /// reports.
    fn path_to_server(&self, segmented: bool) -> Path {
        match &self.remote.dut {
            Some(agent) if agent.lock().shares_kernel() => Path::on_one_host(segmented),
            _ => self.testbed.path(),
        }
    }

    /// Adds the CPU time of each role, and the times of `work` on the server's cores, in the trial
    /// and at full speed.
    fn record_cpu(
        &self,
        trial: &mut Trial,
        observed: &Observed,
        beside: Vec<(&'static str, CpuList, (f64, f64))>,
        work: Option<(WorkTimes, u64)>,
    ) {
        let tester = trial.cpu.entry("tester".to_owned()).or_default();
        let used = observed.usage(Host::Tester);
        let of_attacker = beside.iter().find(|(role, ..)| *role == ATTACKER);
        // The attacker's processes are in the Tester's host, and are recorded separately below.
        let (user_s, system_s) = of_attacker.map_or((0.0, 0.0), |(.., time)| *time);
        tester.user_s = (used.user_s - user_s).max(0.0);
        tester.system_s = (used.system_s - system_s).max(0.0);
        tester.softirq_s = used.softirq_s;
        // To the Measurer the AuthDNS and the lab are others.
        tester.foreign = used.foreign;
        tester.cpus.clone_from(&used.cpus);
        let cpu = |host| observed.usage(host).clone();
        if self.authdns.is_some() {
            trial.cpu.insert("authdns".to_owned(), cpu(Host::Auth));
        }
        for (role, cpus, (user_s, system_s)) in beside {
            let cpus = cpus.cpus().to_vec();
            let busy = (user_s + system_s) / (trial.duration_s * cpus.len() as f64).max(1e-3);
            let cpu = Cpu { user_s, system_s, busy: busy.min(1.0), cpus, ..Cpu::default() };
            trial.cpu.insert(role.to_owned(), cpu);
        }
        if self.server.is_some() {
            let cpu = Cpu {
                work_ns: work.map(|(times, _)| times.mean.0),
                best_work_ns: work.map(|(times, _)| times.best.0),
                full_speed_work_ns: work.map(|(_, full_speed)| full_speed),
                limit_cores: self.cpu_limit,
                ..cpu(Host::Dut)
            };
            trial.cpu.insert("dut".to_owned(), cpu);
        }
    }
}
