//! Lock-step load as in dns64perf and dns64perf2 (Lencse 2015, 2016).
//!
//! ```text
//! experiment   256 names          lane 0:  q0, wait, q1, wait, ... q(256/n - 1)
//!                                 ...
//!                                 lane n-1: ...                                   all done -> next experiment
//! ```
//!
//! The time of an experiment begins before its first query leaves. It ends when the last reply arrives or the
//! last timeout passes. In dns64perf the lanes are threads that start anew for each experiment. Here they are
//! sockets of the workers, so that the measured time includes no start of threads. Several workers share the lanes:
//! each has some that follow each other, and their part of the 256 names, and waits for the others after each experiment.
//! If [`LockStepPlan::pauses`] is set, a worker with one lane pauses after each experiment, and a new thread drives it in the next one.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use engine::{Destination, Next, Role, RxBatch, SocketId, TxBatch};
use measure::Nanos;
use measure::pacing::EXPERIMENT;

use crate::flight::Ring;
use crate::live::{Live, Publisher};
use crate::outcome::Outcomes;
use crate::tally::Tally;
use crate::workload::Workload;

/// Longest series of per-second counts. A lock-step load has no fixed duration: it lasts until the server has
/// answered.
const MAX_SERIES: Nanos = Nanos::from_secs(3_600);

/// One lane: sends its queries one after the other.
#[derive(Debug)]
struct Lane {
    ring: Ring,
    /// Number of names that this lane still has to query in this experiment.
    remaining: u32,
    /// Time at which the outstanding query left; `None` without one.
    waiting: Option<Nanos>,
}

/// Settings of a lock-step load, and the part of one worker.
#[derive(Clone, Debug)]
pub struct LockStepPlan {
    /// Number of lanes over all workers, from 1 to 256.
    pub threads: u32,
    /// Number of experiments, one after the other.
    pub experiments: u32,
    /// Time within which a reply counts; then the lane sends its next query.
    pub timeout: Nanos,
    /// Number of the worker, from 0.
    pub worker: u32,
    /// Whether the role is done after each experiment, and begins the next one when it is driven again.
    pub pauses: bool,
    /// What all workers have in common.
    pub rounds: Arc<Rounds>,
}

/// State shared by the workers of a lock-step load: no experiment begins before all have ended the
/// last one.
#[derive(Debug)]
pub struct Rounds {
    workers: u32,
    /// Number of experiments that workers have ended, over all workers.
    ended: AtomicU64,
    /// Whether a worker has stopped before its last experiment.
    over: AtomicBool,
}

impl Rounds {
    /// Returns the common part of `workers` workers.
    pub fn of(workers: u32) -> Arc<Self> {
        Arc::new(Rounds { workers, ended: AtomicU64::new(0), over: AtomicBool::new(false) })
    }

    /// Returns whether all workers have ended `experiments` experiments.
    fn all_ended(&self, experiments: usize) -> bool {
        self.ended.load(Ordering::Acquire) >= u64::from(self.workers) * experiments as u64
    }
}

impl LockStepPlan {
    /// Returns the lanes of the worker.
    fn lanes(&self) -> Range<u32> {
        let first = |worker: u32| {
            (u64::from(self.threads) * u64::from(worker) / u64::from(self.rounds.workers)) as u32
        };
        first(self.worker)..first(self.worker + 1)
    }

    /// Returns the number of the first of the 256 queries of an experiment that belongs to `lane`. Lanes differ by one
    /// query at most.
    fn first_query(&self, lane: u32) -> u32 {
        EXPERIMENT * lane / self.threads
    }
}

/// Begin and end of a worker's part of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Time before the first query left.
    pub start: Nanos,
    /// Time after the last reply or timeout.
    pub end: Nanos,
}

/// Returns the time of each experiment from the spans of all workers; an experiment that a worker did not end has none.
pub fn experiment_times(workers: &[Vec<Span>]) -> Vec<Nanos> {
    let complete = workers.iter().map(Vec::len).min().unwrap_or(0);
    let time = |experiment: usize| {
        let spans = || workers.iter().map(|spans| spans[experiment]);
        let (start, end) = (spans().map(|s| s.start).min()?, spans().map(|s| s.end).max()?);
        Some(end.since(start))
    };
    (0..complete).filter_map(time).collect()
}

