//! The remote hosts of a run: servers are started there by their adapters, and probed.

use std::net::{AddrParseError, IpAddr};
use std::str::FromStr;

use anyhow::bail;
use clap::Args;
use lab::agent::AgentTask;
use lab::job::{Hosts, MOST_AUTHDNS};
use lab::lines::Remotes;
use lab::{CpuList, DutHost, RemoteHosts};

use crate::arguments::dut::DutArgs;
use crate::arguments::remote;

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "The server's host")]
pub(crate) struct RemoteHostsArgs {
    #[command(flatten)]
    dut: DutArgs,
    /// Addresses of that host that are queried, of one family or both [default: the ones by which
    /// ssh reached it]
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
    /// A third host for the AuthDNS, reached by ssh; may be repeated: each AuthDNS has all names, and the server asks all of them
    /// [default: it runs here]
    #[arg(long, value_name = "[USER@]HOST", value_parser = remote::host, requires = "dut", conflicts_with = "dut_process")]
    auth: Vec<String>,
    /// Addresses at which the server queries the AuthDNS, once for each --auth [default: the
    /// addresses by which ssh reached its host; for this host the addresses that reach the server]
    #[arg(long, value_name = "IP,...", requires = "dut", conflicts_with = "dut_process")]
    auth_address: Vec<Addresses>,
    /// Cores of that host for the AuthDNS [default: all]
    #[arg(long, value_name = "LIST")]
    auth_cpus: Option<CpuList>,
}

#[derive(Clone, Debug)]
struct Addresses(Vec<IpAddr>);

impl FromStr for Addresses {
    type Err = AddrParseError;

    fn from_str(text: &str) -> Result<Self, AddrParseError> {
        text.split(',').map(str::parse).collect::<Result<_, _>>().map(Addresses)
    }
}

impl RemoteHostsArgs {
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
        if let Some(file) = file.filter(|file| !file.auth.is_empty()) {
            all.auth = file.auth.iter().map(|auth| auth.host.clone()).collect();
            let addresses = file.auth.iter().map(|auth| Addresses(auth.addresses.clone()));
            all.auth_address = addresses.collect();
        }
        all.dut.check_host()?;
        all.check_auth()?;
        if all.dut_cpus.is_some() && !all.dut.is_given() {
            bail!("--dut-cpus needs the host of a server: give --dut");
        }
        Ok(all)
    }

    /// Refuses hosts of several AuthDNS that have the same name.
    fn check_auth(&self) -> anyhow::Result<()> {
        let (hosts, addresses) = (self.auth.len(), self.auth_address.len());
        if self.auth_cpus.is_some() && hosts == 0 {
            bail!("--auth-cpus needs the host of the AuthDNS: give --auth");
        }
        if hosts > MOST_AUTHDNS {
            bail!("--auth: there are at most {MOST_AUTHDNS}");
        }
        let twice = |(number, host): &(usize, &String)| self.auth[..*number].contains(host);
        if let Some((_, host)) = self.auth.iter().enumerate().find(twice) {
            bail!(
                "--auth {host}: this host already has an AuthDNS: give each AuthDNS a host of its own"
            );
        }
        if hosts > 1 && addresses > 0 && addresses != hosts {
            bail!("--auth-address: give it once for each --auth, in the same order");
        }
        Ok(())
    }

    /// Returns the hosts and the ways to them, without agents yet.
    pub(crate) fn hosts(&self) -> RemoteHosts {
        let dut = self.dut.is_given().then(|| DutHost {
            starts: !self.dut.watches(),
            addresses: self.dut_address.clone(),
            cpus: self.dut_cpus.clone(),
            auth_addresses: self.auth_addresses(),
            auth_cpus: self.auth_cpus.clone(),
        });
        RemoteHosts { dut, remotes: self.remotes(), ..RemoteHosts::default() }
    }

    /// Returns the addresses of each AuthDNS; a single AuthDNS may have several options with one
    /// address each.
    fn auth_addresses(&self) -> Vec<Vec<IpAddr>> {
        let each = self.auth_address.iter().map(|addresses| addresses.0.clone());
        if self.auth.len() > 1 { each.collect() } else { vec![each.flatten().collect()] }
    }

    /// Returns the ways to the hosts.
    fn remotes(&self) -> Remotes {
        let auth =
            self.auth.iter().map(|host| self.dut.to(host.clone(), AgentTask::Start)).collect();
        Remotes { dut: self.dut.remote(self.dut_cpus.as_ref()), auth }
    }
}
