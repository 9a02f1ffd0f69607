//! A bound for the log of a process: a server that writes a line for each query would fill the disk, which other servers and the
//! records need.
//!
//! The process appends to the file. A thread looks at its size once a second, and where it is too
//! large, keeps its end only: the cause of a crash is found there.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Size of a log above which only its end is kept, in octets.
const MAX_LOG: u64 = 16 << 20;
/// Size of the end that is kept, in octets.
const KEPT_OCTETS: u64 = 1 << 20;
/// Interval between checks of the size.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Bounds a log until it is dropped.
#[derive(Debug)]
pub(crate) struct LogBound {
    /// The thread ends when this is dropped.
    _alive: Sender<()>,
}

impl LogBound {
    /// Bounds the log at `path`, which a process appends to.
    pub(crate) fn new(path: PathBuf) -> Self {
        let (alive, ended) = channel();
        std::thread::spawn(move || {
            while ended.recv_timeout(CHECK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                // A log that cannot be cut is still a log.
                let _ = cut(&path, MAX_LOG, KEPT_OCTETS);
            }
        });
        LogBound { _alive: alive }
    }
}

/// Keeps the last `kept` octets of a file that is larger than `most`, after a line that reports the
/// cut. Lines appended at the same time may be lost too.
fn cut(path: &Path, most: u64, kept: u64) -> io::Result<()> {
    let mut file = File::options().read(true).append(true).open(path)?;
    let size = file.metadata()?.len();
    if size <= most {
        return Ok(());
    }
    file.seek(SeekFrom::Start(size - kept.min(size)))?;
    let mut end = Vec::new();
    (&file).take(kept).read_to_end(&mut end)?;
    file.set_len(0)?;
    writeln!(file, "(dnsdyno: {} octets of this log were left out here)", size - end.len() as u64)?;
    file.write_all(&end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_log_keeps_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.log");
        let mut process = File::options().create(true).append(true).open(&path).unwrap();
        process.write_all(&[b'a'; 60]).unwrap();
        cut(&path, 100, 8).unwrap();
        assert_eq!(path.metadata().unwrap().len(), 60, "it is small enough");
        process.write_all(&[[b'b'; 60], [b'c'; 60]].concat()).unwrap();
        cut(&path, 100, 8).unwrap();
        process.write_all(b"the end").unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "(dnsdyno: 172 octets of this log were left out here)\nccccccccthe end");
        assert!(cut(&dir.path().join("none"), 1, 1).is_err());
    }
}
