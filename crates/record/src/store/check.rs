//! Checks that a file is an intact store, without writing to it; and makes new stores.

use std::fs::{self, File, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use super::connection::{LOCK_TIMEOUT, connect};
use super::error::Context;
use super::{StoreError, schema};

/// First bytes of every SQLite 3 file ("The SQLite Database File Format", section 1.3).
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Offset of the application id in the header, four bytes, big-endian.
const APPLICATION_AT: usize = 68;

/// Makes an empty store beside `path`, then renames it: no process ever sees a partial store.
pub(super) fn create(path: &Path) -> Result<(), StoreError> {
    let io = |source| StoreError::Io { what: "make", path: path.to_owned(), source };
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    fs::create_dir_all(folder).map_err(io)?;
    // The name does not contain the process number, which two pid namespaces may share.
    let beside = tempfile::Builder::new()
        .prefix(".runs-")
        .suffix(".new")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder)
        .map_err(io)?
        .into_temp_path();
    fill(&beside)?;
    match beside.persist_noclobber(path) {
        // Another process made the store first.
        Err(e) if e.error.kind() != io::ErrorKind::AlreadyExists => Err(io(e.error)),
        _ => Ok(()),
    }
}

/// Makes the tables, in a file with a write-ahead log.
fn fill(path: &Path) -> Result<(), StoreError> {
    let mut connection = connect(path)?;
    connection.pragma_update(None, "journal_mode", "WAL").at(path, "make")?;
    schema::migrate(&mut connection).at(path, "make")?;
    connection.close().map_err(|(_, e)| e).at(path, "make")
}

/// Refuses a file that is not a store, is damaged, or has a newer version.
pub(super) fn look(path: &Path) -> Result<(), StoreError> {
    look_at_header(path)?;
    let connection =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).at(path, "open")?;
    connection.busy_timeout(LOCK_TIMEOUT).at(path, "open")?;
    let found = schema::version(&connection).at(path, "read")?;
    if found > schema::VERSION {
        return Err(StoreError::Newer { path: path.to_owned(), found });
    }
    let why: String =
        connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).at(path, "check")?;
    if why == "ok" { Ok(()) } else { Err(StoreError::Damaged { path: path.to_owned(), why }) }
}

fn look_at_header(path: &Path) -> Result<(), StoreError> {
    let not = |why: &str| Err(StoreError::NotAStore { path: path.to_owned(), why: why.to_owned() });
    let mut header = Vec::new();
    let read = File::open(path).and_then(|file| file.take(100).read_to_end(&mut header));
    read.map_err(|source| StoreError::Io { what: "read", path: path.to_owned(), source })?;
    if !header.starts_with(MAGIC) {
        return not("it is no SQLite file");
    }
    let id = header.get(APPLICATION_AT..APPLICATION_AT + 4);
    if id != Some(&schema::APPLICATION_ID.to_be_bytes()) {
        return not("it is another program's SQLite file");
    }
    Ok(())
}
