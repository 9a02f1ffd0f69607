//! The Measurer's threads: one worker to a core, a barrier before, a merge after, and what the Tester
//! itself can say about the trial.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Barrier, OnceLock};
use std::thread::JoinHandle;

use anyhow::{Context, anyhow};
use engine::{Engine, EngineCounters, WaitMode, clock, drive};
use load::{
    Live, LockStep, LockStepResult, Measurer, Plan, ReplayPlan, Replayer, Tally, sockets_for,
};
use measure::{
    Evidence, Goal, Limiter, Nanos, Pacing, ScheduleTolerance, Transport, Void, Warning,
};
use record::{Conditions, Cpu, Drops, SCHEMA, Second, Times, Trial, Voidness};
use udp::{UdpEngine, UdpFacts, sources, sys};
use wire::{Invalid, rr::Rcode};

use crate::args::{SocketArgs, WaitArg};
use crate::host;
use crate::options::WorkloadPlan;
use crate::search::unix_now;
use crate::streams::{self, StreamReport, StreamSetup};

/// Sockets over all workers at least: several receive queues and ports on the server's side.
const MIN_SOCKETS: usize = 4;
/// So long after the first of them all workers begin.
pub(crate) const START_DELAY: Nanos = Nanos::from_millis(1);

/// Everything a trial needs.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) target: SocketAddr,
    /// The connections that carry the queries; without them they go by UDP.
    pub(crate) streams: Option<StreamSetup>,
    pub(crate) workload: WorkloadPlan,
    pub(crate) pacing: Pacing,
    pub(crate) duration: Nanos,
    pub(crate) timeout: Nanos,
    pub(crate) goal: Option<Goal>,
    pub(crate) seed: u64,
    pub(crate) sockets: SocketArgs,
}

/// What a worker brings home.
pub(crate) struct Report {
    pub(crate) tally: Tally,
    pub(crate) times: Vec<Nanos>,
    pub(crate) counters: EngineCounters,
    pub(crate) cpu: Nanos,
    pub(crate) run_delay: Option<Nanos>,
    pub(crate) elapsed: Nanos,
    /// Of a load over connections.
    pub(crate) streams: Option<StreamReport>,
}

/// What a trial brought: its record, and the experiments' times of a lock-step load.
pub(crate) struct Outcome {
    pub(crate) trial: Trial,
    pub(crate) times: Vec<Nanos>,
}

/// A worker's role.
enum Role {
    Measurer(Box<Measurer>),
    LockStep(Box<LockStep>),
    Replay(Box<Replayer>),
}

impl engine::Role for Role {
    #[inline]
    fn handle(
        &mut self,
        now: Nanos,
        rx: &engine::RxBatch,
        tx: &mut engine::TxBatch,
    ) -> engine::Next {
        match self {
            Role::Measurer(role) => role.handle(now, rx, tx),
            Role::LockStep(role) => role.handle(now, rx, tx),
            Role::Replay(role) => role.handle(now, rx, tx),
        }
    }

    #[inline]
    fn sent(&mut self, at: Nanos) {
        match self {
            Role::Measurer(role) => role.sent(at),
            Role::LockStep(role) => role.sent(at),
            Role::Replay(role) => role.sent(at),
        }
    }

    fn quiet(&self) -> Nanos {
        match self {
            Role::Replay(role) => role.quiet(),
            _ => Nanos::ZERO,
        }
    }
}

impl Setup {
    /// How many sockets each worker opens.
    fn sockets_per_worker(&self, workers: usize) -> usize {
        let needed = sockets_for(&self.pacing, self.timeout, workers as u32);
        let wanted = match (self.pacing, self.sockets.sockets) {
            (Pacing::LockStep { .. }, _) => needed,
            (_, Some(asked)) => usize::from(asked).div_ceil(workers),
            (_, None) => needed.max(MIN_SOCKETS.div_ceil(workers)),
        };
        wanted.clamp(1, udp::MAX_SOCKETS)
    }

    /// How many queries an open loop sends.
    pub(crate) fn planned(&self) -> Option<u64> {
        self.pacing.schedule(self.duration, self.seed).map(|schedule| schedule.planned())
    }

