//! Threads of the workers: one worker on each core, a barrier before the trial, a merge after it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;

use engine::{Engine, WaitMode, drive};
use load::lockstep::experiment_times;
use load::{Live, LockStepResult};
use measure::stall::Side;
use measure::{Nanos, Pacing};
use record::{LockStepTimes, TrialResult};
use udp::{UdpEngine, UdpFacts, sys};

use crate::agreed::AgreedTime;
use crate::busy::sample_use;
use crate::conclude::TrialObservations;
use crate::connections::{self, ConnectionSetup};
use crate::core_watch::CoreWatch;
use crate::error::TesterError;
use crate::host::UseOfCores;
use crate::latencies::watch_latencies;
use crate::live_file::{snapshot, write_live};
use crate::local_server::LocalServer;
use crate::neighbours::{self, Processes};
use crate::setup::{ASKING, Role, Setup};
use crate::worker::{Report, Start, WorkerTimes};

/// Time before an agreed start at which sockets are opened and workers started.
const LEAD_TIME: Nanos = Nanos::from_secs(1);

impl Setup {
    /// Runs the trial; `live` shows its counters, `stop` ends it early.
    ///
    /// # Errors
    /// If the sockets cannot be opened, or a worker fails; if the trial has an agreed start that
    /// this host cannot keep; if a query file ended it, with the results so far.
    pub fn run(
        &self,
        live: &Arc<Live>,
        stop: &Arc<AtomicBool>,
    ) -> Result<TrialResult, TesterError> {
        let agreed = AgreedTime::of(&self.request)?;
        if let (Some(agreed), None) = (&agreed, &self.connections) {
            // Connections may take long to open.
            agreed.wait(LEAD_TIME, stop);
        }
        let file = self.request.live.clone().map(|path| {
            let live = live.clone();
            write_live(path, move |began| snapshot(&live, began))
        });
        if self.request.pacing.is_timed() {
            let latencies = watch_latencies(live.clone());
            let (mut result, _) = self.run_workers(agreed, live, stop)?;
            drop(file);
            result.trial.probes = latencies.stop().unwrap_or_default();
            return match self.workload.take_error() {
                None => Ok(result),
                Some(why) => Err(TesterError::InputEnded(Box::new(result), why)),
            };
        }
        let cpus = &self.request.dut_cpus;
        let sampler = sample_use((!cpus.is_empty()).then(|| cpus.clone()));
        let (result, times) = self.run_workers(agreed, live, stop)?;
        let times_ms = times.iter().map(|t| t.as_secs_f64() * 1e3).collect();
        let busy_percent = sampler.stop().unwrap_or_default();
        let lockstep = Some(LockStepTimes { times_ms, busy_percent });
        Ok(TrialResult { lockstep, ..result })
    }

