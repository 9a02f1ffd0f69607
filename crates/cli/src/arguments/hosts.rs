//! Testers on other hosts, in place of this one.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, anyhow};
use clap::Args;
use lab::Refusal;
use lab::job::{Hosts, Job, JobPlan, Progress, given};
use load::Live;
use measure::Nanos;
use record::{TrialRequest, TrialResult};

use crate::arguments::remote;
use crate::failure::Failure;
use crate::testers::Testers;

/// The starter of a job.
const MPIRUN: &str = "mpirun";
/// The program of a job.
const PROGRAM: &str = "dnsdyno-cluster";

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Several Testers")]
pub(crate) struct HostsArgs {
    /// Run on several Testers, as one, by Open MPI and `dnsdyno-cluster` (docs/hosts.md). Each line of this file is `tester HOST`,
    /// `conductor HOST` [default: this host], or for `run` `dut [USER@]HOST IP,...` or `auth [USER@]HOST IP,...`
    #[arg(long, value_name = "FILE")]
    hosts: Option<PathBuf>,
    /// Continue with N Testers if others are lost [default: all]
    #[arg(long, value_name = "N", requires = "hosts", value_parser = clap::value_parser!(u32).range(1..))]
    least: Option<u32>,
    /// Command that starts the job, with its options, split at spaces [default: mpirun]
    #[arg(long, value_name = "COMMAND", requires = "hosts")]
    mpirun: Option<String>,
    /// Path of dnsdyno-cluster on the hosts [default: beside this program]
    #[arg(long, value_name = "PATH", requires = "hosts", value_parser = remote::program)]
    cluster: Option<String>,
}

/// Testers of a run that are on other hosts.
#[derive(Clone, Debug)]
pub(crate) struct RunTesters {
    /// Hosts that the file names; none without a file.
    pub(crate) hosts: Hosts,
    /// Number of Testers that the file names.
    pub(crate) count: usize,
    /// Job of Open MPI to start; absent if it has started this process.
    pub(crate) job: Option<JobPlan>,
}

impl HostsArgs {
    /// Returns whether the file of hosts is given.
    pub(crate) fn is_given(&self) -> bool {
        self.hosts.is_some()
    }

    /// Starts the job of the Testers, if there are any; a command that is `conducted` already has its own.
    pub(crate) fn start(&self, conducted: bool) -> Result<Option<Job>, Failure> {
        if conducted && self.is_given() {
            return Err(Failure::input(anyhow!("--hosts: this job already has Testers")));
        }
        let Some(plan) = self.plan()? else { return Ok(None) };
        if plan.hosts.dut.is_some() {
            let why = "--hosts: the roles `dut` and `auth` are for `run`, which starts servers";
            return Err(Failure::input(anyhow!(why)));
        }
        Job::start(&plan, env!("CARGO_PKG_VERSION")).map(Some).map_err(Failure::run)
    }

    /// Returns the Testers of a run if they are on other hosts: the ones of the job that has
    /// started this process, or of a job to start.
    pub(crate) fn of_run(&self) -> Result<Option<RunTesters>, Failure> {
        let Some(count) = given::testers().map_err(Failure::run)? else {
            let plan = self.plan()?;
            return Ok(plan.map(|plan| RunTesters {
                hosts: plan.hosts.clone(),
                count: plan.hosts.testers.len(),
                job: Some(plan),
            }));
        };
        if count == 0 {
            let why = "the job has no Tester: start it with two ranks or more (`mpirun -np 2`)";
            return Err(Failure::input(anyhow!(why)));
        }
        if self.least.is_some() || self.mpirun.is_some() || self.cluster.is_some() {
            let why = "--mpirun, --cluster and --least are for a job that `dnsdyno` starts; this \
                job is already running: leave them out, or write `dnsdyno-cluster --least N run ...`";
            return Err(Failure::input(anyhow!(why)));
        }
        let hosts = self.read(Some(count))?.unwrap_or_default();
        Ok(Some(RunTesters { hosts, count, job: None }))
    }

    /// Returns the job of the Testers, which is not started yet, if there are any.
    fn plan(&self) -> Result<Option<JobPlan>, Failure> {
        let Some(hosts) = self.read(None)? else { return Ok(None) };
        let beside = || {
            let own = std::env::current_exe().ok()?;
            Some(own.with_file_name(PROGRAM)).filter(|path| path.exists())
        };
        let program = self.cluster.clone().map(PathBuf::from).or_else(beside);
        let starter = self.mpirun.as_deref().unwrap_or(MPIRUN);
        let plan = JobPlan {
            hosts,
            starter: starter.split_whitespace().map(str::to_owned).collect(),
            program: program.unwrap_or_else(|| PROGRAM.into()),
            least: self.least.map(|least| least as usize),
        };
        if plan.starter.is_empty() {
            return Err(Failure::input(anyhow!("--mpirun: it is empty")));
        }
        Ok(Some(plan))
    }

    /// Reads the file of hosts, if one is given; `running` is the number of Testers of a job that runs already.
    fn read(&self, running: Option<usize>) -> Result<Option<Hosts>, Failure> {
        let Some(file) = &self.hosts else { return Ok(None) };
        let name = file.display();
        let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {name}"));
        let hosts = text.map_err(Failure::BadInput)?.parse::<Hosts>();
        let checked = hosts.and_then(|hosts| hosts.check_testers(running).map(|()| hosts));
        checked.map(Some).map_err(|why| Failure::input(anyhow!("{name}: {why}")))
    }
}

impl Testers for Job {
    fn trial(
        &mut self,
        request: &TrialRequest,
        live: &Live,
        stop: &AtomicBool,
    ) -> Result<TrialResult, Refusal> {
        let shown = [&live.sent, &live.answered, &live.valid, &live.lost, &live.bad];
        let mut show = |progress: Progress| {
            let Progress::Counters(counters, _) = progress else { return };
            shown
                .into_iter()
                .zip(counters)
                .for_each(|(shown, now)| shown.store(now, Ordering::Relaxed));
        };
        Ok(Job::trial(self, request, &mut show, stop)?)
    }

    fn pause(&mut self, time: Nanos) {
        std::thread::sleep(time.into());
    }
}
