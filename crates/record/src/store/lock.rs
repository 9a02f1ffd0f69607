//! Lock of a run: a locked file in the folder of the store, which the kernel unlocks when its
//! process ends.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::StoreError;

/// Lock of a run, held until it is dropped.
#[derive(Debug)]
pub(super) struct RunLock {
    file: File,
    path: PathBuf,
}

/// Returns the path of the lock file of run `id`.
fn place(store: &Path, id: i64) -> PathBuf {
    let mut path = store.as_os_str().to_owned();
    path.push(format!(".run-{id}.lock"));
    path.into()
}

/// Number of attempts to lock: [`is_held`] locks for a moment, and a lock file may disappear while it is opened.
const TRIES: u32 = 10;

impl RunLock {
    /// Acquires the lock.
    ///
    /// # Errors
    /// [`StoreError::Busy`] if another process holds it.
    pub(super) fn take(store: &Path, id: i64) -> Result<Self, StoreError> {
        let path = place(store, id);
        let io = |source| StoreError::Io { what: "lock", path: path.clone(), source };
        for _ in 0..TRIES {
            let file = OpenOptions::new()
                .create(true)
                .truncate(false)
                .write(true)
                .open(&path)
                .map_err(io)?;
            match file.try_lock() {
                Ok(()) if is_at(&file, &path) => return Ok(RunLock { file, path }),
                // The previous holder removed the file, so that this lock is on a deleted file.
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(10)),
                Err(TryLockError::Error(e)) => return Err(io(e)),
            }
        }
        Err(StoreError::Busy(store.to_owned(), id))
    }
}

/// Returns whether `file` is still the one at `path`.
fn is_at(file: &File, path: &Path) -> bool {
    let identity = |m: fs::Metadata| (m.dev(), m.ino());
    match (file.metadata(), fs::metadata(path)) {
        (Ok(open), Ok(found)) => identity(open) == identity(found),
        _ => false,
    }
}

impl Drop for RunLock {
    fn drop(&mut self) {
        // A lock file that stays can be locked again.
        let _ = fs::remove_file(&self.path);
        let _ = self.file.unlock();
    }
}

/// Returns whether a process holds the lock of run `id`.
pub(super) fn is_held(store: &Path, id: i64) -> bool {
    File::open(place(store, id))
        .is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}
