//! Tables of a store.
//!
//! ```text
//! run ──< cell ──< trial ──< histogram
//!  ├──< seam  ├──< series (of the cell, or of one of its trials)
//!  ├──< skipped
//!  └──< file (of the run, or of one of its cells)
//! ```
//!
//! Values that SQL queries use have a column; the rest of a record is its JSON. The version is in `user_version`.

use rusqlite::Connection;

/// Application id in the header of the file (SQLite's `application_id`): "dyno" in ASCII.
pub(super) const APPLICATION_ID: i32 = 0x6479_6e6f;
/// Version of the tables, in the header of the file (`user_version`).
pub(super) const VERSION: i32 = 1;

/// Returns the version of the store of `connection`.
pub(super) fn version(connection: &Connection) -> rusqlite::Result<i32> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Makes the tables in an empty file.
pub(super) fn make(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(include_str!("schema.sql"))?;
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    connection.pragma_update(None, "user_version", VERSION)
}
