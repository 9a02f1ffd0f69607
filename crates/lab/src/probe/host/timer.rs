//! The clock and the scheduler: the cost of reading the clock, how late a sleep ends, and how long a core interrupts
//! a program that never sleeps.

use std::hint::black_box;
use std::time::{Duration, Instant};

use record::host::{Gaps, Timer};

use super::memory::bind;
use crate::testbed::cpus::CpuList;

/// Requested duration of one sleep.
const REQUESTED_SLEEP: Duration = Duration::from_micros(100);
/// Shortest time between two clock reads of a busy program that counts as an interruption.
const MIN_GAP: Duration = Duration::from_micros(10);

/// Measures clock and scheduler; the gaps on each of the cores `on`, one after the other.
pub(super) fn measure(on: &CpuList, full: bool) -> Timer {
    let (reads, naps, spin) = if full { (1_000_000, 2_000, 1_000) } else { (100_000, 300, 100) };
    let (clock_read_ns, clock_step_ns) = clock(reads);
    let mut late: Vec<f64> = (0..naps).map(|_| nap()).collect();
    late.sort_by(f64::total_cmp);
    let at = |share: f64| late[((late.len() - 1) as f64 * share) as usize];
    // Each core has its own thread, so this thread need not change its core.
    let gaps = on.cpus().iter().map(|&cpu| {
        let spin = Duration::from_millis(spin);
        std::thread::spawn(move || gaps(cpu, spin)).join().unwrap_or_default()
    });
    Timer {
        clock_read_ns,
        clock_step_ns,
        sleep_late_p50_us: at(0.5),
        sleep_late_p99_us: at(0.99),
        sleep_late_max_us: at(1.0),
        gaps: gaps.collect(),
    }
}

/// Returns the time of one clock read in the best of ten rounds, and the smallest step of the clock, both in
/// nanoseconds.
fn clock(reads: u32) -> (f64, u64) {
    let (mut best, mut step) = (f64::MAX, u64::MAX);
    for _ in 0..10 {
        let began = Instant::now();
        let mut last = began;
        for _ in 0..reads / 10 {
            let now = Instant::now();
            let passed = now.duration_since(last).as_nanos() as u64;
            step = if passed > 0 { step.min(passed) } else { step };
            last = now;
        }
        let took = black_box(last).duration_since(began).as_secs_f64();
        best = best.min(took * 1e9 / f64::from(reads / 10));
    }
    (best, if step == u64::MAX { 0 } else { step })
}

/// Sleeps once; returns how late the sleep ended, in microseconds.
fn nap() -> f64 {
    let began = Instant::now();
    std::thread::sleep(REQUESTED_SLEEP);
    began.elapsed().saturating_sub(REQUESTED_SLEEP).as_secs_f64() * 1e6
}

fn gaps(cpu: usize, spin: Duration) -> Gaps {
    bind(cpu);
    let began = Instant::now();
    let (mut last, mut count, mut longest, mut away) =
        (began, 0_u32, Duration::ZERO, Duration::ZERO);
    while last.duration_since(began) < spin {
        let now = Instant::now();
        let gap = now.duration_since(last);
        if gap >= MIN_GAP {
            count += 1;
            longest = longest.max(gap);
            away += gap;
        }
        last = now;
    }
    let took = last.duration_since(began).as_secs_f64();
    Gaps {
        cpu,
        per_s: f64::from(count) / took,
        max_us: longest.as_secs_f64() * 1e6,
        share: away.as_secs_f64() / took,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes() {
        let on = CpuList::new(CpuList::allowed().cpus().iter().copied().take(1)).unwrap();
        let timer = measure(&on, false);
        assert!(timer.clock_read_ns > 0.0 && timer.clock_step_ns > 0, "{timer:?}");
        assert!(timer.sleep_late_p50_us <= timer.sleep_late_p99_us);
        assert!(timer.sleep_late_p99_us <= timer.sleep_late_max_us);
        assert_eq!(timer.gaps.len(), 1);
        assert!((0.0..=1.0).contains(&timer.gaps[0].share));
    }
}
