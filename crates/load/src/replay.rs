//! Replay: sends the queries of a capture at their times and from their clients, as far as there are addresses.
//!
//! ```text
//! capture ──Recorder, one pass──> unlinked temporary file ──RecordReader, chunks──> Replayer (a role)
//!                                 records: due | hash | client | length | query
//! ```
//!
//! A recording of any length takes constant memory, and 32 bytes for each client. Each worker takes every n-th record. A
//! message is sent as it was except for its id, since queries of different clients with the same id may share a socket.
//! Over connections [`Clients`](crate::Clients) replay a recording: there each client has its own.
//!
//! No query is held to leave together with others and none is paced, since a replay must keep the bursts of the
//! capture. Replies wait while a query is about to leave. This does not change their latencies, since the kernel
//! timestamps them.

pub(crate) mod records;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use engine::{Destination, Next, Role, RxBatch, SocketId, TxBatch, UNSEEN};
use measure::Nanos;
use wire::{Expect, Invalid};

use self::records::{Record, RecordReader, Recording, Share};

use crate::flight::OutstandingTable;
use crate::live::{GoalWatch, Live};
use crate::outcome::Outcomes;
use crate::plan::Plan;
use crate::rings::Rings;
use crate::tally::Tally;
use crate::workload::{ComposedQuery, Workload, check_message};

/// Highest number of queries composed in one call; then the batch leaves and replies are received.
const MAX_BURST: usize = 512;
/// Time before a due query during which no replies are received: about as long as receiving a few of them
/// takes.
const QUIET_TIME: Nanos = Nanos::from_micros(20);

/// Validates replies by the hashes of their questions.
pub(crate) struct ByHash;

impl Workload for ByHash {
    fn next(&mut self, _: &mut [u8]) -> Option<ComposedQuery> {
        None
    }

    fn check(&mut self, key: u32, message: &[u8]) -> Result<u8, Invalid> {
        check_message(key, message, &Expect::Answered)
    }
}

/// Plan of a replay by one worker.
#[derive(Clone, Debug)]
pub struct ReplayPlan {
    /// Timeout, sockets, seed and worker; the duration is the recording's span at this speed. The pacing is
    /// not used.
    pub plan: Plan,
    /// Factor by which the replay is faster than the recording.
    pub speed: f64,
    /// How often the recording is replayed, at least once.
    pub loops: u32,
    /// Address and port of the server.
    pub target: SocketAddr,
    /// Source addresses of the clients, in turn; empty for the host's own address.
    pub sources: Arc<[IpAddr]>,
}

/// The replay of one worker: a role on unconnected sockets, since one socket sends for many clients.
pub struct Replayer {
    plan: ReplayPlan,
    records: RecordReader,
    outcomes: Outcomes,
    rings: Rings,
    start: Option<Nanos>,
    /// Socket and sequence number of each query of the last batch.
    last_batch: Vec<(u16, u64)>,
    watch: GoalWatch,
    draining: bool,
}

impl Replayer {
    /// Makes the replay of one worker's part of `recording`, which adds its counters to `live`.
    ///
    /// # Panics
    /// When the plan has no socket.
    pub fn new(plan: ReplayPlan, recording: Recording, live: Arc<Live>) -> Self {
        let Plan { worker, workers, timeout, duration, .. } = plan.plan;
        let mut tally = Tally::new(duration);
        let all = recording.queries.saturating_mul(plan.loops.into());
        let before = u64::from(worker).min(all);
        tally.planned = (all - before).div_ceil(u64::from(workers));
        let share = Share::Records { worker, workers };
        Replayer {
            records: RecordReader::new(recording, share, plan.loops),
            outcomes: Outcomes::new(Box::new(ByHash), tally, timeout),
            rings: Rings::new(&plan.plan),
            start: None,
            last_batch: Vec::with_capacity(MAX_BURST),
            watch: GoalWatch::new(&plan.plan, live),
            draining: false,
            plan,
        }
    }

    /// Starts the replay at `start` on the engine's clock instead of at the first call.
    pub fn starting_at(mut self, start: Nanos) -> Self {
        self.start = Some(start);
        self
    }

    /// Returns the outcomes of the queries.
    pub fn into_tally(mut self) -> Tally {
        self.outcomes.tally.unresolved = self.rings.in_flight;
        self.watch.show(&self.outcomes.tally);
        self.outcomes.tally
    }

