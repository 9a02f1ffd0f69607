//! Names of hosts: read at the start, and followed by a thread of its own, which looks at the files once a second.
//!
//! A file system that hangs keeps nobody else: nothing waits for the thread, which ends with the process.

use std::os::unix::fs::MetadataExt;
use std::sync::PoisonError;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use dns64::config::HostsConfig;

use crate::carrier::Shared;
use crate::event::Event;
use crate::files;

/// Time between two looks at the files.
const LOOK: Duration = Duration::from_secs(1);

/// Number, size and time of a file; `None` if there is none.
type Stamp = Option<(u64, u64, i64, i64)>;

/// Begins to follow the files of the active settings.
///
/// # Errors
/// If there can be no thread.
pub(crate) fn follow(active: Shared, to: SyncSender<Event>) -> std::io::Result<()> {
    let body = move || {
        let (mut seen, mut next) = (None, None);
        loop {
            std::thread::sleep(LOOK);
            let active = active.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let config = &active.settings.config.hosts;
            let looks = Some((config.clone(), stamps(config)));
            if looks == seen && next.is_none_or(|end| files::unix() < end) {
                continue;
            }
            seen = looks;
            match files::hosts(config) {
                Ok((rules, end)) => {
                    next = end;
                    let is_new = rules != *active.settings.rules.hosts;
                    let hosts = Event::Hosts(config.clone(), rules);
                    if is_new && to.send(hosts).is_err() {
                        return;
                    }
                }
                Err(error) => {
                    next = None;
                    tracing::warn!("{error:#}; the names of hosts stay");
                }
            }
        }
    };
    std::thread::Builder::new().name("hosts".into()).spawn(body).map(drop)
}

/// Returns what tells whether the files have changed.
fn stamps(config: &HostsConfig) -> Vec<Stamp> {
    let stamp = |path| {
        let facts = std::fs::metadata(path).ok()?;
        Some((facts.ino(), facts.size(), facts.mtime(), facts.mtime_nsec()))
    };
    files::paths_of_hosts(config).map(stamp).collect()
}