/// The role of one worker of a lock-step load; it drives its lanes, each on its own socket.
pub struct LockStep {
    outcomes: Outcomes,
    plan: LockStepPlan,
    lanes: Vec<Lane>,
    spans: Vec<Span>,
    /// Begin of the experiment in progress, since the start; `None` while the worker waits for others.
    experiment_start: Option<Nanos>,
    start: Option<Nanos>,
    last_batch: Vec<usize>,
    live: Publisher,
}

/// Result of a lock-step load.
#[derive(Clone, Debug)]
pub struct LockStepResult {
    /// Begin and end of each completed experiment; [`experiment_times`] joins the spans of all
    /// workers.
    pub spans: Vec<Span>,
    /// Outcomes of the queries of all lanes of the worker.
    pub tally: Tally,
}

/// Error for a number of threads that an experiment cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0} threads: an experiment has {EXPERIMENT} queries, and each thread at least one of them; take 1 to {EXPERIMENT}"
)]
pub struct BadThreads(pub u32);

impl BadThreads {
    /// Checks a number of threads.
    ///
    /// # Errors
    /// Unless it is from 1 to 256.
    pub fn check(threads: u32) -> Result<(), Self> {
        if (1..=EXPERIMENT).contains(&threads) { Ok(()) } else { Err(BadThreads(threads)) }
    }
}

impl LockStep {
    /// Makes the role of one worker, whose lanes are its sockets from 0 on. All workers have the same workload: each
    /// uses its part of every 256 queries.
    ///
    /// # Errors
    /// When the number of threads is not from 1 to 256.
    pub fn new(
        plan: LockStepPlan,
        workload: Box<dyn Workload>,
        live: Arc<Live>,
    ) -> Result<Self, BadThreads> {
        BadThreads::check(plan.threads)?;
        let lanes = plan.lanes();
        let queries = plan.first_query(lanes.end) - plan.first_query(lanes.start);
        let mut tally = Tally::new(MAX_SERIES);
        tally.planned = u64::from(plan.experiments) * u64::from(queries);
        let mut role = LockStep {
            outcomes: Outcomes::new(workload, tally, plan.timeout),
            lanes: (0..lanes.len() as u16)
                .map(|i| Lane { ring: Ring::new(i), remaining: 0, waiting: None })
                .collect(),
            spans: Vec::with_capacity(plan.experiments as usize),
            experiment_start: None,
            start: None,
            last_batch: Vec::with_capacity(lanes.len()),
            live: Publisher::new(live),
            plan,
        };
        role.outcomes.skip(role.plan.first_query(lanes.start));
        Ok(role)
    }

    /// Returns the number of experiments that the worker has ended.
    pub fn ended(&self) -> usize {
        self.spans.len()
    }

    /// Returns the result; queries that still wait count as unresolved.
    pub fn into_result(mut self) -> LockStepResult {
        let waiting = self.lanes.iter().filter(|lane| lane.waiting.is_some());
        self.outcomes.tally.unresolved = waiting.count() as u64;
        self.live.publish(&self.outcomes.tally);
        LockStepResult { spans: self.spans, tally: self.outcomes.tally }
    }

    /// Expires queries after their timeout, so that their lanes continue with the next name.
    fn expire(&mut self, now: Nanos) {
        for lane in &mut self.lanes {
            let lost = lane.ring.expire(now, self.plan.timeout);
            if lost > 0 {
                lane.waiting = None;
                self.outcomes.record_lost(lost);
            }
        }
    }

