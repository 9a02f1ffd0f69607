//! `dnsdyno trace mix`: a stream to which other queries are added, or in which they replace some (ISC-TN-2008-1 section 5.1).

use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use trace::{CaptureError, Dns, Message, Select, Transport};

use super::input::{InputArgs, conclude};
use super::select::Sink;
use crate::arguments::number::parse_share;
use crate::failure::Failure;
use crate::output::not_an_input;

/// Largest number of mixed-in queries in memory.
const MAX_KEPT_QUERIES: usize = 1 << 20;

#[derive(Args, Clone, Debug)]
pub(crate) struct MixArgs {
    /// Mix the queries of this capture in, in their order, the first 1,048,576 of them again and again
    #[arg(long, value_name = "CAPTURE")]
    with: PathBuf,
    /// Share (0 to 1) of these queries in the new stream
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    share: f64,
    /// Replace queries of the stream, and leave out their replies; otherwise the others are added, each at the time of a query
    #[arg(long)]
    replace: bool,
    /// Seed of the choice of the queries to replace
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The capture to write (pcap; - for the standard output)
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    // This field is last, since its heading applies to all later options.
    #[command(flatten)]
    input: InputArgs,
}

pub(crate) fn run(args: &MixArgs) -> Result<(), Failure> {
    if args.share == 1.0 && !args.replace {
        let why = "--share 1: added queries cannot be the whole stream; give a smaller share, or --replace";
        return Err(Failure::BadInput(anyhow!(why)));
    }
    let (others, cut) = queries_to_mix(args)?;
    let stay = if args.replace { 1.0 - args.share } else { 1.0 };
    let stays = Select { sample: stay, seed: args.seed, ..Select::default() };
    // Number of mixed-in queries for each replaced query, or for each query.
    let each = if args.replace { 1.0 } else { args.share / (1.0 - args.share) };
    not_an_input(&args.output, [&args.with])?;
    let mut sink = Sink::new(&args.output, args.input.output(&args.output)?)?;
    let (mut next, mut due) = (others.iter().cycle(), 0.0);
    let (mut mixed, mut queries) = (0u64, 0u64);
    let (_, error) = args.input.read(|message| {
        let dns = Dns::read(message.bytes);
        let stays = stays.accepts(message, dns.as_ref());
        let is_query = dns.is_some_and(|dns| !dns.is_response());
        if stays {
            sink.writer.write(message);
            queries += u64::from(is_query);
        }
        if is_query && !(stays && args.replace) {
            due += each;
        }
        while due >= 1.0
            && let Some(bytes) = next.next()
        {
            let (transport, len) = (Transport::Udp, bytes.len());
            sink.writer.write(&Message { transport, len, bytes, cut: false, ..*message });
            due -= 1.0;
            mixed += 1;
        }
    })?;
    sink.finish()?;
    let path = args.output.display();
    eprintln!("{} queries are in {path}, {mixed} of them mixed in", queries + mixed);
    conclude(error.or(cut))
}

/// Returns the queries that are mixed in, and the error that ended their capture early.
fn queries_to_mix(args: &MixArgs) -> Result<(Vec<Vec<u8>>, Option<CaptureError>), Failure> {
    let input = InputArgs::of_files(vec![args.with.clone()], args.input.ports.clone());
    let mut others = Vec::new();
    let (_, cut) = input.read(|message| {
        let is_query = Dns::read(message.bytes).is_some_and(|dns| !dns.is_response());
        if is_query && !message.cut && others.len() < MAX_KEPT_QUERIES {
            others.push(message.bytes.to_vec());
        }
    })?;
    match others.is_empty() {
        true => Err(Failure::BadInput(anyhow!("{}: it has no query", args.with.display()))),
        false => Ok((others, cut)),
    }
}
