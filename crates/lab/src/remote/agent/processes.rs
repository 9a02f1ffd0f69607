//! The processes of a server that dnsdyno did not start.

use udp::processes;

use crate::testbed::cpus::CpuList;
use crate::testbed::procfs;

/// Length to which the kernel cuts the names of processes.
const NAME_LENGTH: usize = 15;

/// Returns the processes named `name` (`/proc/PID/comm`), without children of other such processes.
pub fn named(name: &str) -> Vec<u32> {
    let cut = name.get(..NAME_LENGTH).unwrap_or(name);
    let is_named = |pid: &u32| processes::name(*pid).as_deref() == Some(cut);
    servers(processes::all().into_iter().filter(is_named).collect())
}

/// Returns the processes of servers among `pids`: without children of others, and without ancestors
/// of this process, such as a service manager that holds the server's sockets (a service manager).
pub fn servers(mut pids: Vec<u32>) -> Vec<u32> {
    let (own, mut covered) = (std::process::id(), Vec::new());
    pids.sort_unstable();
    pids.retain(|pid| {
        let tree = procfs::tree(*pid);
        let is_server = !covered.contains(pid) && !tree.contains(&own);
        if is_server {
            covered.extend(tree);
        }
        is_server
    });
    pids
}

/// Returns the cores on which the processes `pids` may run.
pub fn allowed_cpus(pids: &[u32]) -> Option<CpuList> {
    let trees = pids.iter().flat_map(|pid| procfs::tree(*pid));
    let threads = trees.flat_map(procfs::affinities);
    CpuList::new(threads.flat_map(|(_, cpus)| cpus.cpus().to_vec()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    #[test]
    fn processes_are_found_by_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("a-name-of-twenty-chars");
        fs::copy("/bin/sleep", &program).expect("copies");
        let mut child = Command::new(&program).arg("30").spawn().expect("starts");
        // The name is that of the new program only after the call of exec.
        let found = (0..6_000).find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            Some(named("a-name-of-twenty-chars")).filter(|found| !found.is_empty())
        });
        assert_eq!(found, Some(vec![child.id()]));
        let cpus = allowed_cpus(&[child.id()]).expect("cores");
        assert!(cpus.is_within(&CpuList::allowed()) || CpuList::allowed().is_within(&cpus));
        child.kill().and_then(|()| child.wait()).expect("ends");
        assert!(named("a-name-of-twenty-chars").is_empty());
    }
}
