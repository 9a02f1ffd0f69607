//! The Measurer: a role that keeps the schedule, the flight and the tally of one worker.
//!
//! ```text
//! handle(now, rx, tx)   replies ──> flight ──> judged by the workload ──> tally
//!                       time passed ──> expired queries ──> tally
//!                       what is due ──> composed in place ──> flight
//! sent(at)              how late the batch left ──> tally
//! ```
//!
//! A burst of due queries goes through one socket, so that it can leave as one segmented message; the
//! next burst takes the next socket.

use std::sync::Arc;

use measure::{Goal, Nanos, Pacing, Schedule};
use net::{Destination, Next, Role, RxBatch, SocketId, TxBatch};

use crate::flight::{Ring, State};
use crate::tally::{Live, Tally};
use crate::workload::{MAX_QUERY, Workload};

/// Queries composed in one call at most; the batch then leaves, and replies are looked at.
const MAX_BURST: u64 = 512;
/// Queries to one socket before the next one's turn: a segmented message's worth.
const SOCKET_BURST: u64 = 64;
/// How often the goal's latencies are looked at.
const GOAL_INTERVAL: Nanos = Nanos::from_millis(100);
/// A trial that ends early waits no longer than this for what is under way.
const EARLY_DRAIN: Nanos = Nanos::from_millis(250);

/// What a worker shall do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// When queries leave.
    pub pacing: Pacing,
    /// For how long.
    pub duration: Nanos,
    /// A reply counts when it comes within this time.
    pub timeout: Nanos,
    /// How long a due query may be held back to leave together with others.
    pub max_burst: Nanos,
    /// Ends the trial when this goal is missed for certain.
    pub stop_at: Option<Goal>,
    /// How many connected sockets the engine has.
    pub sockets: u16,
    /// Seed of Poisson arrivals and of the ids.
    pub seed: u64,
    /// Which worker this is.
    pub worker: u32,
    /// Of how many.
    pub workers: u32,
}

/// How queries come due.
#[derive(Debug)]
enum Pace {
    Open { schedule: Schedule, hold: Nanos },
    Window { size: u64 },
}

/// Where a trial stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Sending,
    /// Nothing more is sent; ends at the latest then.
    Draining(Nanos),
    Done,
}

/// A run of queries of the last batch: ring, first sequence, count.
type Run = (u16, u64, u64);

/// One worker's Measurer.
pub struct Measurer {
    plan: Plan,
    workload: Box<dyn Workload>,
    pace: Pace,
    phase: Phase,
    rings: Vec<Ring>,
    socket: usize,
    socket_burst: u64,
    in_flight: u64,
    start: Option<Nanos>,
    next_sweep: Nanos,
    sweep_every: Nanos,
    next_goal: Nanos,
    last_batch: Vec<Run>,
    tally: Tally,
    live: Arc<Live>,
}

impl Measurer {
    /// A worker's Measurer that carries out `plan` with `workload`.
    ///
    /// # Panics
    /// When the plan has no socket or is lock-step (that is [`crate::lockstep::LockStep`]'s).
    pub fn new(plan: Plan, workload: Box<dyn Workload>, live: Arc<Live>) -> Self {
        assert!(plan.sockets > 0, "a Measurer needs a socket");
        let mut tally = Tally::new(plan.duration);
        let pace = match plan.pacing {
            Pacing::Window { outstanding } => {
                let (n, w, i) =
                    (u64::from(outstanding), u64::from(plan.workers), u64::from(plan.worker));
                Pace::Window { size: (n / w + u64::from(i < n % w)).max(1) }
            }
            open => {
                let schedule = open
                    .schedule(plan.duration, plan.seed)
                    .expect("an open loop")
                    .shard(plan.worker, plan.workers);
                tally.planned = schedule.planned();
                let gap = Nanos((plan.duration.0 as f64 / tally.planned.max(1) as f64) as u64);
                // At high rates queries wait for company; at low rates each leaves when it is due.
                let hold = if gap.0 * 4 < plan.max_burst.0 { plan.max_burst } else { Nanos::ZERO };
                Pace::Open { schedule, hold }
            }
        };
        let salt = measure::Rng::part(plan.seed, u64::from(plan.worker)).next_u64() as u16;
        let rings = (0..plan.sockets)
            .map(|i| Ring::new(salt.wrapping_add(i.wrapping_mul(0x5851))))
            .collect();
        let sweep_every = Nanos((plan.timeout.0 / 64).clamp(1_000, 1_000_000));
        Measurer {
            workload,
            pace,
            phase: Phase::Sending,
            rings,
            socket: 0,
            socket_burst: 0,
            in_flight: 0,
            start: None,
            next_sweep: Nanos::ZERO,
            sweep_every,
            next_goal: Nanos::ZERO,
            last_batch: Vec::with_capacity(
                (MAX_BURST / SOCKET_BURST) as usize + usize::from(plan.sockets),
            ),
            tally,
            live,
            plan,
        }
    }

