//! The command line as it is written. [`crate::options`] makes sense of it.

use std::net::SocketAddr;
use std::path::PathBuf;

use auth::{Capacity, FaultSpec, Late, Latency, Stall};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use experiment::{Custom, Rule};
use ipnet::IpNet;
use lab::CpuList;
use measure::{Goal, Link, Nanos, Pacing, Path as WirePath, Qps, Transport};
use wire::{Ipv4Prefix, Name, Pref64, Qtype};

use record::request::{Close, Expect, Gso, HttpMethod, Pick, TlsVersion, TransportShare, WaitFor};

use crate::keep::KeepArgs;
use crate::options::{Target, parse_source, parse_target};
use crate::store::{RunRef, StoreArgs};

/// A dynamometer for DNS servers: how fast is it, how sure are you, and what limited it?
#[derive(Debug, Parser)]
#[command(name = "dnsdyno", version, propagate_version = true, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Load a server once, and say what became of the queries
    #[command(after_help = LOAD_EXAMPLES)]
    Load(Box<LoadArgs>),
    /// Find the highest rate at which a server meets a goal
    #[command(after_help = SEARCH_EXAMPLES)]
    Search(Box<SearchArgs>),
    /// Test the Tester itself: the Measurer against our AuthDNS (RFC 8219 section 9.2)
    #[command(after_help = SELFTEST_EXAMPLES)]
    Selftest(Box<SelftestArgs>),
    /// Serve synthetic zones: every answer is computed from the name
    #[command(after_help = AUTH_EXAMPLES)]
    Auth(Box<AuthArgs>),
    /// Run an experiment in the lab: real servers in network namespaces, no root needed
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// List the servers that the lab can drive, and what of them is installed
    Servers(crate::servers::ServersArgs),
    /// What this host is, how fast its parts are, and what spoils measurements on it
    #[command(after_help = crate::fingerprint::EXAMPLES)]
    Host(crate::fingerprint::HostArgs),
    /// List the runs that are kept
    Runs(crate::runs::RunsArgs),
    /// Show a run that is kept
    Show(crate::runs::ShowArgs),
    /// Write a run as JSON, as a table, or in the schema that tools of the field share
    #[command(after_help = crate::runs::EXPORT_EXAMPLES)]
    Export(crate::runs::ExportArgs),
    /// Compare two runs: faster, slower, or no difference shown
    #[command(after_help = crate::compare::NOTES)]
    Compare(crate::compare::CompareArgs),
    /// Delete runs
    Delete(crate::runs::DeleteArgs),
    /// Make streams of dynamic updates, send them, look them up
    #[command(after_help = crate::update::EXAMPLES)]
    Update(Box<crate::update::UpdateArgs>),
    /// Make zone files, cut them, count them, sign them
    #[command(after_help = crate::zone::EXAMPLES)]
    Zone(Box<crate::zone::ZoneArgs>),
    /// Captures of DNS traffic: characterise, filter, turn into queries
    Trace(Box<crate::trace::TraceArgs>),
    /// Write runs as one HTML page that needs no network
    #[command(after_help = crate::report_page::REPORT_EXAMPLES)]
    Report(crate::report_page::ReportArgs),
    /// Run the trial that is requested as JSON on standard input
    #[command(name = lab::MEASURE_COMMAND, hide = true)]
    Measure {
        /// The file for the result
        result: PathBuf,
    },
    /// Write the man pages into a folder
    #[command(hide = true)]
    Man {
        /// The folder; it is made if need be
        dir: PathBuf,
    },
}

const LOAD_EXAMPLES: &str = "Examples:
  A closed loop, as dnsperf does it: 512 queries outstanding, from a file, for five seconds
    dnsdyno load 10.9.0.2:5300 --queries q.txt --pacing window --window 512 --duration 5s --cpus 0

  An open loop against a DNS64 server: 100,000 queries a second, each for another name, each reply checked
    dnsdyno load [fd00::2]:53 --namespace 10.0.0.0/12 --type AAAA --rate 100k --duration 5s \\
        --expect-pref64 2001:db8:64::/96 --json out.json

  TLS: 16 clients that open a new connection every 100 queries, sessions resumed
    dnsdyno load [fd00::2]:853 --transport tls --clients 16 --queries-per-connection 100 --resume \\
        --queries q.txt --pacing window --window 64

  dnsdyno says what limited the result. A trial whose schedule was not kept is void: exit code 1.";

const SEARCH_EXAMPLES: &str = "Examples:
  The highest rate without loss, three searches with trials of five seconds
    dnsdyno search [fd00::2]:53 --namespace 10.0.0.0/8 --duration 5s --repeats 3 --json out.json

  The highest rate at which 99 % of the answers come within 5 ms, and at most one in a thousand is lost
    dnsdyno search 192.0.2.1:53 --queries q.txt --goal \"p99 < 5ms, loss < 0.1%\" --max 500k";

