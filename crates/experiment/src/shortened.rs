//! A bench whose trials are shorter than planned: tests run a plan of hours with it. Records and reports say so.

use measure::Nanos;
use record::Trial;

use crate::bench::{Bench, BenchError, TrialSpec};

/// Runs every trial of a bench for a given time, whatever the plan says.
pub struct Shortened<'a> {
    bench: &'a mut dyn Bench,
    duration: Nanos,
}

impl<'a> Shortened<'a> {
    /// Makes a bench whose trials last `duration`.
    pub fn new(bench: &'a mut dyn Bench, duration: Nanos) -> Self {
        Shortened { bench, duration }
    }
}

impl Bench for Shortened<'_> {
    fn trial(&mut self, spec: &TrialSpec) -> Result<Trial, BenchError> {
        self.bench.trial(&TrialSpec { duration: self.duration, ..spec.clone() })
    }

    fn pause(&mut self, time: Nanos) {
        self.bench.pause(time);
    }

    fn forget_names(&mut self) -> Result<bool, BenchError> {
        self.bench.forget_names()
    }
}
