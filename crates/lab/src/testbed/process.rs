//! Processes of the lab: started in a host of the testbed, bound to its cores, watched, ended.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::sched_setaffinity;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;
use rustix::process::PidfdFlags;
use serde::de::DeserializeOwned;

use crate::testbed::cpus::CpuList;
use crate::testbed::enter;
use crate::testbed::exec::ExecRequest;
use crate::testbed::log_bound::LogBound;
use crate::testbed::netns::Namespace;
use crate::testbed::procfs;
use crate::testbed::task::Task;

/// Interval between checks of a process that is to end or to become ready.
pub(crate) const POLL: Duration = Duration::from_millis(10);
/// Time within which the children of a killed process must end.
const LAST_BREATH: Duration = Duration::from_secs(2);
/// Longest part of a wait that counts against its limit at once: the loops check after some tens of
/// milliseconds, longer parts mean that this process was stopped.
const LONGEST_STEP: Duration = Duration::from_secs(1);
/// Largest part of a log in an error: bytes and lines.
const LOG_TAIL: (u64, usize) = (8 * 1024, 20);

/// Process to start, and its place.
#[derive(Clone, Debug)]
pub struct Launch<'a> {
    /// Name in messages, and of the log file.
    pub name: &'a str,
    /// Network namespace of the process.
    pub namespace: &'a Namespace,
    /// Cores to which the process and its threads are bound.
    pub cpus: &'a CpuList,
    /// Working directory, which also contains the log.
    pub dir: &'a Path,
    /// Whether the process may go to the background, with files at absolute paths (`start.daemon`
    /// of an adapter).
    pub daemon: bool,
    /// The program, by its path or its name on PATH, and its arguments.
    pub command: Vec<OsString>,
    /// Variables added to the environment of the process.
    pub environment: Vec<(String, String)>,
}

impl<'a> Launch<'a> {
    /// Makes a launch in the foreground, with the environment of the lab and without a command.
    pub(crate) fn new(
        name: &'a str,
        namespace: &'a Namespace,
        cpus: &'a CpuList,
        dir: &'a Path,
    ) -> Self {
        let (command, environment) = (Vec::new(), Vec::new());
        Launch { name, namespace, cpus, dir, daemon: false, command, environment }
    }
}

/// A time limit that counts only while this process runs. Time in which it is stopped (SIGSTOP, a suspended machine)
/// does not count, since the process it waits for is stopped too.
#[derive(Debug)]
pub(crate) struct TimeLimit {
    left: Duration,
    last: Instant,
}

impl TimeLimit {
    pub(crate) fn new(limit: Duration) -> Self {
        TimeLimit { left: limit, last: Instant::now() }
    }

    /// Returns whether the limit is reached. Each step of a wait must call it.
    pub(crate) fn is_over(&mut self) -> bool {
        let now = Instant::now();
        self.spend(now.duration_since(self.last));
        self.last = now;
        self.left.is_zero()
    }

    fn spend(&mut self, step: Duration) {
        self.left = self.left.saturating_sub(step.min(LONGEST_STEP));
    }
}

/// A running process of the lab; killed when dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    // Reads the result of a task.
    result: Option<JoinHandle<Vec<u8>>>,
    log: PathBuf,
    // Keeps the log from filling the disk, as long as the process lives.
    _bound: LogBound,
    cpus: CpuList,
    gone: bool,
}

/// Error: a process of the lab failed.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// The process could not be started.
    #[error("cannot start {0}: {1}")]
    Start(String, #[source] io::Error),
    /// The process ended by itself.
    #[error("{name} ended before it was stopped ({status})\n{log}")]
    Ended {
        /// Name of the process, as in [`Launch`].
        name: String,
        /// Exit code of the process, or the signal that ended it.
        status: String,
        /// Last lines of the process's output.
        log: LogTail,
    },
    /// The result of its task cannot be read.
    #[error("{name} wrote no result that can be read: {why}\n{log}")]
    Result {
        /// Name of the process, as in [`Launch`].
        name: String,
        /// Parse error of the result.
        why: serde_json::Error,
        /// Last lines of its output.
        log: LogTail,
    },
    /// The process did not do something in time.
    #[error("{name} did not {what} within {limit:?}\n{log}")]
    Late {
        /// Name of the process, as in [`Launch`].
        name: String,
        /// Step that the process did not complete.
        what: String,
        /// Time limit of the step.
        limit: Duration,
        /// Last lines of its output.
        log: LogTail,
    },
    /// The process runs on cores that are not its host's.
    #[error("{name} was bound to cores {wanted}, but its thread {thread} runs on {found}")]
    NotPinned {
        /// Name of the process, as in [`Launch`].
        name: String,
        /// Cores to which the process was bound.
        wanted: CpuList,
        /// Number of the thread in the kernel (TID).
        thread: u32,
        /// Cores the thread may run on.
        found: CpuList,
    },
    /// The run was interrupted during a wait for the process.
    #[error("interrupted while waiting for {0}")]
    Interrupted(String),
}

