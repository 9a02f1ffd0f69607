//! Queries of a capture, read for a replay at their recorded times.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use load::{Recorder, Recording};
use measure::{Nanos, Pacing, Qps, Warning};
use trace::{Capture, Messages};
use wire::Header;

use crate::error::{Invalid, TesterError};

/// Largest number of distinct clients; further clients share their numbers.
const MAX_CLIENTS: usize = 1 << 20;
/// Shortest duration that the mean rate of a capture is computed from.
const SHORTEST: Nanos = Nanos::from_millis(1);
/// Accepted speeds of a replay.
const SPEEDS: std::ops::RangeInclusive<f64> = 1e-3..=1e3;

/// A capture to replay.
#[derive(Clone, Debug)]
pub(crate) struct Replay {
    pub(crate) recording: Recording,
    /// Factor by which the replay is faster than the capture.
    pub(crate) speed: f64,
    /// Number of distinct clients.
    pub(crate) clients: usize,
    path: PathBuf,
    /// Warnings about the capture.
    pub(crate) warnings: Vec<Warning>,
    /// Reason why only the beginning could be read.
    pub(crate) incomplete: Option<String>,
}

/// Content of a capture.
#[derive(Default)]
struct Taken {
    /// Numbers of the clients by their addresses.
    numbers: HashMap<IpAddr, u32>,
    broken: Option<std::io::Error>,
    left_out: u64,
    replies: u64,
}

impl Taken {
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
        if Header::read(message.bytes).is_some_and(|header| header.is_response()) {
            self.replies += 1;
            return;
        }
        let client = self.number(message.source.ip());
        let taken = !message.cut
            && recorder.add(message.at, client, message.bytes).unwrap_or_else(|error| {
                self.broken.get_or_insert(error);
                true
            });
        self.left_out += u64::from(!taken);
    }
}

impl Replay {
    /// Reads the queries of a capture: traffic of `ports`, to be sent `speed` times as fast.
    ///
    /// # Errors
    /// If the readable part contains no query.
    pub(crate) fn new(path: &Path, speed: f64, ports: &[u16]) -> Result<Self, TesterError> {
        if !SPEEDS.contains(&speed) {
            let why = format!("{speed} is not between 0.001 and 1000");
            return Err(Invalid::value("workload.replay.speed", why).into());
        }
        let (mut recorder, mut taken) =
            (Recorder::new().map_err(TesterError::NoRoom)?, Taken::default());
        let mut messages = Messages::new(ports.to_vec());
        let read = Capture::open(path)
            .and_then(|mut all| messages.read(&mut all, |m| taken.add(m, &mut recorder)));
        let cut = match read {
            Ok(()) => None,
            Err(error) if error.is_partial() || messages.counts().frames > 0 => Some(error),
            Err(error) => return Err(error.into()),
        };
        if let Some(error) = taken.broken {
            return Err(TesterError::NoRoom(error));
        }
        let Some(recording) = recorder.finish().map_err(TesterError::NoRoom)? else {
            let why = format!(
                "{}: it contains no query to replay ({} replies, {} queries that are cut or have no header; DNS is looked for on port {ports:?}: --replay-port)",
                path.display(),
                taken.replies,
                taken.left_out
            );
            return Err(Invalid::value("workload.replay.capture", why).into());
        };
        let cut = cut.map(|error| Warning::CaptureCut { why: error.to_string() });
        let incomplete = cut.as_ref().map(ToString::to_string);
        let mut warnings: Vec<Warning> = cut.into_iter().collect();
        if taken.left_out > 0 {
            warnings.push(Warning::QueriesLeftOut { queries: taken.left_out });
        }
        let (clients, path) = (taken.numbers.len(), path.to_owned());
        Ok(Replay { recording, speed, clients, path, warnings, incomplete })
    }

    /// Returns the duration of the replay.
    pub(crate) fn duration(&self) -> Nanos {
        Nanos((self.recording.span.0 as f64 / self.speed) as u64).max(SHORTEST)
    }

    /// Returns the constant rate that sends as many queries in the same time; it decides about sockets and waits.
    pub(crate) fn mean(&self) -> Pacing {
        let rate = self.recording.queries as f64 / self.duration().as_secs_f64();
        Pacing::Constant { rate: Qps::new(rate).expect("a finite number of queries in some time") }
    }

    /// Describes the queries for the conditions of the record.
    pub(crate) fn describe(&self) -> String {
        format!(
            "{} queries of {} clients of {}",
            self.recording.queries,
            self.clients,
            self.path.display()
        )
    }

    /// Describes the pacing.
    pub(crate) fn describe_pacing(&self) -> String {
        format!("replay at {}x", self.speed)
    }
}
