//! The lab as a [`Bench`]: a trial is the Measurer as a process in the tester's host; probes before and after it show
//! what limited it.
//!
//! ```text
//!   snapshot ─> dnsdyno __task measure, a request on a pipe ─> snapshot ─> Trial: cpu, limiter, void
//!                     │ watched: the server under test and the AuthDNS must run until its end
//! ```

mod conclude;
mod drill;
mod generators;
mod lost;
pub(crate) mod measurer;
mod remote;
mod settle;
mod testers;
mod updates;
mod upstream;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use experiment::{
    Bench, BenchError, DrillSpec, Drilled, GeneratorSpec, GeneratorTimes, LockStepSpec,
    Replication, TrialSpec,
};
use kernel::RunStatistics;
use measure::pacing::EXPERIMENT;
use measure::{Nanos, Pacing, Warning};
use nix::sys::signal::Signal;
use record::{LockStepRow, Seen, Series, Trial, TrialRequest, TrialResult};
use serde::de::DeserializeOwned;

pub(crate) use self::remote::RemoteParts;
pub(crate) use self::upstream::Upstream;
use crate::probe::watch::{LiveUpdate, Reader, Watcher};
use crate::probe::{Account, Accounts, Ledger, RunTimes, Sampler, Snapshot, Watched, programs};
use crate::runs::attack::Attacker;
use crate::server::clients::Replaying;
use crate::server::replication::{Companions, Group, Member};
use crate::server::{Installed, LabEnv, Server, Service};
use crate::testbed::cpus::CpuList;
use crate::testbed::enter::Lab;
use crate::testbed::limit::{CpuLimit, LimitError};
use crate::testbed::process::{Launch, Process, ProcessError, TimeLimit};
use crate::testbed::task::Task;
use crate::testbed::{Host, Testbed};

/// Interval between checks of the processes of a running trial.
const WATCH_INTERVAL: Duration = Duration::from_millis(50);
/// Time allowed to a trial beside its sending and its last timeout, to start and to write its result.
const RESERVE: Duration = Duration::from_secs(30);
/// Time allowed for each connection that is opened before a trial: full TLS handshakes are faster than 200 a second.
const TIME_PER_CONNECTION: Duration = Duration::from_millis(5);
/// Time within which an interrupted process must report.
const REPORT_GRACE: Duration = Duration::from_secs(5);
/// Time allowed to a lock-step load beside a second for each experiment.
const LOCKSTEP_RESERVE: Duration = Duration::from_secs(60);
/// Duration that the interval of a lock-step load's samples is computed from: its real one is the result.
const LOCKSTEP_SAMPLED: Nanos = Nanos::from_secs(10);
/// Time to recover from an overload, and interval between checks: an idle server ran for less than a twentieth of it.
const SETTLE_TIME: Duration = Duration::from_secs(10);
const SETTLE_STEP: Duration = Duration::from_millis(100);

/// Number of samples of a trial, if their interval is within [`SAMPLING_BOUNDS`].
const SAMPLE_COUNT: u32 = 20;
/// Shortest and longest interval between samples: the kernel counts CPU time in steps of 10 ms.
const SAMPLING_BOUNDS: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(2));

/// Bench that runs trials in the lab.
#[derive(Debug)]
pub(crate) struct LabBench<'a> {
    lab: &'a Lab,
    testbed: &'a Testbed,
    dir: &'a Path,
    // Request that all trials of this bench begin with.
    base: TrialRequest,
    authdns: Option<Upstream>,
    server: Option<ServerUnderTest<'a>>,
    // The primary and the secondaries beside the server.
    pub(crate) group: Option<Group>,
    // A drill's running attacker, its cores (the auth host's if absent), and the number of
    // attackers so far.
    attacker: Option<Attacker>,
    pub(crate) attacker_cpus: Option<CpuList>,
    attacks: u64,
    // CPU time that the server may use, in cores; absent without a limit.
    cpu_limit: Option<f64>,
    // Whether the server may still have work from the last trial.
    overloaded: bool,
    // Shortest time of the watchers' work on the server's cores in a trial so far, in nanoseconds.
    fastest_work_ns: Option<u64>,
    // Whether the server has programs in the kernel.
    pub(crate) programs: bool,
    // Whether names were used, forgotten by the server, and may be used again.
    names_forgotten: bool,
    pub(crate) watcher: Option<Watcher>,
    // Capture or clients that trials replay.
    pub(crate) replayed: Option<Replaying>,
    // Parts of the run that are on other hosts.
    remote: RemoteParts,
    accounts: Accounts,
    // Whether the server's programs in the kernel are counted, which slows them down.
    counts_programs: bool,
    // Duration of every trial, set by a test.
    pub(crate) shortened: Option<Nanos>,
}

