//! The agents of a run: their lines are opened by the process outside of the lab, and used by the one inside.

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use super::client::Agent;
use super::error::AgentError;
use super::line::{Line, Passed};
use super::shell::Remote;
use crate::testbed::enter::{LINES, handed};

/// The ways to the remote hosts of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remotes {
    /// Host of the server under test.
    pub dut: Option<Remote>,
    /// Hosts of the AuthDNS, one for each.
    pub auth: Vec<Remote>,
}

/// Lines to the agents of a run.
#[derive(Debug, Default)]
pub struct Lines {
    dut: Option<Line>,
    auth: Vec<Line>,
}

/// An agent that the parts of a run share.
#[derive(Clone, Debug)]
pub struct SharedAgent(Arc<Mutex<Agent>>);

/// The agents of a run.
#[derive(Clone, Debug, Default)]
pub struct Agents {
    /// On the host of the server under test.
    pub dut: Option<SharedAgent>,
    /// On the hosts of the AuthDNS, one for each.
    pub auth: Vec<SharedAgent>,
}

#[derive(Default, Serialize, Deserialize)]
struct AllPassed {
    dut: Option<Passed>,
    auth: Vec<Passed>,
}

impl Lines {
    /// Starts an agent on each of the hosts. It makes no thread, so that this process can still enter a lab.
    ///
    /// # Errors
    /// If one cannot be started.
    pub fn open(remotes: &Remotes, version: &str) -> Result<Self, AgentError> {
        let open = |remote: &Remote| Line::open(remote, version);
        let dut = remotes.dut.as_ref().map(open).transpose()?;
        Ok(Lines { dut, auth: remotes.auth.iter().map(open).collect::<Result<_, _>>()? })
    }

    /// Returns the variables with which the process in the lab, started next, finds the lines.
    ///
    /// # Errors
    /// If the pipes cannot be inherited.
    pub fn variables(&self) -> io::Result<Vec<(&'static str, String)>> {
        if self.dut.is_none() && self.auth.is_empty() {
            return Ok(Vec::new());
        }
        let dut = self.dut.as_ref().map(Line::pass).transpose()?;
        let all =
            AllPassed { dut, auth: self.auth.iter().map(Line::pass).collect::<Result<_, _>>()? };
        Ok(vec![(LINES, serde_json::to_string(&all)?)])
    }
}

impl Agents {
    /// Returns the agents whose lines this process has inherited. Waits for them end when `interrupted` is set.
    ///
    /// # Errors
    /// If a line is not there.
    pub fn inherited(interrupted: &Arc<AtomicBool>) -> Result<Self, AgentError> {
        let Some(text) = handed(LINES) else { return Ok(Self::default()) };
        let gone = |_| AgentError::Gone { host: "the agent's host".to_owned() };
        let all: AllPassed = serde_json::from_str(&text).map_err(gone)?;
        let agent = |passed: &Passed| {
            let mut agent = Agent::inherited(passed)?;
            agent.heed(interrupted);
            Ok::<_, AgentError>(SharedAgent(Arc::new(Mutex::new(agent))))
        };
        let dut = all.dut.as_ref().map(agent).transpose()?;
        Ok(Agents { dut, auth: all.auth.iter().map(agent).collect::<Result<_, _>>()? })
    }
}

impl SharedAgent {
    /// Returns the agent; nobody else uses it meanwhile.
    pub fn lock(&self) -> MutexGuard<'_, Agent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
