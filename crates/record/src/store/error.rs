//! Errors of a store.

use std::io;
use std::path::{Path, PathBuf};

use measure::histogram::NotAHistogram;
use rusqlite::{ErrorCode, ffi};

use super::schema::VERSION;

/// Error of a store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file system refused an operation.
    #[error("cannot {what} the store {}: {source}", path.display())]
    Io {
        /// Operation that failed.
        what: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Error of the file system.
        source: io::Error,
    },
    /// The file belongs to another program.
    #[error("{}: not a store of dnsdyno ({why}); it was left untouched", path.display())]
    NotAStore {
        /// Path of the file.
        path: PathBuf,
        /// What the file is instead.
        why: String,
    },
    /// The store is damaged.
    #[error(
        "{}: the store is damaged ({why}); it was left untouched. Move it away and a new one is begun; \
         `sqlite3 FILE .recover` may save what is in it",
        path.display()
    )]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// Damage that SQLite reported.
        why: String,
    },
    /// Another version of dnsdyno wrote the store.
    #[error(
        "{}: the store has version {found}, this dnsdyno reads version {}; it was left untouched. Move it away and a new one \
         is begun, or name another store (--store)",
        path.display(), VERSION
    )]
    Version {
        /// Path of the file.
        path: PathBuf,
        /// Version found.
        found: i32,
    },
    /// There is no space left for what was to be stored.
    #[error("{}: the disk is full: free some space, or name another store (--store)", path.display())]
    Full {
        /// Path of the file.
        path: PathBuf,
    },
    /// A run has changed on the disk.
    #[error(
        "{}: run {id} has changed on the disk since it was stored; `dnsdyno delete {id}` removes it",
        path.display()
    )]
    Changed {
        /// Path of the file.
        path: PathBuf,
        /// Number of the run.
        id: i64,
    },
    /// SQLite refused an operation.
    #[error("cannot {what} the store {}: {source}", path.display())]
    Sqlite {
        /// Operation that failed.
        what: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Error of SQLite.
        source: rusqlite::Error,
    },
    /// There is no run of that number.
    #[error("{}: there is no run {id}; {}", path.display(), known(*last))]
    NoRun {
        /// Path of the file.
        path: PathBuf,
        /// Number that was requested.
        id: i64,
        /// Highest number of a run in the store.
        last: Option<i64>,
    },
    /// Another process writes the run.
    #[error("{}: run {id} is in use by another process", path.display())]
    Busy {
        /// Path of the file.
        path: PathBuf,
        /// Number of the run.
        id: i64,
    },
    /// A row has invalid content.
    #[error("{}: the {what} of run {id} cannot be understood: {why}", path.display())]
    Row {
        /// Path of the file.
        path: PathBuf,
        /// Number of the run.
        id: i64,
        /// Part of the run.
        what: &'static str,
        /// What is wrong.
        why: String,
    },
}

/// Lists the runs of the store, for a message.
fn known(last: Option<i64>) -> String {
    last.map_or("the store is empty".to_owned(), |last| {
        format!("the last one is {last}; `dnsdyno runs` lists them")
    })
}

impl StoreError {
    /// Returns whether the request was invalid (exit code 2), instead of failed (exit code 1).
    pub fn is_bad_input(&self) -> bool {
        !matches!(self, StoreError::Io { .. } | StoreError::Sqlite { .. } | StoreError::Full { .. })
    }
}

/// Adds the path and the operation to errors of SQLite.
pub(super) trait Context<T> {
    /// Adds the operation and the file to an error.
    fn at(self, path: &Path, what: &'static str) -> Result<T, StoreError>;
}

impl<T> Context<T> for rusqlite::Result<T> {
    fn at(self, path: &Path, what: &'static str) -> Result<T, StoreError> {
        self.map_err(|source| {
            let path = path.to_owned();
            match source.sqlite_error_code() {
                Some(ErrorCode::DatabaseCorrupt) => {
                    StoreError::Damaged { path, why: source.to_string() }
                }
                Some(ErrorCode::NotADatabase) => {
                    StoreError::NotAStore { path, why: source.to_string() }
                }
                Some(ErrorCode::DiskFull) => StoreError::Full { path },
                // The memory that is shared beside the store has no room.
                _ if extended(&source) == Some(ffi::SQLITE_IOERR_SHMSIZE) => {
                    StoreError::Full { path }
                }
                _ => StoreError::Sqlite { what, path, source },
            }
        })
    }
}

/// Returns the extended code of an error of SQLite.
fn extended(error: &rusqlite::Error) -> Option<i32> {
    error.sqlite_error().map(|error| error.extended_code)
}

/// Part of a run, for errors of its rows.
#[derive(Clone, Copy)]
pub(super) struct StoredPart<'a> {
    /// Path of the file.
    pub(super) path: &'a Path,
    /// Number of the run.
    pub(super) id: i64,
    /// Name of the part.
    pub(super) what: &'static str,
}

impl StoredPart<'_> {
    fn wrong(self, why: String) -> StoreError {
        StoreError::Row { path: self.path.to_owned(), id: self.id, what: self.what, why }
    }

    /// Converts the JSON of a row.
    pub(super) fn json<T>(self, result: serde_json::Result<T>) -> Result<T, StoreError> {
        result.map_err(|e| self.wrong(e.to_string()))
    }

    /// Converts the histogram of a row.
    pub(super) fn hdr<T>(self, result: Result<T, NotAHistogram>) -> Result<T, StoreError> {
        result.map_err(|e| self.wrong(e.to_string()))
    }
}
