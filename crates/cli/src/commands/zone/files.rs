//! `dnsdyno zone slice`, `stats`, `check`, `queries` and `compare`: commands that read zone files.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use measure::Zipf;
use wire::{LabelRange, Name};
use zone::queries::{Queries, QueriesError};
use zone::slice::{MAX_PARTS, SliceError, Slicer, balance};
use zone::stats::Stats;
use zone::{Notes, Reader};

use crate::arguments::json::JsonArgs;
use crate::arguments::number::{parse_count, parse_share};
use crate::arguments::zone_file::{ZoneFile, print_notes};
use crate::failure::Failure;
use crate::output::{create, not_an_input, output, unwritable};

/// Largest number of differences or errors that are shown of each zone.
const MAX_SHOWN: usize = 10;

#[derive(Args, Clone, Debug)]
pub(crate) struct ZoneSliceArgs {
    #[command(flatten)]
    input: ZoneFile,
    /// Number of parts, of equal size
    #[arg(long, value_name = "K", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=MAX_PARTS as i64))]
    parts: u16,
    /// Ranges of labels of the slices instead, such as ..g,g..n,n..
    #[arg(long, value_name = "RANGES", value_delimiter = ',', conflicts_with = "parts")]
    range: Vec<LabelRange>,
    /// A query file to cut by the same ranges
    #[arg(long, value_name = "FILE")]
    queries: Option<PathBuf>,
    /// Prefix of the names of the slices' files: PREFIX.1.zone, PREFIX.1.queries and so on
    #[arg(long, short, value_name = "PREFIX")]
    output: PathBuf,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct ZoneStatsArgs {
    #[command(flatten)]
    input: ZoneFile,
    #[command(flatten)]
    json: JsonArgs,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct ZoneCheckArgs {
    #[command(flatten)]
    input: ZoneFile,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct ZoneQueriesArgs {
    #[command(flatten)]
    input: ZoneFile,
    /// Number of queries (500, 10k, 5M)
    #[arg(long, value_name = "N", value_parser = parse_count, default_value = "1M")]
    count: u64,
    /// Only for names in this range of labels, such as g..n
    #[arg(long, value_name = "RANGE", default_value = "..")]
    range: LabelRange,
    /// Share (0 to 1) of queries for names that the zone does not have
    #[arg(long, value_name = "SHARE", value_parser = parse_share, default_value = "0.1")]
    missing: f64,
    /// Share (0 to 1) of queries for `www.` before the name
    #[arg(long, value_name = "SHARE", value_parser = parse_share, default_value = "0.5")]
    www: f64,
    /// Zipf's exponent of the names' popularity; 0 makes all names equally popular
    #[arg(long, value_name = "S", value_parser = parse_exponent, default_value = "0.9")]
    exponent: f64,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The query file (- for the standard output)
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct ZoneCompareArgs {
    /// A zone file
    #[arg(value_name = "FILE")]
    first: PathBuf,
    /// Another zone file, or a transfer as dig prints it
    #[arg(value_name = "FILE")]
    second: PathBuf,
    /// The name of both zones [default: the owner of their SOA records, which must then be the first records]
    #[arg(long, value_name = "ZONE")]
    zone: Option<Name>,
    /// Compare the SOA records too, with their serials
    #[arg(long)]
    soa: bool,
    /// Compare the records that signing adds too
    #[arg(long)]
    signatures: bool,
}

fn parse_exponent(text: &str) -> Result<f64, String> {
    let exponent = text.parse().ok().filter(|exponent| Zipf::EXPONENTS.contains(exponent));
    let (least, most) = (Zipf::EXPONENTS.start(), Zipf::EXPONENTS.end());
    exponent.ok_or_else(|| format!("`{text}` is not an exponent from {least} to {most}"))
}

/// Makes an error in writing a slice a failed run, and other errors bad input.
fn slice_failure(error: SliceError) -> Failure {
    match error {
        SliceError::Write(..) => Failure::run(error),
        _ => Failure::input(error),
    }
}

pub(crate) fn slice(args: ZoneSliceArgs) -> Result<(), Failure> {
    let input = &args.input;
    let ranges = if args.range.is_empty() {
        balance(input.open().map_err(Failure::input)?, args.parts.into(), 1)
            .map_err(slice_failure)?
    } else if args.range.len() > MAX_PARTS {
        return Err(Failure::input(anyhow!("{} ranges: at most {MAX_PARTS}", args.range.len())));
    } else {
        args.range.clone()
    };
    let paths = |kind: &str| -> Vec<PathBuf> {
        let name = |number| format!("{}.{number}.{kind}", args.output.display()).into();
        (1..=ranges.len()).map(name).collect()
    };
    let apex = input.apex()?;
    let zones = paths("zone");
    let inputs = || std::iter::once(input.path()).chain(args.queries.as_deref());
    zones.iter().chain(&paths("queries")).try_for_each(|path| not_an_input(path, inputs()))?;
    let mut outs = zones.iter().map(|path| create(path)).collect::<Result<Vec<_>, _>>()?;
    let mut slicer = Slicer::new(ranges.clone());
    let slices = slicer.slice(|| input.open(), &mut outs).map_err(slice_failure)?;
    input.print_notes();
    for ((path, range), slice) in zones.iter().zip(&ranges).zip(&slices) {
        println!(
            "{}: {range}, {} records, {:.1} MB, {} addresses of name servers in other slices",
            path.display(),
            slice.written.records,
            slice.written.bytes as f64 / 1e6,
            slice.shared,
        );
    }
    if slicer.forgotten() > 0 {
        eprintln!("{} name servers of other slices are without addresses", slicer.forgotten());
    }
    let Some(queries) = &args.queries else { return Ok(()) };
    let paths = paths("queries");
    let files = paths.iter().map(|path| create(path)).collect::<Result<Vec<_>, _>>()?;
    let mut outs: Vec<_> = files.into_iter().map(BufWriter::new).collect();
    let file = File::open(queries)
        .map_err(|source| SliceError::Queries(queries.clone(), source))
        .map_err(Failure::input)?;
    let (counts, others) = slicer
        .slice_queries(&apex, BufReader::new(file), queries, &mut outs)
        .map_err(slice_failure)?;
    for (path, (out, count)) in paths.iter().zip(outs.iter_mut().zip(counts)) {
        out.flush().map_err(|e| unwritable(path, e))?;
        println!("{}: {count} queries", path.display());
    }
    println!("{others} queries for names outside of every slice");
    Ok(())
}

pub(crate) fn stats(args: ZoneStatsArgs) -> Result<(), Failure> {
    let stats = Stats::of(|| args.input.open()).map_err(Failure::input)?;
    args.input.print_notes();
    let types: serde_json::Map<_, _> =
        stats.type_counts().map(|(rtype, count)| (rtype, count.into())).collect();
    let json = serde_json::json!({
        "zone": stats.zone.to_string(),
        "octets": stats.octets,
        "records": stats.records,
        "duplicates": stats.duplicates,
        "types": types,
        "names": stats.names,
        "delegations": stats.delegations,
        "signed_delegations": stats.signed_delegations,
        "servers_of_delegations": stats.servers,
        "glue": stats.glue,
        "occluded_names": stats.occluded,
        "conflicting_names": stats.conflicts,
        "lowest_ttl_s": stats.ttls.0,
        "highest_ttl_s": stats.ttls.1,
        "longest_label": stats.longest_label,
        "canonical_order": stats.in_order,
        "signed": stats.signed(),
    });
    args.json.show(|path| record::write(path, &json), || stats.to_string())
}

pub(crate) fn check(args: &ZoneCheckArgs) -> Result<(), Failure> {
    let mut zone = args.input.open().map_err(Failure::input)?;
    let wrong = zone::check::check(&mut zone).map_err(Failure::input)?;
    args.input.print_notes();
    let path = args.input.path().display();
    if wrong.is_empty() {
        println!("{path}: no errors");
        return Ok(());
    }
    wrong.iter().take(MAX_SHOWN).for_each(|(name, what)| println!("{path}: {name}: {what}"));
    if wrong.len() > MAX_SHOWN {
        println!("{path}: {} errors in total", wrong.len());
    }
    Err(Failure::Silent)
}

pub(crate) fn queries(args: ZoneQueriesArgs) -> Result<(), Failure> {
    let zone = args.input.open().map_err(Failure::input)?;
    not_an_input(&args.output, [args.input.path()])?;
    let mut out = BufWriter::new(output(&args.output)?);
    let queries = Queries {
        count: args.count,
        range: args.range,
        missing: args.missing,
        www: args.www,
        exponent: args.exponent,
        seed: args.seed,
    };
    let names = queries.write(zone, &mut out).map_err(|error| match error {
        QueriesError::Write(_) => Failure::run(error),
        _ => Failure::input(error),
    })?;
    args.input.print_notes();
    eprintln!("{} queries, of {names} names of {}", args.count, args.input.path().display());
    Ok(())
}

pub(crate) fn compare(args: &ZoneCompareArgs) -> Result<(), Failure> {
    let compared = zone::compare::Compared { soa: args.soa, signatures: args.signatures };
    let notes = [Notes::default(), Notes::default()];
    let open = |path: &PathBuf, notes: &Notes| {
        let (path, notes, zone) = (path.clone(), notes.clone(), args.zone);
        move || Reader::open(&path, zone).map(|reader| reader.with_notes(notes.clone()))
    };
    let zones = [open(&args.first, &notes[0]), open(&args.second, &notes[1])];
    let difference = zone::compare::compare(zones, compared).map_err(Failure::input)?;
    print_notes(&notes[0], &args.first);
    print_notes(&notes[1], &args.second);
    for (path, records) in [&args.first, &args.second].iter().zip(difference.other_ttls) {
        if records > 0 {
            eprintln!(
                "{}: a set has one TTL, as in named: {records} records have another one",
                path.display()
            );
        }
    }
    if difference.is_none() {
        println!("the same {} records", difference.records[0]);
        return Ok(());
    }
    for (path, (records, only)) in
        [&args.first, &args.second].iter().zip(difference.records.iter().zip(&difference.only))
    {
        println!("{}: {records} records, {} of them only in this file", path.display(), only.len());
        only.iter().take(MAX_SHOWN).for_each(|record| println!("  {record}"));
    }
    if difference.more {
        println!("and more");
    }
    Err(Failure::Silent)
}
