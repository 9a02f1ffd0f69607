//! The Measurer of this process as a bench: what `search` and `selftest` run their trials on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use experiment::{Bench, BenchError, TrialSpec};
use record::Trial;

use crate::options::WorkloadPlan;
use crate::progress::Progress;
use crate::tester::Setup;

/// Trials of this process against one target.
pub(crate) struct OwnBench {
    pub(crate) setup: Setup,
    pub(crate) stop: Arc<AtomicBool>,
}

impl Bench for OwnBench {
    fn trial(&mut self, spec: &TrialSpec) -> Result<Trial, BenchError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(BenchError::Interrupted);
        }
        let mut setup = self.setup.clone();
        setup.pacing = spec.pacing;
        setup.duration = spec.duration;
        setup.timeout = spec.timeout;
        setup.goal = spec.goal.clone();
        if let WorkloadPlan::Namespace(names) | WorkloadPlan::Repeating(names, _) =
            &mut setup.workload
        {
            // The budget counts from zero; the user may have said where the names begin.
            names.first += spec.first_name;
            names.names = spec.names;
        }
        let (live, progress) = Progress::show(format!("trial, {}", spec.pacing.describe()), None);
        let mut outcome =
            setup.run(&live, &self.stop).map_err(|e| BenchError::Failed(format!("{e:#}")))?;
        outcome.trial.probes = progress.finish();
        if self.stop.load(Ordering::Relaxed) {
            Err(BenchError::Interrupted)
        } else {
            Ok(outcome.trial)
        }
    }
}