    /// The engines, one for each worker.
    fn engines(&self, workers: usize) -> anyhow::Result<Vec<UdpEngine>> {
        let each = self.sockets_per_worker(workers);
        let anywhere: IpAddr = if self.target.is_ipv4() {
            Ipv4Addr::UNSPECIFIED.into()
        } else {
            Ipv6Addr::UNSPECIFIED.into()
        };
        let addresses =
            self.sockets.source.map_or(vec![anywhere], |source| source.addresses(each * workers));
        if addresses[0].is_ipv4() != self.target.is_ipv4() {
            return Err(anyhow!(
                "--source {} and the target {} are of different families",
                addresses[0],
                self.target
            ));
        }
        if let WorkloadPlan::Replay(_) = self.workload {
            // A socket speaks for many clients, each with an address of its own.
            let (any, udp) = (SocketAddr::new(anywhere, 0), self.sockets.udp(self.pacing));
            let engine = || UdpEngine::server(&vec![any; each], false, udp);
            return (0..workers).map(|_| Ok(engine()?)).collect();
        }
        let all = sources(&addresses, each * workers);
        all.chunks(each)
            .map(|sources| {
                Ok(UdpEngine::client(self.target, sources, self.sockets.udp(self.pacing))?)
            })
            .collect()
    }

    fn plan(&self, worker: u32, workers: u32, sockets: usize) -> Plan {
        Plan {
            pacing: self.pacing,
            duration: self.duration,
            timeout: self.timeout,
            max_burst: Nanos::from_micros(self.sockets.max_burst_us),
            stop_at: self.goal.clone(),
            sockets: sockets as u16,
            seed: self.seed,
            worker,
            workers,
        }
    }

    fn role(
        &self,
        worker: u32,
        workers: u32,
        sockets: usize,
        live: &Arc<Live>,
    ) -> anyhow::Result<Role> {
        if let Pacing::LockStep { threads, experiments } = self.pacing {
            let workload = self.workload.worker(0, 1)?;
            return Ok(Role::LockStep(Box::new(LockStep::new(
                threads,
                experiments,
                self.timeout,
                workload,
                live.clone(),
            )?)));
        }
        let plan = self.plan(worker, workers, sockets);
        if let WorkloadPlan::Replay(replay) = &self.workload {
            let sources = self.sockets.source.map(|source| source.addresses(replay.clients));
            let sources = sources.unwrap_or_default().into();
            let plan = ReplayPlan { plan, speed: replay.speed, target: self.target, sources };
            let recording = replay.recording.clone();
            return Ok(Role::Replay(Box::new(Replayer::new(plan, recording, live.clone()))));
        }
        Ok(Role::Measurer(Box::new(Measurer::new(
            plan,
            self.workload.worker(worker, workers)?,
            live.clone(),
        ))))
    }

    /// Runs the trial; `live` shows its counters, `stop` ends it before its time.
    pub(crate) fn run(&self, live: &Arc<Live>, stop: &Arc<AtomicBool>) -> anyhow::Result<Outcome> {
        sys::raise_open_files();
        let cpus = self.worker_cpus();
        let workers = cpus.len();
        let (cores, drops) = (host::cores(), host::udp_receive_drops());
        let (facts, reports) = match &self.streams {
            None => self.run_datagrams(&cpus, live, stop)?,
            Some(streams) => {
                (streams.facts(workers), self.run_streams(streams, &cpus, live, stop)?)
            }
        };
        let mut pinned: Vec<usize> = cpus.into_iter().flatten().collect();
        pinned.sort_unstable();
        pinned.dedup();
        let foreign = foreign_share(&pinned, &cores, &reports);
        let queue_drops = host::udp_receive_drops().saturating_sub(drops);
        Ok(self.conclude(reports, facts, &pinned, foreign, queue_drops, stop))
    }

    fn run_datagrams(
        &self,
        cpus: &[Option<usize>],
        live: &Arc<Live>,
        stop: &Arc<AtomicBool>,
    ) -> anyhow::Result<(UdpFacts, Vec<Report>)> {
        let workers = cpus.len();
        let engines = self.engines(workers)?;
        let facts = engines[0].facts();
        let roles = (0..workers)
            .map(|w| self.role(w as u32, workers as u32, engines[w].facts().sockets, live));
        let roles = roles.collect::<anyhow::Result<Vec<Role>>>()?;
        let together = Arc::new((Barrier::new(workers), OnceLock::new()));
        let wait = self.wait_mode();
        let threads: Vec<_> = engines
            .into_iter()
            .zip(roles)
            .zip(cpus.to_vec())
            .map(|((engine, role), cpu)| {
                let (together, stop) = (together.clone(), stop.clone());
                std::thread::spawn(move || {
                    worker(engine, role, cpu, wait, (&together.0, &together.1), &stop)
                })
            })
            .collect();
        Ok((facts, gather(threads)?))
    }