/// Counters before and after a Measurer ran, and samples in between.
struct MeasurerCounters {
    before: Snapshot,
    after: Snapshot,
    series: Vec<Series>,
    // CPU time of each host's processes over time.
    run_times: RunTimes,
    // CPU time of each role beside the server: seconds in user mode and in the kernel.
    beside: Vec<(&'static str, CpuList, (f64, f64))>,
}

/// A server under test that can be started again.
#[derive(Debug)]
struct ServerUnderTest<'a> {
    starts: StartKind<'a>,
    // Absent only between a stop and a start.
    server: Option<Server>,
    // Limits the server's CPU time until it is dropped.
    limit: Option<CpuLimit>,
}

/// The kind of a start: a server for the queried names, or a member of a group that replicates a
/// zone.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StartKind<'a> {
    Service(&'a Installed, &'a Service),
    Member(&'a Member),
}

impl<'a> LabBench<'a> {
    /// Makes a bench of the Measurer with the server in the auth host, if there is one; alone it is the target.
    pub(crate) fn new(env: LabEnv<'a>, base: TrialRequest, authdns: Option<Upstream>) -> Self {
        let LabEnv { testbed, lab, dir } = env;
        Self {
            lab,
            testbed,
            dir,
            base,
            authdns,
            server: None,
            group: None,
            attacker: None,
            attacker_cpus: None,
            attacks: 0,
            cpu_limit: None,
            overloaded: false,
            fastest_work_ns: None,
            programs: false,
            names_forgotten: false,
            watcher: None,
            replayed: None,
            remote: RemoteParts::default(),
            accounts: Accounts::default(),
            counts_programs: false,
            shortened: None,
        }
    }

    /// Returns the bench with its parts on other hosts.
    pub(crate) fn with_remote(self, remote: RemoteParts) -> Self {
        Self { remote, ..self }
    }

    /// Starts the server under test, with the CPU time of at most `cpu_limit` cores if there is a
    /// limit.
    ///
    /// # Errors
    /// If the server does not start, or cannot be limited.
    pub(crate) fn start(
        self,
        starts: StartKind<'a>,
        cpu_limit: Option<f64>,
    ) -> Result<Self, crate::ServerError> {
        let server = Some(ServerUnderTest { starts, server: None, limit: None });
        let mut bench = Self { server, cpu_limit, ..self };
        bench.start_server()?;
        Ok(bench)
    }

    /// Returns the path of the file to which the Measurer writes its counters while it runs.
    fn live_file(&self) -> PathBuf {
        self.dir.join("live.json")
    }

    /// Notifies the watcher that a trial begins.
    fn begins(&self, pacing: Option<Pacing>, duration: Nanos) {
        if let Some(watcher) = &self.watcher {
            watcher.notify(LiveUpdate::Begins { pacing, duration });
        }
    }

    /// Starts the server from scratch and limits its CPU time.
    fn start_server(&mut self) -> Result<(), crate::ServerError> {
        let env = self.env();
        let Some(running) = &mut self.server else { return Ok(()) };
        let server = match running.starts {
            StartKind::Service(installed, service) => installed.start(service, env)?,
            StartKind::Member(member) => {
                let mut server = member.start(env)?;
                if let Some(group) = &mut self.group {
                    group.wait(&mut server, env)?;
                }
                server
            }
        };
        running.server = Some(server);
        self.limit_server()
    }

    /// Limits the server's CPU time, if it has a limit.
    fn limit_server(&mut self) -> Result<(), crate::ServerError> {
        let Some(ServerUnderTest { server: Some(server), limit, .. }) = &mut self.server else {
            return Ok(());
        };
        if let Some(cores) = self.cpu_limit {
            let cpus = self.testbed.cpus(Host::Dut).count();
            let applied = CpuLimit::apply(&server.pids(), cores, cpus)
                .map_err(|e: LimitError| crate::ServerError::Limit(e))?;
            *limit = Some(applied);
        }
        Ok(())
    }

    /// Stops the server; its CPU limit ends first, so that it can stop in time.
    fn stop_server(&mut self) {
        // The group that counts is inside the group that limits.
        self.accounts = Accounts::default();
        if let Some(running) = &mut self.server {
            running.limit = None;
            if let Some(server) = running.server.take() {
                server.stop();
            }
        }
    }

