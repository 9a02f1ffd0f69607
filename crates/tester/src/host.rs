//! Counters of this host for a trial: the use of cores.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use engine::clock;
use measure::Nanos;
use measure::procfs::{CoreTimes, parse_cores};
use udp::sys;

/// Ticks a second in `/proc/stat`.
pub(crate) const TICKS_PER_S: f64 = 100.0;

/// Returns the ticks of each core since the host started; empty if `/proc/stat` cannot be read.
pub(crate) fn cores() -> BTreeMap<usize, CoreTimes> {
    parse_cores(&std::fs::read_to_string("/proc/stat").unwrap_or_default())
}

/// Returns the sum over `cpus`, or over all cores.
pub(crate) fn sum(cores: &BTreeMap<usize, CoreTimes>, cpus: Option<&[usize]>) -> CoreTimes {
    cores
        .iter()
        .filter(|(cpu, _)| cpus.is_none_or(|cpus| cpus.contains(cpu)))
        .fold(CoreTimes::default(), |sum, (_, t)| sum.plus(t))
}

/// Time of use of each core until now, by two clocks.
pub(crate) struct UseOfCores {
    at: Instant,
    /// Ticks: all uses, but a process that wakes up by timers may be taken for busy the whole tick.
    ticks: BTreeMap<usize, CoreTimes>,
    /// Run times of processes to the nanosecond, with the interrupts during them; by core.
    run: BTreeMap<usize, u64>,
    /// CPU time of this process, all of its threads.
    own: Nanos,
}

impl UseOfCores {
    pub(crate) fn now() -> Self {
        let run = sys::CoreRunTimes::read().unwrap_or_default().by_core;
        UseOfCores { at: Instant::now(), ticks: cores(), run, own: clock::process_cpu_time() }
    }

    /// Returns the use since then.
    pub(crate) fn since(&self) -> CoresUsed {
        let now = Self::now();
        let used = now.ticks.iter().map(|(&cpu, ticks)| {
            let ticks = ticks.since(&self.ticks.get(&cpu).copied().unwrap_or_default());
            let run = now.run.get(&cpu).zip(self.run.get(&cpu));
            (cpu, (ticks, run.map(|(now, then)| now.saturating_sub(*then))))
        });
        CoresUsed {
            elapsed: now.at.duration_since(self.at),
            cores: used.collect(),
            allowed: sys::allowed_cpus().unwrap_or_default(),
            own: now.own.since(self.own),
        }
    }
}

/// Use of the cores between two readings.
pub(crate) struct CoresUsed {
    elapsed: Duration,
    /// Ticks, and nanoseconds of processes where the kernel reports them.
    cores: BTreeMap<usize, (CoreTimes, Option<u64>)>,
    /// Cores on which this process may run.
    allowed: Vec<usize>,
    /// CPU time of this process.
    own: Nanos,
}

impl CoresUsed {
    /// Returns the Tester's cores: the `pinned` ones, or all on which it may run.
    pub(crate) fn cores_of<'a>(&'a self, pinned: &'a [usize]) -> &'a [usize] {
        if pinned.is_empty() { &self.allowed } else { pinned }
    }

    /// Returns the share (0 to 1) of the Tester's cores that other processes and the hypervisor used: the lesser of the two
    /// clocks. What threads of this process did on other cores makes it less, never more.
    pub(crate) fn foreign(&self, pinned: &[usize]) -> Option<f64> {
        let cpus = self.cores_of(pinned);
        let own = self.own.as_secs_f64();
        let each = || cpus.iter().filter_map(|cpu| self.cores.get(cpu));
        let used = each().fold(CoreTimes::default(), |sum, (ticks, _)| sum.plus(ticks));
        let by_ticks = used.processes() as f64 - own * TICKS_PER_S;
        let by_ticks = by_ticks.max(0.0) / used.total().max(1) as f64;
        let steal = used.steal as f64 / used.total().max(1) as f64;
        let seconds = self.elapsed.as_secs_f64() * cpus.len() as f64;
        let run = each().map(|(_, run)| *run).sum::<Option<u64>>();
        let by_run = run.map(|ran| (ran as f64 / 1e9 - own).max(0.0) / seconds.max(1e-9));
        // Ticks are too coarse for less than a tenth of a second.
        (used.total() >= 10).then(|| by_ticks.min(by_run.unwrap_or(f64::MAX)) + steal)
    }

    /// Returns the core that was used least, without the `pinned` ones, if it was idle for more
    /// than half of the time.
    pub(crate) fn free(&self, pinned: &[usize]) -> Option<usize> {
        let idle = |(cpu, (ticks, _)): &(&usize, &(CoreTimes, Option<u64>))| {
            !pinned.is_empty() && !pinned.contains(cpu) && 2 * ticks.busy() < ticks.total()
        };
        let allowed = self.cores.iter().filter(|(cpu, _)| self.allowed.contains(cpu));
        let free = allowed.filter(idle).min_by_key(|(_, (ticks, _))| ticks.busy());
        free.map(|(cpu, _)| *cpu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_cover_the_given_cores() {
        let text = "cpu0 1 2 3 40 5 6 7 8 0 0\ncpu1 10 0 0 90 0 0 0 0 0 0\n";
        let cores = parse_cores(text);
        assert_eq!(sum(&cores, Some(&[0])).processes(), 6);
        assert_eq!(
            sum(&cores, Some(&[1])),
            CoreTimes { user: 10, idle: 90, ..CoreTimes::default() }
        );
        assert_eq!(sum(&cores, None).total(), 172);
        assert!(!super::cores().is_empty());
    }

    #[test]
    fn what_others_used_is_that_of_the_testers_cores() {
        let core = |user, idle| CoreTimes { user, idle, ..CoreTimes::default() };
        let second = Duration::from_secs(1);
        let used = CoresUsed {
            elapsed: second,
            // Of the first core 80 % by others and 20 % by the Tester; the second has accounts that say less than its ticks.
            cores: [(0, (core(100, 0), None)), (1, (core(90, 10), Some(300_000_000)))].into(),
            allowed: vec![0, 1],
            own: Nanos::from_millis(200),
        };
        let share = |cpus: &[usize]| used.foreign(cpus).map(|share| (share * 100.0).round());
        assert_eq!((share(&[0]), share(&[1])), (Some(80.0), Some(10.0)));
        // Without cores of its own: (100 + 90 - 20) of 200 ticks.
        assert_eq!(share(&[]), Some(85.0));
        assert_eq!((used.free(&[]), used.free(&[1]), used.free(&[0])), (None, None, None));
        let idle = CoresUsed {
            cores: [(0, (core(9, 91), None)), (1, (core(5, 95), None))].into(),
            ..used
        };
        assert_eq!((idle.free(&[]), idle.free(&[1]), idle.free(&[0])), (None, Some(0), Some(1)));
    }
}
