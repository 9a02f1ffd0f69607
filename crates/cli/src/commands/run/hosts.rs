//! What the process outside of the lab starts for the one inside: agents on other hosts, and a job of Testers. It has the user's
//! own rights, keys and known hosts; the process inside inherits the pipes.

use std::io;

use lab::agent::{Agents, Lines};
use lab::job::{Job, JobError, JobLine, SharedJob};
use lab::{Lab, RemoteHosts, RunOptions, Testers};

use crate::arguments::hosts::RunTesters;
use crate::failure::Failure;

/// What was started for the process inside; it ends when this is dropped.
#[derive(Default)]
pub(super) struct Started {
    lines: Lines,
    job: Option<JobLine>,
}

impl Started {
    /// Starts all that a run needs, if this is the process outside. It makes no thread.
    pub(super) fn new(options: &RunOptions, testers: Option<&RunTesters>) -> Result<Self, Failure> {
        if lab::is_inside() {
            return Ok(Self::default());
        }
        // No other program may inherit the pipes of a job that has started this process.
        let given = JobLine::given().map_err(Failure::run)?;
        let remotes = &options.remote_hosts.remotes;
        let lines = Lines::open(remotes, &options.version).map_err(Failure::run)?;
        let planned = testers.and_then(|testers| testers.job.as_ref());
        let job = planned.map(JobLine::open).transpose().map_err(Failure::run)?;
        Ok(Started { lines, job: given.or(job) })
    }

    /// Returns what is handed to the process inside, started next, so that it finds all of it.
    pub(super) fn to_hand(&self) -> io::Result<Vec<(&'static str, String)>> {
        let mut variables = self.lines.variables()?;
        variables.extend(self.job.as_ref().map(JobLine::variable).transpose()?);
        Ok(variables)
    }
}

/// Returns the hosts of a run with what this process has inherited.
pub(super) fn inherited(lab: &Lab, options: &RunOptions) -> Result<RemoteHosts, Failure> {
    let (version, interrupted) = (&options.version, lab.interrupted());
    let agents = Agents::inherited(interrupted).map_err(Failure::run)?;
    let job = Job::inherited(version, interrupted).map_err(Failure::run)?.map(SharedJob::new);
    let planned = options.remote_hosts.testers.as_ref();
    if planned.is_some() && job.is_none() {
        return Err(Failure::run(JobError::Gone));
    }
    let testers = planned.map(|planned| Testers { job, ..planned.clone() });
    Ok(RemoteHosts { agents, testers, ..options.remote_hosts.clone() })
}
