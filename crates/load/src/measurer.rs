//! The Measurer: a role with the schedule, the outstanding queries and the tally of one worker.
//!
//! ```text
//! handle(now, rx, tx)   replies ──> flight ──> validated by the workload ──> tally
//!                       timeouts ──> expired queries ──> tally
//!                       due queries ──> composed in place ──> flight
//! sent(at)              schedule error of the batch ──> tally
//! ```
//!
//! Each query goes through the next socket, as from many clients. Where queries may leave as one segmented message, a
//! burst of due ones goes through one socket, and the next burst through the next.

use std::sync::Arc;

use engine::{Destination, Next, Role, RxBatch, SocketId, TxBatch};
use measure::Nanos;

use crate::live::{GoalWatch, Live};
use crate::outcome::{Outcomes, PIPE_CHECK_INTERVAL};
use crate::pace::{Due, Pace};
use crate::patience::Patience;
use crate::plan::Plan;
use crate::rings::Rings;
use crate::stall_watch::StallWatch;
use crate::tally::Tally;
use crate::workload::Workload;

/// Highest number of queries composed in one call; then the batch leaves and replies are received.
const MAX_BURST: u32 = 512;
/// Highest number of queries of a burst to one socket: as many as one segmented message holds.
const SOCKET_BURST: u32 = 64;
/// Phase of a trial over datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Sending,
    /// Nothing more is sent; the trial ends when each outstanding query is answered or expired.
    Draining,
}

/// Consecutive queries of one ring in the last batch.
#[derive(Clone, Copy, Debug)]
struct QueryRun {
    ring: u16,
    first: u64,
    count: u32,
}

impl QueryRun {
    /// Returns whether query `sequence` of the ring of `socket` directly follows this run.
    #[inline]
    fn continues_with(&self, socket: usize, sequence: u64) -> bool {
        usize::from(self.ring) == socket && self.first + u64::from(self.count) == sequence
    }
}

/// The Measurer of one worker.
pub struct Measurer {
    outcomes: Outcomes,
    pace: Pace,
    phase: Phase,
    rings: Rings,
    /// The socket of the current burst, and the number of queries that were sent through it.
    socket: usize,
    socket_burst: u32,
    start: Option<Nanos>,
    last_batch: Vec<QueryRun>,
    watch: GoalWatch,
    /// Whether the queries of a burst go through one socket.
    segmented: bool,
    /// Number of outstanding queries at which the sending ends.
    most_outstanding: u64,
    stalls: StallWatch,
    /// Time of the last call, on the engine's clock.
    called: Nanos,
}

impl Measurer {
    /// Makes the Measurer of one worker, which follows `plan` with `workload` and adds its counters to
    /// `live`, shared by all workers of the trial.
    ///
    /// # Panics
    /// When the plan has no socket or is lock-step ([`crate::lockstep::LockStep`] runs that).
    pub fn new(plan: Plan, workload: Box<dyn Workload>, live: Arc<Live>) -> Self {
        Measurer {
            outcomes: Outcomes::new(workload, Tally::of(&plan), plan.timeout)
                .freeing_places(Patience::of(&plan))
                .with_journal(&live),
            pace: Pace::new(&plan, Nanos::ZERO),
            phase: Phase::Sending,
            rings: Rings::new(&plan),
            socket: 0,
            socket_burst: 0,
            start: None,
            last_batch: Vec::with_capacity(MAX_BURST as usize),
            watch: GoalWatch::new(&plan, live),
            stalls: StallWatch::new(),
            called: Nanos::ZERO,
            segmented: plan.segmented,
            most_outstanding: plan.most_outstanding.unwrap_or(u64::MAX),
        }
    }

    /// Starts the schedule at `start` on the engine's clock instead of at the first call, so that the
    /// schedules of several workers interleave to the whole schedule.
    pub fn starting_at(mut self, start: Nanos) -> Self {
        self.start = Some(start);
        self
    }

    /// Returns the outcomes of the queries; those still outstanding count as unresolved.
    pub fn into_tally(mut self) -> Tally {
        self.outcomes.tally.unresolved = self.rings.in_flight;
        self.pace.conclude(&mut self.outcomes.tally);
        self.watch.show(&self.outcomes.tally);
        self.outcomes.into_tally()
    }

    /// At intervals, expires overdue queries, publishes the counters and checks the goal.
    fn sweep(&mut self, now: Nanos, full: bool) {
        let missed = self.rings.sweep(now, now, full, &mut self.outcomes, &mut self.watch);
        if missed && self.phase == Phase::Sending {
            self.outcomes.tally.stopped_early = true;
            // Outstanding queries still count: the losses of a failed trial include them.
            self.phase = Phase::Draining;
        }
    }

