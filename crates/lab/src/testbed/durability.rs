//! Durability tests: a server is killed without warning and started again, as after a power failure.

use std::io;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Kills a process at once (SIGKILL).
///
/// # Errors
/// If there is no such process, or it belongs to another user.
pub fn kill_at_once(pid: i32) -> io::Result<()> {
    Ok(kill(Pid::from_raw(pid), Signal::SIGKILL)?)
}

/// Starts a server again by its operator's command, through the shell; it survives the end of this program.
///
/// # Errors
/// If there is no shell.
pub fn start_again(command: &str) -> io::Result<Child> {
    Command::new("sh").args(["-c", command]).stdin(Stdio::null()).stdout(Stdio::null()).spawn()
}
