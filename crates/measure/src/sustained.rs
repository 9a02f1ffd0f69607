//! Tells whether a rate was sustained: whether the queries outstanding at the end of sending are no
//! more than in the middle.
//!
//! ```text
//! outstanding                                    overload: the queue grows until queries time out, after the
//!   │                                  ···'''    trial has ended
//!   │                       ···'''
//!   │            ···'''
//!   │ ···'''_________________________________    sustained
//!   └────────┬────────┬────────┬────────┬─────> time
//!            │ middle │        │  end   │        medians over a quarter of the trial each
//! ```
//!
//! Only queries that were answered in time count: those that are lost wait for their timeout whatever the server
//! does. The numbers are medians of at least eight instants, so that one stall of the host changes neither.

use serde::{Deserialize, Serialize};

use crate::units::{Nanos, Qps};

/// Growth of the latency between middle and end that a sustained trial may have: 2 ms, which in a trial of
/// 1 s is an overload by 0.4 %, and less in a longer one.
const ALLOWED_GROWTH: Nanos = Nanos::from_millis(2);
/// Standard deviations by which the number may differ by chance.
const DEVIATIONS: f64 = 4.0;

/// Numbers of outstanding queries in the middle and at the end of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Outstanding {
    /// Median over the second quarter of the time of sending.
    pub middle: f64,
    /// Median over the last quarter.
    pub end: f64,
    /// Largest number at the end with which the rate was sustained.
    pub allowed: f64,
}

impl Outstanding {
    /// Computes the numbers of a trial that sent for `duration` at `rate` from `samples`: the
    /// numbers of queries outstanding at the instants 0, `step`, 2 `step` and so on. `None` if
    /// there are fewer than two instants in a quarter.
    pub fn new(samples: &[u64], step: Nanos, duration: Nanos, rate: Qps) -> Option<Self> {
        let quarter = |from: u64| {
            let place = |quarters: u64| {
                (duration.0.saturating_mul(quarters) / 4).div_ceil(step.0.max(1)) as usize
            };
            samples.get(place(from)..place(from + 1).min(samples.len()))
        };
        let (second, last) = (quarter(1)?, quarter(3)?);
        let (middle, end) = (median(second)?, median(last)?);
        let instants = second.len().min(last.len()) as f64;
        // The mean latency by Little's law: after this time all outstanding queries have been
        // replaced.
        let latency_s = middle / rate.get();
        let independent = (duration.as_secs_f64() / 4.0 / latency_s).min(instants);
        let allowed = middle
            + rate.get() * ALLOWED_GROWTH.as_secs_f64()
            + DEVIATIONS * deviation(middle, independent);
        Some(Outstanding { middle, end, allowed })
    }

    /// Returns the numbers of several parts of a load together. Each median is of its own part, so that the sum is close
    /// to the median of the whole.
    pub fn sum(parts: &[Outstanding]) -> Option<Self> {
        let add = |number: fn(&Outstanding) -> f64| parts.iter().map(number).sum();
        let (middle, end) = (add(|part| part.middle), add(|part| part.end));
        let allowed = add(|part| part.allowed);
        (!parts.is_empty()).then_some(Outstanding { middle, end, allowed })
    }

    /// Returns whether the rate was sustained.
    pub fn is_sustained(&self) -> bool {
        self.end <= self.allowed
    }
}

/// Returns the standard deviation of the difference of two medians over `independent` instants each, of a number that is
/// Poisson about `mean`, as outstanding queries of Poisson arrivals are.
fn deviation(mean: f64, independent: f64) -> f64 {
    // The standard deviation of a median is that of the mean times sqrt(pi / 2); the median of one
    // instant is the number itself.
    let narrower = (independent / std::f64::consts::FRAC_PI_2).max(1.0);
    ((2.0 * mean + 1.0) / narrower).sqrt()
}

