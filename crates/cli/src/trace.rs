//! `dnsdyno trace`: captures of DNS traffic.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use anyhow::anyhow;
use clap::{Args, Subcommand};
use measure::Nanos;
use trace::{Capture, CaptureError, Message, Messages};
use udp::capture::{LiveCapture, Only, Until};

use crate::failure::Failure;
use crate::load::interruption;
use crate::{trace_export, trace_select, trace_stats, trace_transfers};

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
    /// Count zone transfers that pass an interface, until Ctrl-C
    #[command(hide = true)]
    Transfers(trace_transfers::TransfersArgs),
}

const STATS_EXAMPLES: &str = "Examples:
  A capture, compressed or not, and all figures of it for a script
    dnsdyno trace stats capture.pcap.zst --json stats.json

  A live interface for ten seconds (CAP_NET_RAW); or as tcpdump sees it, with its filters and rights
    dnsdyno trace stats --interface eth0 --for 10s
    tcpdump -i eth0 -w - port 53 | dnsdyno trace stats -

  A capture that is cut or damaged gives what stands before that, says so, and exits with 1.";

/// What is read.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Input")]
pub(crate) struct InputArgs {
    /// Captures in the order of time: pcap or pcapng, plain or compressed by gzip, zstd or xz; - is the standard input
    #[arg(required_unless_present = "interface", value_name = "CAPTURE")]
    pub(crate) captures: Vec<PathBuf>,
    /// Instead: what passes this interface from now on (`any` is all of them), until --for is over or Ctrl-C
    #[arg(long, value_name = "NAME", conflicts_with = "captures")]
    pub(crate) interface: Option<String>,
    /// How long an interface is listened to
    #[arg(long = "for", value_name = "TIME", requires = "interface")]
    pub(crate) listen: Option<Nanos>,
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
        TraceCommand::Transfers(args) => trace_transfers::run(&args),
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
        if let Some(interface) = &self.interface {
            return self.listen(interface, messages, each);
        }
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

    /// The same of an interface, until it is told to end.
    fn listen(
        &self,
        interface: &str,
        mut messages: Messages,
        mut each: impl FnMut(&Message<'_>),
    ) -> Result<(trace::Counts, Option<CaptureError>), Failure> {
        let until = Until { duration: self.listen, stop: interruption()? };
        let live = LiveCapture::open(interface, Only::Ip, until).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => Failure::input(anyhow!("{e}")),
            io::ErrorKind::PermissionDenied => Failure::input(anyhow!(
                "no right to listen to {interface} (CAP_NET_RAW): run as root, or pipe tcpdump into `-`"
            )),
            _ => Failure::run(anyhow!("cannot listen to {interface}: {e}")),
        })?;
        let lost = live.lost();
        let mut capture =
            Capture::new(Box::new(live), Path::new(interface)).map_err(Failure::run)?;
        let error = messages.read(&mut capture, &mut each).err();
        let lost = lost.load(Ordering::Relaxed);
        if lost > 0 {
            eprintln!(
                "{interface}: {lost} packets were lost: they came faster than they were read"
            );
        }
        Ok((messages.counts(), error))
    }

    /// What the captures are called.
    pub(crate) fn names(&self) -> Vec<String> {
        let files = self.captures.iter().map(|path| path.display().to_string());
        files.chain(self.interface.clone()).collect()
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
