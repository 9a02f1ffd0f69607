//! The parts of a bench on other hosts: agents watch them during trials, and start the server again.

use std::time::{Duration, Instant};

use experiment::BenchError;
use record::{Trial, TrialRequest};

use super::LabBench;
use super::away::Away;
use crate::remote::agent::{AgentError, Conditions, Part, Reports, Seen, SharedAgent, judge};

impl LabBench<'_> {
    /// Tells the agents that a trial begins after `time`.
    pub(super) fn begin_away(&self, time: Duration) -> Result<(), BenchError> {
        let at = Instant::now() + time;
        for agent in self.away.dut.iter().chain(&self.away.auth) {
            // What one of them takes to reply is none of the other's time.
            let left = at.saturating_duration_since(Instant::now());
            agent.lock().begin_in(left).map_err(of_agent)?;
        }
        Ok(())
    }

    /// Checks that the agents are still there.
    pub(super) fn check_away(&self) -> Result<(), BenchError> {
        let mut agents = self.away.dut.iter().chain(&self.away.auth);
        agents.try_for_each(|agent| agent.lock().check()).map_err(of_agent)
    }

    /// Adds what the agents saw during the trial, which has just ended.
    pub(super) fn end_away(
        &self,
        trial: &mut Trial,
        request: &TrialRequest,
    ) -> Result<(), BenchError> {
        let of_auth = |agent: &SharedAgent| {
            let seen = seen(agent, trial.duration_s, "the AuthDNS")?;
            Ok((agent.lock().host().to_owned(), seen))
        };
        let authdns = self.away.auth.iter().map(of_auth).collect::<Result<Vec<_>, BenchError>>()?;
        let of_dut = |agent: &SharedAgent| seen(agent, trial.duration_s, "the server");
        let dut = self.away.dut.as_ref().map(of_dut).transpose()?;
        if !authdns.is_empty() || dut.is_some() {
            let cpu_limit = self.away.part.as_ref().and_then(Part::cpu_limit);
            let reports = Reports { dut: dut.as_ref(), authdns: &authdns };
            judge(trial, &reports, &Conditions { cpu_limit, ..Conditions::of(request) });
        }
        Ok(())
    }

    /// Starts a server elsewhere from scratch, if an agent has started it; returns whether it has.
    pub(super) fn restart_away(&mut self) -> Result<bool, BenchError> {
        let Away { dut: Some(dut), part: Some(part), limit, .. } = &self.away else {
            return Ok(false);
        };
        if self.names().is_some_and(|names| !names.reuse) {
            dut.lock().launch(part, *limit).map_err(of_agent)?;
            self.names_forgotten = true;
        }
        Ok(true)
    }
}

/// Returns what an agent saw of `what` during a trial that sent for `sending_s` seconds.
fn seen(agent: &SharedAgent, sending_s: f64, what: &str) -> Result<Seen, BenchError> {
    let mut agent = agent.lock();
    let seen = agent.end(sending_s).map_err(of_agent)?;
    if seen.alive {
        return Ok(seen);
    }
    let host = agent.host().to_owned();
    // Of a server that the user runs there is no log.
    let log = agent.collect().map(|collected| collected.log).unwrap_or_default();
    let log: String = log.iter().map(|line| format!("\n  | {line}")).collect();
    Err(BenchError::failed(format!("{host}: {what}'s process ended during the trial{log}")))
}

pub(super) fn of_agent(e: AgentError) -> BenchError {
    match e {
        AgentError::Interrupted { .. } => BenchError::Interrupted,
        other => BenchError::failed(other),
    }
}
