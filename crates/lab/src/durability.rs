//! A server ended without warning and started again, as a power cut would: what it had promised to keep must be there.

use std::io;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Kills a process at once (SIGKILL).
///
/// # Errors
/// When there is no such process, or it is not ours.
pub fn kill_at_once(pid: i32) -> io::Result<()> {
    Ok(kill(Pid::from_raw(pid), Signal::SIGKILL)?)
}

/// Starts a server again by the command of its operator, through the shell; it goes on when this program ends.
///
/// # Errors
/// When there is no shell.
pub fn start_again(command: &str) -> io::Result<Child> {
    Command::new("sh").args(["-c", command]).stdin(Stdio::null()).stdout(Stdio::null()).spawn()
}
