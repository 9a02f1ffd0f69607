//! Lines of strace: which system calls write to files, and which put files on stable storage.
//!
//! ```text
//!   812 pwrite64(9</.../zone.jnl>, ""..., 96, 4096) = 96     a write to a file
//!   812 fsync(9</.../zone.jnl>)                     = 0      a sync
//!   812 sendmsg(21<UDP:[...]>, ...)                          neither
//! ```

use std::collections::BTreeSet;

/// Flag of an open file each of whose writes is a sync: `O_DSYNC`, which is a part of `O_SYNC`.
const O_DSYNC: u32 = 0o10_000;

/// System calls of a server that write to files, and that put them on stable storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncCounts {
    /// Number of calls that write to files.
    pub writes: u64,
    /// Calls after which the written data are on stable storage.
    pub syncs: u64,
}

impl SyncCounts {
    /// Adds the call of a line that `strace -f -y` wrote; writes to the open files `synchronous` are syncs too. A call
    /// that another one interrupted has two lines; its first one counts.
    pub fn add_line(&mut self, line: &[u8], synchronous: &BTreeSet<u32>) {
        let (writes, syncs) = call(&String::from_utf8_lossy(line), synchronous);
        self.writes += u64::from(writes);
        self.syncs += u64::from(syncs);
    }
}

/// Returns whether a line shows a call that writes to a file, and whether it shows a sync.
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

/// Returns whether the kernel's information about an open file (`/proc/PID/fdinfo/N`) shows that
/// each write is a sync.
pub fn writes_are_syncs(info: &str) -> bool {
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & O_DSYNC != 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The calls of all lines.
    fn counts(trace: &[u8], synchronous: &BTreeSet<u32>) -> SyncCounts {
        let mut counts = SyncCounts::default();
        trace.split(|byte| *byte == b'\n').for_each(|line| counts.add_line(line, synchronous));
        counts
    }

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
        assert_eq!(counts(text.as_bytes(), &synchronous), SyncCounts { writes: 5, syncs: 5 });
    }

    #[test]
    fn flags_of_open_files() {
        for (flags, syncs) in [("0100002", false), ("0110002", true), ("04110002", true)] {
            assert_eq!(writes_are_syncs(&format!("pos:\t0\nflags:\t{flags}\n")), syncs, "{flags}");
        }
        assert!(!writes_are_syncs("") && !writes_are_syncs("flags:\tx\n"));
    }

    proptest! {
        #[test]
        fn any_output_is_counted(bytes: Vec<u8>, text in "[0-9]{0,3} ?[a-z0-9]{0,9}\\(?[0-9]?<?/?.{0,9}") {
            let of = |bytes: &[u8]| counts(bytes, &BTreeSet::from([1]));
            let lines = 1 + bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
            prop_assert!(of(&bytes).writes.max(of(&bytes).syncs) <= lines);
            prop_assert!(of(text.as_bytes()).writes <= 1 + text.matches('\n').count() as u64);
        }
    }
}
