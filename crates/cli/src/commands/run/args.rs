use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use experiment::Custom;
use experiment::settings::CpuPlan;
use lab::{CpuList, CpuListError};
use measure::{Link, Path as WirePath};
use record::{EngineChoice, Form};

use crate::arguments::OUTPUT;
use crate::arguments::address::parse_target;
use crate::arguments::choice::choice;
use crate::arguments::engine::ENGINE;
use crate::arguments::gate::GateArgs;
use crate::arguments::hosts::HostsArgs;
use crate::arguments::quiet::QuietArgs;
use crate::arguments::remote_hosts::RemoteHostsArgs;
use crate::arguments::store::{RunRef, StoreArgs};
use crate::arguments::wait::WaitArgs;

pub(crate) const EXAMPLES: &str = "Examples:
  The DNS64 servers of this machine, measured the RFC 8219 way in short form
    dnsdyno run experiments/dns64-rfc8219.toml --quick

  One of them in full (hours), with every trial in a file
    dnsdyno run dns64-rfc8219 --servers unbound --json unbound.json

  As root, with the engine that is certified for more: programs in the kernel, or sockets
    dnsdyno run dns64-rfc8219 --quick --engine auto

  Is the new build of a server slower than the old one? The exit code is the answer (docs/ci.md)
    dnsdyno run dns64-rfc8219 --quick --servers old,new --custom old='old/dns64d ...' --custom new='new/dns64d ...' --fail-if 'new < -3%'

  The servers of another host, configured and started there over ssh; the AuthDNS runs here
    dnsdyno run dns64-rfc8219 --dut root@192.0.2.1 --dut-address 2001:db8::1,192.0.2.1

  By several Testers at once: the file names hosts as `tester`, that of the servers as `dut`, and that of the AuthDNS as `auth`
    dnsdyno run dns64-rfc8219 --hosts hosts.txt

  Continue the last run, which was killed
    dnsdyno run --resume last

  What there is, and what one of them would do
    dnsdyno run --list
    dnsdyno run auth-scaling --dry-run";

/// Heading of the options about what is measured.
const SERVERS: &str = "Servers";
/// Heading of the options about the Tester and the links.
const BENCH: &str = "Tester and links";

