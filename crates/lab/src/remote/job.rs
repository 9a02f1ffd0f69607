//! Testers on other hosts that run each trial together: a job of Open MPI, started here.
//!
//! ```text
//! this process ── asks, a line of JSON each ──> mpirun ──> dnsdyno-cluster serve, rank 0: the conductor
//!              <── answers ───────────────────     └─ssh─> dnsdyno-cluster serve, ranks 1..: the Testers
//! ```
//!
//! The job ends when its standard input does, so nothing of it outlives this process. A run in the lab has its job started by the
//! process outside, as the user, and inherits the pipes. Of a job that the user has started, rank 0 starts the run ([`given`]).

pub mod given;
mod hosts;
mod message;

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, geteuid};
use record::{TesterCount, Trial, TrialRequest};

use crate::remote::handover::Pipes;
use crate::testbed::enter::{GIVEN_JOB, JOB, handed};

pub use hosts::{BadHosts, Hosts, MOST_AUTHDNS, PartHost};
pub use message::{Answer, Ask};

/// Time within which all ranks must have started.
const START: Duration = Duration::from_secs(180);
/// Time after which a job is lost that says nothing; it says something twice a second.
const SILENCE: Duration = Duration::from_secs(20);
/// Interval at which it is looked whether the trial was interrupted.
const LOOK: Duration = Duration::from_millis(50);
/// Time within which the job must end by itself; then within which it must after a signal.
const LEAVE: [Duration; 2] = [Duration::from_secs(8), Duration::from_secs(4)];
/// Settings with which Open MPI's daemon on a host that is cut off ends within half a minute; others know nothing of them.
const KEEPALIVE: [(&str, &str); 3] = [
    ("OMPI_MCA_oob_tcp_keepalive_time", "10"),
    ("OMPI_MCA_oob_tcp_keepalive_intvl", "5"),
    ("OMPI_MCA_oob_tcp_keepalive_probes", "3"),
];
/// Setting with which Open MPI's other ranks live on when one has died.
const RECOVERY: (&str, &str) = ("OMPI_MCA_orte_enable_recovery", "1");
/// Number of answers that wait to be read.
const WAITING: usize = 64;
/// Longest answer, in octets.
const LONGEST: u64 = 256 << 20;

/// A job to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobPlan {
    /// Hosts of the conductor and of the Testers.
    pub hosts: Hosts,
    /// Words of the starter: `mpirun`, and options of it.
    pub starter: Vec<String>,
    /// Path of `dnsdyno-cluster`, the same on all hosts.
    pub program: PathBuf,
    /// Fewest Testers with which trials go on; all of them if absent.
    pub least: Option<usize>,
}

/// Error of a job.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The starter cannot be started.
    #[error("cannot start `{starter}`: {source}; install Open MPI, or give its path with --mpirun")]
    Start {
        /// Program that starts the job.
        starter: String,
        /// Error of the system.
        source: io::Error,
    },
    /// The program is of another version.
    #[error("dnsdyno-cluster has version {found}, this program {wanted}")]
    Version {
        /// Version of the conductor.
        found: String,
        /// Version of this program.
        wanted: String,
    },
    /// The variable of a run that a job has started is set, and is none.
    #[error("{GIVEN_JOB} is set, but no job has started this process: unset it")]
    NotGiven,
    /// The user interrupted the wait.
    #[error("interrupted")]
    Interrupted,
    /// The job has ended.
    #[error("the job of the Testers has ended: standard error says why")]
    Gone,
    /// The job says nothing.
    #[error("the job of the Testers says nothing for {0:?}")]
    Silent(Duration),
    /// It may still answer to a trial that was given up.
    #[error(
        "the job of the Testers did not end a trial as it should and runs no more trials: start the run again, with --resume"
    )]
    Behind,
    /// The answer is none.
    #[error("unexpected message from dnsdyno-cluster: {0}")]
    Strange(String),
    /// The request cannot be accepted.
    #[error("{0}")]
    Refused(String),
    /// There was no trial.
    #[error("{0}")]
    Failed(String),
}

/// What is known of a trial while it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The Testers start together after this time.
    Starts(Duration),
    /// Sums of the Testers' counters, and those of each.
    Counters([u64; 5], Vec<TesterCount>),
}

/// A job that was started, before it is used. Making one makes no thread, so that this process can still enter a lab.
#[derive(Debug)]
pub struct JobLine {
    // They end before the starter is waited for.
    asks: File,
    answers: File,
    /// Absent if another process has started the job.
    starter: Option<Starter>,
}

/// The starter's process; when it is dropped, its standard input must be closed already.
#[derive(Debug)]
struct Starter(Child);

