//! The speed of a core, by the time that a fixed piece of arithmetic takes there.
//!
//! A core of a virtual machine is a thread of a physical core whose other thread may be anybody's. When that one is busy, ours gets
//! two thirds of the units that compute, and nothing says so: no stall, no steal time, no waiting. So the arithmetic keeps as many of these
//! units busy as it can. One chain of dependent steps would leave most of them to the neighbour, and take as long beside it as without.
//! On the virtual machine of our figures an Unbound at a constant load used up to 26 % more CPU time in the seconds in
//! which the arithmetic took up to 30 % longer.

use std::hint::black_box;

use engine::clock;
use measure::Nanos;

/// Number of rounds before the time is taken, which bring the code into the cache, and of those that count: some 2 us.
const WARM: u32 = 16;
const ROUNDS: u32 = 200;
/// Number of independent chains.
const CHAINS: usize = 6;
/// Smallest number of looks that have a mean.
const MIN_LOOKS: usize = 20;
/// A look that took longer than the fastest tenth by this factor was interrupted.
const INTERRUPTED: u64 = 3;

/// The times of some looks.
#[derive(Debug, Default)]
pub(crate) struct CoreSpeed {
    state: [u64; CHAINS],
    times: Vec<u64>,
}

impl CoreSpeed {
    /// Does the arithmetic once more, and notes its time.
    pub(crate) fn look(&mut self) {
        self.work(WARM);
        let began = clock::monotonic();
        self.work(ROUNDS);
        self.times.push(clock::monotonic().since(began).0);
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

    /// Returns the mean time of the looks that were not interrupted; `None` if they are few.
    pub(crate) fn mean(mut self) -> Option<Nanos> {
        if self.times.len() < MIN_LOOKS {
            return None;
        }
        self.times.sort_unstable();
        let most = self.times[self.times.len() / 10] * INTERRUPTED;
        self.times.retain(|time| *time <= most);
        Some(Nanos(self.times.iter().sum::<u64>() / self.times.len() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupted_looks_do_not_count() {
        let of = |times: Vec<u64>| CoreSpeed { times, ..CoreSpeed::default() }.mean();
        assert_eq!(of(vec![1_000; 19]), None);
        let mut times = vec![1_000; 30];
        times.extend([2_000; 30]);
        times.extend([50_000, 9_000_000]);
        assert_eq!(of(times), Some(Nanos(1_500)));
    }

    #[test]
    fn the_work_is_done() {
        let mut speed = CoreSpeed::default();
        for _ in 0..MIN_LOOKS {
            speed.look();
        }
        assert!(speed.state.iter().all(|x| *x != 0), "{:?}", speed.state);
        assert!(speed.mean().is_some_and(|time| time > Nanos::ZERO));
    }
}
