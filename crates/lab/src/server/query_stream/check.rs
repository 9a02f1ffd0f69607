//! The files of query streams before a run: readable, fit for their zone, with their hashes.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use experiment::{Method, Settings};
use measure::Nanos;
use record::InputFile;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use trace::population::{self, Input};
use trace::{Dns, Message, Messages, Question};
use wire::name::order::{Place, place};
use wire::query_line::{self, MAX_LINE};
use wire::{Name, Qclass};
use zone::Reader;

use crate::testbed::enter::{INPUTS, handed};

/// Length from which on a text may be too long for a variable of the environment (128 KiB) once it
/// is quoted there.
const MAX_HANDED: usize = 50_000;
/// Bytes read at a time.
const CHUNK: usize = 1 << 20;
/// Largest number of names of a capture.
const MAX_NAMES: usize = 1 << 21;
/// Ports whose traffic in a capture is DNS.
pub(crate) const PORTS: [u16; 1] = [53];
/// Accepted speeds of a replay, as multiples of the capture's own.
const SPEEDS: std::ops::RangeInclusive<f64> = 1e-3..=1e3;

/// Files that experiments name, each read once: by the process outside of the lab, which hands them
/// to the one inside.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Inputs {
    files: Vec<InputFile>,
    /// When each was changed last, before it was read.
    changed: Vec<(PathBuf, SystemTime)>,
    /// Zone files, and the name of each zone.
    zones: Vec<(PathBuf, String)>,
    /// Query files and captures, each with the zone that its names are to be in.
    streams: Vec<((PathBuf, String), FileContent)>,
    /// Number of different names in each capture whose names an Internet in a box has.
    captured: Vec<(PathBuf, u64)>,
}

/// Content of a query file or a capture.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct FileContent {
    /// Number of queries for names in the zone.
    inside: u64,
    /// The first query for a name outside of it.
    outside: Option<Foreign>,
    /// Number of queries, and the time from the first to the last; only of a capture.
    queries: u64,
    span: Nanos,
}

/// A query for a name outside of the zone.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Foreign {
    path: PathBuf,
    /// Line of the file or number of the query in the capture, from 1.
    number: u64,
    name: String,
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: `{}`", self.path.display(), self.number, self.name)
    }
}

impl FileContent {
    /// Counts a query as inside or outside of the zone, and records the first one outside.
    fn count(&mut self, path: &Path, number: u64, name: &Name, apex: &Name) {
        if place(name.as_wire(), apex.as_wire()) != Place::Outside {
            self.inside += 1;
        } else if self.outside.is_none() {
            self.outside = Some(Foreign { path: path.to_owned(), number, name: name.to_string() });
        }
    }

    /// Checks that all names are in the zone, or at least one if the others are `left_out`.
    ///
    /// # Errors
    /// The first query that is not.
    pub(crate) fn fit(&self, left_out: bool) -> Result<(), Foreign> {
        match &self.outside {
            Some(outside) if !left_out || self.inside == 0 => Err(outside.clone()),
            _ => Ok(()),
        }
    }

    /// Returns the mean rate of a capture, in queries a second.
    pub(crate) fn qps(&self) -> f64 {
        mean_rate(self.queries, self.span)
    }
}

impl Inputs {
    /// Returns the inputs that the process outside of the lab has read; `None` in that process, and
    /// if a file was changed since: it may have waited for hours.
    pub fn handed() -> Option<Self> {
        let all: Self = serde_json::from_str(&handed(INPUTS)?).ok()?;
        let same =
            |(path, then): &(PathBuf, SystemTime)| changed(path).is_ok_and(|now| now == *then);
        all.changed.iter().all(same).then_some(all)
    }

    /// Returns the value for the process in the lab, which reads the files itself if there is
    /// too much.
    pub fn to_hand(&self) -> Option<(&'static str, String)> {
        let text = serde_json::to_string(self).ok()?;
        (text.len() < MAX_HANDED).then_some((INPUTS, text))
    }

