//! The directory of a run: configurations, zones, state and logs, removed when the run ends.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use nix::unistd::geteuid;
use tempfile::TempDir;

/// Prefix of the directories' names.
const PREFIX: &str = "dnsdyno-";
/// File that each run keeps locked in its directory.
const LOCK: &str = "lock";

/// A directory that is removed when it is dropped, or by a later run when this one was killed.
#[derive(Debug)]
pub struct RunDir {
    dir: TempDir,
    // Held, not read: the kernel unlocks it when the process ends.
    _lock: Flock<File>,
}

/// Error: the directory of a run cannot be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot make a directory for the run in {}: {source}; set TMPDIR to another place", parent.display())]
pub struct RunDirError {
    parent: PathBuf,
    source: io::Error,
}

impl RunDir {
    /// Makes the directory in the folder for temporary files, and removes the directories of killed runs.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn create() -> Result<Self, RunDirError> {
        let parent = std::env::temp_dir();
        sweep(&parent);
        Self::create_in(&parent).map_err(|source| RunDirError { parent, source })
    }

    fn create_in(parent: &Path) -> io::Result<Self> {
        let dir = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
        // The file is locked before it gets its name, so that no process sees it unlocked.
        let unnamed = dir.path().join("lock.new");
        let lock = Flock::lock(File::create(&unnamed)?, FlockArg::LockExclusiveNonblock)
            .map_err(|(_, e)| io::Error::from(e))?;
        fs::rename(&unnamed, dir.path().join(LOCK))?;
        Ok(Self { dir, _lock: lock })
    }

    /// Returns the path of the directory, which is removed when `self` is dropped, unless kept.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Keeps the directory after the end of the run; returns its path.
    pub(crate) fn keep(&mut self) -> &Path {
        self.dir.disable_cleanup(true);
        // Without the lock file the directory is not taken for one of a killed run.
        let _ = fs::remove_file(self.dir.path().join(LOCK));
        self.dir.path()
    }
}

/// Removes the directories of killed runs: directories of this user whose lock is free.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let ours = entry.metadata().is_ok_and(|m| m.is_dir() && m.uid() == geteuid().as_raw());
        if ours && entry.file_name().to_string_lossy().starts_with(PREFIX) {
            let path = entry.path().join(LOCK);
            let free = File::open(&path)
                .is_ok_and(|file| Flock::lock(file, FlockArg::LockExclusiveNonblock).is_ok());
            // A run that has just ended and keeps its directory has removed the lock file.
            if free && path.exists() {
                // Another process may remove it at the same time.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_dead_runs_are_swept() {
        let parent = tempfile::tempdir().unwrap();
        let alive = RunDir::create_in(parent.path()).unwrap();
        let dead = parent.path().join("dnsdyno-dead");
        let unlocked = parent.path().join("dnsdyno-young");
        let other = parent.path().join("other");
        for dir in [&dead, &unlocked, &other] {
            fs::create_dir(dir).unwrap();
        }
        for dir in [&dead, &other] {
            fs::write(dir.join(LOCK), "").unwrap();
        }
        sweep(parent.path());
        assert!(alive.path().exists() && unlocked.exists() && other.exists());
        assert!(!dead.exists());
        let path = alive.path().to_owned();
        drop(alive);
        assert!(!path.exists());
    }

    #[test]
    fn a_kept_one_stays() {
        let parent = tempfile::tempdir().unwrap();
        let mut dir = RunDir::create_in(parent.path()).unwrap();
        let path = dir.keep().to_owned();
        drop(dir);
        // Later runs leave it alone.
        sweep(parent.path());
        assert!(path.exists());
    }
}
