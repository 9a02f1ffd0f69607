//! Arguments of `dnsdyno load`, and the request for a trial that they mean.

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use lab::CpuList;
use measure::{Goal, Nanos, OpenPacing, Pacing, Qps};
use record::TrialRequest;
use record::request;

use super::pacing::{PacingArg, PacingKind, PacingParser};
use super::replay::ReplayArgs;
use crate::arguments::address::Target;
use crate::arguments::engine::EngineArgs;
use crate::arguments::keep::KeepArgs;
use crate::arguments::sockets::SocketArgs;
use crate::arguments::transport::StreamArgs;
use crate::arguments::workload::WorkloadArgs;

pub(crate) const EXAMPLES: &str = "Examples:
  A closed loop, as dnsperf does it: 512 queries outstanding, from a file, for five seconds
    dnsdyno load 10.9.0.2:5300 --queries q.txt --pacing window --window 512 --duration 5s --cpus 0

  An open loop against a DNS64 server: 100,000 queries a second, each for another name, each reply checked
    dnsdyno load [fd00::2]:53 --namespace 10.0.0.0/12 --type AAAA --rate 100k --duration 5s \\
        --expect-pref64 2001:db8:64::/96 --json out.json

  TLS: 16 clients that open a new connection every 100 queries, sessions resumed
    dnsdyno load [fd00::2]:853 --transport tls --clients 16 --queries-per-connection 100 --resume \\
        --queries q.txt --pacing window --window 64

  dnsdyno says what limited the result. A trial whose schedule was not kept is void: exit code 1.";

/// `dnsdyno load`
#[derive(Args, Clone, Debug)]
pub(crate) struct LoadArgs {
    /// The server: ADDRESS or ADDRESS:PORT, IPv6 as `[ADDRESS]:PORT` [default port: the transport's]
    pub(crate) target: Target,
    /// When queries leave: a word, with its numbers in further arguments, or all in one: 'constant 20k', 'poisson 20k',
    /// 'ramp 1k..20k', 'window 256', 'lockstep 4x256'
    #[arg(long, value_parser = PacingParser, value_name = "PACING", default_value = "constant")]
    pub(crate) pacing: PacingArg,
    /// Rate of constant and poisson pacing, in queries per second (500, 100k, 1.5M) [default: 1k]
    #[arg(long, value_name = "RATE")]
    pub(crate) rate: Option<Qps>,
    /// First rate of a ramp
    #[arg(long, value_name = "RATE")]
    pub(crate) from: Option<Qps>,
    /// Last rate of a ramp
    #[arg(long, value_name = "RATE")]
    pub(crate) to: Option<Qps>,
    /// Number of queries outstanding in a window, over all workers
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) window: u32,
    /// Number of threads of a lock-step load, 1 to 256; several numbers (1,2,4,8,16) give a run each. They are shared out
    /// to the cores of --cpus
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1")]
    pub(crate) threads: Vec<u32>,
    /// Number of experiments of a lock-step load, 256 queries each
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub(crate) experiments: u32,
    /// Write the time of each experiment of a lock-step load to this file, as CSV (- for the standard output)
    #[arg(long, value_name = "FILE")]
    pub(crate) times: Option<PathBuf>,
    /// Cores of a server on this host: they are watched for stalls, and there are 64 source ports for each; a lock-step
    /// table shows their use [default there: all of this host]
    #[arg(long, value_name = "LIST")]
    pub(crate) dut_cpus: Option<CpuList>,
    /// Cores of the AuthDNS behind a server on this host: they are watched for stalls
    #[arg(long, value_name = "LIST")]
    pub(crate) auth_cpus: Option<CpuList>,
    /// How long to send (5s, 250ms, 1m)
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub(crate) duration: Nanos,
    /// Timeout of a query: a later reply does not count
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub(crate) timeout: Nanos,
    /// Check the trial against this goal, and end it early if it cannot pass any more
    #[arg(long, value_name = "GOAL")]
    pub(crate) goal: Option<Goal>,
    /// Write the result, histograms included, to this file (- for the standard output)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) keep: KeepArgs,
    #[command(flatten)]
    pub(crate) streams: StreamArgs,
    #[command(flatten)]
    pub(crate) replay: ReplayArgs,
    #[command(flatten)]
    pub(crate) workload: WorkloadArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    #[command(flatten)]
    pub(crate) sockets: SocketArgs,
}

/// Returns the cores of an argument; none without it.
fn listed(cpus: &Option<CpuList>) -> Vec<usize> {
    cpus.as_ref().map_or(Vec::new(), |list| list.cpus().to_vec())
}

impl LoadArgs {
    /// Returns the request for a trial; that of a lock-step load has the first number of threads.
    pub(crate) fn request(&self) -> anyhow::Result<TrialRequest> {
        let workload = match self.replay.request() {
            Some(replay) => replay,
            None => self.workload.request()?,
        };
        Ok(TrialRequest {
            version: request::VERSION,
            target: self.target.or_port(self.streams.port()),
            also: Vec::new(),
            engine: self.engine.apply(self.streams.engine()?)?,
            workload,
            pacing: self.pacing()?,
            duration: self.duration,
            timeout: self.timeout,
            goal: self.goal.clone(),
            early_stop: true,
            sockets: self.sockets.request(),
            seed: self.workload.seed,
            live: None,
            dut_cpus: listed(&self.dut_cpus),
            auth_cpus: listed(&self.auth_cpus),
        })
    }

    fn pacing(&self) -> anyhow::Result<Pacing> {
        if self.duration == Nanos::ZERO || self.timeout == Nanos::ZERO {
            bail!("--duration and --timeout must be longer than 0");
        }
        let kind = match self.pacing {
            PacingArg::Kind(kind) => Some(kind),
            PacingArg::Whole(_) => None,
        };
        let needs_rate = matches!(kind, Some(PacingKind::Constant | PacingKind::Poisson));
        if self.rate.is_some() && !needs_rate {
            bail!(
                "--rate goes with constant and poisson pacing; a ramp has --from and --to, a window --window"
            );
        }
        if (self.from.is_some() || self.to.is_some()) && kind != Some(PacingKind::Ramp) {
            bail!("--from and --to go with --pacing ramp");
        }
        let kind = match self.pacing {
            PacingArg::Whole(pacing) => return Ok(pacing),
            PacingArg::Kind(kind) => kind,
        };
        let rate = self.rate.unwrap_or_else(|| "1k".parse().expect("a rate"));
        Ok(match kind {
            PacingKind::Constant => OpenPacing::Constant.at(rate),
            PacingKind::Poisson => OpenPacing::Poisson.at(rate),
            PacingKind::Ramp => match (self.from, self.to) {
                (Some(from), Some(to)) => Pacing::Ramp { from, to },
                _ => bail!("a ramp needs --from and --to"),
            },
            PacingKind::Window if self.window == 0 => {
                bail!("--window 0: at least one query must be outstanding")
            }
            PacingKind::Window => Pacing::Window { outstanding: self.window },
            PacingKind::Lockstep if self.experiments == 0 => {
                bail!("--experiments 0: at least one must run")
            }
            PacingKind::Lockstep => {
                Pacing::LockStep { threads: self.threads[0], experiments: self.experiments }
            }
        })
    }
}
