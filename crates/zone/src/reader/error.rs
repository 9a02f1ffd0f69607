//! Errors in zone files, with their place.

use std::io;
use std::path::PathBuf;

/// The reason why a zone file is not valid.
#[derive(Debug, thiserror::Error)]
pub enum ZoneFileError {
    /// The file cannot be read.
    #[error("cannot read the zone file {}: {source}", path.display())]
    Unreadable {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// An entry is not valid.
    #[error("{}:{place}: {why}", path.display())]
    BadEntry {
        /// The path of the file.
        path: PathBuf,
        /// The place, `line:column`, from 1.
        place: String,
        /// The mistake, and the correct form.
        why: String,
    },
    /// The zone name is not known at the first record.
    #[error("{}: the first record is not a SOA record: start with one, or give the zone name", path.display())]
    NoApex {
        /// The path of the file.
        path: PathBuf,
    },
    /// No record of the whole file is the SOA record of the zone.
    #[error("{}: it has no SOA record, so it is no whole zone: did the transfer fail?", path.display())]
    NoSoa {
        /// The path of the file.
        path: PathBuf,
    },
    /// The file is a transfer that ended before its last record, as dig wrote at its end.
    #[error("{}: dig wrote that this transfer failed: transfer the zone again", path.display())]
    FailedTransfer {
        /// The path of the file.
        path: PathBuf,
    },
    /// The check has a limit of names.
    #[error(
        "{}: more than {most} names, too many for this check: use named-checkzone",
        path.display()
    )]
    TooManyNames {
        /// The path of the file.
        path: PathBuf,
        /// Largest number of names of a zone that is checked.
        most: usize,
    },
    /// A second pass read other records than the first.
    #[error(
        "{}: {records} records at first, {seen} when it was read again: the file changed, or is a pipe; save it to a file",
        path.display()
    )]
    Changed {
        /// The path of the file.
        path: PathBuf,
        /// Number of records of the first pass.
        records: u64,
        /// Number of records of the later pass.
        seen: u64,
    },
}
