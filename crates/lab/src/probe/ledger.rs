//! CPU time of each host's processes over time: what they used while queries were sent, without what they did before
//! and afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use measure::Nanos;
use nix::time::{ClockId, clock_gettime};

use super::account::Account;
use super::periodic::{Counters, Periodic};
use super::tasks::{packet_threads, run_time, run_time_at};
use crate::testbed::cpus::CpuList;
use crate::testbed::procfs;
use crate::testbed::{Host, Testbed};

/// Time between two entries; one takes a microsecond for each process.
const EVERY: Duration = Duration::from_millis(10);
/// Number of entries after which new processes are looked for.
const SEARCH: u32 = 10;
/// Largest number of entries; then every second one is dropped and they become half as frequent.
const MAX_ENTRIES: usize = 1 << 14;

/// Keeps the ledger until it is stopped or dropped.
#[derive(Debug)]
pub(crate) struct Ledger(Periodic<Kept>);

/// A ledger, the processes in it, and the kernel threads that handle packets on the server's cores.
#[derive(Debug)]
struct Kept {
    processes: Processes,
    packets: Vec<PathBuf>,
    looks: u32,
    times: RunTimes,
}

/// The processes of the hosts, with those that a server starts meanwhile.
#[derive(Debug, Default)]
struct Processes {
    /// Host and CPU time so far, in nanoseconds, of each living process.
    living: BTreeMap<u32, (Host, u64)>,
    /// CPU time of the ended ones of each host, in nanoseconds.
    ended: [u64; 3],
    /// Processes that belong to no host.
    others: BTreeSet<u32>,
    /// Account of the server's, which are not in `living` then.
    server: Option<Arc<Account>>,
}

impl Counters for Kept {
    fn pause(&self) -> Duration {
        self.times.every
    }

    fn look(&mut self) {
        self.looks += 1;
        if self.looks.is_multiple_of(SEARCH) {
            self.processes.search();
        }
        let packets = self.packets.iter().filter_map(|dir| run_time_at(dir)).sum();
        self.times.add(now(), Spent { own: self.processes.spent(), packets });
    }
}

impl Processes {
    /// Adds processes that were not there before: children of known ones, and members of their groups.
    fn search(&mut self) {
        let all: BTreeSet<u32> = procfs::numbers(Path::new("/proc")).into_iter().collect();
        self.others.retain(|pid| all.contains(pid));
        let is_new = |pid: &u32| !self.living.contains_key(pid) && !self.others.contains(pid);
        let mut left: Vec<u32> = all.into_iter().filter(is_new).collect();
        // A parent may be as new as its child, and have a higher number.
        loop {
            let before = left.len();
            left.retain(|pid| {
                let Some(stat) = procfs::read_stat(*pid) else { return false };
                let group = u32::try_from(stat.group).unwrap_or_default();
                let known = self.living.get(&stat.ppid).or_else(|| self.living.get(&group));
                let Some(&(host, _)) = known else { return true };
                self.living.insert(*pid, (host, 0));
                false
            });
            if left.len() == before || left.is_empty() {
                break;
            }
        }
        self.others.extend(left);
    }

    /// Returns the CPU time of each host's processes so far, in nanoseconds, also of ended ones.
    fn spent(&mut self) -> [u64; 3] {
        let mut spent = [0; 3];
        let ended = &mut self.ended;
        self.living.retain(|pid, (host, before)| {
            // The clock of a process ends with it.
            match run_time(*pid, 0, 0) {
                now if now >= *before && now > 0 => *before = now,
                _ if procfs::read_stat(*pid).is_none() => {
                    ended[host.index()] += *before;
                    return false;
                }
                _ => {}
            }
            spent[host.index()] += *before;
            true
        });
        let mut spent: [u64; 3] = std::array::from_fn(|host| spent[host] + self.ended[host]);
        if let Some(ran) = self.server.as_ref().and_then(|account| account.spent()) {
            spent[Host::Dut.index()] = ran.as_nanos() as u64;
        }
        spent
    }
}

