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

use nix::sys::signal::Signal;

use super::Ground;
use super::group::start;
use crate::process::{Process, ProcessError, TimeLimit};
use crate::signer::find;
use crate::testbed::Host;

/// System calls that write to a file or put one on stable storage. `sync_file_range(2)` is no such promise.
const TRACED: &str =
    "trace=write,writev,pwrite64,pwritev,pwritev2,fsync,fdatasync,msync,sync,syncfs";
/// Time within which strace must attach and end.
const ATTACH: Duration = Duration::from_secs(20);
/// Interval between checks whether it has attached.
const LOOK: Duration = Duration::from_millis(20);
/// Flags of an open file each of whose writes is a sync: `O_DSYNC`, which is a part of `O_SYNC`.
const O_DSYNC: u32 = 0o10_000;
/// Duration of the measurement of the disk, and the octets of each of its writes.
const DISK: Duration = Duration::from_secs(1);
const BLOCK: usize = 4_096;

/// Numbers of system calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SyncCounts {
    /// Writes to files.
    pub(crate) writes: u64,
    /// Calls after which what was written is on stable storage.
    pub(crate) syncs: u64,
}

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
        ground: Ground<'_>,
    ) -> Result<Result<Self, String>, ProcessError> {
        let Some(program) = find("strace") else {
            return Ok(Err("strace is not installed: apt-get install strace".to_owned()));
        };
        let file = ground.dir.join("strace");
        let mut command = vec![program.into_os_string()];
        command.extend(["-f", "-y", "-s", "0", "-e", "signal=none", "-e", TRACED].map(Into::into));
        command.extend(["-o".into(), file.clone().into_os_string()]);
        for pid in pids {
            command.extend(["-p".into(), pid.to_string().into()]);
        }
        let cpus = ground.testbed.cpus(Host::Auth);
        let mut strace = start("strace.messages", Host::Auth, cpus, command, ground)?;
        let mut time_limit = TimeLimit::new(ATTACH);
        loop {
            let said = fs::read_to_string(strace.log()).unwrap_or_default();
            if said.matches(" attached").count() >= pids.len() {
                break;
            }
            if strace.ended().is_some() || time_limit.is_over() {
                let last = said.lines().last().unwrap_or("it said nothing").to_owned();
                return Ok(Err(format!("strace cannot trace here: {last}")));
            }
            std::thread::sleep(LOOK);
        }
        let synchronous = synchronous(pids);
        Ok(Ok(SyncTrace { strace, file, pids: pids.to_vec(), synchronous }))
    }

    /// Detaches strace; returns what it counted.
    pub(crate) fn stop(mut self) -> io::Result<SyncCounts> {
        // Files that were opened meanwhile.
        self.synchronous.extend(synchronous(&self.pids));
        self.strace.stop(Signal::SIGINT, ATTACH);
        let counts = count(BufReader::new(File::open(&self.file)?), &self.synchronous);
        let _ = fs::remove_file(&self.file);
        counts
    }
}

/// Counts the calls in the output of strace; writes to the open files `synchronous` are syncs too.
fn count(trace: impl BufRead, synchronous: &BTreeSet<u32>) -> io::Result<SyncCounts> {
    let mut counts = SyncCounts::default();
    for line in trace.split(b'\n') {
        let line = line?;
        let (writes, syncs) = call(&String::from_utf8_lossy(&line), synchronous);
        counts.writes += u64::from(writes);
        counts.syncs += u64::from(syncs);
    }
    Ok(counts)
}

/// Returns whether a line is of a call that writes to a file, and whether of one that is a sync. A call that another
/// one interrupted has two lines; its first one counts.
fn call(line: &str, synchronous: &BTreeSet<u32>) -> (bool, bool) {
    let line = line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
    let Some((name, arguments)) = line.split_once('(') else { return (false, false) };
    match name {
        "fsync" | "fdatasync" | "sync" | "syncfs" => (false, true),
        "msync" => (false, arguments.contains("MS_SYNC")),
        "write" | "writev" | "pwrite64" | "pwritev" | "pwritev2" => {
            // `9</folder/zone.jnl>`; a socket, a pipe or an eventfd has no path.
            let Some((number, path)) = arguments.split_once('<') else { return (false, false) };
            let is_file = path.starts_with('/') && !path.starts_with("/dev/");
            let flags = arguments.contains("RWF_DSYNC") || arguments.contains("RWF_SYNC");
            let syncs = flags || number.parse().is_ok_and(|number| synchronous.contains(&number));
            (is_file, is_file && syncs)
        }
        _ => (false, false),
    }
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

/// Returns whether the information about an open file says that each write is a sync.
fn writes_are_syncs(info: &str) -> bool {
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & O_DSYNC != 0)
}

