//! The files of a query stream as the servers and the Measurer use them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use measure::Nanos;
use record::request::{Expect, Query, Workload};
use trace::{Cut, Writer};
use wire::{LabelRange, Name};
use zone::slice::Slicer;
use zone::{LeafZone, MixedZone, NameServer, TldZone};

use super::check::{PORTS, each_query, internet, mean_rate};
use super::{ColdInternet, QueryStream, ZoneSource};
use crate::server::zonefile::{cut_zone, write_queries};
use crate::testbed::{Host, address_v4, address_v6};

/// TTL of a generated zone, in seconds.
const TTL: u32 = 3_600;
/// File with a query for each name of a zone with names of many kinds.
const MIXED_QUERIES: &str = "mixed.queries";

/// Files of a stream, ready to be used.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    /// Zone file; absent if the namespace's zone is served.
    pub(crate) zone: Option<PathBuf>,
    /// Zone of the queried names.
    pub(crate) apex: Name,
    /// Query file; for a capture its queries in their order.
    pub(crate) queries: PathBuf,
    /// Capture; absent if the queries are not replayed.
    pub(crate) capture: Option<CaptureFile>,
    /// Internet in a box; absent if the names are from elsewhere.
    pub(crate) internet: Option<ColdInternet>,
}

/// A capture to replay, with the number of its queries and its length.
#[derive(Clone, Debug)]
pub(crate) struct CaptureFile {
    path: PathBuf,
    queries: u64,
    span: Nanos,
}

impl CaptureFile {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the workload that sends the capture's queries at `qps` queries a second on average,
    /// and its duration.
    pub(crate) fn at(&self, qps: f64) -> (Workload, Nanos) {
        let workload = Workload::Replay {
            capture: self.path.clone(),
            speed: qps / mean_rate(self.queries, self.span),
            ports: PORTS.to_vec(),
            loops: 1,
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
        if let Some(settings) = &stream.internet {
            let queries = dir.join("queries");
            let internet = Some(ColdInternet::new(settings, dir, &queries)?);
            return Ok(Prepared {
                zone: None,
                apex: stream.apex,
                queries,
                capture: None,
                internet,
            });
        }
        let zone = stream.zone.as_ref().map(|source| whole(source, &stream.apex, dir));
        let (zone, range) = match (zone.transpose()?, stream.slice) {
            (Some(zone), Some(slice)) => {
                let part = dir.join(format!("zone.{}-of-{}", slice.number(), slice.of()));
                let range = cut_zone(&zone, slice, &part).map_err(|e| e.to_string())?;
                (Some(part), Some(range))
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
            (None, None, Some(_)) if matches!(stream.zone, Some(ZoneSource::Mixed(_))) => {
                let all = dir.join(MIXED_QUERIES);
                match &range {
                    None => (all, None),
                    Some(range) => (cut_queries(&all, range, &stream.apex, &dir.join(name))?, None),
                }
            }
            (None, None, zone) => {
                let www = if matches!(stream.zone, Some(ZoneSource::Hosts(_))) { 0.0 } else { 0.5 };
                let zone = zone.as_deref().unwrap_or(Path::new(""));
                let queries = dir.join(name);
                write_queries(zone, www, &queries).map_err(|e| e.to_string())?;
                (queries, None)
            }
        };
        Ok(Prepared { zone, apex: stream.apex, queries, capture, internet: None })
    }

    /// Returns the workload of closed loops and lanes: the queries in their order, again from the start at the end unless the
    /// server's cache would have all by then.
    pub(crate) fn workload(&self, recursion: bool) -> Workload {
        let (path, query) = (self.queries.clone(), Query::plain(recursion));
        let runs = self.internet.is_some().then_some(1);
        let (expect, probability, skip_bad) = (Expect::Answered, None, false);
        Workload::QueryFile { path, expect, query, runs, probability, skip_bad }
    }

    /// Returns the variables that an Internet in a box sets for a server's templates.
    pub(crate) fn variables(&self) -> BTreeMap<String, String> {
        self.internet.as_ref().map(ColdInternet::variables).unwrap_or_default()
    }

    /// Returns the name of the zone that is served in place of the namespace's, the root for an Internet in a box; `None` if the
    /// namespace's is served.
    pub(crate) fn origin(&self) -> Option<Name> {
        (self.zone.is_some() || self.internet.is_some()).then_some(self.apex)
    }
}

/// Returns the name of the query file of a stream.
fn file_name(stream: &QueryStream) -> String {
    let given = stream.queries.as_ref().or(stream.replay.as_ref());
    let stem =
        given.and_then(|path| path.file_name()).map_or("queries".into(), |n| n.to_string_lossy());
    match stream.slice {
        Some(slice) => format!("{stem}.{}-of-{}", slice.number(), slice.of()),
        None => stem.into_owned(),
    }
}

/// Returns the path of a zone before it is cut; a generated one is written.
fn whole(source: &ZoneSource, apex: &Name, dir: &Path) -> Result<PathBuf, String> {
    let (v4, v6) = (address_v4(Host::Dut, Host::Tester), address_v6(Host::Dut, Host::Tester));
    let (zone, ttl, server) = (*apex, TTL, NameServer { v4, v6 });
    let path = dir.join("zone");
    match *source {
        ZoneSource::File(ref path) => return Ok(path.clone()),
        ZoneSource::Hosts(hosts) => {
            let zone = LeafZone { zone, hosts, ttl, server, seed: 1 };
            write(&path, |out| zone.write(out).map(drop))?;
        }
        ZoneSource::Delegations(delegations) => {
            let zone = TldZone { ttl, server, ..TldZone::new(zone, delegations, 1) };
            write(&path, |out| zone.write(out).map(drop).map_err(io::Error::other))?;
        }
        ZoneSource::Mixed(names) => {
            let zone = MixedZone { zone, names, ttl, server };
            write(&path, |out| zone.write(out).map(drop))?;
            write(&dir.join(MIXED_QUERIES), |out| zone.write_queries(out))?;
        }
    }
    Ok(path)
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
    each_query(path, |message, dns| {
        if part.as_ref().is_some_and(|part| part.parts(Some(dns)).next().is_none()) {
            return;
        }
        taken += 1;
        span = message.at.since(*first.get_or_insert(message.at)).max(span);
        if let Some(asked) = internet(dns)
            && broken.is_ok()
        {
            broken = writeln!(lines, "{} {}", asked.name, asked.qtype);
        }
        writer.iter_mut().for_each(|writer| writer.write(message));
    })?;
    broken.and_then(|()| lines.flush()).map_err(|e| format!("{}: {e}", queries.display()))?;
    let path = match writer {
        Some(writer) => writer.finish().map(|_| cut).map_err(|e| e.to_string())?,
        None => path.to_owned(),
    };
    some(taken, &path, range.unwrap_or(&LabelRange::default()))?;
    Ok((queries, CaptureFile { path, queries: taken, span }))
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
    let made = File::create(path).and_then(|file| {
        let mut out = BufWriter::with_capacity(1 << 20, file);
        put(&mut out)?;
        out.flush()
    });
    made.map_err(|e| format!("{}: {e}", path.display()))
}