    /// What became of the queries; those still outstanding count as unresolved.
    pub fn into_tally(mut self) -> Tally {
        self.tally.unresolved = self.in_flight;
        self.tally.publish(&self.live);
        self.tally
    }

    /// Judges what arrived.
    fn take_replies(&mut self, start: Nanos, rx: &RxBatch) {
        for received in rx.iter() {
            let Some(id) = wire::reply::id(received.bytes) else {
                self.tally.unexpected += 1;
                continue;
            };
            let Some(ring) = self.rings.get_mut(usize::from(received.socket.0)) else { continue };
            let found = ring.find(id);
            let at = received.at.max(start).since(start);
            match found.state {
                State::Free => self.tally.unexpected += 1,
                State::Answered => self.tally.duplicates += 1,
                State::Expired => {
                    self.tally.late += 1;
                    ring.settle(id, State::Answered);
                }
                State::Outstanding if at.since(found.sent) > self.plan.timeout => {
                    // Its time is over, only nobody had looked yet.
                    ring.settle(id, State::Answered);
                    self.in_flight -= 1;
                    self.tally.late += 1;
                    lose(&mut self.tally, self.plan.timeout);
                }
                State::Outstanding => {
                    ring.settle(id, State::Answered);
                    self.in_flight -= 1;
                    self.tally.answered += 1;
                    self.tally.latency.record(at.since(found.due));
                    self.tally.latency_from_send.record(at.since(found.sent));
                    self.tally.rcodes[usize::from(received.bytes.get(3).map_or(0, |b| b & 15))] +=
                        1;
                    match self.workload.check(found.key, received.bytes) {
                        Ok(_) => {
                            self.tally.valid += 1;
                            self.tally.second(found.due).valid += 1;
                        }
                        Err(reason) => self.tally.invalid[reason.index()] += 1,
                    }
                }
            }
        }
    }

    /// Expires what is overdue, from time to time.
    fn sweep(&mut self, now: Nanos) {
        if now < self.next_sweep {
            return;
        }
        self.next_sweep = now + self.sweep_every;
        let timeout = self.plan.timeout;
        for ring in &mut self.rings {
            ring.expire(now, timeout, |_| {
                self.in_flight -= 1;
                lose(&mut self.tally, timeout);
            });
        }
        self.tally.publish(&self.live);
    }

    /// Whether the goal is missed for certain.
    fn is_lost(&mut self, now: Nanos) -> bool {
        let Some(goal) = &self.plan.stop_at else { return false };
        let planned = self.tally.planned;
        if planned == 0 {
            return false;
        }
        if self.tally.bad() as f64 > goal.max_loss * planned as f64 {
            return true;
        }
        if goal.latency.is_empty() || now < self.next_goal {
            return false;
        }
        self.next_goal = now + GOAL_INTERVAL;
        goal.surely_failed(planned, self.tally.bad(), &self.tally.latency)
    }

    /// Composes one query; false when no id is free, or the batch is full, or the workload has ended.
    fn launch(&mut self, due: Nanos, tx: &mut TxBatch) -> Launch {
        if tx.is_full(MAX_QUERY) {
            return Launch::Full;
        }
        let Some(socket) = self.free_socket() else {
            self.tally.blocked += 1;
            return Launch::Blocked;
        };
        let (ring, workload) = (&mut self.rings[socket], &mut self.workload);
        let sequence = ring.next_sequence();
        let mut ended = false;
        tx.push(Destination::Connected(SocketId(socket as u16)), MAX_QUERY, |out| {
            let Some(composed) = workload.next(out) else {
                ended = true;
                return 0;
            };
            let id = ring.launch(due, composed.key);
            out[..2].copy_from_slice(&id.to_be_bytes());
            composed.len
        });
        if ended {
            return Launch::Ended;
        }
        match self.last_batch.last_mut() {
            Some((ring, _, count)) if usize::from(*ring) == socket => *count += 1,
            _ => self.last_batch.push((socket as u16, sequence, 1)),
        }
        self.socket_burst += 1;
        self.in_flight += 1;
        self.tally.sent += 1;
        self.tally.second(due).sent += 1;
        Launch::Sent
    }

