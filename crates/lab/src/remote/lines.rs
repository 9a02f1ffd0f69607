//! The processes of a run on other hosts: the process outside of the lab starts them, with the user's own rights, keys and known
//! hosts; the one inside inherits the pipes and uses them.

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use super::agent::{Agent, AgentLine, InheritedLine, Remote};
use super::error::{Peer, RemoteError};
use super::handover::Pipes;
use super::job::{Job, JobLine, JobPlan};
use crate::testbed::enter::{LINES, handed};

/// The ways to the remote hosts of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remotes {
    /// Host of the server under test.
    pub dut: Option<Remote>,
    /// Hosts of the AuthDNS, one for each.
    pub auth: Vec<Remote>,
}

/// Lines to the agents of a run, and to its job of Testers; agents and job end when this is
/// dropped.
#[derive(Debug, Default)]
pub struct Lines {
    dut: Option<AgentLine>,
    auth: Vec<AgentLine>,
    job: Option<JobLine>,
}

/// A process shared by the parts of a run: an agent, or a job.
#[derive(Debug)]
pub struct Shared<T>(Arc<Mutex<T>>);

/// An agent that the parts of a run share.
pub type SharedAgent = Shared<Agent>;
/// An agent that has started a part, which it stops when this is dropped. If stopping fails, the
/// part ends with the agent.
#[derive(Debug)]
pub(crate) struct StartedPart(pub(crate) SharedAgent);

impl Drop for StartedPart {
    fn drop(&mut self) {
        let _ = self.0.lock().stop();
    }
}

/// A job that the parts of a run share.
pub type SharedJob = Shared<Job>;

/// The agents and the job of a run.
#[derive(Clone, Debug, Default)]
pub struct Agents {
    /// On the host of the server under test.
    pub dut: Option<SharedAgent>,
    /// On the hosts of the AuthDNS, one for each.
    pub auth: Vec<SharedAgent>,
}

#[derive(Default, Serialize, Deserialize)]
struct InheritedLines {
    dut: Option<InheritedLine>,
    auth: Vec<InheritedLine>,
    job: Option<Pipes>,
}

impl Lines {
    /// Starts an agent on each of the hosts, and a job if one is planned and none has started this process. It makes no thread, so
    /// that this process can still enter a lab.
    ///
    /// # Errors
    /// If one cannot be started.
    pub fn open(
        remotes: &Remotes,
        planned: Option<&JobPlan>,
        version: &str,
    ) -> Result<Self, RemoteError> {
        // No other program may inherit the pipes of a job that has started this process.
        let given = JobLine::given()?;
        let open = |remote: &Remote| AgentLine::open(remote, version);
        let dut = remotes.dut.as_ref().map(open).transpose()?;
        let auth = remotes.auth.iter().map(open).collect::<Result<_, _>>()?;
        let job = planned.map(JobLine::open).transpose()?;
        Ok(Lines { dut, auth, job: given.or(job) })
    }

    /// Returns the value for the process in the lab, started next, by which it finds the lines.
    ///
    /// # Errors
    /// If the pipes cannot be inherited.
    pub fn to_hand(&self) -> io::Result<(&'static str, String)> {
        let all = InheritedLines {
            dut: self.dut.as_ref().map(AgentLine::pass).transpose()?,
            auth: self.auth.iter().map(AgentLine::pass).collect::<Result<_, _>>()?,
            job: self.job.as_ref().map(JobLine::pass).transpose()?,
        };
        Ok((LINES, serde_json::to_string(&all)?))
    }
}

/// Returns the agents and the job, of the version `version`, whose lines this process has inherited. Waits for them end when
/// `interrupted` is set.
///
/// # Errors
/// If a line is not there, or the job could not be started.
pub fn inherited(
    version: &str,
    interrupted: &Arc<AtomicBool>,
) -> Result<(Agents, Option<SharedJob>), RemoteError> {
    let Some(text) = handed(LINES) else { return Ok(Default::default()) };
    let gone = |_| RemoteError::Gone(Peer::Agent("the agent's host".to_owned()));
    let InheritedLines { dut, auth, job } = serde_json::from_str(&text).map_err(gone)?;
    let agent = |passed| Agent::inherited(passed, interrupted).map(Shared::new);
    let dut = dut.map(agent).transpose()?;
    let auth = auth.into_iter().map(agent).collect::<Result<_, _>>()?;
    let job = job.map(|pipes| Job::inherited(pipes, version, interrupted)).transpose()?;
    Ok((Agents { dut, auth }, job.map(Shared::new)))
}

impl<T> Shared<T> {
    fn new(all: T) -> Self {
        Shared(Arc::new(Mutex::new(all)))
    }

    /// Locks and returns the process.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Shared(self.0.clone())
    }
}