    /// Returns the files with their sizes and hashes, for the record.
    pub fn files(&self) -> &[InputFile] {
        &self.files
    }

    /// Reads the start of a zone file; returns its apex.
    pub(crate) fn zone(&mut self, path: &Path) -> Result<Name, String> {
        if let Some((_, apex)) = self.zones.iter().find(|(known, _)| known == path) {
            return apex.parse().map_err(|e| format!("{}: {e}", path.display()));
        }
        let mut reader = Reader::open(path, None).map_err(|e| e.to_string())?;
        reader.next_record().map_err(|e| e.to_string())?;
        let apex = reader.apex().copied();
        let apex = apex.ok_or_else(|| format!("{}: there is no record in it", path.display()))?;
        if apex == Name::ROOT {
            return Err(format!(
                "{}: it is the root zone; the servers of the lab are configured for a zone with a name",
                path.display()
            ));
        }
        self.note("zone-file", path)?;
        self.zones.push((path.to_owned(), apex.to_string()));
        Ok(apex)
    }

    /// Reads a query file whose names are to be in the zone `apex`.
    pub(crate) fn queries(&mut self, path: &Path, apex: &Name) -> Result<FileContent, String> {
        self.stream("queries", path, apex, read_queries)
    }

    /// Reads a capture whose queries are to be for names in the zone `apex`.
    pub(crate) fn capture(&mut self, path: &Path, apex: &Name) -> Result<FileContent, String> {
        self.stream("replay", path, apex, read_capture)
    }

    /// Reads a capture for the names of an Internet in a box; returns the number of names.
    pub(crate) fn internet(&mut self, path: &Path) -> Result<u64, String> {
        if let Some((_, names)) = self.captured.iter().find(|(known, _)| known == path) {
            return Ok(*names);
        }
        let names = captured(path)?.len() as u64;
        self.note("internet.capture", path)?;
        self.captured.push((path.to_owned(), names));
        Ok(names)
    }

    /// Notes a file of known differences.
    pub(crate) fn add_known(&mut self, path: &Path) -> Result<(), String> {
        self.note("answers.known", path)
    }

    fn stream(
        &mut self,
        key: &str,
        path: &Path,
        apex: &Name,
        read: fn(&Path, &Name) -> Result<FileContent, String>,
    ) -> Result<FileContent, String> {
        let wanted = (path.to_owned(), apex.to_string());
        if let Some((_, found)) = self.streams.iter().find(|(known, _)| *known == wanted) {
            return Ok(found.clone());
        }
        let found = read(path, apex)?;
        if found.inside == 0 && found.outside.is_none() {
            return Err(format!("{}: there is no query in it", path.display()));
        }
        self.note(key, path)?;
        self.streams.push((wanted, found.clone()));
        Ok(found)
    }

    /// Notes a file with its hash.
    fn note(&mut self, key: &str, path: &Path) -> Result<(), String> {
        let text = path.display().to_string();
        if self.files.iter().any(|file| (file.key.as_str(), &file.path) == (key, &text)) {
            return Ok(());
        }
        let at = changed(path).map_err(|e| unreadable(path, &e))?;
        self.changed.push((path.to_owned(), at));
        let mut file = File::open(path).map_err(|e| unreadable(path, &e))?;
        let (mut hash, mut octets, mut buffer) = (Sha256::new(), 0, vec![0; CHUNK]);
        loop {
            let len = file.read(&mut buffer).map_err(|e| unreadable(path, &e))?;
            if len == 0 {
                break;
            }
            hash.update(&buffer[..len]);
            octets += len as u64;
        }
        let sha256 = hash.finalize().iter().map(|octet| format!("{octet:02x}")).collect();
        self.files.push(InputFile { key: key.to_owned(), path: text, octets, sha256 });
        Ok(())
    }
}

/// Returns when a file was changed last.
fn changed(path: &Path) -> io::Result<SystemTime> {
    path.metadata()?.modified()
}

fn unreadable(path: &Path, e: &io::Error) -> String {
    format!(
        "cannot read {}: {e} (a relative path begins at the folder of the experiment)",
        path.display()
    )
}