/// Returns the median; `None` of fewer than two.
fn median(samples: &[u64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let half = sorted.len() / 2;
    match sorted.len() {
        0 | 1 => None,
        n if n.is_multiple_of(2) => Some((sorted[half - 1] + sorted[half]) as f64 / 2.0),
        _ => Some(sorted[half] as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    const STEP: Nanos = Nanos::from_millis(25);

    fn qps(rate: f64) -> Qps {
        Qps::new(rate).expect("a rate")
    }

    /// Makes the outstanding queries of a trial of `seconds`: `at` returns their number every 25 ms.
    fn numbers(rate: f64, seconds: u64, at: impl Fn(f64) -> f64) -> Outstanding {
        let samples: Vec<u64> =
            (0..seconds * 40).map(|i| at(i as f64 * 0.025).max(0.0).round() as u64).collect();
        Outstanding::new(&samples, STEP, Nanos::from_secs(seconds), qps(rate)).expect("numbers")
    }

    /// Rate, seconds, number outstanding over time, and whether that is sustained.
    type Row<'r> = (f64, u64, &'r dyn Fn(f64) -> f64, bool);

    #[test]
    fn a_growing_queue_is_not_sustained() {
        let table: [Row<'_>; 13] = [
            (100_000.0, 1, &|_| 10.0, true),
            // An overload by 5 % and by 1 %.
            (100_000.0, 1, &|t| 10.0 + 5_000.0 * t, false),
            (100_000.0, 1, &|t| 10.0 + 1_000.0 * t, false),
            (15_000.0, 2, &|t| 50.0 + 750.0 * t, false),
            (15_000.0, 60, &|t| 15.0 * t, false),
            // A low rate: an overload by a twentieth within a second, and by a fiftieth within two.
            (315.0, 1, &|t| 15.0 * t, false),
            (302.0, 2, &|t| 2.0 * t, true),
            (306.0, 2, &|t| 6.0 * t, false),
            (600.0, 1, &|t| 300.0 * t, false),
            // A queue that stands, at a server with 290 ms of latency, and one that shrinks.
            (15_000.0, 2, &|_| 4_350.0, true),
            (15_000.0, 2, &|t| 4_350.0 - 1_000.0 * t, true),
            // A stall of 50 ms near the end.
            (100_000.0, 1, &|t| if (0.85..0.9).contains(&t) { 5_000.0 } else { 10.0 }, true),
            (5_000.0, 1, &|_| 0.0, true),
        ];
        for (i, (rate, seconds, at, wanted)) in table.into_iter().enumerate() {
            let numbers = numbers(rate, seconds, at);
            assert_eq!(numbers.is_sustained(), wanted, "row {i}: {numbers:?}");
        }
    }

    #[test]
    fn poisson_fluctuations_pass() {
        let mut rng = Rng::part(7, 0);
        for mean in [1u32, 10, 100] {
            for _ in 0..200 {
                // A binomial number is close to a Poisson one.
                let mut number = || {
                    let hit = |_| u64::from(rng.next_u64().is_multiple_of(100));
                    (0..mean * 100).map(hit).sum::<u64>()
                };
                let samples: Vec<u64> = (0..40).map(|_| number()).collect();
                let rate = qps(f64::from(mean));
                let found = Outstanding::new(&samples, STEP, Nanos::from_secs(1), rate);
                let found = found.expect("numbers");
                assert!(found.is_sustained(), "{found:?}");
            }
        }
    }

    #[test]
    fn poisson_arrivals_at_a_server_that_keeps_up_pass() {
        let mut rng = Rng::part(8, 0);
        for (rate, latency_s) in
            [(300.0, 0.001), (300.0, 0.05), (300.0, 0.2), (20_000.0, 0.0002), (20_000.0, 0.05)]
        {
            let unsustained = (0..200).filter(|_| {
                let mut samples = [0; 40];
                let mut at = 0.0;
                while at < 1.0 {
                    let mut exponential =
                        || -(1.0 - rng.next_u64() as f64 / u64::MAX as f64).max(1e-12).ln();
                    let (gap, latency) = (exponential(), exponential());
                    at += gap / rate;
                    let seen = (at / 0.025).ceil() as usize
                        ..(((at + latency * latency_s) / 0.025).floor() as usize + 1).min(40);
                    samples.get_mut(seen).into_iter().flatten().for_each(|count| *count += 1);
                }
                let numbers = Outstanding::new(&samples, STEP, Nanos::from_secs(1), qps(rate));
                !numbers.expect("numbers").is_sustained()
            });
            assert_eq!(unsustained.count(), 0, "{rate} a second, {latency_s} s");
        }
    }

    #[test]
    fn too_few_instants_say_nothing() {
        let second = Nanos::from_secs(1);
        let of = |samples: &[u64]| Outstanding::new(samples, STEP, second, qps(1.0));
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[1; 31]), None, "one instant in the last quarter");
        assert!(of(&[1; 32]).is_some());
        assert_eq!(of(&[1; 32]).map(|o| (o.middle, o.end)), Some((1.0, 1.0)));
    }
}
