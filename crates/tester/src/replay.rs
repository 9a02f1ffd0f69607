//! Queries of a capture or a population, read for a replay at their recorded times.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use load::{Recorder, Recording};
use measure::{Nanos, Pacing, Qps, Warning};
use record::TracePackets;
use trace::population::{self, Input, Population};
use trace::{Capture, CaptureError, Messages};
use wire::Header;

use crate::error::{Invalid, TesterError};
use crate::workload::is_pipe;

/// Largest number of distinct clients; further clients share their numbers.
const MAX_CLIENTS: usize = 1 << 20;
/// Largest size of the queries of a pipe, in octets of records: about sixty million.
const MAX_PIPE: u64 = 4 << 30;
/// Shortest duration from which the mean rate of a capture is computed.
const MIN_DURATION: Nanos = Nanos::from_millis(1);
/// Accepted speeds of a replay.
const SPEEDS: std::ops::RangeInclusive<f64> = 1e-3..=1e3;

/// Settings of the replay of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplayTerms {
    /// Factor by which the replay is faster than the capture.
    pub(crate) speed: f64,
    /// Number of replays of the file.
    pub(crate) loops: u32,
    /// Time within which a reply counts.
    pub(crate) timeout: Nanos,
}

impl ReplayTerms {
    /// Refuses numbers out of range.
    fn check(&self) -> Result<(), Invalid> {
        if !SPEEDS.contains(&self.speed) {
            let why = format!("{} is not between 0.001 and 1000", self.speed);
            return Err(Invalid::value("workload.replay.speed", why));
        }
        if self.loops == 0 {
            return Err(Invalid::value("workload.replay.loops", "must be at least 1"));
        }
        Ok(())
    }
}

/// A file to replay, read and ready.
#[derive(Clone, Debug)]
pub(crate) struct Replay {
    pub(crate) recording: Recording,
    /// Factor by which the replay is faster than the capture.
    pub(crate) speed: f64,
    /// Number of replays of the file.
    pub(crate) loops: u32,
    path: PathBuf,
    /// Warnings about queries of the capture that are not replayed.
    pub(crate) warnings: Vec<Warning>,
    /// Reason why only the beginning could be read.
    pub(crate) incomplete: Option<String>,
}

/// Numbers of a capture's packets besides its queries.
#[derive(Default)]
struct Skipped {
    /// Numbers of the clients by their addresses.
    numbers: HashMap<IpAddr, u32>,
    broken: Option<std::io::Error>,
    left_out: u64,
    replies: u64,
}

impl Skipped {
    /// Returns the number of a client, from 0.
    fn number(&mut self, client: IpAddr) -> u32 {
        let next = self.numbers.len().min(MAX_CLIENTS - 1) as u32;
        if self.numbers.len() < MAX_CLIENTS {
            *self.numbers.entry(client).or_insert(next)
        } else {
            self.numbers.get(&client).copied().unwrap_or(next)
        }
    }

    /// Adds a message if it is a query.
    fn add(&mut self, message: &trace::Message<'_>, recorder: &mut Recorder) {
        let header = Header::read(message.bytes);
        if header.is_some_and(|header| header.is_response()) {
            self.replies += 1;
            return;
        }
        if message.cut || header.is_none() {
            self.left_out += 1;
            return;
        }
        let client = self.number(message.source.ip());
        let taken = recorder.add(message.at, client, message.bytes).unwrap_or_else(|error| {
            self.broken.get_or_insert(error);
            true
        });
        self.left_out += u64::from(!taken);
    }
}

impl Replay {
    /// Reads the queries of a file; in a capture, the queries to `ports`.
    ///
    /// # Errors
    /// If the readable part contains no query.
    pub(crate) fn new(path: &Path, ports: &[u16], terms: ReplayTerms) -> Result<Self, TesterError> {
        terms.check()?;
        // Queries of a client within the timeout may be outstanding together.
        let window = Nanos((terms.timeout.0 as f64 * terms.speed) as u64);
        let recorder = Recorder::new(window).map_err(TesterError::NoRoom)?;
        match population::open(path)? {
            Input::Population(population) => Self::of_population(population, recorder, path, terms),
            Input::Capture(capture) => Self::of_capture(capture, recorder, path, ports, terms),
        }
    }

