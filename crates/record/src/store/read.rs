//! Reads runs from the store.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::{Connection, Params, Row};

use super::error::{Context, StoredPart};
use super::{CellLine, CellState, RunLine, RunState, StoreError, lock, seal};
use crate::{CellRecord, Run, SCHEMA, Series, TrialRecord};

/// Returns the list of all runs.
pub(super) fn runs(connection: &Connection, path: &Path) -> Result<Vec<RunLine>, StoreError> {
    let sql = "
        SELECT id, experiment, started_unix_s, touched_unix_s, state,
               (SELECT group_concat(DISTINCT server) FROM cell WHERE run = run.id),
               (SELECT count(*) FROM cell WHERE run = run.id AND state = 'done'),
               (SELECT count(*) FROM cell WHERE run = run.id),
               (SELECT count(*) FROM trial JOIN cell ON cell.id = trial.cell
                WHERE cell.run = run.id AND kind = 'trial')
        FROM run ORDER BY id";
    rows(connection, path, sql, [], |row| {
        let (id, state): (i64, String) = (row.get(0)?, row.get(4)?);
        let servers: Option<String> = row.get(5)?;
        Ok(RunLine {
            id,
            experiment: row.get(1)?,
            started_unix_s: row.get(2)?,
            touched_unix_s: row.get(3)?,
            state: match state.as_str() {
                "complete" => RunState::Complete,
                "incomplete" => RunState::Incomplete,
                _ if lock::is_held(path, id) => RunState::Running,
                _ => RunState::Interrupted,
            },
            servers: servers.map_or(Vec::new(), |s| s.split(',').map(str::to_owned).collect()),
            cells_done: row.get(6)?,
            cells: row.get(7)?,
            trials: row.get(8)?,
        })
    })
}

/// Returns the list of the cells of run `id`.
pub(super) fn cells(
    connection: &Connection,
    path: &Path,
    id: i64,
) -> Result<Vec<CellLine>, StoreError> {
    let sql = "
        SELECT server, settings, state,
               (SELECT count(*) FROM trial WHERE cell = cell.id AND kind = 'trial')
        FROM cell WHERE run = ?1 ORDER BY id";
    let part = StoredPart { path, id, what: "cell" };
    rows(connection, path, sql, [id], |row| {
        let (settings, state): (String, String) = (row.get(1)?, row.get(2)?);
        Ok((row.get(0)?, settings, state, row.get(3)?))
    })?
    .into_iter()
    .map(|(server, settings, state, trials)| {
        let settings = part.json(serde_json::from_str(&settings))?;
        let state = match state.as_str() {
            "done" => CellState::Done,
            "begun" => CellState::Begun,
            _ => CellState::Planned,
        };
        Ok(CellLine { server, settings, state, trials })
    })
    .collect()
}

/// Loads run `id`, which exists. One transaction reads it, so that the data are consistent.
pub(super) fn load(connection: &Connection, path: &Path, id: i64) -> Result<Run, StoreError> {
    let snapshot = connection.unchecked_transaction().at(path, "read")?;
    seal::check(&snapshot, path, id)?;
    let reader = Reader { connection: &snapshot, path, id };
    let (plan, touched, state): (String, f64, String) = snapshot
        .query_row("SELECT plan, touched_unix_s, state FROM run WHERE id = ?1", [id], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .at(path, "read")?;
    let mut plan: crate::Plan = reader.part("plan").json(serde_json::from_str(&plan))?;
    plan.files = reader.files("SELECT name, text FROM file WHERE run = ?1 AND cell IS NULL", id)?;
    let seams: Vec<crate::Seam> =
        reader.records("seam", "SELECT seam FROM seam WHERE run = ?1 ORDER BY id")?;
    let skipped =
        reader.records("skipped", "SELECT skipped FROM skipped WHERE run = ?1 ORDER BY id")?;
    let pauses: f64 = seams.iter().map(|s| s.resumed_unix_s - s.stopped_unix_s).sum();
    let mut run = Run {
        schema: SCHEMA,
        id: Some(id),
        elapsed_s: (touched - plan.started_unix_s - pauses).max(0.0),
        complete: state == "complete",
        skipped,
        seams,
        results: reader.cells()?,
        plan,
        gate: None,
    };
    run.decide();
    Ok(run)
}

/// Reads the parts of one run, and names the part and the run in errors.
struct Reader<'a> {
    connection: &'a Connection,
    path: &'a Path,
    id: i64,
}

