//! Names of hosts: read at the start, and followed by a thread of its own, which looks at the files once a second.
//!
//! A file system that hangs keeps nobody else: nothing waits for the thread, which ends with the process.

use std::os::unix::fs::MetadataExt;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use dns64::config::HostsConfig;
use dns64::{Rules, Settings};

use crate::carrier::Shared;
use crate::event::Event;
use crate::files::{self, HostsTexts};

/// Interval between checks of the files.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Number, size and time of a file; `None` if it does not exist.
type FileStamp = Option<(u64, u64, i64, i64)>;

/// State of the watched files.
#[derive(Default)]
struct FollowedFiles {
    /// The files, and their stamps, from the last complete read.
    seen: Option<(HostsConfig, Vec<FileStamp>)>,
    texts: HostsTexts,
    /// Names of the files, which the server has or will have.
    names: Arc<Rules>,
    /// Unix time at which the next lease ends.
    next: Option<u64>,
    /// Errors of the last check, which are logged once.
    errors: Vec<String>,
}

/// Begins to follow the files of the active settings.
///
/// # Errors
/// If there can be no thread.
pub(crate) fn follow(active: Shared, to: SyncSender<Event>) -> std::io::Result<()> {
    let body = move || {
        let mut followed = FollowedFiles::default();
        loop {
            std::thread::sleep(CHECK_INTERVAL);
            let settings = active.lock().unwrap_or_else(PoisonError::into_inner).settings.clone();
            if let Some(hosts) = followed.look(&settings)
                && to.send(hosts).is_err()
            {
                return;
            }
        }
    };
    std::thread::Builder::new().name("hosts".into()).spawn(body).map(drop)
}

impl FollowedFiles {
    /// Reads the files if they may have changed; returns the new names.
    fn look(&mut self, settings: &Settings) -> Option<Event> {
        let (config, active) = (&settings.config.hosts, &settings.rules.hosts);
        let looks = (config.clone(), stamps(config));
        // A reload may have read the files before they changed.
        let is_known = self.seen.as_ref() == Some(&looks) && Arc::ptr_eq(&self.names, active);
        if is_known && self.next.is_none_or(|end| files::unix() < end) {
            return None;
        }
        self.seen = None;
        let errors: Vec<String> =
            self.texts.read(config).iter().map(|error| format!("{error:#}")).collect();
        let files = |stamps: &[FileStamp]| -> Vec<_> {
            stamps.iter().map(|stamp| stamp.map(|(number, ..)| number)).collect()
        };
        if files(&stamps(config)) != files(&looks.1) {
            // A clean-up moves leases from one file to another; the files read may lack them.
            return None;
        }
        for error in errors.iter().filter(|error| !self.errors.contains(error)) {
            tracing::warn!("{error}; the names read before stay in use");
        }
        self.errors = errors;
        let (rules, next) = self.texts.rules(config)?;
        self.next = next;
        self.seen = Some(looks).filter(|_| self.errors.is_empty());
        let is_new = rules != **active;
        self.names = if is_new { Arc::new(rules) } else { active.clone() };
        is_new.then(|| Event::Hosts(config.clone(), self.names.clone()))
    }
}

/// Returns the stamps that show whether the files have changed.
fn stamps(config: &HostsConfig) -> Vec<FileStamp> {
    let stamp = |path| {
        let facts = std::fs::metadata(path).ok()?;
        Some((facts.ino(), facts.size(), facts.mtime(), facts.mtime_nsec()))
    };
    files::paths_of_hosts(config).map(stamp).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use dns64::Config;

    #[test]
    fn names_that_a_reload_read_too_early_are_replaced() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("hosts");
        let write = |text: &str| std::fs::write(&path, text).expect("writes");
        let text = format!("hosts.files = [\"{}\"]", path.display());
        let settings = Settings::new(Config::parse(&text).expect(&text), 1, [0; 16]);
        let mut followed = FollowedFiles::default();
        let mut look = |settings: &Settings| match followed.look(settings) {
            Some(Event::Hosts(_, names)) => Some(settings.with_hosts(names)),
            _ => None,
        };
        write("192.0.2.1 a.lan");
        let old = look(&settings).expect("names");
        assert!(look(&old).is_none());
        write("192.0.2.1 a.lan\n192.0.2.2 b.lan");
        let new = look(&old).expect("another name");
        assert!(look(&new).is_none());
        let again = look(&new.with_hosts(old.rules.hosts.clone())).expect("the reload was early");
        assert_eq!(again.rules.hosts, new.rules.hosts);
        assert!(look(&again).is_none());
    }
}
