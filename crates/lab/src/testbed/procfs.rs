//! Files of `/proc`, parsed by [`measure::procfs`], and the descendants of a process.

use std::fs;
use std::path::Path;

use measure::procfs::{StatLine, Switches, counts_of, parse_switches};
pub use udp::processes::read_stat;
use udp::processes::thread_times;
pub(crate) use udp::processes::{numbers, read_stat_at};

use crate::testbed::cpus::CpuList;

/// Parses the cores a thread may run on, from `/proc/PID/task/TID/status`.
fn parse_affinity(text: &str) -> Option<CpuList> {
    let line = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    line.trim().parse().ok()
}

/// Reads the context switches of all living threads of a process.
pub(crate) fn read_switches(pid: u32) -> Switches {
    let task = format!("/proc/{pid}/task");
    let threads = numbers(Path::new(&task)).into_iter();
    let texts = threads.filter_map(|tid| fs::read_to_string(format!("{task}/{tid}/status")).ok());
    texts.map(|text| parse_switches(&text)).fold(Switches::default(), |sum, s| Switches {
        voluntary: sum.voluntary + s.voluntary,
        involuntary: sum.involuntary + s.involuntary,
    })
}

/// Reads the software interrupts for receiving (`NET_RX`) of each core since the start of the host, from
/// `/proc/softirqs`.
pub(crate) fn receive_softirqs() -> Vec<u64> {
    counts_of(&fs::read_to_string("/proc/softirqs").unwrap_or_default(), "NET_RX:")
}

/// Reads the interrupts that cores sent each other since the start of the host: rescheduling and function calls, from
/// `/proc/interrupts`.
pub(crate) fn interrupts_between_cores() -> u64 {
    let text = fs::read_to_string("/proc/interrupts").unwrap_or_default();
    ["RES:", "CAL:"].iter().flat_map(|row| counts_of(&text, row)).sum()
}

/// All processes at one time.
#[derive(Debug)]
pub(crate) struct Table(Vec<(u32, StatLine)>);

impl Table {
    /// Reads the processes that `/proc` shows now.
    pub(crate) fn read() -> Self {
        let all = numbers(Path::new("/proc")).into_iter();
        Table(all.filter_map(|pid| Some((pid, read_stat(pid)?))).collect())
    }

    /// Returns the process `root`, `root` first, all its descendants, and the processes of its
    /// group if it leads one: including orphans, which have another parent, and zombies.
    pub(crate) fn tree(&self, root: u32) -> Vec<u32> {
        let mut found = vec![root];
        let mut next = 0;
        while let Some(&parent) = found.get(next) {
            let belongs = |stat: &StatLine| stat.ppid == parent || stat.group == i64::from(root);
            let more = self.0.iter().filter(|(pid, stat)| belongs(stat) && !found.contains(pid));
            let more: Vec<u32> = more.map(|(pid, _)| *pid).collect();
            found.extend(more);
            next += 1;
        }
        found
    }
}

/// Returns the processes that `Table::tree` finds now.
pub fn tree(root: u32) -> Vec<u32> {
    Table::read().tree(root)
}

/// Returns the CPU time of all threads of a process and of its children so far, in nanoseconds.
pub fn run_time(root: u32) -> u64 {
    let threads = tree(root).into_iter().flat_map(thread_times);
    threads.map(|(_, thread)| thread.run).sum()
}

/// Returns the cores each thread of a process may run on.
pub fn affinities(pid: u32) -> Vec<(u32, CpuList)> {
    let task = format!("/proc/{pid}/task");
    let read = |tid| {
        let text = fs::read_to_string(format!("{task}/{tid}/status")).ok()?;
        Some((tid, parse_affinity(&text)?))
    };
    numbers(Path::new(&task)).into_iter().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    use nix::sys::signal::{Signal, killpg};
    use nix::unistd::Pid;

    use super::*;

    #[test]
    fn this_process_can_be_read() {
        assert!(read_stat(std::process::id()).is_some());
        assert!(read_switches(std::process::id()).voluntary > 0);
        assert_eq!(
            parse_affinity("Name:\tx\nCpus_allowed:\t3\nCpus_allowed_list:\t0-1\n").unwrap().cpus(),
            [0, 1]
        );
        assert_eq!(parse_affinity("Name:\tx\n"), None);
    }

    #[test]
    fn finds_its_own_tree() {
        let me = std::process::id();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let tree = tree(me);
        assert_eq!(tree[0], me);
        assert!(tree.contains(&child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!affinities(me).is_empty());
    }

    #[test]
    fn orphans_of_its_group_belong_to_it() {
        // The inner shell ends at once, so that the first `sleep` has another parent.
        let mut leader = Command::new("sh");
        leader.args(["-c", "sh -c 'sleep 61 & echo $!'; exec sleep 62"]).process_group(0);
        let mut leader = leader.stdout(Stdio::piped()).spawn().expect("starts");
        let mut line = String::new();
        let mut output = BufReader::new(leader.stdout.take().expect("piped"));
        output.read_line(&mut line).expect("reads");
        let orphan: u32 = line.trim().parse().expect("a number");
        let found = tree(leader.id());
        assert_eq!(found[0], leader.id());
        assert!(found.contains(&orphan), "{found:?}");
        assert_ne!(read_stat(orphan).expect("it lives").ppid, leader.id());
        killpg(Pid::from_raw(leader.id() as i32), Signal::SIGKILL).expect("kills");
        leader.wait().expect("ends");
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_parser_of_affinities_panic(text in "[ -~\n\t:()]{0,300}") {
            parse_affinity(&text);
        }
    }
}
