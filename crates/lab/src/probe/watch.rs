//! Live updates of a running trial: the Measurer's counters, and the load of the roles.
//!
//! ```text
//!   Measurer ── FILE (`live` of its request) ┐
//!                                            ├──> LiveUpdate ──> Watcher: a live view
//!   Sampler, each sample ────────────────────┘
//! ```
//!
//! Without a watcher none of this runs.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use measure::{Nanos, Pacing};
use record::Snapshot;

/// Interval between reads of the Measurer's file, the same as between its writes.
const INTERVAL: Duration = Duration::from_millis(250);

/// Live update of a running trial.
#[derive(Clone, Debug, PartialEq)]
pub enum LiveUpdate {
    /// The trial begins: its first query is due now.
    Begins {
        /// Schedule of the queries; absent for an external generator.
        pacing: Option<Pacing>,
        /// Duration of sending; zero if not known in advance.
        duration: Nanos,
    },
    /// A comparison of answers begins. `valid` counts the queries with equal answers, `bad` the
    /// others.
    Compares,
    /// Counters of the Measurer, or of a comparison.
    Load(Snapshot),
    /// Busy share (0 to 1) of each role's cores since the last update: its processes, and the kernel's work for
    /// packets.
    Cpu(Vec<(&'static str, f64)>),
    /// The trial has ended, or was abandoned.
    Ends,
}

/// Receives each [`LiveUpdate`], from several threads.
#[derive(Clone)]
pub struct Watcher(Arc<dyn Fn(LiveUpdate) + Send + Sync>);

impl Watcher {
    /// Makes a watcher that calls `on_update`, which must be fast: the calling thread also
    /// supervises the trial's processes.
    pub fn new(look: impl Fn(LiveUpdate) + Send + Sync + 'static) -> Self {
        Watcher(Arc::new(look))
    }

    pub(crate) fn notify(&self, update: LiveUpdate) {
        (self.0)(update);
    }
}

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watcher")
    }
}

/// Reads a Measurer's file at intervals.
#[derive(Debug)]
pub(crate) struct Reader {
    watcher: Option<Watcher>,
    file: PathBuf,
    next: Instant,
    last_s: f64,
}

impl Reader {
    /// Makes a reader of `file`, and removes the file of an earlier trial.
    pub(crate) fn new(watcher: Option<Watcher>, file: PathBuf) -> Self {
        if watcher.is_some() {
            // The file may not exist.
            let _ = std::fs::remove_file(&file);
        }
        Reader { watcher, file, next: Instant::now(), last_s: -1.0 }
    }

    /// Notifies the watcher of new counters, if a read is due.
    pub(crate) fn look(&mut self) {
        let Some(watcher) = &self.watcher else { return };
        if Instant::now() < self.next {
            return;
        }
        self.next = Instant::now() + INTERVAL;
        // The file does not exist until the Measurer has started.
        let Ok(snapshot) = record::read::<Snapshot>(&self.file) else { return };
        if snapshot.at_s > self.last_s {
            self.last_s = snapshot.at_s;
            watcher.notify(LiveUpdate::Load(snapshot));
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Some(watcher) = &self.watcher {
            watcher.notify(LiveUpdate::Ends);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn each_file_content_is_reported_once_and_never_that_of_another_trial() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("live.json");
        let snapshot = |at_s| Snapshot { schema: record::SCHEMA, at_s, ..Snapshot::default() };
        record::write(&file, &snapshot(9.0)).expect("writes");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let updates = seen.clone();
        let watcher = Watcher::new(move |update| updates.lock().expect("whole").push(update));
        let mut reader = Reader::new(Some(watcher), file.clone());
        let look = |reader: &mut Reader| {
            reader.next = Instant::now();
            reader.look();
        };
        look(&mut reader);
        for text in ["{\"schema\":1,", "no record"] {
            std::fs::write(&file, text).expect("writes");
            look(&mut reader);
        }
        for at_s in [0.25, 0.25, 0.5] {
            record::write(&file, &snapshot(at_s)).expect("writes");
            look(&mut reader);
        }
        // No read is due yet.
        record::write(&file, &snapshot(0.75)).expect("writes");
        reader.next = Instant::now() + Duration::from_secs(60);
        reader.look();
        drop(reader);
        let wanted =
            [LiveUpdate::Load(snapshot(0.25)), LiveUpdate::Load(snapshot(0.5)), LiveUpdate::Ends];
        assert_eq!(*seen.lock().expect("whole"), wanted);
    }
}
