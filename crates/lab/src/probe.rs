//! Probes: CPU time and losses of each host of the testbed during a trial.
//!
//! ```text
//!   snapshot ──> trial ──> snapshot ──> difference ──> cpu and drops of the record
//!   /proc/stat, PID/stat, schedstat           └──────> evidence ──> limiter (measure)
//!   net/snmp, net/snmp6, net/dev
//! ```
//!
//! These probes cost nothing while the trial runs: they read counters before and after. Shares of a trial are
//! relative to the time of sending, since a server is idle while the Tester starts and waits for the last replies;
//! the load of other processes is relative to the time between the snapshots, since it does not wait.
//!
//! In addition a [`Sampler`] reads counters a few times a second, for series over time.

pub mod procfs;
mod sample;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::time::Instant;

use measure::procfs::{CoreTimes, LinkCounters, SchedStat, UdpCounters, parse_cores, parse_links};
use nix::unistd::{SysconfVar, sysconf};

use measure::Link;

use crate::cpus::CpuList;
use crate::testbed::{Host, Testbed};
pub use sample::{Sampler, Watched};

/// CPU time of a host's processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Processes {
    user: u64,
    system: u64,
    threads: BTreeMap<u32, SchedStat>,
}

/// Network counters of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Network {
    udp: UdpCounters,
    links: BTreeMap<String, LinkCounters>,
}

/// All counters at one time.
#[derive(Clone, Debug)]
pub struct Snapshot {
    at: Instant,
    cores: BTreeMap<usize, CoreTimes>,
    processes: [Processes; 3],
    networks: [Network; 3],
}

impl Snapshot {
    /// Reads the counters of the hosts and of the processes `watched` (with their children).
    ///
    /// # Errors
    /// If a host's namespace cannot be entered.
    pub fn take(testbed: &Testbed, watched: &[(Host, u32)]) -> io::Result<Self> {
        let mut processes: [Processes; 3] = Default::default();
        for &(host, pid) in watched {
            processes[host.index()].add_tree(pid);
        }
        let mut networks: [Network; 3] = Default::default();
        for host in Host::ALL {
            networks[host.index()] = testbed.namespace(host).run(read_network)?;
        }
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let cores = parse_cores(&stat);
        Ok(Self { at: Instant::now(), cores, processes, networks })
    }
}

impl Processes {
    fn add_tree(&mut self, root: u32) {
        for pid in procfs::tree(root) {
            if let Some(stat) = procfs::read_stat(pid) {
                self.user += stat.user;
                self.system += stat.system;
            }
            self.threads.extend(procfs::read_threads(pid));
        }
    }
}

/// Returns the CPU time of processes and their children until now: seconds in user mode and in the kernel.
pub(crate) fn time_of_processes(pids: &[u32]) -> (f64, f64) {
    let mut spent = Processes::default();
    pids.iter().for_each(|&pid| spent.add_tree(pid));
    let seconds = |ticks: u64| ticks as f64 / ticks_per_second();
    (seconds(spent.user), seconds(spent.system))
}

/// Reads the counters of the calling thread's network namespace.
fn read_network() -> Network {
    let read = |name: &str| {
        fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default()
    };
    Network {
        udp: UdpCounters::parse(&read("snmp"), &read("snmp6")),
        links: parse_links(&read("dev")),
    }
}

/// CPU time and load of a host during a trial.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostUse {
    /// Seconds in which its processes ran in user mode.
    pub user_s: f64,
    /// Seconds in which its processes ran in the kernel.
    pub system_s: f64,
    /// Seconds of software interrupts on its cores, of any cause.
    pub softirq_s: f64,
    /// Busy share (0 to 1) of its cores; of its own part only, if it shares them.
    pub busy: f64,
    /// Share (0 to 1) of the trial in which its busiest thread ran.
    pub busiest_thread: f64,
    /// Largest share (0 to 1) of the trial in which one of its threads was ready to run and did not.
    pub run_delay: f64,
    /// Share (0 to 1) of its cores that the hypervisor and processes outside the testbed used.
    pub foreign: f64,
}

/// CPU time and losses of the testbed during a trial.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    uses: [HostUse; 3],
    /// Number of datagrams that each host's kernel received and dropped.
    receive_drops: [u64; 3],
    /// Number of packets lost on links.
    pub link_drops: u64,
}

