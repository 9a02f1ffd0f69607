//! Outcomes of updates, and their counts.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use measure::{Histogram, Nanos};
use wire::rr::Rcode;

/// The outcome of one update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The primary replied with this RCODE.
    Reply(u8),
    /// There was no reply before the timeout.
    Lost,
}

/// RCODE 0: the update is applied and on stable storage (RFC 2136 section 3.5).
pub const NOERROR: u8 = 0;

/// Returns the name of an RCODE in a reply to an update (RFC 2136 section 2.2).
pub fn rcode_name(rcode: u8) -> String {
    Rcode(rcode.into()).to_string()
}

/// An error in a file of outcomes.
#[derive(Debug, thiserror::Error)]
pub enum OutcomesError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// Path of the file of outcomes.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A line is not an outcome.
    #[error("{}:{line}:1: not an outcome such as `0 NOERROR 125`", path.display())]
    Line {
        /// Path of the file of outcomes.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
    },
}

/// Reads a file of outcomes, each a line with the number of the update, its RCODE or `LOST`, and microseconds; returns the
/// numbers of the acknowledged updates.
///
/// # Errors
/// A file that cannot be read, or its first line that is not an outcome.
pub fn acknowledged(path: &Path) -> Result<HashSet<u64>, OutcomesError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| OutcomesError::Read { path: path.to_owned(), source })?;
    let number = |(at, line): (usize, &str)| {
        let mut words = line.split(' ');
        match (words.next().map(str::parse), words.next()) {
            (Some(Ok(number)), Some("NOERROR")) => Ok(Some(number)),
            (Some(Ok(_)), Some(_)) => Ok(None),
            _ => Err(OutcomesError::Line { path: path.to_owned(), line: at + 1 }),
        }
    };
    text.lines().enumerate().filter_map(|line| number(line).transpose()).collect()
}

/// Counts of the outcomes of a stream of updates.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Number of updates that were sent.
    pub sent: u64,
    /// Number of replies by RCODE.
    pub rcodes: BTreeMap<u8, u64>,
    /// Number of updates without a reply.
    pub lost: u64,
    /// Time from the due time of an update to its acknowledgement.
    pub latency: Histogram,
}

impl Tally {
    /// Counts an update; `latency` is the time from its due time to its outcome.
    pub fn count(&mut self, outcome: Outcome, latency: Nanos) {
        self.sent += 1;
        match outcome {
            Outcome::Lost => self.lost += 1,
            Outcome::Reply(rcode) => {
                *self.rcodes.entry(rcode).or_default() += 1;
                if rcode == NOERROR {
                    self.latency.record(latency);
                }
            }
        }
    }

    /// Adds the counts of another tally.
    pub fn merge(&mut self, other: &Tally) {
        self.sent += other.sent;
        self.lost += other.lost;
        for (rcode, count) in &other.rcodes {
            *self.rcodes.entry(*rcode).or_default() += count;
        }
        self.latency.merge(&other.latency);
    }

    /// Returns the number of acknowledged updates.
    pub fn acknowledged(&self) -> u64 {
        self.rcodes.get(&NOERROR).copied().unwrap_or(0)
    }
}
