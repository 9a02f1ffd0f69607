//! Checksums of rows: what has changed on the disk since it was stored is found before it is read.
//!
//! Each row has the CRC-32 of its other columns in `sum`. A statement that changes a row empties its `sum`; each transaction
//! fills the empty ones before it ends.

use std::path::Path;

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Transaction};

use super::StoreError;
use super::error::Context as _;

/// A table with checksums.
struct Table {
    name: &'static str,
    /// Columns of which the checksum is made.
    columns: &'static str,
    /// The run of a row, as SQL.
    run: &'static str,
}

/// All tables with checksums.
const TABLES: [Table; 8] = [
    Table {
        name: "run",
        columns: "id, experiment, started_unix_s, touched_unix_s, state, plan",
        run: "id",
    },
    Table { name: "seam", columns: "id, run, seam", run: "run" },
    Table { name: "skipped", columns: "id, run, skipped", run: "run" },
    Table { name: "cell", columns: "id, run, server, settings, state, record", run: "run" },
    Table {
        name: "trial",
        columns: "id, cell, kind, repeat, rate_qps, stored_unix_s, record",
        run: "(SELECT run FROM cell WHERE cell.id = trial.cell)",
    },
    Table {
        name: "histogram",
        columns: "trial, name, hdr",
        run: "(SELECT run FROM cell JOIN trial ON trial.cell = cell.id WHERE trial.id = histogram.trial)",
    },
    Table {
        name: "series",
        columns: "id, cell, trial, name, unit, samples",
        run: "(SELECT run FROM cell WHERE cell.id = series.cell)",
    },
    Table { name: "file", columns: "id, run, cell, name, text", run: "run" },
];

/// Gives a connection the SQL function `checksum`.
pub(super) fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function("checksum", -1, flags, |values| Ok(checksum(values)))
}

/// Returns the CRC-32 of values, each with its type and its length.
fn checksum(values: &Context<'_>) -> i64 {
    let mut hasher = crc32fast::Hasher::new();
    let mut add = |kind: u8, octets: &[u8]| {
        hasher.update(&[kind]);
        hasher.update(&(octets.len() as u64).to_le_bytes());
        hasher.update(octets);
    };
    for i in 0..values.len() {
        match values.get_raw(i) {
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
    for Table { name, columns, .. } in TABLES {
        let sql = format!("UPDATE {name} SET sum = checksum({columns}) WHERE sum IS NULL");
        transaction.prepare_cached(&sql)?.execute([])?;
    }
    Ok(())
}

/// Refuses a store with a row that has changed since it was stored. All runs are looked at, since a changed row may seem to
/// belong to another one.
pub(super) fn check(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    for Table { name, columns, run } in TABLES {
        let sql = format!("SELECT {run} FROM {name} WHERE sum IS NOT checksum({columns}) LIMIT 1");
        let found: Option<Option<i64>> =
            connection.query_row(&sql, [], |row| row.get(0)).optional().at(path, "read")?;
        if let Some(run) = found {
            return Err(StoreError::Changed { path: path.to_owned(), table: name, run });
        }
    }
    Ok(())
}
