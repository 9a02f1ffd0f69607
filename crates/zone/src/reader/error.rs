//! What is wrong with a zone file, and where.

use std::io;
use std::path::PathBuf;

/// Why a zone file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ZoneFileError {
    /// It cannot be read.
    #[error("cannot read the zone file {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// An entry is not understood.
    #[error("{}:{place}: {why}", path.display())]
    BadEntry {
        /// The file.
        path: PathBuf,
        /// `line:column`, from 1.
        place: String,
        /// What is wrong, and what to do.
        why: String,
    },
    /// The zone's name is not said before its records.
    #[error("{}: the first record is not a SOA record; it must be, or give the zone's name", path.display())]
    NoApex {
        /// The file.
        path: PathBuf,
    },
    /// A record lies outside of the zone.
    #[error("{}:{line}: {owner} does not lie in the zone {zone}", path.display())]
    Outside {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: u64,
        /// Whose record it is.
        owner: String,
        /// The zone.
        zone: String,
    },
}
