//! A bench whose trials may be shorter than planned: tests run a plan of hours with it. Records and reports say so.

use measure::Nanos;
use record::{Seen, Trial};

use crate::bench::{Bench, BenchError, TrialSpec};

/// Runs every trial of a bench, for a given time instead of the plan's if there is one.
pub struct Shortened<'a> {
    bench: &'a mut dyn Bench,
    duration: Option<Nanos>,
}

impl<'a> Shortened<'a> {
    /// Makes a bench whose trials last `duration`, or as planned without one.
    pub fn new(bench: &'a mut dyn Bench, duration: Option<Nanos>) -> Self {
        Shortened { bench, duration }
    }
}

impl Bench for Shortened<'_> {
    fn trial(&mut self, spec: &TrialSpec) -> Result<Trial, BenchError> {
        let duration = self.duration.unwrap_or(spec.duration);
        self.bench.trial(&TrialSpec { duration, ..spec.clone() })
    }

    fn pause(&mut self, time: Nanos) {
        self.bench.pause(time);
    }

    fn forget_names(&mut self) -> Result<bool, BenchError> {
        self.bench.forget_names()
    }

    fn hidden_cpu(&self) -> Option<Seen> {
        self.bench.hidden_cpu()
    }

    fn idle_share(&mut self, time: Nanos) -> Result<Option<f64>, BenchError> {
        self.bench.idle_share(time)
    }
}
