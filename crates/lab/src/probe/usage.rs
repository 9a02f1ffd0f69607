//! Use of each host's cores during a trial, from the snapshots around it.
//!
//! ```text
//! a core   |  own processes  |  interrupts, kernel threads      |  foreign  |  idle  |
//!          └──────────────── busy ─────────────────────────────┘
//! ```
//!
//! *Busy* is what a host's own work took while queries were sent: its processes, and the kernel's
//! work for packets and files. *Foreign* is time of neither this host nor another part of the
//! testbed: other processes, and the hypervisor for other machines. Our own parts are the processes
//! of all hosts on these cores, the watchers, and the lab itself.

use std::collections::BTreeMap;

use measure::Link;
use measure::procfs::CoreTimes;
use measure::stall::WatchedCore;
use record::Cpu;

use super::Snapshot;
use super::ledger::{SendingTimes, part};
use crate::testbed::cpus::CpuList;

/// Numbers of the Tester's host and of the server's.
const TESTER_HOST: usize = 0;
const DUT: usize = 2;

/// Share of the server's cores from which on other processes may have been billed for the work of
/// the server's programs in the kernel.
const MIN_BILLED_SHARE: f64 = 0.03;

/// Smaller shares of foreign work count as zero where only ticks and inexact counters measure them:
/// their error is as large.
const INEXACT_SHARE: f64 = 0.02;

/// Facts about a trial that are not in its snapshots.
#[derive(Clone, Copy, Debug, Default)]
pub struct Span<'a> {
    /// Duration of sending, in seconds.
    pub sending_s: f64,
    /// CPU time while queries were sent; of the whole trial if absent.
    pub times: SendingTimes,
    /// Watchers of cores, which belong to the Tester.
    pub watched: &'a [WatchedCore],
    /// Kind of the links; plain if absent.
    pub link: Option<Link>,
    /// Cores of the lab itself; the Tester's cores if absent.
    pub lab: Option<&'a CpuList>,
}

/// Computes the use of each host of `plan` (Tester, auth host, host of the server); the times of
/// the Tester are from begin to end, its start included. If a host shares its cores, `busy` counts
/// only its own processes.
pub(super) fn uses(
    before: &Snapshot,
    after: &Snapshot,
    plan: [&CpuList; 3],
    tick_s: f64,
    span: &Span<'_>,
) -> [Cpu; 3] {
    let between = SnapshotPair { before, after, plan, tick_s, span };
    std::array::from_fn(|host| between.host(host))
}

/// Returns the seconds that a host's processes and their ended children ran between two snapshots,
/// exactly.
pub(super) fn own_s(around: [&Snapshot; 2], host: usize) -> f64 {
    let [before, after] = around.map(|snapshot| &snapshot.processes[host]);
    if let (Some(before), Some(after)) = (&before.account, &after.account) {
        return after.all.saturating_sub(before.all) as f64 / 1e9;
    }
    let ran = |(pid, now): (&u32, &u64)| {
        now.saturating_sub(before.run.get(pid).copied().unwrap_or(0)) as f64 / 1e9
    };
    after.run.iter().map(ran).sum()
}

/// Two snapshots, and facts about the time between them.
struct SnapshotPair<'a> {
    before: &'a Snapshot,
    after: &'a Snapshot,
    plan: [&'a CpuList; 3],
    tick_s: f64,
    span: &'a Span<'a>,
}

