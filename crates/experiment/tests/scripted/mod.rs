//! Trials that a scripted bench gives.

pub(crate) mod rounds;
pub(crate) mod searches;

use std::sync::LazyLock;

use experiment::{Bench, BenchError, TrialSpec};
use measure::{Goal, Histogram, Limiter, Void};
use record::{SCHEMA, Times, Trial, Voidness};

/// The times of no query, made once: a debug build takes a millisecond for it, and some tests have thousands of trials.
static NONE: LazyLock<Times> = LazyLock::new(|| Times::from(&Histogram::new()));

/// A bench whose trials a closure makes.
pub(crate) struct Trials<F>(pub(crate) F);

impl<F: FnMut(&TrialSpec) -> Result<Trial, BenchError>> Bench for Trials<F> {
    fn trial(&mut self, spec: &TrialSpec) -> Result<Trial, BenchError> {
        (self.0)(spec)
    }
}

/// A trial whose queries all were answered right, at `rate` queries per second.
pub(crate) fn trial(
    spec: &TrialSpec,
    rate: f64,
    passed: bool,
    limiter: Limiter,
    void: Option<Void>,
) -> Trial {
    let none = NONE.clone();
    Trial {
        schema: SCHEMA,
        planned: spec.names,
        sent: spec.names,
        answered: spec.names,
        valid: spec.names,
        offered_qps: rate,
        duration_s: spec.duration.as_secs_f64(),
        latency_us: none.clone(),
        latency_from_send_us: none.clone(),
        schedule_error_us: none,
        limiter,
        void: Voidness(void),
        goal: spec.goal.as_ref().map(Goal::to_string),
        passed: Some(passed),
        ..Trial::default()
    }
}