/// A running job; it is ended when dropped.
pub struct Job {
    // It ends before the starter is waited for, whose answers are read on meanwhile.
    asks: Box<dyn Write + Send>,
    /// Absent if another process has it: that outside of the lab, or the one that has started this job.
    starter: Option<Starter>,
    answers: Receiver<String>,
    /// Whether it may still answer to a trial that was given up.
    is_behind: bool,
}

/// A job that the parts of a run share.
#[derive(Clone, Debug)]
pub struct SharedJob(Arc<Mutex<Job>>);

impl SharedJob {
    /// Shares a job.
    pub fn new(job: Job) -> Self {
        SharedJob(Arc::new(Mutex::new(job)))
    }

    /// Returns the job; nobody else uses it meanwhile.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Job> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl JobLine {
    /// Starts a job.
    ///
    /// # Errors
    /// If the starter cannot be started.
    pub fn open(plan: &JobPlan) -> Result<Self, JobError> {
        let words = plan.words();
        let recovery = plan.least.map(|_| RECOVERY);
        let settings = KEEPALIVE.into_iter().chain(recovery);
        let unset = settings.filter(|(name, _)| std::env::var_os(name).is_none());
        let mut child = Command::new(&words[0])
            .args(&words[1..])
            .envs(unset)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C is for this process, which then ends the trial in order.
            .process_group(0)
            .spawn()
            .map_err(|source| JobError::Start { starter: words[0].clone(), source })?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let starter = Some(Starter(child));
        let (asks, answers) = pipes.ok_or(JobError::Gone)?;
        let (asks, answers) = (OwnedFd::from(asks).into(), OwnedFd::from(answers).into());
        Ok(JobLine { asks, answers, starter })
    }

    /// Returns the variable with which the process in the lab, started next, finds the job.
    ///
    /// # Errors
    /// If the pipes cannot be inherited.
    pub fn variable(&self) -> io::Result<(&'static str, String)> {
        let pipes = Pipes::pass(&self.asks, &self.answers)?;
        Ok((JOB, serde_json::to_string(&pipes)?))
    }
}

impl Drop for Starter {
    /// Waits until the job has ended by itself, or ends it.
    fn drop(&mut self) {
        let group = Pid::from_raw(self.0.id() as i32);
        for (limit, signal) in LEAVE.into_iter().zip([Signal::SIGTERM, Signal::SIGKILL]) {
            let deadline = Instant::now() + limit;
            while Instant::now() < deadline {
                if !matches!(self.0.try_wait(), Ok(None)) {
                    return;
                }
                std::thread::sleep(crate::testbed::process::POLL);
            }
            let _ = killpg(group, signal);
        }
        let _ = self.0.wait();
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job").field("starter", &self.starter).finish_non_exhaustive()
    }
}

