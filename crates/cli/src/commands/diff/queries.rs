//! The queries of a comparison: of a query file, or of captures, where they may have replies.

use std::io;
use std::path::{Path, PathBuf};

use answers::{Raw, Spool, SpoolWriter};
use anyhow::anyhow;
use clap::Args;
use load::workload::MAX_QUERY;
use load::workload::file::{BadLines, Content, QueryFileError, RecordReceiver};
use measure::Nanos;
use trace::exchanges::{Exchange, Exchanges};
use wire::{Edns, compose};

use crate::arguments::number::parse_count;
use crate::commands::trace::input::{CapturePorts, InputArgs};
use crate::failure::Failure;

/// Where the queries come from.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Queries")]
pub(super) struct QueryArgs {
    /// Ask the queries of this file (`name type` a line, plain or compressed; - for the standard input), each once
    #[arg(long, value_name = "FILE", required_unless_present = "capture")]
    queries: Option<PathBuf>,
    /// Skip lines of the file that are no queries, and report how many and which; else they are an error
    #[arg(long, requires = "queries")]
    skip_bad: bool,
    /// Ask the queries of this capture, as they are except for their ids; may be repeated
    #[arg(long, value_name = "CAPTURE", conflicts_with_all = ["queries", "edns", "dnssec", "no_recursion"])]
    pub(super) capture: Vec<PathBuf>,
    #[command(flatten)]
    ports: CapturePorts,
    /// Largest number of queries (500, 100k) [default: all]
    #[arg(long, value_name = "N", value_parser = parse_count)]
    count: Option<u64>,
    /// Send EDNS(0) with this UDP size
    #[arg(long, value_name = "BYTES", num_args = 0..=1, default_missing_value = "1232")]
    pub(super) edns: Option<u16>,
    /// Send EDNS(0) with the DO bit
    #[arg(long)]
    pub(super) dnssec: bool,
    /// Do not set the RD bit
    #[arg(long)]
    pub(super) no_recursion: bool,
}

impl QueryArgs {
    /// Reads the queries, with their replies if `captured`.
    pub(super) fn read(&self, captured: bool) -> Result<Queries, Failure> {
        match &self.queries {
            Some(path) => self.of_file(path),
            None => Queries::of_captures(
                self.capture.clone(),
                self.ports.ports.clone(),
                captured,
                self.count,
            ),
        }
    }

    fn of_file(&self, path: &Path) -> Result<Queries, Failure> {
        let unreadable = |source| QueryFileError::Unreadable(path.to_owned(), source);
        let input = trace::source::open(path).map_err(|e| Failure::input(unreadable(e)))?;
        let out = SpoolWriter::new().map_err(no_room)?;
        let mut asked = QueryCollector { args: self, out, queries: 0, bad: None };
        match Content::LINES.read(input, path, &mut asked) {
            Ok(()) | Err(QueryFileError::Over) => {}
            Err(e @ QueryFileError::NoRoom(..)) => return Err(Failure::run(e)),
            Err(e) => return Err(Failure::input(e)),
        }
        if let Some(bad) = asked.bad {
            eprintln!("lines that are no queries, {}: {bad}", bad.count());
        }
        Queries::of(asked.out, vec![path.display().to_string()], None)
    }
}

/// The queries of a file, while they are read.
struct QueryCollector<'a> {
    args: &'a QueryArgs,
    out: SpoolWriter,
    queries: u64,
    bad: Option<BadLines>,
}

impl RecordReceiver for QueryCollector<'_> {
    fn push(&mut self, _key: u32, question: &[u8]) -> Result<(), QueryFileError> {
        let args = self.args;
        let opt = (args.dnssec || args.edns.is_some()).then(|| {
            let usual = Edns::default();
            let udp_size = args.edns.unwrap_or(usual.udp_size);
            Edns { udp_size, dnssec_ok: args.dnssec, ..usual }.to_opt()
        });
        let mut query = [0; MAX_QUERY];
        let len = compose(&mut query, 0, question, !args.no_recursion, opt.as_deref());
        self.queries += 1;
        self.out
            .push(Nanos::ZERO, &query[..len], false, None)
            .map_err(|source| QueryFileError::NoRoom(std::env::temp_dir(), source))?;
        match args.count {
            Some(count) if self.queries >= count => Err(QueryFileError::Over),
            _ => Ok(()),
        }
    }

    fn bad_line(&mut self, bad: BadLines) -> Result<(), QueryFileError> {
        if !self.args.skip_bad {
            return Err(QueryFileError::BadLines(bad));
        }
        bad.add_to(&mut self.bad);
        Ok(())
    }
}

