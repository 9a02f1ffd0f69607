//! Errors of a store of runs (SQLite).

use std::io;
use std::path::{Path, PathBuf};

use measure::histogram::NotAHistogram;
use rusqlite::{ErrorCode, ffi};

use super::schema::VERSION;

/// Why a store cannot be used, or a run of it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file system refused an operation.
    #[error(
        "cannot {what} the store {}: {source}; --store PATH names another one, `run --no-store` needs none",
        path.display()
    )]
    Io {
        /// The failed operation on the file, as in "cannot open".
        what: &'static str,
        /// Path of the store's file.
        path: PathBuf,
        /// Error of the file system.
        source: io::Error,
    },
    /// The file belongs to another program.
    #[error("{}: not a store of dnsdyno ({why}); it was left untouched", path.display())]
    NotAStore {
        /// Path of the file, which is not changed.
        path: PathBuf,
        /// Actual content of the file.
        why: String,
    },
    /// SQLite finds that the file is damaged.
    #[error(
        "{}: the store is damaged ({why}); it was left untouched. Move it away and a new one is begun; \
         `sqlite3 FILE .recover` may save what is in it",
        path.display()
    )]
    Damaged {
        /// Path of the file, which stays as it is.
        path: PathBuf,
        /// The damage, in the words of SQLite.
        why: String,
    },
    /// Another version of dnsdyno wrote the store.
    #[error(
        "{}: the store has version {found}, this dnsdyno reads version {}; it was left untouched. Move it away and a new one \
         is begun, or name another store (--store)",
        path.display(), VERSION
    )]
    Version {
        /// Path of the file, which stays as it is.
        path: PathBuf,
        /// Version of the tables in the file.
        found: i32,
    },
    /// There is no disk space left for the data.
    #[error("{path}: the disk is full: free some space, or name another store (--store)", path = .0.display())]
    Full(PathBuf),
    /// A run has changed on the disk.
    #[error(
        "{path}: run {1} has changed on the disk since it was stored; `dnsdyno delete {1}` removes it",
        path = .0.display()
    )]
    Changed(PathBuf, i64),
    /// SQLite refused an operation for another reason.
    #[error("cannot {what} the store {}: {source}", path.display())]
    Sqlite {
        /// The failed operation on the store, as in "cannot read".
        what: &'static str,
        /// Path of the store's file.
        path: PathBuf,
        /// Error returned by SQLite.
        source: rusqlite::Error,
    },
    /// There is no run of that number.
    #[error("{}: there is no run {id}; {}", path.display(), known(*last))]
    NoRun {
        /// Path of the store's file.
        path: PathBuf,
        /// Number of the requested run.
        id: i64,
        /// Highest number of a run in the store.
        last: Option<i64>,
    },
    /// Another process writes the run.
    #[error("{path}: run {1} is in use by another process", path = .0.display())]
    Busy(PathBuf, i64),
    /// A row has invalid content.
    #[error("{}: the {what} of run {id} cannot be understood: {why}", path.display())]
    Row {
        /// Path of the store's file.
        path: PathBuf,
        /// Number of the run with the row.
        id: i64,
        /// Part of the run that the row is: its plan, a cell, a trial.
        what: &'static str,
        /// Place of the error in the JSON or the numbers.
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
        !matches!(self, StoreError::Io { .. } | StoreError::Sqlite { .. } | StoreError::Full(..))
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
                Some(ErrorCode::DiskFull) => StoreError::Full(path),
                // The shared memory of the store has no space left.
                _ if extended(&source) == Some(ffi::SQLITE_IOERR_SHMSIZE) => StoreError::Full(path),
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
    /// Path of the store's file.
    pub(super) path: &'a Path,
    /// Number of the run that has the part.
    pub(super) id: i64,
    /// Name of the part in messages: plan, cell, trial.
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
