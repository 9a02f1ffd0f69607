//! A load that programs in the kernel send and check.
//!
//! ```text
//!   workers' threads   KernelTester::generate, bound to their cores, until they are ended
//!   calling thread     counts, and replies that the programs do not judge ──> load::Collector ──> tally
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use engine::{EngineCounters, clock};
use kernel::KernelTester;
use kernel::tester::{
    EqualSteps, Event, Instants, NameOrder, Order, PlainReply, Questions, TesterPlan, TesterSecond,
    TesterStep,
};
use load::tally::Second;
use load::workload::namespace::{NamespaceExpect, NamespaceSpec};
use load::{Collector, CountedTimes, Live, Step, Steps, Tally};
use measure::counted::SentQuery;
use measure::procfs::{LinkCounters, parse_links};
use measure::{Nanos, Pacing};
use record::TrialRequest;
use udp::{UdpFacts, sys};
use wire::reply::Rcodes;
use wire::{Expect, Qtype};

use crate::agreed::AgreedTime;
use crate::error::{Invalid, TesterError};
use crate::host::UseOfCores;
use crate::kernel_setup::KernelSetup;
use crate::run::RunResult;
use crate::setup::Setup;
use crate::sockets::addresses;
use crate::worker::{Report, WorkerTimes};
use crate::workload::WorkloadPlan;

/// Time beyond the timeout after which a query without an outcome remains unresolved.
const OUTCOME_WAIT: Nanos = Nanos::from_secs(1);

/// Interval between checks of the counts.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);
/// Time from the start of the workers' threads to the start of the schedule, in which the kernel
/// makes their frames.
const START_DELAY: Nanos = Nanos::from_millis(50);
/// Time between two readings of the latencies so far.
const LATENCY_INTERVAL: Nanos = Nanos::from_millis(250);
/// Interval between checks of the device.
const LINK_INTERVAL: Nanos = Nanos::from_millis(500);
/// Number of events that are read at once.
const MOST_EVENTS: usize = 100_000;

/// Returns the replies to names of a namespace that the programs judge by themselves.
fn plain_reply(spec: &NamespaceSpec) -> PlainReply {
    match spec.expect {
        NamespaceExpect::Address if spec.qtype == Qtype::A => PlainReply::Address,
        NamespaceExpect::Embedded(pref64) => PlainReply::Embedded(pref64),
        NamespaceExpect::Same(expect) => any_records(expect),
        _ => PlainReply::Never,
    }
}

/// Returns the replies that the programs judge by themselves if the records are not checked.
fn any_records(expect: Expect) -> PlainReply {
    const NOERROR: u16 = 1;
    const NXDOMAIN: u16 = 1 << 3;
    match expect {
        Expect::Answered => PlainReply::Rcodes(NOERROR | NXDOMAIN),
        Expect::NoError => PlainReply::Rcodes(NOERROR),
        Expect::Rcodes(Rcodes::NXDOMAIN) => PlainReply::Rcodes(NXDOMAIN),
        _ => PlainReply::Never,
    }
}

/// Returns the packets that a device of this network namespace has dropped.
fn dropped_by(device: &str) -> LinkCounters {
    let text = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    parse_links(&text).get(device).copied().unwrap_or_default()
}

impl Setup {
    /// Returns the load for the kernel.
    fn kernel_plan(&self, kernel: &KernelSetup, cpus: &[usize]) -> Result<TesterPlan, Invalid> {
        let (questions, expect) = match (&self.workload, &kernel.listed) {
            (WorkloadPlan::Namespace(spec), _) => (names(spec), plain_reply(spec)),
            (WorkloadPlan::File(_, options, _), Some(listed)) => {
                (Questions::List(listed.order.clone()), any_records(options.expect))
            }
            _ => {
                return Err(Invalid::value(
                    "workload",
                    "the engine `kernel` cannot send this workload: use the engine `sockets`",
                ));
            }
        };
        let TrialRequest { target, pacing, duration, timeout, seed, .. } = self.request;
        let ports = self.sockets_per_worker(cpus.len()).next_power_of_two();
        let sources = self.request.sockets.source;
        let (shift, count) = Collector::instants(duration);
        let steps = self.request.step.map(|length| Steps::new(length, duration));
        let steps =
            steps.map(|steps| EqualSteps { length: steps.length, count: steps.counts.len() });
        Ok(TesterPlan {
            target,
            route: kernel.route.clone(),
            sources: sources
                .map_or(vec![kernel.route.source], |from| addresses(from, ports * cpus.len())),
            questions,
            expect,
            pacing,
            keep_places: self.request.keep_places,
            duration,
            timeout,
            cpus: cpus.to_vec(),
            ports,
            instants: Instants { shift, count },
            steps: steps.unwrap_or_default(),
            seed,
        })
    }