fn no_room(e: io::Error) -> Failure {
    let place = std::env::temp_dir();
    Failure::run(anyhow!(
        "cannot store the queries in {}: {e}; set TMPDIR to a folder with enough space",
        place.display()
    ))
}

/// Times of the queries of a capture since the first.
#[derive(Default)]
struct Clock {
    last: Option<Nanos>,
    due: Nanos,
}

impl Clock {
    /// Returns the due time of a query with this time; the same as the previous query if either
    /// time is wrong.
    fn due(&mut self, at: Nanos) -> Nanos {
        let last = *self.last.get_or_insert(at);
        let is_far = at.since(last).max(last.since(at)) >= Nanos::YEAR;
        if is_far || at > last {
            self.last = Some(at);
            self.due += if is_far { Nanos::ZERO } else { at.since(last) };
        }
        self.due
    }
}

/// Queries in a temporary file.
pub(super) struct Queries {
    pub(super) spool: Spool,
    /// Files of the queries.
    pub(super) from: Vec<String>,
    /// Reason why not all were read.
    pub(super) incomplete: Option<String>,
}

impl Queries {
    fn of(
        out: SpoolWriter,
        from: Vec<String>,
        incomplete: Option<String>,
    ) -> Result<Self, Failure> {
        let spool = out.finish().map_err(no_room)?;
        if spool.count() == 0 {
            return Err(Failure::input(anyhow!("{}: it has no query", from.join(", "))));
        }
        Ok(Queries { spool, from, incomplete })
    }

    /// Reads the queries of captures, at most `count`, with their replies if `captured`; queries
    /// with a truncated reply are left out, since the client repeats the query over TCP, and
    /// queries that are repeated before their reply.
    pub(super) fn of_captures(
        captures: Vec<PathBuf>,
        ports: Vec<u16>,
        captured: bool,
        count: Option<u64>,
    ) -> Result<Self, Failure> {
        let input = InputArgs::of_files(captures, ports);
        let mut out = SpoolWriter::new().map_err(no_room)?;
        let (mut clock, mut queries, mut failed) = (Clock::default(), 0, None);
        let mut take = |exchange: Exchange| {
            if failed.is_some() || count.is_some_and(|count| queries >= count) {
                return;
            }
            let (at, tcp) = (clock.due(exchange.at), exchange.tcp);
            let reply = match exchange.reply {
                Some(bytes) => Raw::Message { bytes, tcp },
                None => Raw::Timeout,
            };
            let reply = captured.then_some(reply);
            failed = out.push(at, &exchange.query, tcp, reply).err();
            queries += 1;
        };
        let mut exchanges = Exchanges::default();
        let (_, error) = input.read(|message| exchanges.add(message, &mut take))?;
        let left_out = exchanges.finish(&mut take);
        if let Some(error) = failed {
            return Err(no_room(error));
        }
        for (number, what) in [
            (left_out.other_opcodes, "of another opcode than QUERY"),
            (left_out.malformed, "malformed, cut short or without a question"),
            (left_out.truncated, "with a truncated reply"),
            (left_out.transfers, "transfers of zones that were not refused"),
            (left_out.repeated, "repeated before their reply came (only the last one is sent)"),
            (left_out.without_room, "whose reply came too many messages later"),
        ] {
            if number > 0 {
                eprintln!("queries of the capture that are not sent, {what}: {number}");
            }
        }
        Queries::of(out, input.names(), error.map(|e| e.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_time_delays_no_query() {
        let year_2001 = 1_000_000_000;
        for (times, dues) in [
            ([0, year_2001, year_2001 + 2, year_2001 + 3], [0, 0, 2, 3]),
            ([year_2001, year_2001 + 1, 2 * year_2001, year_2001 + 4], [0, 1, 1, 1]),
            ([year_2001, year_2001 + 3, year_2001 + 1, year_2001 + 4], [0, 3, 3, 4]),
        ] {
            let mut clock = Clock::default();
            assert_eq!(times.map(|at| clock.due(Nanos::from_secs(at))), dues.map(Nanos::from_secs));
        }
    }
}
