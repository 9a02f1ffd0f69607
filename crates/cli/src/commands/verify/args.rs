use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use measure::{Link, Path as WirePath, Qps};
use record::EngineKind;

use crate::arguments::address::parse_target;
use crate::arguments::choice::{Choice, choice};
use crate::arguments::number::parse_share;
use crate::arguments::quiet::QuietArgs;
use crate::arguments::wait::WaitArgs;

pub(crate) const EXAMPLES: &str = "Examples:
  Does this machine's Tester find what is known? Half a minute, then less than four
    dnsdyno verify --quick
    dnsdyno verify --write-certificate tester.json

  The same for programs in the kernel, as root; both engines must also agree
    dnsdyno verify --engine kernel --write-certificate kernel.json

  Measure with that certificate
    dnsdyno search [2001:db8::53]:53 --rfc8219 --namespace 0.0.0.0/2 --certificate tester.json

  A load against a remote server, compared with the capture that tcpdump took there
    dnsdyno load 192.0.2.1:53 --rate 20k --duration 5s --json load.json
    dnsdyno verify --trial load.json --capture capture.pcap

  Does verify notice a wrong value? It must fail, with exit code 1
    dnsdyno verify --quick --wrong-truth 0.05";

const ENGINE: [Choice<EngineKind>; 2] = [
    ("sockets", "The sockets of the workers", EngineKind::Sockets),
    ("kernel", "Programs in the kernel", EngineKind::Kernel),
];

#[derive(Args, Clone, Debug)]
pub(crate) struct VerifyArgs {
    /// The short form: fewer rates and shorter trials
    #[arg(long)]
    pub(crate) quick: bool,
    /// Capacities of the servers that are searched [default: 5k,20k,50k,100k; 20k in the short form]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) capacities: Vec<Qps>,
    /// Number of searches for each capacity
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) repeats: u32,
    /// Stay on the loopback of this host, also where network namespaces are allowed
    #[arg(long, conflicts_with_all = ["link", "path"])]
    pub(crate) loopback: bool,
    /// Links between the namespaces: plain, moderated or steered (docs/testbed.md) [default: plain]
    #[arg(long, value_name = "KIND")]
    pub(crate) link: Option<Link>,
    /// How datagrams cross the links: each as a packet (wire), or several as one message (host-offload) [default: wire]
    #[arg(long, value_parser = WirePath::chosen, value_name = "KIND")]
    pub(crate) path: Option<WirePath>,
    /// What sends the queries and checks the replies: sockets, or programs in the kernel (as root),
    /// whose findings are then also compared with the sockets' findings
    #[arg(long, value_parser = choice(&ENGINE), value_name = "ENGINE", default_value = "sockets", conflicts_with_all = ["loopback", "trial"])]
    pub(crate) engine: EngineKind,
    #[command(flatten)]
    pub(crate) wait: WaitArgs,
    /// Make the known values wrong by this share (0 to 1): verify must fail then
    #[arg(long, value_name = "SHARE", value_parser = parse_share, default_value = "0")]
    pub(crate) wrong_truth: f64,
    /// Make no trials, but compare this trial (from `load --json`) with --capture
    #[arg(long, value_name = "FILE", requires = "capture", conflicts_with_all = ["quick", "capacities", "loopback", "write_certificate"])]
    pub(crate) trial: Option<PathBuf>,
    /// A capture beside the server of --trial, pcap or pcapng
    #[arg(long, value_name = "CAPTURE", requires = "trial")]
    pub(crate) capture: Option<PathBuf>,
    /// Address of the server in the capture [default: the target of the trial]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = parse_target, requires = "capture")]
    pub(crate) server: Option<SocketAddr>,
    /// Write a certificate for `load`, `search`, `run` and `report` to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) write_certificate: Option<PathBuf>,
    /// Write the checks to this file (- for the standard output)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) quiet: QuietArgs,
}
