//! `dnsdyno kxdpgun`: the command line and the output of kxdpgun, over sockets instead of XDP.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use measure::{Nanos, Pacing, Qps, Transport};
use record::request::{Engine, Sockets};
use record::{Trial, of_trial, write_dns_metrics};

use super::data::{self, Data, Form};
use super::{RunningOutput, Sending, connecting, finish, percent, rcodes, source};
use crate::arguments::address::{Family, SourceArg, Target, on_link};
use crate::arguments::number::seconds;
use crate::failure::Failure;
use crate::output::print;

pub(crate) const EXAMPLES: &str = "Example:
  dnsdyno kxdpgun -t 20 -Q 100000 -i queries.txt -p 5300 192.0.2.1

Also by a link of that name: ln -s $(command -v dnsdyno) ~/bin/kxdpgun";

/// Longest time after the last query in which replies count.
const TIMEOUT: Nanos = Nanos::from_secs(1);
/// Octets in front of a DNS message in an Ethernet frame: Ethernet, IPv4 or IPv6, UDP.
const HEADER_LEN: (u64, u64) = (14 + 20 + 8, 14 + 40 + 8);
/// Smallest and largest number of clients of connections; each query has a connection of its own.
const CLIENTS: (u32, u32) = (64, 4_096);

#[derive(Args, Clone, Debug)]
pub(crate) struct KxdpgunArgs {
    /// The server: an address or a name
    #[arg(value_name = "targetIP")]
    target: String,
    /// Duration of the traffic, in seconds
    #[arg(short = 't', long, value_name = "seconds", value_parser = seconds, default_value = "5")]
    duration: Nanos,
    /// Queries a second
    #[arg(short = 'Q', long, value_name = "queries", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
    qps: u32,
    /// The file of the queries
    #[arg(short = 'i', long, value_name = "filename")]
    infile: PathBuf,
    /// The file has binary messages
    #[arg(short = 'B', long)]
    binary: bool,
    /// The port of the server [default: 53, with QUIC 853]
    #[arg(short = 'p', long, value_name = "number", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Send over TCP, a connection for each query
    #[arg(short = 'T', long, value_name = "debug_mode", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    tcp: Option<String>,
    /// Send over QUIC, a connection for each query
    #[arg(short = 'U', long, value_name = "debug_mode", num_args = 0..=1, require_equals = true, default_missing_value = "", conflicts_with = "tcp")]
    quic: Option<String>,
    /// Show no statistics of replies
    #[arg(short = 'r', long)]
    drop: bool,
    /// The source address, or a range of them
    #[arg(short = 'l', long, value_name = "localIP[/prefix]")]
    local: Option<SourceArg>,
    /// The core of the thread: `[start][sSTEP]`
    #[arg(short = 'F', long, value_name = "cpu_spec")]
    affinity: Option<String>,
    /// Print JSON in the schema dns-metrics
    #[arg(short = 'j', long)]
    json: bool,
    /// UDP size of the queries whose line has the flag E or D
    #[arg(short = 'e', long, value_name = "size")]
    edns_size: Option<u16>,
    /// Accepted and ignored: queries leave when they are due
    #[arg(short = 'b', long, value_name = "size")]
    batch: Option<u32>,
    /// Accepted and ignored: the kernel chooses the interface
    #[arg(short = 'I', long, value_name = "interface")]
    interface: Option<String>,
    /// Accepted and ignored: the kernel fills in the addresses of the link
    #[arg(short = 'L', long, alias = "mac-local", value_name = "MAC")]
    local_mac: Option<String>,
    /// Accepted and ignored: the kernel fills in the addresses of the link
    #[arg(short = 'R', long, alias = "mac-remote", value_name = "MAC")]
    remote_mac: Option<String>,
    /// Accepted and ignored: the kernel adds the headers of VLANs
    #[arg(short = 'v', long, value_name = "id")]
    vlan: Option<u16>,
    /// Accepted and ignored: there is no XDP mode
    #[arg(short = 'm', long, value_name = "mode")]
    mode: Option<String>,
    /// Accepted and ignored: there is no log of QUIC
    #[arg(short = 'G', long, value_name = "path")]
    qlog: Option<String>,
    /// Interval at which the answers a second are printed (milliseconds)
    #[arg(short = 'S', long, value_name = "period", value_parser = clap::value_parser!(u64).range(1..))]
    stats_period: Option<u64>,
    /// Print help
    #[arg(short = 'h', long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

pub(crate) fn run(args: &KxdpgunArgs) -> Result<(), Failure> {
    let say = |text: String| eprintln!("Warning: kxdpgun: {text}");
    args.ignored().into_iter().for_each(|text| say(text.to_owned()));
    let sending = args.sending()?;
    let target = sending.target;
    let flagged_size = args.edns_size.unwrap_or(wire::Edns::default().udp_size);
    let form = if args.binary { Form::Binary } else { Form::Flagged { size: flagged_size } };
    let most = sending.longest_message();
    let warn = Box::new(say);
    let runs = sending.runs;
    let data = Data { form, recursion: true, edns: None, key: None, most, runs, warn, texts: None };
    let messages = data::messages(Some(&args.infile), data)?;
    let setup = sending.setup(&messages)?;
    if !args.json {
        let over = args.transport().word().to_uppercase();
        let family = if target.is_ipv4() { "IPv4" } else { "IPv6" };
        print(|out| writeln!(out, "using sockets, threads 1, {family}/{over}, {target}"))?;
    }
    let period = args.stats_period.map(Nanos::from_millis).filter(|_| !args.json);
    let running_output = RunningOutput { interval: period, each: None };
    let (trial, _) = super::run(&setup, running_output, &messages, Some(&args.infile))?;
    if args.json {
        print(|out| write_dns_metrics(&of_trial("kxdpgun", trial), out))?;
    } else {
        finish(&args.statistics(&trial, target), &trial)?;
    }
    messages.check()
}

impl KxdpgunArgs {
    fn transport(&self) -> Transport {
        match (&self.tcp, &self.quic) {
            (Some(_), _) => Transport::Tcp,
            (None, Some(_)) => Transport::Quic,
            (None, None) => Transport::Udp,
        }
    }