    /// Composes one query that was due at `due`.
    fn launch(&mut self, due: Nanos, tx: &mut TxBatch) -> Launch {
        let room = self.outcomes.room();
        if tx.is_full(room) {
            return Launch::Full;
        }
        let Some(socket) = self.free_socket() else {
            self.outcomes.tally.blocked += 1;
            return Launch::Blocked;
        };
        let ring = self.rings.ring(socket);
        let sequence = ring.next_sequence();
        tx.push(Destination::Connected(SocketId(socket as u16)), room, |out| {
            self.outcomes.compose(ring, due, out)
        });
        if self.outcomes.tally.exhausted {
            return Launch::Exhausted;
        }
        match self.last_batch.last_mut() {
            Some(run) if run.continues_with(socket, sequence) => run.count += 1,
            _ => self.last_batch.push(QueryRun { ring: socket as u16, first: sequence, count: 1 }),
        }
        self.socket_burst += 1;
        self.rings.in_flight += 1;
        Launch::Sent
    }

    /// Returns the socket of the current burst, or the next socket that has a free id.
    #[inline]
    fn free_socket(&mut self) -> Option<usize> {
        let full_message =
            |run: &QueryRun| usize::from(run.ring) == self.socket && run.count >= SOCKET_BURST;
        if self.last_batch.last().is_some_and(full_message) {
            self.turn();
        }
        for _ in 0..self.rings.len() {
            if self.rings.has_room(self.socket) {
                return Some(self.socket);
            }
            self.turn();
        }
        None
    }

    #[inline]
    fn turn(&mut self) {
        self.socket_burst = 0;
        self.socket += 1;
        if self.socket == self.rings.len() {
            self.socket = 0;
        }
    }

    /// Sends the queries that are due; returns when to be called again.
    fn send_due(&mut self, now: Nanos, tx: &mut TxBatch) -> Next {
        for burst in 0..MAX_BURST {
            let due = match self.pace.due(now, burst > 0, self.rings.in_flight) {
                Due::Ready(due) => due,
                Due::Wait(until) => return self.rings.wake(until),
                Due::Done => return self.drain(now),
            };
            if self.rings.in_flight >= self.most_outstanding {
                self.outcomes.tally.stopped_early = true;
                return self.drain(now);
            }
            if burst == 0 || !self.segmented {
                self.turn();
            }
            let Some(due) = self.outcomes.there_since(due, now) else {
                return self.rings.wake(now + PIPE_CHECK_INTERVAL);
            };
            match self.launch(due, tx) {
                Launch::Sent => self.pace.advance(),
                Launch::Full => return Next::Now,
                // Tries again when a reply or an expiry has freed an id.
                Launch::Blocked => return self.rings.wake(Nanos::MAX),
                Launch::Exhausted => return self.drain(now),
            }
        }
        Next::Now
    }

    /// Sends no more queries and waits for those that are outstanding, and for those that lost their places.
    fn drain(&mut self, now: Nanos) -> Next {
        self.phase = Phase::Draining;
        self.outcomes.outlast(self.rings.drain(), now)
    }

    /// Does the work of the current phase; `now` counts from the start of the trial.
    fn step(&mut self, now: Nanos, tx: &mut TxBatch) -> Next {
        match self.phase {
            Phase::Sending => self.send_due(now, tx),
            Phase::Draining => self.drain(now),
        }
    }
}

/// Result of an attempt to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Launch {
    Sent,
    /// The batch has no room.
    Full,
    /// No socket has a free id.
    Blocked,
    /// The workload has no more queries.
    Exhausted,
}

impl Measurer {
    /// Processes the replies, and sends the due queries.
    fn work(&mut self, now: Nanos, rx: &RxBatch, tx: &mut TxBatch) -> Next {
        let start = *self.start.get_or_insert(now);
        self.outcomes.tally.started = start;
        self.outcomes.tally.disturbances.started = start;
        self.last_batch.clear();
        for received in rx.iter() {
            let (socket, at) = (usize::from(received.socket.0), received.at.since(start));
            self.rings.reply(&mut self.outcomes, Some(socket), at, received.bytes);
        }
        if now < start {
            return Next::At(start);
        }
        let now = now.since(start);
        self.sweep(now, rx.is_full());
        self.pace.follow(now, &self.outcomes.tally);
        match self.step(now, tx) {
            Next::At(at) => Next::At(start + at),
            other => other,
        }
    }
}

impl Role for Measurer {
    fn handle(&mut self, now: Nanos, rx: &RxBatch, tx: &mut TxBatch) -> Next {
        if let Some(stall) = self.stalls.called(now) {
            self.outcomes.tally.disturbances.add_stall(stall);
        }
        self.called = now;
        let next = self.work(now, rx, tx);
        self.stalls.returns(now, next);
        next
    }

    fn sent(&mut self, at: Nanos) {
        let Some(start) = self.start else { return };
        self.outcomes.tally.last_sent = at;
        if let Some(stall) = self.stalls.sent(self.called, at) {
            self.outcomes.tally.disturbances.add_stall(stall);
        }
        let at = at.since(start);
        for run in &self.last_batch {
            let ring = self.rings.ring(usize::from(run.ring));
            for sequence in run.first..run.first + u64::from(run.count) {
                let late = ring.mark_sent(sequence, at);
                self.outcomes.record_departure(at, late);
            }
        }
    }
}