    /// Runs the load in the kernel; the first report has the tally of all workers.
    pub(crate) fn run_in_kernel(
        &self,
        kernel: &KernelSetup,
        agreed: Option<AgreedTime>,
        cpus: &[Option<usize>],
        live: &Arc<Live>,
        stop: &AtomicBool,
    ) -> Result<RunResult, TesterError> {
        let cpus: Vec<usize> = cpus.iter().copied().flatten().collect();
        let plan = self.kernel_plan(kernel, &cpus)?;
        let mut tester = KernelTester::load(&plan)?;
        tester.attach()?;
        let before = dropped_by(&plan.route.device);
        let start = match agreed {
            None => clock::monotonic() + START_DELAY,
            Some(agreed) => {
                agreed.wait(START_DELAY, stop);
                agreed.monotonic().ok_or(TesterError::StartMissed)?
            }
        };
        tester.start_at(start)?;
        let tester = &tester;
        let workers = cpus.len() as u32;
        let mut collector = Collector::new(
            &self.plan(0, workers, tester.ports()),
            self.planned().unwrap_or(0),
            self.workload.worker(0, 1)?,
            live.clone(),
            start,
        );
        // Loading the programs takes a second of a core, which does not count as CPU use of the
        // trial.
        let use_before = UseOfCores::now();
        let (collected, spent) = std::thread::scope(|scope| {
            let threads: Vec<_> =
                cpus.iter().map(|&cpu| scope.spawn(move || generate(tester, cpu))).collect();
            let ended = || threads.iter().any(|thread| thread.is_finished());
            let patience = self.request.timeout + OUTCOME_WAIT;
            let hashes = kernel.listed.as_ref().map(|listed| &*listed.hashes);
            let mut collecting = CollectedLoad { tester, collector: &mut collector, hashes };
            let collected = collecting.run(cpus.len(), patience, &ended, stop);
            while tester.end() {
                sleep(Duration::from_millis(1));
            }
            while collecting.take_events() > 0 {}
            let spent: Result<Vec<WorkerTimes>, TesterError> =
                threads.into_iter().map(|t| t.join().map_err(|_| TesterError::Panicked)?).collect();
            (collected, spent)
        });
        let (spent, unread) = (spent?, collected?);
        let link_lost = (!tester.has_link()).then(|| plan.route.device.clone());
        let dropped = dropped_by(&plan.route.device).since(&before);
        let mut tally = finish(tester, collector)?;
        if matches!(self.request.pacing, Pacing::Poisson { .. }) && !tally.cut_off {
            // The programs draw the gaps as they send: every query that was drawn has left.
            tally.planned = tally.sent;
        }
        let counters = EngineCounters {
            sent: tally.sent,
            received: tally.answered,
            send_errors: dropped.sent,
            dropped: unread + dropped.received,
            ..EngineCounters::default()
        };
        let facts = self.facts(tester.ports());
        let spent = self.busy_times(tester, &tally, spent)?;
        let reports = reports(tally, counters, &spent, self.request.duration);
        Ok(RunResult { facts, before: use_before, reports, link_lost })
    }

    /// Returns the use of the workers without the time in which no query was due.
    fn busy_times(
        &self,
        tester: &KernelTester,
        tally: &Tally,
        spent: Vec<WorkerTimes>,
    ) -> Result<Vec<WorkerTimes>, TesterError> {
        let cut = tally.stopped_early || tally.exhausted;
        let sending =
            if cut { tally.last_sent.since(tally.started) } else { self.request.duration };
        let all_s = sending.as_secs_f64().max(1e-9) * spent.len() as f64;
        let waited = tester.counts()?.waited.as_secs_f64() / all_s;
        Ok(spent.into_iter().map(|spent| spent.idle_for(waited)).collect())
    }

    /// Returns the facts about `ports` source ports, as for sockets.
    fn facts(&self, ports: usize) -> UdpFacts {
        UdpFacts {
            sockets: ports,
            gso: false,
            gro: false,
            timestamps: true,
            drop_counts: true,
            epoll: false,
            // Without sockets there is no receive queue.
            receive_buffer: self.request.sockets.buffer,
            send_buffer: self.request.sockets.buffer,
        }
    }

    /// Checks that this user may load the programs, and that the device takes them.
    ///
    /// # Errors
    /// Names the missing right or feature.
    pub fn probe_kernel(&self) -> Result<(), TesterError> {
        let Some(kernel) = &self.kernel else { return Ok(()) };
        let plan = self.kernel_plan(kernel, &self.request.sockets.cpus)?;
        Ok(KernelTester::load(&plan)?.attach()?)
    }
}

/// Returns a report for each worker; the first one has the tally.
fn reports(
    tally: Tally,
    counters: EngineCounters,
    spent: &[WorkerTimes],
    duration: Nanos,
) -> Vec<Report> {
    let mut whole = Some((tally, counters));
    let report = |spent: &WorkerTimes| {
        let (tally, counters) =
            whole.take().unwrap_or_else(|| (Tally::new(duration), EngineCounters::default()));
        let (spans, drops) = (Vec::new(), BTreeMap::new());
        Report { tally, spans, counters, drops, spent: *spent, connections: None }
    };
    spent.iter().map(report).collect()
}

