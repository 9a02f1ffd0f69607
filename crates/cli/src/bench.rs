//! The Measurer of this process as the bench that `search` runs its trials on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use experiment::{Bench, BenchError, TrialSpec};
use measure::Nanos;
use record::Trial;
use tester::Setup;

use crate::commands::search::Varied;
use crate::progress;

/// Trials of this process against one target.
pub(crate) struct OwnBench {
    pub(crate) setup: Setup,
    /// What the number of a trial means.
    pub(crate) varied: Varied,
    pub(crate) stop: Arc<AtomicBool>,
}

impl Bench for OwnBench {
    fn trial(&mut self, spec: &TrialSpec) -> Result<Trial, BenchError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(BenchError::Interrupted);
        }
        let (live, progress) =
            progress::show(format!("trial, {}", spec.pacing.describe()), Some(spec.duration), None);
        // The budget counts names from 0; the arguments may name another first name.
        let result = self.varied.setup(&self.setup, spec)?.run(&live, &self.stop);
        drop(progress);
        let result = result.map_err(|e| BenchError::Failed(e.to_string()))?;
        if self.stop.load(Ordering::Relaxed) {
            Err(BenchError::Interrupted)
        } else {
            Ok(result.trial)
        }
    }

    fn pause(&mut self, time: Nanos) {
        std::thread::sleep(time.into());
    }
}