const SELFTEST_EXAMPLES: &str = "Examples:
  Can this machine's Tester do a million queries a second? (Measurer on core 0, AuthDNS on core 1)
    dnsdyno selftest --rate 1M --duration 60s --json out.json

  The same against an AuthDNS on another host
    dnsdyno selftest --rate 500k --target 10.9.2.2:5300";

const AUTH_EXAMPLES: &str = "Examples:
  An AuthDNS for the names of 10.0.0.0/8, on core 1
    dnsdyno auth --listen 10.9.0.2:5353 --namespace 10.0.0.0/8 --cpus 1

  A bad one, to try a DNS64 server or a Tester on: slow, lossy, and one answer in a hundred is a lie
    dnsdyno auth --listen [::1]:5353 --delay 20ms --loss 0.001 --fault wrong-address:0.01

  One of a known capacity, to see whether a Tester finds 20,000 queries a second: 20,000 answers a second, 200 at once
    dnsdyno auth --listen [::1]:5353 --aaaa always --capacity 20k

  One that stalls for 50 ms every 5 s, and one with two latencies: nine answers in ten after 0.2 ms, the tenth after 20 ms
    dnsdyno auth --listen [::1]:5353 --stall 50ms/5s
    dnsdyno auth --listen [::1]:5353 --latency bimodal:0.9:0.2ms:20ms

  Answers that come twice (one in a hundred) or after the timeout of the Tester (one in a thousand)
    dnsdyno auth --listen [::1]:5353 --duplicate 0.01 --late 0.001:2s";

const RUN_EXAMPLES: &str = "Examples:
  The DNS64 servers of this machine, measured the RFC 8219 way in short form
    dnsdyno run experiments/dns64-rfc8219.toml --quick

  One of them in full (hours), with every trial in a file
    dnsdyno run dns64-rfc8219 --servers unbound --json unbound.json

  The last one was killed: what it had done is kept, the rest is done
    dnsdyno run --resume last

  What there is, and what one of them would do
    dnsdyno run --list
    dnsdyno run auth-scaling --dry-run";

/// What is asked, and what the answers must say.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Workload")]
pub(crate) struct WorkloadArgs {
    /// Ask for the dns64perf names of this IPv4 prefix, each once, in a seeded order [default: 10.0.0.0/8]
    #[arg(long, value_name = "PREFIX", group = "workload")]
    pub(crate) namespace: Option<Ipv4Prefix>,
    /// Ask the queries of this file (`name type` a line, as dnsperf and queryperf read it), again and again
    #[arg(long, value_name = "FILE", group = "workload")]
    pub(crate) queries: Option<PathBuf>,
    /// Ask the same name each time
    #[arg(long, value_name = "NAME", group = "workload")]
    pub(crate) name: Option<Name>,
    /// Ask for random names below this zone
    #[arg(long, value_name = "ZONE", group = "workload")]
    pub(crate) random_subdomain: Option<Name>,
    /// Ask for names n<k> of this zone by Zipf's law, with --mix-repeats and --mix-missing
    #[arg(long, value_name = "ZONE", group = "workload")]
    pub(crate) mix: Option<Name>,
    /// Popular names of a mix
    #[arg(long, value_name = "N", default_value_t = 10_000, requires = "mix")]
    pub(crate) mix_names: u32,
    /// Zipf's exponent of a mix
    #[arg(long, value_name = "S", default_value_t = 1.0, requires = "mix")]
    pub(crate) mix_exponent: f64,
    /// Share (0 to 1) of a mix's queries that repeat popular names
    #[arg(long, value_name = "SHARE", default_value_t = 0.8, requires = "mix")]
    pub(crate) mix_repeats: f64,
    /// Share (0 to 1) of a mix's queries for names that do not exist (below nx.ZONE)
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, requires = "mix")]
    pub(crate) mix_missing: f64,
    /// The zone of the namespace
    #[arg(long, value_name = "ZONE", default_value = "dns64perf.test")]
    pub(crate) zone: Name,
    /// The type asked for [default: AAAA; a file says its own]
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) qtype: Option<Qtype>,
    /// Namespace replies must hold the name's address embedded in this prefix
    #[arg(long, value_name = "PREF64")]
    pub(crate) expect_pref64: Option<Pref64>,
    /// What other replies must say [default: the address for A of a namespace, else answered]
    #[arg(long, value_enum, value_name = "WHAT", conflicts_with = "expect_pref64")]
    pub(crate) expect: Option<ExpectArg>,
    /// The first name of the namespace to use
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) first_name: u64,
    /// How many names from there on may be used [default: all]
    #[arg(long, value_name = "N")]
    pub(crate) names: Option<u64>,
    /// Begin again with the first name when all were used
    #[arg(long)]
    pub(crate) reuse_names: bool,
    /// Share (0 to 1) of queries that ask for names of the namespace asked before
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub(crate) repeat_share: f64,
    /// From so many names these are taken, evenly
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub(crate) repeat_names: u64,
    /// Do not set the RD bit
    #[arg(long)]
    pub(crate) no_recursion: bool,
    /// Send EDNS(0) with this UDP size
    #[arg(long, value_name = "BYTES", num_args = 0..=1, default_missing_value = "1232")]
    pub(crate) edns: Option<u16>,
    /// Send EDNS(0) with the DO bit
    #[arg(long)]
    pub(crate) dnssec: bool,
    /// Send this EDNS option (CODE or CODE:HEX); may be repeated
    #[arg(long, value_name = "CODE:HEX")]
    pub(crate) edns_option: Vec<String>,
    /// Seed of everything that looks random
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}