impl Observed {
    /// Computes the difference of two snapshots around a trial that sent for `sending_s` seconds.
    pub fn between(before: &Snapshot, after: &Snapshot, testbed: &Testbed, sending_s: f64) -> Self {
        let window_s = after.at.duration_since(before.at).as_secs_f64();
        let plan: [&CpuList; 3] = Host::ALL.map(|host| testbed.cpus(host));
        let tick_s = 1.0 / ticks_per_second();
        let mut observed = Self {
            uses: uses(before, after, plan, Times { window_s, sending_s, tick_s }),
            ..Self::default()
        };
        observed.count_drops(before, after, testbed.link());
        observed
    }

    /// Returns the CPU time and load of `host`.
    pub fn usage(&self, host: Host) -> &HostUse {
        &self.uses[host.index()]
    }

    /// Returns the number of datagrams that `host` received and dropped.
    pub fn receive_drops(&self, host: Host) -> u64 {
        self.receive_drops[host.index()]
    }

    /// Counts drops. Drops of receive queues belong to their host. Drops of a link towards a host belong to it too if
    /// it receives on its own cores: then they are drops of its backlog, like those of a network card's ring, and
    /// mean that it does not keep up. On plain links the sender's core does that work, and the drops belong to the
    /// link.
    fn count_drops(&mut self, before: &Snapshot, after: &Snapshot, link: Link) {
        for host in Host::ALL {
            let i = host.index();
            let udp = after.networks[i].udp.since(&before.networks[i].udp);
            self.receive_drops[i] += udp.in_errors;
            for other in Host::ALL.into_iter().filter(|other| *other != host) {
                let toward_other = Host::interface(other);
                let counters = |snapshot: &Snapshot| {
                    snapshot.networks[i].links.get(&toward_other).copied().unwrap_or_default()
                };
                let lost = counters(after).since(&counters(before));
                if link.bills_receiver() {
                    self.receive_drops[other.index()] += lost.sent;
                    self.receive_drops[i] += lost.received;
                } else {
                    self.link_drops += lost.sent + lost.received;
                }
            }
        }
    }
}

/// Times that shares are relative to, in seconds.
#[derive(Clone, Copy, Debug)]
struct Times {
    window_s: f64,
    sending_s: f64,
    tick_s: f64,
}

/// Returns the use of each host, from two snapshots.
fn uses(before: &Snapshot, after: &Snapshot, plan: [&CpuList; 3], t: Times) -> [HostUse; 3] {
    let share = |seconds: f64, of_s: f64| (seconds / of_s.max(1e-3)).clamp(0.0, 1.0);
    let spent = |i: usize| {
        let (b, a) = (&before.processes[i], &after.processes[i]);
        let seconds = |b: u64, a: u64| a.saturating_sub(b) as f64 * t.tick_s;
        (seconds(b.user, a.user), seconds(b.system, a.system))
    };
    std::array::from_fn(|i| {
        let cpus = plan[i];
        let count = cpus.count() as f64;
        let core = cores_of(before, after, cpus);
        let (user_s, system_s) = spent(i);
        let alone = plan.iter().enumerate().all(|(j, other)| i == j || !other.shares_with(cpus));
        let own_s = if alone { core.busy() as f64 * t.tick_s } else { user_s + system_s };
        let (mut busiest, mut delay) = (0, 0);
        for (thread, now) in &after.processes[i].threads {
            let then = before.processes[i].threads.get(thread).copied().unwrap_or_default();
            busiest = busiest.max(now.run.saturating_sub(then.run));
            delay = delay.max(now.delay.saturating_sub(then.delay));
        }
        // Software interrupts during our processes count in their system time and also in the core's softirq column.
        // So only the other two columns are compared, and the time of other processes is never overstated.
        let ours = (0..plan.len()).filter(|j| plan[*j].shares_with(cpus)).map(spent);
        let (our_user, our_system) = ours.fold((0.0, 0.0), |sum, s| (sum.0 + s.0, sum.1 + s.1));
        let foreign_s = (core.user as f64 * t.tick_s - our_user).max(0.0)
            + (core.system as f64 * t.tick_s - our_system).max(0.0)
            + core.steal as f64 * t.tick_s;
        HostUse {
            user_s,
            system_s,
            softirq_s: core.softirq as f64 * t.tick_s,
            busy: share(own_s, t.sending_s * count),
            busiest_thread: share(busiest as f64 / 1e9, t.sending_s),
            run_delay: share(delay as f64 / 1e9, t.sending_s),
            foreign: share(foreign_s, t.window_s * count),
        }
    })
}

