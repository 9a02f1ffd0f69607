//! A server that goes to the background and uses only its own paths, such as `/etc/x.conf`:
//! `start.daemon = true`.
//!
//! ```text
//!   dnsdyno __exec ...                  stays, as the process that the lab watches
//!     ├─ CMD ARGS                       ends at once, or stays
//!     └─ its daemon                     becomes a child of the wrapper (PR_SET_CHILD_SUBREAPER)
//! ```
//!
//! The wrapper has its own mount namespace. In it the files below `root/` of the server's directory lie over those of the
//! machine (a read-only overlay), and `/run` is empty, so that the server neither finds nor replaces a PID file of the machine.
//! Signals go to all processes of the server; the wrapper ends after the last of them, with its exit code.

use std::convert::Infallible;
use std::ffi::OsString;
use std::fs::{self, DirEntry};
use std::io;
use std::path::Path;
use std::process::Command;

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use signal_hook::consts::signal::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::testbed::procfs;

/// Folder in a server's directory with the files whose paths are absolute.
pub(crate) const ROOT: &str = "root";

/// Runs `command` in the working directory until its last process has ended, and exits with its code.
///
/// # Errors
/// If the files cannot be shown, or the command cannot be executed.
pub(crate) fn run(command: &[OsString]) -> io::Result<Infallible> {
    let none = None::<&str>;
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    let run = Path::new("/run");
    if run.is_dir() && !std::env::current_dir()?.starts_with(run) {
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        mount(Some("tmpfs"), run, Some("tmpfs"), flags, Some("size=1m"))?;
    }
    if Path::new(ROOT).is_dir() {
        show(Path::new(ROOT), Path::new("/"))?;
    }
    prctl::set_child_subreaper(true)?;
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGCHLD])?;
    Command::new(&command[0]).args(&command[1..]).spawn()?;
    let mut code = 0;
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(_, ended)) => code = ended,
            Ok(WaitStatus::Signaled(_, signal, _)) => code = 128 + signal as i32,
            Err(Errno::ECHILD) => std::process::exit(code),
            _ => signals.wait().filter(|signal| *signal != SIGCHLD).for_each(forward),
        }
    }
}

/// Sends a signal to all processes of the server.
fn forward(signal: i32) {
    let Ok(signal) = Signal::try_from(signal) else { return };
    for pid in procfs::tree(std::process::id()).into_iter().skip(1) {
        // The process may have ended in the meantime.
        let _ = kill(Pid::from_raw(pid as i32), signal);
    }
}

/// Shows the files below `ours` at their places below `at`: an overlay on each folder of the machine that gets a new entry.
fn show(ours: &Path, at: &Path) -> io::Result<()> {
    let entries: Vec<DirEntry> = fs::read_dir(ours)?.collect::<Result<_, _>>()?;
    let there = |entry: &DirEntry| at.join(entry.file_name());
    if entries.iter().all(|entry| entry.path().is_dir() && there(entry).is_dir()) {
        return entries.iter().try_for_each(|entry| show(&entry.path(), &there(entry)));
    }
    let layers = format!("lowerdir={}:{}", ours.display(), at.display());
    let shown = match at.parent() {
        Some(_) => mount(Some("overlay"), at, Some("overlay"), MsFlags::MS_RDONLY, Some(&*layers)),
        None => Err(Errno::ENOENT),
    };
    shown.map_err(|e| {
        let why =
            format!("the files of {} cannot be shown in {}: {e}", ours.display(), at.display());
        io::Error::new(io::Error::from(e).kind(), why)
    })
}
