//! What goes wrong with a store.

use std::io;
use std::path::{Path, PathBuf};

use measure::histogram::NotAHistogram;
use rusqlite::ErrorCode;

use super::schema;

/// A store that cannot be used, or not in this way.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file system said no.
    #[error("cannot {what} the store {}: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is another program's file.
    #[error("{}: not a store of dnsdyno ({why}); it was left untouched", path.display())]
    NotAStore {
        /// The file.
        path: PathBuf,
        /// What it is instead.
        why: String,
    },
    /// It is damaged.
    #[error(
        "{}: the store is damaged ({why}); it was left untouched. Move it away and a new one is begun; \
         `sqlite3 FILE .recover` may save what is in it",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What SQLite found.
        why: String,
    },
    /// A newer dnsdyno wrote it.
    #[error(
        "{}: the store has version {found}, this dnsdyno knows versions up to {}; it was left untouched",
        path.display(), schema::VERSION
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The version found.
        found: i32,
    },
    /// SQLite said no.
    #[error("cannot {what} the store {}: {source}", path.display())]
    Sqlite {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: rusqlite::Error,
    },
    /// There is no run of that number.
    #[error("{}: there is no run {id}; {}", path.display(), known(*last))]
    NoRun {
        /// The file.
        path: PathBuf,
        /// The number asked for.
        id: i64,
        /// The highest there is.
        last: Option<i64>,
    },
    /// Another process is at the run.
    #[error("{}: run {id} is going on in another process", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
        /// The run.
        id: i64,
    },
    /// A row does not hold what it should.
    #[error("{}: the {what} of run {id} cannot be understood: {why}", path.display())]
    Row {
        /// The file.
        path: PathBuf,
        /// The run.
        id: i64,
        /// Which part.
        what: &'static str,
        /// What is wrong.
        why: String,
    },
}

/// The runs there are, for a message.
fn known(last: Option<i64>) -> String {
    last.map_or("the store is empty".to_owned(), |last| {
        format!("the last one is {last}; `dnsdyno runs` lists them")
    })
}

impl StoreError {
    /// Whether what was asked for makes no sense (exit code 2), rather than that it failed (1).
    pub fn is_bad_input(&self) -> bool {
        !matches!(self, StoreError::Io { .. } | StoreError::Sqlite { .. })
    }
}

/// Errors of SQLite with the place they belong to.
pub(super) trait Context<T> {
    /// Says what was tried on which file.
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
                _ => StoreError::Sqlite { what, path, source },
            }
        })
    }
}

/// A part of a run, for errors of its rows.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    /// The file.
    pub(super) path: &'a Path,
    /// The run.
    pub(super) id: i64,
    /// Which part.
    pub(super) what: &'static str,
}

impl Part<'_> {
    fn wrong(self, why: String) -> StoreError {
        StoreError::Row { path: self.path.to_owned(), id: self.id, what: self.what, why }
    }

    /// JSON of a row.
    pub(super) fn json<T>(self, result: serde_json::Result<T>) -> Result<T, StoreError> {
        result.map_err(|e| self.wrong(e.to_string()))
    }

    /// A histogram of a row.
    pub(super) fn hdr<T>(self, result: Result<T, NotAHistogram>) -> Result<T, StoreError> {
        result.map_err(|e| self.wrong(e.to_string()))
    }
}
