//! The speed of a core, by the time that a fixed piece of arithmetic takes there.
//!
//! A core of a virtual machine is a thread of a physical core whose other thread may be anybody's. When that one is busy, ours gets
//! two thirds of the units that compute, and nothing says so: no stall, no steal time, no waiting. So the arithmetic keeps as many of these
//! units busy as it can. One chain of dependent steps would leave most of them to the neighbour, and take as long beside it as without.
//! On the virtual machine of our figures an Unbound at a constant load used up to 26 % more CPU time in the seconds in
//! which the arithmetic took up to 30 % longer.

use std::collections::VecDeque;
use std::hint::black_box;
use std::ops::RangeInclusive;

use engine::clock;
use measure::Nanos;

/// Number of rounds before the time is taken, which bring the code into the cache, and of the
/// measured rounds: some 1 us.
const WARM_UP_ROUNDS: u32 = 16;
const ROUNDS: u32 = 200;
/// Number of chains without dependencies on each other, so that the core's units are all busy.
const CHAINS: usize = 6;
/// Smallest number of samples for a mean.
const MIN_SAMPLES: usize = 20;
/// Largest number of samples that are kept, the last ones: at one every 5 ms, five minutes.
const MAX_SAMPLES: usize = 1 << 16;
/// A sample that took longer than the fastest tenth by this factor was interrupted.
const INTERRUPTED_FACTOR: u64 = 3;

/// Times of runs of the same piece of arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkTimes {
    /// Mean time of a sample, which depends on neighbours of the core and on its frequency.
    pub mean: Nanos,
    /// Longest time in the fastest tenth of the samples: about that of an undisturbed core.
    pub best: Nanos,
}

/// Samples of a core's speed: each runs the arithmetic once and measures its time.
#[derive(Debug, Default)]
pub struct WorkSamples {
    state: [u64; CHAINS],
    // Start and duration of each sample.
    samples: VecDeque<(Nanos, Nanos)>,
}

impl WorkSamples {
    /// Does the arithmetic once more, and notes its time.
    pub fn sample(&mut self) {
        self.work(WARM_UP_ROUNDS);
        let began = clock::monotonic();
        self.work(ROUNDS);
        self.add(began, clock::monotonic().since(began));
    }

    fn add(&mut self, began: Nanos, took: Nanos) {
        if self.samples.len() == MAX_SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back((began, took));
    }

    /// Steps each chain (xorshift64, Marsaglia 2003).
    fn work(&mut self, rounds: u32) {
        let mut state = black_box(self.state);
        for round in 0..rounds {
            for x in &mut state {
                *x = x.wrapping_add(u64::from(round) | 1);
                *x ^= *x << 13;
                *x ^= *x >> 7;
                *x ^= *x << 17;
            }
        }
        self.state = black_box(state);
    }

    /// Returns the times of the samples in a span that were not interrupted; `None` if they are
    /// few.
    pub fn within(&self, span: &RangeInclusive<Nanos>) -> Option<WorkTimes> {
        let within = self.samples.iter().filter(|(began, _)| span.contains(began));
        let mut times: Vec<u64> = within.map(|(_, took)| took.0).collect();
        if times.len() < MIN_SAMPLES {
            return None;
        }
        times.sort_unstable();
        let best = times[times.len() / 10];
        times.retain(|time| *time <= best * INTERRUPTED_FACTOR);
        Some(WorkTimes {
            mean: Nanos(times.iter().sum::<u64>() / times.len() as u64),
            best: Nanos(best),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_in_the_time_of_sending_that_were_not_interrupted_count() {
        let of = |times: &[u64]| {
            let mut samples = WorkSamples::default();
            // The first and the last one are before and after it.
            samples.add(Nanos(0), Nanos(1));
            for (at, time) in (1..).zip(times) {
                samples.add(Nanos(at), Nanos(*time));
            }
            let until = Nanos(times.len() as u64);
            samples.add(until + Nanos(1), Nanos(1));
            samples.within(&(Nanos(1)..=until)).map(|times| (times.mean.0, times.best.0))
        };
        assert_eq!(of(&[1_000; 19]), None);
        let times = [vec![1_000; 30], vec![2_000; 30], vec![50_000, 9_000_000]].concat();
        assert_eq!(of(&times), Some((1_500, 1_000)));
    }

    #[test]
    fn the_last_looks_are_kept() {
        let mut samples = WorkSamples::default();
        (0..MAX_SAMPLES as u64 + 5).for_each(|at| samples.add(Nanos(at), Nanos(1)));
        assert_eq!(samples.samples.front(), Some(&(Nanos(5), Nanos(1))));
    }

    #[test]
    fn the_work_is_done() {
        let mut samples = WorkSamples::default();
        for _ in 0..MIN_SAMPLES {
            samples.sample();
        }
        assert!(samples.state.iter().all(|x| *x != 0), "{:?}", samples.state);
    }
}
