//! Looking on while a trial runs: what the Measurer has counted so far, and what the roles use.
//!
//! ```text
//!   Measurer ── FILE (`live` of its request) ┐
//!                                            ├──> LiveUpdate ──> Watcher: whoever shows it
//!   Sampler, by each look ───────────────────┘
//! ```
//!
//! Without a watcher nothing of this is done.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use measure::{Nanos, Pacing};
use record::Snapshot;

/// How often the Measurer's file is read: as often as it is written.
const INTERVAL: Duration = Duration::from_millis(250);

/// What is seen of a running trial.
#[derive(Clone, Debug, PartialEq)]
pub enum LiveUpdate {
    /// It begins.
    Begins {
        /// When queries leave; absent for a generator that is not ours.
        pacing: Option<Pacing>,
        /// How long it sends; zero where that is not known before.
        duration: Nanos,
    },
    /// What the Measurer has counted.
    Load(Snapshot),
    /// The busy share (0 to 1) of each role's cores since the look before: its processes, and the kernel's work
    /// for packets.
    Cpu(Vec<(&'static str, f64)>),
    /// It has ended, or was given up.
    Ends,
}

/// Is told of each [`LiveUpdate`], by several threads.
#[derive(Clone)]
pub struct Watcher(Arc<dyn Fn(LiveUpdate) + Send + Sync>);

impl Watcher {
    /// Tells `look`, which should be quick: the trial's processes are looked after by the thread that tells.
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

/// Reads a Measurer's file from time to time.
#[derive(Debug)]
pub(crate) struct Reader {
    watcher: Option<Watcher>,
    file: PathBuf,
    next: Instant,
    last_s: f64,
}

impl Reader {
    /// A reader of `file`; one that is left from a trial before goes.
    pub(crate) fn new(watcher: Option<Watcher>, file: PathBuf) -> Self {
        if watcher.is_some() {
            // Where there is none, there is nothing to remove.
            let _ = std::fs::remove_file(&file);
        }
        Reader { watcher, file, next: Instant::now(), last_s: -1.0 }
    }

    /// Tells what is new, if it is time to look.
    pub(crate) fn look(&mut self) {
        let Some(watcher) = &self.watcher else { return };
        if Instant::now() < self.next {
            return;
        }
        self.next = Instant::now() + INTERVAL;
        // Until the Measurer has started there is none.
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
    fn a_file_is_told_once_and_never_that_of_another_trial() {
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
        // Not before its time.
        record::write(&file, &snapshot(0.75)).expect("writes");
        reader.next = Instant::now() + Duration::from_secs(60);
        reader.look();
        drop(reader);
        let wanted =
            [LiveUpdate::Load(snapshot(0.25)), LiveUpdate::Load(snapshot(0.5)), LiveUpdate::Ends];
        assert_eq!(*seen.lock().expect("whole"), wanted);
    }
}
