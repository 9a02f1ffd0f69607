//! Replay: sends the queries of a capture at their times and from their clients, as far as there are addresses.
//!
//! ```text
//! capture ──Recorder, one pass──> unlinked temporary file ──RecordReader, chunks──> Replayer (a role)
//!                                 records: due | hash | client | length | query
//! ```
//!
//! A recording of any length takes constant memory. Each worker takes every n-th record. A message is sent as it
//! was except for its id, since queries of different clients with the same id may share a socket.
//!
//! No query is held to leave together with others and none is paced, since a replay must keep the bursts of the
//! capture. Replies wait while a query is about to leave. This does not change their latencies, since the kernel
//! timestamps them.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use engine::{Destination, Next, Role, RxBatch, SocketId, TxBatch, UNSEEN};
use measure::Nanos;
use wire::{Expect, Header, Invalid, reply};

use crate::flight::OutstandingTable;
use crate::live::{GoalWatch, Live};
use crate::outcome::Outcomes;
use crate::plan::Plan;
use crate::rings::Rings;
use crate::tally::Tally;
use crate::workload::file::check_by_hash;
use crate::workload::{Composed, Workload};

/// Longest query in bytes: as much as a datagram holds.
pub(crate) const MAX_REPLAYED: usize = 65_507;
/// Bytes read at a time.
const CHUNK: usize = 256 << 10;
/// Bytes in front of each query: due time (8), hash of the question (4), client (4), length (2).
const HEAD: usize = 18;
/// Highest number of queries composed in one call; then the batch leaves and replies are received.
const MAX_BURST: usize = 512;
/// Time before a due query during which no replies are received: about as long as receiving a few of them
/// takes.
const QUIET: Nanos = Nanos::from_micros(20);

/// Records the queries of a capture.
pub struct Recorder {
    out: BufWriter<File>,
    first: Option<Nanos>,
    last: Nanos,
    len: u64,
    queries: u64,
}

impl Recorder {
    /// Starts an empty recording.
    ///
    /// # Errors
    /// When the temporary file cannot be created.
    pub fn new() -> io::Result<Self> {
        let out = BufWriter::with_capacity(CHUNK, tempfile::tempfile()?);
        Ok(Recorder { out, first: None, last: Nanos::ZERO, len: 0, queries: 0 })
    }

    /// Adds a query that arrived `at` from client number `client`. Returns whether it can be replayed: it
    /// needs a header and must fit a datagram. A query that is older than the one before it gets the same due
    /// time.
    ///
    /// # Errors
    /// When the temporary file cannot be written.
    pub fn add(&mut self, at: Nanos, client: u32, query: &[u8]) -> io::Result<bool> {
        if Header::read(query).is_none() || query.len() > MAX_REPLAYED {
            return Ok(false);
        }
        let first = *self.first.get_or_insert(at);
        self.last = self.last.max(at.since(first));
        let hash = reply::question(query).map_or(0, reply::question_hash);
        self.out.write_all(&self.last.0.to_le_bytes())?;
        self.out.write_all(&hash.to_le_bytes())?;
        self.out.write_all(&client.to_le_bytes())?;
        self.out.write_all(&(query.len() as u16).to_le_bytes())?;
        self.out.write_all(query)?;
        self.len += (HEAD + query.len()) as u64;
        self.queries += 1;
        Ok(true)
    }

    /// Returns the recording; `None` without queries.
    ///
    /// # Errors
    /// When the temporary file cannot be written.
    pub fn finish(self) -> io::Result<Option<Recording>> {
        let Recorder { out, last: span, len, queries, .. } = self;
        let records = Arc::new(out.into_inner().map_err(io::IntoInnerError::into_error)?);
        Ok((queries > 0).then_some(Recording { records, len, queries, span }))
    }
}

/// A recording: queries with their due times.
#[derive(Clone, Debug)]
pub struct Recording {
    records: Arc<File>,
    len: u64,
    /// Number of queries.
    pub queries: u64,
    /// Time from the first query to the last.
    pub span: Nanos,
}

/// One query of a recording.
#[derive(Clone, Debug)]
struct Recorded {
    due: Nanos,
    hash: u32,
    client: u32,
    query: std::ops::Range<usize>,
}

/// Reads the records of one worker.
#[derive(Debug)]
struct RecordReader {
    recording: Recording,
    chunk: Vec<u8>,
    /// Position of the chunk in the file.
    chunk_at: u64,
    /// Position of the next record in the file.
    at: u64,
    /// Number of records of other workers between two of this worker.
    skip: u32,
}