    /// Sends the next query of every lane that has none outstanding.
    fn send(&mut self, now: Nanos, tx: &mut TxBatch) {
        for (index, lane) in self.lanes.iter_mut().enumerate() {
            if lane.waiting.is_some() || lane.remaining == 0 || !lane.ring.has_room() {
                continue;
            }
            let to = Destination::Connected(SocketId(index as u16));
            let pushed = tx.push(to, self.outcomes.room(), |out| {
                self.outcomes.compose(&mut lane.ring, now, out)
            });
            if !pushed || self.outcomes.tally.exhausted {
                return;
            }
            lane.remaining -= 1;
            lane.waiting = Some(now);
            self.last_batch.push(index);
        }
    }

    /// Ends a complete experiment and begins the next. Returns false when all experiments are done and no
    /// query is outstanding.
    fn next_experiment(&mut self, now: Nanos) -> bool {
        let waiting = self.lanes.iter().any(|lane| lane.waiting.is_some());
        if self.outcomes.tally.exhausted {
            // The experiment in which the names ran out is incomplete and gets no time.
            self.plan.rounds.over.store(true, Ordering::Release);
            return waiting;
        }
        if waiting || self.lanes.iter().any(|lane| lane.remaining > 0) {
            return true;
        }
        if let Some(experiment_start) = self.experiment_start.take() {
            self.end_experiment(experiment_start, now);
            if self.plan.pauses {
                return false;
            }
        }
        if self.spans.len() == self.plan.experiments as usize {
            return false;
        }
        // Read first: a worker may end this experiment, go on and stop between the two reads.
        let over = self.plan.rounds.over.load(Ordering::Acquire);
        if !self.plan.rounds.all_ended(self.spans.len()) {
            // A worker that has stopped ends no further experiment.
            return !over;
        }
        self.experiment_start = Some(now);
        for (number, lane) in self.plan.lanes().zip(&mut self.lanes) {
            lane.remaining = self.plan.first_query(number + 1) - self.plan.first_query(number);
        }
        true
    }

    /// Stores the times of an experiment, and skips the names that other workers query in this one
    /// and the next.
    fn end_experiment(&mut self, start: Nanos, now: Nanos) {
        let began = self.start.unwrap_or_default();
        self.spans.push(Span { start: began + start, end: began + now });
        self.live.publish(&self.outcomes.tally);
        self.live.publish_latency(now, &self.outcomes.tally.latency);
        if self.spans.len() < self.plan.experiments as usize {
            let lanes = self.plan.lanes();
            let rest = EXPERIMENT - self.plan.first_query(lanes.end);
            self.outcomes.skip(rest + self.plan.first_query(lanes.start));
        }
        self.plan.rounds.ended.fetch_add(1, Ordering::AcqRel);
    }
}

impl Role for LockStep {
    fn handle(&mut self, now: Nanos, rx: &RxBatch, tx: &mut TxBatch) -> Next {
        let start = *self.start.get_or_insert(now);
        self.outcomes.tally.started = start;
        self.last_batch.clear();
        for received in rx.iter() {
            let mut lane = self.lanes.get_mut(usize::from(received.socket.0));
            let ring = lane.as_mut().map(|lane| &mut lane.ring);
            let ended = self
                .outcomes
                .record_reply(received.socket.0, ring, received.at.since(start), received.bytes)
                .is_some();
            if let (true, Some(lane)) = (ended, lane) {
                lane.waiting = None;
            }
        }
        let now = now.since(start);
        // After a full batch, replies that arrived in time may still wait in the sockets.
        if !rx.is_full() {
            self.expire(now);
        }
        if !self.next_experiment(now) {
            return Next::Done;
        }
        if !self.outcomes.tally.exhausted {
            self.send(now, tx);
        }
        let expiry = self.lanes.iter().filter_map(|lane| lane.waiting).min();
        expiry.map_or(Next::Now, |sent| Next::At(start + sent + self.plan.timeout))
    }

    fn sent(&mut self, at: Nanos) {
        let Some(start) = self.start else { return };
        self.outcomes.tally.last_sent = at;
        let at = at.since(start);
        for &index in &self.last_batch {
            let Lane { ring, waiting, .. } = &mut self.lanes[index];
            let late = ring.mark_sent(ring.next_sequence() - 1, at);
            self.outcomes.record_departure(at, late);
            *waiting = Some(at);
        }
    }
}
