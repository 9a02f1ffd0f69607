//! Trials that a scripted bench gives.

use std::sync::LazyLock;

use experiment::TrialSpec;
use measure::{Goal, Histogram, Limiter, Void};
use record::{Conditions, Drops, SCHEMA, Times, Trial, Voidness};

/// The times of no query, made once: a debug build takes a millisecond for it, and some tests have thousands of trials.
static NONE: LazyLock<Times> = LazyLock::new(|| Times::from(&Histogram::new()));

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
        invalid: Default::default(),
        valid_while_sending: None,
        late: 0,
        lost: 0,
        unserved: 0,
        duplicates: 0,
        unexpected: 0,
        unresolved: 0,
        octets: Default::default(),
        offered_qps: rate,
        answered_qps: rate,
        duration_s: spec.duration.as_secs_f64(),
        latency_us: none.clone(),
        latency_from_send_us: none.clone(),
        schedule_error_us: none,
        rcodes: Default::default(),
        limiter,
        limiter_proof: None,
        void: Voidness(void),
        goal: spec.goal.as_ref().map(Goal::to_string),
        passed: Some(passed),
        outstanding: None,
        stopped_early: false,
        cpu: Default::default(),
        drops: Drops::default(),
        connections: None,
        disturbances: Default::default(),
        series: Vec::new(),
        steps: None,
        experiment_times_ms: Vec::new(),
        probes: Vec::new(),
        targets: Vec::new(),
        authdns: Vec::new(),
        merged: None,
        conditions: Conditions::default(),
        warnings: Vec::new(),
    }
}
