//! Processes of this host and their sockets, from `/proc`: their programs, cores and sockets.
//!
//! Data that an ordinary user may not see are omitted: the open files of other users' processes,
//! and with `hidepid` these processes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use measure::procfs::{NetSocket, SchedStat, StatLine, parse_schedstat, parse_sockets, parse_stat};

use crate::sys;

/// Largest number of sockets that are looked at to find the process of one.
const MOST_SOCKETS: usize = 1 << 17;
/// Number of times that the table of UDP sockets is read.
const TABLE_READS: usize = 3;

/// Returns the entries of a directory that are numbers.
pub fn numbers(dir: &Path) -> Vec<u32> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Returns the numbers of all processes.
pub fn all() -> Vec<u32> {
    numbers(Path::new("/proc"))
}

/// Reads the CPU time of a process, also of one that has ended and was not yet waited for; `None` if there is none.
pub fn read_stat(pid: u32) -> Option<StatLine> {
    read_stat_at(Path::new(&format!("/proc/{pid}")))
}

/// Reads the CPU time of the process or thread with this folder in a `/proc`; `None` if there is none.
pub fn read_stat_at(dir: &Path) -> Option<StatLine> {
    parse_stat(&fs::read_to_string(dir.join("stat")).ok()?)
}

/// Returns the name of a process's program, as `ps -o comm` shows it; `None` if there is no such process.
pub fn name(pid: u32) -> Option<String> {
    Some(fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim_end().to_owned())
}

/// Reads the ticks and the last core of each thread of a process.
pub fn thread_stats(pid: u32) -> Vec<StatLine> {
    let task = format!("/proc/{pid}/task");
    let threads = numbers(Path::new(&task)).into_iter();
    threads.filter_map(|tid| read_stat_at(Path::new(&format!("{task}/{tid}")))).collect()
}

/// Reads the run time and wait time of each thread of a process, with the thread's number.
pub fn thread_times(pid: u32) -> Vec<(u32, SchedStat)> {
    let task = format!("/proc/{pid}/task");
    let read = |tid| {
        let text = fs::read_to_string(format!("{task}/{tid}/schedstat")).ok()?;
        Some((tid, parse_schedstat(&text)?))
    };
    numbers(Path::new(&task)).into_iter().filter_map(read).collect()
}

/// Returns the cores on which the threads of a process may run; empty if there is no such process.
pub fn allowed_cpus(pid: u32) -> BTreeSet<usize> {
    let threads = numbers(Path::new(&format!("/proc/{pid}/task"))).into_iter();
    threads.filter_map(|tid| sys::allowed_cpus_of(tid).ok()).flatten().collect()
}

/// Reads the UDP sockets of the calling thread's network namespace, IPv4 and IPv6, several times: the kernel lists them page by page,
/// and skips some when others are closed meanwhile.
pub fn udp_sockets() -> Vec<NetSocket> {
    let each = (0..TABLE_READS).flat_map(|_| ["udp", "udp6"]).flat_map(sockets_of);
    let by_number: BTreeMap<u64, NetSocket> = each.map(|socket| (socket.inode, socket)).collect();
    by_number.into_values().collect()
}

/// Reads the TCP sockets of the calling thread's network namespace, IPv4 and IPv6.
pub fn tcp_sockets() -> Vec<NetSocket> {
    ["tcp", "tcp6"].into_iter().flat_map(sockets_of).collect()
}

fn sockets_of(table: &str) -> Vec<NetSocket> {
    parse_sockets(&fs::read_to_string(format!("/proc/thread-self/net/{table}")).unwrap_or_default())
}

/// Returns the sockets of the calling thread's process.
pub fn own_sockets() -> BTreeSet<u64> {
    // A thread may have a separate table of open files.
    sockets_in("/proc/thread-self/fd")
}

/// Returns the sockets of a process; empty if its open files are not visible.
pub fn sockets(pid: u32) -> BTreeSet<u64> {
    sockets_in(&format!("/proc/{pid}/fd"))
}

/// Returns the numbers of the sockets among the open files in a folder of `/proc`.
fn sockets_in(dir: &str) -> BTreeSet<u64> {
    let inode = |file: fs::DirEntry| {
        let link = fs::read_link(file.path()).ok()?;
        link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    fs::read_dir(dir).into_iter().flatten().flatten().filter_map(inode).collect()
}

/// Returns the processes that have one of these sockets open, as far as this user may see their files.
pub fn owners(inodes: &BTreeSet<u64>) -> Vec<u32> {
    let mut looked = 0;
    let has = |pid: &u32| {
        let own = if looked < MOST_SOCKETS { sockets(*pid) } else { BTreeSet::new() };
        looked += own.len();
        !own.is_disjoint(inodes)
    };
    if inodes.is_empty() { Vec::new() } else { all().into_iter().filter(has).collect() }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn a_socket_is_that_of_its_process_and_counts_its_own_drops() {
        let bound = || UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let (full, other) = (bound(), bound());
        let at = full.local_addr().expect("bound");
        // Other tests close theirs.
        let look = |_| udp_sockets().into_iter().find(|socket| socket.local == at);
        let seen = || (0..1_000).find_map(look).expect("there");
        let inode = seen().inode;
        assert!(own_sockets().contains(&inode) && sockets(std::process::id()).contains(&inode));
        assert_eq!(owners(&[inode].into()), [std::process::id()]);
        assert!(owners(&BTreeSet::new()).is_empty());
        assert!(seen().serves && seen().drops == 0);
        // Nobody reads: its queue is full after some hundred.
        let sent = (0..100_000).find(|_| {
            let _ = other.send_to(&[0; 1_000], at);
            seen().drops > 0
        });
        assert!(sent.is_some());
        let other = other.local_addr().expect("bound");
        assert!(udp_sockets().iter().all(|socket| socket.local != other || socket.drops == 0));
    }

    #[test]
    fn this_process_has_a_name_and_threads() {
        let me = std::process::id();
        assert!(all().contains(&me) && name(me).is_some_and(|name| !name.is_empty()));
        assert!(!thread_stats(me).is_empty() && !allowed_cpus(me).is_empty());
        assert_eq!(name(u32::MAX), None);
        assert!(thread_times(u32::MAX).is_empty() && read_stat(me).is_some());
    }
}