impl RecordReader {
    fn new(recording: Recording, worker: u32, workers: u32) -> Self {
        let chunk = Vec::with_capacity(CHUNK);
        let mut records = RecordReader { recording, chunk, chunk_at: 0, at: 0, skip: workers - 1 };
        records.skip_records(worker);
        records
    }

    /// Returns the next record, read in if necessary; `None` at the end.
    #[inline]
    fn peek(&mut self) -> Option<Recorded> {
        if self.at >= self.recording.len {
            return None;
        }
        if let Some(found) = self.in_chunk() {
            return Some(found);
        }
        self.chunk.resize(CHUNK.min((self.recording.len - self.at) as usize), 0);
        self.recording
            .records
            .read_exact_at(&mut self.chunk, self.at)
            .expect("the unlinked temporary file is as long as it was written");
        self.chunk_at = self.at;
        Some(self.in_chunk().expect("a chunk is longer than a record"))
    }

    #[inline]
    fn in_chunk(&self) -> Option<Recorded> {
        let start = self.at.wrapping_sub(self.chunk_at) as usize;
        let head: &[u8; HEAD] = self.chunk.get(start..)?.first_chunk()?;
        let (due, rest) = head.split_first_chunk()?;
        let (hash, rest) = rest.split_first_chunk()?;
        let (client, rest) = rest.split_first_chunk()?;
        let begin = start + HEAD;
        let end = begin + usize::from(u16::from_le_bytes(*rest.first_chunk()?));
        (end <= self.chunk.len()).then(|| Recorded {
            due: Nanos(u64::from_le_bytes(*due)),
            hash: u32::from_le_bytes(*hash),
            client: u32::from_le_bytes(*client),
            query: begin..end,
        })
    }

    /// Goes to the next record of this worker.
    #[inline]
    fn advance(&mut self) {
        self.skip_records(self.skip + 1);
    }

    fn skip_records(&mut self, count: u32) {
        for _ in 0..count {
            let Some(record) = self.peek() else { return };
            self.at += (HEAD + record.query.len()) as u64;
        }
    }
}

/// Validates replies by the hashes of their questions.
struct ByHash;

impl Workload for ByHash {
    fn next(&mut self, _: &mut [u8]) -> Option<Composed> {
        None
    }

    /// A query without a readable question has no hash: any reply to it is valid.
    fn check(&mut self, key: u32, message: &[u8]) -> Result<u8, Invalid> {
        match (key, Header::read(message)) {
            (0, Some(header)) if header.is_response() => Ok(header.rcode()),
            _ => check_by_hash(key, message, &Expect::Answered),
        }
    }
}

/// Plan of a replay.
#[derive(Clone, Debug)]
pub struct ReplayPlan {
    /// Timeout, sockets, seed and worker; the duration is the recording's span at this speed. The pacing is
    /// not used.
    pub plan: Plan,
    /// Factor by which the replay is faster than the recording.
    pub speed: f64,
    /// Address of the server.
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
        let before = u64::from(worker).min(recording.queries);
        tally.planned = (recording.queries - before).div_ceil(u64::from(workers));
        Replayer {
            records: RecordReader::new(recording, worker, workers),
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
    fn due(&self, record: &Recorded) -> Nanos {
        if self.plan.speed == 1.0 {
            record.due
        } else {
            Nanos((record.due.0 as f64 / self.plan.speed) as u64)
        }
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
            if tx.is_full(record.query.len()) {
                return Next::Now;
            }
            // Queries of a client leave by the same socket, unless it has no free id.
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

    fn launch(&mut self, due: Nanos, socket: usize, record: &Recorded, tx: &mut TxBatch) {
        let ring = self.rings.ring(socket);
        self.last_batch.push((socket as u16, ring.next_sequence()));
        let id = ring.launch(due, record.hash);
        let query = &self.records.chunk[record.query.clone()];
        let sources = &self.plan.sources;
        let from = sources.get(record.client as usize % sources.len().max(1)).copied();
        let (socket, peer) = (SocketId(socket as u16), self.plan.target);
        tx.push(Destination::Peer { socket, peer, from }, query.len(), |out| {
            out[..query.len()].copy_from_slice(query);
            out[..2].copy_from_slice(&id.to_be_bytes());
            query.len()
        });
        self.rings.in_flight += 1;
        self.outcomes.record_sent(due);
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
            self.outcomes.tally.schedule_error.record(lag);
            self.outcomes.tally.disturbances.add_departure(at.since(lag), lag);
        }
    }

    fn quiet(&self) -> Nanos {
        QUIET
    }
}
