use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use lab::CpuList;
use measure::{Nanos, Qps};
use wire::{Ipv4Prefix, Pref64};

use crate::arguments::address::parse_target;
use crate::arguments::engine::EngineArgs;
use crate::arguments::number::parse_duration;
use crate::arguments::quiet::QuietArgs;
use crate::arguments::sockets::SocketArgs;
use crate::preflight::CheckArgs;

pub(crate) const EXAMPLES: &str = "Examples:
  Can this machine's Tester do a million queries a second? (Measurer on core 0, AuthDNS on core 1)
    dnsdyno selftest --rate 1M --duration 60s --json out.json

  The programs in the kernel, a chain of Measurer and AuthDNS on each core (as root)
    dnsdyno selftest --rate 2.2M --duration 60s --engine kernel

  The same against an AuthDNS on another host
    dnsdyno selftest --rate 500k --target 10.9.2.2:5300";

#[derive(Args, Clone, Debug)]
pub(crate) struct SelftestArgs {
    /// The rate of the self-test; the Tester is then certified for this rate divided by 2.2
    #[arg(long, value_name = "RATE", default_value = "100k")]
    pub(crate) rate: Qps,
    /// How long to send
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "60s")]
    pub(crate) duration: Nanos,
    /// Timeout of a query, a quarter of the timeout for the servers to be measured: a later reply
    /// does not count
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "250ms")]
    pub(crate) timeout: Nanos,
    /// Query this AuthDNS (started with --aaaa always) instead of one in this process
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = parse_target)]
    pub(crate) target: Option<SocketAddr>,
    /// The names that are queried
    #[arg(long, value_name = "PREFIX", default_value = "0.0.0.0/2")]
    pub(crate) namespace: Ipv4Prefix,
    /// The prefix of the addresses in the answers
    #[arg(long, value_name = "PREF64", default_value = "2001:db8:64::/96")]
    pub(crate) pref64: Pref64,
    /// Cores of the AuthDNS, one worker on each [default: the last of this host]
    #[arg(long, value_name = "LIST")]
    pub(crate) auth_cpus: Option<CpuList>,
    /// Write a certificate for `load`, `search`, `run` and `report` to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) write_certificate: Option<PathBuf>,
    /// Write the result to this file (- for the standard output)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) quiet: QuietArgs,
    #[command(flatten)]
    pub(crate) check: CheckArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    #[command(flatten)]
    pub(crate) sockets: SocketArgs,
}
