//! Probes: CPU time and losses of each host of the testbed during a trial.
//!
//! ```text
//!   snapshot ──> trial ──> snapshot ──> difference ──> cpu and drops of the record
//!   /proc/stat, PID/stat, schedstat           └──────> evidence ──> limiter (measure)
//!   net/snmp, net/snmp6, net/netstat, net/dev
//! ```
//!
//! These probes cost nothing while the trial runs: they read counters before and after. Shares of a trial are
//! relative to the time of sending, since a server is idle while the Tester starts and waits for the last replies;
//! the load of other processes is relative to the time between the snapshots, since it does not wait.
//!
//! In addition a [`Sampler`] reads counters a few times a second, for series over time, and a
//! `Ledger` the CPU time of the processes a hundred times a second, so that work outside of the
//! time of sending can be subtracted.

mod account;
pub mod host;
mod ledger;
mod periodic;
pub(crate) mod programs;
mod real_host;
mod sample;
mod tasks;
mod usage;
pub(crate) mod watch;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use measure::Link;
use measure::procfs::{
    CoreTimes, LinkCounters, SchedStat, UdpCounters, parse_connections_not_taken, parse_cores,
    parse_links,
};
use nix::unistd::{SysconfVar, sysconf};
use record::Cpu;
use udp::processes;
use udp::sys::CoreRunTimes;

use crate::testbed::cpus::CpuList;
use crate::testbed::{Host, PORT, Testbed, procfs};
pub(crate) use account::{Account, Accounts};
pub use ledger::Sending;
pub(crate) use ledger::{Ledger, RunTimes, monotonic};
pub use real_host::{HostLosses, HostProbe};
pub use sample::{Sampler, Watched};
pub use usage::Span;

/// CPU time of a host's processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Processes {
    user: u64,
    system: u64,
    /// Run time of each process and its ended children, in nanoseconds.
    run: BTreeMap<u32, u64>,
    /// Run time of all these processes, including ended ones, if they have an account.
    account: Option<account::ProcessRunTime>,
    threads: BTreeMap<u32, SchedStat>,
}

/// Network counters of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Network {
    udp: UdpCounters,
    /// Number of connections that the host did not accept in time: an accept queue was full.
    not_taken: u64,
    links: BTreeMap<String, LinkCounters>,
}

/// All counters at the same time.
#[derive(Clone, Debug)]
pub struct Snapshot {
    at: Instant,
    cores: BTreeMap<usize, CoreTimes>,
    /// Time that tasks of any kind ran; absent if the kernel does not report it.
    tasks: Option<CoreRunTimes>,
    /// Kernel threads that do the work of processes, by their numbers; absent where they cannot be seen.
    kernel_threads: Option<BTreeMap<u32, tasks::KernelThread>>,
    /// Run time of this process, in nanoseconds.
    lab: u64,
    processes: [Processes; 3],
    networks: [Network; 3],
}

impl Snapshot {
    /// Reads the counters of the hosts and of the processes `watched` (with their children).
    ///
    /// # Errors
    /// If a host's namespace cannot be entered.
    pub fn take(testbed: &Testbed, watched: &[(Host, u32)]) -> io::Result<Self> {
        Self::with_account(testbed, watched, None)
    }

    /// Reads the counters, and the server's account if it has one.
    ///
    /// # Errors
    /// If a host's namespace cannot be entered.
    pub(crate) fn with_account(
        testbed: &Testbed,
        watched: &[(Host, u32)],
        account: Option<&Account>,
    ) -> io::Result<Self> {
        let mut processes: [Processes; 3] = Default::default();
        let table = procfs::Table::read();
        for &(host, pid) in watched {
            processes[host.index()].add_tree(&table, pid);
        }
        let mut networks: [Network; 3] = Default::default();
        for host in Host::ALL.into_iter().filter(|_| testbed.has_networks()) {
            networks[host.index()] = testbed.namespace(host).run(read_network)?;
        }
        if !testbed.has_networks() {
            // In one network with the Measurer the server is identified by its address.
            let place = testbed.place(Host::Auth, Host::Dut, PORT);
            let at: [SocketAddr; 2] =
                [(place.v4, place.port).into(), (place.v6, place.port).into()];
            networks[Host::Auth.index()].udp.in_errors = drops_at(&at);
        }
        let kernel_threads = tasks::kernel_threads(testbed.host_proc());
        // Read together with the times of the cores, from which it is subtracted.
        let bare = Self::bare(kernel_threads);
        processes[Host::Dut.index()].account = account.and_then(Account::spent);
        Ok(Self { processes, networks, ..bare })
    }

    /// Returns whether the kernel counts the time of interrupts apart from the interrupted task:
    /// then the counts are not all 0. Otherwise all of its counts are 0.
    pub(crate) fn interrupts_are_apart(&self) -> bool {
        self.cores.values().any(|core| core.irq > 0)
    }

    /// Reads the counters of the cores and of this process.
    fn bare(kernel_threads: Option<BTreeMap<u32, tasks::KernelThread>>) -> Self {
        Self {
            at: Instant::now(),
            cores: parse_cores(&fs::read_to_string("/proc/stat").unwrap_or_default()),
            tasks: CoreRunTimes::read(),
            kernel_threads,
            lab: tasks::run_time(std::process::id(), 0, 0),
            processes: Default::default(),
            networks: Default::default(),
        }
    }
}

