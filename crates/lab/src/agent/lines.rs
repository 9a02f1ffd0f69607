//! The agents of a run: their lines are opened by the process outside of the lab, and used by the one inside.

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use super::client::Agent;
use super::error::AgentError;
use super::line::{Line, Passed};
use super::shell::Remote;
use crate::enter::LINES;

/// The hosts of a run that are elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remotes {
    /// Host of the server under test.
    pub dut: Option<Remote>,
    /// Host of the AuthDNS.
    pub auth: Option<Remote>,
}

/// Lines to the agents of a run.
#[derive(Debug, Default)]
pub struct Lines {
    dut: Option<Line>,
    auth: Option<Line>,
}

/// An agent that the parts of a run share.
#[derive(Clone, Debug)]
pub struct SharedAgent(Arc<Mutex<Agent>>);

/// The agents of a run.
#[derive(Clone, Debug, Default)]
pub struct Agents {
    /// On the host of the server under test.
    pub dut: Option<SharedAgent>,
    /// On the host of the AuthDNS.
    pub auth: Option<SharedAgent>,
}

#[derive(Default, Serialize, Deserialize)]
struct AllPassed {
    dut: Option<Passed>,
    auth: Option<Passed>,
}

impl Lines {
    /// Starts an agent on each of the hosts. It makes no thread, so that this process can still enter a lab.
    ///
    /// # Errors
    /// If one cannot be started.
    pub fn open(remotes: &Remotes, version: &str) -> Result<Self, AgentError> {
        let open = |remote: &Option<Remote>| {
            remote.as_ref().map(|remote| Line::open(remote, version)).transpose()
        };
        Ok(Lines { dut: open(&remotes.dut)?, auth: open(&remotes.auth)? })
    }

    /// Returns the variables with which the process in the lab, started next, finds the lines.
    ///
    /// # Errors
    /// If the pipes cannot be inherited.
    pub fn variables(&self) -> io::Result<Vec<(&'static str, String)>> {
        if self.dut.is_none() && self.auth.is_none() {
            return Ok(Vec::new());
        }
        let pass = |line: &Option<Line>| line.as_ref().map(Line::pass).transpose();
        let all = AllPassed { dut: pass(&self.dut)?, auth: pass(&self.auth)? };
        Ok(vec![(LINES, serde_json::to_string(&all)?)])
    }
}

impl Agents {
    /// Returns the agents whose lines this process has inherited. Waits for them end when `interrupted` is set.
    ///
    /// # Errors
    /// If a line is not there.
    pub fn inherited(interrupted: &Arc<AtomicBool>) -> Result<Self, AgentError> {
        let Ok(text) = std::env::var(LINES) else { return Ok(Self::default()) };
        let gone = |_| AgentError::Gone { host: "the agent's host".to_owned() };
        let all: AllPassed = serde_json::from_str(&text).map_err(gone)?;
        let agent = |passed: Option<Passed>| {
            let agent = passed.as_ref().map(Agent::inherited).transpose()?;
            Ok::<_, AgentError>(agent.map(|mut agent| {
                agent.heed(interrupted);
                SharedAgent(Arc::new(Mutex::new(agent)))
            }))
        };
        Ok(Agents { dut: agent(all.dut)?, auth: agent(all.auth)? })
    }
}

impl SharedAgent {
    /// Returns the agent; nobody else uses it meanwhile.
    pub fn lock(&self) -> MutexGuard<'_, Agent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
