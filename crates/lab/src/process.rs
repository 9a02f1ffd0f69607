//! Processes of the lab: started in a host of the testbed, bound to its cores, watched, ended.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sched::sched_setaffinity;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;

use crate::cpus::CpuList;
use crate::enter;
use crate::exec::ExecRequest;
use crate::netns::Namespace;
use crate::probe::procfs;

/// How often a process that is to end, or to become ready, is looked at.
pub(crate) const POLL: Duration = Duration::from_millis(10);
/// How long the children of a process that was killed may take to be gone.
const LAST_BREATH: Duration = Duration::from_secs(2);
/// The longest step of a wait that counts: the loops that wait look every few tens of milliseconds.
const LONGEST_STEP: Duration = Duration::from_secs(1);
/// How much of a log is shown when its process fails: bytes and lines.
const TAIL: (u64, usize) = (8 * 1024, 20);

/// What to start, and where.
#[derive(Clone, Debug)]
pub struct Launch<'a> {
    /// What it is called in messages, and the name of its log file.
    pub name: &'a str,
    /// The host it runs in.
    pub namespace: &'a Namespace,
    /// The cores it is bound to.
    pub cpus: &'a CpuList,
    /// The directory it works in, and where its log goes.
    pub dir: &'a Path,
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Added to its environment.
    pub environment: Vec<(String, String)>,
}

/// A time limit that counts only while this process runs. Time in which it is stopped (SIGSTOP, a suspended machine) does
/// not count, since the process it waits for is stopped too.
#[derive(Debug)]
pub(crate) struct TimeLimit {
    left: Duration,
    last: Instant,
}

impl TimeLimit {
    pub(crate) fn new(limit: Duration) -> Self {
        TimeLimit { left: limit, last: Instant::now() }
    }

    /// Whether the limit is reached. Each step of a wait must call it.
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
    log: PathBuf,
    cpus: CpuList,
    gone: bool,
}

