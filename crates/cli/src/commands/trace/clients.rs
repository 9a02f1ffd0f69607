//! `dnsdyno trace clients`: the clients of a capture, their behaviour, and files of them.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::Args;
use measure::Nanos;
use trace::population::{self, Collector, Input, Population};
use trace::{Anonymiser, CaptureError, Dns};

use super::input::{InputArgs, conclude};
use super::select::{SelectArgs, key, unwritable};
use crate::arguments::number::parse_count;
use crate::failure::Failure;
use crate::output::{is_stdout, output};

pub(crate) const EXAMPLES: &str = "Examples:
  How the clients of a capture behave, with connections that close after 5 s without a query
    dnsdyno trace clients day.pcap.xz --idle 5s

  500 of its clients; 25,000 clients of its time slices, their addresses hidden; and the load that they are
    dnsdyno trace clients day.pcap.xz --clients 500 --output some.population
    dnsdyno trace clients day.pcap.xz --clients 25k --key day.key --output many.population
    dnsdyno load 192.0.2.53 --replay many.population --transports udp=6,tls=3,https=1 --close-idle 10s";

/// `dnsdyno trace clients`
#[derive(Args, Clone, Debug)]
pub(crate) struct ClientsArgs {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    select: SelectArgs,
    /// Number of clients: some of those in the capture, or those of its time slices if it has not so many [default: all]
    #[arg(long, value_name = "N", value_parser = parse_count)]
    clients: Option<u64>,
    /// Make the clients of time slices of this length, which all begin at the same time [default: the longest slices that give
    /// --clients]
    #[arg(long, value_name = "TIME", requires = "clients")]
    slice: Option<Nanos>,
    /// Hide the addresses: keyed, prefixes kept (Crypto-PAn); the file has 64 hexadecimal digits
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Time without a query after which a client is idle and closes its connection
    #[arg(long, value_name = "TIME", default_value = "10s")]
    idle: Nanos,
    /// Write the statistics to this file (- for the standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the clients with their queries to this file, for `load --replay` (- for the standard output)
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) fn run(args: &ClientsArgs) -> Result<(), Failure> {
    if args.idle == Nanos::ZERO || args.slice == Some(Nanos::ZERO) {
        return Err(Failure::BadInput(anyhow!("--idle and --slice must be longer than 0")));
    }
    let (mut population, left_out, error) = match saved(args)? {
        Some(population) => (population, 0, None),
        None => collect(args)?,
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
        population = population.with_clients(count, args.slice, seed).map_err(Failure::input)?;
    }
    let mut stats = population.behaviour(args.idle);
    stats.captures = args.input.names();
    (stats.left_out, stats.incomplete) = (left_out, error.as_ref().map(ToString::to_string));
    if let Some(path) = &args.output {
        let out = output(path)?;
        population.write(out).map_err(|error| unwritable(path, error))?;
        eprintln!("{} clients are in {}", population.clients(), path.display());
    }
    if let Some(path) = &args.json {
        record::write(path, &stats).map_err(Failure::run)?;
    }
    if ![&args.json, &args.output].iter().any(|path| path.as_deref().is_some_and(is_stdout)) {
        print!("{}", report::clients(&stats));
    }
    conclude(error)
}

/// Reads the input if it is a population.
fn saved(args: &ClientsArgs) -> Result<Option<Population>, Failure> {
    let [path] = &args.input.captures[..] else { return Ok(None) };
    // The standard input and pipes are read once.
    if path == Path::new("-") || !path.is_file() {
        return Ok(None);
    }
    let population = match population::open(path) {
        Ok(Input::Population(population)) => population,
        // The error of a capture is told where captures are read.
        Ok(Input::Capture(_)) | Err(CaptureError::NotACapture { .. }) => return Ok(None),
        Err(error) => return Err(Failure::input(error)),
    };
    if args.key.is_some() || !args.select.is_open() {
        let why =
            "it is a population: hide addresses and select queries when it is made of a capture";
        return Err(Failure::BadInput(anyhow!("{}: {why}", path.display())));
    }
    Ok(Some(population))
}

/// Collects the queries of captures; also returns how many were left out, and the error that ended the captures early.
fn collect(args: &ClientsArgs) -> Result<(Population, u64, Option<CaptureError>), Failure> {
    let select = args.select.select();
    let mut anonymiser = match &args.key {
        Some(path) => Some(Anonymiser::new(&key(path)?)),
        None => None,
    };
    let mut collector = Collector::default();
    let (_, error) = args.input.read(|message| {
        if !select.accepts(message, Dns::read(message.bytes).as_ref()) {
            return;
        }
        match &mut anonymiser {
            Some(anonymiser) => anonymiser.message(message, |hidden| collector.add(hidden)),
            None => collector.add(message),
        }
    })?;
    if collector.full {
        let (clients, queries) = (population::MAX_CLIENTS, population::MAX_QUERIES);
        eprintln!("more than {clients} clients or {queries} queries: what came later was left out");
    }
    let left_out = collector.left_out;
    Ok((collector.finish(), left_out, error))
}
