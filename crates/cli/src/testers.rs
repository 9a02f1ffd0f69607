//! Several Testers in place of this process, for the commands that support them.

use std::sync::atomic::AtomicBool;

use lab::Refusal;
use load::Live;
use measure::Nanos;
use record::{TrialRequest, TrialResult};

use crate::failure::Failure;

/// Several Testers that run each trial together, as one.
pub trait Testers {
    /// Runs a trial: `request` is the whole load, of which each Tester sends its slice. `live` gets
    /// the sums of their counters, `stop` ends the trial early. The verdict is open.
    ///
    /// # Errors
    /// If no part of it was sent. A trial of which a part is missing is void.
    fn trial(
        &mut self,
        request: &TrialRequest,
        live: &Live,
        stop: &AtomicBool,
    ) -> Result<TrialResult, Refusal>;

    /// Waits between two trials, and keeps the Testers' connections alive meanwhile.
    fn pause(&mut self, time: Nanos);
}

/// Returns the Testers that conduct this command, or those of the job that it has started.
pub(crate) fn of_job<'t, 'a: 't, T: Testers>(
    testers: Option<&'t mut (dyn Testers + 'a)>,
    job: &'t mut Option<T>,
) -> Option<&'t mut (dyn Testers + 't)> {
    match (testers, job) {
        (Some(testers), _) => Some(testers),
        (None, Some(job)) => Some(job),
        (None, None) => None,
    }
}

impl From<Refusal> for Failure {
    fn from(error: Refusal) -> Self {
        match error {
            Refusal::Cannot(_) => Failure::input(error),
            Refusal::Failed(_) => Failure::run(error),
        }
    }
}
