//! `dnsdyno diff`: the answers of several servers to the same queries, compared.

mod comparison;
mod queries;
mod servers;
mod terms;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use answers::{Diff, Pace, Side};
use anyhow::anyhow;
use clap::Args;
use lab::AnswersTask;
use measure::{Nanos, Qps};
use wire::Edns;

use self::comparison::{Comparison, Outputs};
use self::queries::Queries;
use self::servers::{Contact, TransportArgs, Transports};
pub(crate) use self::terms::TermArgs;
use super::load::{LoadArgs, Speed};
use crate::arguments::address::ServerArg;
use crate::arguments::number::parse_duration;
use crate::arguments::parsed::parsed;
use crate::failure::Failure;
use crate::process::interruption;

pub(crate) const EXAMPLES: &str = "Examples:
  Does the new version answer as the old one does? Every name of a file, all that differs as JSON Lines, and a page
    dnsdyno diff 192.0.2.1 192.0.2.2 --queries names.txt --lines unlike.jsonl --page diff.html

  Three resolvers, whose caches are of different age, with the queries of a capture; sizes of EDNS do not count
    dnsdyno diff [::1]:5301 [::1]:5302 [::1]:5303 --capture day.pcap.zst --ttl any --ignore edns

  One server against the replies in a capture of another, at the capture's times
    dnsdyno diff 192.0.2.1 --capture day.pcap.zst --speed 1x

  One server over UDP and over TLS, whose certificate is of this authority; two servers over HTTP/2
    dnsdyno diff 192.0.2.1 tls://192.0.2.1 --queries names.txt --ca ca.pem --tls-name dns.example --ignore edns
    dnsdyno diff dns1.example dns2.example --queries names.txt --transport https

  In a CI job: differences that are known do not fail it
    dnsdyno diff 192.0.2.1 192.0.2.2 --queries names.txt --known known.txt

What differs is asked twice: a difference counts if it is there both times and each server agrees with itself.

Exit codes: 0 no differences but known and unstable ones; 3 other differences; 2 bad input; 1 the comparison ended early.";

/// Time between the two askings.
const PAUSE: Nanos = Nanos::from_secs(1);
/// Rate of queries to each server.
const USUAL_QPS: f64 = 1_000.0;
/// Number of queries under way at once: over UDP, and if a server is asked over connections, of which each query has its own. Some
/// servers take no more than 10 connections.
const WINDOWS: (u16, u16) = (64, 8);

#[derive(Args, Clone, Debug)]
pub(crate) struct DiffArgs {
    /// The servers: addresses or names, with or without :PORT, with TRANSPORT:// in front for another one than --transport
    /// (tls://192.0.2.1, https://dns.example/PATH); one is compared with the replies of --capture
    #[arg(value_name = "SERVER", required = true, num_args = 1..=8)]
    servers: Vec<ServerArg>,
    /// Compare also with the replies in the capture, as a first server
    #[arg(long, requires = "capture")]
    captured: bool,
    /// Ask at the times of the capture, as a multiple of its speed (2x, 0.5x), in place of --rate
    #[arg(long, value_name = "FACTOR", requires = "capture", conflicts_with = "rate")]
    speed: Option<Speed>,
    /// Largest rate of queries to each server, in queries per second (500, 10k) [default: 1k]
    #[arg(long, value_name = "RATE")]
    rate: Option<Qps>,
    /// Number of queries under way at once, each over a connection of its own where there are connections [default: 64, over
    /// UDP alone; else 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    window: Option<u16>,
    /// Timeout of a reply, over UDP and again over TCP; over a connection with its opening
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "2s")]
    timeout: Nanos,
    /// Time before queries with different answers are sent again
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "1s")]
    pause: Nanos,
    /// Write the result to this file as JSON, with samples (- for the standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// File for the counters of a comparison of the lab while it runs
    #[arg(skip)]
    live: Option<PathBuf>,
    #[command(flatten)]
    transport: TransportArgs,
    #[command(flatten)]
    queries: queries::QueryArgs,
    #[command(flatten)]
    terms: TermArgs,
}

