//! Arguments of `dnsdyno load`, and the trial request that results from them.

use std::path::PathBuf;

use anyhow::bail;
use clap::builder::ArgPredicate;
use clap::{ArgAction, Args};
use lab::CpuList;
use measure::{Goal, Nanos, OpenPacing, Pacing, Qps};
use record::TrialRequest;
use record::request::{self, Sockets};

use super::dut;
use super::pacing::{PacingArg, PacingKind, PacingParser};
use super::part::PartArgs;
use super::replay::ReplayArgs;
use crate::arguments::OUTPUT;
use crate::arguments::address::{Family, ServerArg, on_link};
use crate::arguments::certificate::CertificateArgs;
use crate::arguments::choice::{Choice, choice};
use crate::arguments::dut::DutArgs;
use crate::arguments::engine::EngineArgs;
use crate::arguments::hosts::HostsArgs;
use crate::arguments::keep::KeepArgs;
use crate::arguments::number::{parse_count, parse_duration, parse_rate_each};
use crate::arguments::quiet::QuietArgs;
use crate::arguments::sockets::SocketArgs;
use crate::arguments::transport::StreamArgs;
use crate::arguments::workload::WorkloadArgs;
use crate::preflight::CheckArgs;

pub(crate) const EXAMPLES: &str = "Examples:
  10,000 queries a second from a file, for five seconds
    dnsdyno load 10.9.0.2:5300 --queries q.txt --rate 10k --duration 5

  A closed loop, with the options that dnsperf has too: at most 512 queries outstanding
    dnsdyno load 10.9.0.2:5300 -d q.txt -q 512 -l 5

  An open loop against a DNS64 server: 100,000 queries a second, each for another name, each reply checked
    dnsdyno load [fd00::2]:53 --namespace 10.0.0.0/12 --type AAAA --rate 100k --duration 5s \\
        --expect-pref64 2001:db8:64::/96 --json out.json

  TLS: 16 clients that open a new connection every 100 queries, sessions resumed
    dnsdyno load [fd00::2]:853 --transport tls --clients 16 --queries-per-connection 100 --tls-resume \\
        --queries q.txt --pacing window --window 64

  dnsdyno says what limited the result. A trial whose schedule was not kept is void: exit code 1.";

/// Heading of the options about what is sent and when.
const LOAD: &str = "Load";

