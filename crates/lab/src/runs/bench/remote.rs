//! The remote parts of a bench: agents watch them during trials, and start the server again.

use std::time::{Duration, Instant};

use experiment::BenchError;
use record::TrialResult;

use super::LabBench;
use crate::probe::Sending;
use crate::remote::agent::Reports;
use crate::remote::error::RemoteError;
use crate::remote::lines::{SharedAgent, SharedJob, StartedPart};
use crate::remote::message::{LaunchedPart, Seen};
use crate::remote::parts::Part;
use crate::testbed::netns::Namespace as Netns;

/// Remote parts of a bench.
#[derive(Debug, Default)]
pub(crate) struct RemoteParts {
    /// Network of the Measurer; absent if that runs in the tester's host of the testbed.
    pub(crate) outside: Option<Netns>,
    /// Agent on the server's host; absent if that is out of reach.
    pub(crate) dut: Option<SharedAgent>,
    /// The agent, if it has started the server.
    pub(crate) started: Option<StartedPart>,
    /// Agents that have started an AuthDNS each.
    pub(crate) auth: Vec<StartedPart>,
    /// The server, if the agent has started it.
    pub(crate) part: Option<Part>,
    /// Time within which the server must start.
    pub(crate) limit: Duration,
    /// The agent's report of the started server.
    pub(crate) launched: LaunchedPart,
    /// Testers that run the trials in place of the Measurer.
    pub(crate) testers: Option<SharedJob>,
    /// Number of Testers in `testers`; 0 without any.
    pub(crate) tester_count: usize,
}

impl RemoteParts {
    /// Returns the agents that watch trials.
    fn agents(&self) -> impl Iterator<Item = &SharedAgent> {
        self.dut.iter().chain(self.auth.iter().map(|StartedPart(agent)| agent))
    }

    /// Returns the resident memory of a server that was started there, in bytes.
    pub(crate) fn memory(&self) -> Option<u64> {
        Some(self.started.as_ref()?.0.lock().collect().ok()?.memory)
    }
}

impl LabBench<'_> {
    /// Announces to the agents that a trial begins after `time`.
    pub(super) fn begin_remote(&self, time: Duration) -> Result<(), BenchError> {
        let at = Instant::now() + time;
        for agent in self.remote.agents() {
            // The replies of the agents before this one took time.
            let left = at.saturating_duration_since(Instant::now());
            agent.lock().begin_after(left, self.counts_programs).map_err(of_agent)?;
        }
        Ok(())
    }

    /// Checks that the agents are still there.
    pub(super) fn check_remote(&self) -> Result<(), BenchError> {
        self.remote.agents().try_for_each(|agent| agent.lock().check()).map_err(of_agent)
    }

    /// Adds the agents' observations of the trial, which has just ended.
    pub(super) fn end_remote(&self, result: &mut TrialResult) -> Result<(), BenchError> {
        let sending = Sending::of(&result.trial);
        let of_auth = |StartedPart(agent): &StartedPart| {
            let seen = seen(agent, &sending, "the AuthDNS")?;
            Ok((agent.lock().host().to_owned(), seen))
        };
        let authdns =
            self.remote.auth.iter().map(of_auth).collect::<Result<Vec<_>, BenchError>>()?;
        let of_dut = |agent: &SharedAgent| seen(agent, &sending, "the server");
        let dut = self.remote.dut.as_ref().map(of_dut).transpose()?;
        if !authdns.is_empty() || dut.is_some() {
            let cpu_limit = self.remote.part.as_ref().and_then(Part::cpu_limit);
            Reports { dut: dut.as_ref(), authdns: &authdns, cpu_limit }.add_to(result);
        }
        Ok(())
    }

    /// Starts a remote server from scratch, if an agent has started it; returns whether it has.
    pub(super) fn restart_remote(&mut self) -> Result<bool, BenchError> {
        let RemoteParts { dut: Some(dut), part: Some(part), limit, .. } = &self.remote else {
            return Ok(false);
        };
        if self.names().is_some_and(|names| !names.reuse) {
            dut.lock().launch(part, *limit).map_err(of_agent)?;
            self.names_forgotten = true;
        }
        Ok(true)
    }
}

/// Returns an agent's observations of `what` during a trial.
fn seen(agent: &SharedAgent, sending: &Sending, what: &str) -> Result<Seen, BenchError> {
    let mut agent = agent.lock();
    let seen = agent.end(sending).map_err(of_agent)?;
    if seen.alive {
        return Ok(seen);
    }
    let host = agent.host().to_owned();
    // A server that the user runs has no log here.
    let log = agent.collect().map(|collected| collected.log).unwrap_or_default();
    let log: String = log.iter().map(|line| format!("\n  | {line}")).collect();
    Err(BenchError::failed(format!("{host}: {what}'s process ended during the trial{log}")))
}

pub(super) fn of_agent(e: RemoteError) -> BenchError {
    match e {
        RemoteError::Interrupted { .. } => BenchError::Interrupted,
        other => BenchError::failed(other),
    }
}
