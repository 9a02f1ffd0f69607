//! The Tester's side: starts the agent by a remote shell, gives it orders, ends it.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

use super::message::{Order, Reply, Seen};
use crate::cpus::CpuList;

/// Time within which the agent must be there; a program of some tens of megabytes is brought meanwhile.
const START: Duration = Duration::from_secs(120);
/// Time within which it must reply.
const REPLY: Duration = Duration::from_secs(20);
/// Time within which the remote shell must end by itself.
const LEAVE: Duration = Duration::from_secs(3);
/// Time that the agent waits for the next order after the expected end of a trial.
const RESERVE: Duration = Duration::from_secs(60);
/// Number of times that the clocks are compared; the shortest round trip counts.
const CLOCKS: usize = 8;
/// Number of replies that wait to be read.
const WAITING: usize = 16;
/// Longest reply, in bytes.
const MOST: u64 = 1 << 20;

/// A host with a server on it, and how to get there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Name or address, with a user before `@` or without.
    pub host: String,
    /// Words of the remote shell before the host.
    pub shell: Vec<String>,
    /// Name of the server's processes.
    pub process: String,
    /// Cores of the server; those on which it may run if absent.
    pub cpus: Option<CpuList>,
    /// Program of the same version there; if absent this one is brought, and removed at the end.
    pub program: Option<String>,
}

/// Error of an agent.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The remote shell cannot be started.
    #[error("cannot start `{shell}`: {source}")]
    Shell {
        /// Its program.
        shell: String,
        /// Error of the system.
        source: io::Error,
    },
    /// The program cannot be read or brought.
    #[error(
        "cannot bring this program to {host}: {source}; give the path of one there with --dut-program"
    )]
    Bring {
        /// The host.
        host: String,
        /// Error of the system.
        source: io::Error,
    },
    /// The agent found no server.
    #[error("{host}: {why}")]
    Refused {
        /// The host.
        host: String,
        /// Why.
        why: String,
    },
    /// The program there is of another version.
    #[error(
        "{host}: the agent has version {found}, this program {wanted}; leave --dut-program out to bring this one"
    )]
    Version {
        /// The host.
        host: String,
        /// Version of the agent.
        found: String,
        /// Version of this program.
        wanted: String,
    },
    /// The link broke, or the agent ended.
    #[error("{host}: the agent is gone: the remote shell ended, or the link broke")]
    Gone {
        /// The host.
        host: String,
    },
    /// The agent does not reply.
    #[error("{host}: the agent did not reply within {0:?}", .limit)]
    Silent {
        /// The host.
        host: String,
        /// Time limit.
        limit: Duration,
    },
    /// The reply is none.
    #[error("{host}: this is no reply of an agent: {found}")]
    Strange {
        /// The host.
        host: String,
        /// What came.
        found: String,
    },
}

/// A running agent; it is ended when dropped.
#[derive(Debug)]
pub struct Agent {
    host: String,
    child: Child,
    /// Absent only at the end.
    orders: Option<ChildStdin>,
    replies: Receiver<String>,
}

impl Agent {
    /// Starts the agent on a host, of the version `version`.
    ///
    /// # Errors
    /// If the host cannot be reached, or has no such server.
    pub fn start(remote: &Remote, version: &str) -> Result<Self, AgentError> {
        let own = match remote.program {
            Some(_) => None,
            None => Some(
                fs::read(PathBuf::from("/proc/self/exe"))
                    .map_err(|source| AgentError::Bring { host: remote.host.clone(), source })?,
            ),
        };
        let mut agent = Self::launch(remote, own.as_ref().map(Vec::len))?;
        if let (Some(program), Some(orders)) = (own, &mut agent.orders)
            && orders.write_all(&program).is_err()
        {
            return Err(agent.gone());
        }
        match agent.reply(START)? {
            Reply::Ready { version: found, .. } if found == version => Ok(agent),
            Reply::Ready { version: found, .. } => Err(AgentError::Version {
                host: agent.host.clone(),
                found,
                wanted: version.to_owned(),
            }),
            other => Err(agent.strange(&other)),
        }
    }

