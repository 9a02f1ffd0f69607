//! The hosts of a run that are elsewhere: servers are started there by their adapters, and probed.

use std::net::IpAddr;

use clap::Args;
use lab::agent::{Agents, Remotes, Task};
use lab::{CpuList, DutHost, Elsewhere};

use crate::arguments::dut::DutArgs;
use crate::arguments::remote;

/// Hosts of a run.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "The server's host")]
pub(crate) struct ElsewhereArgs {
    #[command(flatten)]
    dut: DutArgs,
    /// Addresses of that host that are queried, of one family or both [default: those by which ssh reached it]
    #[arg(
        long,
        value_name = "IP,...",
        value_delimiter = ',',
        requires = "dut",
        conflicts_with = "dut_process"
    )]
    dut_address: Vec<IpAddr>,
    /// Cores of that host for the server [default: all]
    #[arg(long, value_name = "LIST", requires = "dut")]
    dut_cpus: Option<CpuList>,
    /// A third host for the AuthDNS, reached by ssh [default: it runs here]
    #[arg(long, value_name = "[USER@]HOST", value_parser = remote::host, requires = "dut", conflicts_with = "dut_process")]
    auth: Option<String>,
    /// Addresses at which the server asks the AuthDNS [default: those by which ssh reached its host; of this host those that
    /// reach the server]
    #[arg(
        long,
        value_name = "IP,...",
        value_delimiter = ',',
        requires = "dut",
        conflicts_with = "dut_process"
    )]
    auth_address: Vec<IpAddr>,
    /// Cores of that host for the AuthDNS [default: all]
    #[arg(long, value_name = "LIST", requires = "auth")]
    auth_cpus: Option<CpuList>,
}

impl ElsewhereArgs {
    /// Returns the hosts and the ways to them, without agents yet.
    pub(crate) fn hosts(&self) -> Elsewhere {
        let dut = self.dut.is_given().then(|| DutHost {
            starts: !self.dut.watches(),
            addresses: self.dut_address.clone(),
            cpus: self.dut_cpus.clone(),
            auth_addresses: self.auth_address.clone(),
            auth_cpus: self.auth_cpus.clone(),
        });
        Elsewhere { dut, remotes: self.remotes(), agents: Agents::default() }
    }

    /// Returns the ways to the hosts.
    fn remotes(&self) -> Remotes {
        let auth = self.auth.clone().map(|host| self.dut.to(host, Task::Start));
        Remotes { dut: self.dut.remote(self.dut_cpus.as_ref()), auth }
    }
}