    /// Returns a sentence for each option that changes nothing here.
    fn ignored(&self) -> Vec<&'static str> {
        let debug = |mode: &Option<String>| mode.as_deref().is_some_and(|mode| !mode.is_empty());
        let all = [
            (self.batch.is_some(), "-b: queries leave when they are due, not in batches"),
            (
                self.interface.is_some(),
                "-I: the kernel chooses the interface; -l sets the source address",
            ),
            (self.local_mac.is_some(), "-L: the kernel fills in the addresses of the link"),
            (self.remote_mac.is_some(), "-R: the kernel fills in the addresses of the link"),
            (self.vlan.is_some(), "-v: the kernel adds the headers of VLANs"),
            (self.mode.is_some(), "-m: queries leave through sockets, without XDP"),
            (self.qlog.is_some(), "-G: there is no log of QUIC"),
            (debug(&self.tcp) || debug(&self.quic), "a debug mode: connections are completed"),
        ];
        all.into_iter().filter_map(|(given, text)| given.then_some(text)).collect()
    }

    fn sending(&self) -> Result<Sending, Failure> {
        if self.duration == Nanos::ZERO {
            return Err(Failure::input(anyhow!("-t 0: write a duration in seconds, such as 5")));
        }
        let transport = self.transport();
        let port = self.port.unwrap_or(transport.default_port());
        let target = Target::of_host(&self.target).resolve(port, Family::Any);
        let target = target.and_then(|target| on_link(target, self.local));
        let target = target.map_err(Failure::BadInput)?;
        let rate = Qps::new(self.qps.into()).unwrap_or_default();
        let mut connecting = connecting(transport, (self.qps / 10).clamp(CLIENTS.0, CLIENTS.1));
        connecting.queries_per_connection = Some(1);
        let streams = transport != Transport::Udp;
        Ok(Sending {
            target,
            engine: if streams { Engine::Streams(Box::new(connecting)) } else { Engine::Udp },
            pacing: Pacing::Constant { rate },
            duration: self.duration,
            timeout: TIMEOUT,
            sockets: Sockets {
                cpus: self.first_core()?.into_iter().collect(),
                source: source(self.local, target)?,
                ..Sockets::default()
            },
            runs: None,
            most_outstanding: None,
            step: None,
        })
    }

    /// Returns the core of `-F`: the number in front of `s`, or 0.
    fn first_core(&self) -> Result<Option<usize>, Failure> {
        let Some(spec) = &self.affinity else { return Ok(None) };
        let (start, step) = spec.split_once('s').unwrap_or((spec, "1"));
        let start = if start.is_empty() { "0" } else { start };
        match (start.parse(), step.parse::<usize>()) {
            (Ok(start), Ok(_)) => Ok(Some(start)),
            _ => Err(Failure::input(anyhow!("-F {spec}: write a core and a step, such as 0s1"))),
        }
    }

    /// Returns the statistics in kxdpgun's words.
    fn statistics(&self, trial: &Trial, target: SocketAddr) -> String {
        let mut out = String::new();
        let mut line = |text: String| {
            let _ = writeln!(out, "{text}");
        };
        let rate = |count: u64| (count as f64 / trial.sending_s()) as u64;
        let share = |count: u64| percent(count, trial.sent) as u64;
        let received =
            if self.drop { String::new() } else { format!(", received {}", trial.answered) };
        let lost = if trial.lost > 0 { format!(", lost {}", trial.lost) } else { String::new() };
        line(format!("thread#00: sent {}{received}{lost}", trial.sent));
        let of_connections = trial.connections.as_ref().map(|c| {
            let names = match self.transport() {
                Transport::Tcp => ("SYNs:    ", "established:"),
                _ => ("initials:", "handshakes: "),
            };
            (c, names)
        });
        let name = of_connections.map_or("queries: ", |(_, (name, _))| name);
        line(format!("total {name}    {} ({} pps)", trial.sent, rate(trial.sent)));
        if !self.drop && trial.sent > 0 {
            if let Some((c, (_, name))) = of_connections {
                line(format!(
                    "total {name} {} ({} pps) ({}%)",
                    c.established,
                    rate(c.established),
                    share(c.established)
                ));
            }
            line(format!(
                "total replies:     {} ({} pps) ({}%)",
                trial.answered,
                rate(trial.answered),
                share(trial.answered)
            ));
            line(format!(
                "average DNS reply size: {} B",
                trial.octets.replies / trial.answered.max(1)
            ));
            let headers =
                if matches!(target.ip(), IpAddr::V4(_)) { HEADER_LEN.0 } else { HEADER_LEN.1 };
            let bits =
                (trial.octets.replies + headers * trial.answered) as f64 * 8.0 / trial.sending_s();
            line(format!("average Ethernet reply rate: {bits:.0} bps ({:.2} Mbps)", bits / 1e6));
            for (code, count) in rcodes(trial) {
                line(format!(
                    "responded {code}: {:1$}{count}",
                    "",
                    9_usize.saturating_sub(code.len())
                ));
            }
        }
        line(format!("duration: {:.4} s", trial.duration_s));
        out
    }
}
