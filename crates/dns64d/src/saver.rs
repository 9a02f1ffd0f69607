//! The file with the snapshot of the caches (`cache.snapshot`).

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use dns64::{Settings, Snapshot, SnapshotWriter};

use crate::files;

/// Room in a file beyond the cache's own size, in octets: its head, and the lengths of few entries.
const BEYOND_CACHE: u64 = 1 << 20;

/// A file to which each worker writes its cache at the end.
#[derive(Clone)]
pub(crate) struct Saver(Arc<Mutex<SaveState>>);

struct SaveState {
    /// The file, until an error.
    writer: io::Result<SnapshotWriter<BufWriter<File>>>,
    answers: usize,
    /// Final place of the file.
    path: PathBuf,
}

/// Returns the snapshot of the last server if it can be used; otherwise the log says why not.
pub(crate) fn read(settings: &Settings) -> Option<Snapshot> {
    let path = path(settings)?;
    let most = settings.config.cache.size.0 as u64 + BEYOND_CACHE;
    let read = || match std::fs::metadata(path)?.len() {
        len if len > most => Err(io::Error::other("the snapshot is larger than cache.size")),
        _ => std::fs::read(path),
    };
    let snapshot = match read() {
        Ok(octets) => Snapshot::read(octets, settings.snapshot_rules(), files::unix())
            .map_err(|error| error.to_string()),
        // At the first start there is no file.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => Err(error.to_string()),
    };
    let ignored = |error| {
        tracing::warn!("cache.snapshot: {} is ignored: {error}", path.display());
    };
    snapshot.map_err(ignored).ok()
}

impl Saver {
    /// Creates the new file beside the final path; `None` without the setting.
    pub(crate) fn create(settings: &Settings) -> Option<Self> {
        let path = path(settings)?.to_owned();
        // The file reveals the queries of clients.
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(unfinished(&path));
        let writer = file.and_then(|file| {
            SnapshotWriter::new(BufWriter::new(file), settings.snapshot_rules(), files::unix())
        });
        Some(Saver(Arc::new(Mutex::new(SaveState { writer, answers: 0, path }))))
    }

    /// Lets a worker add its answers.
    pub(crate) fn add(
        &self,
        save: impl FnOnce(&mut SnapshotWriter<BufWriter<File>>) -> io::Result<usize>,
    ) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let SaveState { writer, answers, .. } = &mut *state;
        match writer.as_mut().map(save) {
            Ok(Ok(saved)) => *answers += saved,
            Ok(Err(error)) => *writer = Err(error),
            // The error is reported at the end.
            Err(_) => {}
        }
    }

    /// Moves the file to its final path, and logs its number of answers.
    pub(crate) fn finish(self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let writer = std::mem::replace(&mut state.writer, Err(io::Error::other("it is finished")));
        let SaveState { answers, path, .. } = &*state;
        let finished = writer.and_then(|writer| {
            let file = writer.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
            file.sync_all()?;
            std::fs::rename(unfinished(path), path)
        });
        match finished {
            Ok(()) => tracing::info!(answers, "cache written to {}", path.display()),
            Err(error) => tracing::warn!(
                "cache.snapshot: cannot write {}: {error}; the next server starts with an empty cache",
                path.display()
            ),
        }
    }
}

/// Returns the path of the snapshot, if the settings have one.
fn path(settings: &Settings) -> Option<&Path> {
    Some(settings.config.cache.snapshot.as_path()).filter(|path| !path.as_os_str().is_empty())
}

/// Returns the path of a file that is being written.
fn unfinished(path: &Path) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(".new");
    path.into()
}