#[derive(Args, Clone, Debug)]
pub(crate) struct LoadArgs {
    /// The server: an address or a name, with or without :PORT, IPv6 as `[ADDRESS]:PORT`, also `tls://SERVER` or
    /// `https://SERVER/PATH`; a name is looked up once [default port: the transport's]
    pub(crate) target: ServerArg,
    #[command(flatten)]
    pub(crate) workload: WorkloadArgs,
    /// Queries per second (500, 100k, 1.5M) of constant and poisson pacing; the highest rate of a window [default: 1k; of a window
    /// none]
    #[arg(help_heading = LOAD, short = 'Q', long, value_name = "RATE")]
    pub(crate) rate: Option<Qps>,
    /// How long to send (5s, 250ms, 1m) [default: 10s; with --runs until the passes are done]
    #[arg(help_heading = LOAD, short = 'l', long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) duration: Option<Nanos>,
    /// When queries leave: a word, with its numbers in --rate, --window, --threads and --experiments, or all in one: 'constant 20k',
    /// 'poisson 20k', 'ramp 1k..20k', 'window 256', 'lockstep 4x256', 'lockstep 4x256 anew'; --window
    /// implies window
    #[arg(help_heading = LOAD, long, value_parser = PacingParser, value_name = "PACING", default_value_if("window", ArgPredicate::IsPresent, "window"), default_value = "constant")]
    pub(crate) pacing: PacingArg,
    /// Rate of constant and poisson pacing for each of --clients (2, 1/60: a query a minute)
    #[arg(help_heading = LOAD, long, value_name = "RATE", value_parser = parse_rate_each, requires = "clients", conflicts_with = "rate")]
    pub(crate) rate_per_client: Option<Qps>,
    /// Number of queries outstanding in a window, over all workers [default: 100]
    #[arg(help_heading = LOAD, short = 'q', long, value_name = "N")]
    pub(crate) window: Option<u32>,
    /// Number of threads, each on a core of its own. Lock-step pacing shares 1 to 256 out to the cores of --cpus, and makes a run for
    /// each of several numbers (1,2,4,8,16) [default: 1]
    #[arg(help_heading = LOAD, short = 'T', long, value_name = "LIST", value_delimiter = ',', action = ArgAction::Set)]
    pub(crate) threads: Vec<u32>,
    /// Number of experiments of a lock-step load, 256 queries each [default: 256]
    #[arg(help_heading = LOAD, long, value_name = "N")]
    pub(crate) experiments: Option<u32>,
    /// Start the threads of a lock-step load anew for each experiment, each with a socket of its own, as dns64perf2 does
    #[arg(help_heading = LOAD, long)]
    pub(crate) new_threads: bool,
    /// Write the time of each experiment of a lock-step load to this file, as CSV (- for the standard output)
    #[arg(help_heading = OUTPUT, long, value_name = "FILE")]
    pub(crate) times: Option<PathBuf>,
    /// Cores of a server on this host, or on the host of --dut: they are watched for stalls, and there are 64 source ports for each. The
    /// table of a lock-step load shows their use [default: all of this host]
    #[arg(help_heading = LOAD, long, value_name = "LIST")]
    pub(crate) dut_cpus: Option<CpuList>,
    /// Cores of the AuthDNS that a server on this host queries: they are watched for stalls
    #[arg(help_heading = LOAD, long, value_name = "LIST")]
    pub(crate) auth_cpus: Option<CpuList>,
    /// Send the same load for this time before, uncounted, with names of its own
    #[arg(help_heading = LOAD, long, value_name = "TIME", value_parser = parse_duration, conflicts_with_all = ["replay", "compare_replies", "start_at"])]
    pub(crate) warm_up: Option<Nanos>,
    /// Timeout of a query: a later reply does not count
    #[arg(help_heading = LOAD, short = 't', long, value_name = "TIME", value_parser = parse_duration, default_value = "1s")]
    pub(crate) timeout: Nanos,
    /// Stop sending in an open loop when N queries are outstanding, as resperf does
    #[arg(help_heading = LOAD, long, value_name = "N", value_parser = parse_count)]
    pub(crate) stop_outstanding: Option<u64>,
    /// Let a query of a closed loop keep its place until its timeout, as dnsperf does; without it the place is free as soon as a
    /// reply is unlikely
    #[arg(help_heading = LOAD, long)]
    pub(crate) keep_places: bool,
    /// Count the queries in steps of this length [default: a twentieth of a ramp]
    #[arg(help_heading = LOAD, long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) step: Option<Nanos>,
    /// Check the trial against this goal, and end it early if it cannot pass any more; without a bound on loss it allows none
    #[arg(help_heading = LOAD, long, value_name = "GOAL")]
    pub(crate) goal: Option<Goal>,
    /// Repeats of the load, each with names of its own; the table has medians and their spread
    #[arg(help_heading = LOAD, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000),
          conflicts_with_all = ["times", "quantiles", "start_at", "compare_replies"])]
    pub(crate) repeats: u32,
    /// Show the counters at this interval, also off a terminal
    #[arg(help_heading = OUTPUT, long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) interval: Option<Nanos>,
    /// Show these percentiles of the latency too (25,75,99.99)
    #[arg(help_heading = OUTPUT, long, value_name = "LIST", value_delimiter = ',', value_parser = parse_percentile)]
    pub(crate) quantiles: Vec<f64>,
    /// Form of what is printed
    #[arg(help_heading = OUTPUT, long, value_parser = choice(&FORMAT), value_name = "FORMAT", default_value = "table")]
    pub(crate) format: Format,
    /// Write the result, histograms included, to this file (- for the standard output)
    #[arg(help_heading = OUTPUT, long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    #[command(flatten, next_help_heading = LOAD)]
    pub(crate) check: CheckArgs,
    #[command(flatten, next_help_heading = OUTPUT)]
    pub(crate) certificate: CertificateArgs,
    #[command(flatten, next_help_heading = OUTPUT)]
    pub(crate) keep: KeepArgs,
    #[command(flatten, next_help_heading = OUTPUT)]
    pub(crate) quiet: QuietArgs,
    #[command(flatten)]
    pub(crate) part: PartArgs,
    #[command(flatten)]
    pub(crate) hosts: HostsArgs,
    #[command(flatten)]
    pub(crate) dut: DutArgs,
    #[command(flatten)]
    pub(crate) streams: StreamArgs,
    #[command(flatten)]
    pub(crate) replay: ReplayArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    #[command(flatten)]
    pub(crate) sockets: SocketArgs,
}

/// Forms of what is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Table,
    Json,
    /// A header line and a row of comma-separated values.
    Csv,
}

