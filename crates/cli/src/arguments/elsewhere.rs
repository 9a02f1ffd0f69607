//! The hosts of a run that are elsewhere: servers are started there by their adapters, and probed.

use std::net::IpAddr;

use anyhow::bail;
use clap::Args;
use lab::agent::{Remotes, Task};
use lab::job::Hosts;
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
    #[arg(long, value_name = "LIST")]
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
    #[arg(long, value_name = "LIST")]
    auth_cpus: Option<CpuList>,
}

impl ElsewhereArgs {
    /// Returns the arguments with the hosts that the file of --hosts names for the servers and the AuthDNS.
    pub(crate) fn with(&self, file: Option<&Hosts>) -> anyhow::Result<Self> {
        let mut all = self.clone();
        if let Some(dut) = file.and_then(|file| file.dut.as_ref()) {
            if self.dut.is_given() {
                bail!("--dut: the file of --hosts names this host too");
            }
            all.dut = self.dut.with_host(&dut.host);
            all.dut_address.clone_from(&dut.addresses);
        }
        if let Some(auth) = file.and_then(|file| file.auth.as_ref()) {
            all.auth = Some(auth.host.clone());
            all.auth_address.clone_from(&auth.addresses);
        }
        all.dut.check_host()?;
        if all.dut_cpus.is_some() && !all.dut.is_given() {
            bail!("--dut-cpus needs the host of a server: give --dut");
        }
        if all.auth_cpus.is_some() && all.auth.is_none() {
            bail!("--auth-cpus needs the host of the AuthDNS: give --auth");
        }
        Ok(all)
    }

    /// Returns the hosts and the ways to them, without agents yet.
    pub(crate) fn hosts(&self) -> Elsewhere {
        let dut = self.dut.is_given().then(|| DutHost {
            starts: !self.dut.watches(),
            addresses: self.dut_address.clone(),
            cpus: self.dut_cpus.clone(),
            auth_addresses: self.auth_address.clone(),
            auth_cpus: self.auth_cpus.clone(),
        });
        Elsewhere { dut, remotes: self.remotes(), ..Elsewhere::default() }
    }

    /// Returns the ways to the hosts.
    fn remotes(&self) -> Remotes {
        let auth = self.auth.clone().map(|host| self.dut.to(host, Task::Start));
        Remotes { dut: self.dut.remote(self.dut_cpus.as_ref()), auth }
    }
}
