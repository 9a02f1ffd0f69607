//! The host of the server: an agent there probes what the network does not show.

use std::time::Duration;

use anyhow::bail;
use clap::Args;
use lab::CpuList;
use lab::agent::{Agent, Conditions, Remote, judge};
use measure::Pacing;
use record::request::WaitFor;
use record::{Trial, TrialRequest};

use crate::arguments::remote;
use crate::failure::Failure;

/// The remote shell and its options: it asks nothing, and notices within 15 s that a link is dead.
const SSH: &str =
    "ssh -o BatchMode=yes -o ConnectTimeout=15 -o ServerAliveInterval=5 -o ServerAliveCountMax=3";
/// Time that a trial takes beside its sending and its last timeout.
const RESERVE: Duration = Duration::from_secs(60);

/// The host of the server.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "The server's host")]
pub(crate) struct DutArgs {
    /// The server's host, reached by ssh: this program is brought there for the trial and probes the server's CPU, the drops and
    /// the stalls of its cores, so that the limiter can be named. --dut-cpus are cores of that host then
    #[arg(long, value_name = "[USER@]HOST", value_parser = remote::host, requires = "dut_process")]
    dut: Option<String>,
    /// Name of the server's processes there, as `ps -eo comm` shows it
    #[arg(long, value_name = "NAME", value_parser = remote::process, requires = "dut")]
    dut_process: Option<String>,
    /// A dnsdyno of the same version there, in place of bringing this one
    #[arg(long, value_name = "PATH", value_parser = remote::program, requires = "dut")]
    dut_program: Option<String>,
    /// The remote shell, its words split at spaces [default: ssh, without asking for passwords]
    #[arg(long, value_name = "COMMAND", requires = "dut")]
    ssh: Option<String>,
}

/// An agent that watches a trial; none without a host.
pub(crate) struct Watching {
    agent: Option<Agent>,
    conditions: Conditions,
}

impl DutArgs {
    /// Returns whether the server has a host that is probed.
    pub(crate) fn is_given(&self) -> bool {
        self.dut.is_some()
    }

    /// Refuses what has no trial to watch.
    pub(crate) fn check(&self, pacing: Pacing) -> anyhow::Result<()> {
        if self.is_given() && !pacing.is_timed() {
            bail!("--dut: a lock-step load is not watched elsewhere");
        }
        Ok(())
    }

    /// Starts the agent, which watches the server on `cpus` from now on.
    pub(crate) fn watch(
        &self,
        request: &TrialRequest,
        cpus: Option<&CpuList>,
    ) -> Result<Watching, Failure> {
        let conditions = Conditions {
            open_loop: request.pacing.is_open_loop(),
            spins: request.sockets.wait == WaitFor::Spin,
            shared_core: request.sockets.shared_core,
            goal: request.goal.clone(),
        };
        let (Some(host), Some(process)) = (&self.dut, &self.dut_process) else {
            return Ok(Watching { agent: None, conditions });
        };
        let shell = self.ssh.as_deref().unwrap_or(SSH);
        let remote = Remote {
            host: host.clone(),
            shell: shell.split_whitespace().map(str::to_owned).collect(),
            process: process.clone(),
            cpus: cpus.cloned(),
            program: self.dut_program.clone(),
        };
        let mut agent = Agent::start(&remote, env!("CARGO_PKG_VERSION")).map_err(Failure::run)?;
        let until_start =
            request.start_at.and_then(|at| at.unix(None)).map_or(Duration::ZERO, |at| {
                Duration::from_secs_f64((at.as_secs_f64() - tester::unix_now()).max(0.0))
            });
        let trial = Duration::from(request.duration) + Duration::from(request.timeout) + RESERVE;
        agent.begin(trial + until_start).map_err(Failure::run)?;
        Ok(Watching { agent: Some(agent), conditions })
    }
}

impl Watching {
    /// Adds what the agent saw to the trial, which has just ended.
    ///
    /// # Errors
    /// If the agent is gone: the trial stays as it is.
    pub(crate) fn end(self, trial: &mut Trial) -> Result<(), Failure> {
        let Some(mut agent) = self.agent else { return Ok(()) };
        let seen =
            agent.end(trial.duration_s, || engine::clock::monotonic().0).map_err(Failure::run)?;
        judge(trial, &seen, &self.conditions);
        if seen.alive {
            return Ok(());
        }
        Err(Failure::run(anyhow::anyhow!("the server's process ended during the trial")))
    }
}
