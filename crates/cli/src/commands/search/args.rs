use std::path::PathBuf;

use clap::Args;
use experiment::{Method, RuleName};
use measure::{Goal, Nanos, OpenPacing, Qps};
use tester::Setup;

use super::over::Axis;
use crate::arguments::OUTPUT;
use crate::arguments::address::NamedTarget;
use crate::arguments::certificate::CertificateArgs;
use crate::arguments::choice::{Choice, choice};
use crate::arguments::engine::EngineArgs;
use crate::arguments::gate::GateArgs;
use crate::arguments::hosts::HostsArgs;
use crate::arguments::keep::KeepArgs;
use crate::arguments::number::{parse_duration, parse_rate_each};
use crate::arguments::quiet::QuietArgs;
use crate::arguments::sockets::SocketArgs;
use crate::arguments::transport::StreamArgs;
use crate::arguments::workload::WorkloadArgs;
use crate::preflight::CheckArgs;

pub(crate) const EXAMPLES: &str = "Examples:
  How many queries a second a server answers, with latency and loss at shares of that
    dnsdyno search 192.0.2.1:53 --queries q.txt

  Two running servers side by side; exit code 3 if the new one is slower by more than 3 %
    dnsdyno search old=127.0.0.1:5300 new=127.0.0.1:5301 --queries q.txt --fail-if 'new < -3%'

  The highest rate without loss, three searches with trials of five seconds
    dnsdyno search [fd00::2]:53 --namespace 10.0.0.0/8 --duration 5s --repeats 3 --json out.json

  The highest rate at which 99 % of the answers come within 5 ms, and at most one in a thousand is lost
    dnsdyno search 192.0.2.1:53 --queries q.txt --goal \"p99 < 5ms, loss < 0.1%\" --max 500k

  How many TLS connections a second, each with a handshake of its own and one query
    dnsdyno search [fd00::2]:853 --transport tls --clients 500 --over connections --queries q.txt --goal 'loss < 1%'

  How many clients over TCP, at 5,000 queries a second together
    dnsdyno search 192.0.2.1 --transport tcp --over clients --rate 5k --queries q.txt --goal 'p99 < 20ms, loss < 0.1%'

  By RFC 8219 against a server on another host, with the certificate of this machine's Tester
    dnsdyno selftest --rate 440k --write-certificate tester.json
    dnsdyno search [2001:db8::53]:53 --rfc8219 --namespace 0.0.0.0/2 --certificate tester.json";

/// Heading of the options about how it is measured.
const SEARCH: &str = "Search";

#[derive(Args, Clone, Debug)]
pub(crate) struct SearchArgs {
    /// The server: an address or a name, with or without :PORT, IPv6 as `[ADDRESS]:PORT`; a name is looked up once
    /// [default port: the transport's]. Its capacity is measured by rounds of closed loops; several servers are compared
    #[arg(required = true, value_name = "[NAME=]TARGET")]
    pub(crate) targets: Vec<NamedTarget>,
    #[command(flatten)]
    pub(crate) workload: WorkloadArgs,
    /// Search by trials instead of rounds: for the highest rate, number of clients, or number of new connections a second. Each of
    /// these options implies `--over rate`: --goal, --also, --rule, --duration-sum, --rfc8219, --start, --min, --max, --resolution,
    /// --repeats, --certificate
    #[arg(help_heading = SEARCH, long, value_parser = choice(&OVER), value_name = "WHAT")]
    pub(crate) over: Option<Axis>,
    /// Queries a second of all clients together in a search over clients [default: 1k]
    #[arg(help_heading = SEARCH, long, value_name = "RATE")]
    pub(crate) rate: Option<Qps>,
    /// Queries a second of each client in a search over clients (2, 1/60: a query a minute)
    #[arg(help_heading = SEARCH, long, value_name = "RATE", value_parser = parse_rate_each, conflicts_with = "rate")]
    pub(crate) rate_per_client: Option<Qps>,
    /// How queries are spaced
    #[arg(help_heading = SEARCH, long, value_parser = choice(&PACING), value_name = "PACING", default_value = "constant")]
    pub(crate) pacing: OpenPacing,
    /// What a trial must reach: `zero-loss`, or bounds such as `p99 < 5ms, loss < 0.1%`; without a bound on loss it allows none
    /// [default: zero-loss]
    #[arg(help_heading = SEARCH, long, value_name = "GOAL")]
    pub(crate) goal: Option<Goal>,
    /// A further goal that the rule mlrsearch seeks in the same search; may be repeated
    #[arg(help_heading = SEARCH, long, value_name = "GOAL")]
    pub(crate) also: Vec<Goal>,
    /// How a rate is decided: by one trial (rfc8219) or by many short ones (mlrsearch) [default: mlrsearch; over clients and
    /// connections rfc8219]
    #[arg(help_heading = SEARCH, long, value_name = "RULE")]
    pub(crate) rule: Option<RuleName>,
    /// Sum of the trials that decide a rate under mlrsearch [default: five trials]
    #[arg(help_heading = SEARCH, long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) duration_sum: Option<Nanos>,
    /// RFC 8219 section 9: trials of 60 s, 1 s timeout, zero loss, 20 searches, no name twice
    #[arg(help_heading = SEARCH, long, conflicts_with_all = ["over", "pacing", "transport", "transports", "clients", "goal", "also", "rule", "duration_sum", "duration", "timeout", "repeats"])]
    pub(crate) rfc8219: bool,
    /// Largest number of rounds of a capacity; no time limits them [default: 24, in about ten seconds for each server]
    #[arg(help_heading = SEARCH, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: Option<u32>,
    #[command(flatten, next_help_heading = SEARCH)]
    pub(crate) gate: GateArgs,
    /// The rate of the first trial [default: near what closed loops get], or its clients [default: 16] or connections a second
    /// [default: 100]
    #[arg(help_heading = SEARCH, long, value_name = "RATE")]
    pub(crate) start: Option<Qps>,
    /// The lowest rate of a trial, or the fewest clients or connections [default: 1k; 1; 10]
    #[arg(help_heading = SEARCH, long, value_name = "RATE")]
    pub(crate) min: Option<Qps>,
    /// The highest rate of a trial, or the most clients or connections [default: 2M; 20k; 100k]
    #[arg(help_heading = SEARCH, long, value_name = "RATE")]
    pub(crate) max: Option<Qps>,
    /// Width of the interval at which a search ends, as a share of the rate [default: 0.02]
    #[arg(help_heading = SEARCH, long, value_name = "SHARE")]
    pub(crate) resolution: Option<f64>,
    /// How long a trial sends [default: 10s; a round of a capacity 500ms]
    #[arg(help_heading = SEARCH, short = 'l', long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) duration: Option<Nanos>,
    /// Timeout of a query: a later reply does not count
    #[arg(help_heading = SEARCH, short = 't', long, value_name = "TIME", value_parser = parse_duration, default_value = "1s")]
    pub(crate) timeout: Nanos,
    /// Number of searches [default: 5]
    #[arg(help_heading = SEARCH, long, value_name = "N")]
    pub(crate) repeats: Option<u32>,
    /// Write the result with every trial to this file (- for the standard output)
    #[arg(help_heading = OUTPUT, long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    #[command(flatten, next_help_heading = SEARCH)]
    pub(crate) check: CheckArgs,
    #[command(flatten, next_help_heading = OUTPUT)]
    pub(crate) certificate: CertificateArgs,
    #[command(flatten, next_help_heading = OUTPUT)]
    pub(crate) keep: KeepArgs,
    #[command(flatten, next_help_heading = OUTPUT)]
    pub(crate) quiet: QuietArgs,
    #[command(flatten)]
    pub(crate) hosts: HostsArgs,
    #[command(flatten)]
    pub(crate) streams: StreamArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    #[command(flatten)]
    pub(crate) sockets: SocketArgs,
}

