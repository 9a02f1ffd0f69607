//! CPU use of cores during a lock-step load.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use measure::procfs::CoreTimes;
use udp::sys;

use crate::background::Background;
use crate::host;

/// Time between two readings of the cores' counters.
const READ_INTERVAL: Duration = Duration::from_millis(100);
/// Largest number of readings: as many as in an hour.
const MAX_READINGS: usize = 36_000;
/// Number of readings of a sample in a long run: one sample each second, as dstat does.
const READINGS_PER_SAMPLE: usize = 10;
/// Number of samples below which a run is short. A short run is sampled at each step, if the kernel
/// counts to the nanosecond.
const MIN_SAMPLES: usize = 5;
/// Number of readings of a sample in a short run by ticks of 10 ms, which are too coarse for single steps.
const BY_TICKS: usize = 2;

/// Reading of the cores' counters at one time.
struct Sample {
    at: Instant,
    ticks: CoreTimes,
    /// Run time of processes on the cores, in nanoseconds; `None` if the kernel does not report it
    /// for each core.
    run: Option<u64>,
    cores: usize,
}

impl Sample {
    /// Reads the counters of `cpus`, or of all cores.
    fn now(cpus: Option<&[usize]>) -> Self {
        let run = sys::CoreRunTimes::read().unwrap_or_default().by_core;
        let cores = host::cores();
        let all: Vec<usize> = cores.keys().copied().collect();
        let cpus = cpus.unwrap_or(&all);
        let run = run_of(cpus, &run);
        Sample { at: Instant::now(), ticks: host::sum(&cores, Some(cpus)), run, cores: cpus.len() }
    }

    /// Returns the busy share since `before` by ticks, in percent.
    fn by_ticks(&self, before: &Self) -> Option<f64> {
        let used = self.ticks.since(&before.ticks);
        (used.total() > 0).then(|| 100.0 * used.busy() as f64 / used.total() as f64)
    }

    /// Returns the busy share since `before` by run times, in percent.
    fn by_run(&self, before: &Self) -> Option<f64> {
        let ran = self.run?.saturating_sub(before.run?) as f64;
        let time = self.at.duration_since(before.at).as_nanos() as f64 * self.cores as f64;
        (time > 0.0).then(|| (100.0 * ran / time).min(100.0))
    }
}

/// Returns the run time of `cpus`; `None` if the kernel does not report one.
fn run_of(cpus: &[usize], run: &BTreeMap<usize, u64>) -> Option<u64> {
    cpus.iter().map(|cpu| run.get(cpu).copied()).sum()
}

/// Starts to sample the use of `cpus`, or of all cores, in percent, as 100 - idle: one sample each second as dstat does,
/// or each tenth of a second in a run of less than five seconds.
pub(crate) fn sample_use(cpus: Option<Vec<usize>>) -> Background<Vec<f64>> {
    Background::start(move |done| {
        let mut readings = vec![Sample::now(cpus.as_deref())];
        let mut due = Instant::now() + READ_INTERVAL;
        while !done.load(Ordering::Relaxed) {
            let now = Instant::now();
            if now >= due && readings.len() < MAX_READINGS {
                readings.push(Sample::now(cpus.as_deref()));
                due = now + READ_INTERVAL;
            }
            std::thread::park_timeout(due.saturating_duration_since(now).max(READ_INTERVAL / 10));
        }
        samples(&readings)
    })
}

/// Returns the samples of the readings, one for each step.
fn samples(readings: &[Sample]) -> Vec<f64> {
    let each = |step: usize, share: fn(&Sample, &Sample) -> Option<f64>| -> Vec<f64> {
        let ends = readings.iter().step_by(step);
        ends.clone().skip(1).zip(ends).filter_map(|(now, before)| share(now, before)).collect()
    };
    if readings.len() > MIN_SAMPLES * READINGS_PER_SAMPLE {
        return each(READINGS_PER_SAMPLE, Sample::by_ticks);
    }
    if readings.iter().all(|reading| reading.run.is_some()) {
        return each(1, Sample::by_run);
    }
    each(BY_TICKS, Sample::by_ticks)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns readings one step apart of a core that is busy for every other step.
    fn readings(count: u64, told: bool) -> Vec<Sample> {
        let began = Instant::now();
        let reading = |step: u64| {
            let busy = step.div_ceil(2);
            Sample {
                at: began + READ_INTERVAL * step as u32,
                ticks: CoreTimes {
                    user: 10 * busy,
                    idle: 10 * (step - busy),
                    ..CoreTimes::default()
                },
                run: told.then_some(busy * READ_INTERVAL.as_nanos() as u64),
                cores: 1,
            }
        };
        (0..count).map(reading).collect()
    }

    #[test]
    fn short_runs_have_samples_of_single_steps() {
        assert!(samples(&readings(1, true)).is_empty());
        assert_eq!(samples(&readings(5, true)), [100.0, 0.0, 100.0, 0.0]);
        // Ticks are counted over two steps.
        assert_eq!(samples(&readings(5, false)), [50.0, 50.0]);
    }

    #[test]
    fn long_runs_have_samples_of_a_second() {
        assert_eq!(samples(&readings(101, true)), [50.0; 10]);
        assert_eq!(samples(&readings(75, false)), [50.0; 7]);
    }

    #[test]
    fn all_cores_must_tell_their_run_time() {
        let run = BTreeMap::from([(0, 5), (1, 7)]);
        assert_eq!(run_of(&[0, 1], &run), Some(12));
        assert_eq!(run_of(&[1, 2], &run), None);
    }
}
