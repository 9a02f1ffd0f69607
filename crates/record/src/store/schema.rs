//! The tables of a store, and how those of older versions become today's.
//!
//! ```text
//! run ──< cell ──< trial ──< histogram
//!  ├──< seam  ├──< series (of the cell, or of one of its trials)
//!  ├──< skipped
//!  └──< file (of the run, or of one of its cells)
//! ```
//!
//! What is asked for by SQL has a column; the rest of a record is its JSON. The version stands in
//! `user_version`, and each step below leads from one version to the next: a step that was released
//! is never edited.

use rusqlite::{Connection, Transaction, TransactionBehavior};

/// "dyno" in ASCII, in the header of the file (SQLite's `application_id`): whose file it is.
pub(super) const APPLICATION_ID: i32 = 0x6479_6e6f;

/// The steps: the first makes the tables of version 1 in an empty file.
const STEPS: [&str; 2] = [include_str!("schema_1.sql"), include_str!("schema_2.sql")];

/// The version that this program writes.
pub(super) const VERSION: i32 = STEPS.len() as i32;

/// The version of the store behind `connection`.
pub(super) fn version(connection: &Connection) -> rusqlite::Result<i32> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Brings the store to [`VERSION`], in one transaction: all of it or nothing.
pub(super) fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    if version(connection)? >= VERSION {
        return Ok(());
    }
    let transaction = Transaction::new(connection, TransactionBehavior::Immediate)?;
    // Another process may have been faster.
    let done = usize::try_from(version(&transaction)?).unwrap_or(0);
    for step in STEPS.iter().skip(done) {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit()
}
