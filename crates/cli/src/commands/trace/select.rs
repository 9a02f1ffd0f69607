//! `dnsdyno trace filter`, `slice`, `anonymise` and `queries`: parts of a capture, in other forms.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use anyhow::anyhow;
use clap::{Args, ValueEnum};
use ipnet::IpNet;
use measure::Nanos;
use trace::anonymise::{Key, KeyError};
use trace::{Anonymiser, Cut, Dns, Message, Select, Ways, Writer};
use wire::{LabelRange, Name, Opcode, Qclass, Qtype};

use super::input::{InputArgs, conclude};
use crate::arguments::address::parse_prefix;
use crate::arguments::number::parse_share;
use crate::failure::Failure;
use crate::output::{create, unwritable};

/// Largest number of slices, as for `zone slice`.
const MAX_PARTS: usize = zone::slice::MAX_PARTS;

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Selection")]
pub(crate) struct SelectArgs {
    /// Only queries and replies for names in these zones
    #[arg(long, value_name = "ZONE,...", value_delimiter = ',')]
    zone: Vec<Name>,
    /// Only queries and replies of these types
    #[arg(long = "type", value_name = "TYPE,...", value_delimiter = ',')]
    qtype: Vec<Qtype>,
    /// Only clients in these networks
    #[arg(long, value_name = "NETWORK,...", value_delimiter = ',', value_parser = parse_prefix)]
    client: Vec<IpNet>,
    /// Only from this time on (2006-11-15T06:00:00Z, or seconds since 1970)
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    from: Option<Nanos>,
    /// Only before this time
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    to: Option<Nanos>,
    /// Only this share (0 to 1) of the transactions, each with its query and its reply
    #[arg(long, value_name = "SHARE", value_parser = parse_share, default_value = "1")]
    sample: f64,
    /// Seed of the sample
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Queries, replies, or both
    #[arg(long, value_enum, value_name = "WHICH", default_value = "both")]
    only: MessageKinds,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum MessageKinds {
    Both,
    Queries,
    Replies,
}

/// Reads a time since 1970.
fn parse_time(text: &str) -> Result<Nanos, String> {
    let seconds = text.parse::<f64>().ok().filter(|s| (0.0..1.8e10).contains(s));
    let written = || humantime::parse_rfc3339_weak(text).ok()?.duration_since(UNIX_EPOCH).ok();
    let nanos = match seconds {
        Some(seconds) => Some(Nanos((seconds * 1e9) as u64)),
        None => written().and_then(|since| u64::try_from(since.as_nanos()).ok()).map(Nanos),
    };
    nanos.ok_or_else(|| {
        format!("`{text}` is not a time such as 2006-11-15T06:00:00Z or 1163570400.5")
    })
}

impl SelectArgs {
    /// Returns whether all messages are selected.
    pub(crate) fn is_open(&self) -> bool {
        self.zone.is_empty()
            && self.qtype.is_empty()
            && self.client.is_empty()
            && self.from.is_none()
            && self.to.is_none()
            && self.sample == 1.0
    }

    /// Returns the seed of the sample.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    pub(crate) fn select(&self) -> Select {
        Select {
            zones: self.zone.clone(),
            types: self.qtype.clone(),
            clients: self.client.clone(),
            from: self.from.unwrap_or(Nanos::ZERO),
            to: self.to.unwrap_or(Nanos::MAX),
            sample: self.sample,
            seed: self.seed,
            ways: match self.only {
                MessageKinds::Both => Ways::Both,
                MessageKinds::Queries => Ways::Queries,
                MessageKinds::Replies => Ways::Replies,
            },
        }
    }
}