/// What a reply must say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExpectArg {
    /// NOERROR or NXDOMAIN
    Answered,
    /// NOERROR
    Noerror,
    /// Any AAAA record
    Aaaa,
    /// NOERROR without an answer
    Nodata,
    /// NXDOMAIN
    Nxdomain,
}

/// How queries leave and replies come in.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Sockets and threads")]
pub(crate) struct SocketArgs {
    /// Cores of the Measurer, a worker on each (0, 0,2 or 0-3) [default: one worker on any core]
    #[arg(long, value_name = "LIST")]
    pub(crate) cpus: Option<CpuList>,
    /// Source ports over all workers [default: as many as rate and timeout need]
    #[arg(long, visible_alias = "ports", value_name = "N")]
    pub(crate) sockets: Option<u16>,
    /// Source address, or a prefix whose addresses are used in turn
    #[arg(long, value_name = "PREFIX", value_parser = parse_source)]
    pub(crate) source: Option<IpNet>,
    /// How workers wait: spin has the best times and takes a whole core, yield and sleep suit a shared core
    #[arg(long, value_enum, value_name = "MODE", default_value = "auto")]
    pub(crate) wait: WaitArg,
    /// A due query may be held back so long, to leave together with others (microseconds)
    #[arg(long, value_name = "US", default_value_t = 50)]
    pub(crate) max_burst_us: u64,
    /// Send queries that leave together as one segmented message (UDP_SEGMENT), which a server on this host receives
    /// as one; auto: in closed loops and searches, and above 150,000 queries a second and worker
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    pub(crate) gso: GsoArg,
    /// Receive each datagram by itself (no UDP_GRO)
    #[arg(long)]
    pub(crate) no_gro: bool,
    /// Take the clock after receiving instead of the kernel's stamps
    #[arg(long)]
    pub(crate) no_timestamps: bool,
    /// Bytes of receive and send buffer of each socket
    #[arg(long, value_name = "BYTES", default_value_t = 16 << 20)]
    pub(crate) buffer: usize,
    /// The AuthDNS shares the Measurer's core by design: its share of it is not starvation
    #[arg(long)]
    pub(crate) shared_core: bool,
}

/// When queries leave as segmented messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GsoArg {
    /// Where the rate needs it
    Auto,
    /// Always
    On,
    /// Never
    Off,
}

/// How workers wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WaitArg {
    /// Never sleep
    Spin,
    /// Never sleep, but let others have the core whenever they want it
    Yield,
    /// Always sleep
    Sleep,
    /// Sleep through long waits, spin through the last microseconds; in closed loops sleep
    Auto,
}

/// `dnsdyno load`
#[derive(Args, Clone, Debug)]
pub(crate) struct LoadArgs {
    /// The server: ADDRESS or ADDRESS:PORT, IPv6 as [ADDRESS]:PORT [default port: the transport's]
    pub(crate) target: Target,
    /// When queries leave: a word, with its numbers in further arguments, or all in one: 'constant 20k', 'poisson 20k',
    /// 'ramp 1k..20k', 'window 256', 'lockstep 4x256'
    #[arg(long, value_parser = PacingParser, value_name = "PACING", default_value = "constant")]
    pub(crate) pacing: PacingArg,
    /// Rate of constant and poisson pacing, queries per second (500, 100k, 1.5M) [default: 1k]
    #[arg(long, value_name = "RATE")]
    pub(crate) rate: Option<Qps>,
    /// First rate of a ramp
    #[arg(long, value_name = "RATE")]
    pub(crate) from: Option<Qps>,
    /// Last rate of a ramp
    #[arg(long, value_name = "RATE")]
    pub(crate) to: Option<Qps>,
    /// Queries outstanding in a window, over all workers
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) window: u32,
    /// Lanes of a lock-step load, a run for each number given (1,2,4,8,16)
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1")]
    pub(crate) threads: Vec<u32>,
    /// Experiments of a lock-step load, 256 queries each
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub(crate) experiments: u32,
    /// Cores whose use a lock-step table shows [default: all of this host]
    #[arg(long, value_name = "LIST")]
    pub(crate) dut_cpus: Option<CpuList>,
    /// How long to send (5s, 250ms, 1m)
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub(crate) duration: Nanos,
    /// A reply counts when it comes within this time
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub(crate) timeout: Nanos,
    /// Judge the trial by this goal, and end it when it is missed for certain
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
    pub(crate) replay: crate::replay::ReplayArgs,
    #[command(flatten)]
    pub(crate) workload: WorkloadArgs,
    #[command(flatten)]
    pub(crate) sockets: SocketArgs,
}

