//! The checksum of a run that has ended: damage on the disk since then is found before the data are
//! read.

use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Transaction};

use super::StoreError;
use super::error::Context;

/// All rows of a run, in their order.
const ROWS: [&str; 8] = [
    "SELECT id, experiment, started_unix_s, touched_unix_s, state, plan FROM run WHERE id = ?1",
    "SELECT * FROM seam WHERE run = ?1 ORDER BY id",
    "SELECT * FROM skipped WHERE run = ?1 ORDER BY id",
    "SELECT * FROM cell WHERE run = ?1 ORDER BY id",
    "SELECT trial.* FROM trial JOIN cell ON cell.id = trial.cell WHERE run = ?1 ORDER BY trial.id",
    "SELECT histogram.* FROM histogram JOIN trial ON trial.id = histogram.trial JOIN cell ON cell.id = trial.cell
     WHERE run = ?1 ORDER BY trial.id, histogram.name",
    "SELECT series.* FROM series JOIN cell ON cell.id = series.cell WHERE run = ?1 ORDER BY series.id",
    "SELECT * FROM file WHERE run = ?1 ORDER BY id",
];

/// Stores the checksum of run `id`, or none before it has ended.
pub(super) fn put(transaction: &Transaction<'_>, id: i64) -> rusqlite::Result<()> {
    let sql = "SELECT state <> 'running' FROM run WHERE id = ?1";
    let has_ended: bool = transaction.query_row(sql, [id], |row| row.get(0))?;
    let sum = has_ended.then(|| checksum(transaction, id)).transpose()?;
    transaction.execute("UPDATE run SET sum = ?2 WHERE id = ?1", (id, sum)).map(drop)
}

/// Refuses run `id` if it has ended and a row of it has changed since.
pub(super) fn check(connection: &Connection, path: &Path, id: i64) -> Result<(), StoreError> {
    let sql = "SELECT sum, state <> 'running' FROM run WHERE id = ?1";
    let found = connection.query_row(sql, [id], |row| Ok((row.get(0)?, row.get(1)?))).optional();
    let (sum, has_ended): (Option<i64>, bool) = found.at(path, "read")?.unwrap_or_default();
    let wanted = has_ended.then(|| checksum(connection, id)).transpose().at(path, "read")?;
    if sum == wanted { Ok(()) } else { Err(StoreError::Changed(path.to_owned(), id)) }
}

/// Returns the CRC-32 of the rows of a run: of each value with its type and its length.
fn checksum(connection: &Connection, id: i64) -> rusqlite::Result<i64> {
    let mut hasher = crc32fast::Hasher::new();
    let mut add = |kind: u8, octets: &[u8]| {
        hasher.update(&[kind]);
        hasher.update(&(octets.len() as u64).to_le_bytes());
        hasher.update(octets);
    };
    for sql in ROWS {
        let mut statement = connection.prepare_cached(sql)?;
        let columns = statement.column_count();
        let mut rows = statement.query([id])?;
        while let Some(row) = rows.next()? {
            for column in 0..columns {
                match row.get_ref(column)? {
                    ValueRef::Null => add(0, &[]),
                    ValueRef::Integer(value) => add(1, &value.to_le_bytes()),
                    ValueRef::Real(value) => add(2, &value.to_le_bytes()),
                    ValueRef::Text(octets) => add(3, octets),
                    ValueRef::Blob(octets) => add(4, octets),
                }
            }
        }
        // The end of a table.
        add(5, &[]);
    }
    Ok(hasher.finalize().into())
}
