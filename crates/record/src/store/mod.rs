//! The store of runs: one SQLite file.
//!
//! ```text
//! Store::begin(plan) ──> Recording: planned, trial, cell, skip ... ──> finish
//! Store::resume(id)  ──┘      each one transaction: it is there wholly or not at all
//! Store::runs, load, delete
//! ```
//!
//! How a run is written and resumed:
//!
//! ```no_run
//! # use std::path::Path;
//! # use record::{CellRecord, Plan, TrialRecord, Store, StoreError, store::CellState};
//! # fn f(plan: Plan, cells: Vec<CellRecord>, trial: TrialRecord) -> Result<(), StoreError> {
//! let store = Store::open(Path::new("runs.db"))?;
//! let mut run = store.begin(&plan)?; // its number: run.id()
//! run.planned(&cells)?; // all cells, in order, before the first trial
//! run.plan(&plan)?; // when the testbed and the host are known
//! run.trial(&cells[0], &trial)?; // each as it ends; of the cell, server and settings count
//! run.cell(&cells[0], false)?; // what is known so far: certificate, version, files ...
//! run.cell(&cells[0], true)?; // done: its capacities and figures; the trials it holds are not looked at
//! let id = run.finish(true)?;
//!
//! let have = store.load(id)?; // what was measured, as far as it went
//! let todo = store.cells(id)?.into_iter().filter(|cell| cell.state != CellState::Done);
//! let mut run = store.resume(id, "0.1.0")?; // writes the seam
//! run.forget(&cells[1], 2)?; // the trials of a repeat that was cut short
//! # let _ = (have, todo); Ok(())
//! # }
//! ```
//!
//! - A kill at any moment loses at most the results that were not yet passed to the store: the journal is a
//!   write-ahead log.
//! - Two processes may write at once; each waits for the other's transaction, up to `LOCK_TIMEOUT`.
//! - The process that writes a run holds a lock beside the store. The kernel releases it when that process dies, so
//!   that an interrupted run can be distinguished from a running one.
//! - A file that is not a store, or is damaged, is opened read-only first and not changed.
//! - A run that has ended has a checksum, so that one that has changed on the disk is refused.

mod check;
mod connection;
mod error;
mod line;
mod lock;
mod read;
mod schema;
mod seal;
mod write;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension};

pub use error::StoreError;
pub use line::{CellLine, CellState, RunLine, RunState};
pub use write::Recording;

use connection::connect;
use error::Context;
use lock::RunLock;

/// An open store of runs: one file of SQLite, which several processes may write.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
}

