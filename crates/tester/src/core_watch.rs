//! Watchers of the testbed's cores: a thread on each core that notices when the core stood still, and how fast it is.
//!
//! ```text
//! due   ─┬──────┬──────┬──────┬───────────────────┬──────>    every 5 ms
//! runs   │      │      │      │······stall······│            late by more than it waited for others: a stall
//! ```
//!
//! A virtual machine loses a core to its host for milliseconds and counts that nowhere: not as steal time, and not as
//! waiting. A timer that fires late is the sign of it. What a watcher waited for other threads after its timer had
//! fired is in the kernel's accounts (`schedstat`) and no stall, so a busy server is never taken for one.
//!
//! The server must not pay for its watcher. One look takes 20 to 30 us on the virtual machine of our figures, where the
//! timer and its interrupt leave the guest, and a few us on hardware, 1 us of them for the speed of the core: at a look every 5 ms
//! that is 0.5 % and some 0.1 % of the core, below what two trials differ by. At a look every millisecond it would be 2 %. Short
//! stalls may be missed: those of 6 ms or more are always seen, one of 3 ms in two of five cases. That is enough,
//! since a receive buffer bridges the short ones: 4 MB those of 6 ms at any rate of ours, the kernel's default (277
//! datagrams) those of 6 ms at 46,000 queries a second.
//!
//! A watcher has the lowest real-time priority where that is permitted: one that waits for the server's time slice (3 ms)
//! sees no stall meanwhile, and the server waits for the watcher as for an interrupt.

use std::fs::File;
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use engine::clock;
use measure::procfs::parse_schedstat;
use measure::stall::{MIN_STALL, Side, Stall, WatchedCore};
use measure::{Disturbances, Nanos};
use udp::core_speed::WorkSamples;
use udp::sys;

/// Interval between samples of a watcher.
const PERIOD: Nanos = Nanos::from_millis(5);

/// Threads that watch some cores for stalls, one on each.
pub struct CoreWatch {
    done: Arc<AtomicBool>,
    threads: Vec<JoinHandle<(Disturbances, WorkSamples)>>,
}

impl CoreWatch {
    /// Starts a watcher on each core of `cores`; a core of several sides counts for the first.
    pub fn start(cores: impl IntoIterator<Item = (Side, usize)>) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let mut watched: Vec<(Side, usize)> = Vec::new();
        for (side, cpu) in cores {
            if watched.iter().all(|(_, known)| *known != cpu) {
                watched.push((side, cpu));
            }
        }
        let threads = watched.into_iter().map(|(side, cpu)| {
            let done = done.clone();
            std::thread::spawn(move || watch(side, cpu, &done))
        });
        CoreWatch { threads: threads.collect(), done }
    }

    /// Ends the watchers; returns the stalls, and the cores that were watched, with their speed in the time of sending.
    pub fn end(mut self, sending: RangeInclusive<Nanos>) -> Disturbances {
        self.done.store(true, Ordering::Relaxed);
        let mut all = Disturbances::default();
        for thread in std::mem::take(&mut self.threads) {
            let (mut seen, samples) = thread.join().unwrap_or_default();
            let work = samples.within(&sending);
            for core in &mut seen.watched {
                core.work_ns = work.map(|times| times.mean.0);
                core.best_work_ns = work.map(|times| times.best.0);
            }
            all.merge(&seen);
        }
        all
    }
}

impl Drop for CoreWatch {
    /// Ends the watchers of a trial that failed.
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
    }
}

