//! Tables of a store, and the migration from older versions.
//!
//! ```text
//! run ──< cell ──< trial ──< histogram
//!  ├──< seam  ├──< series (of the cell, or of one of its trials)
//!  ├──< skipped
//!  └──< file (of the run, or of one of its cells)
//! ```
//!
//! Values that SQL queries use have a column; the rest of a record is its JSON. The version is in `user_version`, and
//! each step below leads from one version to the next. A released step is never edited.

use std::path::Path;

use rusqlite::{Connection, Transaction, TransactionBehavior};
use serde_json::Value;

use super::error::Context;
use super::version::VERSION;
use super::{StoreError, lock, seal};
use crate::v1;

/// Application id in the header of the file (SQLite's `application_id`): "dyno" in ASCII.
pub(super) const APPLICATION_ID: i32 = 0x6479_6e6f;

/// A step to the next version: SQL, and a function that changes the JSON of the rows before it.
struct Step {
    sql: &'static str,
    rows: Option<fn(&Transaction<'_>) -> rusqlite::Result<()>>,
}

/// Steps of the migration: the first makes the tables of version 1 in an empty file.
const STEPS: [Step; 4] = [
    Step { sql: include_str!("schema_1.sql"), rows: None },
    Step { sql: include_str!("schema_2.sql"), rows: None },
    // From here on the JSON has schema 2 of the records.
    Step { sql: include_str!("schema_3.sql"), rows: Some(records_of_schema_1) },
    Step { sql: include_str!("schema_4.sql"), rows: None },
];

const _: () = assert!(STEPS.len() == VERSION as usize, "each version has its step");

/// Returns the version of the store of `connection`.
pub(super) fn version(connection: &Connection) -> rusqlite::Result<i32> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Migrates the store at `path` to [`VERSION`] in one transaction.
///
/// # Errors
/// If an older dnsdyno writes a run just now, which it could not do any more; or the store cannot be written.
pub(super) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    const WHAT: &str = "bring to this version";
    if version(connection).at(path, WHAT)? >= VERSION {
        return Ok(());
    }
    let transaction =
        Transaction::new(connection, TransactionBehavior::Immediate).at(path, WHAT)?;
    // Another process may have migrated it first.
    let found = version(&transaction).at(path, WHAT)?;
    if found > 0
        && let Some(id) = written(&transaction, path).at(path, WHAT)?
    {
        return Err(StoreError::WrittenByOlder { path: path.to_owned(), found, id });
    }
    steps(&transaction, usize::try_from(found).unwrap_or(0))
        .and_then(|()| transaction.commit())
        .at(path, WHAT)
}

/// Returns a run that another process writes.
fn written(transaction: &Transaction<'_>, path: &Path) -> rusqlite::Result<Option<i64>> {
    let mut running = transaction.prepare("SELECT id FROM run WHERE state = 'running'")?;
    let ids: Vec<i64> = running.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    Ok(ids.into_iter().find(|id| lock::is_held(path, *id)))
}

/// Makes the steps after the first `done` ones.
fn steps(transaction: &Transaction<'_>, done: usize) -> rusqlite::Result<()> {
    for step in STEPS.iter().skip(done) {
        if let Some(rows) = step.rows {
            rows(transaction)?;
        }
        transaction.execute_batch(step.sql)?;
    }
    if done < STEPS.len() {
        seal::fill(transaction)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    Ok(())
}

/// Migrates the JSON of all plans and trials from schema 1 to 2. Invalid JSON stays as it is; reading it reports the
/// error.
fn records_of_schema_1(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    change(transaction, "run", "plan", v1::plan)?;
    change(transaction, "trial", "record", v1::trial)
}

/// Changes the JSON in a column of all rows of a table.
fn change(
    transaction: &Transaction<'_>,
    table: &str,
    column: &str,
    how: fn(&mut Value),
) -> rusqlite::Result<()> {
    let mut ids = transaction.prepare(&format!("SELECT id FROM {table}"))?;
    let ids: Vec<i64> = ids.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let mut read = transaction.prepare(&format!("SELECT {column} FROM {table} WHERE id = ?1"))?;
    let mut write =
        transaction.prepare(&format!("UPDATE {table} SET {column} = ?2 WHERE id = ?1"))?;
    for id in ids {
        let text: String = read.query_row([id], |row| row.get(0))?;
        if let Ok(mut record) = serde_json::from_str(&text) {
            how(&mut record);
            write.execute((id, record.to_string()))?;
        }
    }
    Ok(())
}
