//! Testers on other hosts that run each trial together: a job of Open MPI, started here.
//!
//! ```text
//! this process ── orders ──> mpirun ──> dnsdyno-cluster serve, rank 0: the conductor
//!              <── replies ──   └─ssh─> dnsdyno-cluster serve, ranks 1..: the Testers
//! ```
//!
//! The job ends when its standard input does, so nothing of it outlives this process. A run in the lab has its job started by the
//! process outside, as the user, and inherits the pipes. Of a job that the user has started, rank 0 starts the run ([`given`]).

pub mod given;
mod hosts;

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, geteuid};
use record::{TesterCount, TrialRequest, TrialResult};

use super::connection::{Connection, REPLY_TIMEOUT};
use super::error::{Peer, RemoteError};
use super::handover::Pipes;
use super::message::{Order, Reply, sendable};
use crate::testbed::process::wait_for_end;

pub use hosts::{BadHosts, Hosts, MOST_AUTHDNS, PartHost};

/// Time within which all ranks must have started.
const START_LIMIT: Duration = Duration::from_secs(180);
/// Interval between checks whether the trial was interrupted.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Time within which the job must end by itself; then the time after a signal.
const LEAVE_LIMITS: [Duration; 2] = [Duration::from_secs(8), Duration::from_secs(4)];
/// Settings with which Open MPI's daemon on a host that is cut off ends within half a minute; other
/// implementations ignore them.
const KEEPALIVE: [(&str, &str); 3] = [
    ("OMPI_MCA_oob_tcp_keepalive_time", "10"),
    ("OMPI_MCA_oob_tcp_keepalive_intvl", "5"),
    ("OMPI_MCA_oob_tcp_keepalive_probes", "3"),
];
/// Setting with which Open MPI's other ranks live on when one has died.
const RECOVERY: (&str, &str) = ("OMPI_MCA_orte_enable_recovery", "1");

/// Start parameters of a job of Testers.
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

/// Progress of a running trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The Testers start together after this time.
    Starts(Duration),
    /// Sums of the Testers' counters, and the counters of each Tester.
    Counters([u64; 5], Vec<TesterCount>),
}

/// A job that was started, before it is used. Making one makes no thread, so that this process can still enter a lab.
#[derive(Debug)]
pub(super) struct JobLine {
    // This field is dropped first: the orders end before the wait for the starter.
    orders: File,
    replies: File,
    /// Absent if another process has started the job.
    starter: Option<Starter>,
}

/// The starter's process; when it is dropped, its standard input must be closed already.
#[derive(Debug)]
struct Starter(Child);

/// A running job; it is ended when dropped.
#[derive(Debug)]
pub struct Job {
    // This field is dropped first: the connection ends before the wait for the starter.
    connection: Connection,
    /// Absent if another process has it: the outer process, or the one that has started this job.
    _starter: Option<Starter>,
    /// Number of trials until now.
    trials: u64,
}

impl JobLine {
    /// Starts a job.
    ///
    /// # Errors
    /// If the starter cannot be started.
    pub(super) fn open(plan: &JobPlan) -> Result<Self, RemoteError> {
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
            .map_err(|source| RemoteError::Start {
                starter: words[0].clone(),
                option: "--mpirun",
                source,
            })?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let starter = Some(Starter(child));
        let (orders, replies) = pipes.ok_or(RemoteError::Gone(Peer::Job))?;
        let (orders, replies) = (OwnedFd::from(orders).into(), OwnedFd::from(replies).into());
        Ok(JobLine { orders, replies, starter })
    }

    /// Lets the next process that is started inherit the pipes.
    pub(super) fn pass(&self) -> io::Result<Pipes> {
        Pipes::pass(&self.orders, &self.replies)
    }
}

impl Drop for Starter {
    /// Waits until the job has ended by itself, or ends it.
    fn drop(&mut self) {
        let group = Pid::from_raw(self.0.id() as i32);
        for (limit, signal) in LEAVE_LIMITS.into_iter().zip([Signal::SIGTERM, Signal::SIGKILL]) {
            if wait_for_end(&mut self.0, limit).is_some() {
                return;
            }
            let _ = killpg(group, signal);
        }
        let _ = self.0.wait();
    }
}

