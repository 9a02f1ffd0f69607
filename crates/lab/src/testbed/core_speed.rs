//! How fast the cores of the server are in a trial.
//!
//! A core has no speed that one could look up: its clock rate follows heat and load, and another
//! guest may use the other thread of a physical core. But such a neighbour is rarely busy all the
//! time. So a core is slow in comparison to itself: to the fastest tenth of the looks at it, in the
//! same trial or in those before it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use measure::Nanos;
use measure::stall::WatchedCore;
use record::Cpu;
use udp::core_speed::WorkTimes;

use crate::testbed::cpus::CpuList;

/// The time of the work on cores at their full speed, as far as it was seen since the run began.
#[derive(Clone, Debug, Default)]
pub(crate) struct FullSpeed {
    /// The shortest `best` of each set of cores, in nanoseconds.
    shortest: Arc<Mutex<BTreeMap<Vec<usize>, u64>>>,
}

impl FullSpeed {
    /// Notes the times of the work on the cores `cpus`; returns that at their full speed, in nanoseconds.
    pub(crate) fn note(&self, cpus: &[usize], times: WorkTimes) -> u64 {
        let mut shortest = self.shortest.lock().unwrap_or_else(PoisonError::into_inner);
        let best = shortest.entry(cpus.to_vec()).or_insert(times.best.0);
        *best = times.best.0.min(*best);
        *best
    }

    /// Notes the full speed that was known at a trial of an earlier part of the run, from its record of the server's cores.
    pub(crate) fn note_earlier(&self, dut: &Cpu) {
        if let Some(full_speed) = dut.full_speed_work_ns.or(dut.best_work_ns).map(Nanos) {
            self.note(&dut.cpus, WorkTimes { mean: full_speed, best: full_speed });
        }
    }
}

/// Returns the mean time of the work on the cores `of` in a trial; `None` if it was not measured.
pub(crate) fn in_trial(watched: &[WatchedCore], of: &[usize]) -> Option<WorkTimes> {
    let watched = watched.iter().filter(|core| of.contains(&core.cpu));
    let (mut cores, mut mean, mut best) = (0, 0, 0);
    for (work, best_work) in watched.filter_map(|core| core.work_ns.zip(core.best_work_ns)) {
        cores += 1;
        mean += work;
        best += best_work;
    }
    (cores > 0).then(|| WorkTimes { mean: Nanos(mean / cores), best: Nanos(best / cores) })
}

/// Returns the share (0 to 1) by which cores were slower than their best speed, in these samples or
/// in others in which the work took `fastest` nanoseconds.
pub(crate) fn lacked(times: WorkTimes, fastest: Option<u64>) -> f64 {
    let best = fastest.map_or(times.best.0, |fastest| fastest.min(times.best.0));
    (1.0 - best as f64 / times.mean.0.max(1) as f64).max(0.0)
}

/// Returns whether one of the cores `of` shares a physical core with another of `all`: then the
/// testbed itself slows it down.
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
            let times = in_trial(&watched, of)?;
            Some((times.mean.0, (super::lacked(times, fastest) * 1e3).round() as u32))
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
    fn full_speed_is_the_best_that_was_seen_of_the_same_cores() {
        let full_speed = FullSpeed::default();
        let note = |cpus: &[usize], best| {
            full_speed.note(cpus, WorkTimes { mean: Nanos(2_000), best: Nanos(best) })
        };
        assert_eq!(
            (note(&[1], 1_000), note(&[1], 1_200), note(&[1, 2], 1_100)),
            (1_000, 1_000, 1_100)
        );
        assert_eq!((note(&[1], 700), note(&[1], 900)), (700, 700));
        // A resumed run knows what was seen before it was interrupted, also what a slow trial was told.
        for (cpu, best_work_ns, full_speed_work_ns) in [
            (3, None, None),
            (3, Some(1_100), Some(800)),
            (3, Some(900), Some(900)),
            (4, Some(750), None),
        ] {
            let cpus = vec![cpu];
            full_speed.note_earlier(&Cpu {
                best_work_ns,
                full_speed_work_ns,
                cpus,
                ..Cpu::default()
            });
        }
        assert_eq!((note(&[3], 950), note(&[4], 950), note(&[5], 950)), (800, 750, 950));
    }

    #[test]
    fn a_core_does_not_share_with_itself() {
        let cpu = CpuList::allowed().cpus()[0];
        assert!(!share_cores(&[cpu], &[cpu]) && !share_cores(&[cpu, 1 << 20], &[]));
    }
}
