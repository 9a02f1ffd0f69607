//! The offset of another host's clock from this one's, by the shortest of some round trips.
//!
//! ```text
//! here    t0 ─── ping ──┐              ┌──> t1        offset = t - (t0 + t1) / 2
//! there                 └─ t, its time ┘              error <= (t1 - t0) / 2
//! ```
//!
//! The reply of the shortest round trip waited least, as in PTP without hardware.

use crate::units::Nanos;

/// A comparison of two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Time of the clock here.
    pub at: Nanos,
    /// Offset of the other clock in nanoseconds; negative if it was behind.
    pub offset_ns: i64,
    /// Largest error of `offset_ns`, either way.
    pub error: Nanos,
}

impl Reading {
    /// Makes the reading of one round trip: sent and returned at these times of the local clock,
    /// received at `there` of the other one.
    pub fn of_round_trip(sent: Nanos, there: Nanos, returned: Nanos) -> Self {
        let trip = returned.since(sent);
        let at = sent + Nanos(trip.0 / 2);
        let offset_ns = there.0.wrapping_sub(at.0) as i64;
        Reading { at, offset_ns, error: Nanos(trip.0.div_ceil(2)) }
    }

    /// Returns the more exact one of two readings.
    pub fn better(self, other: Option<Reading>) -> Reading {
        other.filter(|other| other.error <= self.error).unwrap_or(self)
    }

    /// Returns a time of the clock here on the other one.
    pub fn there(&self, at: Nanos) -> Nanos {
        Nanos(at.0.saturating_add_signed(self.offset_ns))
    }

    /// Returns a time of the other clock on the one here.
    pub fn here(&self, at: Nanos) -> Nanos {
        Nanos(at.0.saturating_sub_signed(self.offset_ns))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: Nanos = Nanos(1_795_408_200_000_000_000);

    proptest! {
        #[test]
        fn the_offset_is_right_within_its_error(there in 0u64..1_000_000, back in 0u64..1_000_000, ahead in -5_000_000_000i64..5_000_000_000) {
            let clock = |at: Nanos| Nanos(at.0.saturating_add_signed(ahead));
            let (arrived, returned) = (NOW + Nanos(there), NOW + Nanos(there + back));
            let reading = Reading::of_round_trip(NOW, clock(arrived), returned);
            prop_assert!((reading.offset_ns - ahead).unsigned_abs() <= reading.error.0 + 1, "{reading:?}");
            prop_assert_eq!(reading.there(NOW), Nanos(NOW.0.saturating_add_signed(reading.offset_ns)));
            prop_assert_eq!(reading.here(reading.there(NOW)), NOW);
            let exact = Reading { error: Nanos(1), ..reading };
            prop_assert_eq!(reading.better(Some(exact)), if reading.error.0 == 0 { reading } else { exact });
        }
    }
}
