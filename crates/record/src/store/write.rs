//! Writes a run in progress: each call is one transaction.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::StoreError;
use super::connection::{connect, now};
use super::error::{Context, StoredPart};
use super::lock::RunLock;
use super::seal;
use crate::{CellRecord, Plan, Seam, Series, Skipped, TrialRecord};

/// Varied settings of a cell.
type Settings = BTreeMap<String, String>;

/// A run in progress. If it is dropped without [`finish`](Self::finish), the run counts as interrupted.
#[derive(Debug)]
pub struct Recording {
    connection: Connection,
    path: PathBuf,
    id: i64,
    _lock: RunLock,
}

impl Recording {
    pub(super) fn begin(path: &Path, plan: &Plan) -> Result<Self, StoreError> {
        let mut connection = connect(path)?;
        let transaction = immediate(&mut connection).at(path, "begin a run in")?;
        let mut lean = plan.clone();
        let files = std::mem::take(&mut lean.files);
        let part = StoredPart { path, id: 0, what: "plan" };
        transaction
            .execute(
                "INSERT INTO run (experiment, started_unix_s, touched_unix_s, state, plan)
                 VALUES (?1, ?2, ?3, 'running', ?4)",
                params![
                    plan.experiment,
                    plan.started_unix_s,
                    now(),
                    part.json(serde_json::to_string(&lean))?
                ],
            )
            .at(path, "begin a run in")?;
        let id = transaction.last_insert_rowid();
        put_files(&transaction, id, None, &files).at(path, "begin a run in")?;
        // The lock is acquired before other processes can see the run.
        let lock = RunLock::take(path, id)?;
        transaction.commit().at(path, "begin a run in")?;
        Ok(Recording { connection, path: path.to_owned(), id, _lock: lock })
    }

    pub(super) fn resume(path: &Path, id: i64, version: &str) -> Result<Self, StoreError> {
        let lock = RunLock::take(path, id)?;
        let mut recording =
            Recording { connection: connect(path)?, path: path.to_owned(), id, _lock: lock };
        let part = StoredPart { path, id, what: "seam" };
        recording.write("resume a run in", |t, id, path| {
            let stopped_unix_s =
                t.query_row("SELECT touched_unix_s FROM run WHERE id = ?1", [id], |r| r.get(0));
            let trials_before = t.query_row(
                "SELECT count(*) FROM trial JOIN cell ON cell.id = trial.cell
                 WHERE cell.run = ?1 AND kind = 'trial'",
                [id],
                |r| r.get(0),
            );
            let seam = Seam {
                stopped_unix_s: stopped_unix_s.at(path, "read")?,
                resumed_unix_s: now(),
                trials_before: trials_before.at(path, "read")?,
                version: version.to_owned(),
            };
            let seam = part.json(serde_json::to_string(&seam))?;
            t.execute("INSERT INTO seam (run, seam) VALUES (?1, ?2)", params![id, seam])
                .at(path, "write to")?;
            // Skipped servers and settings are tried again.
            t.execute("DELETE FROM skipped WHERE run = ?1", [id]).at(path, "write to")?;
            t.execute("UPDATE run SET state = 'running' WHERE id = ?1", [id])
                .at(path, "write to")?;
            Ok(())
        })?;
        Ok(recording)
    }

    /// Returns the number of the run.
    pub fn id(&self) -> i64 {
        self.id
    }

