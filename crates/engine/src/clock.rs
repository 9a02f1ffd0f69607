//! Clocks of engines and threads, in nanoseconds. Roles read no clock; engines pass the time to them.

use measure::Nanos;
use nix::time::{ClockId, clock_gettime};

/// Returns the monotonic clock (`CLOCK_MONOTONIC`), in nanoseconds: the clock of all engines with a kernel.
#[inline]
pub fn monotonic() -> Nanos {
    read(ClockId::CLOCK_MONOTONIC)
}

/// Returns the wall clock (`CLOCK_REALTIME`), in nanoseconds since 1970.
#[inline]
pub fn realtime() -> Nanos {
    read(ClockId::CLOCK_REALTIME)
}

/// Returns the CPU time of the calling thread so far.
pub fn thread_cpu_time() -> Nanos {
    read(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// Returns the CPU time that this process has used, with its threads that have ended.
pub fn process_cpu_time() -> Nanos {
    read(ClockId::CLOCK_PROCESS_CPUTIME_ID)
}

#[inline]
fn read(id: ClockId) -> Nanos {
    let time = clock_gettime(id).expect("the clocks used here exist on every Linux");
    Nanos(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_go_forward() {
        let (a, cpu) = (monotonic(), thread_cpu_time());
        assert!(
            monotonic() >= a
                && thread_cpu_time() >= cpu
                && realtime() > Nanos::from_secs(1_600_000_000)
        );
    }
}
