//! How a primary puts updates on stable storage: its writes and syncs, counted by strace, and the syncs that the disk
//! does in a second.
//!
//! ```text
//!   strace -p PRIMARY ──> 812 pwrite64(9</.../zone.jnl>, ""..., 96, 4096) = 96     a write to a file
//!                         812 fsync(9</.../zone.jnl>)                     = 0      a sync
//!                         812 sendmsg(21<UDP:[...]>, ...)                          not traced
//! ```
//!
//! A write to a file that was opened with `O_DSYNC` or `O_SYNC` is a write and a sync: the flags of the open files are
//! in `/proc/PID/fdinfo`. strace stops the primary at each system call, so that the rate meanwhile is not its own.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use measure::strace::{SyncCounts, writes_are_syncs};
use nix::sys::signal::Signal;

use crate::server::LabEnv;
use crate::server::signer::find;
use crate::testbed::Host;
use crate::testbed::process::{Launch, Process, ProcessError, TimeLimit};

/// System calls that write to a file or put one on stable storage. `sync_file_range(2)` is no such promise.
const TRACED: &str =
    "trace=write,writev,pwrite64,pwritev,pwritev2,fsync,fdatasync,msync,sync,syncfs";
/// Time within which strace must attach and end.
const ATTACH_LIMIT: Duration = Duration::from_secs(20);
/// Interval between checks whether strace has attached.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Duration of the measurement of the disk, and the octets of each of its writes.
const DISK_TIME: Duration = Duration::from_secs(1);
const BLOCK_OCTETS: usize = 4_096;

/// strace attached to a server.
#[derive(Debug)]
pub(crate) struct SyncTrace {
    strace: Process,
    file: PathBuf,
    pids: Vec<u32>,
    /// Open files whose writes are syncs, by process.
    synchronous: BTreeSet<u32>,
}

impl SyncTrace {
    /// Attaches strace to the processes `pids`; returns the reason where that is not possible here.
    pub(crate) fn start(
        pids: &[u32],
        env: LabEnv<'_>,
    ) -> Result<Result<Self, String>, ProcessError> {
        let Some(program) = find("strace") else {
            return Ok(Err("strace is not installed: apt-get install strace".to_owned()));
        };
        let file = env.dir.join("strace");
        let mut command = vec![program.into_os_string()];
        command.extend(["-f", "-y", "-s", "0", "-e", "signal=none", "-e", TRACED].map(Into::into));
        command.extend(["-o".into(), file.clone().into_os_string()]);
        for pid in pids {
            command.extend(["-p".into(), pid.to_string().into()]);
        }
        let cpus = env.testbed.cpus(Host::Auth);
        let namespace = env.testbed.namespace(Host::Auth);
        let launch = Launch::new("strace.messages", namespace, cpus, env.dir);
        // The log of an earlier start would report this one as ready.
        let _ = fs::remove_file(env.dir.join("strace.messages.log"));
        let mut strace = Process::start(&Launch { command, ..launch })?;
        let mut time_limit = TimeLimit::new(ATTACH_LIMIT);
        loop {
            let said = fs::read_to_string(strace.log()).unwrap_or_default();
            if said.matches(" attached").count() >= pids.len() {
                break;
            }
            if strace.ended().is_some() || time_limit.is_over() {
                let last = said.lines().last().unwrap_or("it wrote no message").to_owned();
                return Ok(Err(format!("strace cannot trace here: {last}")));
            }
            std::thread::sleep(CHECK_INTERVAL);
        }
        let synchronous = synchronous(pids);
        Ok(Ok(SyncTrace { strace, file, pids: pids.to_vec(), synchronous }))
    }

    /// Detaches strace; returns the counts.
    pub(crate) fn stop(mut self) -> io::Result<SyncCounts> {
        // Files that were opened during the trace.
        self.synchronous.extend(synchronous(&self.pids));
        self.strace.stop(Signal::SIGINT, ATTACH_LIMIT);
        let counts = count(BufReader::new(File::open(&self.file)?), &self.synchronous);
        let _ = fs::remove_file(&self.file);
        counts
    }
}

/// Counts the calls in the output of strace; writes to the open files `synchronous` are syncs too.
fn count(trace: impl BufRead, synchronous: &BTreeSet<u32>) -> io::Result<SyncCounts> {
    let mut counts = SyncCounts::default();
    for line in trace.split(b'\n') {
        counts.add_line(&line?, synchronous);
    }
    Ok(counts)
}

/// Returns the open files of processes whose every write is a sync.
fn synchronous(pids: &[u32]) -> BTreeSet<u32> {
    let of =
        |pid: &u32| fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten();
    let flagged = pids
        .iter()
        .flat_map(of)
        .filter(|entry| fs::read_to_string(entry.path()).is_ok_and(|info| writes_are_syncs(&info)));
    flagged.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Measures how many sequential 4 KiB writes with sync the disk of `dir` does per second.
pub(crate) fn syncs_per_second(dir: &Path) -> io::Result<f64> {
    let path = dir.join("disk-syncs");
    let mut file = File::create(&path)?;
    let (began, block) = (Instant::now(), [0_u8; BLOCK_OCTETS]);
    let mut count = 0;
    while began.elapsed() < DISK_TIME {
        file.write_all(&block)?;
        file.sync_all()?;
        count += 1;
    }
    let rate = f64::from(count) / began.elapsed().as_secs_f64();
    fs::remove_file(path)?;
    Ok(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_syncs() {
        let dir = tempfile::tempdir().expect("a folder");
        assert!(syncs_per_second(dir.path()).expect("writes") > 0.0);
        assert_eq!(fs::read_dir(dir.path()).expect("reads").count(), 0);
    }
}
