//! The host of a remote server: an agent on that host measures CPU, drops and stalls.

use anyhow::bail;
use clap::Args;
use lab::CpuList;
use lab::agent::{AgentTask, Remote};

use crate::arguments::remote;

/// The remote shell and its options: without prompts, and with an end within 15 s after the link
/// breaks.
const SSH: &str =
    "ssh -o BatchMode=yes -o ConnectTimeout=15 -o ServerAliveInterval=5 -o ServerAliveCountMax=3";

/// The host of the server.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "The server's host")]
pub(crate) struct DutArgs {
    /// The host of a remote server, reached by ssh: a copy of this program probes the server's CPU, drops and stalls there, so that
    /// the limiter can be named; `run` without --dut-process also configures and starts its servers there
    #[arg(long, value_name = "[USER@]HOST", value_parser = remote::host)]
    dut: Option<String>,
    /// Name of the server's processes there, as `ps -eo comm` shows it
    #[arg(long, value_name = "NAME", value_parser = remote::process, requires = "dut")]
    dut_process: Option<String>,
    /// A dnsdyno of the same version there [default: a copy of this one]
    #[arg(long, value_name = "PATH", value_parser = remote::program)]
    dut_program: Option<String>,
    /// Command of the remote shell, split at spaces [default: ssh, without asking for passwords]
    #[arg(long, value_name = "COMMAND")]
    ssh: Option<String>,
}

impl DutArgs {
    /// Returns whether the server has a host that is probed.
    pub(crate) fn is_given(&self) -> bool {
        self.dut.is_some()
    }

    /// Refuses options about how to reach a host if no host is given.
    pub(crate) fn check_host(&self) -> anyhow::Result<()> {
        for (name, given) in
            [("--dut-program", self.dut_program.is_some()), ("--ssh", self.ssh.is_some())]
        {
            if given && self.dut.is_none() {
                bail!("{name} needs the host of a server: give --dut");
            }
        }
        Ok(())
    }

    /// Returns the arguments with a host that another option names.
    pub(crate) fn with_host(&self, host: &str) -> Self {
        DutArgs { dut: Some(host.to_owned()), ..self.clone() }
    }

    /// Returns whether a server that runs there already is watched.
    pub(crate) fn watches(&self) -> bool {
        self.dut_process.is_some()
    }

    /// Returns the host, where a watched server has the cores `cpus` (if `None`, the cores on which
    /// it may run).
    pub(crate) fn remote(&self, cpus: Option<&CpuList>) -> Option<Remote> {
        let watch =
            |process: &String| AgentTask::Watch { process: process.clone(), cpus: cpus.cloned() };
        Some(self.to(self.dut.clone()?, self.dut_process.as_ref().map_or(AgentTask::Start, watch)))
    }

    /// Returns the way to a host for a task.
    pub(crate) fn to(&self, host: String, task: AgentTask) -> Remote {
        let shell = self.ssh.as_deref().unwrap_or(SSH);
        let shell = shell.split_whitespace().map(str::to_owned).collect();
        Remote { host, shell, task, program: self.dut_program.clone() }
    }
}