/// Why a process is not running as it should.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// It could not be started.
    #[error("cannot start {name}: {source}")]
    Start {
        /// What was to be started.
        name: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// It ended by itself.
    #[error("{name} ended by itself ({status})\n{log}")]
    Ended {
        /// What ended.
        name: String,
        /// How.
        status: String,
        /// The last lines it wrote.
        log: LogTail,
    },
    /// It did not do in time what was waited for.
    #[error("{name} did not {what} within {limit:?}\n{log}")]
    Late {
        /// What is late.
        name: String,
        /// What was waited for.
        what: String,
        /// How long it was waited for.
        limit: Duration,
        /// The last lines it wrote.
        log: LogTail,
    },
    /// It runs on cores that are not its host's.
    #[error("{name} was bound to cores {wanted}, but its thread {thread} runs on {found}")]
    NotPinned {
        /// What strayed.
        name: String,
        /// The cores it was given.
        wanted: CpuList,
        /// The thread's number.
        thread: u32,
        /// The cores it may run on.
        found: CpuList,
    },
    /// The run was interrupted while it was waited for.
    #[error("interrupted while waiting for {name}")]
    Interrupted {
        /// What was waited for.
        name: String,
    },
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
    /// Starts what `launch` describes. Both of its output streams go to `DIR/NAME.log`.
    ///
    /// Call it on a thread that lives as long as the process shall: the kernel kills the process when
    /// the thread that started it ends.
    ///
    /// # Errors
    /// When the log or the process cannot be made. What fails later in its start is in the log.
    pub fn start(launch: &Launch<'_>) -> Result<Self, ProcessError> {
        Self::start_with(launch, &[])
    }

    /// The same, with `input` on its standard input: no more than a pipe holds, 64 KiB.
    ///
    /// # Errors
    /// As of [`Process::start`].
    pub fn start_with(launch: &Launch<'_>, input: &[u8]) -> Result<Self, ProcessError> {
        let error = |source| ProcessError::Start { name: launch.name.to_owned(), source };
        let log = launch.dir.join(format!("{}.log", launch.name));
        let out = File::options().create(true).append(true).open(&log).map_err(error)?;
        let request = ExecRequest {
            parent: std::process::id(),
            netns: launch.namespace.path(),
            cpus: launch.cpus.clone(),
            dir: launch.dir.to_owned(),
            command: launch.command.clone(),
        };
        let mut command = Command::new(enter::program());
        enter::hide_from(&mut command)
            .arg0("dnsdyno")
            .args(request.to_args())
            .envs(launch.environment.iter().map(|(k, v)| (k, v)))
            .stdin(if input.is_empty() { Stdio::null() } else { Stdio::piped() })
            .stdout(out.try_clone().map_err(error)?)
            .stderr(out)
            // Ctrl-C goes to the lab alone, which ends its processes in order.
            .process_group(0);
        let mut child = command.spawn().map_err(error)?;
        if let Some(mut pipe) = child.stdin.take() {
            // A process that ends before it has read all says why in its log.
            let _ = pipe.write_all(input);
        }
        let (name, cpus) = (launch.name.to_owned(), launch.cpus.clone());
        Ok(Self { name, child, log, cpus, gone: false })
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where its output goes.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Whether it has ended; its accounts stay in `/proc` until [`Process::ended`] is asked.
    pub fn is_over(&self) -> bool {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        let status = waitid(Id::Pid(Pid::from_raw(self.child.id() as i32)), flags);
        // Already waited for is over, too.
        !matches!(status, Ok(WaitStatus::StillAlive))
    }

    /// Checks that it still runs.
    ///
    /// # Errors
    /// When it has ended, with the end of its log.
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

    /// Checks that every thread of it and of its children is bound to its host's cores, and binds those
    /// that are not: Knot DNS, for one, binds its workers to the machine's first cores by itself.
    ///
    /// # Errors
    /// When a thread may run elsewhere all the same.
    pub fn hold_to_cpus(&self) -> Result<(), ProcessError> {
        if let Some(set) = self.cpus.to_set() {
            for (thread, _) in self.strays() {
                // What this cannot do, the second look tells.
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

    /// The threads that may run on cores that are not the host's, each with its cores.
    fn strays(&self) -> Vec<(u32, CpuList)> {
        let threads = procfs::tree(self.pid()).into_iter().flat_map(procfs::affinities);
        threads.filter(|(_, found)| !found.is_within(&self.cpus)).collect()
    }

    /// An error that says that the process did not do `what` in time.
    pub(crate) fn late(&self, what: &str, limit: Duration) -> ProcessError {
        let (name, what) = (self.name.clone(), what.to_owned());
        ProcessError::Late { name, what, limit, log: self.tail() }
    }

    /// An error that says that the run was interrupted.
    pub(crate) fn interrupted(&self) -> ProcessError {
        ProcessError::Interrupted { name: self.name.clone() }
    }

    /// Waits until it ends by itself, or until `limit`; `None` when it still runs.
    pub fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let mut time_limit = TimeLimit::new(limit);
        loop {
            if let Some(status) = self.ended() {
                return Some(status);
            }
            if time_limit.is_over() {
                return None;
            }
            std::thread::sleep(POLL);
        }
    }

    /// Asks it to end, politely; it may take its time.
    pub fn signal(&mut self, signal: Signal) {
        if self.ended().is_none() {
            // Not yet waited for, so the number is still its own.
            let _ = kill(Pid::from_raw(self.child.id() as i32), signal);
        }
    }

    /// Ends it: politely, and after `grace` by force; its children that are left go with it.
    pub fn stop(&mut self, signal: Signal, grace: Duration) -> Option<ExitStatus> {
        self.signal(signal);
        let status = self.wait(grace);
        self.kill();
        status
    }

    /// The last lines it wrote.
    pub fn tail(&self) -> LogTail {
        LogTail(tail(&self.log).unwrap_or_default())
    }

    /// Ends it and what is left of its process group by force.
    fn kill(&mut self) {
        if std::mem::replace(&mut self.gone, true) {
            return;
        }
        // The group outlives its leader as long as a child is left; where none is, this fails.
        let _ = killpg(Pid::from_raw(self.child.id() as i32), Signal::SIGKILL);
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Its children hold ports and memory until they are gone.
        let group = Pid::from_raw(self.child.id() as i32);
        let deadline = Instant::now() + LAST_BREATH;
        while lives(group) && Instant::now() < deadline {
            std::thread::sleep(POLL);
        }
    }
}

/// Whether a process of the group is left. Orphans are children of the first process of the pid
/// namespace, which is the lab: those that have ended are waited for here. Where the lab is not that
/// process they die on their own time; one that has ended has no command line any more.
fn lives(group: Pid) -> bool {
    while let Ok(status) = waitpid(Pid::from_raw(-group.as_raw()), Some(WaitPidFlag::WNOHANG)) {
        if status == WaitStatus::StillAlive {
            return true;
        }
    }
    procfs::tree(1).into_iter().any(|pid| {
        nix::unistd::getpgid(Some(Pid::from_raw(pid as i32))) == Ok(group)
            && fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
    })
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// How a process ended, in words.
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

/// The last lines of a file.
fn tail(path: &Path) -> io::Result<Vec<String>> {
    let mut file = File::open(path)?;
    let len = fs::metadata(path)?.len();
    file.seek(SeekFrom::Start(len.saturating_sub(TAIL.0)))?;
    let mut bytes = Vec::new();
    file.take(TAIL.0).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(TAIL.1);
    Ok(lines[from..].iter().map(|line| (*line).to_owned()).collect())
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
        assert_eq!((lines.len(), lines[TAIL.1 - 1].as_str()), (TAIL.1, "line 999"));
        assert!(LogTail(vec![]).to_string().contains("nothing"));
        assert!(LogTail(lines).to_string().ends_with("| line 999"));
    }

    #[test]
    fn time_in_which_nobody_ran_is_not_waited() {
        let mut time_limit = TimeLimit::new(Duration::from_secs(3));
        assert!(!time_limit.is_over());
        time_limit.spend(Duration::from_secs(600));
        assert!(!time_limit.is_over(), "{time_limit:?}");
        (0..25).for_each(|_| time_limit.spend(Duration::from_millis(100)));
        assert!(time_limit.is_over(), "{time_limit:?}");
    }

    #[test]
    fn ends_are_told_in_words() {
        assert_eq!(describe(ExitStatus::from_raw(1 << 8)), "exit code 1");
        assert_eq!(describe(ExitStatus::from_raw(11)), "killed by SIGSEGV");
    }
}
