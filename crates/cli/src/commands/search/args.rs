//! Arguments of `dnsdyno search`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use experiment::RuleName;
use measure::{Goal, Nanos, Qps};

use crate::arguments::address::parse_target;
use crate::arguments::certificate::CertificateArgs;
use crate::arguments::engine::EngineArgs;
use crate::arguments::keep::KeepArgs;
use crate::arguments::sockets::SocketArgs;
use crate::arguments::workload::WorkloadArgs;

pub(crate) const EXAMPLES: &str = "Examples:
  The highest rate without loss, three searches with trials of five seconds
    dnsdyno search [fd00::2]:53 --namespace 10.0.0.0/8 --duration 5s --repeats 3 --json out.json

  The highest rate at which 99 % of the answers come within 5 ms, and at most one in a thousand is lost
    dnsdyno search 192.0.2.1:53 --queries q.txt --goal \"p99 < 5ms, loss < 0.1%\" --max 500k

  By RFC 8219 against a server on another host, with the certificate of this machine's Tester
    dnsdyno selftest --rate 440k --certificate tester.json
    dnsdyno search [2001:db8::53]:53 --rfc8219 --namespace 0.0.0.0/2 --certificate tester.json";

/// `dnsdyno search`
#[derive(Args, Clone, Debug)]
pub(crate) struct SearchArgs {
    /// The server: ADDRESS or ADDRESS:PORT, IPv6 as `[ADDRESS]:PORT`
    #[arg(value_parser = parse_target)]
    pub(crate) target: SocketAddr,
    /// What a trial must reach: `zero-loss`, or bounds such as `p99 < 5ms, loss < 0.1%`
    #[arg(long, value_name = "GOAL", default_value = "zero-loss")]
    pub(crate) goal: Goal,
    /// A further goal that the rule mlrsearch seeks in the same search; may be repeated
    #[arg(long, value_name = "GOAL")]
    pub(crate) also: Vec<Goal>,
    /// How a rate is decided: by one trial (rfc8219), by many short ones (mlrsearch), or by the share of seconds without
    /// loss (clean-windows)
    #[arg(long, value_name = "RULE", default_value = "mlrsearch")]
    pub(crate) rule: RuleName,
    /// Sum of the trials that decide a rate under mlrsearch [default: five trials]
    #[arg(long, value_name = "TIME")]
    pub(crate) duration_sum: Option<Nanos>,
    /// RFC 8219 section 9: trials of 60 s, 1 s timeout, zero loss, 20 searches, no name twice
    #[arg(long, conflicts_with_all = ["goal", "also", "rule", "duration_sum", "duration", "timeout", "repeats"])]
    pub(crate) rfc8219: bool,
    /// The rate of the first trial
    #[arg(long, value_name = "RATE", default_value = "10k")]
    pub(crate) start: Qps,
    /// The lowest rate of a trial
    #[arg(long, value_name = "RATE", default_value = "1k")]
    pub(crate) min: Qps,
    /// The highest rate of a trial
    #[arg(long, value_name = "RATE", default_value = "2M")]
    pub(crate) max: Qps,
    /// Width of the interval at which a search ends, as a share of the rate
    #[arg(long, value_name = "SHARE", default_value_t = 0.02)]
    pub(crate) resolution: f64,
    /// How long a trial sends
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub(crate) duration: Nanos,
    /// Timeout of a query: a later reply does not count
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub(crate) timeout: Nanos,
    /// Number of searches
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) repeats: u32,
    /// Write the result with every trial to this file (- for the standard output)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) certificate: CertificateArgs,
    #[command(flatten)]
    pub(crate) keep: KeepArgs,
    #[command(flatten)]
    pub(crate) workload: WorkloadArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    #[command(flatten)]
    pub(crate) sockets: SocketArgs,
}