    /// Returns the path of the store.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Stores a change of the plan: the host's facts or the testbed are known only after the start.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn plan(&mut self, plan: &Plan) -> Result<(), StoreError> {
        let mut lean = plan.clone();
        let files = std::mem::take(&mut lean.files);
        self.write("write to", |t, id, path| {
            let part = StoredPart { path, id, what: "plan" };
            let text = part.json(serde_json::to_string(&lean))?;
            t.execute("UPDATE run SET plan = ?2 WHERE id = ?1", params![id, text])
                .and_then(|_| t.execute("DELETE FROM file WHERE run = ?1 AND cell IS NULL", [id]))
                .and_then(|_| put_files(t, id, None, &files))
                .at(path, "write to")
        })
    }

    /// Stores the planned cells in their order; existing cells are not changed.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn planned(&mut self, cells: &[CellRecord]) -> Result<(), StoreError> {
        self.write("write to", |t, id, path| {
            cells.iter().try_for_each(|cell| cell_id(t, path, id, cell).map(|_| ()))
        })
    }

    /// Stores a trial of `cell` that ended, and with the first trial the known facts of the cell.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn trial(&mut self, cell: &CellRecord, trial: &TrialRecord) -> Result<(), StoreError> {
        self.write("write to", |t, id, path| {
            let record = head(cell, path, id)?;
            let cell = cell_id(t, path, id, cell)?;
            let sql =
                "UPDATE cell SET state = 'begun', record = ?2 WHERE id = ?1 AND state = 'planned'";
            t.execute(sql, params![cell, record]).at(path, "write to")?;
            put_trial(t, path, id, cell, "trial", trial)
        })
    }

    /// Stores `cell` without its trials, which [`trial`](Self::trial) stores; it replaces the
    /// earlier version. `done` tells whether the cell is complete.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn cell(&mut self, cell: &CellRecord, done: bool) -> Result<(), StoreError> {
        self.write("write to", |t, run, path| {
            let id = cell_id(t, path, run, cell)?;
            let sql = "UPDATE cell SET record = ?2, state = ?3 WHERE id = ?1";
            let state = if done { "done" } else { "begun" };
            t.execute(sql, params![id, head(cell, path, run)?, state]).at(path, "write to")?;
            for old in [
                "DELETE FROM trial WHERE cell = ?1 AND kind = 'self-test'",
                "DELETE FROM series WHERE cell = ?1 AND trial IS NULL",
                "DELETE FROM file WHERE cell = ?1",
            ] {
                t.execute(old, [id]).at(path, "write to")?;
            }
            // Cells share the certificates, one for each engine: the trials of a certificate are
            // stored with one cell.
            if let Some(certificate) = &cell.certificate {
                let stored = "SELECT EXISTS (SELECT 1 FROM trial JOIN cell ON cell.id = trial.cell
                              WHERE run = ?1 AND kind = 'self-test'
                                  AND json_extract(cell.record, '$.certificate.engine') IS ?2)";
                let engine = certificate.engine.map(|engine| engine.to_string());
                let stored = t.query_row(stored, params![run, engine], |row| row.get(0));
                if !stored.at(path, "read")? {
                    for trial in &certificate.trials {
                        put_trial(t, path, run, id, "self-test", trial)?;
                    }
                }
            }
            put_series(t, id, None, &cell.series).at(path, "write to")?;
            put_files(t, run, Some(id), &cell.files).at(path, "write to")
        })
    }

    /// Deletes the trials of `cell` that belong to repeat `repeat`: an interrupted search starts again.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn forget(&mut self, cell: &CellRecord, repeat: u32) -> Result<(), StoreError> {
        self.write("write to", |t, id, path| {
            let cell = cell_id(t, path, id, cell)?;
            let sql = "DELETE FROM trial WHERE cell = ?1 AND repeat = ?2 AND kind = 'trial'";
            t.execute(sql, params![cell, repeat]).at(path, "write to").map(|_| ())
        })
    }

    /// Stores that something was not measured.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn skip(&mut self, skipped: &Skipped) -> Result<(), StoreError> {
        self.write("write to", |t, id, path| {
            let part = StoredPart { path, id, what: "skipped" };
            let skipped = part.json(serde_json::to_string(skipped))?;
            t.execute("INSERT INTO skipped (run, skipped) VALUES (?1, ?2)", params![id, skipped])
                .at(path, "write to")
                .map(|_| ())
        })
    }

    /// Ends the run; returns its number.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(mut self, complete: bool) -> Result<i64, StoreError> {
        let state = if complete { "complete" } else { "incomplete" };
        self.write("write to", |t, id, path| {
            t.execute("UPDATE run SET state = ?2 WHERE id = ?1", params![id, state])
                .at(path, "write to")
                .map(|_| ())
        })?;
        Ok(self.id)
    }

    /// Runs one transaction, which also updates the time of the last change; `change` gets the
    /// run's number and the store's path.
    fn write(
        &mut self,
        what: &'static str,
        change: impl FnOnce(&Transaction<'_>, i64, &Path) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let transaction = immediate(&mut self.connection).at(&self.path, what)?;
        change(&transaction, self.id, &self.path)?;
        transaction
            .execute("UPDATE run SET touched_unix_s = ?2 WHERE id = ?1", params![self.id, now()])
            .and_then(|_| seal::put(&transaction, self.id))
            .and_then(|()| transaction.commit())
            .at(&self.path, what)
    }
}