/// What carries the queries, and how connections come and go.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Transport")]
pub(crate) struct StreamArgs {
    /// What carries the queries
    #[arg(long, value_parser = transport_parser(), value_name = "TRANSPORT", default_value = "udp")]
    pub(crate) transport: Transport,
    /// Clients of several transports at once: TRANSPORT=SHARE or TRANSPORT:PORT=SHARE, separated by commas
    /// (udp=6,tcp=1,tls=3); without a PORT the target's for udp and tcp, else the transport's own
    #[arg(long, value_name = "LIST", conflicts_with = "transport")]
    pub(crate) transports: Option<MixArg>,
    /// Clients; each has one connection at a time, or over UDP a port [default: 8]
    #[arg(long, value_name = "N")]
    pub(crate) clients: Option<u32>,
    /// Close a connection after so many queries, and open another [default: never]
    #[arg(long, value_name = "N")]
    pub(crate) queries_per_connection: Option<u64>,
    /// Queries outstanding on a connection at most [default: its share of the window; open loop: 32 to 1024]
    #[arg(long, value_name = "N")]
    pub(crate) outstanding: Option<u32>,
    /// Connections opened a second at most
    #[arg(long, value_name = "RATE")]
    pub(crate) connection_rate: Option<Qps>,
    /// Connections being opened at once, at most
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub(crate) opening: u32,
    /// Open a connection when a query needs it, not all before the trial
    #[arg(long)]
    pub(crate) on_demand: bool,
    /// A connection must be up within this time, its TLS handshake included
    #[arg(long, value_name = "TIME", default_value = "5s")]
    pub(crate) connect_timeout: Nanos,
    /// How connections are closed: fin leaves a port waiting for a minute (TIME_WAIT), reset does not
    #[arg(long, value_enum, value_name = "HOW", default_value = "fin")]
    pub(crate) close: CloseArg,
    /// A reply longer than this ends its connection (bytes)
    #[arg(long, value_name = "BYTES", default_value_t = 65_535)]
    pub(crate) max_reply: u16,
    /// TCP Fast Open: the first query travels with the SYN once the kernel has a cookie
    #[arg(long)]
    pub(crate) fast_open: bool,
    /// How HTTP carries queries [default: post]
    #[arg(long, value_enum, value_name = "METHOD")]
    pub(crate) http_method: Option<HttpMethodArg>,
    /// Where HTTP requests go [default: /dns-query]
    #[arg(long, value_name = "PATH")]
    pub(crate) http_path: Option<String>,
    /// The name sent (SNI) and verified [default: the target's address]
    #[arg(long, value_name = "NAME")]
    pub(crate) tls_name: Option<String>,
    /// Believe certificates of these authorities only (PEM) [default: believe all]
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Speak this version of TLS only
    #[arg(long, value_enum, value_name = "VERSION")]
    pub(crate) tls_version: Option<TlsVersionArg>,
    /// Application protocols offered, separated by commas; empty for none [default: the transport's]
    #[arg(long, value_name = "LIST")]
    pub(crate) alpn: Option<String>,
    /// Whose queries come next: all clients in turn, or any client by chance, each a Poisson process in a Poisson load
    #[arg(long, value_enum, value_name = "HOW")]
    pub(crate) pick: Option<PickArg>,
    /// A connection without a query for so long is closed; its client opens another for its next
    #[arg(long, value_name = "TIME")]
    pub(crate) close_idle: Option<Nanos>,
    /// Each client sends a DNS cookie of its own (RFC 7873)
    #[arg(long)]
    pub(crate) cookies: bool,
    /// Each client asks for a network of its own by EDNS client subnet, from this prefix on, /24 or /56 each
    #[arg(long, value_name = "PREFIX", value_parser = parse_source)]
    pub(crate) subnets: Option<IpNet>,
    /// Ask how long a connection may be kept without a query (RFC 7828)
    #[arg(long)]
    pub(crate) keepalive: bool,
    /// Pad queries to a multiple of so many bytes (RFC 7830, RFC 8467)
    #[arg(long, value_name = "BYTES", num_args = 0..=1, default_missing_value = "128")]
    pub(crate) pad: Option<u16>,
    /// Begin connections (over UDP each datagram) with the PROXY protocol, version 2, for clients of this prefix in turn
    #[arg(long, value_name = "PREFIX", value_parser = parse_source)]
    pub(crate) proxy: Option<IpNet>,
    /// Say the PROXY protocol's header within TLS, as dnsdist expects it by default, not in front of it
    #[arg(long, requires = "proxy")]
    pub(crate) proxy_within_tls: bool,
    /// Resume TLS sessions of earlier connections
    #[arg(long)]
    pub(crate) resume: bool,
    /// Send queries with the handshake of a resumed session (0-RTT); implies --resume
    #[arg(long)]
    pub(crate) early_data: bool,
}

