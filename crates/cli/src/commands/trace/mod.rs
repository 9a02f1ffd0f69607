//! `dnsdyno trace`: captures of DNS traffic.

mod clients;
mod export;
pub(crate) mod input;
mod mix;
mod select;
mod stats;
mod tap;

use clap::{Args, Subcommand};

use crate::failure::Failure;

#[derive(Args, Clone, Debug)]
pub(crate) struct TraceArgs {
    #[command(subcommand)]
    command: TraceCommand,
}

#[derive(Subcommand, Clone, Debug)]
enum TraceCommand {
    /// Characterise a stream: rates, bursts, types, failures, return codes, sizes, clients
    #[command(after_help = STATS_EXAMPLES)]
    Stats(stats::StatsArgs),
    /// Write selected messages into another capture
    Filter(select::FilterArgs),
    /// Write the questions into a query file for `load --queries`, dnsperf and queryperf
    Queries(select::QueriesArgs),
    /// Add other queries to a stream, or replace some of it by them
    Mix(mix::MixArgs),
    /// Cut a capture into parts by ranges of labels, as `zone slice` cuts a zone
    Slice(select::SliceArgs),
    /// Characterise the clients of a capture, take some of them or make more, and save them for `load --replay`
    #[command(after_help = clients::EXAMPLES)]
    Clients(clients::ClientsArgs),
    /// Hide addresses: keyed, one to one, prefixes kept (Crypto-PAn); names stay as they are
    Anonymise(select::AnonymiseArgs),
    /// Write a table of transactions, each query with its reply, for a database
    Export(export::ExportArgs),
}

const STATS_EXAMPLES: &str = "Examples:
  A capture, compressed or not, and all figures of it for a script
    dnsdyno trace stats capture.pcap.zst --json stats.json

  A network device for ten seconds (CAP_NET_RAW); or as tcpdump sees it, with its filters and rights
    dnsdyno trace stats --device eth0 --for 10s
    tcpdump -i eth0 -w - port 53 | dnsdyno trace stats -

  What a server writes as dnstap: to a file, or to a socket at which dnsdyno listens
    dnsdyno trace stats frames.dnstap
    dnsdyno trace stats --dnstap /run/dnstap.sock --for 1m

  Of a capture that is cut or damaged, the packets before that are read; the exit code is 1.";

pub(crate) fn run(args: TraceArgs) -> Result<(), Failure> {
    match args.command {
        TraceCommand::Stats(args) => stats::run(&args),
        TraceCommand::Filter(args) => select::filter(&args),
        TraceCommand::Queries(args) => select::queries(&args),
        TraceCommand::Mix(args) => mix::run(&args),
        TraceCommand::Slice(args) => select::slice(&args),
        TraceCommand::Clients(args) => clients::run(&args),
        TraceCommand::Anonymise(args) => select::anonymise(&args),
        TraceCommand::Export(args) => export::run(&args),
    }
}