    fn run_streams(
        &self,
        streams: &StreamSetup,
        cpus: &[Option<usize>],
        live: &Arc<Live>,
        stop: &AtomicBool,
    ) -> anyhow::Result<Vec<Report>> {
        let workers = cpus.len() as u32;
        let (barrier, start, wait) = (Barrier::new(cpus.len()), OnceLock::new(), self.wait_mode());
        let clients = (0..workers)
            .map(|w| streams.clients(&self.workload, self.plan(w, workers, 0), live.clone()));
        let clients = clients.collect::<anyhow::Result<Vec<_>>>()?;
        std::thread::scope(|scope| {
            let together = (&barrier, &start);
            let threads: Vec<_> = clients
                .into_iter()
                .zip(cpus)
                .map(|(clients, &cpu)| {
                    scope
                        .spawn(move || streams::worker(streams, clients, cpu, wait, together, stop))
                })
                .collect();
            threads
                .into_iter()
                .map(|t| t.join().map_err(|_| anyhow!("a worker panicked"))?)
                .collect()
        })
    }

    /// How the workers wait. A closed loop has no due time to spin for: it sleeps, unless told otherwise,
    /// and leaves more of the host to a server on it (`benches/vs-dnsperf`: 5 % more answers).
    fn wait_mode(&self) -> WaitMode {
        match self.sockets.wait {
            WaitArg::Auto if !self.pacing.is_open_loop() => WaitMode::Sleep,
            arg => arg.into(),
        }
    }

    fn worker_cpus(&self) -> Vec<Option<usize>> {
        match self.pacing {
            // One worker drives all lanes.
            Pacing::LockStep { .. } => self.sockets.workers()[..1].to_vec(),
            _ => {
                let cpus = self.sockets.workers();
                let least = self.streams.as_ref().map_or(1, |s| s.least_workers(sys::open_files()));
                // Workers that are there for their open files only share a core.
                let count = cpus.len().max(least);
                cpus.into_iter().cycle().take(count).collect()
            }
        }
    }

    /// The reports of all workers as one record.
    fn conclude(
        &self,
        reports: Vec<Report>,
        facts: UdpFacts,
        pinned: &[usize],
        foreign: Option<f64>,
        queue_drops: u64,
        stop: &AtomicBool,
    ) -> Outcome {
        let workers = reports.len();
        let (mut cpu, mut run_delay, mut elapsed) = (Nanos::ZERO, None, Nanos::ZERO);
        let mut counters = EngineCounters::default();
        let mut merged: Option<Tally> = None;
        let mut streams: Option<StreamReport> = None;
        let mut times = Vec::new();
        for report in reports {
            cpu += report.cpu;
            elapsed = elapsed.max(report.elapsed);
            run_delay = report
                .run_delay
                .map(|delay| run_delay.unwrap_or(Nanos::ZERO) + delay)
                .or(run_delay);
            counters.merge(&report.counters);
            times.extend(report.times);
            if let Some(report) = report.streams {
                streams.get_or_insert_default().merge(&report);
            }
            match &mut merged {
                None => merged = Some(report.tally),
                Some(all) => all.merge(&report.tally),
            }
        }
        let tally = merged.expect("there is a worker");
        let cores = if pinned.is_empty() { workers } else { pinned.len() };
        let of_cores =
            |time: Nanos| time.as_secs_f64() / elapsed.as_secs_f64().max(1e-9) / cores as f64;
        let interrupted = stop.load(std::sync::atomic::Ordering::Relaxed);
        let open_loop = self.pacing.is_open_loop();
        let evidence = Evidence {
            // An open loop spins; whether it keeps up is what its schedule says.
            tester_busy: (!open_loop && !matches!(self.sockets.wait, WaitArg::Spin))
                .then(|| of_cores(cpu)),
            tester_run_delay: run_delay.map(of_cores).filter(|_| !self.sockets.shared_core),
            foreign_busy: foreign.filter(|_| !self.sockets.shared_core),
            tester_drops: counters.dropped.max(queue_drops),
            complete: tally.sent > 0 && tally.bad() == 0,
            ..Evidence::default()
        };
        let void = self.void(&tally, &evidence, interrupted, open_loop);
        let limiter = match &void {
            Some(void) => void.limiter(),
            // A closed loop is always limited by something.
            None if evidence.complete && !open_loop => {
                Evidence { complete: false, ..evidence.clone() }.limiter()
            }
            None => evidence.limiter(),
        };
        let role_cpu = Cpu {
            user_s: cpu.as_secs_f64(),
            system_s: 0.0,
            softirq_s: None,
            busy: of_cores(cpu),
            run_delay: run_delay.map(of_cores),
            cpus: pinned.to_vec(),
        };
        let drops = Drops {
            tester_receive: evidence.tester_drops,
            tester_send: counters.send_errors,
            ..Drops::default()
        };
        let mut trial = self.record(&tally, facts, workers, limiter, void.as_ref());
        trial.cpu = [("tester".to_owned(), role_cpu)].into();
        trial.drops = drops;
        trial.warnings = self.warnings(&tally, &counters, facts);
        if let Some((setup, report)) = self.streams.as_ref().zip(streams) {
            trial.warnings.extend(setup.warnings(&report));
            trial.connections = Some(setup.record(&report));
        }
        trial.conditions.cpus = pinned.to_vec();
        // The workers have only just ended.
        trial.conditions.started_unix_s = Some(unix_now() - elapsed.as_secs_f64());
        Outcome { trial, times }
    }

