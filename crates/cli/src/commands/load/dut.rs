//! A trial that an agent on the server's host watches.

use std::time::Duration;

use anyhow::bail;
use lab::CpuList;
use lab::agent::{Agent, Conditions, judge};
use measure::Pacing;
use record::{Trial, TrialRequest};

use crate::arguments::dut::DutArgs;
use crate::failure::Failure;

/// Time that a trial takes beside its sending and its last timeout.
const RESERVE: Duration = Duration::from_secs(60);

/// An agent that watches a trial; none without a host.
pub(crate) struct Watching {
    agent: Option<Agent>,
    conditions: Conditions,
}

/// Refuses what has no trial to watch.
pub(crate) fn check(dut: &DutArgs, pacing: Pacing) -> anyhow::Result<()> {
    if dut.is_given() && !pacing.is_timed() {
        bail!("--dut: a lock-step load is not watched elsewhere");
    }
    Ok(())
}

impl Watching {
    /// Starts the agent, which watches the server on `cpus` from now on.
    pub(crate) fn start(
        dut: &DutArgs,
        request: &TrialRequest,
        cpus: Option<&CpuList>,
    ) -> Result<Self, Failure> {
        let conditions = Conditions::of(request);
        let Some(remote) = dut.remote(cpus) else {
            return Ok(Watching { agent: None, conditions });
        };
        let mut agent = Agent::start(&remote, env!("CARGO_PKG_VERSION")).map_err(Failure::run)?;
        // TAI is ahead of UTC by seconds, which only make the agent more patient.
        let at = request.start_at.and_then(|at| at.unix(Some(0)));
        let until_start = at.map_or(0.0, |at| (at.as_secs_f64() - tester::unix_now()).max(0.0));
        let trial = Duration::from(request.duration) + Duration::from(request.timeout) + RESERVE;
        agent.begin(trial + Duration::from_secs_f64(until_start)).map_err(Failure::run)?;
        Ok(Watching { agent: Some(agent), conditions })
    }

    /// Adds what the agent saw to the trial, which has just ended.
    ///
    /// # Errors
    /// If the agent is gone: the trial stays as it is. If the server has ended.
    pub(crate) fn end(self, trial: &mut Trial) -> Result<(), Failure> {
        let Some(mut agent) = self.agent else { return Ok(()) };
        let seen = agent.end(trial.duration_s).map_err(Failure::run)?;
        judge(trial, &seen, &self.conditions);
        if seen.alive {
            return Ok(());
        }
        Err(Failure::run(anyhow::anyhow!("the server's process ended during the trial")))
    }
}
