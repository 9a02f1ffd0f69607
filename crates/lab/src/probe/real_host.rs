//! The probe of a real host, which runs no other process of dnsdyno: the host of a server that the
//! user runs.

use std::collections::{BTreeMap, BTreeSet};

use measure::Link;
use measure::procfs::SchedStat;
use measure::stall::WatchedCore;
use record::{Cpu, Trial};
use udp::processes;

use super::{
    Ledger, Processes, Sending, Snapshot, Span, programs, read_network, tasks, ticks_per_second,
    usage,
};
use crate::testbed::cpus::CpuList;
use crate::testbed::{Host, procfs};

/// Loopback device: its losses are not packets of remote clients, and datagrams on it are counted
/// by their sockets.
const LOOPBACK: &str = "lo";

/// Losses of a host during a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostLosses {
    /// Number of datagrams that the server's own sockets dropped, as far as this user may see which are its own, and of packets that
    /// the host received and dropped before any socket.
    pub receive_drops: u64,
    /// Number of connections that the host did not accept in time: an accept queue was full.
    pub not_taken: u64,
}

/// Counters of this host before a trial.
#[derive(Debug)]
pub struct HostProbe {
    pids: Vec<u32>,
    cpus: CpuList,
    before: Snapshot,
    ledger: Ledger,
    /// Datagrams that each socket of the server has dropped, by the socket's number.
    drops: BTreeMap<u64, u64>,
}

impl HostProbe {
    /// Reads the counters of the processes `pids` with their children, of their cores, and of this
    /// network namespace; their programs in the kernel are counted if requested and possible.
    pub fn begin(pids: Vec<u32>, cpus: CpuList, count_programs: bool) -> Self {
        // The first call measures the cost of counting, which is no part of the trial.
        let programs = count_programs.then(|| programs::count(&pids, BTreeSet::new())).flatten();
        let (before, drops) = (snapshot(&pids), drops_of(&pids));
        // The cores of this process, not only the server's cores.
        let on = CpuList::allowed();
        let others = on.cpus().iter().copied().filter(|cpu| !cpus.cpus().contains(cpu));
        let on = CpuList::new(others).unwrap_or(on.clone());
        let ledger = Ledger::of_server(&pids, programs, &on);
        HostProbe { pids, cpus, before, ledger, drops }
    }

    /// Returns the use of the cores since the probe began, by a server that was queried during
    /// `sending`, and the losses of this host; `watched` are the cores with a watcher.
    pub fn end(self, sending: &Sending, watched: &[WatchedCore]) -> (Cpu, HostLosses) {
        self.seen(sending, watched, false)
    }

    /// Adds the CPU time of the server to a trial of a Tester on this host; returns whether both
    /// may run on the same cores; then only the server's processes are counted: other work of these
    /// cores, such as packet work, cannot be assigned.
    pub fn add_to(mut self, trial: &mut Trial) -> bool {
        let tester = CpuList::new(trial.conditions.cpus.iter().copied());
        let tester = tester.unwrap_or_else(CpuList::allowed);
        self.cpus = self.cores_in_use().unwrap_or(self.cpus);
        let (shared, sending) = (tester.shares_with(&self.cpus), Sending::of(trial));
        let (mut usage, _) = self.seen(&sending, &trial.disturbances.watched, shared);
        if shared {
            (usage.foreign, usage.waited) = (None, None);
        }
        trial.cpu.insert("dut".to_owned(), usage);
        shared
    }

    /// Returns the cores on which the server's threads may run, without threads that ran less than a
    /// tenth as long as the busiest since then, such as one that starts the others; `None` if none ran.
    fn cores_in_use(&self) -> Option<CpuList> {
        let before = &self.before.processes[Host::Dut.index()].threads;
        let all = || self.pids.iter().flat_map(|pid| procfs::tree(*pid));
        let ran = |(tid, now): (u32, SchedStat)| {
            (tid, now.run - before.get(&tid).map_or(0, |then| then.run.min(now.run)))
        };
        let ran: BTreeMap<u32, u64> = all().flat_map(processes::thread_times).map(ran).collect();
        let least = ran.values().max().map_or(0, |most| most / 10);
        let busy = |tid: &u32| ran.get(tid).is_some_and(|ran| *ran > least);
        let in_use = all().flat_map(procfs::affinities).filter(|(tid, _)| busy(tid));
        CpuList::new(in_use.flat_map(|(_, cpus)| cpus.cpus().to_vec()))
    }

    /// Returns both; on cores `shared` with a Tester only the server's processes count.
    fn seen(self, sending: &Sending, watched: &[WatchedCore], shared: bool) -> (Cpu, HostLosses) {
        let after = snapshot(&self.pids);
        // Tester and AuthDNS have no cores here, or cores of their own.
        let none = CpuList::new([usize::MAX]).expect("one core");
        let times = self.ledger.stop().during(sending).without_packets();
        let (sending_s, link) = (sending.seconds, Some(Link::Plain));
        let span = Span { sending_s, times, watched, link, ..Span::default() };
        let plan = [if shared { &self.cpus } else { &none }, &none, &self.cpus];
        let uses = usage::uses(&self.before, &after, plan, 1.0 / ticks_per_second(), &span);
        let dut = Host::Dut.index();
        let (before, after) = (&self.before.networks[dut], &after.networks[dut]);
        let links = after.links.iter().filter(|(name, _)| *name != LOOPBACK);
        let links = links.map(|(name, now)| {
            now.since(&before.links.get(name).copied().unwrap_or_default()).received
        });
        let [_, _, usage] = uses;
        let dropped = drops_of(&self.pids)
            .into_iter()
            .filter_map(|(socket, drops)| Some(drops.saturating_sub(*self.drops.get(&socket)?)));
        let losses = HostLosses {
            receive_drops: dropped.sum::<u64>() + links.sum::<u64>(),
            not_taken: after.not_taken.saturating_sub(before.not_taken),
        };
        (usage, losses)
    }
}

/// Returns the drops so far of each UDP socket of some processes and their children.
fn drops_of(pids: &[u32]) -> BTreeMap<u64, u64> {
    let table = procfs::Table::read();
    let trees = pids.iter().flat_map(|pid| table.tree(*pid));
    let own: BTreeSet<u64> = trees.flat_map(processes::sockets).collect();
    let sockets = processes::udp_sockets().into_iter();
    let own = sockets.filter(|socket| own.contains(&socket.inode));
    own.map(|socket| (socket.inode, socket.drops)).collect()
}

fn snapshot(pids: &[u32]) -> Snapshot {
    let mut snapshot = Snapshot::bare(tasks::kernel_threads(std::path::Path::new("/proc")));
    let processes: &mut Processes = &mut snapshot.processes[Host::Dut.index()];
    let table = procfs::Table::read();
    pids.iter().for_each(|&pid| processes.add_tree(&table, pid));
    snapshot.networks[Host::Dut.index()] = read_network();
    snapshot
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn drops_of_others_sockets_are_not_the_servers() {
        let bound = || UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let (full, other) = (bound(), bound());
        let at = full.local_addr().expect("bound");
        // Nobody reads: its queue is full after some hundred.
        (0..5_000).for_each(|_| drop(other.send_to(&[0; 1_000], at)));
        let dropped = |pid| drops_of(&[pid]).values().sum::<u64>();
        assert!(dropped(std::process::id()) > 0);
        let mut sleeper = std::process::Command::new("sleep").arg("60").spawn().expect("starts");
        assert_eq!(dropped(sleeper.id()), 0);
        sleeper.kill().and_then(|()| sleeper.wait()).expect("ends");
    }
}