    /// The socket whose turn it is, or the next that has a free id.
    fn free_socket(&mut self) -> Option<usize> {
        if self.socket_burst >= SOCKET_BURST {
            self.turn();
        }
        for _ in 0..self.rings.len() {
            if !self.rings[self.socket].is_full() {
                return Some(self.socket);
            }
            self.turn();
        }
        None
    }

    fn turn(&mut self) {
        self.socket = (self.socket + 1) % self.rings.len();
        self.socket_burst = 0;
    }

    /// Sends what is due; when to come again.
    fn send_due(&mut self, now: Nanos, tx: &mut TxBatch) -> Next {
        let mut burst = 0;
        let outcome = loop {
            let due = match &self.pace {
                Pace::Open { schedule, hold } => match schedule.peek() {
                    None => break Launch::Ended,
                    Some(due) if burst == 0 && due + *hold > now => return self.wake(due + *hold),
                    Some(due) if due > now => return self.wake(due + *hold),
                    Some(due) => due,
                },
                Pace::Window { .. } if now >= self.plan.duration => break Launch::Ended,
                Pace::Window { size } if self.in_flight >= *size => {
                    return self.wake(self.plan.duration);
                }
                Pace::Window { .. } => now,
            };
            if burst == MAX_BURST {
                return Next::Now;
            }
            match self.launch(due, tx) {
                Launch::Sent => burst += 1,
                other => break other,
            }
            if let Pace::Open { schedule, .. } = &mut self.pace {
                schedule.advance();
            }
        };
        match outcome {
            Launch::Ended => self.drain(now, self.plan.timeout),
            Launch::Full => Next::Now,
            // Comes again when an answer or an expiry has freed an id.
            Launch::Blocked | Launch::Sent => self.wake(Nanos::MAX),
        }
    }

    /// When to be called: at `at`, or at the next expiry.
    fn wake(&self, at: Nanos) -> Next {
        let sweep = if self.in_flight > 0 { self.next_sweep } else { Nanos::MAX };
        match at.min(sweep) {
            Nanos::MAX => Next::Idle,
            at => Next::At(at),
        }
    }

    /// Sends no more; waits at most `patience` for what is under way.
    fn drain(&mut self, now: Nanos, patience: Nanos) -> Next {
        self.phase = Phase::Draining(now + patience + self.sweep_every);
        Next::At(now)
    }

    /// On the trial's own clock, whose zero is the first call.
    fn step(&mut self, now: Nanos, tx: &mut TxBatch) -> Next {
        self.sweep(now);
        if self.phase == Phase::Sending && self.is_lost(now) {
            self.tally.stopped_early = true;
            return self.drain(now, self.plan.timeout.min(EARLY_DRAIN));
        }
        match self.phase {
            Phase::Sending => self.send_due(now, tx),
            Phase::Draining(end) if self.in_flight > 0 && now < end => self.wake(end),
            Phase::Draining(_) | Phase::Done => {
                self.phase = Phase::Done;
                Next::Done
            }
        }
    }
}

/// What became of an attempt to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Launch {
    Sent,
    Full,
    Blocked,
    Ended,
}

/// Counts a query without a reply in time.
fn lose(tally: &mut Tally, timeout: Nanos) {
    tally.lost += 1;
    tally.latency.record(timeout);
}

impl Role for Measurer {
    fn handle(&mut self, now: Nanos, rx: &RxBatch, tx: &mut TxBatch) -> Next {
        let start = *self.start.get_or_insert(now);
        self.tally.started = start;
        self.last_batch.clear();
        if !rx.is_empty() {
            self.take_replies(start, rx);
        }
        match self.step(now.since(start), tx) {
            Next::At(at) => Next::At(start + at),
            other => other,
        }
    }

    fn sent(&mut self, at: Nanos) {
        let Some(start) = self.start else { return };
        self.tally.last_sent = at;
        let at = at.since(start);
        for &(ring, first, count) in &self.last_batch {
            for sequence in first..first + count {
                let lag = self.rings[usize::from(ring)].left(sequence, at);
                self.tally.schedule_error.record(lag);
            }
        }
    }
}