/// Returns the work of a list of cores between two snapshots.
fn cores_of(before: &Snapshot, after: &Snapshot, cpus: &CpuList) -> CoreTimes {
    let sum = |snapshot: &Snapshot| {
        let times = cpus.cpus().iter().filter_map(|cpu| snapshot.cores.get(cpu));
        times.fold(CoreTimes::default(), |sum, core| sum.plus(core))
    };
    sum(after).since(&sum(before))
}

/// Returns the unit of CPU times in `/proc`.
fn ticks_per_second() -> f64 {
    sysconf(SysconfVar::CLK_TCK).ok().flatten().map_or(100.0, |ticks| ticks as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn core(user: u64, system: u64, softirq: u64, idle: u64) -> CoreTimes {
        CoreTimes { user, system, softirq, idle, ..CoreTimes::default() }
    }

    fn snapshots() -> (Snapshot, Snapshot) {
        let zero = Snapshot {
            at: Instant::now(),
            cores: [(0, core(0, 0, 0, 0)), (1, core(0, 0, 0, 0))].into(),
            processes: Default::default(),
            networks: Default::default(),
        };
        let mut later = zero.clone();
        later.at += Duration::from_secs(3);
        (zero, later)
    }

    const T: Times = Times { window_s: 3.0, sending_s: 2.0, tick_s: 0.01 };

    #[test]
    fn shares_are_of_the_time_of_sending() {
        let (before, mut after) = snapshots();
        let (zero, one) = ("0".parse().unwrap(), "1".parse().unwrap());
        // Tester and AuthDNS on core 0, 50 ticks of another's there; the server on core 1.
        after.cores = [(0, core(150, 60, 20, 70)), (1, core(120, 50, 20, 110))].into();
        after.processes[0] = Processes { user: 80, system: 40, ..Processes::default() };
        after.processes[1] = Processes { user: 20, system: 30, ..Processes::default() };
        let threads = [
            (7, SchedStat { run: 1_900_000_000, delay: 10_000_000 }),
            (8, SchedStat { run: 100, delay: 200_000_000 }),
        ];
        after.processes[2] = Processes { user: 120, system: 50, threads: threads.into() };
        let [tester, auth, dut] = uses(&before, &after, [&zero, &zero, &one], T);
        assert_eq!((tester.user_s, tester.system_s, tester.softirq_s), (0.8, 0.4, 0.2));
        assert!((tester.busy - 0.6).abs() < 1e-9 && (auth.busy - 0.25).abs() < 1e-9);
        assert!((dut.busy - 0.95).abs() < 1e-9, "{}", dut.busy);
        assert!((dut.busiest_thread - 0.95).abs() < 1e-9 && (dut.run_delay - 0.1).abs() < 1e-9);
        // 150 - 100 in user mode; the system time is less than ours with its interrupts.
        assert!((tester.foreign - 0.5 / 3.0).abs() < 1e-9, "{}", tester.foreign);
        assert_eq!(dut.foreign, 0.0);
    }

    #[test]
    fn drops_belong_to_the_host_that_does_not_keep_up() {
        let (before, mut after) = snapshots();
        after.networks[Host::Dut.index()].udp.in_errors = 5;
        let links = &mut after.networks[Host::Tester.index()].links;
        links.insert("to-dut".to_owned(), LinkCounters { received: 1, sent: 7 });
        links.insert("lo".to_owned(), LinkCounters { received: 99, sent: 99 });
        let mut steered = Observed::default();
        steered.count_drops(&before, &after, Link::Steered);
        assert_eq!(steered.receive_drops, [1, 0, 12]);
        assert_eq!(steered.link_drops, 0);
        let mut plain = Observed::default();
        plain.count_drops(&before, &after, Link::Plain);
        assert_eq!((plain.receive_drops, plain.link_drops), ([0, 0, 5], 8));
    }
}