impl StreamArgs {
    /// The first flag given that is about TLS.
    pub(crate) fn first_tls_flag(&self) -> Option<&'static str> {
        [
            (self.tls_name.is_some(), "--tls-name"),
            (self.ca.is_some(), "--ca"),
            (self.tls_version.is_some(), "--tls-version"),
            (self.alpn.is_some(), "--alpn"),
            (self.resume, "--resume"),
            (self.early_data, "--early-data"),
            (self.proxy_within_tls, "--proxy-within-tls"),
        ]
        .into_iter()
        .find_map(|(given, flag)| given.then_some(flag))
    }

    /// The first flag given that is about HTTP.
    pub(crate) fn first_http_flag(&self) -> Option<&'static str> {
        [(self.http_method.is_some(), "--http-method"), (self.http_path.is_some(), "--http-path")]
            .into_iter()
            .find_map(|(given, flag)| given.then_some(flag))
    }

    /// Whether clients are wanted that are told apart, as connections are.
    pub(crate) fn wants_clients(&self) -> bool {
        self.clients.is_some()
            || self.queries_per_connection.is_some()
            || self.outstanding.is_some()
            || self.connection_rate.is_some()
            || self.on_demand
            || self.pick.is_some()
            || self.close_idle.is_some()
            || self.cookies
            || self.subnets.is_some()
            || self.keepalive
            || self.pad.is_some()
            || self.proxy.is_some()
    }

    /// The transports, each with its port where that is not the target's and its share of the clients.
    pub(crate) fn parts(&self) -> Vec<TransportShare> {
        self.transports.clone().map_or_else(
            || vec![TransportShare { transport: self.transport, port: None, share: 1 }],
            |mix| mix.0,
        )
    }

    /// The target's port where none is given.
    pub(crate) fn port(&self) -> u16 {
        if self.transports.is_some() { Transport::Udp } else { self.transport }.default_port()
    }
}

/// A mix of transports: each once at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MixArg(pub(crate) Vec<TransportShare>);

impl std::str::FromStr for MixArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts: Vec<TransportShare> = Vec::new();
        for part in text.split(',') {
            let wrong = || {
                format!("`{part}` is no TRANSPORT=SHARE or TRANSPORT:PORT=SHARE, as in tls:8853=3")
            };
            let (name, share) = part.split_once('=').ok_or_else(wrong)?;
            let share = share.parse().ok().filter(|share| (1..=1_000).contains(share));
            let share = share
                .ok_or_else(|| format!("the share of `{part}` is no number from 1 to 1000"))?;
            let (name, port) = match name.split_once(':') {
                None => (name, None),
                Some((name, port)) => (name, Some(port.parse().map_err(|_| wrong())?)),
            };
            let transport: Transport = name
                .parse()
                .map_err(|_| format!("`{name}` is no transport: {}", Transport::words(|_| true)))?;
            if parts.iter().any(|other| other.transport == transport) {
                return Err(format!("{name} is there twice"));
            }
            // The target's port is that of plain DNS.
            let plain = transport.default_port() == Transport::Udp.default_port();
            let port = port.or((!plain).then(|| transport.default_port()));
            parts.push(TransportShare { transport, port, share });
        }
        if parts.iter().map(|part| part.share).sum::<u32>() > 1_000 {
            return Err("the shares are more than 1000 together".to_owned());
        }
        Ok(MixArg(parts))
    }
}

/// Reads a transport; the help lists all of them.
fn transport_parser() -> impl TypedValueParser<Value = Transport> {
    let value = |t: Transport| PossibleValue::new(t.word()).help(t.title());
    PossibleValuesParser::new(Transport::ALL.map(value)).try_map(|word| word.parse::<Transport>())
}

/// Whose queries come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PickArg {
    /// That of the client whose turn it is
    Turn,
    /// Any client's
    Chance,
}

/// How HTTP carries queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HttpMethodArg {
    /// In the URI
    Get,
    /// In the body
    Post,
}

