//! The clock of a Tester's host during a trial, by two readings against the conductor's: before and
//! after it. The two readings give the drift.

use measure::{Nanos, Reading, StartAt};
use record::{AgreedStart, PartClock};

/// The clock of a Tester during a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TesterClock {
    /// Difference from the conductor's clock before the trial.
    pub before: Reading,
    /// Reading after the trial; absent if there was no time for one.
    pub after: Option<Reading>,
}

impl TesterClock {
    /// Returns the growth of the offset between the readings, in nanoseconds, and the time between
    /// them.
    fn moved(&self) -> Option<(f64, f64)> {
        let after = self.after?;
        let elapsed = after.at.since(self.before.at).0;
        (elapsed > 0).then(|| ((after.offset_ns - self.before.offset_ns) as f64, elapsed as f64))
    }

    /// Returns the clock for the record.
    pub fn record(&self) -> PartClock {
        PartClock {
            offset_us: self.before.offset_ns as f64 / 1e3,
            drift_ppm: self.moved().map_or(0.0, |(moved, elapsed)| moved / elapsed * 1e6),
            offset_error_us: self.before.error.as_micros_f64(),
        }
    }

    /// Returns the start of a part on the conductor's clock. `agreed` is the planned start on that
    /// clock, `told` is the same instant on the Tester's clock; the Tester started `error_us` after
    /// `told`.
    ///
    /// Between the readings the offset is taken to grow evenly. It may have jumped instead, for instance when somebody set the
    /// clock, so all of its growth counts as an error, and so do the errors of both readings, which may hide some.
    pub fn start(&self, agreed: Nanos, told: Nanos, error_us: f64) -> AgreedStart {
        let since = difference(agreed, self.before.at) as f64;
        let grown = self.moved().map_or(0.0, |(moved, elapsed)| moved * since / elapsed);
        let offset_ns = self.before.offset_ns as f64 + grown;
        let early_ns = difference(told, agreed) as f64 - offset_ns;
        let moved_us = self.moved().map_or(0.0, |(moved, _)| moved.abs() / 1e3);
        let errors = [Some(self.before), self.after].into_iter().flatten();
        let errors_us: f64 = errors.map(|reading| reading.error.as_micros_f64()).sum();
        AgreedStart {
            at: StartAt::of_unix(agreed),
            error_us: error_us + early_ns / 1e3,
            clock_error_us: Some(errors_us + moved_us),
        }
    }
}

/// Returns `a - b` in nanoseconds.
fn difference(a: Nanos, b: Nanos) -> i64 {
    a.0.wrapping_sub(b.0) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Nanos = Nanos(1_795_408_200_000_000_000);

    #[test]
    fn a_start_is_moved_to_the_conductors_clock() {
        let reading = |s: u64, offset_ns| Reading {
            at: NOW + Nanos::from_secs(s),
            offset_ns,
            error: Nanos::from_micros(2),
        };
        let (agreed, told) = (NOW + Nanos::from_secs(2), NOW + Nanos(2_000_500_000));
        // 500 us ahead, and no drift: it started 3 us late.
        let clock = TesterClock { before: reading(0, 500_000), after: Some(reading(10, 500_000)) };
        let start = clock.start(agreed, told, 3.0);
        assert_eq!(start.at.unix(None), Some(agreed));
        assert!((start.error_us - 3.0).abs() < 1e-6, "{start:?}");
        assert_eq!(start.clock_error_us, Some(4.0));
        // 10 ppm faster: at the start it was 20 us further ahead than it was thought, and started as much too early.
        let clock = TesterClock { after: Some(reading(10, 600_000)), ..clock };
        let start = clock.start(agreed, told, 0.0);
        assert!((start.error_us + 20.0).abs() < 1e-6, "{start:?}");
        assert_eq!(start.clock_error_us, Some(104.0));
        assert!((clock.record().drift_ppm - 10.0).abs() < 1e-6, "{clock:?}");
        // Set by a second meanwhile: nobody knows when.
        let clock = TesterClock { after: Some(reading(10, 1_000_500_000)), ..clock };
        assert_eq!(clock.start(agreed, told, 0.0).clock_error_us, Some(1_000_004.0));
        let clock = TesterClock { after: None, ..clock };
        assert_eq!(clock.start(agreed, told, 0.0).error_us, 0.0);
        assert_eq!(clock.record().drift_ppm, 0.0);
    }
}
