//! The probe of a real host, which runs nothing of ours but this process: the host of a server that the user runs.

use measure::Link;
use measure::stall::WatchedCore;

use super::{Processes, Snapshot, Span, procfs, read_network, tasks, ticks_per_second, usage};
use crate::cpus::CpuList;
use crate::probe::HostUse;
use crate::testbed::Host;

/// Loopback: what is lost there is no packet of a client elsewhere, and datagrams on it are counted by their sockets.
const LOOPBACK: &str = "lo";

/// Losses of a host during a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostLosses {
    /// Number of datagrams and packets that it received and dropped.
    pub receive_drops: u64,
    /// Number of connections that its listening sockets did not take.
    pub not_taken: u64,
}

/// Counters of this host before a trial.
#[derive(Debug)]
pub struct HostProbe {
    pids: Vec<u32>,
    cpus: CpuList,
    before: Snapshot,
}

impl HostProbe {
    /// Reads the counters of the processes `pids` with their children, of their cores, and of this network namespace.
    pub fn begin(pids: Vec<u32>, cpus: CpuList) -> Self {
        let before = snapshot(&pids);
        HostProbe { pids, cpus, before }
    }

    /// Returns how the cores were used since then by a server that was queried for `sending_s` seconds while `watched` cores
    /// had a watcher, and what this host lost.
    pub fn end(self, sending_s: f64, watched: &[WatchedCore]) -> (HostUse, HostLosses) {
        let after = snapshot(&self.pids);
        // Tester and AuthDNS have no core here.
        let elsewhere = CpuList::new([usize::MAX]).expect("one core");
        let span = Span { sending_s, watched, link: Some(Link::Plain), ..Span::default() };
        let plan = [&elsewhere, &elsewhere, &self.cpus];
        let uses = usage::uses(&self.before, &after, plan, 1.0 / ticks_per_second(), &span);
        let dut = Host::Dut.index();
        let (before, after) = (&self.before.networks[dut], &after.networks[dut]);
        let links = after.links.iter().filter(|(name, _)| *name != LOOPBACK);
        let links = links.map(|(name, now)| {
            now.since(&before.links.get(name).copied().unwrap_or_default()).received
        });
        let [_, _, usage] = uses;
        let losses = HostLosses {
            receive_drops: after.udp.since(&before.udp).in_errors + links.sum::<u64>(),
            not_taken: after.not_taken.saturating_sub(before.not_taken),
        };
        (usage, losses)
    }
}

fn snapshot(pids: &[u32]) -> Snapshot {
    let mut snapshot = Snapshot::bare(tasks::kernel_threads(std::path::Path::new("/proc")));
    let processes: &mut Processes = &mut snapshot.processes[Host::Dut.index()];
    let table = procfs::Table::read();
    pids.iter().for_each(|&pid| processes.add_tree(&table, pid));
    snapshot.networks[Host::Dut.index()] = read_network();
    snapshot
}
