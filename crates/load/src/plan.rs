//! The plan of a trial: the same for all workers except for the worker's number.

use measure::{Goal, Nanos, Pacing};

use crate::lockstep::EXPERIMENT;

/// Plan of one worker.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Rule of when queries leave.
    pub pacing: Pacing,
    /// Duration of the trial.
    pub duration: Nanos,
    /// Timeout of one query: a reply counts only within this time.
    pub timeout: Nanos,
    /// Longest time that a query may be held after its due time to leave together with others.
    pub max_burst: Nanos,
    /// Goal that ends the trial as soon as it cannot be met any more.
    pub stop_at: Option<Goal>,
    /// Number of connected sockets of the engine.
    pub sockets: u16,
    /// Seed of Poisson arrivals and of the ids.
    pub seed: u64,
    /// Number of this worker, from 0.
    pub worker: u32,
    /// Number of workers.
    pub workers: u32,
}

impl Plan {
    /// Returns the highest number of queries that all workers together may send; `None` for a window, which
    /// sends as many as the server answers.
    ///
    /// Poisson arrivals have no upper limit: the result is six standard deviations above each worker's mean,
    /// which one seed in 10^9 exceeds.
    pub fn most_queries(&self) -> Option<u64> {
        match self.pacing {
            Pacing::Window { .. } => None,
            Pacing::LockStep { experiments, .. } => {
                Some(u64::from(experiments) * u64::from(EXPERIMENT))
            }
            Pacing::Poisson { rate } => {
                let workers = f64::from(self.workers.max(1));
                let mean = rate.get() * self.duration.as_secs_f64() / workers;
                Some((workers * (mean + 6.0 * mean.sqrt() + 16.0)).ceil() as u64)
            }
            open @ (Pacing::Constant { .. } | Pacing::Ramp { .. }) => {
                open.schedule(self.duration, self.seed).map(|schedule| schedule.planned())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use measure::Qps;

    use super::*;

    #[test]
    fn the_most_queries() {
        let qps = |x| Qps::new(x).expect("a rate");
        let most = |pacing, workers| {
            let plan = Plan {
                pacing,
                duration: Nanos::from_secs(2),
                timeout: Nanos::from_secs(1),
                max_burst: Nanos::ZERO,
                stop_at: None,
                sockets: 1,
                seed: 5,
                worker: 0,
                workers,
            };
            plan.most_queries()
        };
        assert_eq!(most(Pacing::Constant { rate: qps(1_000.0) }, 3), Some(2_000));
        assert_eq!(most(Pacing::Ramp { from: qps(0.0), to: qps(1_000.0) }, 1), Some(1_000));
        assert_eq!(most(Pacing::LockStep { threads: 4, experiments: 10 }, 1), Some(2_560));
        assert_eq!(most(Pacing::Window { outstanding: 10 }, 1), None);
        let poisson = Pacing::Poisson { rate: qps(5_000.0) };
        assert_eq!(most(poisson, 1), Some(10_616));
        for seed in 0..20 {
            let mut schedule = poisson.schedule(Nanos::from_secs(2), seed).expect("open");
            let mut count = 0;
            while schedule.peek().is_some() {
                schedule.advance();
                count += 1;
            }
            assert!(count <= 10_616, "{count}");
        }
    }
}