impl Ledger {
    /// Starts a ledger of the processes `watched` and their children; those of the server are in its account if it has one.
    pub(crate) fn start(
        watched: &[(Host, u32)],
        server: Option<Arc<Account>>,
        testbed: &Testbed,
    ) -> Self {
        let here = testbed.cpus(Host::Dut).cpus();
        let packets = packet_threads(testbed.host_proc()).into_iter();
        let packets = packets.filter(|(core, _)| here.contains(core)).map(|(_, dir)| dir);
        Self::of(watched, server, packets.collect(), &testbed.lab_cpus())
    }

    /// Starts it on the cores `on`, with the kernel threads that have these folders.
    fn of(
        watched: &[(Host, u32)],
        server: Option<Arc<Account>>,
        packets: Vec<PathBuf>,
        on: &CpuList,
    ) -> Self {
        let table = procfs::Table::read();
        let watched = watched.iter().filter(|(host, _)| server.is_none() || *host != Host::Dut);
        let trees = watched
            .flat_map(|(host, root)| table.tree(*root).into_iter().map(|pid| (pid, (*host, 0))));
        let processes = Processes { living: trees.collect(), server, ..Processes::default() };
        Ledger(Periodic::start(on, || {
            let times = RunTimes { entries: Vec::new(), every: EVERY };
            let mut kept = Kept { processes, packets, looks: 0, times };
            kept.look();
            kept
        }))
    }

    /// Ends the ledger; returns its entries.
    pub(crate) fn stop(self) -> RunTimes {
        self.0.stop().map(|kept| kept.times).unwrap_or_default()
    }
}

/// CPU time so far, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Spent {
    /// CPU time of the processes of each host.
    own: [u64; 3],
    /// CPU time of the kernel threads that handle packets on the server's cores.
    packets: u64,
}

/// CPU time of each host's processes at some times, rising.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RunTimes {
    entries: Vec<(Nanos, Spent)>,
    every: Duration,
}

impl RunTimes {
    fn add(&mut self, at: Nanos, spent: Spent) {
        if self.entries.len() >= MAX_ENTRIES {
            let mut place = 0;
            self.entries.retain(|_| {
                place += 1;
                place % 2 == 1
            });
            self.every *= 2;
        }
        self.entries.push((at, spent));
    }

    /// Returns how many seconds the processes of `host` ran between two times on `CLOCK_MONOTONIC`; `None` if the
    /// entries do not reach from before the one to after the other.
    pub(crate) fn between(&self, host: Host, from: Nanos, until: Nanos) -> Option<f64> {
        self.difference(from, until, |spent| spent.own[host.index()])
    }

    /// Returns how many seconds the kernel threads that handle packets on the server's cores ran between two times.
    pub(crate) fn packets_between(&self, from: Nanos, until: Nanos) -> Option<f64> {
        self.difference(from, until, |spent| spent.packets)
    }

    fn difference(&self, from: Nanos, until: Nanos, of: impl Fn(&Spent) -> u64) -> Option<f64> {
        let (from, until) = (self.at(from, &of)?, self.at(until, &of)?);
        Some((until - from).max(0.0) / 1e9)
    }

    /// The same for a trial that was stopped when it missed its goal: what is too much for a host is at work then, and may not have
    /// been at its beginning. If it ran for longer in the second half, twice that.
    pub(crate) fn until_stopped(&self, host: Host, from: Nanos, until: Nanos) -> Option<f64> {
        let half = from + Nanos(until.since(from).0 / 2);
        let (whole, second) = (self.between(host, from, until)?, self.between(host, half, until)?);
        Some(whole.max(2.0 * second))
    }

    /// Returns the CPU time at `at`, in nanoseconds, between the entries before and after it.
    fn at(&self, at: Nanos, of: impl Fn(&Spent) -> u64) -> Option<f64> {
        let next = self.entries.partition_point(|(time, _)| *time < at);
        let (after, spent_after) = self.entries.get(next)?;
        let after_ns = of(spent_after) as f64;
        if *after == at {
            return Some(after_ns);
        }
        let (before, spent_before) = self.entries.get(next.checked_sub(1)?)?;
        let before_ns = of(spent_before) as f64;
        let share = at.since(*before).0 as f64 / after.since(*before).0 as f64;
        Some(before_ns + share * (after_ns - before_ns))
    }
}

