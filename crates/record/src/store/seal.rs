//! Checksums of rows: what has changed on the disk since it was stored is found before it is read.
//!
//! Each row has the CRC-32 of its other columns in `sum`. A statement that changes a row empties its `sum`; each transaction
//! fills the empty ones before it ends.

use std::path::Path;

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Transaction};

use super::StoreError;
use super::error::Context as _;

/// A table with checksums.
struct Table {
    name: &'static str,
    /// Columns of which the checksum is made.
    columns: &'static str,
    /// The run of a row, as SQL.
    run: &'static str,
    /// The columns that say to what a row belongs: their places among `columns`, and the values that they have in the rows of
    /// run `?1`, as SQL.
    owners: &'static [(usize, &'static str)],
}

/// Number of a run.
const RUN: &str = "SELECT ?1";
/// Numbers of the cells of a run.
const CELLS: &str = "SELECT id FROM cell WHERE run = ?1";
/// Numbers of the trials of a run.
const TRIALS: &str = "SELECT trial.id FROM trial JOIN cell ON cell.id = trial.cell WHERE run = ?1";

/// All tables with checksums.
const TABLES: [Table; 8] = [
    Table {
        name: "run",
        columns: "id, experiment, started_unix_s, touched_unix_s, state, plan",
        run: "id",
        owners: &[(0, RUN)],
    },
    Table { name: "seam", columns: "id, run, seam", run: "run", owners: &[(1, RUN)] },
    Table { name: "skipped", columns: "id, run, skipped", run: "run", owners: &[(1, RUN)] },
    Table {
        name: "cell",
        columns: "id, run, server, settings, state, record",
        run: "run",
        owners: &[(1, RUN)],
    },
    Table {
        name: "trial",
        columns: "id, cell, kind, repeat, rate_qps, stored_unix_s, record",
        run: "(SELECT run FROM cell WHERE cell.id = trial.cell)",
        owners: &[(1, CELLS)],
    },
    Table {
        name: "histogram",
        columns: "trial, name, hdr",
        run: "(SELECT run FROM cell JOIN trial ON trial.cell = cell.id WHERE trial.id = histogram.trial)",
        owners: &[(0, TRIALS)],
    },
    Table {
        name: "series",
        columns: "id, cell, trial, name, unit, samples",
        run: "(SELECT run FROM cell WHERE cell.id = series.cell)",
        owners: &[(1, CELLS), (2, TRIALS)],
    },
    Table {
        name: "file",
        columns: "id, run, cell, name, text",
        run: "run",
        owners: &[(1, RUN), (2, CELLS)],
    },
];

/// Gives a connection the SQL function `checksum`.
pub(super) fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function("checksum", -1, flags, |values| Ok(of_arguments(values)))
}

/// Returns the CRC-32 of the arguments of the SQL function.
fn of_arguments(arguments: &Context<'_>) -> i64 {
    checksum((0..arguments.len()).map(|i| arguments.get_raw(i)))
}

/// Returns the CRC-32 of values, each with its type and its length.
fn checksum<'a>(values: impl Iterator<Item = ValueRef<'a>>) -> i64 {
    let mut hasher = crc32fast::Hasher::new();
    let mut add = |kind: u8, octets: &[u8]| {
        hasher.update(&[kind]);
        hasher.update(&(octets.len() as u64).to_le_bytes());
        hasher.update(octets);
    };
    for value in values {
        match value {
            ValueRef::Null => add(0, &[]),
            ValueRef::Integer(value) => add(1, &value.to_le_bytes()),
            ValueRef::Real(value) => add(2, &value.to_le_bytes()),
            ValueRef::Text(octets) => add(3, octets),
            ValueRef::Blob(octets) => add(4, octets),
        }
    }
    hasher.finalize().into()
}

/// Fills the empty checksums.
pub(super) fn fill(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    for Table { name, columns, .. } in &TABLES {
        let sql = format!("UPDATE {name} SET sum = checksum({columns}) WHERE sum IS NULL");
        transaction.prepare_cached(&sql)?.execute([])?;
    }
    Ok(())
}

/// A row whose checksum is not that of its columns.
struct ChangedRow {
    /// Run to which it seems to belong.
    run: Option<i64>,
    values: Vec<Value>,
    sum: Option<i64>,
}

/// Refuses run `id` if a row of it has changed since it was stored. Rows of other runs are looked at too, since a changed row may
/// only seem to belong to another run.
pub(super) fn check(connection: &Connection, path: &Path, id: i64) -> Result<(), StoreError> {
    for table in &TABLES {
        for row in changed(connection, table).at(path, "read")? {
            let here = match row.run {
                Some(run) if run != id => is_of(connection, table, &row, id).at(path, "read")?,
                // One that belongs to nothing may be of any run.
                _ => true,
            };
            if here {
                let (path, table) = (path.to_owned(), table.name);
                return Err(StoreError::Changed { path, table, run: row.run });
            }
        }
    }
    Ok(())
}

/// Returns the rows of a table that have changed.
fn changed(connection: &Connection, table: &Table) -> rusqlite::Result<Vec<ChangedRow>> {
    let Table { name, columns, run, .. } = table;
    let sql =
        format!("SELECT {run}, sum, {columns} FROM {name} WHERE sum IS NOT checksum({columns})");
    let mut statement = connection.prepare_cached(&sql)?;
    let count = statement.column_count();
    let rows = statement.query_map([], |row| {
        let values = (2..count).map(|i| row.get(i)).collect::<Result<_, _>>()?;
        Ok(ChangedRow { run: row.get(0)?, sum: row.get(1)?, values })
    })?;
    rows.collect()
}

/// Returns whether a row had its checksum as one of run `id`: only what says to what it belongs has changed.
fn is_of(
    connection: &Connection,
    table: &Table,
    row: &ChangedRow,
    id: i64,
) -> rusqlite::Result<bool> {
    for (place, owners) in table.owners {
        let mut statement = connection.prepare_cached(owners)?;
        for owner in statement.query_map([id], |owner| owner.get::<_, i64>(0))? {
            let mut values = row.values.clone();
            values[*place] = Value::Integer(owner?);
            if row.sum == Some(checksum(values.iter().map(ValueRef::from))) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}
