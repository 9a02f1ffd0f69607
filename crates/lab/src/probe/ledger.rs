//! CPU time of each host's processes over time: only the time while queries were sent.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kernel::{RunCost, RunStatistics, RunTime};
use measure::Nanos;
use nix::time::{ClockId, clock_gettime};
use record::{ProgramsCpu, Trial};
use serde::{Deserialize, Serialize};

use super::account::{Account, ProcessRunTime};
use super::periodic::{Counters, Periodic};
use super::tasks::{packet_threads, run_time, run_time_at};
use crate::testbed::cpus::CpuList;
use crate::testbed::procfs;
use crate::testbed::{Host, Testbed};

/// Time between two entries; one takes a microsecond for each process.
const ENTRY_INTERVAL: Duration = Duration::from_millis(10);
/// Number of entries after which new processes are looked for.
const SEARCH_ENTRIES: u32 = 10;
/// Largest number of entries; then every second one is dropped and they become half as frequent.
const MAX_ENTRIES: usize = 1 << 14;

/// Records the ledger until it is stopped or dropped.
#[derive(Debug)]
pub(crate) struct Ledger(Periodic<Kept>);

/// A ledger, the processes in it, the kernel threads that handle packets on the server's cores, and the server's programs in the kernel.
#[derive(Debug)]
struct Kept {
    processes: LedgerProcesses,
    packets: Vec<PathBuf>,
    programs: Option<RunStatistics>,
    samples: u32,
    times: RunTimes,
}

/// The processes of the hosts, with processes that a server starts during the trial.
#[derive(Debug, Default)]
struct LedgerProcesses {
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

    fn sample(&mut self) {
        self.samples += 1;
        if self.samples.is_multiple_of(SEARCH_ENTRIES) {
            self.processes.search();
        }
        let packets = self.packets.iter().filter_map(|dir| run_time_at(dir)).sum();
        let programs = self.programs.as_ref().map(RunStatistics::read).unwrap_or_default();
        let (own, server) = self.processes.spent();
        self.times.add(monotonic(), CpuSpent { own, server, packets, programs });
    }
}

impl LedgerProcesses {
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