#[derive(Args, Clone, Debug)]
pub(crate) struct FilterArgs {
    /// The capture to write (pcap; - for the standard output)
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    // Last, since their headings hold for what follows.
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    select: SelectArgs,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct AnonymiseArgs {
    /// The file with the key: 64 hexadecimal digits (head -c 32 /dev/urandom | xxd -p -c 32)
    #[arg(long, value_name = "FILE")]
    key_file: PathBuf,
    #[command(flatten)]
    filter: FilterArgs,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct SliceArgs {
    /// The zone whose names are sliced
    #[arg(long, value_name = "ZONE")]
    zone: Name,
    /// The slices' ranges of labels, such as ..g,g..n,n.. (`zone slice` prints its ranges)
    #[arg(long, value_name = "RANGES", value_delimiter = ',', required = true)]
    range: Vec<LabelRange>,
    /// Prefix of the names of the slices' files: PREFIX.1.pcap and so on
    #[arg(long, short, value_name = "PREFIX")]
    output: PathBuf,
    // Last, since its heading holds for what follows.
    #[command(flatten)]
    input: InputArgs,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct QueriesArgs {
    /// Write the questions of replies instead, for a capture without queries
    #[arg(long)]
    of_replies: bool,
    /// The query file (`name type` a line; - for the standard output)
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    // Last, since their headings hold for what follows.
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    select: SelectArgs,
}

/// A capture that is written.
pub(super) struct Sink {
    path: PathBuf,
    pub(super) writer: Writer<BufWriter<Box<dyn Write>>>,
}

impl Sink {
    pub(super) fn new(path: &Path, out: Box<dyn Write>) -> Result<Self, Failure> {
        let writer = Writer::new(BufWriter::with_capacity(1 << 20, out));
        let writer = writer.map_err(|error| unwritable(path, error))?;
        Ok(Sink { path: path.to_owned(), writer })
    }

    /// Ends the capture; returns the number of its messages.
    pub(super) fn finish(self) -> Result<u64, Failure> {
        let messages = self.writer.messages;
        self.writer.finish().map_err(|error| unwritable(&self.path, error))?;
        Ok(messages)
    }
}

pub(crate) fn filter(args: &FilterArgs) -> Result<(), Failure> {
    accepted(args, |sink, message| sink.writer.write(message))
}

pub(crate) fn anonymise(args: &AnonymiseArgs) -> Result<(), Failure> {
    let mut anonymiser = Anonymiser::new(&key(&args.key_file)?);
    accepted(&args.filter, |sink, message| {
        anonymiser.message(message, |hidden| sink.writer.write(hidden));
    })
}

/// Calls `write` with each selected message.
fn accepted(
    args: &FilterArgs,
    mut write: impl FnMut(&mut Sink, &Message<'_>),
) -> Result<(), Failure> {
    let select = args.select.select();
    let mut sink = Sink::new(&args.output, args.input.output(&args.output)?)?;
    let mut all = 0u64;
    let (_, error) = args.input.read(|message| {
        all += 1;
        if select.accepts(message, Dns::read(message.bytes).as_ref()) {
            write(&mut sink, message);
        }
    })?;
    let taken = sink.finish()?;
    eprintln!("{taken} of {all} messages are in {}", args.output.display());
    conclude(error)
}

/// Reads the key from a file.
pub(super) fn key(path: &Path) -> Result<Key, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string());
    let key = text.and_then(|text| text.parse().map_err(|error: KeyError| error.to_string()));
    key.map_err(|why| Failure::BadInput(anyhow!("the key in {}: {why}", path.display())))
}

pub(crate) fn slice(args: &SliceArgs) -> Result<(), Failure> {
    if args.range.len() > MAX_PARTS {
        return Err(Failure::BadInput(anyhow!("{} ranges: at most {MAX_PARTS}", args.range.len())));
    }
    let path = |number| PathBuf::from(format!("{}.{number}.pcap", args.output.display()));
    for number in 1..=args.range.len() {
        args.input.check_output(&path(number))?;
    }
    let mut sinks = (1..=args.range.len())
        .map(|number| Sink::new(&path(number), Box::new(create(&path(number))?)))
        .collect::<Result<Vec<_>, _>>()?;
    let cut = Cut { zone: args.zone, ranges: args.range.clone() };
    let mut others = 0u64;
    let (_, error) = args.input.read(|message| {
        let dns = Dns::read(message.bytes);
        let mut hit = false;
        for part in cut.parts(dns.as_ref()) {
            sinks[part].writer.write(message);
            hit = true;
        }
        others += u64::from(!hit);
    })?;
    for (range, sink) in args.range.iter().zip(sinks) {
        let path = sink.path.display().to_string();
        println!("{path}: {range}, {} messages", sink.finish()?);
    }
    println!("{others} messages with names outside of every slice");
    conclude(error)
}

pub(crate) fn queries(args: &QueriesArgs) -> Result<(), Failure> {
    let select = args.select.select();
    let mut out = BufWriter::with_capacity(1 << 20, args.input.output(&args.output)?);
    let (mut broken, mut written, mut unspeakable) = (None, 0u64, 0u64);
    let (_, error) = args.input.read(|message| {
        let Some(dns) = Dns::read(message.bytes) else { return };
        if dns.is_response() != args.of_replies || !select.accepts(message, Some(&dns)) {
            return;
        }
        // A query file cannot express an opcode or a class.
        let asked = dns.question.filter(|_| dns.header.opcode() == Opcode::QUERY);
        let Some(asked) = asked.filter(|asked| asked.qclass == Qclass::IN) else {
            unspeakable += 1;
            return;
        };
        written += 1;
        if broken.is_none() {
            broken = writeln!(out, "{} {}", asked.name, asked.qtype).err();
        }
    })?;
    broken.map_or_else(|| out.flush(), Err).map_err(|error| unwritable(&args.output, error))?;
    eprintln!("{written} queries are in {}", args.output.display());
    if unspeakable > 0 {
        eprintln!(
            "{unspeakable} messages were left out: another opcode than QUERY, another class than IN, or no readable question"
        );
    }
    if written == 0 && !args.of_replies {
        eprintln!("for a capture without queries use --of-replies");
    }
    conclude(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        assert_eq!(parse_time("1163570400.5"), Ok(Nanos(1_163_570_400_500_000_000)));
        assert_eq!(parse_time("2006-11-15T06:00:00Z"), Ok(Nanos::from_secs(1_163_570_400)));
        assert_eq!(parse_time("2006-11-15 06:00:00"), Ok(Nanos::from_secs(1_163_570_400)));
        for bad in ["", "yesterday", "-1", "1e30"] {
            assert!(parse_time(bad).is_err(), "{bad}");
        }
    }
}