/// Forms of what is printed.
pub(crate) const FORMAT: [Choice<Format>; 3] = [
    ("table", "Lines for people", Format::Table),
    ("json", "The record, as --json - writes it", Format::Json),
    ("csv", "A header line and a row, as in `export --format csv`", Format::Csv),
];

/// Reads a percentile, above 0 and up to 100.
pub(crate) fn parse_percentile(text: &str) -> Result<f64, String> {
    let digits = text.trim().trim_start_matches('p');
    let number = digits.parse::<f64>().ok().filter(|p| *p > 0.0 && *p <= 100.0);
    number.ok_or_else(|| format!("`{text}` is not a percentile such as 50, 99 or 99.9"))
}

/// Longest duration of a load that ends with its file.
const NO_LIMIT: Nanos = Nanos::from_secs(365 * 86_400);

/// Number of steps of a ramp.
const RAMP_STEPS: u64 = 20;

/// Returns the length of the steps of a ramp: a twentieth, in whole milliseconds.
fn step_of_ramp(duration: Nanos) -> Nanos {
    Nanos::from_millis((duration.0 / RAMP_STEPS).div_ceil(1_000_000).max(1))
}

/// Returns the cores of an argument; none without it.
fn listed(cpus: &Option<CpuList>) -> Vec<usize> {
    cpus.as_ref().map_or(Vec::new(), |list| list.cpus().to_vec())
}

impl LoadArgs {
    /// Returns the request for a trial; for a lock-step load with several numbers of threads the
    /// first one.
    pub(crate) fn request(&self) -> anyhow::Result<TrialRequest> {
        let workload = match self.replay.request(self.workload.runs) {
            Some(replay) => replay,
            None => self.workload.request()?,
        };
        let pacing = self.pacing()?;
        self.check(pacing)?;
        self.part.check()?;
        dut::check(&self.dut, pacing)?;
        let duration = self.duration();
        let streams = self.streams.of_server(&self.target)?;
        let engine = self.engine.apply(streams.engine(self.replay.own_ports)?)?;
        self.sockets.check_engine(&engine)?;
        Ok(TrialRequest {
            version: request::VERSION,
            target: on_link(
                self.target.target.resolve(streams.port(), Family::Any)?,
                self.sockets.source,
            )?,
            also: Vec::new(),
            engine,
            workload,
            pacing,
            duration,
            timeout: self.timeout,
            goal: self.goal.clone(),
            early_stop: true,
            most_outstanding: self.stop_outstanding,
            keep_places: self.keep_places,
            step: self.step.or_else(|| pacing.is_ramp().then(|| step_of_ramp(duration))),
            slice: self.part.slice.unwrap_or_default(),
            start_at: self.part.start_at,
            clock_bound: self.part.clock_bound.unwrap_or_default(),
            sockets: Sockets { cpus: self.cores(pacing)?, ..self.sockets.request() },
            seed: self.workload.seed,
            live: None,
            // Cores of another host are watched there.
            dut_cpus: if self.dut.is_given() { Vec::new() } else { listed(&self.dut_cpus) },
            auth_cpus: listed(&self.auth_cpus),
        })
    }

    /// Returns the cores of the workers: those of --cpus, or the first cores for --threads; a
    /// lock-step load distributes its threads itself.
    fn cores(&self, pacing: Pacing) -> anyhow::Result<Vec<usize>> {
        let lockstep = matches!(pacing, Pacing::LockStep { .. });
        let threads = match self.threads.as_slice() {
            [] => return Ok(listed(&self.sockets.cpus)),
            _ if lockstep => return Ok(listed(&self.sockets.cpus)),
            [threads] => *threads as usize,
            _ => bail!("--threads: several numbers are for --pacing lockstep"),
        };
        let allowed = CpuList::allowed();
        if !(1..=allowed.count()).contains(&threads) {
            bail!(
                "--threads {threads}: this process has {} cores, and a thread takes one",
                allowed.count()
            );
        }
        Ok(allowed.cpus()[..threads].to_vec())
    }

    /// Returns the number of loads that share out names that are used once: the repeats, and the warm-up.
    pub(crate) fn parts(&self) -> u32 {
        self.repeats + u32::from(self.warm_up.is_some())
    }

    /// Returns the duration of sending.
    fn duration(&self) -> Nanos {
        let ends_with_file = self.workload.runs.is_some() && !self.replay.is_given();
        let usual = if ends_with_file { NO_LIMIT } else { Nanos::from_secs(10) };
        self.duration.unwrap_or(usual)
    }