/// How connections are closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CloseArg {
    /// In an orderly way
    Fin,
    /// With a reset
    Reset,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TlsVersionArg {
    /// TLS 1.2
    #[value(name = "1.2")]
    V12,
    /// TLS 1.3
    #[value(name = "1.3")]
    V13,
}

/// When queries leave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum PacingArg {
    /// Only its kind; numbers are in other arguments.
    Kind(PacingKind),
    /// All of it.
    Whole(Pacing),
}

/// Reads a [`PacingArg`].
#[derive(Clone, Debug)]
struct PacingParser;

impl TypedValueParser for PacingParser {
    type Value = PacingArg;

    fn parse_ref(
        &self,
        cmd: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<PacingArg, clap::Error> {
        let text = value.to_string_lossy();
        if let Ok(kind) = <PacingKind as ValueEnum>::from_str(&text, false) {
            return Ok(PacingArg::Kind(kind));
        }
        let whole = |text: &str| text.parse::<Pacing>().map(PacingArg::Whole);
        TypedValueParser::parse_ref(&whole, cmd, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(PacingKind::value_variants().iter().filter_map(ValueEnum::to_possible_value)))
    }
}

/// When queries leave, without numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PacingKind {
    /// Open loop, even
    Constant,
    /// Open loop, exponential gaps
    Poisson,
    /// Open loop, from one rate to another
    Ramp,
    /// Closed loop, so many outstanding (dnsperf)
    Window,
    /// Closed loop, lanes that ask one query after the other (dns64perf)
    Lockstep,
}

/// `dnsdyno search`
#[derive(Args, Clone, Debug)]
pub(crate) struct SearchArgs {
    /// The server: ADDRESS or ADDRESS:PORT, IPv6 as [ADDRESS]:PORT
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
    pub(crate) rule: Rule,
    /// Sum of the trials that decide a rate under mlrsearch [default: five trials]
    #[arg(long, value_name = "TIME")]
    pub(crate) duration_sum: Option<Nanos>,
    /// RFC 8219 section 9: trials of 60 s, 1 s timeout, zero loss, 20 searches, no name twice
    #[arg(long, conflicts_with_all = ["goal", "also", "rule", "duration_sum", "duration", "timeout", "repeats"])]
    pub(crate) rfc8219: bool,
    /// The first rate tried
    #[arg(long, value_name = "RATE", default_value = "10k")]
    pub(crate) start: Qps,
    /// No rate below this is tried
    #[arg(long, value_name = "RATE", default_value = "1k")]
    pub(crate) min: Qps,
    /// No rate above this is tried
    #[arg(long, value_name = "RATE", default_value = "2M")]
    pub(crate) max: Qps,
    /// The width of the bracket at the end, as a share of the rate
    #[arg(long, value_name = "SHARE", default_value_t = 0.02)]
    pub(crate) resolution: f64,
    /// How long a trial sends
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub(crate) duration: Nanos,
    /// A reply counts when it comes within this time
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub(crate) timeout: Nanos,
    /// How many searches
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) repeats: u32,
    /// Write the result with every trial to this file (- for the standard output)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) keep: KeepArgs,
    #[command(flatten)]
    pub(crate) workload: WorkloadArgs,
    #[command(flatten)]
    pub(crate) sockets: SocketArgs,
}

/// `dnsdyno selftest`
#[derive(Args, Clone, Debug)]
pub(crate) struct SelftestArgs {
    /// The rate of the self-test; it certifies the Tester for a 2.2th of it
    #[arg(long, value_name = "RATE", default_value = "100k")]
    pub(crate) rate: Qps,
    /// How long to send
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub(crate) duration: Nanos,
    /// A reply counts when it comes within this time: a quarter of the timeout of the servers to be judged
    #[arg(long, value_name = "TIME", default_value = "250ms")]
    pub(crate) timeout: Nanos,
    /// Ask this AuthDNS (started with --aaaa always) instead of one in this process
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = parse_target)]
    pub(crate) target: Option<SocketAddr>,
    /// The names asked
    #[arg(long, value_name = "PREFIX", default_value = "0.0.0.0/2")]
    pub(crate) namespace: Ipv4Prefix,
    /// The prefix of the answers
    #[arg(long, value_name = "PREF64", default_value = "2001:db8:64::/96")]
    pub(crate) pref64: Pref64,
    /// Cores of the AuthDNS, a worker on each [default: the last of this host]
    #[arg(long, value_name = "LIST")]
    pub(crate) auth_cpus: Option<CpuList>,
    /// Write the result to this file (- for the standard output)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) sockets: SocketArgs,
}

