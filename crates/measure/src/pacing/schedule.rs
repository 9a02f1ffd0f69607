//! Due times of an open loop.
//!
//! Each due time is computed from the index of its query, never from the rounded due time of the query
//! before, so that a schedule does not drift over hours.

use crate::rng::Rng;
use crate::units::{Nanos, Qps};

/// Due times of an open loop, as offsets from the start of the trial.
#[derive(Clone, Debug)]
pub struct Schedule {
    shape: Shape,
    duration: Nanos,
    worker: u64,
    workers: u64,
    /// Number of queries of this worker that were taken off the schedule.
    taken: u64,
    next: Option<Nanos>,
}

/// Formula of the due times.
#[derive(Clone, Debug)]
enum Shape {
    Constant {
        ns_per_query: f64,
        total: u64,
    },
    Poisson {
        mean_gap_ns: f64,
        rate: f64,
        seed: u64,
        rng: Rng,
        at_ns: f64,
    },
    /// The rate changes for `span` seconds, in which `climbed` queries are due, and then stays.
    Ramp {
        from: f64,
        to: f64,
        span: f64,
        climbed: f64,
        total: u64,
    },
}

impl Schedule {
    /// Makes a schedule in which query k is due at k / `rate`, for all k due before `duration`.
    pub fn constant(rate: Qps, duration: Nanos) -> Self {
        let total = rate.queries_in(duration);
        Self::start(Shape::Constant { ns_per_query: 1e9 / rate.get(), total }, duration)
    }

    /// Makes a schedule with independent exponential gaps of mean 1 / `rate`.
    pub fn poisson(rate: Qps, duration: Nanos, seed: u64) -> Self {
        let shape = Shape::Poisson {
            mean_gap_ns: 1e9 / rate.get(),
            rate: rate.get(),
            seed,
            rng: Rng::part(seed, 0),
            at_ns: 0.0,
        };
        Self::start(shape, duration)
    }

    /// Makes a schedule whose rate changes linearly from `from` to `to` over `duration`.
    pub fn ramp(from: Qps, to: Qps, duration: Nanos) -> Self {
        Self::ramp_and_hold(from, to, Nanos::ZERO, duration)
    }

    /// Makes a schedule whose rate changes linearly from `from` to `to`, and stays there for the last `hold` of `duration`.
    pub fn ramp_and_hold(from: Qps, to: Qps, hold: Nanos, duration: Nanos) -> Self {
        let hold = hold.min(duration);
        let span = (duration - hold).as_secs_f64();
        let climbed = (from.get() + to.get()) / 2.0 * span;
        let total = (climbed + to.get() * hold.as_secs_f64()).floor() as u64;
        let (from, to) = (from.get(), to.get());
        Self::start(Shape::Ramp { from, to, span, climbed, total }, duration)
    }

    fn start(shape: Shape, duration: Nanos) -> Self {
        let mut schedule =
            Schedule { shape, duration, worker: 0, workers: 1, taken: 0, next: None };
        schedule.next = schedule.due();
        schedule
    }

    /// Returns the share of `worker` among `workers`: every `workers`-th query, or for Poisson arrivals an
    /// independent stream with an equal share of the rate. Must be called before a query is taken off the
    /// schedule.
    ///
    /// # Panics
    /// When `worker` is not below `workers`.
    pub fn shard(mut self, worker: u32, workers: u32) -> Self {
        assert!(worker < workers, "the number of worker {worker} is below {workers}");
        (self.worker, self.workers) = (u64::from(worker), u64::from(workers));
        if let Shape::Poisson { mean_gap_ns, rate, seed, rng, at_ns } = &mut self.shape {
            *rate /= f64::from(workers);
            *mean_gap_ns = 1e9 / *rate;
            *rng = Rng::part(*seed, u64::from(worker));
            *at_ns = 0.0;
        }
        self.next = self.due();
        self
    }

    /// Returns when the next query is due, counted from the start of the trial; `None` at the end of the
    /// schedule.
    pub fn peek(&self) -> Option<Nanos> {
        self.next
    }

    /// Takes the next query off the schedule.
    pub fn advance(&mut self) {
        if self.next.is_some() {
            self.taken += 1;
            self.next = self.due();
        }
    }

    /// Returns the total number of queries of this schedule; for Poisson arrivals the expected
    /// number, and at the end of the schedule the number that was drawn.
    pub fn planned(&self) -> u64 {
        match self.shape {
            _ if self.next.is_none() => self.taken,
            Shape::Constant { total, .. } | Shape::Ramp { total, .. } => {
                (total + self.workers - 1).saturating_sub(self.worker) / self.workers
            }
            Shape::Poisson { rate, .. } => (rate * self.duration.as_secs_f64()).round() as u64,
        }
    }