pub(crate) fn run(args: &DiffArgs) -> Result<(), Failure> {
    let captured = args.captured || (args.servers.len() == 1 && !args.queries.capture.is_empty());
    if args.servers.len() + usize::from(captured) < 2 {
        let why = "one server has nothing to be compared with: name another, or a capture with replies (--capture)";
        return Err(Failure::BadInput(anyhow!(why)));
    }
    if args.timeout == Nanos::ZERO {
        return Err(Failure::BadInput(anyhow!("--timeout must be longer than 0")));
    }
    let qps = args.rate.map_or(USUAL_QPS, Qps::get);
    let contacts = args.transport.transports().sides(&args.servers, captured, args.timeout)?;
    let known = args.terms.known()?;
    let outputs = Outputs { json: &args.json, lines: &args.terms.lines, page: &args.terms.page };
    outputs.try_writing()?;
    let queries = args.queries.read(captured)?;
    let stop = interruption()?;
    let sides = ask_all(contacts, args.timeout, &stop)?;
    let diff = Diff {
        window: args.window.unwrap_or_else(|| usual_window(&sides)),
        sides,
        terms: args.terms.terms(captured),
        known,
        pace: args.speed.map_or(Pace::Rate(qps), |speed| Pace::Captured { speed: speed.factor() }),
        again_qps: qps,
        timeout: args.timeout.into(),
        pause: args.pause.into(),
    };
    Comparison { diff, queries, outputs, live: args.live.clone() }.run(&stop)
}

/// Compares the answers of servers of the lab.
pub(crate) fn of_lab(task: AnswersTask) -> Result<(), Failure> {
    let AnswersTask { servers, queries, captured, recursion, settings, lines, live } = task;
    let servers = servers.iter().map(|server| OsString::from(server.to_string()));
    let file = [if captured { "--capture" } else { "--queries" }.into(), queries.into()];
    let mut args: DiffArgs = parsed(servers.chain(file))?;
    (args.rate, args.window) = (Some(settings.rate), Some(settings.window));
    (args.timeout, args.pause) = (settings.timeout, settings.pause);
    (args.json, args.live) = (Some("-".into()), live);
    if !captured {
        args.queries.edns = settings.edns.then(|| Edns::default().udp_size);
        (args.queries.dnssec, args.queries.no_recursion) = (settings.dnssec, !recursion);
    }
    let ignore = settings.ignore.iter().map(|kind| kind.parse().map_err(Failure::input));
    args.terms = TermArgs {
        lines,
        page: None,
        ttl: Some(settings.ttl.parse().map_err(|why: String| Failure::input(anyhow!(why)))?),
        ignore: ignore.collect::<Result<_, _>>()?,
        known: settings.known,
    };
    run(&args)
}

/// Queries each server once, and returns the sides.
fn ask_all(
    contacts: Vec<Contact>,
    timeout: Nanos,
    stop: &Arc<AtomicBool>,
) -> Result<Vec<Side>, Failure> {
    contacts.into_iter().map(|contact| contact.ask(timeout, stop)).collect()
}

/// Returns the default number of outstanding queries.
fn usual_window(sides: &[Side]) -> u16 {
    let connected = |side: &Side| matches!(side, Side::Server { dialer: Some(_), .. });
    if sides.iter().any(connected) { WINDOWS.1 } else { WINDOWS.0 }
}

/// Runs `load --replay --compare-replies`: sends a capture's queries at its times, and compares the
/// replies with the recorded ones.
pub(crate) fn replay(args: &LoadArgs, capture: PathBuf) -> Result<(), Failure> {
    let terms = &args.replay.terms;
    let (usual, secure) = (args.streams.transport, &args.streams.secure);
    let servers = [args.target.clone()];
    let contacts = Transports { usual, secure }.sides(&servers, true, args.timeout)?;
    let known = terms.known()?;
    let outputs = Outputs { json: &args.json, lines: &terms.lines, page: &terms.page };
    outputs.try_writing()?;
    let queries = Queries::of_captures(vec![capture], args.replay.dns_port.clone(), true, None)?;
    let stop = interruption()?;
    let sides: Vec<Side> = contacts.into_iter().map(|contact| contact.side).collect();
    let diff = Diff {
        window: usual_window(&sides),
        sides,
        terms: terms.terms(true),
        known,
        pace: Pace::Captured { speed: args.replay.speed.factor() },
        again_qps: USUAL_QPS,
        timeout: args.timeout.into(),
        pause: PAUSE.into(),
    };
    Comparison { diff, queries, outputs, live: None }.run(&stop)
}