    /// Returns the server; `None` while it is stopped.
    pub(crate) fn server(&self) -> Option<&Server> {
        self.server.as_ref()?.server.as_ref()
    }

    /// Returns the configuration files of the server; `None` if it was not started by this bench.
    pub(crate) fn files(&self) -> Option<&BTreeMap<String, String>> {
        let there = self.remote.part.as_ref().map(|_| &self.remote.launched.files);
        self.server().map(Server::files).or(there)
    }

    /// Returns how the server's CPU time is limited, in words; `None` without a limit.
    pub(crate) fn limited(&self) -> Option<&str> {
        let here = self.server.as_ref().and_then(|running| running.limit.as_ref());
        here.map(CpuLimit::means).or(self.remote.launched.limited.as_deref())
    }

    /// Returns the resident memory of a remote server that an agent started, in bytes.
    pub(crate) fn remote_memory(&self) -> Option<u64> {
        self.remote.memory()
    }

    /// Stops the server according to its adapter, and the AuthDNS.
    pub(crate) fn stop(mut self) {
        self.stop_server();
        if let Some(group) = self.group {
            group.stop();
        }
        if let Some(authdns) = self.authdns {
            authdns.stop();
        }
    }

    /// Returns the processes whose CPU time is read, each with its host.
    fn watched(&self) -> Vec<(Host, u32)> {
        let authdns = self.authdns.iter().flat_map(Upstream::pids).map(|pid| (Host::Auth, pid));
        let server = self.server.iter().filter_map(|running| running.server.as_ref());
        let server = server.flat_map(Server::pids).map(|pid| (Host::Dut, pid));
        let beside = self.companions().into_iter();
        let beside = beside.flat_map(|c| c.pids.into_iter().map(move |pid| (c.host, pid)));
        authdns.chain(server).chain(beside).collect()
    }

    /// Returns the processes of roles other than the server, by role.
    fn companions(&self) -> Vec<Companions> {
        let group = self.group.iter().flat_map(|group| group.companions(self.testbed));
        group.chain(self.attacker.iter().map(Attacker::companion)).collect()
    }

    /// Starts a sampler of every role for a trial of `duration`, on the lab's cores.
    fn sampler(&self, watched: &[(Host, u32)], tester: u32, duration: Duration) -> Sampler {
        let role = |role, host: Host, also: Option<u32>| {
            // The attacker of a drill runs beside the Measurer.
            let of = |other: Host| other == host && host != Host::Tester;
            let pids = watched.iter().filter(|(other, _)| of(*other)).map(|(_, pid)| *pid);
            let pids: Vec<u32> = pids.chain(also).collect();
            let cpus = self.testbed.cpus(host).clone();
            (!pids.is_empty()).then_some(Watched { role, pids, children_only: false, cpus })
        };
        let auth = if self.group.is_some() { "primary" } else { "authdns" };
        let watched = [
            role("tester", Host::Tester, Some(tester)),
            role(auth, Host::Auth, None),
            role("dut", Host::Dut, None),
        ];
        let interval = (duration / SAMPLE_COUNT).clamp(SAMPLING_BOUNDS.0, SAMPLING_BOUNDS.1);
        let watched = watched.into_iter().flatten().collect();
        Sampler::start(watched, interval, &self.testbed.lab_cpus(), self.watcher.clone())
    }