    /// Starts the remote shell; a program of `size` bytes will be the first on its standard input.
    fn launch(remote: &Remote, size: Option<usize>) -> Result<Self, AgentError> {
        let (program, words) =
            remote.shell.split_first().map_or(("ssh", &[][..]), |(p, w)| (p.as_str(), w));
        let mut child = Command::new(program)
            .args(words)
            .arg(&remote.host)
            .arg(script(remote, size))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|source| AgentError::Shell { shell: program.to_owned(), source })?;
        let (orders, out) = (child.stdin.take(), child.stdout.take());
        let (sender, replies) = mpsc::sync_channel(WAITING);
        std::thread::spawn(move || {
            let mut out = BufReader::new(
                out.into_iter()
                    .fold(Box::new(io::empty()) as Box<dyn Read + Send>, |_, out| Box::new(out)),
            );
            loop {
                let mut line = String::new();
                match out.by_ref().take(MOST).read_line(&mut line) {
                    Ok(1..) if sender.send(line).is_ok() => {}
                    _ => return,
                }
            }
        });
        Ok(Agent { host: remote.host.clone(), child, orders, replies })
    }

    /// Tells it that a trial begins, which ends within `at_most`.
    ///
    /// # Errors
    /// If the agent is gone.
    pub fn begin(&mut self, at_most: Duration) -> Result<(), AgentError> {
        self.order(&Order::Begin { at_most_s: (at_most + RESERVE).as_secs_f64() })?;
        match self.reply(REPLY)? {
            Reply::Begun => Ok(()),
            other => Err(self.strange(&other)),
        }
    }

    /// Tells it that the trial has ended, and returns what it saw, with stalls on this host's `CLOCK_MONOTONIC`.
    ///
    /// # Errors
    /// If the agent is gone.
    pub fn end(&mut self, sending_s: f64) -> Result<Seen, AgentError> {
        let ahead_ns = self.compare_clocks()?;
        self.order(&Order::End { sending_s })?;
        match self.reply(REPLY)? {
            Reply::Seen(mut seen) => {
                seen.move_clock(ahead_ns);
                Ok(*seen)
            }
            other => Err(self.strange(&other)),
        }
    }

    /// Returns by how much this host's clock is ahead of the agent's, by the shortest of some round trips.
    fn compare_clocks(&mut self) -> Result<i64, AgentError> {
        let mut best: Option<(u64, i64)> = None;
        for _ in 0..CLOCKS {
            let before = monotonic();
            self.order(&Order::Clock)?;
            let Reply::Clock { now_ns } = self.reply(REPLY)? else {
                return Err(self.strange(&Reply::Begun));
            };
            let trip = monotonic().saturating_sub(before);
            let ahead = (before + trip / 2) as i64 - now_ns as i64;
            best = best.filter(|(shortest, _)| *shortest <= trip).or(Some((trip, ahead)));
        }
        Ok(best.map_or(0, |(_, ahead)| ahead))
    }

    fn order(&mut self, order: &Order) -> Result<(), AgentError> {
        let mut line = serde_json::to_string(order).expect("an order is plain data");
        line.push('\n');
        let sent =
            self.orders.as_mut().is_some_and(|orders| orders.write_all(line.as_bytes()).is_ok());
        if sent { Ok(()) } else { Err(self.gone()) }
    }

    fn reply(&mut self, limit: Duration) -> Result<Reply, AgentError> {
        let line = self.replies.recv_timeout(limit).map_err(|error| match error {
            RecvTimeoutError::Timeout => AgentError::Silent { host: self.host.clone(), limit },
            RecvTimeoutError::Disconnected => self.gone(),
        })?;
        let host = || self.host.clone();
        match serde_json::from_str(&line) {
            Ok(Reply::Refused { why }) => Err(AgentError::Refused { host: host(), why }),
            Ok(reply) => Ok(reply),
            Err(_) => Err(AgentError::Strange { host: host(), found: shown(&line) }),
        }
    }

    fn gone(&self) -> AgentError {
        AgentError::Gone { host: self.host.clone() }
    }

    fn strange(&self, reply: &Reply) -> AgentError {
        AgentError::Strange { host: self.host.clone(), found: format!("{reply:?}") }
    }
}

