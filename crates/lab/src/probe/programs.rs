//! A server's programs in the kernel (BPF): programs that its processes have open, and programs on
//! the devices of its host. The kernel counts their run time, on every core.

use std::collections::BTreeSet;
use std::fs;

use kernel::RunStatistics;

use crate::testbed::procfs;

/// Starts to count the runs of the programs that the processes `pids` and their children have open,
/// and of the programs `on_devices`; `None` without programs, or if this user may not count.
pub(crate) fn count(pids: &[u32], on_devices: BTreeSet<u32>) -> Option<RunStatistics> {
    let table = procfs::Table::read();
    let held = pids.iter().flat_map(|pid| table.tree(*pid)).flat_map(held_by);
    let programs: BTreeSet<u32> = held.chain(on_devices).collect();
    (!programs.is_empty()).then(|| RunStatistics::of(programs)).flatten()
}

/// Returns the numbers of the programs that a process has open, directly or by a link that attaches
/// them.
fn held_by(pid: u32) -> Vec<u32> {
    let held = |file: fs::DirEntry| {
        let target = fs::read_link(file.path()).ok()?;
        target.to_str()?.strip_prefix("anon_inode:bpf")?;
        let name = file.file_name();
        let text = fs::read_to_string(format!("/proc/{pid}/fdinfo/{}", name.to_str()?)).ok()?;
        text.lines().find_map(|line| line.strip_prefix("prog_id:")?.trim().parse().ok())
    };
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    files.filter_map(held).collect()
}
