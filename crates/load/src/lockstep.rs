//! Lock-step load as dns64perf and dns64perf2 make it (Lencse 2015, 2016).
//!
//! ```text
//! experiment   256 names          lane 0:  q0, wait, q1, wait, ... q(256/n - 1)
//!                                 ...
//!                                 lane n-1: ...                                   all done -> next experiment
//! ```
//!
//! An experiment's time runs from before its first query leaves until its last reply has come. The
//! source's lanes are threads that are started anew for each experiment; ours are sockets of one
//! worker, so that its time holds no thread start.

use std::sync::Arc;

use measure::Nanos;
use net::{Destination, Next, Role, RxBatch, SocketId, TxBatch};

use crate::flight::{Ring, State};
use crate::tally::{Live, Tally};
use crate::workload::{MAX_QUERY, Workload};

/// Names of an experiment.
pub const EXPERIMENT: u32 = 256;

/// One lane: asks its names one after the other.
#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    left: u32,
    waiting: Option<Nanos>,
}

/// The role of a lock-step load; one worker drives all lanes, a socket each.
pub struct LockStep {
    workload: Box<dyn Workload>,
    lanes: Vec<Lane>,
    rings: Vec<Ring>,
    timeout: Nanos,
    experiments: u32,
    times: Vec<Nanos>,
    began: Option<Nanos>,
    start: Option<Nanos>,
    last_batch: Vec<usize>,
    tally: Tally,
    live: Arc<Live>,
}

/// What a lock-step load measured.
#[derive(Clone, Debug)]
pub struct LockStepResult {
    /// How long each experiment took.
    pub times: Vec<Nanos>,
    /// What became of the queries.
    pub tally: Tally,
}

/// A number of threads that dns64perf does not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0} threads do not divide the {EXPERIMENT} names of an experiment evenly; take 1, 2, 4, ... {EXPERIMENT}"
)]
pub struct BadThreads(pub u32);

impl LockStep {
    /// `threads` lanes (sockets 0 to `threads` - 1) that carry out `experiments` experiments.
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
        let mut tally = Tally::new(Nanos::from_secs(3_600));
        tally.planned = u64::from(experiments) * u64::from(EXPERIMENT);
        Ok(LockStep {
            workload,
            lanes: vec![Lane::default(); threads as usize],
            rings: (0..threads as u16).map(Ring::new).collect(),
            timeout,
            experiments,
            times: Vec::with_capacity(experiments as usize),
            began: None,
            start: None,
            last_batch: Vec::with_capacity(threads as usize),
            tally,
            live,
        })
    }

    /// What was measured.
    pub fn into_result(mut self) -> LockStepResult {
        self.tally.unresolved =
            self.lanes.iter().filter(|lane| lane.waiting.is_some()).count() as u64;
        LockStepResult { times: self.times, tally: self.tally }
    }

    /// Judges what arrived; answered lanes are free again.
    fn take_replies(&mut self, start: Nanos, rx: &RxBatch) {
        for received in rx.iter() {
            let index = usize::from(received.socket.0);
            let (Some(id), Some(ring)) =
                (wire::reply::id(received.bytes), self.rings.get_mut(index))
            else {
                self.tally.unexpected += 1;
                continue;
            };
            let found = ring.find(id);
            match found.state {
                State::Free => self.tally.unexpected += 1,
                State::Answered => self.tally.duplicates += 1,
                State::Expired => {
                    self.tally.late += 1;
                    ring.settle(id, State::Answered);
                }
                State::Outstanding => {
                    ring.settle(id, State::Answered);
                    self.lanes[index].waiting = None;
                    let latency = received.at.since(start).since(found.due);
                    self.tally.answered += 1;
                    self.tally.latency.record(latency);
                    self.tally.latency_from_send.record(latency);
                    self.tally.rcodes[usize::from(received.bytes.get(3).map_or(0, |b| b & 15))] +=
                        1;
                    match self.workload.check(found.key, received.bytes) {
                        Ok(_) => self.tally.valid += 1,
                        Err(reason) => self.tally.invalid[reason.index()] += 1,
                    }
                }
            }
        }
    }

    /// Lanes whose time is over go on with their next name.
    fn expire(&mut self, now: Nanos) {
        for (lane, ring) in self.lanes.iter_mut().zip(&mut self.rings) {
            if lane.waiting.is_some_and(|sent| sent + self.timeout <= now) {
                lane.waiting = None;
                ring.expire(now, self.timeout, |_| {
                    self.tally.lost += 1;
                    self.tally.latency.record(self.timeout);
                });
            }
        }
    }

    /// Lets every free lane ask its next name.
    fn send(&mut self, now: Nanos, tx: &mut TxBatch) {
        for (index, lane) in self.lanes.iter_mut().enumerate() {
            if lane.waiting.is_some() || lane.left == 0 {
                continue;
            }
            let (ring, workload) = (&mut self.rings[index], &mut self.workload);
            let mut ended = false;
            let pushed =
                tx.push(Destination::Connected(SocketId(index as u16)), MAX_QUERY, |out| {
                    let Some(composed) = workload.next(out) else {
                        ended = true;
                        return 0;
                    };
                    let id = ring.launch(now, composed.key);
                    out[..2].copy_from_slice(&id.to_be_bytes());
                    composed.len
                });
            if ended {
                lane.left = 0;
            } else if pushed {
                lane.left -= 1;
                lane.waiting = Some(now);
                self.tally.sent += 1;
                self.last_batch.push(index);
            }
        }
    }

    /// Ends the experiment that is done and begins the next; whether there is one.
    fn turn(&mut self, now: Nanos) -> bool {
        if self.lanes.iter().any(|lane| lane.left > 0 || lane.waiting.is_some()) {
            return true;
        }
        if let Some(began) = self.began {
            self.times.push(now.since(began));
            self.tally.publish(&self.live);
        }
        if self.times.len() == self.experiments as usize {
            return false;
        }
        self.began = Some(now);
        let share = EXPERIMENT / self.lanes.len() as u32;
        self.lanes.fill(Lane { left: share, waiting: None });
        true
    }
}

impl Role for LockStep {
    fn handle(&mut self, now: Nanos, rx: &RxBatch, tx: &mut TxBatch) -> Next {
        let start = *self.start.get_or_insert(now);
        self.tally.started = start;
        self.last_batch.clear();
        self.take_replies(start, rx);
        let now = now.since(start);
        self.expire(now);
        if !self.turn(now) {
            return Next::Done;
        }
        self.send(now, tx);
        let expiry = self.lanes.iter().filter_map(|lane| lane.waiting).min();
        expiry.map_or(Next::Now, |sent| Next::At(start + sent + self.timeout))
    }

    fn sent(&mut self, at: Nanos) {
        self.tally.last_sent = at;
        let Some(start) = self.start else { return };
        for &index in &self.last_batch {
            let ring = &mut self.rings[index];
            let lag = ring.left(ring.next_sequence() - 1, at.since(start));
            self.tally.schedule_error.record(lag);
        }
    }
}