    /// Runs the workers; returns the trial, and the times of the experiments.
    fn run_workers(
        &self,
        agreed: Option<AgreedTime>,
        live: &Arc<Live>,
        stop: &Arc<AtomicBool>,
    ) -> Result<(TrialResult, Vec<Nanos>), TesterError> {
        sys::raise_open_files();
        self.workload.begin();
        let mut cpus = self.worker_cpus();
        let workers = cpus.len();
        let server = self.local_server();
        // Watching the neighbours takes time, and the first queries before a load are no
        // measurement.
        let chooses = cpus == [None] && self.request.duration > ASKING;
        let avoided = chooses.then(|| neighbours::avoid(server.as_ref())).flatten();
        if let Some(avoided) = &avoided {
            cpus = vec![Some(avoided.instead)];
        }
        let others = Processes::now();
        let watch = CoreWatch::start(self.watched_cores(&cpus));
        let start = || Start::of(workers, agreed);
        let RunResult { facts, before, mut reports, link_lost } =
            match (&self.kernel, &self.connections) {
                (Some(kernel), _) => self.run_in_kernel(kernel, agreed, &cpus, live, stop)?,
                (None, None) => match self.request.pacing {
                    Pacing::LockStep { threads, experiments, anew: true } => {
                        let cpus: Vec<usize> = cpus.iter().copied().flatten().collect();
                        self.run_anew(threads, experiments, &start(), &cpus, live, stop)?
                    }
                    _ => self.run_datagrams(start(), &cpus, live, stop)?,
                },
                (None, Some(connections)) => {
                    self.run_connections(connections, &start(), &cpus, live, stop)?
                }
            };
        let mut pinned: Vec<usize> = cpus.into_iter().flatten().collect();
        pinned.sort_unstable();
        pinned.dedup();
        let started = reports.iter().map(|report| report.tally.started).min();
        let last_sent = reports.iter().map(|report| report.tally.last_sent).max();
        let (began, ended) = (started.unwrap_or_default(), last_sent.unwrap_or_default());
        let used = before.since();
        let seen = TrialObservations {
            facts,
            agreed: agreed.zip(started).map(|(agreed, started)| agreed.record(started)),
            disturbances: watch.end(began..=ended),
            foreign: used.foreign(&pinned),
            taken: others.warning(used.cores_of(&pinned), used.free(&pinned), server.as_ref()),
            avoided: avoided.map(|avoided| avoided.warning),
            pinned,
            server: server.map(|server| server.end(ended.since(began))).unwrap_or_default(),
            interrupted: stop.load(std::sync::atomic::Ordering::Relaxed),
            link_lost,
        };
        let spans: Vec<_> = reports.iter_mut().map(|r| std::mem::take(&mut r.spans)).collect();
        let times = experiment_times(&spans);
        let targets = self.of_each_target(&reports);
        let mut result = self.conclude(reports, &seen);
        result.trial.targets = targets;
        Ok((result, times))
    }

    /// Returns the processes of the server on this host, as far as this user may see them; not for
    /// loads from programs in the kernel.
    pub fn server_processes(&self) -> Vec<u32> {
        self.local_server().map(LocalServer::into_processes).unwrap_or_default()
    }

    fn local_server(&self) -> Option<LocalServer> {
        match (&self.kernel, &self.connections) {
            (Some(_), _) => None,
            (None, Some(connections)) => LocalServer::find(connections.targets()),
            (None, None) => LocalServer::find(self.request.targets()),
        }
    }

    /// Returns the cores that are watched for stalls: the workers' where they are bound to cores, the AuthDNS's, and the
    /// server's.
    fn watched_cores(&self, workers: &[Option<usize>]) -> Vec<(Side, usize)> {
        let workers = workers.iter().flatten().map(|cpu| (Side::Tester, *cpu));
        let auth = self.request.auth_cpus.iter().map(|cpu| (Side::AuthDns, *cpu));
        let dut = self.request.dut_cpus.iter().map(|cpu| (Side::Dut, *cpu));
        workers.chain(auth).chain(dut).collect()
    }

    fn run_datagrams(
        &self,
        start: Start,
        cpus: &[Option<usize>],
        live: &Arc<Live>,
        stop: &Arc<AtomicBool>,
    ) -> Result<RunResult, TesterError> {
        let workers = cpus.len();
        let engines = self.engines(workers)?;
        let facts = engines[0].facts();
        let steps = self.lockstep_roles(workers as u32, live)?;
        let mut roles: Vec<Role> =
            steps.into_iter().map(|role| Role::LockStep(Box::new(role))).collect();
        if roles.is_empty() {
            let role = |(worker, engine): (usize, &UdpEngine)| {
                self.role(worker as u32, workers as u32, engine.facts().sockets, live)
            };
            roles = engines.iter().enumerate().map(role).collect::<Result<_, _>>()?;
        }
        let start = Arc::new(start);
        let wait = self.wait_mode();
        let before = UseOfCores::now();
        let threads: Vec<_> = engines
            .into_iter()
            .zip(roles)
            .zip(cpus.to_vec())
            .map(|((engine, role), cpu)| {
                let (start, stop) = (start.clone(), stop.clone());
                std::thread::spawn(move || worker(engine, role, cpu, wait, &start, &stop))
            })
            .collect();
        Ok(RunResult { facts, before, reports: gather(threads)?, link_lost: None })
    }