fn read_queries(path: &Path, apex: &Name) -> Result<FileContent, String> {
    let file = File::open(path).map_err(|e| unreadable(path, &e))?;
    let mut input = BufReader::with_capacity(CHUNK, file);
    let (mut found, mut line, mut number) = (FileContent::default(), Vec::new(), 0);
    loop {
        line.clear();
        let read = Read::take(&mut input, MAX_LINE as u64 + 1).read_until(b'\n', &mut line);
        if read.map_err(|e| unreadable(path, &e))? == 0 {
            return Ok(found);
        }
        number += 1;
        let query = query_line::parse(&line).map_err(|e| {
            let (path, column) = (path.display(), e.column);
            format!("{path}:{number}:{column}: {e}; a line is a name and a type, such as `www.example.com AAAA`")
        })?;
        if let Some((name, _)) = query {
            found.count(path, number, &name, apex);
        }
    }
}

fn read_capture(path: &Path, apex: &Name) -> Result<FileContent, String> {
    let (mut found, mut first) = (FileContent::default(), None);
    each_query(path, |message, dns| {
        found.queries += 1;
        found.span = message.at.since(*first.get_or_insert(message.at)).max(found.span);
        if let Some(asked) = internet(dns) {
            found.count(path, found.queries, &asked.name, apex);
        }
    })?;
    Ok(found)
}

/// Checks that a capture of `qps` queries a second can be sent at the rates of a method.
pub(super) fn speed(settings: &Settings, qps: f64) -> Result<(), String> {
    let rates: Vec<f64> = match (settings.method, &settings.search, &settings.load) {
        (Method::Search, Some(search), _) => vec![search.min.get(), search.max.get()],
        (Method::Load, _, Some(load)) => load.rates.iter().map(|rate| rate.get()).collect(),
        _ => Vec::new(),
    };
    let beyond = rates.into_iter().find(|rate| !SPEEDS.contains(&(rate / qps)));
    beyond.map_or(Ok(()), |rate| {
        let (least, most) = (SPEEDS.start(), SPEEDS.end());
        Err(format!(
            "the capture has {qps:.1} queries a second, so that {rate} queries a second are {:.4} \
            times its speed; a replay is {least} to {most} times as fast as its capture: choose other rates, or the method `closed`, which has no rates",
            rate / qps
        ))
    })
}

/// Calls `each` with every query of a capture or a population.
pub(super) fn each_query(
    path: &Path,
    mut each: impl FnMut(&Message<'_>, &Dns),
) -> Result<(), String> {
    let mut query = |message: &Message<'_>| {
        if let Some(dns) = Dns::read(message.bytes).filter(|dns| !dns.is_response()) {
            each(message, &dns);
        }
    };
    match population::open(path).map_err(|e| e.to_string())? {
        Input::Population(population) => population.messages(query),
        Input::Capture(mut capture) => {
            let read = Messages::new(PORTS.to_vec()).read(&mut capture, &mut query);
            read.map_err(|e| e.to_string())?;
        }
    }
    Ok(())
}

/// Returns the question of a query if it is of the class IN.
pub(super) fn internet(dns: &Dns) -> Option<Question> {
    dns.question.filter(|asked| asked.qclass == Qclass::IN)
}

/// Returns the mean rate of `queries` within `span`, in queries a second.
pub(super) fn mean_rate(queries: u64, span: Nanos) -> f64 {
    queries as f64 / span.as_secs_f64().max(1e-3)
}

/// Returns the names that clients queried in a capture, at most [`MAX_NAMES`] of them.
pub(super) fn captured(path: &Path) -> Result<BTreeSet<Name>, String> {
    let mut names = BTreeSet::new();
    each_query(path, |_, dns| {
        if let Some(asked) = internet(dns).filter(|_| names.len() < MAX_NAMES) {
            names.insert(asked.name);
        }
    })?;
    if names.is_empty() {
        return Err(format!("{}: there are no queries over UDP or TCP in it", path.display()));
    }
    Ok(names)
}