/// The last lines of a process's log, for an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogTail(pub Vec<String>);

impl std::fmt::Display for LogTail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() {
            return f.write_str("  (it wrote nothing)");
        }
        f.write_str("  the end of its log:")?;
        self.0.iter().try_for_each(|line| write!(f, "\n  | {line}"))
    }
}

impl Process {
    /// Starts the process `launch`. Both of its output streams go to `DIR/NAME.log`, whose size is bounded.
    ///
    /// The calling thread must live as long as the process: the kernel kills the process when the thread that started
    /// it ends.
    ///
    /// # Errors
    /// If the log or the process cannot be made. Later errors of its start are in the log.
    pub fn start(launch: &Launch<'_>) -> Result<Self, ProcessError> {
        Self::start_with(launch, None)
    }

    /// Starts this program with a task in place of the command; [`Process::result`] returns the
    /// task's result.
    ///
    /// # Errors
    /// Those of [`Process::start`].
    pub(crate) fn start_task(launch: &Launch<'_>, task: &Task) -> Result<Self, ProcessError> {
        Self::start_with(launch, Some(task))
    }

    fn start_with(launch: &Launch<'_>, task: Option<&Task>) -> Result<Self, ProcessError> {
        let error = |source| ProcessError::Start(launch.name.to_owned(), source);
        let log = launch.dir.join(format!("{}.log", launch.name));
        let out = File::options().create(true).append(true).open(&log).map_err(error)?;
        let text = task.map(serde_json::to_vec).transpose().map_err(|why| error(why.into()))?;
        let request = ExecRequest {
            parent: std::process::id(),
            netns: launch.namespace.path(),
            cpus: launch.cpus.clone(),
            dir: launch.dir.to_owned(),
            daemon: launch.daemon,
            command: task.map_or_else(|| launch.command.clone(), Task::command),
        };
        let mut command = Command::new(enter::program());
        enter::hide_from(&mut command)
            .arg0("dnsdyno")
            .args(request.to_args().map_err(error)?)
            .envs(launch.environment.iter().map(|(k, v)| (k, v)))
            .stdin(if task.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(match task {
                None | Some(Task::Auth(_)) => out.try_clone().map_err(error)?.into(),
                Some(_) => Stdio::piped(),
            })
            .stderr(out)
            // Ctrl-C goes only to the lab, which ends its processes one after the other.
            .process_group(0);
        let mut child = command.spawn().map_err(error)?;
        if let (Some(mut pipe), Some(text)) = (child.stdin.take(), text) {
            // A process that ends before it has read everything writes its error to its log.
            let _ = pipe.write_all(&text);
        }
        let result = child.stdout.take().map(|mut pipe| {
            std::thread::spawn(move || {
                let mut result = Vec::new();
                // A result that is cut off cannot be parsed.
                let _ = pipe.read_to_end(&mut result);
                result
            })
        });
        let (name, cpus) = (launch.name.to_owned(), launch.cpus.clone());
        let bound = LogBound::new(log.clone());
        Ok(Self { name, child, result, log, _bound: bound, cpus, gone: false })
    }

    /// Returns the process number, which is also the wrapper's.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the path of the process's log.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Returns the exit status, if the process has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Returns whether the process has ended; its counters stay in `/proc` until [`Process::ended`]
    /// is called.
    pub fn is_over(&self) -> bool {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        let status = waitid(Id::Pid(Pid::from_raw(self.child.id() as i32)), flags);
        // A process that was waited for has ended too.
        !matches!(status, Ok(WaitStatus::StillAlive))
    }

    /// Sleeps until it has ended, at most for `limit`.
    pub(crate) fn sleep_until_over(&self, limit: Duration) {
        sleep_until_over(&self.child, limit);
    }

    /// Checks that the process still runs.
    ///
    /// # Errors
    /// If it has ended, with the end of its log.
    pub fn check(&mut self) -> Result<(), ProcessError> {
        match self.ended() {
            None => Ok(()),
            Some(status) => Err(ProcessError::Ended {
                name: self.name.clone(),
                status: describe(status),
                log: self.tail(),
            }),
        }
    }

    /// Returns the result of the process's task, once the process has ended.
    ///
    /// # Errors
    /// If it has no result, with the end of its log.
    pub(crate) fn result<T: DeserializeOwned>(&mut self) -> Result<T, ProcessError> {
        let read = self.result.take().and_then(|reader| reader.join().ok()).unwrap_or_default();
        let why = match serde_json::from_str(&String::from_utf8_lossy(&read)) {
            Ok(result) => return Ok(result),
            Err(why) => why,
        };
        // A process that was killed has written a part of its result, or nothing.
        let _ = self.child.wait();
        self.check()?;
        Err(ProcessError::Result { name: self.name.clone(), why, log: self.tail() })
    }

    /// Checks that every thread of the process and of its children is bound to its host's cores,
    /// and binds those that are not: Knot DNS, for example, binds its workers to the machine's
    /// first cores.
    ///
    /// # Errors
    /// If a thread may still run elsewhere.
    pub fn hold_to_cpus(&self) -> Result<(), ProcessError> {
        if let Some(set) = self.cpus.to_set() {
            for (thread, _) in self.strays() {
                // The second check reports threads that cannot be bound.
                let _ = sched_setaffinity(Pid::from_raw(thread as i32), &set);
            }
        }
        match self.strays().into_iter().next() {
            None => Ok(()),
            Some((thread, found)) => {
                let (name, wanted) = (self.name.clone(), self.cpus.clone());
                Err(ProcessError::NotPinned { name, wanted, thread, found })
            }
        }
    }

    /// Returns the threads that may run on cores outside the host's, each with its cores.
    fn strays(&self) -> Vec<(u32, CpuList)> {
        let threads = procfs::tree(self.pid()).into_iter().flat_map(procfs::affinities);
        threads.filter(|(_, found)| !found.is_within(&self.cpus)).collect()
    }

    /// Makes the error that the process did not do `what` in time.
    pub(crate) fn late(&self, what: &str, limit: Duration) -> ProcessError {
        let (name, what) = (self.name.clone(), what.to_owned());
        ProcessError::Late { name, what, limit, log: self.tail() }
    }

    /// Makes the error that the run was interrupted.
    pub(crate) fn interrupted(&self) -> ProcessError {
        ProcessError::Interrupted(self.name.clone())
    }

    /// Waits until the process ends by itself, at most for `limit`; `None` if it still runs.
    pub fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let mut time_limit = TimeLimit::new(limit);
        loop {
            if let Some(status) = self.ended() {
                return Some(status);
            }
            if time_limit.is_over() {
                return None;
            }
            self.sleep_until_over(POLL);
        }
    }

