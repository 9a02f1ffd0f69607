//! Time for which a query of a closed loop keeps its place, over UDP. Streams drop nothing: there
//! it keeps its place until its timeout.
//!
//! A server that drops queries (a rate limit, a full queue) would stop a closed loop until their timeout. A place is free again after
//! the retransmission timeout of RFC 6298 (section 2) without its floor of a second and without its backoff, but after four times the
//! 99th percentile of the latencies at least. A reply that comes later, within the timeout, counts as answered.
//! Before the first reply it is the timeout, but where a highest rate bounds the queries a small part of it: a server may drop all
//! queries of a second.

use measure::{Histogram, Nanos, Pacing};

use crate::plan::Plan;

/// Weights of a new latency in the smoothed latency and in its variation (RFC 6298: alpha and
/// beta), and weight of the variation (K).
const ALPHA: f64 = 1.0 / 8.0;
const BETA: f64 = 1.0 / 4.0;
const K: f64 = 4.0;
/// Part of the timeout for which a query keeps its place before the first reply, in a window with a
/// highest rate.
const FIRST_PART: u64 = 64;
/// Number of 99th percentiles that are waited for at least.
const WAITED_P99S: u64 = 4;
/// Number of replies after which the percentile is looked at again, at the most.
const REPLIES_PER_CHECK: u64 = 4_096;

/// Estimates the time after which a reply is no longer likely.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    /// Smoothed latency and its variation, in nanoseconds; none before the first reply.
    smoothed: Option<(f64, f64)>,
    /// Time for which a query keeps its place before the first reply.
    first: Nanos,
    /// Whether a highest rate bounds the queries.
    capped: bool,
    p99: Nanos,
    /// Number of replies at which the percentile is looked at again.
    next_look: u64,
}

impl Patience {
    /// Makes the estimate of a plan; `None` where queries keep their places until their timeout.
    pub(crate) fn of(plan: &Plan) -> Option<Self> {
        let frees =
            plan.adaptive_window && !plan.keep_places && plan.pacing.outstanding().is_some();
        let capped = matches!(plan.pacing, Pacing::CappedWindow { .. });
        frees.then(|| Patience::new(plan.timeout, capped))
    }

    /// Makes the estimate of a loop whose queries have this timeout, and a highest rate if it is `capped`.
    fn new(timeout: Nanos, capped: bool) -> Self {
        let first = if capped { Nanos(timeout.0 / FIRST_PART) } else { timeout };
        Patience { first, capped, ..Self::default() }
    }

    /// Returns whether a highest rate bounds the queries.
    pub(crate) fn is_capped(&self) -> bool {
        self.capped
    }

    /// Notes the latency of a reply.
    #[inline]
    pub(crate) fn answer(&mut self, took: Nanos) {
        let took = took.0 as f64;
        self.smoothed = Some(match self.smoothed {
            None => (took, took / 2.0),
            Some((smoothed, variation)) => {
                let variation = (1.0 - BETA) * variation + BETA * (smoothed - took).abs();
                ((1.0 - ALPHA) * smoothed + ALPHA * took, variation)
            }
        });
    }

    /// Returns the time for which a query keeps its place, by all latencies so far; never longer
    /// than `timeout`.
    pub(crate) fn keeps(&mut self, latencies: &Histogram, timeout: Nanos) -> Nanos {
        let Some((smoothed, variation)) = self.smoothed else { return self.first };
        if latencies.count() >= self.next_look {
            self.p99 = latencies.quantile(0.99);
            self.next_look = latencies.count() + latencies.count().clamp(1, REPLIES_PER_CHECK);
        }
        let estimate = Nanos((smoothed + K * variation) as u64);
        estimate.max(Nanos(WAITED_P99S * self.p99.0)).min(timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    #[test]
    fn the_estimate_is_that_of_rfc_6298() {
        let [mut patience, mut capped] =
            [false, true].map(|capped| Patience::new(MS(1_000), capped));
        let none = Histogram::new();
        assert_eq!(capped.keeps(&none, MS(1_000)), Nanos(15_625_000));
        assert_eq!(patience.keeps(&none, MS(1_000)), MS(1_000));
        patience.answer(MS(100));
        // SRTT is R, RTTVAR is R / 2: 100 + 4 * 50.
        assert_eq!(patience.keeps(&none, MS(1_000)), MS(300));
        patience.answer(MS(180));
        // RTTVAR 0.75 * 50 + 0.25 * 80, SRTT 0.875 * 100 + 0.125 * 180.
        assert_eq!(patience.keeps(&none, MS(1_000)), MS(110 + 4 * 57) + Nanos::from_micros(2_000));
        assert_eq!(patience.keeps(&none, MS(250)), MS(250));
    }

    #[test]
    fn four_percentiles_are_waited_for() {
        let (mut patience, mut latencies) = (Patience::default(), Histogram::new());
        for _ in 0..980 {
            patience.answer(MS(1));
            latencies.record(MS(1));
        }
        latencies.record_many(MS(50), 20);
        let keeps = patience.keeps(&latencies, MS(1_000));
        assert!(keeps >= MS(199) && keeps <= MS(203), "{keeps}");
    }
}