    /// Records the queries of a population.
    fn of_population(
        population: Population,
        mut recorder: Recorder,
        path: &Path,
        terms: ReplayTerms,
    ) -> Result<Self, TesterError> {
        let mut left_out = 0;
        for query in population.queries() {
            let taken = recorder.add(query.at, query.client, query.message);
            left_out += u64::from(!taken.map_err(TesterError::NoRoom)?);
        }
        let recording = recorder.finish(Some(population.period())).map_err(TesterError::NoRoom)?;
        let Some(recording) = recording else {
            let why = format!("{}: it contains no query to replay", path.display());
            return Err(Invalid::value("workload.replay.capture", why).into());
        };
        let warnings = (left_out > 0).then_some(Warning::QueriesLeftOut { queries: left_out });
        let (warnings, path) = (warnings.into_iter().collect(), path.to_owned());
        let ReplayTerms { speed, loops, .. } = terms;
        Ok(Replay { recording, speed, loops, path, warnings, incomplete: None })
    }

    /// Records the queries of a capture.
    fn of_capture(
        mut capture: Capture,
        mut recorder: Recorder,
        path: &Path,
        ports: &[u16],
        terms: ReplayTerms,
    ) -> Result<Self, TesterError> {
        let (mut taken, mut messages) = (Skipped::default(), Messages::new(ports.to_vec()));
        let most = if is_pipe(path) { MAX_PIPE } else { u64::MAX };
        let read = messages.read_until(&mut capture, |message| {
            taken.add(message, &mut recorder);
            taken.broken.is_some() || recorder.octets() > most
        });
        if taken.broken.is_none() && recorder.octets() > most {
            return Err(endless(path).into());
        }
        let cut = match read {
            Ok(()) => None,
            Err(error) if error.is_partial() || messages.counts().packets > 0 => Some(error),
            Err(error) => return Err(error.into()),
        };
        if let Some(error) = taken.broken {
            return Err(TesterError::NoRoom(error));
        }
        let Some(recording) = recorder.finish(None).map_err(TesterError::NoRoom)? else {
            return Err(nothing_to_replay(path, ports, &taken, &messages.counts()).into());
        };
        let cut = cut.map(|error: CaptureError| Warning::CaptureCut { why: error.to_string() });
        let incomplete = cut.as_ref().map(ToString::to_string);
        let mut warnings: Vec<Warning> = cut.into_iter().collect();
        let queries = taken.left_out + recording.far;
        if queries > 0 {
            warnings.push(Warning::QueriesLeftOut { queries });
        }
        let ReplayTerms { speed, loops, .. } = terms;
        Ok(Replay { recording, speed, loops, path: path.to_owned(), warnings, incomplete })
    }

    /// Returns the number of distinct clients.
    pub(crate) fn clients(&self) -> u32 {
        self.recording.clients()
    }

    /// Returns the duration of the replay, with all loops.
    pub(crate) fn duration(&self) -> Nanos {
        let span = self.recording.span_of(self.loops);
        Nanos((span.0 as f64 / self.speed) as u64).max(MIN_DURATION)
    }

    /// Returns the constant rate that sends as many queries in the same time; used to choose
    /// sockets and waits.
    pub(crate) fn mean(&self) -> Pacing {
        let queries = self.recording.queries as f64 * f64::from(self.loops);
        let rate = queries / self.duration().as_secs_f64();
        Pacing::Constant { rate: Qps::new(rate).expect("a replay has a finite number of queries") }
    }

    /// Describes the queries for the conditions of the record.
    pub(crate) fn describe(&self) -> String {
        let (queries, clients) = (self.recording.queries, self.clients());
        format!("{queries} queries of {clients} clients of {}", self.path.display())
    }

    /// Describes the times of the queries, for the record and the summary.
    pub(crate) fn describe_pacing(&self) -> String {
        match self.loops {
            1 => format!("replay at {}x", self.speed),
            loops => format!("replay at {}x, {loops} times", self.speed),
        }
    }
}

/// Makes the error of a pipe that may never end.
fn endless(path: &Path) -> Invalid {
    let why = format!(
        "{}: a pipe with more than {MAX_PIPE} octets of queries, all of which a replay needs first: save a part to a file (`tcpdump -c`, `dnsdyno trace filter`)",
        path.display()
    );
    Invalid::value("workload.replay.capture", why)
}

/// Makes the error of a capture without a query.
fn nothing_to_replay(
    path: &Path,
    ports: &[u16],
    taken: &Skipped,
    counts: &TracePackets,
) -> Invalid {
    let elsewhere = counts.other_ports_note();
    let hint = elsewhere.unwrap_or_else(|| "--dns-port chooses others".to_owned());
    let why = format!(
        "{}: it contains no query to replay ({} replies, {} queries that are cut or have no header; DNS is looked for on port {ports:?}; {hint})",
        path.display(),
        taken.replies,
        taken.left_out
    );
    Invalid::value("workload.replay.capture", why)
}
