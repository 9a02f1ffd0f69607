//! The files of a query stream as the servers and the Measurer use them.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use experiment::settings::Slice;
use measure::Nanos;
use record::request::{Edns, Expect, Query, Workload};
use trace::{Capture, Cut, Dns, Messages, Writer};
use wire::{LabelRange, Name, Qclass};
use zone::queries::Queries;
use zone::slice::{Slicer, balance};
use zone::{LeafZone, NameServer, Reader, ZoneFileError};

use super::{PORTS, QueryStream, ZoneSource};
use crate::testbed::{Host, address_v4, address_v6};

/// Number of queries that are generated for the names of a zone.
const QUERIES: u64 = 200_000;
/// TTL of a generated zone, in seconds.
const TTL: u32 = 3_600;

/// Files of a stream, ready to be used.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    /// Zone file; absent if the namespace's zone is served.
    pub(crate) zone: Option<PathBuf>,
    /// Zone of the queried names.
    pub(crate) apex: Name,
    /// Query file; that of a capture has its queries in their order.
    pub(crate) queries: PathBuf,
    /// Capture; absent if the queries are not replayed.
    pub(crate) capture: Option<CaptureFile>,
}

/// A capture to replay.
#[derive(Clone, Debug)]
pub(crate) struct CaptureFile {
    path: PathBuf,
    queries: u64,
    span: Nanos,
}

impl CaptureFile {
    /// Returns the workload that sends the capture's queries at `qps` queries a second on average, and how long that
    /// takes.
    pub(crate) fn at(&self, qps: f64) -> (Workload, Nanos) {
        let own = self.queries as f64 / self.span.as_secs_f64().max(1e-3);
        let workload = Workload::Replay {
            capture: self.path.clone(),
            speed: qps / own,
            ports: PORTS.to_vec(),
        };
        (workload, Nanos((self.queries as f64 / qps * 1e9) as u64))
    }
}

impl Prepared {
    /// Makes the files of `stream` in the directory `dir`, and the directory.
    ///
    /// # Errors
    /// If a file cannot be read or written, or the slice has no query, in words.
    pub(crate) fn new(stream: &QueryStream, dir: &Path) -> Result<Self, String> {
        std::fs::create_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        let mut zone = stream.zone.as_ref().map(|source| whole(source, &stream.apex, dir));
        let zone_made = zone.take().transpose()?;
        let (zone, range) = match (zone_made, stream.slice) {
            (Some(zone), Some(slice)) => {
                let (zone, range) = cut_zone(&zone, slice, dir)?;
                (Some(zone), Some(range))
            }
            (zone, _) => (zone, None),
        };
        let name = file_name(stream);
        let (queries, capture) = match (&stream.queries, &stream.replay, &zone) {
            (Some(path), ..) => match &range {
                None => (path.clone(), None),
                Some(range) => (cut_queries(path, range, &stream.apex, &dir.join(name))?, None),
            },
            (None, Some(path), _) => {
                let (queries, capture) =
                    of_capture(path, range.as_ref(), &stream.apex, &dir.join(name))?;
                (queries, Some(capture))
            }
            (None, None, zone) => {
                let www = if matches!(stream.zone, Some(ZoneSource::Hosts(_))) { 0.0 } else { 0.5 };
                let zone = zone.as_deref().unwrap_or(Path::new(""));
                (generate(zone, www, &dir.join(name))?, None)
            }
        };
        Ok(Prepared { zone, apex: stream.apex, queries, capture })
    }

    /// Returns the workload of closed loops and lanes: the queries in their order, again from the start at the end.
    pub(crate) fn workload(&self, recursion: bool, dnssec: bool) -> Workload {
        let edns = dnssec.then(|| Edns { udp_size: None, dnssec, options: Vec::new() });
        let (path, query) = (self.queries.clone(), Query { recursion, edns });
        Workload::QueryFile { path, expect: Expect::Answered, query }
    }

    /// Returns the name of the zone that is served in place of the namespace's; `None` if that is served.
    pub(crate) fn origin(&self) -> Option<Name> {
        self.zone.as_ref().map(|_| self.apex)
    }
}

/// Returns the name of the query file of a stream.
fn file_name(stream: &QueryStream) -> String {
    let given = stream.queries.as_ref().or(stream.replay.as_ref());
    let stem =
        given.and_then(|path| path.file_name()).map_or("queries".into(), |n| n.to_string_lossy());
    match stream.slice {
        Some(Slice { part, parts }) => format!("{stem}.{part}-of-{parts}"),
        None => stem.into_owned(),
    }
}

/// Returns the path of a zone before it is cut; a generated one is written.
fn whole(source: &ZoneSource, apex: &Name, dir: &Path) -> Result<PathBuf, String> {
    let hosts = match source {
        ZoneSource::File(path) => return Ok(path.clone()),
        ZoneSource::Hosts(hosts) => *hosts,
    };
    let (v4, v6) = (address_v4(Host::Dut, Host::Tester), address_v6(Host::Dut, Host::Tester));
    let zone = LeafZone { zone: *apex, hosts, ttl: TTL, server: NameServer { v4, v6 }, seed: 1 };
    let path = dir.join("zone");
    write(&path, |out| zone.write(out).map(drop))?;
    Ok(path)
}