impl Processes {
    fn add_tree(&mut self, table: &procfs::Table, root: u32) {
        for pid in table.tree(root) {
            if let Some(stat) = procfs::read_stat(pid) {
                self.user += stat.user;
                self.system += stat.system;
                let tick_ns = (1e9 / ticks_per_second()) as u64;
                self.run.insert(pid, tasks::run_time(pid, stat.children, tick_ns));
            }
            self.threads.extend(processes::thread_times(pid));
        }
    }
}

/// Returns the CPU time of processes and their children until now: seconds in user mode and in the kernel.
pub(crate) fn time_of_processes(pids: &[u32]) -> (f64, f64) {
    let (mut spent, table) = (Processes::default(), procfs::Table::read());
    pids.iter().for_each(|&pid| spent.add_tree(&table, pid));
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
        not_taken: parse_connections_not_taken(&read("netstat")),
        links: parse_links(&read("dev")),
    }
}

/// Returns the number of datagrams that the kernel of a host has received and dropped until now.
///
/// # Errors
/// If the host's namespace cannot be entered.
pub(crate) fn datagrams_dropped(testbed: &Testbed, host: Host) -> io::Result<u64> {
    Ok(testbed.namespace(host).run(read_network)?.udp.in_errors)
}

/// Returns the number of datagrams that sockets of this network namespace at the addresses `at` have dropped until now.
fn drops_at(at: &[SocketAddr]) -> u64 {
    let sockets = processes::udp_sockets();
    let own = sockets.iter().filter(|socket| at.contains(&socket.local));
    own.map(|socket| socket.drops).sum()
}

/// CPU time and losses of the testbed during a trial.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    uses: [Cpu; 3],
    /// Seconds in which each host's processes and their ended children ran.
    own_s: [f64; 3],
    /// Number of datagrams that each host's kernel received and dropped, without the Measurer's own sockets.
    receive_drops: [u64; 3],
    /// Number of connections that each host did not accept in time.
    not_taken: [u64; 3],
    /// Number of packets lost on links.
    pub link_drops: u64,
}

impl Observed {
    /// Computes the difference of two snapshots around a trial; `span` is the time of its queries.
    pub fn between(
        before: &Snapshot,
        after: &Snapshot,
        testbed: &Testbed,
        span: &Span<'_>,
    ) -> Self {
        let plan: [&CpuList; 3] = Host::ALL.map(|host| testbed.cpus(host));
        let lab = testbed.lab_cpus();
        let span = Span { link: Some(testbed.link()), lab: Some(&lab), ..*span };
        let tick_s = 1.0 / ticks_per_second();
        let uses = usage::uses(before, after, plan, tick_s, &span);
        let own_s = Host::ALL.map(|host| usage::own_s([before, after], host.index()));
        let mut observed = Self { uses, own_s, ..Self::default() };
        observed.count_drops(before, after, testbed.link());
        observed
    }

    /// Returns the CPU time and load of `host`.
    pub fn usage(&self, host: Host) -> &Cpu {
        &self.uses[host.index()]
    }

    /// Returns the seconds in which the processes of `host` and their ended children ran.
    pub(crate) fn own_s(&self, host: Host) -> f64 {
        self.own_s[host.index()]
    }

    /// Returns the number of datagrams that `host` received and dropped.
    pub fn receive_drops(&self, host: Host) -> u64 {
        self.receive_drops[host.index()]
    }

    /// Returns the number of connections that `host` did not accept in time.
    pub fn connections_not_taken(&self, host: Host) -> u64 {
        self.not_taken[host.index()]
    }

    /// Counts drops. Drops of receive queues belong to their host. But other processes, such as an
    /// attacker, may share the Tester's host, so that the Measurer counts the drops of its own
    /// sockets. Drops of a link towards a host belong to it too if it receives on its own cores:
    /// then they are drops of its backlog, like those of a network card's ring, and mean that the
    /// host does not keep up. On plain links the sender's core does that work, and the drops belong
    /// to the link.
    fn count_drops(&mut self, before: &Snapshot, after: &Snapshot, link: Link) {
        for host in Host::ALL {
            let i = host.index();
            let udp = after.networks[i].udp.since(&before.networks[i].udp);
            if host != Host::Tester {
                self.receive_drops[i] += udp.in_errors;
            }
            self.not_taken[i] =
                after.networks[i].not_taken.saturating_sub(before.networks[i].not_taken);
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

/// Returns the unit of CPU times in `/proc`.
fn ticks_per_second() -> f64 {
    sysconf(SysconfVar::CLK_TCK).ok().flatten().map_or(100.0, |ticks| ticks as f64)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    pub(super) fn core(user: u64, system: u64, softirq: u64, idle: u64) -> CoreTimes {
        CoreTimes { user, system, softirq, idle, ..CoreTimes::default() }
    }

    /// Snapshots of two idle cores, 3 s apart.
    pub(super) fn snapshots() -> (Snapshot, Snapshot) {
        let zero = Snapshot {
            at: Instant::now(),
            cores: [(0, core(0, 0, 0, 0)), (1, core(0, 0, 0, 0))].into(),
            tasks: None,
            kernel_threads: None,
            lab: 0,
            processes: Default::default(),
            networks: Default::default(),
        };
        let mut later = zero.clone();
        later.at += Duration::from_secs(3);
        (zero, later)
    }

    #[test]
    fn drops_belong_to_the_host_that_does_not_keep_up() {
        let (before, mut after) = snapshots();
        after.networks[Host::Dut.index()].udp.in_errors = 5;
        after.networks[Host::Dut.index()].not_taken = 3;
        // Of an attacker's sockets.
        after.networks[Host::Tester.index()].udp.in_errors = 70;
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
        assert_eq!(plain.connections_not_taken(Host::Dut), 3);
    }
}