impl Reader<'_> {
    fn part(&self, what: &'static str) -> StoredPart<'_> {
        StoredPart { path: self.path, id: self.id, what }
    }

    /// Reads the JSON of each row that a query of SQL returns.
    fn records<T: serde::de::DeserializeOwned>(
        &self,
        what: &'static str,
        sql: &str,
    ) -> Result<Vec<T>, StoreError> {
        rows(self.connection, self.path, sql, [self.id], |row| row.get::<_, String>(0))?
            .iter()
            .map(|text| self.part(what).json(serde_json::from_str(text)))
            .collect()
    }

    fn files(&self, sql: &str, of: i64) -> Result<BTreeMap<String, String>, StoreError> {
        let pairs = rows(self.connection, self.path, sql, [of], |r| Ok((r.get(0)?, r.get(1)?)))?;
        Ok(pairs.into_iter().collect())
    }

    /// Reads the cells that have measurements.
    fn cells(&self) -> Result<Vec<CellRecord>, StoreError> {
        let sql = "SELECT id, record FROM cell WHERE run = ?1 AND state <> 'planned' ORDER BY id";
        let cells = rows(self.connection, self.path, sql, [self.id], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
        })?;
        cells.into_iter().map(|(id, text)| self.cell(id, &text)).collect()
    }

    fn cell(&self, id: i64, text: &str) -> Result<CellRecord, StoreError> {
        let mut cell: CellRecord = self.part("cell").json(serde_json::from_str(text))?;
        cell.trials = self.trials(id, "trial")?;
        if let Some(certificate) = &mut cell.certificate {
            certificate.trials = self.trials(id, "self-test")?;
        }
        let sql =
            "SELECT name, unit, samples FROM series WHERE cell = ?1 AND trial IS NULL ORDER BY id";
        cell.series = rows(self.connection, self.path, sql, [id], series)?;
        cell.files = self.files("SELECT name, text FROM file WHERE cell = ?1", id)?;
        Ok(cell)
    }

    fn trials(&self, cell: i64, kind: &str) -> Result<Vec<TrialRecord>, StoreError> {
        let sql = "SELECT id, record FROM trial WHERE cell = ?1 AND kind = ?2 ORDER BY id";
        let trials = rows(self.connection, self.path, sql, (cell, kind), |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
        })?;
        trials.into_iter().map(|(id, text)| self.trial(id, &text)).collect()
    }

    fn trial(&self, id: i64, text: &str) -> Result<TrialRecord, StoreError> {
        let part = self.part("trial");
        let mut trial: TrialRecord = part.json(serde_json::from_str(text))?;
        let sql = "SELECT name, hdr FROM histogram WHERE trial = ?1";
        let histograms: BTreeMap<String, Vec<u8>> =
            rows(self.connection, self.path, sql, [id], |row| Ok((row.get(0)?, row.get(1)?)))?
                .into_iter()
                .collect();
        for (name, times) in trial.trial.distributions_mut() {
            if let Some(hdr) = histograms.get(name) {
                part.hdr(times.put_histogram(hdr))?;
            }
        }
        let sql = "SELECT name, unit, samples FROM series WHERE trial = ?1 ORDER BY id";
        trial.trial.probes = rows(self.connection, self.path, sql, [id], series)?;
        Ok(trial)
    }
}

/// Reads a row of the table of series.
fn series(row: &Row<'_>) -> rusqlite::Result<Series> {
    let samples: Vec<u8> = row.get(2)?;
    let number =
        |bytes: &[u8]| f64::from_le_bytes(bytes.try_into().expect("eight bytes of sixteen"));
    Ok(Series {
        name: row.get(0)?,
        unit: row.get(1)?,
        samples: samples.chunks_exact(16).map(|b| (number(&b[..8]), number(&b[8..]))).collect(),
    })
}

/// Reads all rows of a query.
fn rows<T>(
    connection: &Connection,
    path: &Path,
    sql: &str,
    params: impl Params,
    row: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, StoreError> {
    connection
        .prepare_cached(sql)
        .and_then(|mut statement| statement.query_map(params, row)?.collect())
        .at(path, "read")
}
