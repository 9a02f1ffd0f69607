//! The Internet in a box: its arguments, its zones from a folder, and the log of its queries.

use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use ::auth::{InternetConfig, InternetZones, Log, ZoneBuilder};
use anyhow::anyhow;
use clap::Args;
use measure::Nanos;
use wire::Qtype;
use zone::Reader;

use crate::failure::Failure;
use crate::output::output;

/// Largest number of delays: each has a queue.
const MAX_DELAYS: usize = 64;

/// The Internet in a box.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Internet in a box")]
pub(crate) struct InternetArgs {
    /// Serve all zones of this folder (`dnsdyno zone internet` writes it) in place of a namespace, each at the addresses of its name
    /// servers; --listen is 0.0.0.0:53, and every address must be one of this host
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with_all = ["namespace", "zone", "aaaa", "aaaa_share", "pref64", "ttl", "negative_ttl", "soa_ttl", "delay",
            "latency", "late", "remember", "traps", "device", "tls", "https", "quic"]
    )]
    internet: Option<PathBuf>,
    /// Delays of replies (UDP and TCP), such as 1ms,5ms,20ms: each server has one of them, chosen by its address
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "internet")]
    server_delays: Vec<Nanos>,
    /// Write a line for each query (- for the standard output): server, zone, name, type, verdict; the last lines count dropped
    /// replies and missing queries, if there are any
    #[arg(long, value_name = "FILE", requires = "internet")]
    log: Option<PathBuf>,
}

impl InternetArgs {
    /// Returns the arguments of a task of the lab.
    pub(super) fn of_lab(folder: PathBuf, log: PathBuf, server_delays: Vec<Nanos>) -> Self {
        InternetArgs { internet: Some(folder), server_delays, log: Some(log) }
    }

    /// Returns the configuration, without its log; `None` without `--internet`.
    pub(super) fn config(&self) -> Result<Option<InternetConfig>, Failure> {
        let Some(dir) = &self.internet else { return Ok(None) };
        let delays = self.server_delays.clone();
        if delays.len() > MAX_DELAYS {
            let count = delays.len();
            return Err(Failure::input(anyhow!("--server-delays: {count}; at most {MAX_DELAYS}")));
        }
        let zones = read_zones(&dir.join("zones"))?;
        let zones = InternetZones::new(zones).map_err(|e| wrong(dir, &e))?;
        Ok(Some(InternetConfig { zones: Arc::new(zones), delays, log: None }))
    }

    /// Checks that the listening address distinguishes the servers.
    pub(super) fn check_listen(&self, listen: &[SocketAddr]) -> Result<(), Failure> {
        let one = matches!(listen, [at] if at.is_ipv4() && at.ip().is_unspecified());
        if one || self.internet.is_none() {
            return Ok(());
        }
        let why = "--internet: each server has its own address, so --listen is 0.0.0.0:53 (or 0.0.0.0 with another port, which no resolver queries)";
        Err(Failure::input(anyhow!(why)))
    }

    /// Begins the log if there is one.
    pub(super) fn log(&self) -> Result<Option<LogFile>, Failure> {
        let Some(path) = &self.log else { return Ok(None) };
        Ok(Some(LogFile::new(output(path)?, path.clone())))
    }
}

/// Where a log is written.
type LogOutput = BufWriter<Box<dyn Write + Send>>;

/// A log that a thread writes.
pub(super) struct LogFile {
    log: Log,
    writer: JoinHandle<io::Result<LogOutput>>,
    path: PathBuf,
}

impl LogFile {
    /// Begins a log that is written to `out`; `path` is for messages.
    fn new(out: Box<dyn Write + Send>, path: PathBuf) -> Self {
        let mut out = BufWriter::new(out);
        let (log, queries) = Log::new();
        let writer = std::thread::spawn(move || {
            queries.into_iter().try_for_each(|query| writeln!(out, "{query}"))?;
            Ok(out)
        });
        LogFile { log, writer, path }
    }

    /// Returns the log for the workers.
    pub(super) fn log(&self) -> Log {
        self.log.clone()
    }

    /// Waits until all is written, and ends the log with the number of replies that were dropped and of queries that are missing, if
    /// there are some. No worker and no configuration may have the log any more.
    pub(super) fn finish(self, dropped: u64) -> Result<(), Failure> {
        let lost = self.log.lost();
        drop(self.log);
        let (path, written) = (self.path.display(), self.writer.join());
        let written = written.unwrap_or_else(|_| Err(io::Error::other("the log thread panicked")));
        let lost = lost.load(Ordering::Relaxed);
        let ended = written.and_then(|mut out| {
            for (what, count) in [("dropped", dropped), ("lost", lost)] {
                if count > 0 {
                    writeln!(out, "{what} {count}")?;
                }
            }
            out.flush()
        });
        ended.map_err(|e| Failure::run(anyhow!("cannot write the log {path}: {e}")))?;
        match lost {
            0 => Ok(()),
            lost => Err(Failure::run(anyhow!(
                "{lost} queries are not in the log {path}: writing the log was too slow"
            ))),
        }
    }
}

/// Reads the zone files of a folder.
fn read_zones(dir: &Path) -> Result<Vec<ZoneBuilder>, Failure> {
    let unreadable = |e: io::Error| {
        let why = "`dnsdyno zone internet` writes such a folder";
        Failure::input(anyhow!("cannot read the folder {}: {e}; {why}", dir.display()))
    };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|extension| extension == "zone") {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        return Err(Failure::input(anyhow!("{}: there is no file *.zone in it", dir.display())));
    }
    // In this order the first error is always the same.
    paths.sort_unstable();
    paths.iter().map(|path| read_zone(path)).collect()
}

/// Reads a zone file, which begins with its SOA record.
fn read_zone(path: &Path) -> Result<ZoneBuilder, Failure> {
    let mut reader = Reader::open(path, None).map_err(Failure::input)?;
    let mut zone: Option<ZoneBuilder> = None;
    while reader.next_record().map_err(Failure::input)?.is_some() {
        let (Some(apex), Some(record)) = (reader.apex(), reader.record()) else { break };
        let zone = zone.get_or_insert_with(|| ZoneBuilder::new(*apex));
        let rtype = Qtype(record.rtype().to_int());
        let added = zone.add(record.owner(), rtype, record.ttl(), record.data());
        added.map_err(|e| wrong(path, &e))?;
    }
    zone.ok_or_else(|| Failure::input(anyhow!("{}: there is no record in it", path.display())))
}

/// Returns the failure for zones of a file or a folder.
fn wrong(path: &Path, why: &::auth::ZonesError) -> Failure {
    Failure::input(anyhow!("{}: {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_ends_with_the_replies_that_were_dropped() {
        let dir = tempfile::tempdir().expect("a folder");
        for (dropped, wanted) in [(0, ""), (7, "dropped 7\n")] {
            let path = dir.path().join("log");
            let log = LogFile::new(output(&path).expect("a file"), path.clone());
            log.finish(dropped).expect("writes");
            assert_eq!(std::fs::read_to_string(&path).expect("a log"), wanted);
        }
    }
}