    fn void(
        &self,
        tally: &Tally,
        evidence: &Evidence,
        interrupted: bool,
        open_loop: bool,
    ) -> Option<Void> {
        if interrupted {
            return Some(Void::Interrupted);
        }
        if tally.sent == 0 {
            return Some(Void::NothingSent);
        }
        let schedule = open_loop.then(|| tally.void(&ScheduleTolerance::default())).flatten();
        evidence.starved().or(schedule)
    }

    /// Doubts about the trial.
    fn warnings(&self, tally: &Tally, counters: &EngineCounters, facts: UdpFacts) -> Vec<Warning> {
        let (bytes, wanted) = (facts.receive_buffer as u64, self.sockets.buffer as u64);
        let all = [
            (
                counters.refused > 0,
                Warning::NobodyListens { times: counters.refused, target: self.target.to_string() },
            ),
            (tally.blocked > 0, Warning::NoFreeId { times: tally.blocked }),
            (counters.send_errors > 0, Warning::NotSent { datagrams: counters.send_errors }),
            (tally.unexpected > 0, Warning::UnexpectedReplies { replies: tally.unexpected }),
            (
                self.streams.is_none() && bytes < wanted,
                Warning::SmallReceiveBuffers { bytes, wanted },
            ),
        ];
        all.into_iter().filter_map(|(doubt, warning)| doubt.then_some(warning)).collect()
    }

    fn record(
        &self,
        tally: &Tally,
        facts: UdpFacts,
        workers: usize,
        limiter: Limiter,
        void: Option<&Void>,
    ) -> Trial {
        let sending = tally.last_sent.since(tally.started);
        let whole = self.pacing.is_timed()
            && !tally.stopped_early
            && !tally.exhausted
            && void != Some(&Void::Interrupted);
        let duration = if whole { self.duration } else { sending };
        let duration_s = duration.as_secs_f64().max(1e-9);
        let reasons = tally.invalid.iter().enumerate().filter(|(_, count)| **count > 0);
        let rcodes = tally.rcodes.iter().enumerate().filter(|(_, count)| **count > 0);
        let passed = self
            .goal
            .as_ref()
            .map(|goal| !tally.stopped_early && goal.met(tally.sent, tally.bad(), &tally.latency));
        Trial {
            schema: SCHEMA,
            planned: tally.planned,
            sent: tally.sent,
            answered: tally.answered,
            valid: tally.valid,
            invalid: reasons
                .map(|(i, n)| {
                    (Invalid::from_index(i).map_or("unknown", Invalid::reason).to_owned(), *n)
                })
                .collect(),
            late: tally.late,
            lost: tally.lost,
            duplicates: tally.duplicates,
            unexpected: tally.unexpected,
            unresolved: tally.unresolved,
            offered_qps: tally.sent as f64 / duration_s,
            answered_qps: tally.answered as f64 / duration_s,
            duration_s,
            latency_us: Times::from(&tally.latency),
            latency_from_send_us: Times::from(&tally.latency_from_send),
            schedule_error_us: Times::from(&tally.schedule_error),
            rcodes: rcodes.map(|(code, n)| (Rcode(code as u16).to_string(), *n)).collect(),
            limiter,
            void: Voidness(void.cloned()),
            goal: self.goal.as_ref().map(ToString::to_string),
            passed,
            stopped_early: tally.stopped_early,
            cpu: Default::default(),
            drops: Drops::default(),
            connections: None,
            series: tally
                .series
                .iter()
                .take(duration_s.ceil() as usize)
                .map(|s| Second { sent: s.sent, valid: s.valid })
                .collect(),
            probes: Vec::new(),
            conditions: self.conditions(facts, workers),
            warnings: Vec::new(),
        }
    }