impl SnapshotPair<'_> {
    fn host(&self, host: usize) -> Cpu {
        let (cpus, sending_s) = (self.plan[host], self.span.sending_s);
        let count = cpus.count() as f64;
        let core = self.core_times(cpus);
        let (user, system) = self.ticks(host);
        let times = &self.span.times;
        let foreign_s = self.foreign_s(host, &core);
        let own_s = own_s([self.before, self.after], host);
        // Without an account the ledger misses short processes; their work counts as work for
        // queries.
        let missed_s = (own_s - times.whole_s[host]).max(0.0);
        // The Measurer starts after the ledger.
        let own_sending_s = times.own_s[host].filter(|_| host != TESTER_HOST);
        let own_sending_s = own_sending_s.map_or(own_s, |found_s| found_s + missed_s);
        let user_share = times.server_user.filter(|_| host == DUT).or(part(user, system));
        let user_s = user_share.map_or(own_sending_s, |share| share * own_sending_s);
        let programs = times.programs.filter(|_| host == DUT);
        let counting_s = programs.map_or(0.0, |programs| programs.counting_s);
        let alone = self.sharing(host).eq([host]);
        let idle_s = (core.idle + core.wait) as f64 * self.tick_s;
        // Kernel work for programs may be counted in the time of other tasks.
        let others_s = if programs.is_some() { 0.0 } else { foreign_s };
        let not_idle_s = self.window_s() * count - idle_s - others_s - own_s - counting_s;
        let packets_s = times.packets_s.filter(|_| host == DUT);
        let foreign = self.foreign(foreign_s / (self.window_s() * count).max(1e-3));
        let on_its_cores = self.span.link.is_some_and(Link::bills_receiver);
        let is_known = programs.is_none_or(|_| on_its_cores && foreign <= MIN_BILLED_SHARE);
        // The cost of counting may have been billed to the server's processes.
        let not_idle_s = not_idle_s.max(-counting_s);
        let kernel_s = (alone && is_known).then(|| packets_s.unwrap_or(not_idle_s));
        let least_s = programs.map_or(0.0, |programs| programs.ran_s);
        let spent_s = own_sending_s + kernel_s.unwrap_or(least_s);
        let kernel_s = kernel_s.map(|kernel_s| kernel_s.max(0.0));
        let threads = self.threads(host);
        let busiest = threads.iter().map(|thread| thread.run_s).fold(0.0, f64::max);
        let delay = threads.iter().map(|thread| thread.delay_s).fold(0.0, f64::max);
        let used = threads.iter().filter(|thread| thread.run_s >= 0.01 * sending_s);
        Cpu {
            user_s,
            system_s: own_sending_s - user_s,
            softirq_s: Some(core.softirq as f64 * self.tick_s),
            spent_s: is_known.then_some(spent_s),
            kernel_s,
            programs,
            irq_s: self.after.interrupts_are_apart().then_some(core.irq as f64 * self.tick_s),
            kernel_threads_s: self.kernel_threads_s(host),
            threads: Some(used.count() as u32),
            busy: share(spent_s, sending_s * count),
            busiest_thread: Some(share(busiest, sending_s)),
            run_delay: Some(share(delay, sending_s)),
            waited: self.waited_s(host, &threads).map(|waited_s| share(waited_s, sending_s)),
            foreign: Some(foreign),
            cpus: cpus.cpus().to_vec(),
            ..Cpu::default()
        }
    }

    /// Duration between the snapshots, in seconds.
    fn window_s(&self) -> f64 {
        self.after.at.duration_since(self.before.at).as_secs_f64()
    }

    /// The hosts that run on cores of `host`, with itself.
    fn sharing(&self, host: usize) -> impl Iterator<Item = usize> {
        let cpus = self.plan[host];
        (0..self.plan.len()).filter(move |other| self.plan[*other].shares_with(cpus))
    }

    /// Work of a list of cores, in ticks.
    fn core_times(&self, cpus: &CpuList) -> CoreTimes {
        let sum = |snapshot: &Snapshot| {
            let times = cpus.cpus().iter().filter_map(|cpu| snapshot.cores.get(cpu));
            times.fold(CoreTimes::default(), |sum, core| sum.plus(core))
        };
        sum(self.after).since(&sum(self.before))
    }

    /// Seconds of a host's processes in user mode and in the kernel, counted in ticks.
    fn ticks(&self, host: usize) -> (f64, f64) {
        let (b, a) = (&self.before.processes[host], &self.after.processes[host]);
        let seconds = |b: u64, a: u64| a.saturating_sub(b) as f64 * self.tick_s;
        (seconds(b.user, a.user), seconds(b.system, a.system))
    }

    /// Seconds that foreign processes and the hypervisor used on the cores of `host`.
    fn foreign_s(&self, host: usize, core: &CoreTimes) -> f64 {
        // Software interrupts during our processes count in their system time and also in the core's softirq column.
        // So only the other two columns are compared, and the time of other processes is never overstated.
        let ours = self.sharing(host).map(|other| self.ticks(other));
        let (our_user, our_system) = ours.fold((0.0, 0.0), |sum, s| (sum.0 + s.0, sum.1 + s.1));
        let by_ticks = (core.user as f64 * self.tick_s - our_user).max(0.0)
            + (core.system as f64 * self.tick_s - our_system).max(0.0);
        let steal_s = core.steal as f64 * self.tick_s;
        let tasks_s = self.tasks_s(host);
        let rest_s = tasks_s.map(|tasks_s| (tasks_s - self.ours_s(host)).max(0.0));
        let foreign_s = match (rest_s, self.kernel_threads_s(host)) {
            (Some(rest_s), Some(kernel_s)) if self.is_exact() => (rest_s - kernel_s).max(0.0),
            (Some(rest_s), _) => rest_s.min(by_ticks),
            (None, _) => by_ticks,
        };
        foreign_s + steal_s
    }

    /// Whether the time of tasks is exact, and all of ours is known.
    fn is_exact(&self) -> bool {
        self.after.tasks.as_ref().is_some_and(|tasks| tasks.exact)
            && self.after.kernel_threads.is_some()
    }

    /// The share of foreign work; zero where it is too small to be measured.
    fn foreign(&self, found: f64) -> f64 {
        let least = if self.is_exact() { 0.0 } else { INEXACT_SHARE };
        if found < least { 0.0 } else { found.min(1.0) }
    }

    /// Seconds that our own parts ran on the cores of `host`.
    fn ours_s(&self, host: usize) -> f64 {
        let cpus = self.plan[host];
        let watchers_s = |here: bool| {
            let watched = self.span.watched.iter();
            let watched = watched.filter(|core| !here || cpus.cpus().contains(&core.cpu));
            watched.map(|core| core.used.as_secs_f64()).sum::<f64>()
        };
        let mut ours_s: f64 =
            self.sharing(host).map(|other| own_s([self.before, self.after], other)).sum();
        if self.plan[0].shares_with(cpus) {
            // The watchers are threads of the Measurer.
            ours_s -= watchers_s(false);
        }
        // The lab process stays on its own cores.
        if self.span.lab.unwrap_or(self.plan[0]).shares_with(cpus) {
            ours_s += self.after.lab.saturating_sub(self.before.lab) as f64 / 1e9;
        }
        ours_s + watchers_s(true)
    }

    /// Seconds that all tasks ran on the cores of `host`.
    fn tasks_s(&self, host: usize) -> Option<f64> {
        let of = |snapshot: &Snapshot| {
            let tasks = snapshot.tasks.as_ref()?;
            Some(self.sum(host, &tasks.by_core))
        };
        Some((of(self.after)? - of(self.before)?).max(0.0))
    }

    /// Seconds that kernel threads did the work of processes on the cores of `host`.
    fn kernel_threads_s(&self, host: usize) -> Option<f64> {
        let (before, after) =
            (self.before.kernel_threads.as_ref()?, self.after.kernel_threads.as_ref()?);
        let here = after.iter().filter(|(_, now)| self.plan[host].cpus().contains(&now.core));
        let ran = here
            .map(|(pid, now)| now.run.saturating_sub(before.get(pid).map_or(0, |then| then.run)));
        Some(ran.sum::<u64>() as f64 / 1e9)
    }

    fn sum(&self, host: usize, by_core: &BTreeMap<usize, u64>) -> f64 {
        let times = self.plan[host].cpus().iter().filter_map(|cpu| by_core.get(cpu));
        times.sum::<u64>() as f64 / 1e9
    }

    /// Run time and wait time of each thread of a host, in seconds.
    fn threads(&self, host: usize) -> Vec<Thread> {
        let before = &self.before.processes[host].threads;
        let after = self.after.processes[host].threads.iter();
        let thread = |(tid, now): (&u32, &measure::procfs::SchedStat)| {
            let then = before.get(tid).copied().unwrap_or_default();
            Thread {
                run_s: now.run.saturating_sub(then.run) as f64 / 1e9,
                delay_s: now.delay.saturating_sub(then.delay) as f64 / 1e9,
            }
        };
        after.map(thread).collect()
    }

    /// Longest time in seconds that a thread of the host waited, minus the time that its other
    /// threads, threads of other hosts on its cores, and kernel threads ran: foreign processes
    /// caused the rest.
    fn waited_s(&self, host: usize, threads: &[Thread]) -> Option<f64> {
        let kernel_s = match (self.kernel_threads_s(host), self.span.link) {
            (Some(kernel_s), _) => kernel_s,
            // Each host sends from its own core, where packets need no thread.
            (None, None | Some(Link::Plain)) => 0.0,
            (None, _) => return None,
        };
        let others_s: f64 = self
            .sharing(host)
            .filter(|other| *other != host)
            .map(|other| own_s([self.before, self.after], other))
            .sum();
        let living_s: f64 = threads.iter().map(|thread| thread.run_s).sum();
        let all_s = living_s.max(own_s([self.before, self.after], host));
        let waited = threads.iter().map(|thread| thread.delay_s - (all_s - thread.run_s));
        Some((waited.fold(0.0, f64::max) - others_s - kernel_s).max(0.0))
    }
}