    /// Refuses options that change nothing with this pacing, with the reason.
    fn check(&self, pacing: Pacing) -> anyhow::Result<()> {
        let window = matches!(pacing, Pacing::Window { .. } | Pacing::CappedWindow { .. });
        let lockstep = matches!(pacing, Pacing::LockStep { .. });
        let whole = matches!(self.pacing, PacingArg::Whole(_));
        let said = "--pacing has this number already";
        for (given, option, useless) in [
            (self.window.is_some(), "--window", (!window).then_some("it requires --pacing window")),
            (self.window.is_some(), "--window", whole.then_some(said)),
            (
                !self.threads.is_empty(),
                "--threads",
                (!lockstep && self.sockets.cpus.is_some())
                    .then_some("--cpus sets the threads: there is one on each core"),
            ),
            (!self.threads.is_empty(), "--threads", (whole && lockstep).then_some(said)),
            (
                self.experiments.is_some(),
                "--experiments",
                (!lockstep).then_some("it requires --pacing lockstep"),
            ),
            (self.experiments.is_some(), "--experiments", whole.then_some(said)),
            (
                self.new_threads,
                "--new-threads",
                (!lockstep).then_some("it requires --pacing lockstep"),
            ),
            (
                self.new_threads,
                "--new-threads",
                whole.then_some("write --pacing 'lockstep 4x256 anew'"),
            ),
            (
                self.duration.is_some(),
                "--duration",
                lockstep.then_some("a lock-step load ends after its --experiments"),
            ),
            (
                self.warm_up.is_some(),
                "--warm-up",
                lockstep.then_some("a lock-step load has no warm-up: all --experiments count"),
            ),
            (
                self.keep_places,
                "--keep-places",
                pacing.outstanding().is_none().then_some("only closed loops have places"),
            ),
            (
                self.repeats > 1,
                "--repeats",
                lockstep.then_some("a lock-step load repeats with --experiments"),
            ),
            (
                self.stop_outstanding.is_some(),
                "--stop-outstanding",
                (!pacing.is_open_loop())
                    .then_some("a closed loop never has more outstanding than its window"),
            ),
            (
                self.step.is_some(),
                "--step",
                lockstep.then_some("a lock-step load reports each experiment (--times)"),
            ),
        ] {
            if let (true, Some(why)) = (given, useless) {
                bail!("{option}: {why}");
            }
        }
        Ok(())
    }

    fn pacing(&self) -> anyhow::Result<Pacing> {
        if [self.duration, self.warm_up].contains(&Some(Nanos::ZERO)) || self.timeout == Nanos::ZERO
        {
            bail!("--duration, --warm-up and --timeout must be longer than 0");
        }
        let takes_rate = matches!(
            self.pacing,
            PacingArg::Kind(PacingKind::Constant | PacingKind::Poisson | PacingKind::Window)
        );
        let clients = f64::from(self.streams.clients.unwrap_or(0));
        let of_all = self.rate_per_client.and_then(|each| Qps::new(each.get() * clients));
        if self.rate.or(of_all).is_some() && !takes_rate {
            bail!("--rate requires constant, poisson or window pacing without a rate in --pacing");
        }
        let kind = match self.pacing {
            PacingArg::Whole(pacing) => return Ok(pacing),
            PacingArg::Kind(kind) => kind,
        };
        let given = self.rate.or(of_all);
        let rate = || given.unwrap_or_else(|| "1k".parse().expect("a rate"));
        Ok(match kind {
            PacingKind::Constant => OpenPacing::Constant.at(rate()),
            PacingKind::Poisson => OpenPacing::Poisson.at(rate()),
            PacingKind::Ramp => bail!("a ramp needs two rates: --pacing 'ramp 1k..20k'"),
            PacingKind::Window if self.window == Some(0) => {
                bail!("--window 0: at least one query must be outstanding")
            }
            PacingKind::Window => {
                let outstanding = self.window.unwrap_or(100);
                match given {
                    Some(rate) => Pacing::CappedWindow { outstanding, rate },
                    None => Pacing::Window { outstanding },
                }
            }
            PacingKind::Lockstep if self.experiments == Some(0) => {
                bail!("--experiments 0: at least one must run")
            }
            PacingKind::Lockstep => {
                let threads = self.threads.first().copied().unwrap_or(1);
                let experiments = self.experiments.unwrap_or(256);
                Pacing::LockStep { threads, experiments, anew: self.new_threads }
            }
        })
    }
}
