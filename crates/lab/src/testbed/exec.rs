//! The wrapper that starts every process of the lab: a hidden command of the program itself.
//!
//! ```text
//!   lab ── spawn ──> dnsdyno __exec JSON CMD ARGS
//!                      dies with P, enters the namespace, binds to the cores, goes to DIR
//!                      └─ exec ──> CMD ARGS      same pid: what the lab watches is the server itself
//!                                                (of a daemon it stays: `daemon`)
//! ```
//!
//! It is a process of its own, since code between fork and exec would be `unsafe` and could not report errors. All
//! its settings survive the exec.

use std::convert::Infallible;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use nix::sched::{CloneFlags, sched_setaffinity, setns};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getppid};
use serde::{Deserialize, Serialize};

use crate::testbed::cpus::CpuList;
use crate::testbed::daemon;

/// Name of the hidden command of the wrapper.
pub const EXEC_COMMAND: &str = "__exec";

/// Steps of the wrapper before it becomes the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExecRequest {
    /// Process number that the parent must still have.
    pub(crate) parent: u32,
    /// Path of the network namespace to enter; empty to stay.
    pub(crate) netns: PathBuf,
    /// Cores to which the program is bound.
    pub(crate) cpus: CpuList,
    /// Working directory of the program.
    pub(crate) dir: PathBuf,
    /// Whether the program may go to the background: the wrapper then stays.
    pub(crate) daemon: bool,
    /// Program and its arguments, which follow the JSON.
    #[serde(skip)]
    pub(crate) command: Vec<OsString>,
}

impl ExecRequest {
    /// Returns the request as arguments of the wrapper.
    ///
    /// # Errors
    /// If a path is not UTF-8.
    pub(crate) fn to_args(&self) -> io::Result<Vec<OsString>> {
        let own = [EXEC_COMMAND.to_owned(), serde_json::to_string(self)?];
        Ok(own.into_iter().map(Into::into).chain(self.command.iter().cloned()).collect())
    }

    /// Reads the arguments that [`ExecRequest::to_args`] wrote, without the command's name.
    fn read(args: impl IntoIterator<Item = OsString>) -> Option<Self> {
        let mut args = args.into_iter();
        let request: ExecRequest = serde_json::from_str(args.next()?.to_str()?).ok()?;
        let command: Vec<OsString> = args.collect();
        (!command.is_empty()).then_some(Self { command, ..request })
    }
}

/// Why the wrapper did not become the program.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// The wrapper was not called by the lab.
    #[error("__exec is the lab's own wrapper and not for direct use")]
    Usage,
    /// The lab ended while the wrapper was starting.
    #[error("the lab has already ended")]
    Orphaned,
    /// The kernel refused a step before the program.
    #[error("cannot {0}: {1}")]
    Step(String, #[source] io::Error),
}

/// Executes the command of `args` (after `__exec`); returns only if it fails.
///
/// # Errors
/// If a step fails; the process should then print the error and exit.
pub fn exec_main(args: impl IntoIterator<Item = OsString>) -> Result<Infallible, ExecError> {
    let request = ExecRequest::read(args).ok_or(ExecError::Usage)?;
    let step = |what: String| move |source: io::Error| ExecError::Step(what, source);
    prctl::set_pdeathsig(Signal::SIGKILL)
        .map_err(|e| step("ask to die with the lab".to_owned())(e.into()))?;
    // The death of a parent before that call would not be noticed.
    if getppid() != Pid::from_raw(request.parent as i32) {
        return Err(ExecError::Orphaned);
    }
    let what = format!("enter the network namespace {}", request.netns.display());
    if !request.netns.as_os_str().is_empty() {
        File::open(&request.netns)
            .and_then(|file| Ok(setns(file, CloneFlags::CLONE_NEWNET)?))
            .map_err(step(what))?;
    }
    let set = request.cpus.to_set().ok_or(ExecError::Usage)?;
    sched_setaffinity(Pid::from_raw(0), &set)
        .map_err(|e| step(format!("run on cores {}", request.cpus))(e.into()))?;
    let execute = || {
        std::env::set_current_dir(&request.dir)?;
        match request.daemon {
            true => daemon::run(&request.command),
            false => Err(Command::new(&request.command[0]).args(&request.command[1..]).exec()),
        }
    };
    execute().map_err(step(format!("execute {}", request.command[0].to_string_lossy())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_round_trips() {
        let request = ExecRequest {
            parent: 1,
            netns: "/proc/1/fd/7".into(),
            cpus: "0-1".parse().unwrap(),
            dir: "/tmp/a b".into(),
            daemon: true,
            command: vec!["nsd".into(), "--".into(), "-d".into()],
        };
        let args = request.to_args().unwrap();
        assert_eq!(args[0], EXEC_COMMAND);
        assert_eq!(ExecRequest::read(args.into_iter().skip(1)).unwrap(), request);
    }

    #[test]
    fn calls_by_hand_are_refused() {
        for args in [&[][..], &["{}", "ls"], &["ls"]] {
            let args = args.iter().map(OsString::from);
            assert_eq!(ExecRequest::read(args), None);
        }
    }
}
