//! Lock-step load whose threads start anew for each experiment, as in dns64perf2 (Lencse 2016,
//! section III-B).
//!
//! ```text
//! experiment   start ── thread 0: socket, q0, wait, q1, wait, ... q(256/n - 1) ──┐
//!                    ── thread 1: socket, ...                                   ─┼─ all joined: end
//!                    ── thread n-1: ...                                         ─┘
//! ```
//!
//! A thread sends its names in their order and sleeps until each reply. The time of an experiment includes the starts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::{Engine, SocketId, WaitMode, Worker, clock};
use load::lockstep::Span;
use load::{Live, LockStep};
use udp::{UdpEngine, sys};

use crate::error::TesterError;
use crate::host::UseOfCores;
use crate::run::RunResult;
use crate::setup::Setup;
use crate::worker::{Report, Start, WorkerTimes};

/// State of a lane that its threads share.
struct Lane {
    engine: UdpEngine,
    worker: Worker,
    role: LockStep,
    /// CPU use of the lane's threads so far.
    spent: WorkerTimes,
}

impl Setup {
    /// Runs a lock-step load of `threads` threads and `experiments` experiments on the cores `cpus`; on any if there are none.
    pub(crate) fn run_anew(
        &self,
        threads: u32,
        experiments: u32,
        start: &Start,
        cpus: &[usize],
        live: &Arc<Live>,
        stop: &AtomicBool,
    ) -> Result<RunResult, TesterError> {
        let engines = self.engines(threads as usize)?;
        let facts = engines[0].facts();
        let roles = self.lockstep_roles(threads, live)?;
        let mut lanes: Vec<Lane> = engines
            .into_iter()
            .zip(roles)
            .map(|(mut engine, role)| {
                let worker = Worker::new(&mut engine);
                Lane { engine, worker, role, spent: WorkerTimes::default() }
            })
            .collect();
        let before = UseOfCores::now();
        // The threads inherit the cores of the one that starts them.
        let run = || {
            if !cpus.is_empty() {
                sys::pin_to_cpus(cpus).map_err(TesterError::io("--cpus"))?;
            }
            sys::sleep_until(start.time(stop)?);
            self.experiments(&mut lanes, experiments, stop)
        };
        let spans = std::thread::scope(|scope| scope.spawn(run).join());
        let spans = spans.map_err(|_| TesterError::Panicked)??;
        let report = |lane: Lane| Report {
            counters: lane.engine.counters(),
            tally: lane.role.into_result().tally,
            spans: spans.clone(),
            drops: BTreeMap::new(),
            spent: lane.spent,
            connections: None,
        };
        let reports = lanes.into_iter().map(report).collect();
        Ok(RunResult { facts, before, reports, link_lost: None })
    }

    /// Runs the experiments until one is incomplete; returns their start and end times.
    fn experiments(
        &self,
        lanes: &mut [Lane],
        experiments: u32,
        stop: &AtomicBool,
    ) -> Result<Vec<Span>, TesterError> {
        let mut spans = Vec::with_capacity(experiments as usize);
        for number in 1..=experiments as usize {
            let start = clock::monotonic();
            std::thread::scope(|scope| {
                let threads: Vec<_> =
                    lanes.iter_mut().map(|lane| scope.spawn(|| self.thread(lane, stop))).collect();
                let ended =
                    threads.into_iter().map(|t| t.join().map_err(|_| TesterError::Panicked)?);
                ended.collect::<Result<(), TesterError>>()
            })?;
            let is_complete = lanes.iter().all(|lane| lane.role.ended() == number);
            if stop.load(Ordering::Relaxed) || !is_complete {
                break;
            }
            spans.push(Span { start, end: clock::monotonic() });
        }
        Ok(spans)
    }

    /// Does the work of one thread in one experiment.
    fn thread(&self, lane: &mut Lane, stop: &AtomicBool) -> Result<(), TesterError> {
        let before = WorkerTimes::now();
        sys::prepare_for_timing();
        let (sockets, socket) = (&self.request.sockets, SocketId(0));
        let mut source = lane.engine.local_address(socket)?;
        // The old socket keeps a requested port until it is closed.
        if sockets.first_port.is_none() {
            source.set_port(0);
            lane.engine.replace(socket, self.request.target, source, &|_| Ok(()))?;
        }
        let wait = match sockets.wait {
            WaitMode::Auto => WaitMode::Sleep,
            chosen => chosen,
        };
        let spun = lane.worker.drive(&mut lane.engine, &mut lane.role, wait, stop)?;
        let WorkerTimes { elapsed, cpu, .. } = WorkerTimes::since(before, spun);
        // Threads that share a core wait for each other: such a delay is not recorded.
        lane.spent.elapsed += elapsed;
        lane.spent.cpu += cpu;
        Ok(())
    }
}
