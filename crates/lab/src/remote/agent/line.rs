//! The line to an agent: its program is copied, it reports that it is ready, and the line is handed
//! over to the process in the lab.
//!
//! ```text
//!  outer process (no threads, the user's own rights)      process in the lab
//!    ssh ── bring ── ready, version ── keeps ssh ───────>  orders, replies: two pipes inherited
//! ```
//!
//! So ssh runs with the user's name, keys and known hosts also where the lab is in a user namespace. When the lab ends for any
//! reason, the pipes end with it.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::process::{ChildStdin, ChildStdout};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::{Deserialize, Serialize};

use super::shell::{Remote, Shell};
use crate::remote::connection::{greeting, understood};
use crate::remote::error::{Peer, RemoteError};
use crate::remote::handover::Pipes;
use crate::remote::message::{Greeting, MAX_MESSAGE, decode};

/// Time within which the agent must be ready, including the copy of a program of some tens of
/// megabytes.
const START_LIMIT: Duration = Duration::from_secs(120);
/// Longest time between two checks for an interruption, in milliseconds.
const STEP_MS: u16 = 500;

/// A line to an agent that is ready.
#[derive(Debug)]
pub(in crate::remote) struct AgentLine {
    // The pipes end before the shell is waited for.
    pub(super) orders: ChildStdin,
    pub(super) replies: ChildStdout,
    pub(super) greeting: Greeting,
    pub(super) host: String,
    pub(super) shell: Shell,
}

/// A line as the process in the lab inherits it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::remote) struct InheritedLine {
    pub(super) host: String,
    pub(super) pipes: Pipes,
    pub(super) greeting: Greeting,
}

impl AgentLine {
    /// Starts the agent on a host, of the version `version`. It makes no thread.
    ///
    /// # Errors
    /// If the host cannot be reached within some time, or the agent cannot do its task there.
    pub(in crate::remote) fn open(remote: &Remote, version: &str) -> Result<Self, RemoteError> {
        Self::open_within(remote, version, START_LIMIT)
    }

    fn open_within(remote: &Remote, version: &str, limit: Duration) -> Result<Self, RemoteError> {
        let bring = |source| RemoteError::Bring { host: remote.host.clone(), source };
        let own = match remote.program {
            Some(_) => None,
            None => Some(fs::read("/proc/self/exe").map_err(bring)?),
        };
        let (shell, orders, replies) = Shell::launch(remote, own.as_ref().map(Vec::len))?;
        let host = remote.host.clone();
        let mut line = AgentLine { orders, replies, greeting: Greeting::default(), host, shell };
        let deadline = Instant::now() + limit;
        let peer = Peer::Agent(remote.host.clone());
        let failed = |error: io::Error| match error.kind() {
            ErrorKind::TimedOut => RemoteError::Silent(peer.clone(), limit),
            _ => RemoteError::Gone(peer.clone()),
        };
        line.block(false).map_err(bring)?;
        line.bring(&own.unwrap_or_default(), deadline).map_err(failed)?;
        let reply = decode(&line.first_reply(deadline).map_err(failed)?);
        line.greeting = *greeting(&peer, understood(&peer, reply)?, version)?;
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
    fn bring(&mut self, mut program: &[u8], deadline: Instant) -> io::Result<()> {
        while !program.is_empty() {
            match self.orders.write(program) {
                Ok(written) => program = &program[written..],
                Err(why) => wait(why, &self.orders, PollFlags::POLLOUT, deadline)?,
            }
        }
        Ok(())
    }

    /// Reads the first line, and no octet after it.
    fn first_reply(&mut self, deadline: Instant) -> io::Result<Vec<u8>> {
        let (mut line, mut octet) = (Vec::new(), [0]);
        while line.last() != Some(&b'\n') && line.len() < MAX_MESSAGE {
            match self.replies.read(&mut octet) {
                Ok(0) if line.is_empty() => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(0) => break,
                Ok(_) => line.push(octet[0]),
                Err(why) => wait(why, &self.replies, PollFlags::POLLIN, deadline)?,
            }
        }
        Ok(line)
    }

    /// Lets the next process that is started inherit the line.
    pub(in crate::remote) fn pass(&self) -> io::Result<InheritedLine> {
        let pipes = Pipes::pass(&self.orders, &self.replies)?;
        Ok(InheritedLine { host: self.host.clone(), pipes, greeting: self.greeting.clone() })
    }
}

/// Waits until a blocked pipe can continue.
fn wait(why: io::Error, pipe: &impl AsFd, until: PollFlags, deadline: Instant) -> io::Result<()> {
    match why.kind() {
        ErrorKind::Interrupted => {}
        ErrorKind::WouldBlock if Instant::now() >= deadline => {
            return Err(ErrorKind::TimedOut.into());
        }
        ErrorKind::WouldBlock => {
            // A signal only ends the step.
            let _ = poll(&mut [PollFd::new(pipe.as_fd(), until)], PollTimeout::from(STEP_MS));
        }
        _ => return Err(why),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::agent::AgentTask;

    #[test]
    fn a_host_that_does_not_take_the_program_is_not_waited_for() {
        let remote = Remote {
            host: "somewhere".to_owned(),
            shell: ["sh", "-c", "exec sleep 600"].map(str::to_owned).to_vec(),
            task: AgentTask::Start,
            program: None,
        };
        let opened = AgentLine::open_within(&remote, "1", Duration::from_secs(1));
        let error = opened.map(|_| ()).expect_err("nothing is read").to_string();
        assert_eq!(error, "somewhere: the agent did not reply within 1s");
    }
}