impl SearchArgs {
    pub(crate) fn over(&self) -> Axis {
        self.over.unwrap_or_default()
    }

    /// Returns the method: rounds of closed loops, or a search if one of its options is given.
    ///
    /// # Errors
    /// If options of both are given.
    pub(crate) fn method(&self) -> anyhow::Result<Method> {
        let of_search = [
            (self.over.is_some(), "--over"),
            (self.goal.is_some(), "--goal"),
            (!self.also.is_empty(), "--also"),
            (self.rule.is_some(), "--rule"),
            (self.duration_sum.is_some(), "--duration-sum"),
            (self.rfc8219, "--rfc8219"),
            (self.rate.is_some(), "--rate"),
            (self.start.is_some(), "--start"),
            (self.min.is_some(), "--min"),
            (self.max.is_some(), "--max"),
            (self.resolution.is_some(), "--resolution"),
            (self.repeats.is_some(), "--repeats"),
            (self.certificate.certificate.is_some(), "--certificate"),
        ];
        let of_rounds = [
            (self.targets.len() > 1, "several servers"),
            (self.rounds.is_some(), "--rounds"),
            (self.gate.baseline.is_some(), "--baseline"),
            (!self.gate.fail_if.is_empty(), "--fail-if"),
        ];
        let given = |all: &[(bool, &'static str)]| {
            all.iter().find(|option| option.0).map(|option| option.1)
        };
        match (given(&of_search), given(&of_rounds)) {
            (None, _) => Ok(Method::Capacity),
            (Some(_), None) => Ok(Method::Search),
            (Some(search), Some(rounds)) => anyhow::bail!(
                "{search} requires a search of one server, {rounds} requires a capacity by rounds: leave one of them out"
            ),
        }
    }

    /// Returns the name of each server in results: the given one, or its address.
    ///
    /// # Errors
    /// If two servers have the same name.
    pub(crate) fn names(&self, setups: &[Setup]) -> anyhow::Result<Vec<String>> {
        let mut names = Vec::new();
        for (NamedTarget { name, .. }, setup) in self.targets.iter().zip(setups) {
            let name = name.clone().unwrap_or_else(|| setup.request().target.to_string());
            if names.contains(&name) {
                anyhow::bail!("two servers are called {name}; write NAME=TARGET");
            }
            names.push(name);
        }
        Ok(names)
    }
}

const OVER: [Choice<Axis>; 3] = [
    ("rate", "Queries a second", Axis::Rate),
    ("clients", "The number of clients, each at the same rate", Axis::Clients),
    ("connections", "The number of new connections a second", Axis::Connections),
];

const PACING: [Choice<OpenPacing>; 2] = [
    ("constant", "Evenly", OpenPacing::Constant),
    ("poisson", "The gaps are exponential", OpenPacing::Poisson),
];
