//! How fast the cores of a testbed are from trial to trial.
//!
//! A core has no speed that one could look up: its clock rate follows heat and load, and the other thread of a physical core may be
//! anybody's. So a core is slow in comparison to itself: to the fastest quarter of the trials so far.

use std::collections::BTreeMap;

use measure::stall::WatchedCore;

use crate::cpus::CpuList;

/// The times that a fixed piece of work took on each core, one for each trial (`WatchedCore::work_ns`).
#[derive(Debug, Default)]
pub(crate) struct CoreSpeeds {
    times: BTreeMap<usize, Vec<u64>>,
}

impl CoreSpeeds {
    /// Adds a trial; returns the means of the cores `of`, or `None` if they were not measured.
    pub(crate) fn add(&mut self, watched: &[WatchedCore], of: &[usize]) -> Option<CoreSpeed> {
        let known = watched.iter().filter(|core| of.contains(&core.cpu));
        let known: Vec<(usize, u64)> =
            known.filter_map(|core| Some((core.cpu, core.work_ns?))).collect();
        let mut sum = CoreSpeed { work_ns: 0, lacked: 0.0 };
        for (cpu, time) in &known {
            let times = self.times.entry(*cpu).or_default();
            times.insert(times.partition_point(|other| other < time), *time);
            let fast = times[(times.len() - 1) / 4];
            sum.lacked += (1.0 - fast as f64 / (*time).max(1) as f64).max(0.0);
            sum.work_ns += time;
        }
        let cores = known.len() as u64;
        (cores > 0)
            .then(|| CoreSpeed { work_ns: sum.work_ns / cores, lacked: sum.lacked / cores as f64 })
    }
}

/// The speed of some cores in a trial, on average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CoreSpeed {
    /// What the work took, in nanoseconds.
    pub(crate) work_ns: u64,
    /// Share (0 to 1) of the speed that they had in the fastest quarter of the trials, this one included, that they lacked.
    pub(crate) lacked: f64,
}

/// Returns whether one of the cores `of` is a thread of a physical core that another of `all` is a thread of, too: then it is slow by
/// what the testbed does there.
pub(crate) fn share_cores(of: &[usize], all: &[usize]) -> bool {
    of.iter().any(|cpu| {
        let file = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        let threads = std::fs::read_to_string(file).unwrap_or_default();
        let threads: Option<CpuList> = threads.trim().parse().ok();
        threads.is_some_and(|threads| {
            threads.cpus().iter().any(|thread| thread != cpu && all.contains(thread))
        })
    })
}

#[cfg(test)]
mod tests {
    use measure::Nanos;
    use measure::stall::Side;

    use super::*;

    #[test]
    fn a_core_is_slow_in_comparison_to_the_fastest_quarter_of_its_trials() {
        let mut speeds = CoreSpeeds::default();
        let core = |cpu, work_ns| WatchedCore {
            side: Side::Dut,
            cpu,
            real_time: true,
            used: Nanos::ZERO,
            work_ns,
        };
        let mut add = |times: [Option<u64>; 2], of: &[usize]| {
            let found = speeds.add(&[core(0, times[0]), core(1, times[1])], of);
            found.map(|speed| (speed.work_ns, (speed.lacked * 100.0).round() as u32))
        };
        assert_eq!(add([Some(1_000), None], &[1]), None);
        assert_eq!(add([Some(1_000), Some(2_000)], &[1]), Some((2_000, 0)));
        assert_eq!(add([Some(1_000), Some(2_500)], &[1]), Some((2_500, 20)));
        // One fast trial is no measure for many.
        assert_eq!(add([Some(1_000), Some(1_000)], &[1]), Some((1_000, 0)));
        for _ in 0..3 {
            add([Some(1_000), Some(2_000)], &[1]);
        }
        assert_eq!(add([Some(1_000), Some(2_500)], &[1]), Some((2_500, 20)));
        // The mean of two cores, of which the first has no other trial.
        assert_eq!(add([Some(1_000), Some(2_500)], &[0, 1]), Some((1_750, 10)));
    }

    #[test]
    fn a_core_does_not_share_with_itself() {
        let cpu = CpuList::allowed().cpus()[0];
        assert!(!share_cores(&[cpu], &[cpu]) && !share_cores(&[cpu, 1 << 20], &[]));
    }
}
