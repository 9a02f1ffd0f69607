//! Converts receive timestamps, which are wall-clock times, to the monotonic clock of the engines.
//!
//! Both clocks run at the same rate, so that their difference changes only when the wall clock is set. It is
//! measured again every second.

use engine::clock;
use measure::Nanos;

/// Highest age of the measured difference.
const MAX_AGE: Nanos = Nanos::from_secs(1);
/// Longest measurement that counts as not interrupted.
const MAX_WIDTH: Nanos = Nanos(500);
/// Highest number of measurements, of which the shortest is used.
const TRIES: usize = 10;

/// Wall clock minus monotonic clock, and the time of the measurement.
pub(crate) struct StampClock {
    offset: u64,
    measured: Nanos,
}

impl StampClock {
    /// Measures the difference of the two clocks, by the narrowest of several tries.
    pub(crate) fn new() -> Self {
        let mut narrowest = (Nanos::MAX, 0, Nanos::ZERO);
        for _ in 0..TRIES {
            let (before, wall, after) = (clock::monotonic(), clock::realtime(), clock::monotonic());
            let width = after.since(before);
            if width < narrowest.0 {
                let middle = before.0 + width.0 / 2;
                narrowest = (width, wall.0.wrapping_sub(middle), after);
            }
            if width <= MAX_WIDTH {
                break;
            }
        }
        StampClock { offset: narrowest.1, measured: narrowest.2 }
    }

    /// Converts a wall-clock timestamp to the monotonic clock; the result is never after `now`, the time of
    /// reading.
    #[inline]
    pub(crate) fn to_monotonic(&self, wall: u64, now: Nanos) -> Nanos {
        Nanos(wall.wrapping_sub(self.offset)).min(now)
    }

    /// Measures again if the last measurement is too old.
    #[inline]
    pub(crate) fn refresh(&mut self, now: Nanos) {
        if now.since(self.measured) > MAX_AGE {
            *self = Self::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_converted_and_never_later_than_now() {
        let clock = StampClock { offset: 1_000, measured: Nanos(0) };
        assert_eq!(clock.to_monotonic(1_500, Nanos(600)), Nanos(500));
        assert_eq!(clock.to_monotonic(1_700, Nanos(600)), Nanos(600));
        // The wall clock was set back after the timestamp: the result is limited, without a panic.
        assert_eq!(clock.to_monotonic(900, Nanos(600)), Nanos(600));
        let now = clock::monotonic();
        let mapped = StampClock::new().to_monotonic(clock::realtime().0, Nanos::MAX);
        assert!(mapped >= now && mapped <= clock::monotonic() + Nanos::from_millis(100));
    }
}