/// Begins a transaction that waits for its lock at the start, where waiting cannot deadlock.
fn immediate(connection: &mut Connection) -> rusqlite::Result<Transaction<'_>> {
    Transaction::new(connection, TransactionBehavior::Immediate)
}

/// Returns the JSON of a cell without the parts that have their own tables.
fn head(cell: &CellRecord, path: &Path, run: i64) -> Result<String, StoreError> {
    let lean = CellRecord {
        trials: Vec::new(),
        series: Vec::new(),
        files: BTreeMap::new(),
        certificate: cell
            .certificate
            .as_ref()
            .map(|c| crate::Certificate { trials: Vec::new(), ..c.clone() }),
        ..cell.clone()
    };
    StoredPart { path, id: run, what: "cell" }.json(serde_json::to_string(&lean))
}

/// Returns the row of a cell; inserts it if it does not exist.
fn cell_id(
    t: &Transaction<'_>,
    path: &Path,
    run: i64,
    cell: &CellRecord,
) -> Result<i64, StoreError> {
    let key: &Settings = &cell.settings;
    let settings = StoredPart { path, id: run, what: "cell" }.json(serde_json::to_string(key))?;
    let sql = "SELECT id FROM cell WHERE run = ?1 AND server = ?2 AND settings = ?3";
    let found = t
        .query_row(sql, params![run, cell.server, settings], |row| row.get(0))
        .optional()
        .at(path, "read")?;
    if let Some(id) = found {
        return Ok(id);
    }
    let sql = "INSERT INTO cell (run, server, settings, state, record) VALUES (?1, ?2, ?3, 'planned', ?4)";
    t.execute(sql, params![run, cell.server, settings, head(cell, path, run)?])
        .at(path, "write to")?;
    Ok(t.last_insert_rowid())
}

fn put_trial(
    t: &Transaction<'_>,
    path: &Path,
    run: i64,
    cell: i64,
    kind: &str,
    trial: &TrialRecord,
) -> Result<(), StoreError> {
    let part = StoredPart { path, id: run, what: "trial" };
    let mut lean = trial.clone();
    let probes = std::mem::take(&mut lean.trial.probes);
    let mut histograms = Vec::new();
    for (name, times) in lean.trial.distributions_mut() {
        if let Some(hdr) = part.hdr(times.take_histogram())? {
            histograms.push((name, hdr));
        }
    }
    let sql = "INSERT INTO trial (cell, kind, repeat, rate_qps, stored_unix_s, record)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let text = part.json(serde_json::to_string(&lean))?;
    t.execute(sql, params![cell, kind, lean.repeat, lean.rate_qps, now(), text])
        .at(path, "write to")?;
    let id = t.last_insert_rowid();
    for (name, hdr) in histograms {
        let sql = "INSERT INTO histogram (trial, name, hdr) VALUES (?1, ?2, ?3)";
        t.execute(sql, params![id, name, hdr]).at(path, "write to")?;
    }
    put_series(t, cell, Some(id), &probes).at(path, "write to")
}

fn put_series(
    t: &Transaction<'_>,
    cell: i64,
    trial: Option<i64>,
    series: &[Series],
) -> rusqlite::Result<()> {
    for s in series {
        let samples: Vec<u8> = s
            .samples
            .iter()
            .flat_map(|(at, v)| [at.to_le_bytes(), v.to_le_bytes()].concat())
            .collect();
        t.execute(
            "INSERT INTO series (cell, trial, name, unit, samples) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![cell, trial, s.name, s.unit, samples],
        )?;
    }
    Ok(())
}

fn put_files(
    t: &Transaction<'_>,
    run: i64,
    cell: Option<i64>,
    files: &BTreeMap<String, String>,
) -> rusqlite::Result<()> {
    for (name, text) in files {
        t.execute(
            "INSERT INTO file (run, cell, name, text) VALUES (?1, ?2, ?3, ?4)",
            params![run, cell, name, text],
        )?;
    }
    Ok(())
}
