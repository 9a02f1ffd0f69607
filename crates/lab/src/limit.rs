//! CPU limit: a server gets less CPU time than its cores have.
//!
//! | means | where | how |
//! |---|---|---|
//! | control group, version 2 | root, `/sys/fs/cgroup/cgroup.controllers` | `cpu.max` |
//! | control group, version 1 | root, `/sys/fs/cgroup/cpu` | `cpu.cfs_quota_us` |
//! | duty cycle | elsewhere | the server is stopped and continued (SIGSTOP, SIGCONT) |
//!
//! Each of the three gives the server its share in each `PERIOD` and nothing beyond, so that a query may wait for the
//! rest of the period.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::probe::procfs;

/// Period in which the server gets its share.
const PERIOD: Duration = Duration::from_millis(10);
/// Begin of the names of groups.
const PREFIX: &str = "dnsdyno-";
/// Age of a group up to which it is not swept.
const YOUNG: Duration = Duration::from_secs(60);
/// Number of attempts to remove an empty group, since its processes may still be ending.
const REMOVALS: u32 = 100;

/// Error while limiting a server.
#[derive(Debug, thiserror::Error)]
#[error("cannot limit the server's CPU time by a control group in {}: {source}", path.display())]
pub struct LimitError {
    path: PathBuf,
    source: io::Error,
}

/// Limits processes to a share of CPU time until it is dropped.
#[derive(Debug)]
pub(crate) struct CpuLimit(Means);

#[derive(Debug)]
enum Means {
    Group(PathBuf),
    DutyCycle { done: Arc<AtomicBool>, thread: Option<JoinHandle<()>> },
}

impl CpuLimit {
    /// Gives the processes `pids` and their children the time of `cores` cores, out of the `cpus` that they are bound
    /// to.
    ///
    /// # Errors
    /// If a control group was made but does not accept them.
    pub(crate) fn apply(pids: &[u32], cores: f64, cpus: usize) -> Result<Self, LimitError> {
        let all: Vec<u32> = pids.iter().flat_map(|pid| procfs::tree(*pid)).collect();
        match group(cores) {
            Some(path) => {
                let limit = CpuLimit(Means::Group(path.clone()));
                // Their later children are in the group too.
                for pid in &all {
                    let procs = path.join("cgroup.procs");
                    let error = |source| LimitError { path: path.clone(), source };
                    // One that has ended needs no limit.
                    let has_ended = |e: &io::Error| e.raw_os_error() == Some(Errno::ESRCH as i32);
                    match fs::write(procs, pid.to_string()) {
                        Err(e) if has_ended(&e) => {}
                        written => written.map_err(error)?,
                    }
                }
                Ok(limit)
            }
            None => Ok(CpuLimit(duty_cycle(all, (cores / cpus as f64).min(1.0)))),
        }
    }

    /// Returns the means of the limit, in words.
    pub(crate) fn means(&self) -> &'static str {
        match &self.0 {
            Means::Group(_) => "a control group's quota",
            Means::DutyCycle { .. } => "stopping and continuing it (SIGSTOP, SIGCONT)",
        }
    }
}

impl Drop for CpuLimit {
    fn drop(&mut self) {
        match &mut self.0 {
            Means::Group(path) => release(path),
            Means::DutyCycle { done, thread } => {
                done.store(true, Ordering::Relaxed);
                if let Some(thread) = thread.take() {
                    let _ = thread.join();
                }
            }
        }
    }
}