    /// Runs the process that `start` starts as the Measurer, at most for `limit`. Returns its
    /// process and the counters; `duration` decides the interval of the samples.
    fn run(
        &mut self,
        start: impl FnOnce(&Launch<'_>) -> Result<Process, ProcessError>,
        duration: Nanos,
        limit: Duration,
    ) -> Result<(Process, MeasurerCounters), BenchError> {
        let mut watched = self.watched();
        let companions = self.companions();
        let account = self.account(&watched);
        // The first call measures the cost of counting, which is no part of the trial.
        let programs = self.count_programs()?;
        let before = Snapshot::with_account(self.testbed, &watched, account.as_deref());
        let before = before.map_err(BenchError::failed)?;
        let beside_before = Companions::times(&companions);
        let mut reader = Reader::new(self.watcher.clone(), self.live_file());
        let inside = self.testbed.namespace(Host::Tester);
        let namespace = self.remote.outside.as_ref().unwrap_or(inside);
        let cpus = self.testbed.cpus(Host::Tester);
        let launch = Launch::new("tester", namespace, cpus, self.dir);
        let ledger = Ledger::start(&watched, account.clone(), programs, self.testbed);
        let mut tester = start(&launch).map_err(BenchError::failed)?;
        let sampler = self.sampler(&watched, tester.pid(), duration.into());
        let what = "end its trial (each query without an answer costs its timeout)";
        watch(&mut tester, what, limit, self.lab, &mut reader, || self.check())?;
        // The process has ended but was not waited for yet: its counters are still in `/proc`.
        watched.push((Host::Tester, tester.pid()));
        let after = Snapshot::with_account(self.testbed, &watched, account.as_deref());
        let after = after.map_err(BenchError::failed)?;
        let beside = Companions::times(&companions).into_iter().zip(beside_before);
        let beside = beside
            .map(|((role, cpus, now), (_, _, then))| (role, cpus, (now.0 - then.0, now.1 - then.1)))
            .collect();
        let (series, run_times) = (sampler.stop(), ledger.stop());
        Ok((tester, MeasurerCounters { before, after, series, run_times, beside }))
    }

    /// Starts to count the runs of the server's programs in the kernel, if there are some and the
    /// trial needs the counts.
    fn count_programs(&self) -> Result<Option<RunStatistics>, BenchError> {
        let Some(server) = self.server().filter(|_| self.counts_programs) else { return Ok(None) };
        let on_devices = self.testbed.namespace(Host::Dut).run(kernel::programs_on_devices);
        let on_devices = on_devices.flatten().map_err(BenchError::failed)?;
        Ok(programs::count(&server.pids(), on_devices))
    }

    /// Returns the account of the server's processes, a new one if the processes have changed since
    /// the last trial; `None` where this process may not count them.
    fn account(&mut self, watched: &[(Host, u32)]) -> Option<Arc<Account>> {
        let pids = watched.iter().filter(|(host, _)| *host == Host::Dut).map(|(_, pid)| *pid);
        self.accounts.of(pids.collect())
    }

    /// Runs a task as the Measurer, at most for `limit`. Returns its result and the counters.
    fn result<T: DeserializeOwned>(
        &mut self,
        task: &Task,
        duration: Nanos,
        limit: Duration,
    ) -> Result<(T, MeasurerCounters), BenchError> {
        let start = |launch: &Launch<'_>| Process::start_task(launch, task);
        let (mut tester, spent) = self.run(start, duration, limit)?;
        Ok((tester.result().map_err(BenchError::failed)?, spent))
    }

    /// Runs the requested trial, at most for `limit`; `duration` decides the interval of the samples.
    fn measure(
        &mut self,
        request: &TrialRequest,
        duration: Nanos,
        limit: Duration,
    ) -> Result<(TrialResult, MeasurerCounters), BenchError> {
        self.result(&Task::Measure(Box::new(request.clone())), duration, limit)
    }

    /// Returns whether an AuthDNS, or a primary, runs in the auth host.
    fn uses_auth(&self) -> bool {
        self.authdns.is_some() || self.group.as_ref().is_some_and(Group::uses_auth)
    }

    /// Returns whether the AuthDNS of this bench, or a primary, runs on the Measurer's core.
    fn shares_core(&self) -> bool {
        self.uses_auth()
            && self.testbed.cpus(Host::Auth).shares_with(self.testbed.cpus(Host::Tester))
    }

    /// Checks that all that a trial needs still runs.
    fn check(&mut self) -> Result<(), BenchError> {
        let server = self.server.iter_mut().filter_map(|running| running.server.as_mut());
        for server in server {
            server.check().map_err(BenchError::failed)?;
        }
        if let Some(authdns) = &mut self.authdns {
            authdns.check().map_err(BenchError::failed)?;
        }
        if let Some(group) = &mut self.group {
            group.check().map_err(BenchError::failed)?;
        }
        self.check_remote()
    }

    /// Runs one trial; its verdict is open.
    fn trial_result(&mut self, spec: &TrialSpec) -> Result<TrialResult, BenchError> {
        if self.is_interrupted() {
            return Err(BenchError::Interrupted);
        }
        let duration = self.shortened.unwrap_or(spec.duration);
        let spec = &TrialSpec { duration, ..spec.clone() };
        let settled = !spec.waits || self.settle()?;
        let request = self.request(spec)?;
        // An estimate by the CPU time for each answer; a rate would find the server slower than it is.
        let estimates = !spec.waits && !request.pacing.is_open_loop();
        self.counts_programs = estimates && (self.programs || self.remote.dut.is_some());
        let sending = request.duration;
        let connecting = TIME_PER_CONNECTION * request.clients();
        let limit = Duration::from(sending) + Duration::from(spec.timeout) + RESERVE + connecting;
        self.begins(Some(request.pacing), sending);
        let mut result = self.sent(&request, sending, limit)?;
        self.counts_programs = false;
        if !settled {
            let after_s = SETTLE_TIME.as_secs_f64();
            result.trial.warnings.push(Warning::ServerStillBusy { after_s });
        }
        Ok(result)
    }

    /// Makes the verdict on a trial of which no more will be known, and reduces its histograms.
    fn finish(&mut self, result: TrialResult) -> Result<Trial, BenchError> {
        let mut trial = result.with_verdict();
        let best = trial.cpu.get("dut").and_then(|cpu| cpu.best_work_ns);
        self.fastest_work_ns = self.fastest_work_ns.into_iter().chain(best).min();
        trial.compact().map_err(BenchError::failed)?;
        self.overloaded = trial.bad() > 0 || trial.void.is_void();
        Ok(trial)
    }

    fn is_interrupted(&self) -> bool {
        self.lab.interrupted().load(Ordering::Relaxed)
    }
}

/// Waits until a process of this program ends, with `limit` and the task `what` for the error; ends
/// it if the run is interrupted.
///
/// # Errors
/// If it is late, the run is interrupted, or `check` fails, which is called repeatedly.
pub(crate) fn watch(
    process: &mut Process,
    what: &str,
    limit: Duration,
    lab: &Lab,
    reader: &mut Reader,
    mut check: impl FnMut() -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    let mut time_limit = TimeLimit::new(limit);
    while !process.is_over() {
        if lab.interrupted().load(Ordering::Relaxed) {
            process.stop(Signal::SIGINT, REPORT_GRACE);
            return Err(BenchError::Interrupted);
        }
        check()?;
        if time_limit.is_over() {
            return Err(BenchError::failed(process.late(what, limit)));
        }
        reader.look();
        process.sleep_until_over(WATCH_INTERVAL);
    }
    Ok(())
}

impl Bench for LabBench<'_> {
    fn trial(&mut self, spec: &TrialSpec) -> Result<Trial, BenchError> {
        let result = self.trial_result(spec)?;
        self.finish(result)
    }

