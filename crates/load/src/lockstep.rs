//! Lock-step load like that of dns64perf and dns64perf2 (Lencse 2015, 2016).
//!
//! ```text
//! experiment   256 names          lane 0:  q0, wait, q1, wait, ... q(256/n - 1)
//!                                 ...
//!                                 lane n-1: ...                                   all done -> next experiment
//! ```
//!
//! The time of an experiment begins before its first query leaves. It ends when the last reply arrives or the
//! last timeout passes. In dns64perf the lanes are threads that start anew for each experiment. Here they are
//! sockets of one worker, so that the measured time includes no start of threads.

use std::sync::Arc;

use engine::{Destination, Next, Role, RxBatch, SocketId, TxBatch};
use measure::Nanos;
use measure::pacing::EXPERIMENT;

use crate::flight::Ring;
use crate::live::{Live, Publisher};
use crate::outcome::Outcomes;
use crate::tally::Tally;
use crate::workload::{MAX_QUERY, Workload};

/// Longest series of per-second counts. A lock-step load has no fixed duration: it lasts until the server has
/// answered.
const SERIES: Nanos = Nanos::from_secs(3_600);

/// One lane: sends its queries one after the other.
#[derive(Debug)]
struct Lane {
    ring: Ring,
    /// Number of names that this lane still has to query in this experiment.
    remaining: u32,
    /// Time at which the outstanding query left; `None` without one.
    waiting: Option<Nanos>,
}

/// The role of a lock-step load; one worker drives all lanes, each on its own socket.
pub struct LockStep {
    outcomes: Outcomes,
    lanes: Vec<Lane>,
    timeout: Nanos,
    experiments: u32,
    times: Vec<Nanos>,
    experiment_start: Option<Nanos>,
    start: Option<Nanos>,
    last_batch: Vec<usize>,
    live: Publisher,
}

/// Result of a lock-step load.
#[derive(Clone, Debug)]
pub struct LockStepResult {
    /// Duration of each completed experiment.
    pub times: Vec<Nanos>,
    /// Outcomes of the queries.
    pub tally: Tally,
}

/// Error for a number of threads that dns64perf does not accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0} threads do not divide the {EXPERIMENT} names of an experiment evenly; take 1, 2, 4, ... {EXPERIMENT}"
)]
pub struct BadThreads(pub u32);

impl LockStep {
    /// Makes a role with `threads` lanes (sockets 0 to `threads` - 1) that runs `experiments` experiments.
    ///
    /// # Errors
    /// When `threads` is not a power of two up to 256.
    pub fn new(
        threads: u32,
        experiments: u32,
        timeout: Nanos,
        workload: Box<dyn Workload>,
        live: Arc<Live>,
    ) -> Result<Self, BadThreads> {
        if !threads.is_power_of_two() || threads > EXPERIMENT {
            return Err(BadThreads(threads));
        }
        let mut tally = Tally::new(SERIES);
        tally.planned = u64::from(experiments) * u64::from(EXPERIMENT);
        Ok(LockStep {
            outcomes: Outcomes::new(workload, tally, timeout),
            lanes: (0..threads as u16)
                .map(|i| Lane { ring: Ring::new(i), remaining: 0, waiting: None })
                .collect(),
            timeout,
            experiments,
            times: Vec::with_capacity(experiments as usize),
            experiment_start: None,
            start: None,
            last_batch: Vec::with_capacity(threads as usize),
            live: Publisher::new(live),
        })
    }

    /// Returns the result.
    pub fn into_result(mut self) -> LockStepResult {
        let waiting = self.lanes.iter().filter(|lane| lane.waiting.is_some());
        self.outcomes.tally.unresolved = waiting.count() as u64;
        self.live.publish(&self.outcomes.tally);
        LockStepResult { times: self.times, tally: self.outcomes.tally }
    }

    /// Expires queries after their timeout, so that their lanes continue with the next name.
    fn expire(&mut self, now: Nanos) {
        for lane in &mut self.lanes {
            let lost = lane.ring.expire(now, self.timeout);
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
            let pushed =
                tx.push(to, MAX_QUERY, |out| self.outcomes.compose(&mut lane.ring, now, out));
            if !pushed || self.outcomes.tally.exhausted {
                return;
            }
            lane.remaining -= 1;
            lane.waiting = Some(now);
            self.outcomes.record_sent(now);
            self.last_batch.push(index);
        }
    }

    /// Ends a complete experiment and begins the next. Returns false when all experiments are done and no
    /// query is outstanding.
    fn next_experiment(&mut self, now: Nanos) -> bool {
        let waiting = self.lanes.iter().any(|lane| lane.waiting.is_some());
        if self.outcomes.tally.exhausted {
            // The experiment in which the names ran out is incomplete and gets no time.
            return waiting;
        }
        if waiting || self.lanes.iter().any(|lane| lane.remaining > 0) {
            return true;
        }
        if let Some(experiment_start) = self.experiment_start {
            self.times.push(now.since(experiment_start));
            self.live.publish(&self.outcomes.tally);
            self.live.publish_latency(now, &self.outcomes.tally);
        }
        if self.times.len() == self.experiments as usize {
            return false;
        }
        self.experiment_start = Some(now);
        let share = EXPERIMENT / self.lanes.len() as u32;
        self.lanes.iter_mut().for_each(|lane| lane.remaining = share);
        true
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
        expiry.map_or(Next::Now, |sent| Next::At(start + sent + self.timeout))
    }

    fn sent(&mut self, at: Nanos) {
        let Some(start) = self.start else { return };
        self.outcomes.tally.last_sent = at;
        let at = at.since(start);
        for &index in &self.last_batch {
            let Lane { ring, waiting, .. } = &mut self.lanes[index];
            self.outcomes.tally.schedule_error.record(ring.mark_sent(ring.next_sequence() - 1, at));
            *waiting = Some(at);
        }
    }
}