/// `dnsdyno auth`
#[derive(Args, Clone, Debug)]
#[command(group = clap::ArgGroup::new("private").multiple(true))]
pub(crate) struct AuthArgs {
    /// Where to listen, UDP and TCP: ADDRESS:PORT; may be repeated
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = parse_target, default_value = "[::1]:5353")]
    pub(crate) listen: Vec<SocketAddr>,
    /// Where to speak TLS as well: ADDRESS:PORT; may be repeated
    #[arg(long, value_name = "ADDRESS:PORT", group = "private")]
    pub(crate) tls: Vec<SocketAddr>,
    /// Where to speak HTTPS as well, HTTP/2 over TCP and HTTP/3 over UDP: ADDRESS:PORT; may be repeated
    #[arg(long, value_name = "ADDRESS:PORT", group = "private")]
    pub(crate) https: Vec<SocketAddr>,
    /// Where to speak QUIC as well: ADDRESS:PORT; may be repeated
    #[arg(long, value_name = "ADDRESS:PORT", group = "private")]
    pub(crate) quic: Vec<SocketAddr>,
    /// The certificate (chain) shown, PEM [default: one of an authority made at the start]
    #[arg(long, value_name = "FILE", requires = "private", requires = "tls_key")]
    pub(crate) tls_certificate: Option<PathBuf>,
    /// Its key, PEM
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Write ca.pem, server.pem and server.key of the authority made at the start into this folder
    #[arg(long, value_name = "DIR", requires = "private", conflicts_with = "tls_certificate")]
    pub(crate) tls_write: Option<PathBuf>,
    /// Take queries that come with the TLS handshake of a resumed session (0-RTT)
    #[arg(long, requires = "private")]
    pub(crate) tls_early_data: bool,
    /// The names: those of this IPv4 prefix
    #[arg(long, value_name = "PREFIX", default_value = "10.0.0.0/8")]
    pub(crate) namespace: Ipv4Prefix,
    /// The zone they lie in
    #[arg(long, value_name = "ZONE", default_value = "dns64perf.test")]
    pub(crate) zone: Name,
    /// Which names have AAAA records
    #[arg(
        long,
        value_enum,
        value_name = "WHICH",
        default_value = "never",
        conflicts_with = "aaaa_share"
    )]
    pub(crate) aaaa: AaaaArg,
    /// This share (0 to 1) of names has AAAA records, by a hash of the name
    #[arg(long, value_name = "SHARE")]
    pub(crate) aaaa_share: Option<f64>,
    /// AAAA records are this prefix and the IPv4 address
    #[arg(long, value_name = "PREF64", default_value = "2001:db8:64::/96")]
    pub(crate) pref64: Pref64,
    /// TTL of answers, seconds
    #[arg(long, value_name = "S", default_value_t = 3_600)]
    pub(crate) ttl: u32,
    /// The SOA's MINIMUM, seconds
    #[arg(long, value_name = "S", default_value_t = 300)]
    pub(crate) negative_ttl: u32,
    /// The SOA's own TTL, seconds
    #[arg(long, value_name = "S", default_value_t = 3_600)]
    pub(crate) soa_ttl: u32,
    /// Hold every reply back so long (UDP)
    #[arg(long, value_name = "TIME", default_value = "0s")]
    pub(crate) delay: Nanos,
    /// Delay replies by a known distribution (UDP): bimodal:SHARE:LOW:HIGH delays a share (0 to 1) by the time LOW and
    /// the others by HIGH
    #[arg(long, value_name = "bimodal:SHARE:LOW:HIGH", conflicts_with = "delay")]
    pub(crate) latency: Option<Latency>,
    /// Send this share (0 to 1) of the replies after TIME instead (UDP)
    #[arg(long, value_name = "SHARE:TIME")]
    pub(crate) late: Option<Late>,
    /// Answer at most RATE queries a second, all workers together, and drop the others silently (UDP); BURST is the largest
    /// number of answers at once, or a time whose queries it is [default BURST: 10ms]
    #[arg(long, value_name = "RATE[:BURST]")]
    pub(crate) capacity: Option<Capacity>,
    /// Stop answering for TIME at the end of every PERIOD, such as 50ms/5s; queries wait in the socket (UDP)
    #[arg(long, value_name = "TIME/PERIOD")]
    pub(crate) stall: Option<Stall>,
    /// Send this share (0 to 1) of the replies twice, evenly spread (UDP)
    #[arg(long, value_name = "SHARE")]
    pub(crate) duplicate: Option<f64>,
    /// Drop this share (0 to 1) of the replies, evenly spread (UDP)
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub(crate) loss: f64,
    /// Spoil replies (UDP): KIND or KIND:SHARE, of wrong-address, wrong-question, wrong-id, truncate, cut,
    /// servfail, duplicate, silent; may be repeated
    #[arg(long, value_name = "KIND:SHARE")]
    pub(crate) fault: Vec<FaultSpec>,
    /// Cores, a worker on each [default: one worker on any core]
    #[arg(long, value_name = "LIST")]
    pub(crate) cpus: Option<CpuList>,
    /// How workers wait
    #[arg(long, value_enum, value_name = "MODE", default_value = "sleep")]
    pub(crate) wait: WaitArg,
    /// Send each datagram by itself (no UDP_SEGMENT)
    #[arg(long)]
    pub(crate) no_gso: bool,
    /// Receive each datagram by itself (no UDP_GRO)
    #[arg(long)]
    pub(crate) no_gro: bool,
    /// End after this time [default: on SIGINT or SIGTERM]
    #[arg(long, value_name = "TIME")]
    pub(crate) duration: Option<Nanos>,
}