/// Runs a watcher until it is `done`; it ends at once if it may not run on its core.
fn watch(side: Side, cpu: usize, done: &AtomicBool) -> (Disturbances, WorkSamples) {
    let (mut seen, mut samples) = (Disturbances::default(), WorkSamples::default());
    if sys::pin_to_cpus(&[cpu]).is_err() {
        return (seen, samples);
    }
    sys::prepare_for_timing();
    let real_time = sys::take_core_first();
    let accounts = File::open("/proc/thread-self/schedstat").ok();
    let mut timer = Timer::new(clock::monotonic(), waited(accounts.as_ref()));
    while !done.load(Ordering::Relaxed) {
        sys::sleep_until(timer.due);
        if let Some((at, length)) = timer.fired(clock::monotonic(), waited(accounts.as_ref())) {
            seen.add_stall(Stall { side, at, length });
        }
        samples.sample();
    }
    let used = clock::thread_cpu_time();
    let core = WatchedCore { side, cpu, real_time, used, work_ns: None, best_work_ns: None };
    seen.watched.push(core);
    (seen, samples)
}

/// Time so far in which the calling thread was ready to run but did not, from its open `schedstat`;
/// zero where the kernel does not count it.
fn waited(accounts: Option<&File>) -> Nanos {
    let mut text = [0; 64];
    let read = accounts.and_then(|file| file.read_at(&mut text, 0).ok());
    let text = read.and_then(|len| std::str::from_utf8(&text[..len]).ok());
    Nanos(text.and_then(parse_schedstat).map_or(0, |times| times.delay))
}

/// Time at which a watcher must wake, and its total waiting time at its last wake-up.
#[derive(Debug)]
struct Timer {
    due: Nanos,
    waited: Nanos,
}

impl Timer {
    fn new(now: Nanos, waited: Nanos) -> Self {
        Timer { due: now + PERIOD, waited }
    }

    /// Notes that the watcher runs `now`, after it has waited for other threads for `waited` in all; returns time and
    /// length of a stall.
    fn fired(&mut self, now: Nanos, waited: Nanos) -> Option<(Nanos, Nanos)> {
        let others = waited.since(self.waited);
        let (due, length) = (self.due, now.since(self.due).since(others));
        *self = Timer::new(now, waited);
        (length >= MIN_STALL).then_some((due, length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: fn(u64) -> Nanos = Nanos::from_micros;

    #[test]
    fn only_a_late_timer_is_a_stall() {
        // Due at 15 ms. Runs at, waited for others before and after, and the stall.
        let table = [
            (US(15_003), US(5), US(8), None),
            (US(15_990), US(5), US(8), None),
            (US(23_000), US(5), US(8), Some((US(15_000), US(7_997)))),
            // The server had its time slice first.
            (US(18_000), US(5), US(3_003), None),
            // The core stood still, then the server ran.
            (US(23_000), US(0), US(3_000), Some((US(15_000), US(5_000)))),
            // The accounts of the kernel may be ahead of the clock.
            (US(15_003), US(5), US(9_000), None),
        ];
        for (now, before, after, wanted) in table {
            let mut timer = Timer::new(US(10_000), before);
            assert_eq!(timer.fired(now, after), wanted, "{now} {before} {after}");
            assert_eq!((timer.due, timer.waited), (now + PERIOD, after));
        }
    }

    #[test]
    fn each_core_is_watched_once() {
        let cpu = sys::allowed_cpus().expect("readable")[0];
        let sides = [Side::Tester, Side::AuthDns, Side::Tester];
        let watch = CoreWatch::start(sides.map(|side| (side, cpu)));
        sys::sleep_until(clock::monotonic() + US(300_000));
        let seen = watch.end(Nanos::ZERO..=Nanos::MAX);
        let watched: Vec<_> = seen.watched.iter().map(|core| (core.side, core.cpu)).collect();
        assert_eq!(watched, [(Side::Tester, cpu)]);
        assert!(seen.watched[0].used > Nanos::ZERO);
        let times = seen.watched[0].work_ns.zip(seen.watched[0].best_work_ns);
        assert!(times.is_some_and(|(mean, best)| mean > 0 && best > 0), "{:?}", seen.watched);
        assert!(seen.stalls.iter().all(|stall| stall.side == Side::Tester));
        let none = CoreWatch::start([(Side::Dut, 1_000_000)]).end(Nanos::ZERO..=Nanos::MAX);
        assert!(none.is_empty(), "{none:?}");
    }
}
