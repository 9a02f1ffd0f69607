//! The line to an agent: its program is brought, it says that it is there, and the line is handed over to the process in the lab.
//!
//! ```text
//!  outer process (no threads, the user's own rights)      process in the lab
//!    ssh ── bring ── ready, version ── keeps ssh ───────>  orders, replies: two pipes that it inherits
//! ```
//!
//! So ssh runs with the user's name, keys and known hosts also where the lab is in a user namespace. When the lab ends for any
//! reason, the pipes end with it.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::process::{ChildStdin, ChildStdout};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::{Deserialize, Serialize};

use super::error::AgentError;
use super::message::{Greeting, Reply};
use super::shell::{Remote, Shell};
use crate::remote::handover::Pipes;

/// Time within which the agent must be there; a program of some tens of megabytes is brought meanwhile.
const START: Duration = Duration::from_secs(120);
/// Longest step of a wait, in milliseconds.
const STEP_MS: u16 = 500;
/// Longest reply, in bytes.
pub(super) const MOST: u64 = 1 << 20;
/// Size of the parts in which the program is brought: a pipe's.
const PART: usize = 1 << 16;

/// A line to an agent that is there.
#[derive(Debug)]
pub struct Line {
    // The pipes end before the shell is waited for.
    pub(super) orders: ChildStdin,
    pub(super) replies: ChildStdout,
    pub(super) greeting: Greeting,
    pub(super) host: String,
    pub(super) shell: Shell,
}

/// A line as the process in the lab inherits it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Passed {
    pub(super) host: String,
    pub(super) pipes: Pipes,
    pub(super) greeting: Greeting,
}

/// How long a line is waited for.
#[derive(Clone, Copy, Debug)]
struct Patience {
    deadline: Instant,
    limit: Duration,
}

impl Line {
    /// Starts the agent on a host, of the version `version`. It makes no thread.
    ///
    /// # Errors
    /// If the host cannot be reached within some time, or the agent cannot do its task there.
    pub fn open(remote: &Remote, version: &str) -> Result<Self, AgentError> {
        Self::open_within(remote, version, START)
    }

    fn open_within(remote: &Remote, version: &str, limit: Duration) -> Result<Self, AgentError> {
        let bring = |source| AgentError::Bring { host: remote.host.clone(), source };
        let mut own = match remote.program {
            Some(_) => None,
            None => Some(File::open("/proc/self/exe").map_err(bring)?),
        };
        let size = own.as_ref().map(|own| own.metadata().map(|m| m.len())).transpose();
        let (shell, orders, replies) = Shell::launch(remote, size.map_err(bring)?)?;
        let host = remote.host.clone();
        let mut line = Line { orders, replies, greeting: Greeting::default(), host, shell };
        let patience = Patience { deadline: Instant::now() + limit, limit };
        line.block(false).map_err(bring)?;
        if let Some(own) = &mut own {
            line.bring(own, patience)?;
        }
        line.greeting = line.ready(version, patience)?;
        line.shell.prepare(remote, line.greeting.group);
        line.block(true).map_err(bring)?;
        Ok(line)
    }

    /// Makes both pipes wait, or not.
    fn block(&self, on: bool) -> io::Result<()> {
        let flags = if on { OFlag::empty() } else { OFlag::O_NONBLOCK };
        fcntl(&self.orders, FcntlArg::F_SETFL(flags))?;
        fcntl(&self.replies, FcntlArg::F_SETFL(flags))?;
        Ok(())
    }

    /// Writes the program, as the first on the standard input there.
    fn bring(&mut self, own: &mut File, patience: Patience) -> Result<(), AgentError> {
        let mut buffer = vec![0; PART];
        loop {
            let read = own.read(&mut buffer);
            let read =
                read.map_err(|source| AgentError::Bring { host: self.host.clone(), source })?;
            let mut left = &buffer[..read];
            if left.is_empty() {
                return Ok(());
            }
            while !left.is_empty() {
                match self.orders.write(left) {
                    Ok(written) => left = &left[written..],
                    Err(e) if e.kind() == ErrorKind::WouldBlock => {
                        let orders = PollFd::new(self.orders.as_fd(), PollFlags::POLLOUT);
                        self.wait(orders, patience)?;
                    }
                    Err(e) if e.kind() == ErrorKind::Interrupted => {}
                    Err(_) => return Err(self.gone()),
                }
            }
        }
    }

    /// Reads the first reply, and checks its version.
    fn ready(&mut self, version: &str, patience: Patience) -> Result<Greeting, AgentError> {
        let (mut line, mut byte) = (Vec::new(), [0]);
        while line.last() != Some(&b'\n') && (line.len() as u64) < MOST {
            match self.replies.read(&mut byte) {
                Ok(0) if line.is_empty() => return Err(self.gone()),
                Ok(0) => break,
                Ok(_) => line.push(byte[0]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    let replies = PollFd::new(self.replies.as_fd(), PollFlags::POLLIN);
                    self.wait(replies, patience)?;
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(self.gone()),
            }
        }
        let host = self.host.clone();
        match serde_json::from_slice(&line) {
            Ok(Reply::Ready(greeting)) if greeting.version == version => Ok(*greeting),
            Ok(Reply::Ready(greeting)) => {
                let (found, wanted) = (greeting.version, version.to_owned());
                Err(AgentError::Version { host, found, wanted })
            }
            Ok(Reply::Refused { why }) => Err(AgentError::Refused { host, why }),
            _ => Err(AgentError::Strange { host, found: shown(&String::from_utf8_lossy(&line)) }),
        }
    }

    /// Waits until a pipe goes on.
    fn wait(&self, pipe: PollFd<'_>, patience: Patience) -> Result<(), AgentError> {
        if Instant::now() >= patience.deadline {
            return Err(AgentError::Silent { host: self.host.clone(), limit: patience.limit });
        }
        // A signal only ends the step.
        let _ = poll(&mut [pipe], PollTimeout::from(STEP_MS));
        Ok(())
    }

    fn gone(&self) -> AgentError {
        AgentError::Gone { host: self.host.clone() }
    }

    /// Lets the next process that is started inherit the line.
    pub(super) fn pass(&self) -> io::Result<Passed> {
        let pipes = Pipes::pass(&self.orders, &self.replies)?;
        Ok(Passed { host: self.host.clone(), pipes, greeting: self.greeting.clone() })
    }
}

/// Returns the beginning of a line, for an error.
pub(super) fn shown(line: &str) -> String {
    crate::testbed::process::harmless(line.trim_end()).chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::agent::Task;

    #[test]
    fn a_host_that_does_not_take_the_program_is_not_waited_for() {
        let remote = Remote {
            host: "somewhere".to_owned(),
            shell: ["sh", "-c", "exec sleep 600"].map(str::to_owned).to_vec(),
            task: Task::Start,
            program: None,
        };
        let opened = Line::open_within(&remote, "1", Duration::from_secs(1));
        let error = opened.map(|_| ()).expect_err("nothing is read").to_string();
        assert_eq!(error, "somewhere: the agent did not reply within 1s");
    }
}