/// Makes a control group with a quota, if this process may.
fn group(cores: f64) -> Option<PathBuf> {
    let root = Path::new("/sys/fs/cgroup");
    let (period, quota) = (PERIOD.as_micros(), (PERIOD.as_micros() as f64 * cores) as u64);
    let unified = root.join("cgroup.controllers").exists();
    let parent = if unified { root.to_owned() } else { root.join("cpu") };
    sweep(&parent, ticket());
    let path = parent.join(format!("{PREFIX}{}-{}", std::process::id(), ticket()));
    if !parent.join("cgroup.procs").exists() || fs::create_dir(&path).is_err() {
        return None;
    }
    let written = if unified {
        fs::write(path.join("cpu.max"), format!("{quota} {period}"))
    } else {
        fs::write(path.join("cpu.cfs_period_us"), period.to_string())
            .and_then(|()| fs::write(path.join("cpu.cfs_quota_us"), quota.to_string()))
    };
    if written.is_ok() {
        return Some(path);
    }
    let _ = fs::remove_dir(&path);
    None
}

/// Removes the groups of labs that were killed: the kernel removes no group with a process in it. Young ones may be those of a lab
/// that is about to use them.
fn sweep(parent: &Path, now: u128) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let made = name.strip_prefix(PREFIX).and_then(|rest| rest.rsplit('-').next()?.parse().ok());
        if made.is_some_and(|made: u128| now.saturating_sub(made) > YOUNG.as_nanos()) {
            // It is in use, or another lab has removed it.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Returns a number that distinguishes groups of this machine; two labs may use the same process numbers.
fn ticket() -> u128 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |d| d.as_nanos())
}

/// Returns a group's processes to its parent and removes it.
fn release(path: &Path) {
    for _ in 0..REMOVALS {
        let left = fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
        if let Some(parent) = path.parent() {
            for pid in left.lines() {
                // A process that has ended has left the group already.
                let _ = fs::write(parent.join("cgroup.procs"), pid);
            }
        }
        if fs::remove_dir(path).is_ok() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Stops and continues processes for their share of each period.
fn duty_cycle(pids: Vec<u32>, share: f64) -> Means {
    let done = Arc::new(AtomicBool::new(false));
    let flag = done.clone();
    let thread = std::thread::spawn(move || {
        let send = |signal| {
            for pid in &pids {
                // The process was not waited for, so that its number is still valid; otherwise nothing happens.
                let _ = kill(Pid::from_raw(*pid as i32), signal);
            }
        };
        while !flag.load(Ordering::Relaxed) {
            send(Signal::SIGCONT);
            std::thread::sleep(PERIOD.mul_f64(share));
            if share < 1.0 {
                send(Signal::SIGSTOP);
                std::thread::sleep(PERIOD.mul_f64(1.0 - share));
            }
        }
        send(Signal::SIGCONT);
    });
    Means::DutyCycle { done, thread: Some(thread) }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// Returns the state letter of a process.
    fn state(pid: u32) -> String {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1[..1].to_owned()
    }

    #[test]
    fn a_duty_cycle_stops_and_lets_go() {
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        let limit = CpuLimit(duty_cycle(vec![child.id()], 0.5));
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..10_000 {
            seen.insert(state(child.id()));
            if seen.contains("T") && seen.contains("S") {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(seen.contains("T") && seen.contains("S"), "{seen:?}");
        drop(limit);
        // Continued at the end; it may take a moment to wake.
        while state(child.id()) == "T" {
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn groups_of_killed_labs_are_swept() {
        let parent = tempfile::tempdir().unwrap();
        let now = 1_000 * YOUNG.as_nanos();
        let names = ["1-5", &format!("2-{}", now - 7), "3-6", "x"].map(|n| format!("{PREFIX}{n}"));
        let groups = names.map(|name| parent.path().join(name));
        groups.iter().for_each(|group| fs::create_dir(group).unwrap());
        // A group with a process cannot be removed, as this folder with a file.
        fs::write(groups[2].join("cgroup.procs"), "1").unwrap();
        sweep(parent.path(), now);
        assert_eq!(groups.map(|group| group.exists()), [false, true, true, true]);
    }

    #[test]
    fn a_group_is_left_as_it_was_found() {
        let Some(path) = group(0.5) else {
            skip::because("no control groups for this user");
            return;
        };
        assert!(path.exists());
        drop(CpuLimit(Means::Group(path.clone())));
        assert!(!path.exists());
    }
}