impl Store {
    /// Opens the store at `path`; makes it and its folder if they do not exist.
    ///
    /// # Errors
    /// If the file is not a store, is damaged, or has another version; it is not changed then.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        if !path.exists() {
            check::create(path)?;
        }
        check::look(path)?;
        Ok(Store { connection: connect(path)?, path: path.to_owned() })
    }

    /// Opens the store at `path` to read it, also where this process may not write.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_to_read(path: &Path) -> Result<Self, StoreError> {
        check::look_at_header(path)?;
        if check::is_writable(path) {
            return Self::open(path);
        }
        check::look(path)?;
        Ok(Store { connection: check::read_only(path)?, path: path.to_owned() })
    }

    /// Checks that the store can be written, and changes nothing.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn try_writing(&self) -> Result<(), StoreError> {
        let touch = "UPDATE sqlite_sequence SET seq = seq WHERE name = 'run'";
        self.connection
            .execute_batch(&format!("BEGIN IMMEDIATE; {touch}; ROLLBACK"))
            .at(&self.path, "write to")
    }

    /// Returns the path of the store.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Begins a run: assigns its number and stores its plan.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn begin(&self, plan: &crate::Plan) -> Result<Recording, StoreError> {
        Recording::begin(&self.path, plan)
    }

    /// Stores a complete run; returns its number.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn put(&self, run: &crate::Run) -> Result<i64, StoreError> {
        let mut recording = self.begin(&run.plan)?;
        for cell in &run.results {
            for trial in &cell.trials {
                recording.trial(cell, trial)?;
            }
            recording.cell(cell, run.complete)?;
        }
        for skipped in &run.skipped {
            recording.skip(skipped)?;
        }
        recording.finish(run.complete)
    }

    /// Resumes run `id`: records an interruption, with dnsdyno `version`. [`load`](Self::load) and
    /// [`cells`](Self::cells) return what is stored so far.
    ///
    /// # Errors
    /// If there is no such run, another process writes it, or it cannot be written.
    pub fn resume(&self, id: i64, version: &str) -> Result<Recording, StoreError> {
        self.must_have(id)?;
        seal::check(&self.connection, &self.path, id)?;
        Recording::resume(&self.path, id, version)
    }

    /// Returns all runs, oldest first.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn runs(&self) -> Result<Vec<RunLine>, StoreError> {
        read::runs(&self.connection, &self.path)
    }

    /// Returns the number of the last run, if there is one.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn last(&self) -> Result<Option<i64>, StoreError> {
        self.connection
            .query_row("SELECT max(id) FROM run", [], |row| row.get(0))
            .at(&self.path, "read")
    }

    /// Returns the cells of run `id` in the order of the plan, with those that are only planned.
    ///
    /// # Errors
    /// If there is no such run, or it cannot be read.
    pub fn cells(&self, id: i64) -> Result<Vec<CellLine>, StoreError> {
        self.must_have(id)?;
        read::cells(&self.connection, &self.path, id)
    }

    /// Loads run `id`: cells in the order of the plan, trials in the order in which they ended. Cells without
    /// measurements are left out.
    ///
    /// # Errors
    /// If there is no such run, or it cannot be read.
    pub fn load(&self, id: i64) -> Result<crate::Run, StoreError> {
        self.must_have(id)?;
        read::load(&self.connection, &self.path, id)
    }

    /// Deletes run `id` with everything that belongs to it.
    ///
    /// # Errors
    /// If there is no such run, a process writes it, or it cannot be deleted.
    pub fn delete(&self, id: i64) -> Result<(), StoreError> {
        self.must_have(id)?;
        let lock = RunLock::take(&self.path, id)?;
        self.connection.execute("DELETE FROM run WHERE id = ?1", [id]).at(&self.path, "delete")?;
        drop(lock);
        Ok(())
    }

    /// Releases the disk space of deleted runs, unless another process uses the store at that time.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn compact(&self) -> Result<(), StoreError> {
        // A run that is being measured must not wait, nor be disturbed.
        if self.runs()?.iter().any(|run| run.state == RunState::Running) {
            return Ok(());
        }
        let done = self.connection.execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)");
        match done.at(&self.path, "compact") {
            Err(StoreError::Sqlite { source, .. })
                if source.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy) =>
            {
                Ok(())
            }
            done => done,
        }
    }

    /// Refuses a number that no run has.
    fn must_have(&self, id: i64) -> Result<(), StoreError> {
        let found = self
            .connection
            .query_row("SELECT id FROM run WHERE id = ?1", [id], |row| row.get::<_, i64>(0))
            .optional()
            .at(&self.path, "read")?;
        match found {
            Some(_) => Ok(()),
            None => Err(StoreError::NoRun { path: self.path.clone(), id, last: self.last()? }),
        }
    }
}

/// Returns the default path of the store: `$DNSDYNO_STORE`, else `dnsdyno/runs.db` in `$XDG_DATA_HOME`, else in
/// `~/.local/share`. `variable` looks up the environment; the result is `None` if no variable is set.
pub fn default_path(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name: &str| variable(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    set("DNSDYNO_STORE").or_else(|| {
        // The XDG base directory specification ignores relative paths.
        let data = set("XDG_DATA_HOME").filter(|path| path.is_absolute());
        let data = data.or_else(|| Some(set("HOME")?.join(".local/share")))?;
        Some(data.join("dnsdyno/runs.db"))
    })
}
