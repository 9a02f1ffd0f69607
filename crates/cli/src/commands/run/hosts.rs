//! Processes that the outer process starts for the lab: agents on other hosts, and a job of
//! Testers.

use lab::lines::{self, Lines};
use lab::{Lab, Peer, RemoteError, RemoteHosts, RunOptions, Testers};

use crate::arguments::hosts::RunTesters;
use crate::failure::Failure;

/// Starts all that a run needs on other hosts, if this is the process outside. It makes no thread.
pub(super) fn start(options: &RunOptions, testers: Option<&RunTesters>) -> Result<Lines, Failure> {
    if lab::is_inside() {
        return Ok(Lines::default());
    }
    let planned = testers.and_then(|testers| testers.job.as_ref());
    let remotes = &options.remote_hosts.remotes;
    Lines::open(remotes, planned, &options.version).map_err(Failure::run)
}

/// Returns the hosts of a run with the inherited agents and job.
pub(super) fn inherited(lab: &Lab, options: &RunOptions) -> Result<RemoteHosts, Failure> {
    let all = lines::inherited(&options.version, lab.interrupted());
    let (agents, job) = all.map_err(Failure::run)?;
    let planned = options.remote_hosts.testers.as_ref();
    if planned.is_some() && job.is_none() {
        return Err(Failure::run(RemoteError::Gone(Peer::Job)));
    }
    let testers = planned.map(|planned| Testers { job, ..planned.clone() });
    Ok(RemoteHosts { agents, testers, ..options.remote_hosts.clone() })
}