/// Returns `CLOCK_MONOTONIC`, the clock of the Measurer.
fn now() -> Nanos {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).ok();
    Nanos(time.map_or(0, |time| time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    #[test]
    fn times_lie_between_entries() {
        let mut times = RunTimes { entries: Vec::new(), every: EVERY };
        for (at, dut) in [(100, 0), (200, 50_000_000), (300, 50_000_000), (400, 150_000_000)] {
            times.add(MS(at), Spent { own: [7, 0, dut], packets: dut / 10 });
        }
        let between = |from, until| times.between(Host::Dut, MS(from), MS(until));
        assert_eq!(between(100, 400), Some(0.15));
        assert_eq!(between(150, 350), Some(0.075));
        assert_eq!(between(200, 300), Some(0.0));
        assert_eq!((between(99, 300), between(100, 401)), (None, None));
        assert_eq!(times.between(Host::Tester, MS(100), MS(400)), Some(0.0));
        assert_eq!(times.packets_between(MS(150), MS(350)), Some(0.0075));
        let stopped = |from, until| times.until_stopped(Host::Dut, MS(from), MS(until));
        // The second half of one is from 250 on, that of the other is idle.
        assert_eq!((stopped(100, 400), stopped(100, 300)), (Some(0.2), Some(0.05)));
        assert_eq!(stopped(100, 401), None);
    }

    #[test]
    fn a_long_ledger_is_thinned_out() {
        let mut times = RunTimes { entries: Vec::new(), every: EVERY };
        for at in 0..=MAX_ENTRIES as u64 {
            times.add(MS(at), Spent { own: [0, 0, at], packets: 0 });
        }
        assert_eq!((times.entries.len(), times.every), (MAX_ENTRIES / 2 + 1, 2 * EVERY));
        assert_eq!(times.between(Host::Dut, MS(0), MS(10)), Some(10e-9));
    }

    #[test]
    fn processes_that_begin_and_end_meanwhile_are_counted() {
        let mut shell = std::process::Command::new("sh");
        let busy = "read go; sh -c 'i=0; while [ $i -lt 1000000 ]; do i=$((i+1)); done'; read end";
        let mut shell =
            shell.args(["-c", busy]).stdin(std::process::Stdio::piped()).spawn().expect("starts");
        let ledger = Ledger::of(&[(Host::Dut, shell.id())], None, Vec::new(), &CpuList::allowed());
        let from = now();
        let mut input = shell.stdin.take().expect("piped");
        input.write_all(b"go\n").expect("writes");
        let deadline = from + Nanos::from_secs(20);
        while procfs::read_stat(shell.id()).is_some_and(|stat| stat.children < 2)
            && now() < deadline
        {
            std::thread::sleep(EVERY);
        }
        let children = procfs::read_stat(shell.id()).expect("it waits").children;
        std::thread::sleep(2 * EVERY);
        let until = now();
        std::thread::sleep(2 * EVERY);
        let found = ledger.stop().between(Host::Dut, from, until).expect("covered");
        // What it ran in its last moments may be missing.
        let wanted = children as f64 / crate::probe::ticks_per_second();
        assert!(wanted > 0.0 && found > 0.5 * wanted, "{found} s of {wanted} s");
        input.write_all(b"end\n").expect("writes");
        shell.wait().expect("ends");
    }

    #[test]
    fn it_sees_this_process() {
        let ledger =
            Ledger::of(&[(Host::Auth, std::process::id())], None, Vec::new(), &CpuList::allowed());
        let from = now();
        let mut work = 0_u64;
        while now() < from + MS(60) {
            work = std::hint::black_box(work.wrapping_add(1));
        }
        let until = now();
        std::thread::sleep(2 * EVERY);
        let times = ledger.stop();
        assert_eq!(times.between(Host::Dut, from, until), Some(0.0));
        let own = times.between(Host::Auth, from, until).expect("covered");
        assert!(own > 0.0, "{times:?}");
    }
}
