//! `dnsdyno trace`: captures of DNS traffic.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use trace::{Capture, CaptureError, Message, Messages};

use crate::failure::Failure;
use crate::{trace_export, trace_select, trace_stats};

/// `dnsdyno trace`
#[derive(Args, Clone, Debug)]
pub(crate) struct TraceArgs {
    #[command(subcommand)]
    command: TraceCommand,
}

#[derive(Subcommand, Clone, Debug)]
enum TraceCommand {
    /// Characterise a stream: rates, bursts, types, failures, return codes, sizes, clients
    #[command(after_help = STATS_EXAMPLES)]
    Stats(trace_stats::StatsArgs),
    /// Write the messages that are meant into another capture
    Filter(trace_select::FilterArgs),
    /// Write the questions into a query file for `load --queries`, dnsperf and queryperf
    Queries(trace_select::QueriesArgs),
    /// Cut a capture by the ranges of labels that `zone slice` cuts a zone by
    Slice(trace_select::SliceArgs),
    /// Hide addresses: keyed, one to one, prefixes kept (Crypto-PAn); names stay as they are
    Anonymise(trace_select::AnonymiseArgs),
    /// Write a table of transactions, each query with its reply, for a data base
    Export(trace_export::ExportArgs),
}

const STATS_EXAMPLES: &str = "Examples:
  A capture, compressed or not, and all figures of it for a script
    dnsdyno trace stats capture.pcap.zst --json stats.json

  A live interface: tcpdump opens it, with the rights it has
    tcpdump -i eth0 -w - port 53 | dnsdyno trace stats -

  A capture that is cut or damaged gives what stands before that, says so, and exits with 1.";

/// What is read.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Input")]
pub(crate) struct InputArgs {
    /// Captures in the order of time: pcap or pcapng, plain or compressed by gzip, zstd or xz; - is the standard input
    #[arg(required = true, value_name = "CAPTURE")]
    pub(crate) captures: Vec<PathBuf>,
    /// Ports whose traffic is DNS
    #[arg(long = "port", value_name = "LIST", value_delimiter = ',', default_value = "53")]
    pub(crate) ports: Vec<u16>,
}

pub(crate) fn run(args: TraceArgs) -> Result<(), Failure> {
    match args.command {
        TraceCommand::Stats(args) => trace_stats::run(&args),
        TraceCommand::Filter(args) => trace_select::filter(&args),
        TraceCommand::Queries(args) => trace_select::queries(&args),
        TraceCommand::Slice(args) => trace_select::slice(&args),
        TraceCommand::Anonymise(args) => trace_select::anonymise(&args),
        TraceCommand::Export(args) => trace_export::run(&args),
    }
}

impl InputArgs {
    /// Gives every message of the captures to `each`; what was seen beside them, and the error that ended it early.
    ///
    /// # Errors
    /// When nothing could be read.
    pub(crate) fn read(
        &self,
        mut each: impl FnMut(&Message<'_>),
    ) -> Result<(trace::Counts, Option<CaptureError>), Failure> {
        let mut messages = Messages::new(self.ports.clone());
        for path in &self.captures {
            let read =
                Capture::open(path).and_then(|mut capture| messages.read(&mut capture, &mut each));
            match read {
                Ok(()) => {}
                Err(error) if error.is_partial() || messages.counts().frames > 0 => {
                    return Ok((messages.counts(), Some(error)));
                }
                Err(error) => return Err(Failure::input(error)),
            }
        }
        Ok((messages.counts(), None))
    }

    /// The captures' names.
    pub(crate) fn names(&self) -> Vec<String> {
        self.captures.iter().map(|path| path.display().to_string()).collect()
    }
}

/// Ends a command whose captures were read up to an error.
pub(crate) fn conclude(error: Option<CaptureError>) -> Result<(), Failure> {
    error.map_or(Ok(()), |error| Err(Failure::run(error)))
}

/// Whether this output is the standard output.
pub(crate) fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}