impl Job {
    /// Starts a job of the version `version`, and waits until its ranks are there.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(plan: &JobPlan, version: &str) -> Result<Self, RemoteError> {
        let JobLine { orders, replies, starter } = JobLine::open(plan)?;
        Self::over(Connection::new(Peer::Job, orders, replies), starter, version)
    }

    /// Makes the job from the pipes that this process has inherited, and waits until its ranks are
    /// there, of the version `version`, or `interrupted` is set.
    pub(super) fn inherited(
        pipes: Pipes,
        version: &str,
        interrupted: &Arc<AtomicBool>,
    ) -> Result<Self, RemoteError> {
        Self::over(Connection::inherited(Peer::Job, pipes, interrupted)?, None, version)
    }

    fn over(
        connection: Connection,
        starter: Option<Starter>,
        version: &str,
    ) -> Result<Self, RemoteError> {
        let mut job = Job { connection, _starter: starter, trials: 0 };
        job.connection.greeted(version, START_LIMIT)?;
        Ok(job)
    }

    /// Runs a trial of the request, which has no slice; `notify` is called with its progress, `stop` ends it early.
    ///
    /// # Errors
    /// If there is no trial; [`Refusal::Cannot`](super::error::Refusal) if the request cannot be accepted.
    pub fn trial(
        &mut self,
        request: &TrialRequest,
        notify: &mut dyn FnMut(Progress),
        stop: &AtomicBool,
    ) -> Result<TrialResult, RemoteError> {
        sendable(request).map_err(|why| RemoteError::Refused { peer: Peer::Job, why })?;
        self.trials += 1;
        let trial = self.trials;
        let request = Box::new(request.clone());
        self.connection.send(&Order::Trial { trial, request })?;
        let (mut stopped, mut heard) = (false, Instant::now());
        loop {
            if !stopped && stop.load(Ordering::Relaxed) {
                stopped = true;
                self.connection.send(&Order::EndTrial { trial })?;
            }
            match self.connection.receive(CHECK_INTERVAL)? {
                Some(Reply::Starts { in_ns }) => {
                    notify(Progress::Starts(Duration::from_nanos(in_ns)));
                }
                Some(Reply::Counters { counters, testers }) => {
                    notify(Progress::Counters(counters, testers));
                }
                Some(Reply::Done { trial: ended, result }) if ended == trial => return Ok(*result),
                Some(other) => return Err(self.connection.unexpected_reply(&other)),
                // The conductor sends something twice a second.
                None if heard.elapsed() < REPLY_TIMEOUT => continue,
                None => return Err(self.connection.silent(REPLY_TIMEOUT)),
            }
            heard = Instant::now();
        }
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
        let ready = r#"echo '{"ready":{"version":"1"}}'"#;
        let table = [
            ("exit 3".to_owned(), "the job of the Testers is gone"),
            ("echo hello".to_owned(), "the job of the Testers sent an unexpected message: hello"),
            (
                ready.replace("\"1\"", "\"0\""),
                "the job of the Testers has version 0, this program 1; give the path",
            ),
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
        let JobLine { orders, replies, starter } =
            JobLine::open(&plan("cat >/dev/null")).expect("starts");
        let mut connection = Connection::new(Peer::Job, orders, replies);
        connection.interrupted = Arc::new(AtomicBool::new(true));
        let job = Job::over(connection, starter, "1");
        let error = job.map(drop).expect_err("interrupted");
        assert!(matches!(error, RemoteError::Interrupted { .. }), "{error}");
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
                r#"echo '{{"ready":{{"version":"1"}}}}'; read ask; echo '{{"starts":{{"in_ns":2000000}}}}'; echo '{{"counters":{{"counters":[1,2,3,4,5],"testers":[{{"name":"rank 1","sent":1,"bad":5}}]}}}}'; echo '{answer}'; cat >/dev/null"#
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
            (r#"{"refused":{"cannot":"no such host"}}"#, "no such host"),
            (r#"{"refused":{"failed":"rank 2: it died"}}"#, "rank 2: it died"),
            (
                r#"{"ready":{"version":"1"}}"#,
                "the job of the Testers sent an unexpected message: Ready",
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
        let strange = r#"{"ready":{"version":"1"}}"#;
        let late = format!("{strange}'; echo '{}", r#"{"refused":{"failed":"late"}}"#);
        let mut job = Job::start(&plan(&script(&late)), "1").expect("it is ready");
        for wanted in [
            "the job of the Testers sent an unexpected message: Ready",
            "did not complete an order",
        ] {
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