    /// Sends the process a signal, without waiting.
    pub fn signal(&mut self, signal: Signal) {
        if self.ended().is_none() {
            // The child was not waited for yet, so that its number is still valid.
            let _ = kill(Pid::from_raw(self.child.id() as i32), signal);
        }
    }

    /// Ends the process with `signal`, and kills it after `grace`; its remaining children are
    /// killed too.
    pub fn stop(&mut self, signal: Signal, grace: Duration) -> Option<ExitStatus> {
        self.signal(signal);
        let status = self.wait(grace);
        self.kill();
        status
    }

    /// Returns the last lines of the process's output.
    pub fn tail(&self) -> LogTail {
        LogTail(tail(&self.log).unwrap_or_default())
    }

    /// Kills the process and the rest of its process group.
    fn kill(&mut self) {
        if std::mem::replace(&mut self.gone, true) {
            return;
        }
        // A daemon is no longer in the group. The group exists as long as a child is left; without
        // children the call fails.
        let mut family = procfs::tree(self.pid());
        family.remove(0);
        let group = Pid::from_raw(self.pid() as i32);
        let _ = killpg(group, Signal::SIGKILL);
        for pid in &family {
            let _ = kill(Pid::from_raw(*pid as i32), Signal::SIGKILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Children of the process hold ports and memory until they have ended.
        let deadline = Instant::now() + LAST_BREATH;
        while (group_lives(group) || family.iter().any(|pid| lives(*pid)))
            && Instant::now() < deadline
        {
            std::thread::sleep(POLL);
        }
    }
}

/// Returns whether a process group has a process left. Children that a server left behind when it ended are children of
/// the lab: ended ones are waited for here.
fn group_lives(group: Pid) -> bool {
    while matches!(
        waitpid(Pid::from_raw(-group.as_raw()), Some(WaitPidFlag::WNOHANG)),
        Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..))
    ) {}
    killpg(group, None).is_ok()
}

