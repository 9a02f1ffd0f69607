//! The wrapper under which the lab starts everything: a hidden command of the program itself.
//!
//! ```text
//!   lab ── spawn ──> dnsdyno __exec --parent P --netns PATH --cpus LIST --dir DIR -- CMD ARGS
//!                      dies with P, enters the namespace, binds to the cores, goes to DIR
//!                      └─ exec ──> CMD ARGS      same pid: what the lab watches is the server itself
//! ```
//!
//! A process of its own instead of code between fork and exec, which would be `unsafe` and could
//! not report what went wrong. Everything set here survives the exec.

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

use crate::cpus::CpuList;

/// Name of the hidden command that runs the Measurer.
pub const MEASURE_COMMAND: &str = "__measure";
/// The hidden command's name.
pub const EXEC_COMMAND: &str = "__exec";

/// What the wrapper is asked to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExecRequest {
    /// The process that must still be the parent.
    pub(crate) parent: u32,
    /// The network namespace to enter, as a path to open; empty to stay.
    pub(crate) netns: PathBuf,
    /// The cores to run on.
    pub(crate) cpus: CpuList,
    /// The directory to work in.
    pub(crate) dir: PathBuf,
    /// The program and its arguments.
    pub(crate) command: Vec<OsString>,
}

impl ExecRequest {
    /// As arguments of the wrapper.
    pub(crate) fn to_args(&self) -> Vec<OsString> {
        let mut args: Vec<OsString> = vec![
            EXEC_COMMAND.into(),
            "--parent".into(),
            self.parent.to_string().into(),
            "--netns".into(),
            self.netns.clone().into(),
            "--cpus".into(),
            self.cpus.to_string().into(),
            "--dir".into(),
            self.dir.clone().into(),
            "--".into(),
        ];
        args.extend(self.command.iter().cloned());
        args
    }

    /// Reads what [`ExecRequest::to_args`] wrote, without the command's name.
    fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Self, ExecError> {
        let mut args = args.into_iter();
        let mut take = |flag: &'static str| -> Result<OsString, ExecError> {
            match args.next() {
                Some(found) if found == flag => args.next().ok_or(ExecError::Usage(flag)),
                _ => Err(ExecError::Usage(flag)),
            }
        };
        let number = |text: OsString| text.to_str().and_then(|t| t.parse().ok());
        let list = |text: OsString| text.to_str().and_then(|t| t.parse().ok());
        let parent = number(take("--parent")?).ok_or(ExecError::Usage("--parent"))?;
        let netns = take("--netns")?.into();
        let cpus = list(take("--cpus")?).ok_or(ExecError::Usage("--cpus"))?;
        let dir = take("--dir")?.into();
        let command: Vec<OsString> = match args.next() {
            Some(dashes) if dashes == "--" => args.collect(),
            _ => return Err(ExecError::Usage("--")),
        };
        if command.is_empty() {
            return Err(ExecError::Usage("-- CMD"));
        }
        Ok(Self { parent, netns, cpus, dir, command })
    }
}

/// Why the wrapper did not become the command.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// It was called by something else than the lab.
    #[error("__exec is the lab's own wrapper and not for direct use: {0} is missing or wrong")]
    Usage(&'static str),
    /// The lab ended while this process was starting.
    #[error("the lab has ended")]
    Orphaned,
    /// A step failed.
    #[error("cannot {what}: {source}")]
    Step {
        /// What was tried.
        what: String,
        /// What the kernel said.
        source: io::Error,
    },
}

/// Becomes the command that `args` (after `__exec`) ask for; returns only when it cannot.
///
/// # Errors
/// When a step fails; the process should then print it and exit.
pub fn exec_main(args: impl IntoIterator<Item = OsString>) -> Result<Infallible, ExecError> {
    let request = ExecRequest::parse(args)?;
    let step = |what: String| move |source: io::Error| ExecError::Step { what, source };
    prctl::set_pdeathsig(Signal::SIGKILL)
        .map_err(|e| step("ask to die with the lab".to_owned())(e.into()))?;
    // A parent that died before that would never be noticed.
    if getppid() != Pid::from_raw(request.parent as i32) {
        return Err(ExecError::Orphaned);
    }
    let what = format!("enter the network namespace {}", request.netns.display());
    if !request.netns.as_os_str().is_empty() {
        File::open(&request.netns)
            .and_then(|file| Ok(setns(file, CloneFlags::CLONE_NEWNET)?))
            .map_err(step(what))?;
    }
    let set = request.cpus.to_set().ok_or(ExecError::Usage("--cpus"))?;
    sched_setaffinity(Pid::from_raw(0), &set)
        .map_err(|e| step(format!("run on cores {}", request.cpus))(e.into()))?;
    let error = Command::new(&request.command[0])
        .args(&request.command[1..])
        .current_dir(&request.dir)
        .exec();
    Err(step(format!("execute {}", request.command[0].to_string_lossy()))(error))
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
            command: vec!["nsd".into(), "--".into(), "-d".into()],
        };
        let args = request.to_args();
        assert_eq!(args[0], EXEC_COMMAND);
        assert_eq!(ExecRequest::parse(args.into_iter().skip(1)).unwrap(), request);
    }

    #[test]
    fn calls_by_hand_are_refused() {
        for args in [&[][..], &["--parent", "x"], &["--parent", "1", "--netns"], &["ls"]] {
            let args = args.iter().map(OsString::from);
            assert!(matches!(ExecRequest::parse(args), Err(ExecError::Usage(_))));
        }
    }
}