/// Times of one thread between two snapshots, in seconds.
#[derive(Clone, Copy, Debug)]
struct Thread {
    run_s: f64,
    delay_s: f64,
}

/// A share of a time, 0 to 1.
fn share(seconds: f64, of_s: f64) -> f64 {
    (seconds / of_s.max(1e-3)).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use measure::Nanos;
    use measure::procfs::SchedStat;
    use measure::stall::Side;
    use record::ProgramsCpu;
    use udp::sys::CoreRunTimes;

    use super::super::tasks::KernelThread;
    use super::super::tests::{core, snapshots};
    use super::super::{Host, Processes};
    use super::*;

    const MS: u64 = 1_000_000;

    fn span() -> Span<'static> {
        Span { sending_s: 2.0, link: Some(Link::Plain), ..Span::default() }
    }

    /// Processes that ran for some ms in user mode and in the kernel.
    fn ran(user: u64, system: u64) -> Processes {
        let run = [(7, (user + system) * MS)].into();
        Processes { user: user / 10, system: system / 10, run, ..Processes::default() }
    }

    fn thread(run: u64, delay: u64) -> SchedStat {
        SchedStat { run: run * MS, delay: delay * MS }
    }

    /// Tester and AuthDNS on core 0, the server on core 1; ticks of 10 ms.
    fn computed(after: &Snapshot, before: &Snapshot, span: &Span<'_>) -> [Cpu; 3] {
        let (zero, one): (CpuList, CpuList) = ("0".parse().unwrap(), "1".parse().unwrap());
        uses(before, after, [&zero, &zero, &one], 0.01, span)
    }

    fn near(found: f64, wanted: f64) {
        assert!((found - wanted).abs() < 1e-9, "{found} instead of {wanted}");
    }

    #[test]
    fn shares_are_of_the_time_of_sending() {
        let (before, mut after) = snapshots();
        // 500 ms of another's on core 0.
        after.cores = [(0, core(150, 60, 20, 70)), (1, core(120, 50, 20, 110))].into();
        after.processes = [ran(800, 400), ran(200, 300), ran(1_200, 500)];
        after.processes[DUT].threads = [(7, thread(1_900, 10)), (8, thread(0, 200))].into();
        let [tester, auth, dut] = computed(&after, &before, &span());
        near(tester.user_s, 0.8);
        near(tester.system_s, 0.4);
        assert_eq!((tester.softirq_s, tester.irq_s), (Some(0.2), None));
        near(tester.busy, 0.6);
        near(auth.busy, 0.25);
        // Its processes ran for 1.7 s, and packets took 0.2 s.
        near(dut.busy, 0.95);
        near(dut.busiest_thread.unwrap(), 0.95);
        near(dut.run_delay.unwrap(), 0.1);
        // 150 - 100 in user mode; the system time is less than ours with its interrupts.
        near(tester.foreign.unwrap(), 0.5 / 3.0);
        near(dut.foreign.unwrap(), 0.0);
    }

    /// A kernel thread that ran for `ms` on core 1, and one that ran for hours elsewhere before it came there.
    fn threads(ms: u64) -> BTreeMap<u32, KernelThread> {
        let thread = |core, run| KernelThread { core, run };
        let elsewhere = usize::from(ms > 50);
        [(22, thread(1, ms * MS)), (30, thread(elsewhere, 10_000_000 * MS))].into()
    }

    /// A core of the server that ran tasks for 2 s, of which 1.5 s were the server's.
    fn exact(packets: Option<u64>) -> (Snapshot, Snapshot) {
        let (mut before, mut after) = snapshots();
        before.tasks = Some(CoreRunTimes { by_core: [(0, 5), (1, 100 * MS)].into(), exact: true });
        after.tasks = Some(CoreRunTimes { by_core: [(0, 5), (1, 2_100 * MS)].into(), exact: true });
        before.kernel_threads = packets.map(|_| threads(50));
        after.kernel_threads = packets.map(|ran| threads(50 + ran));
        after.cores.insert(1, core(150, 50, 10, 90));
        after.processes[DUT] = ran(1_000, 500);
        (before, after)
    }

    #[test]
    fn what_is_neither_ours_nor_packets_is_foreign() {
        let watched = [(Side::Dut, 1, 20), (Side::Tester, 0, 30)].map(|(side, cpu, used)| {
            let (real_time, used) = (true, Nanos(used * MS));
            WatchedCore { side, cpu, real_time, used, work_ns: None, best_work_ns: None }
        });
        let span = Span { watched: &watched, ..span() };
        let (before, after) = exact(Some(300));
        let dut = &computed(&after, &before, &span)[DUT];
        near(dut.foreign.unwrap(), (2.0 - 1.5 - 0.3 - 0.02) / 3.0);
        // 0.9 s were idle; 1.5 s the server's processes, and 0.42 s packets.
        near(dut.busy, (3.0 - 0.9 - 0.18) / 2.0);
        // Hypervisors count in any case.
        let (before, mut after) = exact(Some(480));
        after.cores.insert(1, CoreTimes { steal: 30, ..core(150, 50, 10, 60) });
        near(computed(&after, &before, &span)[DUT].foreign.unwrap(), 0.1);
    }

    #[test]
    fn the_lab_is_ours_on_its_own_cores() {
        let (before, mut after) = exact(Some(300));
        after.lab = before.lab + 100 * MS;
        let dut: CpuList = "1".parse().unwrap();
        for (lab, foreign_s) in [(None, 0.2), (Some(&dut), 0.1)] {
            let span = Span { lab, ..span() };
            near(computed(&after, &before, &span)[DUT].foreign.unwrap(), foreign_s / 3.0);
        }
    }

    #[test]
    fn inexact_counters_accuse_nobody_of_little() {
        // The kernel's threads cannot be seen: of 0.5 s in tasks and 0.05 s in ticks the smaller counts, and is too small.
        let (before, mut after) = exact(None);
        after.cores.insert(1, core(105, 45, 60, 90));
        assert_eq!(computed(&after, &before, &span())[DUT].foreign.unwrap(), 0.0);
        after.cores.insert(1, core(130, 55, 60, 55));
        near(computed(&after, &before, &span())[DUT].foreign.unwrap(), 0.35 / 3.0);
        // Nor is there an account of tasks.
        after.tasks = None;
        near(computed(&after, &before, &span())[DUT].foreign.unwrap(), 0.35 / 3.0);
    }

    #[test]
    fn busy_is_the_work_while_queries_were_sent() {
        let (before, mut after) = snapshots();
        after.cores.insert(1, core(150, 50, 0, 100));
        after.processes[DUT] = ran(1_500, 500);
        let mut span = span();
        near(computed(&after, &before, &span)[DUT].busy, 1.0);
        (span.times.own_s[DUT], span.times.whole_s[DUT]) = (Some(1.2), 2.0);
        let dut = &computed(&after, &before, &span)[DUT];
        near(dut.busy, 0.6);
        near(dut.user_s, 0.9);
        span.times.server_user = Some(0.25);
        near(computed(&after, &before, &span)[DUT].user_s, 0.3);
        // 0.2 s of processes that ended before the ledger saw them.
        span.times.whole_s[DUT] = 1.8;
        near(computed(&after, &before, &span)[DUT].busy, 0.7);
    }

    #[test]
    fn programs_in_the_kernel_are_its_own_work() {
        let (before, mut after) = exact(Some(300));
        let mut ran = |ms: u64| {
            let by_core = [(0, 5), (1, (100 + ms) * MS)].into();
            after.tasks = Some(CoreRunTimes { by_core, exact: true });
            after.clone()
        };
        let (alone, beside) = (ran(1_800), ran(2_000));
        let programs = ProgramsCpu { ran_s: 0.4, runs: 1_000_000, counting_s: 0.05 };
        let mut span = Span { link: Some(Link::Moderated), ..span() };
        span.times.programs = Some(programs);
        let found = |after: &Snapshot, span: &Span<'_>| computed(after, &before, span);
        // 0.9 s of 3 were idle, and its processes ran for 1.5; the rest is the programs and the packets' way to them.
        let [tester, _, dut] = &found(&alone, &span);
        near(dut.kernel_s.unwrap(), 0.55);
        near(dut.spent_s.unwrap(), 2.05);
        assert_eq!((tester.programs, dut.programs), (None, Some(programs)));
        let plain = Span { link: Some(Link::Plain), ..span };
        assert_eq!(found(&alone, &plain)[DUT].spent_s, None);
        // Others on its core were billed for interrupts, nobody knows how much.
        let dut = &found(&beside, &span)[DUT];
        assert!(
            dut.foreign > Some(MIN_BILLED_SHARE) && dut.spent_s.is_none() && dut.kernel_s.is_none(),
            "{dut:?}"
        );
        near(dut.busy, 0.95);
    }

    #[test]
    fn a_server_waits_for_others_only() {
        let (before, mut after) = snapshots();
        after.processes[DUT].threads = [(7, thread(1_000, 300))].into();
        let waited = |after: &Snapshot, span: &Span<'_>| computed(after, &before, span)[DUT].waited;
        assert_eq!(waited(&after, &span()), Some(0.15));
        // Its own second thread may have been the reason for 200 ms.
        after.processes[DUT].threads.insert(8, thread(200, 0));
        near(waited(&after, &span()).unwrap(), 0.05);
        // And a kernel thread for the rest.
        let (mut idle, mut busy) = (before.clone(), after.clone());
        idle.kernel_threads = Some(threads(50));
        busy.kernel_threads = Some(threads(200));
        assert_eq!(computed(&busy, &idle, &span())[DUT].waited, Some(0.0));
        // Where it cannot be seen, links on which it works leave that open.
        let moderated = Span { link: Some(Link::Moderated), ..span() };
        assert_eq!(waited(&after, &moderated), None);
        assert_eq!(Host::Dut.index(), DUT);
    }
}