/// Returns how many times a second the disk of the folder `dir` writes 4 KiB and syncs them, one after the other.
pub(crate) fn syncs_per_second(dir: &Path) -> io::Result<f64> {
    let path = dir.join("disk-syncs");
    let mut file = File::create(&path)?;
    let (began, block) = (Instant::now(), [0_u8; BLOCK]);
    let mut count = 0;
    while began.elapsed() < DISK {
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
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn writes_and_syncs_are_told_from_other_calls() {
        let synchronous = BTreeSet::from([8]);
        let table = [
            ("812   write(9</tmp/x/zone.jnl>, \"\"..., 96) = 96", (true, false)),
            ("write(9</tmp/x/zone.jnl>, \"\"..., 96) = 96", (true, false)),
            ("812   fsync(9</tmp/x/zone.jnl>) = 0", (false, true)),
            ("812   fdatasync(9</tmp/x/data.mdb> <unfinished ...>", (false, true)),
            ("812   <... fdatasync resumed>) = 0", (false, false)),
            ("812   pwrite64(8</tmp/x/data.mdb>, \"\"..., 120, 0) = 120", (true, true)),
            ("812   pwrite64(18</tmp/x/data.mdb>, \"\"..., 120, 0) = 120", (true, false)),
            ("812   pwritev2(9</tmp/x/a>, [], 1, 0, RWF_DSYNC) = 4", (true, true)),
            ("812   msync(0x7f0000, 4096, MS_SYNC) = 0", (false, true)),
            ("812   msync(0x7f0000, 4096, MS_ASYNC) = 0", (false, false)),
            ("812   write(4<anon_inode:[eventfd]>, \"\"..., 8) = 8", (false, false)),
            ("812   write(2</dev/null>, \"\"..., 8) = 8", (false, false)),
            ("812   writev(5<TCP:[1]>, [], 2) = 8", (false, false)),
            ("812   +++ exited with 0 +++", (false, false)),
            ("", (false, false)),
        ];
        for (line, wanted) in table {
            assert_eq!(call(line, &synchronous), wanted, "{line}");
        }
        let text: String = table.iter().map(|(line, _)| format!("{line}\n")).collect();
        let counts = count(text.as_bytes(), &synchronous).expect("reads");
        assert_eq!(counts, SyncCounts { writes: 5, syncs: 5 });
    }

    #[test]
    fn flags_of_open_files() {
        for (flags, syncs) in [("0100002", false), ("0110002", true), ("04110002", true)] {
            assert_eq!(writes_are_syncs(&format!("pos:\t0\nflags:\t{flags}\n")), syncs, "{flags}");
        }
        assert!(!writes_are_syncs("") && !writes_are_syncs("flags:\tx\n"));
    }

    #[test]
    fn a_disk_syncs() {
        let dir = tempfile::tempdir().expect("a folder");
        assert!(syncs_per_second(dir.path()).expect("writes") > 0.0);
        assert_eq!(fs::read_dir(dir.path()).expect("reads").count(), 0);
    }

    proptest! {
        #[test]
        fn any_output_is_counted(bytes: Vec<u8>, text in "[0-9]{0,3} ?[a-z0-9]{0,9}\\(?[0-9]?<?/?.{0,9}") {
            let of = |bytes: &[u8]| count(bytes, &BTreeSet::from([1])).expect("reads");
            let lines = 1 + bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
            prop_assert!(of(&bytes).writes.max(of(&bytes).syncs) <= lines);
            prop_assert!(of(text.as_bytes()).writes <= 1 + text.matches('\n').count() as u64);
        }
    }
}
