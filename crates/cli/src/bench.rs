//! The Measurer of this process, or the Testers that it conducts, as the bench that a method runs its trials on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use experiment::{Bench, BenchError, TrialSpec};
use load::Live;
use measure::Nanos;
use record::{Seen, Trial, TrialResult};
use tester::Setup;

use crate::commands::search::Varied;
use crate::progress;
use crate::testers::Testers;

/// Trials of this process against one target.
pub(crate) struct OwnBench {
    pub(crate) setup: Setup,
    /// What the number of a trial means.
    pub(crate) varied: Varied,
    pub(crate) stop: Arc<AtomicBool>,
}

/// Trials against one target of the Testers that this process conducts; its own without any.
pub(crate) struct TestersBench<'t> {
    pub(crate) own: &'t mut OwnBench,
    pub(crate) testers: Option<&'t mut (dyn Testers + 't)>,
}

impl OwnBench {
    /// Makes the setup of a trial, has `run` run it, and makes its verdict.
    fn trial_by(
        &self,
        spec: &TrialSpec,
        run: impl FnOnce(&Setup, &Arc<Live>) -> Result<TrialResult, String>,
    ) -> Result<Trial, BenchError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(BenchError::Interrupted);
        }
        let (live, progress) =
            progress::show(format!("trial, {}", spec.pacing.describe()), Some(spec.duration), None);
        // The budget counts names from 0; the arguments may name another first name.
        let setup = self.varied.setup(&self.setup, spec)?;
        let result = run(&setup, &live);
        drop(progress);
        let trial = result.map_err(BenchError::Failed)?.with_verdict();
        if self.stop.load(Ordering::Relaxed) { Err(BenchError::Interrupted) } else { Ok(trial) }
    }
}

impl Bench for OwnBench {
    fn trial(&mut self, spec: &TrialSpec) -> Result<Trial, BenchError> {
        self.trial_by(spec, |setup, live| setup.run(live, &self.stop).map_err(|e| e.to_string()))
    }

    fn hidden_cpu(&self) -> Option<Seen> {
        self.setup.request().sockets.shared_core.then_some(Seen::SharedCore)
    }

    fn pause(&mut self, time: Nanos) {
        std::thread::sleep(time.into());
    }
}

impl Bench for TestersBench<'_> {
    fn trial(&mut self, spec: &TrialSpec) -> Result<Trial, BenchError> {
        let Some(testers) = &mut self.testers else { return self.own.trial(spec) };
        self.own.trial_by(spec, |setup, live| {
            testers.trial(setup.request(), live, &self.own.stop).map_err(|e| e.to_string())
        })
    }

    fn hidden_cpu(&self) -> Option<Seen> {
        self.own.hidden_cpu()
    }

    fn pause(&mut self, time: Nanos) {
        match &mut self.testers {
            Some(testers) => testers.pause(time),
            None => self.own.pause(time),
        }
    }
}