/// Writes a part of a zone; returns its path and its range of labels.
fn cut_zone(zone: &Path, slice: Slice, dir: &Path) -> Result<(PathBuf, LabelRange), String> {
    let open = || Reader::open(zone, None);
    let unreadable = |e: ZoneFileError| e.to_string();
    let range = if slice.parts == 1 {
        LabelRange::default()
    } else {
        let ranges = balance(open().map_err(unreadable)?, slice.parts.into(), 1);
        ranges.map_err(|e| e.to_string())?.swap_remove(usize::from(slice.part) - 1)
    };
    let path = dir.join(format!("zone.{}-of-{}", slice.part, slice.parts));
    let file = File::create(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut outs = [BufWriter::new(file)];
    Slicer::new(vec![range.clone()]).slice(open, &mut outs).map_err(|e| e.to_string())?;
    let [mut out] = outs;
    out.flush().map_err(|e| format!("{}: {e}", path.display()))?;
    Ok((path, range))
}

/// Writes the queries of a file that are for names of a part of a zone.
fn cut_queries(path: &Path, range: &LabelRange, apex: &Name, to: &Path) -> Result<PathBuf, String> {
    let input = File::open(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut taken = 0;
    write(to, |out| {
        let slicer = Slicer::new(vec![range.clone()]);
        let cut = slicer.slice_queries(apex, BufReader::new(input), path, &mut [out]);
        let (counts, _) = cut.map_err(io::Error::other)?;
        taken = counts[0];
        Ok(())
    })?;
    some(taken, path, range)?;
    Ok(to.to_owned())
}

/// Writes the queries of a capture as a query file, and as a capture if they are cut.
fn of_capture(
    path: &Path,
    range: Option<&LabelRange>,
    apex: &Name,
    to: &Path,
) -> Result<(PathBuf, CaptureFile), String> {
    let (queries, cut) = (to.with_added_extension("queries"), to.with_added_extension("pcap"));
    let create = |path: &Path| {
        let file = File::create(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok::<_, String>(BufWriter::new(file))
    };
    let mut lines = create(&queries)?;
    let writer = range.map(|_| Writer::new(create(&cut)?).map_err(|e| e.to_string()));
    let mut writer = writer.transpose()?;
    let part = range.map(|range| Cut { zone: *apex, ranges: vec![range.clone()] });
    let (mut taken, mut first, mut span, mut broken) = (0, None, Nanos::ZERO, Ok(()));
    let mut capture = Capture::open(path).map_err(|e| e.to_string())?;
    let read = Messages::new(PORTS.to_vec()).read(&mut capture, |message| {
        let Some(dns) = Dns::read(message.bytes).filter(|dns| !dns.is_response()) else { return };
        if part.as_ref().is_some_and(|part| part.parts(Some(&dns)).next().is_none()) {
            return;
        }
        taken += 1;
        span = message.at.since(*first.get_or_insert(message.at)).max(span);
        if let Some(asked) = dns.question.filter(|asked| asked.qclass == Qclass::IN)
            && broken.is_ok()
        {
            broken = writeln!(lines, "{} {}", asked.name, asked.qtype);
        }
        writer.iter_mut().for_each(|writer| writer.write(message));
    });
    read.map_err(|e| e.to_string())?;
    broken.and_then(|()| lines.flush()).map_err(|e| format!("{}: {e}", queries.display()))?;
    let path = match writer {
        Some(writer) => writer.finish().map(|_| cut).map_err(|e| e.to_string())?,
        None => path.to_owned(),
    };
    some(taken, &path, range.unwrap_or(&LabelRange::default()))?;
    Ok((queries, CaptureFile { path, queries: taken, span }))
}

/// Writes queries for the names of a zone, as `dnsdyno zone queries` does.
fn generate(zone: &Path, www: f64, to: &Path) -> Result<PathBuf, String> {
    let asked = Queries {
        count: QUERIES,
        range: LabelRange::default(),
        missing: 0.1,
        www,
        exponent: 0.9,
        seed: 1,
    };
    let reader = Reader::open(zone, None).map_err(|e| e.to_string())?;
    write(to, |out| asked.write(reader, out).map(drop).map_err(io::Error::other))?;
    Ok(to.to_owned())
}

/// Checks that a part of a stream has queries.
fn some(taken: u64, path: &Path, range: &LabelRange) -> Result<(), String> {
    let why =
        || format!("{}: no query is for a name in the part {range} of the zone", path.display());
    (taken > 0).then_some(()).ok_or_else(why)
}

/// Writes a file by `put`.
fn write(
    path: &Path,
    put: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<(), String> {
    let file = File::create(path);
    let made = file.and_then(|file| {
        let mut out = BufWriter::with_capacity(1 << 20, file);
        put(&mut out)?;
        out.flush()
    });
    made.map_err(|e| format!("{}: {e}", path.display()))
}