    fn pause(&mut self, time: Nanos) {
        std::thread::sleep(time.into());
    }

    fn forget_names(&mut self) -> Result<bool, BenchError> {
        if self.remote.outside.is_some() {
            return self.restart_remote();
        }
        if self.server.is_some() && self.asks_once() {
            self.start_anew()?;
            self.names_forgotten = true;
        }
        Ok(true)
    }

    fn hidden_cpu(&self) -> Option<Seen> {
        self.hides_cpu()
    }

    fn idle_share(&mut self, time: Nanos) -> Result<Option<f64>, BenchError> {
        self.watch_idle(time)
    }

    fn start_anew(&mut self) -> Result<(), BenchError> {
        self.stop_server();
        self.overloaded = false;
        self.start_server().map_err(BenchError::failed)
    }

    fn testers(&self) -> u64 {
        self.remote.tester_count.max(1) as u64
    }

    fn lockstep(&mut self, spec: &LockStepSpec) -> Result<LockStepRow, BenchError> {
        if self.is_interrupted() {
            return Err(BenchError::Interrupted);
        }
        self.settle()?;
        let LockStepSpec { lanes: threads, experiments, new_threads: anew, .. } = *spec;
        let pacing = Pacing::LockStep { threads, experiments, anew };
        self.begins(Some(pacing), Nanos::ZERO);
        // This limit ends the load of a server without answers.
        let limit = LOCKSTEP_RESERVE + Duration::from_secs(u64::from(experiments));
        let duration = self.remote.testers.as_ref().map_or(LOCKSTEP_SAMPLED, |_| limit.into());
        let request = self.request(&TrialSpec {
            first_name: spec.first_name,
            names: u64::from(experiments) * u64::from(EXPERIMENT) * self.testers(),
            ..TrialSpec::new(pacing, duration, spec.timeout)
        })?;
        let result = self.sent(&request, LOCKSTEP_SAMPLED, limit)?;
        let mut row = LockStepRow::new(threads, result);
        row.trial.compact().map_err(BenchError::failed)?;
        Ok(row)
    }

    fn drill(&mut self, spec: &DrillSpec) -> Result<Drilled, BenchError> {
        self.attacked(spec)
    }

    fn replication(&mut self) -> Result<&mut dyn Replication, BenchError> {
        Ok(self)
    }

    fn generate(&mut self, spec: &GeneratorSpec) -> Result<GeneratorTimes, BenchError> {
        self.generated(spec)
    }
}
