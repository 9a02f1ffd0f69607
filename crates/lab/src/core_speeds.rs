//! How fast the cores of a testbed are from trial to trial.
//!
//! A core has no speed that one could look up: its clock rate follows heat and load, and the other thread of a physical core may be
//! anybody's. So a core is slow in comparison to itself: to the fastest quarter of the trials before.

use std::collections::BTreeMap;

use measure::stall::WatchedCore;

/// The times that a fixed piece of work took on each core, one for each trial (`WatchedCore::work_ns`).
#[derive(Debug, Default)]
pub(crate) struct CoreSpeeds {
    times: BTreeMap<usize, Vec<u64>>,
}

impl CoreSpeeds {
    /// Adds a trial; returns the share (0 to 1) of their speed that the cores `of` lacked in it, on average. `None` if it is not known.
    pub(crate) fn add(&mut self, watched: &[WatchedCore], of: &[usize]) -> Option<f64> {
        let known = watched.iter().filter_map(|core| Some((core.cpu, core.work_ns?)));
        let lacked = known.filter_map(|(cpu, time)| {
            let times = self.times.entry(cpu).or_default();
            times.insert(times.partition_point(|other| *other < time), time);
            let fast = times[(times.len() - 1) / 4];
            of.contains(&cpu).then(|| (1.0 - fast as f64 / time.max(1) as f64).max(0.0))
        });
        let lacked: Vec<f64> = lacked.collect();
        (!lacked.is_empty()).then(|| lacked.iter().sum::<f64>() / lacked.len() as f64)
    }
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
            speeds.add(&[core(0, times[0]), core(1, times[1])], of)
        };
        assert_eq!(add([Some(1_000), None], &[1]), None);
        assert_eq!(add([Some(1_000), Some(2_000)], &[1]), Some(0.0));
        assert_eq!(add([Some(1_000), Some(2_500)], &[1]), Some(0.2));
        // One fast trial is no measure for many.
        assert_eq!(add([Some(1_000), Some(1_000)], &[1]), Some(0.0));
        for _ in 0..3 {
            add([Some(1_000), Some(2_000)], &[1]);
        }
        assert_eq!(add([Some(1_000), Some(2_500)], &[1]), Some(0.2));
        // The mean of two cores.
        assert_eq!(add([Some(1_250), Some(2_500)], &[0, 1]), Some(0.2));
    }
}