impl Job {
    /// Starts a job of the version `version`, and waits until its ranks are there.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(plan: &JobPlan, version: &str) -> Result<Self, JobError> {
        let JobLine { asks, answers, starter } = JobLine::open(plan)?;
        let job = Self::with(asks, answers, starter);
        job.wait_until_ready(version, &AtomicBool::new(false))?;
        Ok(job)
    }

    /// Returns the job of the version `version` that this process has inherited, if it has one; waits until its ranks are there, or
    /// `interrupted` is set.
    ///
    /// # Errors
    /// If it could not be started.
    pub fn inherited(version: &str, interrupted: &AtomicBool) -> Result<Option<Self>, JobError> {
        let Some(text) = handed(JOB) else { return Ok(None) };
        let pipes: Pipes = serde_json::from_str(&text).map_err(|_| JobError::Gone)?;
        let (asks, answers) = pipes.take().map_err(|_| JobError::Gone)?;
        let job = Self::with(asks, answers, None);
        job.wait_until_ready(version, interrupted)?;
        Ok(Some(job))
    }

    fn with(
        asks: impl Write + Send + 'static,
        answers: impl Read + Send + 'static,
        starter: Option<Starter>,
    ) -> Self {
        Job { asks: Box::new(asks), starter, answers: read_lines(answers), is_behind: false }
    }

    /// Waits until the ranks are there, and checks their version.
    fn wait_until_ready(&self, version: &str, interrupted: &AtomicBool) -> Result<(), JobError> {
        let deadline = Instant::now() + START;
        loop {
            match self.answer(LOOK) {
                Ok(Answer::Ready { version: found }) if found == version => return Ok(()),
                Ok(Answer::Ready { version: found }) => {
                    return Err(JobError::Version { found, wanted: version.to_owned() });
                }
                Ok(other) => return Err(JobError::Strange(format!("{other:?}"))),
                Err(JobError::Silent(_)) if interrupted.load(Ordering::Relaxed) => {
                    return Err(JobError::Interrupted);
                }
                Err(JobError::Silent(_)) if Instant::now() < deadline => {}
                Err(JobError::Silent(_)) => return Err(JobError::Silent(START)),
                Err(error) => return Err(error),
            }
        }
    }

    /// Runs a trial of the request, which has no slice; `notify` is called with its progress, `stop` ends it early.
    ///
    /// A job that was silent or strange once runs no more trials: its next answer might be of the trial before.
    ///
    /// # Errors
    /// If there is no trial.
    pub fn trial(
        &mut self,
        request: &TrialRequest,
        notify: &mut dyn FnMut(Progress),
        stop: &AtomicBool,
    ) -> Result<Trial, JobError> {
        if self.is_behind {
            return Err(JobError::Behind);
        }
        let trial = self.ask_and_wait(request, notify, stop);
        self.is_behind = matches!(trial, Err(JobError::Silent(_) | JobError::Strange(_)));
        trial
    }

    fn ask_and_wait(
        &mut self,
        request: &TrialRequest,
        notify: &mut dyn FnMut(Progress),
        stop: &AtomicBool,
    ) -> Result<Trial, JobError> {
        self.ask(&Ask::Trial { request: Box::new(request.clone()) })?;
        let (mut stopped, mut heard) = (false, Instant::now());
        loop {
            if !stopped && stop.load(Ordering::Relaxed) {
                stopped = true;
                self.ask(&Ask::Stop)?;
            }
            match self.answer(LOOK) {
                Ok(Answer::Starts { in_ns }) => {
                    notify(Progress::Starts(Duration::from_nanos(in_ns)))
                }
                Ok(Answer::Counters { counters, testers }) => {
                    notify(Progress::Counters(counters, testers));
                }
                Ok(Answer::Trial { trial }) => return Ok(*trial),
                Ok(Answer::Refused { why }) => return Err(JobError::Refused(why)),
                Ok(Answer::Failed { why }) => return Err(JobError::Failed(why)),
                Ok(other) => return Err(JobError::Strange(format!("{other:?}"))),
                Err(JobError::Silent(_)) if heard.elapsed() < SILENCE => continue,
                Err(JobError::Silent(_)) => return Err(JobError::Silent(SILENCE)),
                Err(error) => return Err(error),
            }
            heard = Instant::now();
        }
    }

    fn ask(&mut self, ask: &Ask) -> Result<(), JobError> {
        let mut line = serde_json::to_vec(ask).map_err(|why| {
            JobError::Refused(format!(
                "the load cannot be sent to other hosts: {why}; give its files names in UTF-8"
            ))
        })?;
        line.push(b'\n');
        self.asks.write_all(&line).map_err(|_| JobError::Gone)
    }

    fn answer(&self, limit: Duration) -> Result<Answer, JobError> {
        let line = self.answers.recv_timeout(limit).map_err(|error| match error {
            RecvTimeoutError::Timeout => JobError::Silent(limit),
            RecvTimeoutError::Disconnected => JobError::Gone,
        })?;
        serde_json::from_str(&line).map_err(|_| {
            let shown = crate::testbed::process::harmless(line.trim_end());
            JobError::Strange(shown.chars().take(200).collect())
        })
    }
}

impl JobPlan {
    /// Returns the command line of the starter.
    fn words(&self) -> Vec<String> {
        let ranks = 1 + self.hosts.testers.len();
        let mut words = self.starter.clone();
        if geteuid().is_root() {
            words.push("--allow-run-as-root".to_owned());
        }
        let more = ["--bind-to", "none", "--map-by", "node", "--host"];
        words.extend(more.map(str::to_owned));
        words.extend([self.hosts.list(), "-np".to_owned(), ranks.to_string()]);
        words.push(self.program.display().to_string());
        let least = self.least.map(|least| ["--least".to_owned(), least.to_string()]);
        words.extend(least.into_iter().flatten());
        words.push("serve".to_owned());
        words
    }
}

