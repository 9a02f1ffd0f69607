//! Connections to the file of a store.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::Connection;

use super::StoreError;
use super::error::Context;

/// How long a process waits for another one's transaction.
pub const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection that waits for others, keeps foreign keys, and logs ahead.
pub(super) fn connect(path: &Path) -> Result<Connection, StoreError> {
    let connection = Connection::open(path).at(path, "open")?;
    connection.busy_timeout(LOCK_TIMEOUT).at(path, "open")?;
    connection.pragma_update(None, "foreign_keys", true).at(path, "open")?;
    // With a write-ahead log nothing is lost when a process is killed; a power cut may cost the last trials.
    connection.pragma_update(None, "synchronous", "NORMAL").at(path, "open")?;
    Ok(connection)
}

/// Seconds since 1970.
pub(super) fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64())
}
