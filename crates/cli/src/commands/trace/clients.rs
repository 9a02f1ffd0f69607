//! `dnsdyno trace clients`: the clients of a capture, their behaviour, and files of them.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use measure::Nanos;
use trace::population::{self, Collector, Input, Population};
use trace::{Anonymiser, Capture, CaptureError, Dns, Message};

use super::input::{InputArgs, conclude};
use super::select::{SelectArgs, key};
use crate::arguments::number::{parse_count, parse_duration};
use crate::failure::Failure;
use crate::output::{is_stdout, unwritable};

pub(crate) const EXAMPLES: &str = "Examples:
  How the clients of a capture behave, with connections that close after 5 s without a query
    dnsdyno trace clients day.pcap.xz --idle 5s

  500 of its clients; 25,000 clients of its time slices, their addresses hidden; and the load that they are
    dnsdyno trace clients day.pcap.xz --clients 500 --output some.population
    dnsdyno trace clients day.pcap.xz --clients 25k --key-file day.key --output many.population
    dnsdyno load 192.0.2.53 --replay many.population --transports udp=6,tls=3,https=1 --close-idle 10s";

#[derive(Args, Clone, Debug)]
pub(crate) struct ClientsArgs {
    /// Number of clients: a random part of the capture's, or the clients of its time slices if the capture has fewer [default: all]
    #[arg(long, value_name = "N", value_parser = parse_count)]
    clients: Option<u64>,
    /// Make the clients of time slices of this length, which all begin at the same time [default: the longest slices that give
    /// --clients]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "clients")]
    slice_length: Option<Nanos>,
    /// Hide the addresses: keyed, prefixes kept (Crypto-PAn); the file has 64 hexadecimal digits
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Time without a query after which a client is idle and closes its connection
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "10s")]
    idle: Nanos,
    /// Write the statistics to this file (- for the standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the clients with their queries to this file, for `load --replay` (- for the standard output)
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    // Last, since their headings hold for what follows.
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    select: SelectArgs,
}

pub(crate) fn run(args: &ClientsArgs) -> Result<(), Failure> {
    if args.idle == Nanos::ZERO || args.slice_length == Some(Nanos::ZERO) {
        return Err(Failure::BadInput(anyhow!("--idle and --slice-length must be longer than 0")));
    }
    let (mut population, left_out, error) = match opened(args)? {
        Some(Input::Population(population)) => (population, 0, None),
        Some(Input::Capture(capture)) => collect(args, Some(capture))?,
        None => collect(args, None)?,
    };
    if population.is_empty() {
        error.map_or(Ok(()), |error| Err(Failure::input(error)))?;
        return Err(Failure::BadInput(anyhow!("there is no query of a client")));
    }
    if let Some(count) = args.clients {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        if count == 0 {
            return Err(Failure::BadInput(anyhow!("--clients 0: at least one is needed")));
        }
        let seed = args.select.seed();
        population =
            population.with_clients(count, args.slice_length, seed).map_err(Failure::input)?;
    }
    let mut stats = population.behaviour(args.idle);
    stats.captures = args.input.names();
    (stats.left_out, stats.incomplete) = (left_out, error.as_ref().map(ToString::to_string));
    if let Some(path) = &args.output {
        let out = args.input.output(path)?;
        population.write(out).map_err(|error| unwritable(path, error))?;
        let clients = match population.clients() {
            1 => "1 client is".to_owned(),
            many => format!("{many} clients are"),
        };
        eprintln!("{clients} in {}", path.display());
    }
    if let Some(path) = &args.json {
        record::write(path, &stats).map_err(Failure::run)?;
    }
    if ![&args.json, &args.output].iter().any(|path| path.as_deref().is_some_and(is_stdout)) {
        print!("{}", report::clients(&stats));
    }
    conclude(error)
}

/// Opens the input if it is one file, the standard input or a pipe: only that can be a population.
fn opened(args: &ClientsArgs) -> Result<Option<Input>, Failure> {
    let [path] = &args.input.captures[..] else { return Ok(None) };
    let input = population::open(path).map_err(Failure::input)?;
    let unchanged = args.key_file.is_none() && args.select.is_open();
    if matches!(input, Input::Population(_)) && !unchanged {
        let why =
            "it is a population: hide addresses and select queries when it is made of a capture";
        return Err(Failure::BadInput(anyhow!("{}: {why}", path.display())));
    }
    Ok(Some(input))
}

/// Collects the queries of a capture that is open, or of the input; also returns the number of
/// skipped queries, and the error that ended it early.
fn collect(
    args: &ClientsArgs,
    capture: Option<Capture>,
) -> Result<(Population, u64, Option<CaptureError>), Failure> {
    let select = args.select.select();
    let mut anonymiser = match &args.key_file {
        Some(path) => Some(Anonymiser::new(&key(path)?)),
        None => None,
    };
    let mut collector = Collector::default();
    let each = |message: &Message<'_>| {
        if !select.accepts(message, Dns::read(message.bytes).as_ref()) {
            return;
        }
        match &mut anonymiser {
            Some(anonymiser) => anonymiser.message(message, |hidden| collector.add(hidden)),
            None => collector.add(message),
        }
    };
    let (_, error) = match capture {
        Some(capture) => args.input.read_frames(capture, each, Failure::input)?,
        None => args.input.read(each)?,
    };
    if collector.full {
        let (clients, queries) = (population::MAX_CLIENTS, population::MAX_QUERIES);
        eprintln!(
            "more than {clients} clients, {queries} queries or 1 GiB of different messages: the rest was left out"
        );
    }
    let (population, left_out) = collector.finish();
    Ok((population, left_out, error))
}