/// Reads lines in a thread of its own, as far as they are wanted.
fn read_lines(out: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = mpsc::sync_channel(WAITING);
    std::thread::spawn(move || {
        let mut out = BufReader::new(out);
        loop {
            let mut line = String::new();
            match out.by_ref().take(LONGEST).read_line(&mut line) {
                Ok(1..) if sender.send(line).is_ok() => {}
                _ => return,
            }
        }
    });
    lines
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    /// A plan whose starter is a shell script.
    fn plan(script: &str) -> JobPlan {
        JobPlan {
            hosts: "tester a\ntester b".parse().expect("hosts"),
            starter: ["sh", "-c", script, "mpirun"].map(str::to_owned).to_vec(),
            program: "/usr/bin/dnsdyno-cluster".into(),
            least: Some(1),
        }
    }

    #[test]
    fn jobs_that_are_none_are_told() {
        let ready = r#"echo '{"answer":"ready","version":"1"}'"#;
        let table = [
            ("exit 3".to_owned(), "the job of the Testers has ended"),
            ("echo hello".to_owned(), "unexpected message from dnsdyno-cluster: hello"),
            (ready.replace("\"1\"", "\"0\""), "dnsdyno-cluster has version 0, this program 1"),
        ];
        for (script, why) in table {
            let error = Job::start(&plan(&script), "1").map(|_| ()).expect_err(why).to_string();
            assert!(error.contains(why), "{error}");
        }
        let mut nowhere = plan("");
        nowhere.starter = vec!["/nonexistent/mpirun".to_owned()];
        let error = Job::start(&nowhere, "1").map(|_| ()).expect_err("no mpirun").to_string();
        assert!(error.contains("cannot start `/nonexistent/mpirun`"), "{error}");
        // It gets its arguments, and ends when its standard input does.
        let shown = format!("{ready}; printf '%s ' \"$@\" >&2; cat >/dev/null");
        drop(Job::start(&plan(&shown), "1").expect("it is ready"));
    }

    #[test]
    fn an_interrupted_start_is_not_waited_for() {
        let JobLine { asks, answers, starter } =
            JobLine::open(&plan("cat >/dev/null")).expect("starts");
        let job = Job::with(asks, answers, starter);
        let error = job.wait_until_ready("1", &AtomicBool::new(true)).expect_err("interrupted");
        assert!(matches!(error, JobError::Interrupted), "{error}");
    }

    #[test]
    fn the_starter_gets_hosts_and_program() {
        let words = JobPlan { starter: vec!["mpirun".to_owned()], ..plan("") }.words().join(" ");
        let wanted = "--bind-to none --map-by node --host localhost,a,b -np 3 /usr/bin/dnsdyno-cluster --least 1 serve";
        assert!(words.starts_with("mpirun ") && words.ends_with(wanted), "{words}");
    }

    #[test]
    fn a_trial_that_fails_is_told() {
        let script = |answer: &str| {
            format!(
                r#"echo '{{"answer":"ready","version":"1"}}'; read ask; echo '{{"answer":"starts","in_ns":2000000}}'; echo '{{"answer":"counters","counters":[1,2,3,4,5],"testers":[{{"name":"rank 1","sent":1,"bad":5}}]}}'; echo '{answer}'; cat >/dev/null"#
            )
        };
        let target = ([127, 0, 0, 1], 53).into();
        let (name, qtype) = ("x.test".to_owned(), "A".to_owned());
        let query = record::request::Query::plain(true);
        let expect = record::request::Expect::Answered;
        let workload = record::request::Workload::Name { name, qtype, expect, query };
        let pacing = measure::Pacing::Window { outstanding: 1 };
        let request = TrialRequest::new(target, workload, pacing);
        for (answer, wanted) in [
            (r#"{"answer":"refused","why":"no such host"}"#, "no such host"),
            (r#"{"answer":"failed","why":"rank 2: it died"}"#, "rank 2: it died"),
            (
                r#"{"answer":"ready","version":"1"}"#,
                "unexpected message from dnsdyno-cluster: Ready",
            ),
        ] {
            let mut job = Job::start(&plan(&script(answer)), "1").expect("it is ready");
            let mut seen = Vec::new();
            let mut notify = |progress| seen.push(progress);
            let trial = job.trial(&request, &mut notify, &AtomicBool::new(false));
            let error = trial.map(|_| ()).expect_err(wanted).to_string();
            assert!(error.contains(wanted), "{error}");
            let starts = Progress::Starts(Duration::from_millis(2));
            let testers = vec![TesterCount { name: "rank 1".to_owned(), sent: 1, bad: 5 }];
            assert_eq!(seen, [starts, Progress::Counters([1, 2, 3, 4, 5], testers)]);
        }
        // What comes after a strange answer may be of that trial.
        let strange = r#"{"answer":"ready","version":"1"}"#;
        let late = format!("{strange}'; echo '{}", r#"{"answer":"failed","why":"late"}"#);
        let mut job = Job::start(&plan(&script(&late)), "1").expect("it is ready");
        for wanted in ["unexpected message from dnsdyno-cluster: Ready", "runs no more trials"] {
            let trial = job.trial(&request, &mut |_| {}, &AtomicBool::new(false));
            let error = trial.map(|_| ()).expect_err(wanted).to_string();
            assert!(error.contains(wanted), "{error}");
        }
        // What no ask can hold is refused before it is written.
        let capture = OsStr::from_bytes(b"\xff").into();
        let ports = vec![53];
        let workload = record::request::Workload::Replay { capture, speed: 1.0, ports, loops: 1 };
        let request = TrialRequest { workload, ..request };
        let mut job = Job::start(&plan(&script("")), "1").expect("it is ready");
        let trial = job.trial(&request, &mut |_| {}, &AtomicBool::new(false));
        let error = trial.map(|_| ()).expect_err("not UTF-8").to_string();
        assert!(error.contains("UTF-8"), "{error}");
    }
}