#[derive(Args, Clone, Debug)]
pub(crate) struct RunArgs {
    /// The experiment's file, or the name of a built-in one
    #[arg(required_unless_present_any = ["list", "resume"])]
    pub(crate) experiment: Option<PathBuf>,
    /// Continue an interrupted run of the store: its number, or `last`
    #[arg(long, value_name = "RUN", conflicts_with_all = ["experiment", "quick", "medium", "repeats", "cpus", "servers", "dry_run", "no_store", "link", "path", "engine", "seed"])]
    pub(crate) resume: Option<RunRef>,
    /// List the built-in experiments
    #[arg(long)]
    pub(crate) list: bool,
    /// Print the plan and how long it would take, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The short form: minutes instead of hours, labelled as not conforming
    #[arg(long)]
    pub(crate) quick: bool,
    /// The medium form: as long as a paper's finding needs to show, about ten minutes; also labelled as not conforming
    #[arg(long, conflicts_with = "quick")]
    pub(crate) medium: bool,
    /// Repeats of each cell, instead of the experiment's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) repeats: Option<u32>,
    /// Cores of a role instead of the experiment's or the lab's choice: ROLE=LIST, such as dut=2-5; the
    /// roles are tester, auth, dut, updates and attacker; may be repeated
    #[arg(help_heading = BENCH, long, value_name = "ROLE=LIST", value_parser = parse_cpus)]
    pub(crate) cpus: Vec<(String, Vec<usize>)>,
    /// Seed of the order of names and of the order of measurements
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Only these servers of the experiment; they must be installed
    #[arg(help_heading = SERVERS, long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) servers: Vec<String>,
    /// A folder of further server adapters (*.toml)
    #[arg(help_heading = SERVERS, long, value_name = "DIR")]
    pub(crate) servers_dir: Option<PathBuf>,
    /// Also measure your own server: NAME=COMMAND; the command is a template (docs/servers.md); may be repeated
    #[arg(help_heading = SERVERS, long, value_name = "NAME=COMMAND", value_parser = parse_custom, conflicts_with = "resume")]
    pub(crate) custom: Vec<(String, Custom)>,
    /// Also measure a running server: NAME=ADDRESS:PORT; may be repeated. Only the network is probed, unless --dut names its host
    #[arg(help_heading = SERVERS, long, value_name = "NAME=ADDRESS", value_parser = parse_remote, conflicts_with = "resume")]
    pub(crate) remote: Vec<(String, Custom)>,
    #[command(flatten, next_help_heading = SERVERS)]
    pub(crate) gate: GateArgs,
    /// The Tester's certificate, from `verify` or `selftest`, made on this machine with the path, engine and transport of the trials:
    /// it replaces the self-test, and bounds the rates
    #[arg(help_heading = BENCH, long, value_name = "FILE", conflicts_with = "resume")]
    pub(crate) certificate: Option<PathBuf>,
    #[command(flatten, next_help_heading = BENCH)]
    pub(crate) wait: WaitArgs,
    /// Link mode of the testbed, instead of the experiment's: plain, moderated or steered (docs/testbed.md)
    #[arg(help_heading = BENCH, long, value_name = "KIND")]
    pub(crate) link: Option<Link>,
    /// How datagrams cross the links: each as a packet (wire), or several as one message (host-offload)
    #[arg(help_heading = BENCH, long, value_parser = WirePath::chosen, value_name = "KIND")]
    pub(crate) path: Option<WirePath>,
    /// What sends queries over UDP and checks replies instead of the experiment's choice: sockets, programs in the kernel (as
    /// root), or the one that is certified for more (docs/kernel.md)
    #[arg(help_heading = BENCH, long, value_parser = choice(&ENGINE), value_name = "ENGINE")]
    pub(crate) engine: Option<EngineChoice>,
    /// Start the commands of the experiment's file, and send load to its addresses, without asking
    #[arg(help_heading = SERVERS, long)]
    pub(crate) trust: bool,
    /// Capture the packets of each visit beside the server, into a pcap in this folder, of a GiB at most; this takes CPU time
    #[arg(help_heading = BENCH, long, value_name = "DIR")]
    pub(crate) capture_dir: Option<PathBuf>,
    /// Keep the servers' configurations and logs
    #[arg(help_heading = OUTPUT, long)]
    pub(crate) keep_files: bool,
    /// Print each step as a plain line, also on a terminal
    #[arg(help_heading = OUTPUT, long)]
    pub(crate) plain: bool,
    /// Serve the progress of the run for Prometheus at this address: http://ADDRESS/metrics
    #[arg(help_heading = OUTPUT, long, value_name = "ADDRESS")]
    pub(crate) metrics: Option<SocketAddr>,
    /// Write the result with every trial to this file (- for the standard output)
    #[arg(help_heading = OUTPUT, long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Do not keep the run in the store
    #[arg(help_heading = OUTPUT, long)]
    pub(crate) no_store: bool,
    #[command(flatten, next_help_heading = OUTPUT)]
    pub(crate) quiet: QuietArgs,
    #[command(flatten, next_help_heading = OUTPUT)]
    pub(crate) store: StoreArgs,
    // These fields are last, since their headings apply to all later options.
    #[command(flatten)]
    pub(crate) remote_hosts: RemoteHostsArgs,
    #[command(flatten)]
    pub(crate) hosts: HostsArgs,
}

impl RunArgs {
    /// Returns the requested form of the experiment.
    pub(crate) fn form(&self) -> Form {
        Form::of(self.quick, self.medium)
    }
}

/// Reads a server that the user runs.
fn parse_remote(text: &str) -> Result<(String, Custom), String> {
    let (name, address) = text.split_once('=').ok_or("it is NAME=ADDRESS:PORT")?;
    Ok((name.to_owned(), Custom::at(parse_target(address)?)))
}

/// Reads the cores of a role.
fn parse_cpus(text: &str) -> Result<(String, Vec<usize>), String> {
    let (role, list) = text.split_once('=').ok_or("it is ROLE=LIST, such as dut=2-5")?;
    let known = CpuPlan::default().of_role(role).is_some();
    let list: CpuList = list.parse().map_err(|e: CpuListError| e.to_string())?;
    let unknown = || format!("`{role}` is no role: tester, auth, dut, updates, attacker");
    known.then(|| (role.to_owned(), list.cpus().to_vec())).ok_or_else(unknown)
}

/// Reads a server that the lab starts by the user's command.
fn parse_custom(text: &str) -> Result<(String, Custom), String> {
    let (name, command) = text.split_once('=').ok_or("it is NAME=COMMAND")?;
    let custom = Custom::new(command);
    match custom.invalid() {
        Some(why) => Err(why.to_owned()),
        None => Ok((name.to_owned(), custom)),
    }
}
