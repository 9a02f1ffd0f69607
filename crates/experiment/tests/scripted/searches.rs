//! The search that tests of several rules begin with, and a bench on which each rate has its outcome.

use experiment::{Bench, BenchError, Rule, Search, TrialSpec};
use measure::{Goal, Limiter, Nanos, OpenPacing, Pacing, Qps, Void, Warning};
use record::{Cpu, Trial};

use crate::scripted;

/// Returns a rate of so many queries a second.
pub(crate) fn qps(rate: f64) -> Qps {
    Qps::new(rate).expect("a rate")
}

/// Returns a search by the rule of RFC 8219, to a width of 5 %.
pub(crate) fn search() -> Search {
    Search {
        rule: Rule::Rfc8219,
        goal: Goal::zero_loss(),
        start: qps(10_000.0),
        expected: None,
        min: qps(1_000.0),
        max: qps(1_000_000.0),
        resolution: 0.05,
        duration: Nanos::from_secs(1),
        timeout: Nanos::from_secs(1),
        client_names: None,
        pacing: OpenPacing::Constant,
    }
}

/// Outcome of a rate on the scripted bench.
#[derive(Clone, Copy)]
pub(crate) enum Fate {
    /// All queries are answered in time.
    Pass,
    /// Half of them are lost.
    Fail(Limiter),
    /// A failure in spite of late queries: it would have failed with all in time.
    LateFail(Limiter),
    /// The Tester was starved, which makes the trial void.
    Void,
    /// Whether a number of clients passes, and the share of its CPU that the server uses.
    Used(bool, f64),
}

/// Returns the rate of a constant load.
pub(crate) fn rate(spec: &TrialSpec) -> f64 {
    match spec.pacing {
        Pacing::Constant { rate } => rate.get(),
        other => panic!("{other:?}"),
    }
}

/// A bench that makes a trial of the outcome of each rate, and notes the names that it may use.
pub(crate) struct Scripted<F> {
    pub(crate) fate: F,
    pub(crate) ranges: Vec<(u64, u64)>,
}

impl<F: FnMut(f64) -> Fate> Bench for Scripted<F> {
    fn trial(&mut self, spec: &TrialSpec) -> Result<Trial, BenchError> {
        self.ranges.push((spec.first_name, spec.first_name + spec.names));
        let fate = (self.fate)(rate(spec));
        let (passed, limiter, void) = match fate {
            Fate::Pass => (true, Limiter::Offered, None),
            Fate::Fail(limiter) | Fate::LateFail(limiter) => (false, limiter, None),
            Fate::Used(passed, _) => (passed, Limiter::Dut, None),
            Fate::Void => {
                let starved = Void::Starved { run_delay: 0.5, foreign: 0.0 };
                (true, starved.limiter(), Some(starved))
            }
        };
        let mut trial = scripted::trial(spec, rate(spec), passed, limiter, void);
        if !passed {
            // Half of the queries of a failing trial are lost.
            trial.valid /= 2;
        }
        if matches!(fate, Fate::LateFail(_)) {
            trial.warnings.push(Warning::LateQueries { share: 0.3 });
        }
        if let Fate::Used(_, share) = fate {
            let spent_s = Some(share * trial.duration_s);
            let cpu = Cpu { spent_s, cpus: vec![1], ..Cpu::default() };
            trial.cpu.insert("dut".to_owned(), cpu);
        }
        Ok(trial)
    }
}

/// Returns the outcomes of a server with a capacity.
pub(crate) fn below(capacity: f64) -> impl FnMut(f64) -> Fate {
    move |rate| if rate <= capacity { Fate::Pass } else { Fate::Fail(Limiter::Dut) }
}