    fn run_connections(
        &self,
        connections: &ConnectionSetup,
        start: &Start,
        cpus: &[Option<usize>],
        live: &Arc<Live>,
        stop: &AtomicBool,
    ) -> Result<RunResult, TesterError> {
        let facts = connections.facts(self.request.slice, cpus.len());
        let workers = cpus.len() as u32;
        let wait = self.wait_mode();
        let clients = (0..workers)
            .map(|w| connections.clients(&self.workload, self.plan(w, workers, 0), live.clone()));
        let clients = clients.collect::<Result<Vec<_>, _>>()?;
        let before = UseOfCores::now();
        let reports: Result<Vec<Report>, TesterError> = std::thread::scope(|scope| {
            let threads: Vec<_> = clients
                .into_iter()
                .zip(cpus)
                .map(|(clients, &cpu)| {
                    scope.spawn(move || {
                        connections::worker(connections, clients, cpu, wait, start, stop)
                    })
                })
                .collect();
            threads.into_iter().map(|t| t.join().map_err(|_| TesterError::Panicked)?).collect()
        });
        Ok(RunResult { facts, before, reports: reports?, link_lost: None })
    }
}

/// Results of the workers of a trial.
pub(crate) struct RunResult {
    pub(crate) facts: UdpFacts,
    /// Use of the cores when all was prepared, before the workers began.
    pub(crate) before: UseOfCores,
    /// A report of each worker; where the kernel sends, the first one has the tally.
    pub(crate) reports: Vec<Report>,
    /// Device of the programs in the kernel, if it lost its link.
    pub(crate) link_lost: Option<String>,
}

/// Runs the thread of one worker.
fn worker(
    mut engine: UdpEngine,
    mut role: Role,
    cpu: Option<usize>,
    wait: WaitMode,
    start: &Start,
    stop: &AtomicBool,
) -> Result<Report, TesterError> {
    let pinned = cpu.map_or(Ok(()), |cpu| sys::pin_to_cpus(&[cpu]));
    sys::prepare_for_timing();
    start.wait();
    pinned.map_err(TesterError::io("--cpus"))?;
    let start = start.time(stop)?;
    role = match role {
        Role::Measurer(measurer) => Role::Measurer(Box::new(measurer.starting_at(start))),
        Role::Replay(replayer) => Role::Replay(Box::new(replayer.starting_at(start))),
        lockstep => {
            sys::sleep_until(start);
            lockstep
        }
    };
    let before = WorkerTimes::now();
    let spun = drive(&mut engine, &mut role, wait, stop)?;
    let spent = WorkerTimes::since(before, spun);
    let (mut tally, spans) = match role {
        Role::Measurer(measurer) => (measurer.into_tally(), Vec::new()),
        Role::Replay(replayer) => (replayer.into_tally(), Vec::new()),
        Role::LockStep(lockstep) => {
            let LockStepResult { tally, spans } = lockstep.into_result();
            (tally, spans)
        }
    };
    for lost in &mut tally.disturbances.lost {
        let local = engine.local_address(engine::SocketId(lost.socket));
        lost.port = local.ok().map(|address| address.port());
    }
    let (counters, drops) = (engine.counters(), BTreeMap::new());
    Ok(Report { tally, spans, counters, drops, spent, connections: None })
}

/// Collects the reports of the workers' threads.
fn gather(
    threads: Vec<JoinHandle<Result<Report, TesterError>>>,
) -> Result<Vec<Report>, TesterError> {
    threads.into_iter().map(|t| t.join().map_err(|_| TesterError::Panicked)?).collect()
}
