//! CPU time of each host's processes over time: what they used while queries were sent, without what they did before
//! and afterwards.

use std::time::Duration;

use measure::Nanos;
use nix::time::{ClockId, clock_gettime};

use super::periodic::{Counters, Periodic};
use super::procfs;
use super::tasks::run_time;
use crate::cpus::CpuList;
use crate::testbed::Host;

/// Time between two entries; one takes a microsecond for each process.
const EVERY: Duration = Duration::from_millis(10);
/// Largest number of entries; then every second one is dropped and they become half as frequent.
const MAX_ENTRIES: usize = 1 << 14;

/// Keeps the ledger until it is stopped or dropped.
#[derive(Debug)]
pub(crate) struct Ledger(Periodic<Kept>);

/// A ledger and the processes in it.
#[derive(Debug)]
struct Kept {
    trees: Vec<(Host, u32)>,
    times: RunTimes,
}

impl Counters for Kept {
    fn pause(&self) -> Duration {
        self.times.every
    }

    fn look(&mut self) {
        self.times.add(now(), spent(&self.trees));
    }
}

impl Ledger {
    /// Starts a ledger of the processes `watched` and their children, on the cores `on`.
    pub(crate) fn start(watched: &[(Host, u32)], on: &CpuList) -> Self {
        let trees = watched
            .iter()
            .flat_map(|(host, pid)| procfs::tree(*pid).into_iter().map(move |pid| (*host, pid)));
        let trees = trees.collect();
        Ledger(Periodic::start(on, || {
            let mut kept = Kept { trees, times: RunTimes { entries: Vec::new(), every: EVERY } };
            kept.look();
            kept
        }))
    }

    /// Ends the ledger; returns its entries.
    pub(crate) fn stop(self) -> RunTimes {
        self.0.stop().map(|kept| kept.times).unwrap_or_default()
    }
}

/// CPU time of each host's processes at some times, rising.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RunTimes {
    entries: Vec<(Nanos, [u64; 3])>,
    every: Duration,
}

impl RunTimes {
    fn add(&mut self, at: Nanos, spent: [u64; 3]) {
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
        let (from, until) = (self.at(host, from)?, self.at(host, until)?);
        Some((until - from).max(0.0) / 1e9)
    }

    /// Returns the CPU time at `at`, in nanoseconds, between the entries before and after it.
    fn at(&self, host: Host, at: Nanos) -> Option<f64> {
        let next = self.entries.partition_point(|(time, _)| *time < at);
        let (after, spent_after) = self.entries.get(next)?;
        let after_ns = spent_after[host.index()] as f64;
        if *after == at {
            return Some(after_ns);
        }
        let (before, spent_before) = self.entries.get(next.checked_sub(1)?)?;
        let before_ns = spent_before[host.index()] as f64;
        let share = at.since(*before).0 as f64 / after.since(*before).0 as f64;
        Some(before_ns + share * (after_ns - before_ns))
    }
}

/// Returns the CPU time of each host's processes so far, in nanoseconds.
fn spent(trees: &[(Host, u32)]) -> [u64; 3] {
    let mut spent = [0; 3];
    for (host, pid) in trees {
        spent[host.index()] += run_time(*pid, 0, 0);
    }
    spent
}

/// Returns `CLOCK_MONOTONIC`, the clock of the Measurer.
fn now() -> Nanos {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).ok();
    Nanos(time.map_or(0, |time| time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    #[test]
    fn times_lie_between_entries() {
        let mut times = RunTimes { entries: Vec::new(), every: EVERY };
        for (at, dut) in [(100, 0), (200, 50_000_000), (300, 50_000_000), (400, 150_000_000)] {
            times.add(MS(at), [7, 0, dut]);
        }
        let between = |from, until| times.between(Host::Dut, MS(from), MS(until));
        assert_eq!(between(100, 400), Some(0.15));
        assert_eq!(between(150, 350), Some(0.075));
        assert_eq!(between(200, 300), Some(0.0));
        assert_eq!((between(99, 300), between(100, 401)), (None, None));
        assert_eq!(times.between(Host::Tester, MS(100), MS(400)), Some(0.0));
    }

    #[test]
    fn a_long_ledger_is_thinned_out() {
        let mut times = RunTimes { entries: Vec::new(), every: EVERY };
        for at in 0..=MAX_ENTRIES as u64 {
            times.add(MS(at), [0, 0, at]);
        }
        assert_eq!((times.entries.len(), times.every), (MAX_ENTRIES / 2 + 1, 2 * EVERY));
        assert_eq!(times.between(Host::Dut, MS(0), MS(10)), Some(10e-9));
    }

    #[test]
    fn it_sees_this_process() {
        let ledger = Ledger::start(&[(Host::Auth, std::process::id())], &CpuList::allowed());
        let from = now();
        std::thread::sleep(2 * EVERY);
        let mut work = 0_u64;
        while now() < from + MS(60) {
            work = std::hint::black_box(work.wrapping_add(1));
        }
        let until = now();
        std::thread::sleep(2 * EVERY);
        let times = ledger.stop();
        assert_eq!(times.between(Host::Dut, from + MS(20), until), Some(0.0));
        let own = times.between(Host::Auth, from + MS(20), until).expect("covered");
        assert!(own > 0.0, "{times:?}");
    }
}
