//! A trial that an agent on the server's host watches.

use std::time::Duration;

use anyhow::bail;
use lab::CpuList;
use lab::agent::{Agent, Reports};
use lab::probe::Sending;
use measure::{Pacing, Path};
use record::{TrialRequest, TrialResult};

use crate::arguments::dut::DutArgs;
use crate::failure::Failure;

/// Time before an agreed start at which the agent begins to count.
const LEAD_S: f64 = 0.5;

/// An agent that watches a trial; none without a host.
pub(crate) struct AgentWatch(Option<Agent>);

/// Refuses loads without a trial that an agent can watch.
pub(crate) fn check(dut: &DutArgs, pacing: Pacing) -> anyhow::Result<()> {
    dut.check_host()?;
    if dut.is_given() && !dut.watches() {
        bail!("--dut needs --dut-process: the name of the server's processes there");
    }
    if dut.is_given() && !pacing.is_timed() {
        bail!("--dut: a lock-step load is not watched on a remote host");
    }
    Ok(())
}

impl AgentWatch {
    /// Starts the agent, which watches the server on `cpus` from the start of the trial on.
    pub(crate) fn start(
        dut: &DutArgs,
        request: &TrialRequest,
        cpus: Option<&CpuList>,
    ) -> Result<Self, Failure> {
        let Some(remote) = dut.remote(cpus) else { return Ok(AgentWatch(None)) };
        let mut agent = Agent::start(&remote, env!("CARGO_PKG_VERSION")).map_err(Failure::run)?;
        let at = request.start_at.and_then(|at| at.unix(udp::sys::clock_state().tai_offset));
        let until_start = at.map_or(0.0, |at| at.as_secs_f64() - tester::unix_now() - LEAD_S);
        let wait = Duration::from_secs_f64(until_start.max(0.0));
        agent.begin_after(wait, false).map_err(Failure::run)?;
        Ok(AgentWatch(Some(agent)))
    }

    /// Adds the agent's observations to the result of the trial, which has just ended.
    ///
    /// # Errors
    /// If the agent has disconnected (the result is not changed), or if the server has ended.
    pub(crate) fn end(self, result: &mut TrialResult) -> Result<(), Failure> {
        let Some(mut agent) = self.0 else { return Ok(()) };
        let seen = agent.end(&Sending::of(&result.trial)).map_err(Failure::run)?;
        if agent.shares_kernel() {
            let conditions = &mut result.trial.conditions;
            conditions.path.get_or_insert(Path::on_one_host(conditions.gso));
        }
        Reports { dut: Some(&seen), ..Reports::default() }.add_to(result);
        if seen.alive {
            return Ok(());
        }
        Err(Failure::run(anyhow::anyhow!("the server's process ended during the trial")))
    }
}