impl Drop for Agent {
    /// Closes the agent's standard input, at which it ends and its files are removed; kills a remote shell that stays.
    fn drop(&mut self) {
        self.orders = None;
        let deadline = Instant::now() + LEAVE;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(crate::process::POLL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads `CLOCK_MONOTONIC`, in nanoseconds.
fn monotonic() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every Linux has this clock");
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

/// Returns the beginning of a line, for an error.
fn shown(line: &str) -> String {
    crate::process::harmless(line.trim_end()).chars().take(200).collect()
}

/// Returns the command for the remote shell. Its only single quotes are around it: names were checked.
fn script(remote: &Remote, size: Option<usize>) -> String {
    let cpus = remote.cpus.as_ref().map_or(String::new(), |cpus| format!(" --cpus {cpus}"));
    let agent = format!("agent --process {}{cpus}", remote.process);
    match (size, &remote.program) {
        (Some(size), _) => format!(
            "exec sh -c 'umask 077; d=$(mktemp -d) || exit 1; trap \"rm -rf \\\"\\$d\\\"\" EXIT; \
             trap \"exit 1\" HUP INT TERM PIPE; \
             head -c {size} > \"$d/dnsdyno\" && chmod 700 \"$d/dnsdyno\" && \"$d/dnsdyno\" {agent}'"
        ),
        (None, program) => format!("exec {} {agent}", program.as_deref().unwrap_or("dnsdyno")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A remote shell that runs `script` here.
    fn here(script: &str) -> Remote {
        Remote {
            host: "somewhere".to_owned(),
            shell: ["sh", "-c", script].map(str::to_owned).to_vec(),
            process: "x".to_owned(),
            cpus: None,
            program: Some("dnsdyno".to_owned()),
        }
    }

    #[test]
    fn agents_that_are_none_are_told() {
        let ready = r#"echo '{"reply":"ready","version":"1","processes":1}'"#;
        let table = [
            ("exit 3".to_owned(), "the agent is gone"),
            ("echo hello".to_owned(), "this is no reply of an agent: hello"),
            (
                r#"echo '{"reply":"refused","why":"no process x"}'"#.to_owned(),
                "somewhere: no process x",
            ),
            (ready.replace("\"1\"", "\"0\""), "the agent has version 0, this program 1"),
            (r#"echo '{"reply":"begun"}'"#.to_owned(), "no reply of an agent: Begun"),
        ];
        for (script, why) in table {
            let error = Agent::start(&here(&script), "1").map(|_| ()).expect_err(why).to_string();
            assert!(error.contains(why), "{error}");
        }
        let mut agent = Agent::start(&here(ready), "1").expect("it is ready");
        let error = agent.begin(Duration::ZERO).expect_err("it has ended").to_string();
        assert!(error.contains("the agent is gone"), "{error}");
        let mut nowhere = here("");
        nowhere.shell = vec!["/nonexistent/ssh".to_owned()];
        let error = Agent::start(&nowhere, "1").map(|_| ()).expect_err("no shell").to_string();
        assert!(error.contains("cannot start `/nonexistent/ssh`"), "{error}");
    }

    #[test]
    fn what_is_brought_is_removed() {
        let dir = tempfile::tempdir().expect("a folder");
        let program = "#!/bin/sh\necho \"$0 $*\"; cat\n";
        let remote = Remote { program: None, ..here("true") };
        let mut child = Command::new("sh")
            .env("TMPDIR", dir.path())
            .args(["-c", &script(&remote, Some(program.len()))])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        let mut orders = child.stdin.take().expect("a pipe");
        orders
            .write_all(program.as_bytes())
            .and_then(|()| orders.write_all(b"orders\n"))
            .expect("writes");
        drop(orders);
        let output = child.wait_with_output().expect("ends");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains("/dnsdyno agent --process x\norders\n"), "{said}");
        assert_eq!(fs::read_dir(dir.path()).expect("readable").count(), 0);
    }
}