    /// Returns when a record is due.
    fn due(&self, record: &Record) -> Nanos {
        record.due_at(self.plan.speed)
    }

    /// At intervals, expires overdue queries and publishes the counters.
    fn sweep(&mut self, now: Nanos, full: bool) {
        // A reply that arrived in time may not have been received yet.
        let seen = now.since(UNSEEN);
        let lost = self.rings.sweep(now, seen, full, &mut self.outcomes, &mut self.watch);
        if lost && !self.draining {
            self.outcomes.tally.stopped_early = true;
            self.draining = true;
        }
    }

    /// Sends the queries that are due; returns when to be called again.
    fn send_due(&mut self, now: Nanos, tx: &mut TxBatch) -> Next {
        for _ in 0..MAX_BURST {
            let Some(record) = self.records.peek() else {
                self.draining = true;
                return self.rings.drain();
            };
            let due = self.due(&record);
            if due > now {
                return self.rings.wake(due);
            }
            if tx.is_full(record.len()) {
                return Next::Now;
            }
            // Queries of a client leave by the same socket, unless that one has no free id.
            let first = record.client as usize % self.rings.len();
            let sockets = (first..self.rings.len()).chain(0..first);
            let Some(socket) = { sockets }.find(|&socket| self.rings.has_room(socket)) else {
                self.outcomes.tally.blocked += 1;
                return self.rings.wake(Nanos::MAX);
            };
            self.launch(due, socket, &record, tx);
            self.records.advance();
        }
        Next::Now
    }

    fn launch(&mut self, due: Nanos, socket: usize, record: &Record, tx: &mut TxBatch) {
        let ring = self.rings.ring(socket);
        self.last_batch.push((socket as u16, ring.next_sequence()));
        let id = ring.launch(due, record.hash);
        let query = self.records.query(record);
        let sources = &self.plan.sources;
        let from = sources.get(record.client as usize % sources.len().max(1)).copied();
        let (socket, peer) = (SocketId(socket as u16), self.plan.target);
        self.outcomes.tally.query_bytes += query.len() as u64;
        tx.push(Destination::Peer { socket, peer, from }, query.len(), |out| {
            out[..query.len()].copy_from_slice(query);
            out[..2].copy_from_slice(&id.to_be_bytes());
            query.len()
        });
        self.rings.in_flight += 1;
    }
}

impl Role for Replayer {
    fn handle(&mut self, now: Nanos, rx: &RxBatch, tx: &mut TxBatch) -> Next {
        let start = *self.start.get_or_insert(now);
        self.outcomes.tally.started = start;
        self.outcomes.tally.disturbances.started = start;
        self.last_batch.clear();
        for received in rx.iter() {
            let ours = received.peer == self.plan.target;
            let socket = ours.then_some(usize::from(received.socket.0));
            let at = received.at.since(start);
            self.rings.reply(&mut self.outcomes, socket, at, received.bytes);
        }
        if now < start {
            return Next::At(start);
        }
        let now = now.since(start);
        self.sweep(now, rx.is_full());
        let next = if self.draining { self.rings.drain() } else { self.send_due(now, tx) };
        match next {
            Next::At(at) => Next::At(start + at),
            other => other,
        }
    }

    fn sent(&mut self, at: Nanos) {
        let Some(start) = self.start else { return };
        self.outcomes.tally.last_sent = at;
        let at = at.since(start);
        for &(ring, sequence) in &self.last_batch {
            let lag = self.rings.ring(usize::from(ring)).mark_sent(sequence, at);
            self.outcomes.record_departure(at, lag);
        }
    }

    fn quiet(&self) -> Nanos {
        QUIET_TIME
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_to_messages_without_a_question_need_a_good_return_code() {
        // A notification, and the reply with this return code.
        let reply = |rcode| [0, 7, 0xa4, rcode, 0, 0, 0, 0, 0, 0, 0, 0];
        for (rcode, expected) in
            [(0, Ok(0)), (3, Ok(3)), (1, Err(Invalid::Rcode(1))), (4, Err(Invalid::Rcode(4)))]
        {
            assert_eq!(ByHash.check(0, &reply(rcode)), expected);
        }
    }
}