/// Returns whether a killed process still exists. Orphans become children of the first process of
/// the pid namespace, which is the lab: it waits for ended ones here. If the lab is not that
/// process, they end on their own; an ended process has no command line.
fn lives(pid: u32) -> bool {
    let _ = waitpid(Pid::from_raw(pid as i32), Some(WaitPidFlag::WNOHANG));
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Describes how a process ended.
fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => match Signal::try_from(signal) {
            Ok(signal) => format!("killed by {signal}"),
            Err(_) => format!("killed by signal {signal}"),
        },
        (None, None) => status.to_string(),
    }
}

/// Waits until a child ends, at most for `limit`; returns its exit status, if it ended.
pub(crate) fn wait_for_end(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let deadline = Instant::now() + limit;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < deadline => sleep_until_over(child, POLL),
            _ => return None,
        }
    }
}

/// Sleeps until a child that was not waited for has ended, at most for `limit`; for all of it where the kernel has no
/// descriptors of processes (before Linux 5.3).
fn sleep_until_over(child: &Child, limit: Duration) {
    let pid = rustix::process::Pid::from_child(child);
    let Ok(process) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else {
        return std::thread::sleep(limit);
    };
    let timeout = PollTimeout::try_from(limit).unwrap_or(PollTimeout::MAX);
    // A signal ends it early, as the end of the limit does.
    let _ = poll(&mut [PollFd::new(process.as_fd(), PollFlags::POLLIN)], timeout);
}

/// Returns text of a server without control characters, which could change a terminal.
pub(crate) fn harmless(text: &str) -> String {
    let shown = |c: char| match c {
        c if c.is_control() && c != '\t' => c.escape_debug().to_string(),
        c => c.to_string(),
    };
    text.chars().map(shown).collect()
}

/// Returns the last lines of a file.
fn tail(path: &Path) -> io::Result<Vec<String>> {
    let mut file = File::open(path)?;
    let len = fs::metadata(path)?.len();
    file.seek(SeekFrom::Start(len.saturating_sub(LOG_TAIL.0)))?;
    let mut bytes = Vec::new();
    file.take(LOG_TAIL.0).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(LOG_TAIL.1);
    Ok(lines[from..].iter().map(|line| harmless(line)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_short() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.log");
        let text: String = (0..1000).map(|i| format!("line {i}\n")).collect();
        fs::write(&path, text).unwrap();
        let lines = tail(&path).unwrap();
        assert_eq!((lines.len(), lines[LOG_TAIL.1 - 1].as_str()), (LOG_TAIL.1, "line 999"));
        assert!(LogTail(vec![]).to_string().contains("nothing"));
        assert!(LogTail(lines).to_string().ends_with("| line 999"));
        fs::write(&path, "\x1b[2J\x1b]0;x\x07 gr\u{fc}n\t\u{9b}1m\n").unwrap();
        assert_eq!(tail(&path).unwrap(), ["\\u{1b}[2J\\u{1b}]0;x\\u{7} gr\u{fc}n\t\\u{9b}1m"]);
    }

    #[test]
    fn time_while_the_process_is_stopped_does_not_count() {
        let mut time_limit = TimeLimit::new(Duration::from_secs(3));
        assert!(!time_limit.is_over());
        time_limit.spend(Duration::from_secs(600));
        assert!(!time_limit.is_over(), "{time_limit:?}");
        (0..25).for_each(|_| time_limit.spend(Duration::from_millis(100)));
        assert!(time_limit.is_over(), "{time_limit:?}");
    }

    #[test]
    fn ends_are_described() {
        assert_eq!(describe(ExitStatus::from_raw(1 << 8)), "exit code 1");
        assert_eq!(describe(ExitStatus::from_raw(11)), "killed by SIGSEGV");
    }
}
