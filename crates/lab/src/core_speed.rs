//! How fast the cores of the server are, in a trial and now.
//!
//! A core has no speed that one could look up: its clock rate follows heat and load, and the other thread of a physical core may be
//! anybody's. But such a neighbour is rarely busy all the time. So a core is slow in comparison to itself: to the fastest tenth of the looks at
//! it, in the same trial or in those before it.

use measure::Nanos;
use measure::stall::WatchedCore;

use crate::cpus::CpuList;

/// Time for which cores that have nothing to do are looked at.
const LOOKING: Nanos = Nanos::from_millis(60);

/// The speed of some cores, on average: what a fixed piece of work took there, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CoreSpeed {
    /// All looks (`WatchedCore::work_ns`).
    pub(crate) work_ns: u64,
    /// The fastest tenth of them.
    pub(crate) best_work_ns: u64,
}

impl CoreSpeed {
    /// Returns the mean of cores; `None` without one.
    fn mean(of: impl IntoIterator<Item = CoreSpeed>) -> Option<CoreSpeed> {
        let (mut cores, mut work_ns, mut best_work_ns) = (0, 0, 0);
        for core in of {
            cores += 1;
            work_ns += core.work_ns;
            best_work_ns += core.best_work_ns;
        }
        (cores > 0)
            .then(|| CoreSpeed { work_ns: work_ns / cores, best_work_ns: best_work_ns / cores })
    }

    /// Returns the speed of the cores `of` in a trial; `None` if it was not measured.
    pub(crate) fn in_trial(watched: &[WatchedCore], of: &[usize]) -> Option<CoreSpeed> {
        let cores = watched.iter().filter(|core| of.contains(&core.cpu));
        CoreSpeed::mean(cores.filter_map(|core| {
            Some(CoreSpeed { work_ns: core.work_ns?, best_work_ns: core.best_work_ns? })
        }))
    }

    /// Returns the share (0 to 1) of their best speed that the cores lacked: of that in this trial, or of that in others, where the work took
    /// `fastest` nanoseconds.
    pub(crate) fn lacked(self, fastest: Option<u64>) -> f64 {
        let best = fastest.map_or(self.best_work_ns, |fastest| fastest.min(self.best_work_ns));
        (1.0 - best as f64 / self.work_ns.max(1) as f64).max(0.0)
    }
}

/// Returns the speed of the cores `of` now, at work; `None` if this process may run on none of them.
pub(crate) fn now(of: &[usize]) -> Option<CoreSpeed> {
    let times = udp::core_speed::work_times(of, LOOKING).into_iter();
    CoreSpeed::mean(times.map(|t| CoreSpeed { work_ns: t.mean.0, best_work_ns: t.best.0 }))
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
    use measure::stall::Side;

    use super::*;

    #[test]
    fn the_speed_of_cores_is_that_of_their_mean() {
        let core = |cpu, times: Option<(u64, u64)>| WatchedCore {
            side: Side::Dut,
            cpu,
            real_time: true,
            used: Nanos::ZERO,
            work_ns: times.map(|(mean, _)| mean),
            best_work_ns: times.map(|(_, best)| best),
        };
        let watched = [core(0, Some((1_000, 1_000))), core(1, Some((1_400, 1_000))), core(2, None)];
        let lacked = |of: &[usize], fastest| {
            let speed = CoreSpeed::in_trial(&watched, of)?;
            Some((speed.work_ns, (speed.lacked(fastest) * 1e3).round() as u32))
        };
        assert_eq!(lacked(&[0], None), Some((1_000, 0)));
        assert_eq!(lacked(&[1], None), Some((1_400, 286)));
        assert_eq!(lacked(&[0, 1, 2], None), Some((1_200, 167)));
        assert_eq!((lacked(&[2], None), lacked(&[3], None)), (None, None));
        // In other trials it was as fast at its best, or faster.
        assert_eq!(lacked(&[1], Some(1_200)), Some((1_400, 286)));
        assert_eq!(lacked(&[1], Some(700)), Some((1_400, 500)));
    }

    #[test]
    fn a_core_has_a_speed_now() {
        let cpu = CpuList::allowed().cpus()[0];
        let speed = now(&[cpu, 1_000_000]).expect("it may run there");
        assert!(speed.work_ns > 0 && speed.best_work_ns > 0, "{speed:?}");
        assert_eq!(now(&[1_000_000]), None);
    }

    #[test]
    fn a_core_does_not_share_with_itself() {
        let cpu = CpuList::allowed().cpus()[0];
        assert!(!share_cores(&[cpu], &[cpu]) && !share_cores(&[cpu, 1 << 20], &[]));
    }
}
