//! CPU time to the nanosecond: of processes, and of the kernel threads that work for them.
//! `udp::sys` has the CPU time of everything that ran on a core.
//!
//! | figure | from | exact |
//! |---|---|---|
//! | a process with its threads, also ended ones | its CPU clock (clock_getcpuclockid(3)) | yes |
//! | all tasks of a core | `cpuacct.usage_percpu` of the first control group (version 1) | yes |
//! | | `/proc/schedstat` | no: with the interrupts during tasks |
//! | kernel threads that handle packets and files | `schedstat` of `ksoftirqd/N`, `napi/...`, `kworker/...`, `jbd2/...` in the host's `/proc` | yes |
//!
//! The difference of the second and the others is what foreign processes used. Ticks (`/proc/stat`) cannot say that: at
//! 250 a second they are off by several percent in a trial of one second.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use measure::procfs::parse_schedstat;
use nix::time::clock_getcpuclockid;
use nix::unistd::Pid;

use crate::testbed::procfs::{self, numbers};

/// Prefixes of the names of kernel threads that do the work of processes: packets of the testbed's links, and what a
/// server writes to its files (the journal of ext4 and the completion of block requests).
const WORKING_THREADS: [&str; 4] = ["ksoftirqd/", "napi/to-", "kworker/", "jbd2/"];

/// Prefixes of the kernel threads that only handle packets.
const PACKET_THREADS: [&str; 2] = ["ksoftirqd/", "napi/to-"];

/// CPU time of a kernel thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct KernelThread {
    /// Core where it ran last.
    pub(super) core: usize,
    /// Run time of the thread, in nanoseconds.
    pub(super) run: u64,
}

/// Returns the CPU time of a process and of its ended children so far, in nanoseconds; `children` are ticks of
/// `tick_ns`.
pub(super) fn run_time(pid: u32, children: u64, tick_ns: u64) -> u64 {
    let clock = clock_getcpuclockid(Pid::from_raw(pid as i32)).and_then(|clock| clock.now());
    let own = clock.map_or(0, |time| time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64);
    own + children * tick_ns
}

/// Returns the kernel threads that do the work of processes, by their numbers; `host_proc` is a `/proc` of the whole
/// host. `None` where they cannot be seen.
pub(super) fn kernel_threads(host_proc: &Path) -> Option<BTreeMap<u32, KernelThread>> {
    let threads = threads_named(host_proc, &WORKING_THREADS);
    let threads = threads.into_iter().filter_map(|(pid, core)| {
        let run = run_time_at(&host_proc.join(pid.to_string()))?;
        Some((pid, KernelThread { core, run }))
    });
    let threads: BTreeMap<u32, KernelThread> = threads.collect();
    (!threads.is_empty()).then_some(threads)
}

/// Returns the folders of the kernel threads that handle packets, each with the core where it ran last.
pub(super) fn packet_threads(host_proc: &Path) -> Vec<(usize, PathBuf)> {
    let threads = threads_named(host_proc, &PACKET_THREADS).into_iter();
    threads.map(|(pid, core)| (core, host_proc.join(pid.to_string()))).collect()
}

/// Returns the threads whose names begin with one of `prefixes`, each with the core where it ran last.
fn threads_named(host_proc: &Path, prefixes: &[&str]) -> Vec<(u32, usize)> {
    let core_of = |pid: u32| {
        let dir = host_proc.join(pid.to_string());
        let name = fs::read_to_string(dir.join("comm")).ok()?;
        prefixes.iter().find(|prefix| name.trim().starts_with(*prefix))?;
        Some((pid, procfs::read_stat_at(&dir)?.core?))
    };
    numbers(host_proc).into_iter().filter_map(core_of).collect()
}

/// Returns the run time of the thread with this folder so far, in nanoseconds.
pub(super) fn run_time_at(dir: &Path) -> Option<u64> {
    Some(parse_schedstat(&fs::read_to_string(dir.join("schedstat")).ok()?)?.run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_runs() {
        let before = run_time(std::process::id(), 0, 0);
        let mut work = 0_u64;
        while run_time(std::process::id(), 0, 0) < before + 2_000_000 {
            work = std::hint::black_box(work.wrapping_add(1));
        }
        assert_eq!(run_time(4_000_000, 3, 10), 30, "there is no such process");
    }

    #[test]
    fn kernel_threads_are_found_by_name() {
        let dir = tempfile::tempdir().expect("a folder");
        let thread = |pid: u32, name: &str, run: u64, core: usize| {
            let dir = dir.path().join(pid.to_string());
            fs::create_dir(&dir).expect("makes");
            fs::write(dir.join("comm"), format!("{name}\n")).expect("writes");
            fs::write(dir.join("schedstat"), format!("{run} 2 3\n")).expect("writes");
            let zeros = "0 ".repeat(35);
            fs::write(dir.join("stat"), format!("{pid} ({name}) S {zeros}{core} 0\n"))
                .expect("writes");
        };
        assert_eq!(kernel_threads(dir.path()), None);
        thread(14, "ksoftirqd/0", 500, 0);
        thread(22, "ksoftirqd/1", 70, 1);
        thread(30, "kworker/1:1", 9_000, 1);
        thread(31, "napi/to-dut-7", 11, 1);
        thread(32, "kdamond.0", 4_000, 1);
        fs::create_dir(dir.path().join("net")).expect("makes");
        let known = [(14, 0, 500), (22, 1, 70), (30, 1, 9_000), (31, 1, 11)]
            .map(|(pid, core, run)| (pid, KernelThread { core, run }));
        assert_eq!(kernel_threads(dir.path()), Some(known.into()));
    }
}
