//! Checks that a file is an intact store, without writing to it; and makes new stores.

use std::fs::{self, File, Permissions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::connection::{LOCK_TIMEOUT, connect};
use super::error::Context;
use super::{StoreError, schema};

/// First bytes of every SQLite 3 file ("The SQLite Database File Format", section 1.3).
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Offset of the application id in the header, four bytes, big-endian.
const APPLICATION_AT: usize = 68;

/// Makes an empty store in the folder of `path`, then renames it: no process ever sees a partial
/// store.
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
    let connection = connect(path)?;
    connection.pragma_update(None, "journal_mode", "WAL").at(path, "make")?;
    schema::make(&connection).at(path, "make")?;
    connection.close().map_err(|(_, e)| e).at(path, "make")
}

/// Refuses a file that is not a store, is damaged, or has another version.
pub(super) fn look(path: &Path) -> Result<(), StoreError> {
    look_at_header(path)?;
    let connection = read_only(path)?;
    let found = schema::version(&connection).at(path, "read")?;
    if found != schema::VERSION {
        return Err(StoreError::Version { path: path.to_owned(), found });
    }
    let why: String =
        connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).at(path, "check")?;
    if why == "ok" { Ok(()) } else { Err(StoreError::Damaged { path: path.to_owned(), why }) }
}

/// Opens a store that is only read. Where its folder cannot be written, there can be no shared
/// memory for the write-ahead log; a store without one is opened as a file that does not change.
pub(super) fn read_only(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let log = beside(path, "-wal");
    let connection = if is_writable(path) || fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
        Connection::open_with_flags(path, flags)
    } else {
        let uri = format!("file:{}?immutable=1", escaped(path));
        Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI)
    };
    let connection = connection.at(path, "open")?;
    connection.busy_timeout(LOCK_TIMEOUT).at(path, "open")?;
    Ok(connection)
}

/// Returns whether this process may write a store and files in its folder.
pub(super) fn is_writable(path: &Path) -> bool {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let folder = tempfile::tempfile_in(folder.unwrap_or(Path::new(".")));
    folder.is_ok() && File::options().append(true).open(path).is_ok()
}

/// Returns the path of one of SQLite's files for a store.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Returns a path in a form that a URI may have.
fn escaped(path: &Path) -> String {
    let plain = |octet: u8| octet.is_ascii_alphanumeric() || b"/-_.~".contains(&octet);
    let escape = |&octet: &u8| match plain(octet) {
        true => char::from(octet).to_string(),
        false => format!("%{octet:02x}"),
    };
    path.as_os_str().as_bytes().iter().map(escape).collect()
}

/// Refuses a file that is not a store by its first octets; no other kind of file is opened, as a FIFO waits for its writer.
pub(super) fn look_at_header(path: &Path) -> Result<(), StoreError> {
    let not = |why: &str| Err(StoreError::NotAStore { path: path.to_owned(), why: why.to_owned() });
    let io = |source| StoreError::Io { what: "read", path: path.to_owned(), source };
    if !fs::metadata(path).map_err(io)?.is_file() {
        return not("it is no ordinary file");
    }
    let mut header = Vec::new();
    let read = File::open(path).and_then(|file| file.take(100).read_to_end(&mut header));
    read.map_err(io)?;
    if !header.starts_with(MAGIC) {
        return not("it is no SQLite file");
    }
    let id = header.get(APPLICATION_AT..APPLICATION_AT + 4);
    if id != Some(&schema::APPLICATION_ID.to_be_bytes()) {
        return not("it is another program's SQLite file");
    }
    Ok(())
}