    /// Computes the due time of query number `taken` of this worker. For Poisson arrivals this draws the next
    /// gap.
    fn due(&mut self) -> Option<Nanos> {
        let k = self.taken * self.workers + self.worker;
        match &mut self.shape {
            // Two roundings with a relative error of 2^-53 each: less than a nanosecond of error in the
            // first 50 days, at any rate.
            Shape::Constant { ns_per_query, total } => {
                (k < *total).then_some(Nanos((k as f64 * *ns_per_query) as u64))
            }
            Shape::Poisson { mean_gap_ns, rng, at_ns, .. } => {
                // `1 - unit` lies in (0, 1]. With a rate of zero the gap is infinite, or NaN as 0 *
                // infinity.
                *at_ns += -(1.0 - rng.unit()).ln() * *mean_gap_ns;
                (*at_ns < self.duration.0 as f64).then_some(Nanos(*at_ns as u64))
            }
            Shape::Ramp { from, to, span, climbed, total } => {
                if k >= *total {
                    return None;
                }
                if k as f64 >= *climbed {
                    return Some(Nanos(((*span + (k as f64 - *climbed) / *to) * 1e9) as u64));
                }
                // Number of queries sent by time t: from t + (to - from) t^2 / 2T = k. It is solved for t in
                // the form without cancellation when from = to.
                let (k, slope) = (k as f64, (*to - *from) / *span);
                let root = (*from * *from + 2.0 * slope * k).max(0.0).sqrt();
                let t = if k == 0.0 { 0.0 } else { 2.0 * k / (*from + root) };
                Some(Nanos((t * 1e9) as u64))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Pacing;
    use super::*;

    fn qps(x: f64) -> Qps {
        Qps::new(x).expect("a rate")
    }

    fn all(mut s: Schedule) -> Vec<Nanos> {
        let mut out = Vec::new();
        while let Some(t) = s.peek() {
            out.push(t);
            s.advance();
        }
        out
    }

    #[test]
    fn constant_does_not_drift_over_hours() {
        // Rates as fractions, so that the exact due time is known in integers.
        for (num, den) in [(7u64, 10u64), (3, 1), (77_777, 10), (333_333, 1), (1_234_567, 1)] {
            let rate = num as f64 / den as f64;
            let mut s = Schedule::constant(qps(rate), Nanos::from_secs(5 * 3_600));
            let total = s.planned();
            assert_eq!(total, (5 * 3_600 * num).div_ceil(den), "{rate}");
            for k in [0, 1, 2, 3, total / 7, total / 3, total / 2, total - 2, total - 1] {
                s.taken = k;
                let got = s.due().expect("within the trial").0;
                let exact = u128::from(k) * 1_000_000_000 * u128::from(den) / u128::from(num);
                assert!(u128::from(got).abs_diff(exact) <= 1, "{rate}, {k}: {got} for {exact}");
            }
            s.advance();
            assert_eq!(s.peek(), None, "{rate}");
        }
    }

    #[test]
    fn nothing_is_due_without_a_rate_or_a_time() {
        let (second, none) = (Nanos::from_secs(1), Nanos::ZERO);
        for empty in [
            Schedule::constant(qps(0.0), second),
            Schedule::poisson(qps(0.0), second, 1),
            Schedule::ramp(qps(0.0), qps(0.0), second),
            Schedule::constant(qps(1e6), none),
            Schedule::poisson(qps(1e6), none, 1),
            Schedule::ramp(qps(0.0), qps(1e6), none),
        ] {
            assert_eq!((empty.peek(), empty.planned()), (None, 0), "{empty:?}");
        }
    }

    #[test]
    fn shards_interleave_to_the_whole() {
        for shape in [
            Schedule::constant(qps(1_000.0), Nanos::from_secs(1)),
            Schedule::ramp(qps(10.0), qps(2_000.0), Nanos::from_secs(1)),
        ] {
            let whole = all(shape.clone());
            let mut parts: Vec<Nanos> =
                (0..3).flat_map(|w| all(shape.clone().shard(w, 3))).collect();
            parts.sort();
            assert_eq!(parts, whole);
            assert_eq!(
                (0..3).map(|w| shape.clone().shard(w, 3).planned()).sum::<u64>(),
                whole.len() as u64
            );
        }
    }

    #[test]
    fn ramp_follows_its_integral() {
        let times = all(Schedule::ramp(qps(0.0), qps(2_000.0), Nanos::from_secs(2)));
        assert_eq!(times.len(), 2_000);
        // A quarter of the queries is sent in the first half of the time.
        let early = times.iter().filter(|t| **t < Nanos::from_secs(1)).count();
        assert!((499..=501).contains(&early), "{early}");
        assert!(times.is_sorted());
        let down = all(Schedule::ramp(qps(2_000.0), qps(0.0), Nanos::from_secs(2)));
        assert_eq!(down.len(), 2_000);
        assert!(down.iter().all(|t| *t <= Nanos::from_secs(2)));
    }

    #[test]
    fn a_ramp_stays_at_its_last_rate() {
        let hold = |span, hold, duration| {
            let pacing = Pacing::RampHold { from: qps(0.0), to: qps(1_000.0), hold };
            let times = all(pacing.schedule(duration, 1).expect("open"));
            assert!(times.is_sorted() && times.iter().all(|t| *t <= duration));
            let late: Vec<Nanos> = times.iter().copied().filter(|t| *t >= span).collect();
            assert!(late.windows(2).all(|w| (w[1].0 - w[0].0).abs_diff(1_000_000) <= 1));
            (times.len(), late.len())
        };
        let seconds = Nanos::from_secs;
        assert_eq!(hold(seconds(2), seconds(3), seconds(5)), (4_000, 3_000));
        assert_eq!(hold(seconds(0), seconds(3), seconds(3)), (3_000, 3_000));
        assert_eq!(hold(seconds(2), seconds(0), seconds(2)), (1_000, 0));
    }

    #[test]
    fn poisson_is_seeded_and_has_its_mean() {
        let a = all(Schedule::poisson(qps(10_000.0), Nanos::from_secs(2), 7));
        assert_eq!(a, all(Schedule::poisson(qps(10_000.0), Nanos::from_secs(2), 7)));
        assert_ne!(a, all(Schedule::poisson(qps(10_000.0), Nanos::from_secs(2), 8)));
        assert!((19_000..21_000).contains(&a.len()), "{}", a.len());
        assert!(a.is_sorted());
    }

    #[test]
    fn poisson_gaps_are_exponential() {
        let times = all(Schedule::poisson(qps(1_000.0), Nanos::from_secs(50), 3));
        let gaps: Vec<f64> = times.windows(2).map(|w| (w[1].0 - w[0].0) as f64 / 1e6).collect();
        // The share of gaps above x ms is e^-x; five standard deviations for 50,000 draws are below 0.012.
        for x in [0.1, 0.5, 1.0, 2.0, 4.0] {
            let above = gaps.iter().filter(|g| **g > x).count() as f64 / gaps.len() as f64;
            assert!((above - f64::exp(-x)).abs() < 0.012, "{x}: {above}");
        }
    }

    #[test]
    fn poisson_shards_are_independent_and_sum_to_the_rate() {
        let whole = Schedule::poisson(qps(10_000.0), Nanos::from_secs(2), 7);
        let parts: Vec<Vec<Nanos>> = (0..4).map(|w| all(whole.clone().shard(w, 4))).collect();
        assert!(parts.iter().all(|p| (4_600..5_400).contains(&p.len())));
        assert!(parts.windows(2).all(|w| w[0] != w[1]));
        assert_eq!((0..4).map(|w| whole.clone().shard(w, 4).planned()).sum::<u64>(), 20_000);
    }

    #[test]
    fn every_query_of_a_ramp_is_due_where_the_integral_says() {
        let (from, to, span) = (50.0, 5_000.0, 20.0);
        let times = all(Schedule::ramp(qps(from), qps(to), Nanos::from_secs(20)));
        assert_eq!(times.len(), 50_500);
        for (k, due) in times.iter().enumerate() {
            let t = due.as_secs_f64();
            let sent = from * t + (to - from) * t * t / (2.0 * span);
            // A nanosecond at 5,000 qps is 5e-6 queries.
            assert!((sent - k as f64).abs() < 1e-5, "{k}: {sent}");
        }
    }

    #[test]
    fn the_most_queries() {
        let most = |pacing: Pacing, workers| pacing.most_queries(Nanos::from_secs(2), workers);
        assert_eq!(most(Pacing::Constant { rate: qps(1_000.0) }, 3), Some(2_000));
        assert_eq!(most(Pacing::Ramp { from: qps(0.0), to: qps(1_000.0) }, 1), Some(1_000));
        assert_eq!(
            most(Pacing::LockStep { threads: 4, experiments: 10, anew: false }, 1),
            Some(2_560)
        );
        assert_eq!(most(Pacing::Window { outstanding: 10 }, 1), None);
        let poisson = Pacing::Poisson { rate: qps(5_000.0) };
        assert_eq!(most(poisson, 1), Some(10_616));
        for seed in 0..20 {
            let count = all(poisson.schedule(Nanos::from_secs(2), seed).expect("open")).len();
            assert!(count <= 10_616, "{count}");
        }
    }
}