    /// Returns the CPU time of each host's processes so far, in nanoseconds, also of ended ones, and the server's account.
    fn spent(&mut self) -> ([u64; 3], ProcessRunTime) {
        let mut spent = [0; 3];
        let ended = &mut self.ended;
        self.living.retain(|pid, (host, before)| {
            // The CPU clock of a process ends with the process.
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
        let server = self.server.as_ref().and_then(|account| account.spent());
        if let Some(ran) = server {
            spent[Host::Dut.index()] = ran.all;
        }
        (spent, server.unwrap_or_default())
    }
}

impl Ledger {
    /// Starts a ledger of the processes `watched` and their children; the server's processes are
    /// counted in its account if it has one, its programs in the kernel in `programs` if they are
    /// counted.
    pub(crate) fn start(
        watched: &[(Host, u32)],
        server: Option<Arc<Account>>,
        programs: Option<RunStatistics>,
        testbed: &Testbed,
    ) -> Self {
        let here = testbed.cpus(Host::Dut).cpus();
        let packets = packet_threads(testbed.host_proc()).into_iter();
        let packets = packets.filter(|(core, _)| here.contains(core)).map(|(_, dir)| dir);
        let on = testbed.lab_cpus();
        Self::with(&on, watched, server, |kept| Kept {
            packets: packets.collect(),
            programs,
            ..kept
        })
    }

    /// Starts a ledger of only a server's processes `pids` and its programs, on the cores `on`.
    pub(super) fn of_server(pids: &[u32], programs: Option<RunStatistics>, on: &CpuList) -> Self {
        let watched: Vec<_> = pids.iter().map(|pid| (Host::Dut, *pid)).collect();
        Self::with(on, &watched, None, |kept| Kept { programs, ..kept })
    }

    /// Starts the ledger on the cores `on`; `add` adds the processes.
    fn with(
        on: &CpuList,
        watched: &[(Host, u32)],
        server: Option<Arc<Account>>,
        add: impl FnOnce(Kept) -> Kept,
    ) -> Self {
        let table = procfs::Table::read();
        let watched = watched.iter().filter(|(host, _)| server.is_none() || *host != Host::Dut);
        let trees = watched
            .flat_map(|(host, root)| table.tree(*root).into_iter().map(|pid| (pid, (*host, 0))));
        let processes =
            LedgerProcesses { living: trees.collect(), server, ..LedgerProcesses::default() };
        let times = RunTimes { every: ENTRY_INTERVAL, ..RunTimes::default() };
        let bare = Kept { processes, packets: Vec::new(), programs: None, samples: 0, times };
        let mut kept = add(bare);
        kept.times.cost = kept.programs.as_ref().map(RunStatistics::cost);
        Ledger(Periodic::start(on, || {
            kept.sample();
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
struct CpuSpent {
    /// CPU time of the processes of each host.
    own: [u64; 3],
    /// Run time of the server by its account; zero without an account.
    server: ProcessRunTime,
    /// Time of the server's programs in the kernel.
    programs: RunTime,
    /// CPU time of the kernel threads that handle packets on the server's cores.
    packets: u64,
}

/// CPU time of each host's processes at some times, rising.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RunTimes {
    entries: Vec<(Nanos, CpuSpent)>,
    every: Duration,
    /// Cost of counting the server's programs; absent if they are not counted.
    cost: Option<RunCost>,
}

/// When the queries of a trial were sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sending {
    /// Time of the first query, on `CLOCK_MONOTONIC`.
    pub from: Nanos,
    /// Time from the first query to the last, in seconds.
    pub seconds: f64,
    /// Whether the trial ended early because it missed its goal.
    pub stopped_early: bool,
}

impl Sending {
    /// Returns the time of sending of a trial that ran here.
    pub fn of(trial: &Trial) -> Self {
        let (from, stopped_early) = (trial.disturbances.started, trial.stopped_early);
        Sending { from, seconds: trial.duration_s, stopped_early }
    }
}

/// CPU time while queries were sent, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SendingTimes {
    /// CPU time of the processes of each host; absent if the ledger does not cover the trial.
    pub(super) own_s: [Option<f64>; 3],
    /// CPU time of the processes of each host from the first entry of the ledger to the last.
    pub(super) whole_s: [f64; 3],
    /// Share (0 to 1) of the server's CPU time in user mode; absent without an account.
    pub(super) server_user: Option<f64>,
    /// CPU time of the kernel threads that handle packets on the server's cores, on links where all other work for packets is done in the
    /// time of the processes that send them; absent elsewhere.
    pub(super) packets_s: Option<f64>,
    /// CPU time of the server's programs in the kernel; absent if they are not counted.
    pub(super) programs: Option<ProgramsCpu>,
}

impl SendingTimes {
    /// Returns the same without the kernel threads that handle packets.
    pub(crate) fn without_packets(self) -> Self {
        SendingTimes { packets_s: None, ..self }
    }
}

impl RunTimes {
    fn add(&mut self, at: Nanos, spent: CpuSpent) {
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

    /// Returns the times while queries were sent.
    pub(crate) fn during(&self, sending: &Sending) -> SendingTimes {
        let (from, until) = (sending.from, sending.from + Nanos((sending.seconds * 1e9) as u64));
        let between = |of: fn(&CpuSpent) -> u64| self.difference(from, until, of);
        let own = |host| match sending.stopped_early {
            true => self.until_stopped(host, from, until),
            false => self.between(host, from, until),
        };
        let user = between(|spent| spent.server.user);
        let system = between(|spent| spent.server.system);
        let programs = || {
            let (ran_ns, cost) = (between(|spent| spent.programs.ns)? * 1e9, self.cost?);
            let runs = between(|spent| spent.programs.runs)? * 1e9;
            Some(ProgramsCpu {
                ran_s: (ran_ns - runs * cost.counted_ns).max(0.0) / 1e9,
                runs: runs.round() as u64,
                counting_s: runs * cost.added_ns / 1e9,
            })
        };
        let ends = self.entries.first().zip(self.entries.last());
        let whole = |host: Host| {
            let between = ends.and_then(|(first, last)| self.between(host, first.0, last.0));
            between.unwrap_or(0.0)
        };
        SendingTimes {
            own_s: Host::ALL.map(own),
            whole_s: Host::ALL.map(whole),
            server_user: user.zip(system).and_then(|(user, system)| part(user, system)),
            packets_s: between(|spent| spent.packets),
            programs: programs(),
        }
    }

    /// Returns the seconds that the processes of `host` ran between two times on `CLOCK_MONOTONIC`;
    /// `None` if the entries do not cover both times.
    fn between(&self, host: Host, from: Nanos, until: Nanos) -> Option<f64> {
        self.difference(from, until, |spent| spent.own[host.index()])
    }

    /// Works as [`between`](Self::between) for a trial that was stopped when it missed its goal: an
    /// overload exists at the end, but perhaps not at the beginning. If the processes ran longer in
    /// the second half, returns twice that time.
    fn until_stopped(&self, host: Host, from: Nanos, until: Nanos) -> Option<f64> {
        let half = from + Nanos(until.since(from).0 / 2);
        let (whole, second) = (self.between(host, from, until)?, self.between(host, half, until)?);
        Some(whole.max(2.0 * second))
    }

    fn difference(&self, from: Nanos, until: Nanos, of: impl Fn(&CpuSpent) -> u64) -> Option<f64> {
        let (from, until) = (self.at(from, &of)?, self.at(until, &of)?);
        Some((until - from).max(0.0) / 1e9)
    }

    /// Returns the CPU time at `at`, in nanoseconds, between the entries before and after it.
    fn at(&self, at: Nanos, of: impl Fn(&CpuSpent) -> u64) -> Option<f64> {
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

/// Returns the share of the first part; `None` if there is neither.
pub(super) fn part(first: f64, second: f64) -> Option<f64> {
    let whole = first + second;
    (whole > 0.0).then(|| first / whole)
}

/// Returns `CLOCK_MONOTONIC`, the clock of the Measurer.
pub(crate) fn monotonic() -> Nanos {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).ok();
    Nanos(time.map_or(0, |time| time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::testbed::control_group::ControlGroup;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    #[test]
    fn times_lie_between_entries() {
        let mut times = RunTimes { every: ENTRY_INTERVAL, ..RunTimes::default() };
        for (at, dut) in [(100, 0), (200, 50_000_000), (300, 50_000_000), (400, 150_000_000)] {
            let server = ProcessRunTime { all: dut, user: dut / 4, system: dut / 4 };
            let programs = RunTime { ns: dut / 5, runs: dut / 1_000 };
            times.add(MS(at), CpuSpent { own: [7, 0, dut], server, programs, packets: dut / 10 });
        }
        let between = |from, until| times.between(Host::Dut, MS(from), MS(until));
        assert_eq!(between(100, 400), Some(0.15));
        assert_eq!(between(150, 350), Some(0.075));
        assert_eq!(between(200, 300), Some(0.0));
        assert_eq!((between(99, 300), between(100, 401)), (None, None));
        assert_eq!(times.between(Host::Tester, MS(100), MS(400)), Some(0.0));
        let sending = Sending { from: MS(150), seconds: 0.2, stopped_early: false };
        let found = times.during(&sending);
        assert_eq!((found.packets_s, found.server_user), (Some(0.0075), Some(0.5)));
        assert_eq!((found.own_s[Host::Dut.index()], found.programs), (Some(0.075), None));
        assert_eq!(found.whole_s[Host::Dut.index()], 0.15);
        // 75,000 runs in 15 ms, each with 100 ns of counting.
        times.cost = Some(RunCost { added_ns: 300.0, counted_ns: 100.0 });
        let programs = times.during(&sending).programs.expect("counted");
        assert_eq!(programs.runs, 75_000);
        assert!((programs.ran_s - 0.0075).abs() < 1e-9, "{programs:?}");
        assert!((programs.counting_s - 0.0225).abs() < 1e-9, "{programs:?}");
        let stopped = |from, until| times.until_stopped(Host::Dut, MS(from), MS(until));
        // The second half of one is from 250 on, that of the other is idle.
        assert_eq!((stopped(100, 400), stopped(100, 300)), (Some(0.2), Some(0.05)));
        assert_eq!(stopped(100, 401), None);
    }

    #[test]
    fn a_long_ledger_is_thinned_out() {
        let mut times = RunTimes { every: ENTRY_INTERVAL, ..RunTimes::default() };
        for at in 0..=MAX_ENTRIES as u64 {
            times.add(MS(at), CpuSpent { own: [0, 0, at], ..CpuSpent::default() });
        }
        assert_eq!((times.entries.len(), times.every), (MAX_ENTRIES / 2 + 1, 2 * ENTRY_INTERVAL));
        assert_eq!(times.between(Host::Dut, MS(0), MS(10)), Some(10e-9));
    }

    #[test]
    fn processes_that_begin_and_end_meanwhile_are_counted() {
        let mut shell = std::process::Command::new("sh");
        let busy = "read go; sh -c 'i=0; while [ $i -lt 1000000 ]; do i=$((i+1)); done'; read end";
        let mut shell =
            shell.args(["-c", busy]).stdin(std::process::Stdio::piped()).spawn().expect("starts");
        let ledger = Ledger::of_server(&[shell.id()], None, &CpuList::allowed());
        let from = monotonic();
        let mut input = shell.stdin.take().expect("piped");
        input.write_all(b"go\n").expect("writes");
        let deadline = from + Nanos::from_secs(20);
        while procfs::read_stat(shell.id()).is_some_and(|stat| stat.children < 2)
            && monotonic() < deadline
        {
            std::thread::sleep(ENTRY_INTERVAL);
        }
        let children = procfs::read_stat(shell.id()).expect("it waits").children;
        std::thread::sleep(2 * ENTRY_INTERVAL);
        let until = monotonic();
        std::thread::sleep(2 * ENTRY_INTERVAL);
        let found = ledger.stop().between(Host::Dut, from, until).expect("covered");
        // What it ran in its last moments may be missing.
        let wanted = children as f64 / crate::probe::ticks_per_second();
        assert!(wanted > 0.0 && found > 0.5 * wanted, "{found} s of {wanted} s");
        input.write_all(b"end\n").expect("writes");
        shell.wait().expect("ends");
    }

    /// Work of a shell, and whether it is done by the shell's own process.
    const WORK: [(&str, bool, &str); 4] = [
        ("arithmetic", true, "for ((i = 0; i < 200000; i++)); do :; done"),
        ("system calls", true, "for ((i = 0; i < 20000; i++)); do : >/dev/null; done"),
        ("short processes", false, "for ((i = 0; i < 300; i++)); do /bin/true; done"),
        (
            "two at a time",
            false,
            "for n in 1 2; do (for ((i = 0; i < 200000; i++)); do :; done) & done; wait",
        ),
    ];

    /// A line of the shell's `times` (getrusage): seconds in user mode and in the kernel.
    fn times(line: &str) -> [f64; 2] {
        let seconds = |text: &str| {
            let (minutes, seconds) = text.trim_end_matches('s').split_once('m').expect("m");
            let [minutes, seconds] = [minutes, seconds].map(|part| part.parse::<f64>().expect("s"));
            60.0 * minutes + seconds
        };
        let mut words = line.split_whitespace().map(seconds);
        std::array::from_fn(|_| words.next().expect("two times"))
    }

    /// Lets a shell do some work, whose time the ledger tells by the account that `account` makes; returns what getrusage says
    /// (user mode, kernel), what the ledger does, its share in user mode, and what `perf stat` says in milliseconds.
    fn worked(
        work: &str,
        account: impl Fn(u32) -> Option<Account>,
    ) -> ([f64; 2], f64, Option<f64>, Option<String>) {
        use std::io::{BufRead, BufReader};
        use std::process::{Command, Stdio};

        let script = format!("times; read -r go; {work}; times; read -r end");
        let mut shell = Command::new("bash");
        let shell = shell.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = shell.spawn().expect("starts");
        let (mut input, output) = (shell.stdin.take().unwrap(), shell.stdout.take().unwrap());
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        let mut rusage = || [(); 2].map(|()| times(&lines.next().expect("its times")));
        let before = rusage();
        let pid = shell.id();
        let perf = std::env::var_os("DNSDYNO_PERF").and_then(|_| {
            let mut perf = Command::new("perf");
            perf.args(["stat", "-x,", "-e", "task-clock", "-p", &pid.to_string()]);
            let perf = perf.stderr(Stdio::piped()).spawn().ok();
            // It attaches to the process, which takes a while and says nothing.
            std::thread::sleep(Duration::from_secs(1));
            perf
        });
        let server = account(pid).map(Arc::new);
        let watched = [(Host::Dut, pid)];
        let ledger = Ledger::with(&CpuList::allowed(), &watched, server, |kept| kept);
        let from = monotonic();
        input.write_all(b"go\n").expect("writes");
        let after = rusage();
        let seconds = monotonic().since(from).as_secs_f64();
        std::thread::sleep(2 * ENTRY_INTERVAL);
        let found = ledger.stop().during(&Sending { from, seconds, stopped_early: false });
        let perf = perf.map(|perf| {
            let perf_pid = nix::unistd::Pid::from_raw(perf.id() as i32);
            nix::sys::signal::kill(perf_pid, nix::sys::signal::Signal::SIGINT).expect("it runs");
            let out = perf.wait_with_output().expect("ends");
            String::from_utf8_lossy(&out.stderr).split(',').next().unwrap_or("").to_owned()
        });
        drop(input);
        shell.wait().expect("ends");
        let spent = [0, 1].map(|part| {
            let sum = |rows: &[[f64; 2]; 2]| rows[0][part] + rows[1][part];
            sum(&after) - sum(&before)
        });
        (spent, found.whole_s[Host::Dut.index()], found.server_user, perf)
    }

    #[test]
    fn it_agrees_with_getrusage() {
        let me = std::process::id();
        let version = |group: ControlGroup| match group.get("cpuacct.usage") {
            Some(_) => "cgroup v1",
            None => "cgroup v2",
        };
        let ways: Vec<_> = ControlGroup::for_counting(me).map(version).collect();
        let clocks = "clocks of processes";
        println!("| work | counted by | getrusage (s) | ledger | perf stat | user mode | ledger |");
        for (way, counted_by) in [clocks].into_iter().chain(ways).enumerate() {
            for (name, alone, work) in WORK {
                let account = |pid| {
                    let group = ControlGroup::for_counting(pid).nth(way.checked_sub(1)?)?;
                    Some(Account::of(group, &[pid]).expect("it may be moved"))
                };
                let ([user, system], found, user_share, perf) = worked(work, account);
                let wanted = user + system;
                let percent = |found: f64| format!("{:+.2} %", 100.0 * (found / wanted - 1.0));
                let perf = perf.and_then(|ms| Some(percent(ms.parse::<f64>().ok()? / 1e3)));
                let share = |share: f64| format!("{:.0} %", 100.0 * share);
                println!(
                    "| {name} | {counted_by} | {wanted:.3} | {} | {} | {} | {} |",
                    percent(found),
                    perf.unwrap_or_default(),
                    share(user / wanted),
                    user_share.map(share).unwrap_or_default(),
                );
                // Clocks end with their processes, and short ones are not found; `times` has milliseconds.
                let least = if way > 0 || alone { 0.98 * wanted - 0.004 } else { 0.0 };
                let agrees = found >= least && found <= 1.02 * wanted + 0.004;
                assert!(agrees, "{name}, {counted_by}: {found} s of {wanted} s");
            }
        }
    }
}