/// Runs the thread of one worker.
fn generate(tester: &KernelTester, cpu: usize) -> Result<WorkerTimes, TesterError> {
    sys::pin_to_cpus(&[cpu]).map_err(TesterError::io("--cpus"))?;
    sys::prepare_for_timing();
    let before = WorkerTimes::now();
    tester.generate()?;
    Ok(WorkerTimes::since(before, Nanos::ZERO))
}

/// A load whose outcomes are collected.
struct CollectedLoad<'a> {
    tester: &'a KernelTester,
    collector: &'a mut Collector,
    /// Hash of each listed question: the key of its queries in the workload.
    hashes: Option<&'a [u32]>,
}

impl CollectedLoad<'_> {
    /// Collects counts and events until each query has its outcome, `patience` after all workers
    /// have ended by themselves, until a worker has `ended` before its time, the device has lost
    /// its link, or `stop`; returns the number of replies that found no buffer space.
    fn run(
        &mut self,
        workers: usize,
        patience: Nanos,
        ended: &dyn Fn() -> bool,
        stop: &AtomicBool,
    ) -> Result<u64, TesterError> {
        let (mut stopped, mut until) = (false, None);
        let mut next = clock::monotonic() + LATENCY_INTERVAL;
        let mut next_link = next;
        loop {
            sleep(CHECK_INTERVAL);
            let events = self.take_events();
            let (counts, now) = (self.tester.counts()?, clock::monotonic());
            let done = counts.finished == workers;
            // Reading them takes 1.6 ms of the core.
            if now > next && self.collector.needs_latencies() {
                next = now + LATENCY_INTERVAL;
                self.collector.latencies(self.tester.latency()?);
            }
            let stops = self.collector.count(counts.counted, now);
            if stops && !done && !stopped {
                stopped = true;
                self.collector.stop(now);
                self.tester.stop_sending()?;
            }
            let quiet = done && events == 0 && self.collector.outstanding() == 0;
            // Queries without an outcome long after the last timeout stay unresolved.
            let given_up = done && now > *until.get_or_insert(now + patience);
            let mut link_lost = false;
            if now > next_link {
                next_link = now + LINK_INTERVAL;
                link_lost = !self.tester.has_link();
            }
            if quiet || given_up || link_lost || ended() || stop.load(Ordering::Relaxed) {
                return Ok(counts.unread);
            }
        }
    }

    /// Passes the events to the collector; returns their number.
    fn take_events(&mut self) -> usize {
        let (tester, hashes) = (self.tester, self.hashes);
        let query = |query: SentQuery| {
            let hash = |list: &[u32]| list.get(query.key as usize).copied().unwrap_or_default();
            let key = hashes.map_or(query.key, hash);
            SentQuery { key, port: tester.port(query.port), ..query }
        };
        let collector = &mut *self.collector;
        tester.events(MOST_EVENTS, |event| match event {
            Event::Reply(handed) => {
                collector.reply(query(handed.query), handed.at, handed.message);
            }
            Event::Lost(lost) => collector.lost(query(lost)),
            Event::Departures(span) => collector.departures(span),
            Event::Stall { from, until } => collector.stall(from, until),
        })
    }
}

/// Returns the names of a namespace in the order of their queries.
fn names(spec: &NamespaceSpec) -> Questions {
    let parts = spec.parts();
    Questions::Names(NameOrder {
        query: parts.query,
        question: parts.question,
        first: parts.first.into(),
        names: spec.names,
        order: parts.order.map(|o| Order { mask: o.mask, shift: o.shift, keys: o.keys }),
        reuse: spec.reuse,
    })
}

/// Adds the counts that are known after the end.
fn finish(tester: &KernelTester, mut collector: Collector) -> Result<Tally, TesterError> {
    let counts = tester.counts()?;
    collector.count(counts.counted, clock::monotonic());
    let times = tester.times()?;
    let step = |s: &TesterStep| Step {
        sent: s.sent,
        answered: s.answered,
        answered_of_sent: s.answered_of_sent,
        // Replies validated in the kernel have an expected return code.
        failed: 0,
        latency_ns: s.latency_ns,
    };
    let second = |s: &TesterSecond| {
        let (sent, valid) = (s.sent, s.valid);
        let mut second = Second { sent, answered: valid, valid, ..Second::default() };
        second.note_nxdomain(s.nxdomain);
        second
    };
    Ok(collector.finish(&CountedTimes {
        schedule_error: times.schedule_error,
        latency: times.latency,
        latency_from_send: times.latency_from_send,
        series: times.series.iter().map(second).collect(),
        steps: times.steps.iter().map(step).collect(),
        outstanding: times.outstanding,
        last_sent: counts.last_sent,
        last_reply: counts.last_reply,
        exhausted: counts.exhausted,
    }))
}
