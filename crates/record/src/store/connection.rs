//! Connections to the file of a store.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::Connection;

use super::StoreError;
use super::error::Context;

/// Longest time that a process waits for a transaction of another one.
pub(super) const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// Opens a connection that waits for others, enforces foreign keys, and uses a write-ahead log.
pub(super) fn connect(path: &Path) -> Result<Connection, StoreError> {
    let connection = Connection::open(path).at(path, "open")?;
    connection.busy_timeout(LOCK_TIMEOUT).at(path, "open")?;
    connection.pragma_update(None, "foreign_keys", true).at(path, "open")?;
    // With a write-ahead log a killed process loses nothing; a power failure may lose the last trials.
    connection.pragma_update(None, "synchronous", "NORMAL").at(path, "open")?;
    Ok(connection)
}

/// Returns the time in seconds since 1970.
pub(super) fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64())
}