    fn conditions(&self, facts: UdpFacts, workers: usize) -> Conditions {
        Conditions {
            started_unix_s: None,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            command: command_line(),
            target: self.target.to_string(),
            transport: self
                .streams
                .as_ref()
                .map_or(Transport::Udp.to_string(), StreamSetup::describe),
            workload: self.workload.describe(),
            pacing: match &self.workload {
                WorkloadPlan::Replay(replay) => replay.describe_pacing(),
                _ => self.pacing.describe(),
            },
            timeout_s: self.timeout.as_secs_f64(),
            max_burst_us: self.sockets.max_burst_us as f64,
            sockets: facts.sockets * workers,
            workers,
            cpus: Vec::new(),
            wait: format!("{:?}", self.wait_mode()).to_lowercase(),
            gso: facts.gso,
            gro: facts.gro,
            timestamps: facts.timestamps,
            receive_buffer: facts.receive_buffer,
            seed: self.seed,
            packet_steering: None,
            link: None,
            path: None,
        }
    }
}

/// One worker's thread.
fn worker(
    mut engine: UdpEngine,
    mut role: Role,
    cpu: Option<usize>,
    wait: WaitMode,
    (barrier, start): (&Barrier, &OnceLock<Nanos>),
    stop: &AtomicBool,
) -> anyhow::Result<Report> {
    let pinned = cpu.map_or(Ok(()), |cpu| sys::pin_to_cpus(&[cpu]));
    sys::prepare_for_timing();
    barrier.wait();
    pinned.context("--cpus")?;
    // Whoever is first says when all begin, so that their schedules interleave.
    let start = *start.get_or_init(|| clock::monotonic() + START_DELAY);
    role = match role {
        Role::Measurer(measurer) => Role::Measurer(Box::new(measurer.starting_at(start))),
        Role::Replay(replayer) => Role::Replay(Box::new(replayer.starting_at(start))),
        lockstep => lockstep,
    };
    let (began, cpu_before, delay_before) =
        (clock::monotonic(), clock::thread_cpu_time(), sys::thread_run_delay());
    drive(&mut engine, &mut role, wait, stop)?;
    let run_delay =
        sys::thread_run_delay().zip(delay_before).map(|(after, before)| after.since(before));
    let (cpu, elapsed) =
        (clock::thread_cpu_time().since(cpu_before), clock::monotonic().since(began));
    let (tally, times) = match role {
        Role::Measurer(measurer) => (measurer.into_tally(), Vec::new()),
        Role::Replay(replayer) => (replayer.into_tally(), Vec::new()),
        Role::LockStep(lockstep) => {
            let LockStepResult { tally, times } = lockstep.into_result();
            (tally, times)
        }
    };
    let counters = engine.counters();
    Ok(Report { tally, times, counters, cpu, run_delay, elapsed, streams: None })
}

/// What the workers' threads bring home.
fn gather(threads: Vec<JoinHandle<anyhow::Result<Report>>>) -> anyhow::Result<Vec<Report>> {
    threads.into_iter().map(|t| t.join().map_err(|_| anyhow!("a worker panicked"))?).collect()
}

/// The share of the pinned cores that others used: processes that are not our workers, and the hypervisor.
fn foreign_share(
    pinned: &[usize],
    before: &std::collections::BTreeMap<usize, measure::procfs::CoreTimes>,
    reports: &[Report],
) -> Option<f64> {
    if pinned.is_empty() {
        return None;
    }
    let used = host::sum(&host::cores(), Some(pinned)).since(&host::sum(before, Some(pinned)));
    let own: f64 = reports.iter().map(|report| report.cpu.as_secs_f64() * host::TICKS_PER_S).sum();
    // Below half a second a tick is too coarse a measure.
    (used.total() >= 50).then(|| {
        ((used.processes() as f64 - own).max(0.0) + used.steal as f64) / used.total() as f64
    })
}

/// The command line as it was given.
pub(crate) fn command_line() -> String {
    std::env::args().collect::<Vec<_>>().join(" ")
}