/// Which names have AAAA records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AaaaArg {
    /// None
    Never,
    /// All
    Always,
}

/// `dnsdyno run`
#[derive(Args, Clone, Debug)]
pub(crate) struct RunArgs {
    /// The experiment's file, or the name of a built-in one
    #[arg(required_unless_present_any = ["list", "resume"])]
    pub(crate) experiment: Option<PathBuf>,
    /// Take up a run of the store again that was interrupted: its number, or `last`
    #[arg(long, value_name = "RUN", conflicts_with_all = ["experiment", "quick", "servers", "dry_run", "no_store"])]
    pub(crate) resume: Option<RunRef>,
    /// List the built-in experiments
    #[arg(long)]
    pub(crate) list: bool,
    /// Say what would be done and how long it would take, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The short form: minutes instead of hours, labelled as not conforming
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only these servers of the experiment; they must be installed
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) servers: Vec<String>,
    /// A folder of further server adapters (*.toml)
    #[arg(long, value_name = "DIR")]
    pub(crate) servers_dir: Option<PathBuf>,
    /// Measure a server of your own too: NAME=COMMAND, the command a template (docs/servers.md); may be repeated
    #[arg(long, value_name = "NAME=COMMAND", value_parser = parse_custom, conflicts_with = "resume")]
    pub(crate) custom: Vec<(String, Custom)>,
    /// Measure a server that you run too, by the network alone: NAME=ADDRESS:PORT; may be repeated
    #[arg(long, value_name = "NAME=ADDRESS", value_parser = parse_remote, conflicts_with = "resume")]
    pub(crate) remote: Vec<(String, Custom)>,
    /// The testbed's links, whatever the experiment says: plain, moderated or steered (docs/testbed.md)
    #[arg(long, value_name = "KIND")]
    pub(crate) link: Option<Link>,
    /// What a datagram is on the links: a packet (wire), or part of a message that crosses whole (host-offload)
    #[arg(long, value_name = "KIND")]
    pub(crate) path: Option<WirePath>,
    /// Seed of the names' order and of the order of measurements
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Keep the servers' configurations and logs
    #[arg(long)]
    pub(crate) keep: bool,
    /// Tell each step as a plain line, also on a terminal
    #[arg(long)]
    pub(crate) plain: bool,
    /// Tell Prometheus how the run goes on, at this address: http://ADDRESS/metrics
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) metrics: Option<SocketAddr>,
    /// Write the result with every trial to this file (- for the standard output)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Do not keep the run in the store
    #[arg(long)]
    pub(crate) no_store: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// A server that the user runs.
fn parse_remote(text: &str) -> Result<(String, Custom), String> {
    let (name, address) = text.split_once('=').ok_or("it is NAME=ADDRESS:PORT")?;
    Ok((name.to_owned(), Custom::at(parse_target(address)?)))
}

/// A server of the user's own.
fn parse_custom(text: &str) -> Result<(String, Custom), String> {
    let (name, command) = text.split_once('=').ok_or("it is NAME=COMMAND")?;
    let custom = Custom::new(command);
    match custom.nonsense() {
        Some(why) => Err(why.to_owned()),
        None => Ok((name.to_owned(), custom)),
    }
}

/// Arguments that are a value of a request, word for word.
macro_rules! becomes {
    ($($arg:ident => $value:ident { $($from:ident => $to:ident),* })*) => {
        $(impl From<$arg> for $value {
            fn from(arg: $arg) -> Self {
                match arg {
                    $($arg::$from => $value::$to,)*
                }
            }
        })*
    };
}

becomes! {
    ExpectArg => Expect {
        Answered => Answered, Noerror => NoError, Aaaa => AnyAaaa, Nodata => NoData, Nxdomain => NxDomain
    }
    GsoArg => Gso { Auto => Auto, On => On, Off => Off }
    WaitArg => WaitFor { Spin => Spin, Yield => Yield, Sleep => Sleep, Auto => Auto }
    PickArg => Pick { Turn => Turn, Chance => Chance }
    HttpMethodArg => HttpMethod { Get => Get, Post => Post }
    CloseArg => Close { Fin => Fin, Reset => Reset }
    TlsVersionArg => TlsVersion { V12 => V12, V13 => V13 }
}
