//! The plan of a trial, the same for all its workers but for which one each is.

use measure::{Goal, Nanos, Pacing};

use crate::lockstep::EXPERIMENT;

/// What a worker shall do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// When queries leave.
    pub pacing: Pacing,
    /// For how long.
    pub duration: Nanos,
    /// A reply counts when it comes within this time.
    pub timeout: Nanos,
    /// How far from its due time a query may leave, so that it leaves together with others.
    pub max_burst: Nanos,
    /// Ends the trial when this goal is missed for certain.
    pub stop_at: Option<Goal>,
    /// How many connected sockets the engine has.
    pub sockets: u16,
    /// Seed of Poisson arrivals and of the ids.
    pub seed: u64,
    /// Which worker this is.
    pub worker: u32,
    /// Of how many.
    pub workers: u32,
}

impl Plan {
    /// The most queries that all workers together may send; `None` for a window, which sends as many
    /// as the server answers.
    ///
    /// Poisson arrivals have no most: six standard deviations above each worker's mean, which a seed in
    /// 10^9 exceeds.
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
