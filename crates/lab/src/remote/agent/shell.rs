//! The remote shell: how an agent is started on its host, and how it ends.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use crate::remote::error::{Peer, RemoteError};
use crate::testbed::cpus::CpuList;
use crate::testbed::process::wait_for_end;

/// Time within which the remote shell must end by itself.
const LEAVE_LIMIT: Duration = Duration::from_secs(3);
/// Time within which a stopped agent must end after SIGCONT.
const RESUME_TIMEOUT: Duration = Duration::from_secs(20);

/// A remote host, the task of its agent, and the command to reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Name or address, with a user before `@` or without.
    pub host: String,
    /// Words of the remote shell before the host.
    pub shell: Vec<String>,
    /// Whether the agent watches a server or starts one.
    pub task: AgentTask,
    /// Program of the same version on that host; if absent this program is copied there, and
    /// removed at the end.
    pub program: Option<String>,
}

/// What an agent does on its host, for as long as the shell lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentTask {
    /// The agent watches a server that the user runs.
    Watch {
        /// Name of the server's processes.
        process: String,
        /// Cores of the server; if absent, the cores on which it may run.
        cpus: Option<CpuList>,
    },
    /// The agent starts servers, in a pid namespace that ends with it.
    Start,
}

/// A running remote shell. When it is dropped, its standard input must be closed already.
#[derive(Debug)]
pub(super) struct Shell {
    child: Child,
    /// A local shell that waits for a line and then sends SIGCONT to the agent; absent until the
    /// agent is ready.
    waker: Option<Child>,
}

impl Shell {
    /// Starts the shell; its standard input begins with a program of `size` bytes.
    pub(super) fn launch(
        remote: &Remote,
        size: Option<usize>,
    ) -> Result<(Self, ChildStdin, ChildStdout), RemoteError> {
        let mut child = remote
            .command(&script(remote, size))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|source| {
                let starter = remote.words().0.to_owned();
                RemoteError::Start { starter, option: "--ssh", source }
            })?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let shell = Shell { child, waker: None };
        let gone = || RemoteError::Gone(Peer::Agent(remote.host.clone()));
        pipes.map(|(orders, replies)| (shell, orders, replies)).ok_or_else(gone)
    }

    /// Prepares the process that continues a stopped agent (SIGCONT), by its process group there.
    /// It must wait from the beginning: when a lab has ended, the process outside of it can start
    /// no other, since the pid namespace of its children has ended too.
    pub(super) fn prepare(&mut self, remote: &Remote, group: i32) {
        if group <= 1 {
            return;
        }
        let (program, words) = remote.words();
        let waker = Command::new("sh")
            .args(["-c", "read -r _ && exec \"$@\" </dev/null", "sh", program])
            .args(words)
            .arg(&remote.host)
            .arg(format!("kill -s CONT -- -{group}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        // If this fails, a suspended agent is left behind.
        self.waker = waker.ok();
    }
}

impl Drop for Shell {
    /// Waits for the end of the agent, which has read the end of its orders. A stopped agent
    /// (SIGSTOP) gets SIGCONT, so that it reads the end too.
    fn drop(&mut self) {
        let stdin = self.waker.as_mut().and_then(|waker| waker.stdin.take());
        if wait_for_end(&mut self.child, LEAVE_LIMIT).is_none() {
            let woken = stdin.is_some_and(|mut stdin| stdin.write_all(b"\n").is_ok());
            if woken {
                wait_for_end(&mut self.child, RESUME_TIMEOUT);
            }
            let _ = self.child.kill();
            let _ = self.child.wait();
        } else {
            // The local shell ends at the end of its input.
            drop(stdin);
        }
        if let Some(waker) = &mut self.waker {
            wait_for_end(waker, LEAVE_LIMIT);
            let _ = waker.kill();
            let _ = waker.wait();
        }
    }
}

impl Remote {
    /// Returns the program of the remote shell, and its words.
    fn words(&self) -> (&str, &[String]) {
        self.shell
            .split_first()
            .map_or(("ssh", &[][..]), |(program, words)| (program.as_str(), words))
    }

    /// Returns the command that has the host's shell execute `script`. Ctrl-C is for the Tester, which ends it in order.
    fn command(&self, script: &str) -> Command {
        let (program, words) = self.words();
        let mut command = Command::new(program);
        command.args(words).arg(&self.host).arg(script).process_group(0);
        command
    }
}

/// Returns the command for the remote shell. It has no single quotes inside: names were checked.
fn script(remote: &Remote, size: Option<usize>) -> String {
    let agent = match &remote.task {
        AgentTask::Watch { process, cpus: None } => format!("agent --process {process}"),
        AgentTask::Watch { process, cpus: Some(cpus) } => {
            format!("agent --process {process} --cpus {cpus}")
        }
        AgentTask::Start => "agent --start-servers".to_owned(),
    };
    let given = remote.program.as_deref().unwrap_or("dnsdyno");
    let (bring, program) = match size {
        Some(size) => {
            let bring = format!("head -c {size} > \"$d/dnsdyno\" && chmod 700 \"$d/dnsdyno\" && ");
            (bring, "\"$d/dnsdyno\"")
        }
        None if remote.task != AgentTask::Start => return format!("exec {given} {agent}"),
        None => (String::new(), given),
    };
    // Processes of a killed agent may still write for a moment.
    format!(
        "exec sh -c 'umask 077; d=$(mktemp -d) || exit 1; \
         trap \"rm -rf \\\"\\$d\\\" || {{ sleep 1; rm -rf \\\"\\$d\\\"; }}\" EXIT; \
         trap \"exit 1\" HUP INT TERM PIPE; {bring}TMPDIR=\"$d\" {program} {agent}'"
    )
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn remote(program: Option<&str>, task: AgentTask) -> Remote {
        let program = program.map(str::to_owned);
        Remote { host: "x".to_owned(), shell: Vec::new(), task, program }
    }

    fn watch() -> AgentTask {
        AgentTask::Watch { process: "x".to_owned(), cpus: None }
    }

    #[test]
    fn what_is_brought_is_removed() {
        let dir = tempfile::tempdir().expect("a folder");
        let program = "#!/bin/sh\necho \"$0 $*\"; touch \"$TMPDIR/state\"; cat\n";
        for (task, words) in
            [(watch(), "agent --process x"), (AgentTask::Start, "agent --start-servers")]
        {
            let mut child = Command::new("sh")
                .env("TMPDIR", dir.path())
                .args(["-c", &script(&remote(None, task), Some(program.len()))])
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
            assert!(said.contains(&format!("/dnsdyno {words}\norders\n")), "{said}");
            assert_eq!(fs::read_dir(dir.path()).expect("readable").count(), 0);
        }
    }

    #[test]
    fn a_program_that_is_there_is_not_brought() {
        let there = |task| script(&remote(Some("/opt/x"), task), None);
        assert_eq!(there(watch()), "exec /opt/x agent --process x");
        assert!(there(AgentTask::Start).ends_with("TMPDIR=\"$d\" /opt/x agent --start-servers'"));
    }
}
