//! CPU limit: a server gets less CPU time than its cores have.
//!
//! | means | where | how |
//! |---|---|---|
//! | control group, version 2 | root | `cpu.max` |
//! | control group, version 1 | root | `cpu.cfs_quota_us` |
//! | duty cycle | elsewhere | the server is stopped and continued (SIGSTOP, SIGCONT) |
//!
//! Each of the three gives the server its share in each `PERIOD` and nothing beyond, so that a query may wait for the
//! rest of the period.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::testbed::control_group::{self, ControlGroup};
use crate::testbed::procfs;

/// Period in which the server gets its share.
const PERIOD: Duration = Duration::from_millis(10);

/// Error while limiting a server.
#[derive(Debug, thiserror::Error)]
#[error("cannot limit the server's CPU time by a control group in {}: {source}", path.display())]
pub struct LimitError {
    path: PathBuf,
    source: io::Error,
}

/// Limits processes to a share of CPU time until it is dropped.
#[derive(Debug)]
pub(crate) struct CpuLimit(Limiter);

#[derive(Debug)]
enum Limiter {
    /// The processes of the group have a quota until the group is dropped.
    Group(#[expect(dead_code, reason = "dropping it removes the quota")] ControlGroup),
    DutyCycle {
        done: Arc<AtomicBool>,
        thread: Option<JoinHandle<()>>,
    },
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
            Some(group) => {
                // Children that they start later are in the group too.
                for pid in &all {
                    let path = group.path();
                    group
                        .add(*pid)
                        .map_err(|source| LimitError { path: path.to_owned(), source })?;
                }
                Ok(CpuLimit(Limiter::Group(group)))
            }
            None => Ok(CpuLimit(duty_cycle(all, (cores / cpus as f64).min(1.0)))),
        }
    }

    /// Returns the name of the means that limits the CPU time.
    pub(crate) fn means(&self) -> &'static str {
        match &self.0 {
            Limiter::Group(_) => "a quota of a control group",
            Limiter::DutyCycle { .. } => "stopping and continuing its processes (SIGSTOP, SIGCONT)",
        }
    }
}

impl Drop for CpuLimit {
    fn drop(&mut self) {
        if let Limiter::DutyCycle { done, thread } = &mut self.0 {
            done.store(true, Ordering::Relaxed);
            if let Some(thread) = thread.take() {
                let _ = thread.join();
            }
        }
    }
}

/// Makes a control group with a quota, if this process may.
fn group(cores: f64) -> Option<ControlGroup> {
    let (period, quota) = (PERIOD.as_micros(), (PERIOD.as_micros() as f64 * cores) as u64);
    let group = ControlGroup::new("cpu")?;
    let written = if control_group::is_unified() {
        group.set("cpu.max", &format!("{quota} {period}"))
    } else {
        let written = group.set("cpu.cfs_period_us", &period.to_string());
        written.and_then(|()| group.set("cpu.cfs_quota_us", &quota.to_string()))
    };
    written.is_ok().then_some(group)
}

/// Stops and continues processes for their share of each period.
fn duty_cycle(pids: Vec<u32>, share: f64) -> Limiter {
    let done = Arc::new(AtomicBool::new(false));
    let flag = done.clone();
    let thread = std::thread::spawn(move || {
        let send = |signal| {
            for pid in &pids {
                // The process was not waited for, so that its number is still valid; otherwise the
                // signal has no effect.
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
    Limiter::DutyCycle { done, thread: Some(thread) }
}

#[cfg(test)]
mod tests {
    use std::fs;
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
}
