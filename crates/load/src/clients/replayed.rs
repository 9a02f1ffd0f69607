//! Replays by clients: each client of a recording is one with its own connections, and sends its own queries.
//!
//! ```text
//! record of client c ── due ──> client c: closed? opens    open? sends     rests, closing, no room?
//!                                                                          held, tried again on every event
//! ```
//!
//! A client's queries leave in the order of the recording: while one of them is held, the later ones are too. Those of
//! other clients do not wait for it. Connections open when a query is due, never before.

use std::collections::VecDeque;
use std::sync::Arc;

use engine::Next;
use engine::stream::{ConnId, Orders};
use measure::Nanos;

use super::{ClientPlan, Clients, ConnectionState, MAX_BURST, MAX_OPTIONS};
use crate::flight::OutstandingTable;
use crate::live::Live;
use crate::population::Population;
use crate::replay::ByHash;
use crate::replay::records::{RecordReader, Recording, Share};

/// Highest number of queries that are held; then all clients wait.
const MAX_HELD: usize = 1 << 16;
/// Number of held queries that are tried again on every event.
const FEW_HELD: usize = 256;
/// Interval at which more than these held queries are tried again.
const HELD_INTERVAL: Nanos = Nanos::from_millis(1);

/// A recording that clients replay.
#[derive(Clone, Debug)]
pub struct ClientReplay {
    /// The queries of all clients.
    pub recording: Recording,
    /// Factor by which the replay is faster than the recording.
    pub speed: f64,
    /// Number of replays of the recording, at least one.
    pub loops: u32,
}

/// The queries of a worker's clients.
#[derive(Debug)]
pub(super) struct Script {
    records: RecordReader,
    /// Number of the queries that this worker's clients send.
    pub(super) planned: u64,
    speed: f64,
    /// Number of workers: a client of the recording is number client / workers here.
    workers: u32,
    held: VecDeque<HeldQuery>,
    /// Whether a client with held queries may have room again since the last attempt.
    room: bool,
    /// Time of the last attempt to send the held queries, and of the next one.
    tried: Nanos,
    again: Nanos,
}

/// A query whose client could not send when it was due.
#[derive(Debug)]
struct HeldQuery {
    conn: ConnId,
    due: Nanos,
    hash: u32,
    query: Box<[u8]>,
}

impl Clients {
    /// Makes the clients of one worker, which send its share of a recording. The pacing, the order and the number of
    /// clients of `plan` are not used.
    ///
    /// # Panics
    /// When the recording has no client for the worker.
    pub fn replaying(plan: ClientPlan, replay: ClientReplay, live: Arc<Live>) -> Self {
        let ClientReplay { recording, speed, loops } = replay;
        let (worker, workers) = (plan.plan.worker, plan.plan.workers);
        let own = (worker..recording.clients()).step_by(workers as usize);
        let queries: u64 = own.clone().map(|client| recording.of_client(client).queries).sum();
        let most = plan.outstanding;
        // Each client is chosen by its queries.
        let population = Population { random_order: true, ..plan.population };
        let plan = ClientPlan { clients: own.count() as u32, population, ..plan };
        let pipeline = |k: u32| recording.of_client(k * workers + worker).peak.clamp(1, most);
        let mut clients = Clients::with_pipelines(plan, Box::new(ByHash), live, false, pipeline);
        let share = Share::Clients { worker, workers };
        clients.script = Some(Script {
            records: RecordReader::new(recording, share, loops),
            planned: queries.saturating_mul(loops.into()),
            speed,
            workers,
            held: VecDeque::new(),
            room: false,
            tried: Nanos::ZERO,
            again: Nanos::MAX,
        });
        clients
    }

    /// Notes that a client may have room again for a held query.
    pub(super) fn notice_room(&mut self, conn: ConnId) {
        if let Some(script) = &mut self.script
            && self.clients[conn as usize].held > 0
        {
            script.room = true;
        }
    }

    /// Notes that a connection is no longer being opened, so that another one may be.
    pub(super) fn notice_opening(&mut self) {
        if let Some(script) = &mut self.script {
            script.room |= !script.held.is_empty();
        }
    }

    /// Sends the recorded queries that are due; returns when to be called again.
    pub(super) fn send_recorded(&mut self, now: Nanos, orders: &mut Orders) -> Next {
        let Some(mut script) = self.script.take() else { return self.drain(now) };
        let next = self.play(&mut script, now, orders);
        self.script = Some(script);
        next
    }

    fn play(&mut self, script: &mut Script, now: Nanos, orders: &mut Orders) -> Next {
        let mut again = self.try_held(script, now, orders);
        for _ in 0..MAX_BURST {
            let Some(record) = script.records.peek() else {
                return if script.held.is_empty() { self.drain(now) } else { self.wake(again) };
            };
            let due = record.due_at(script.speed);
            if due > now {
                return self.wake(due.min(again));
            }
            if self.plan.plan.most_outstanding.is_some_and(|most| self.in_flight >= most) {
                self.outcomes.tally.stopped_early = true;
                return self.drain(now);
            }
            let conn = record.client / script.workers;
            let query = script.records.query(&record);
            if self.clients[conn as usize].held == 0 && self.may_send(conn, now, orders) {
                self.send_query(conn, due, record.hash, query, now, orders);
            } else if script.held.len() < MAX_HELD {
                let held = HeldQuery { conn, due, hash: record.hash, query: query.into() };
                script.held.push_back(held);
                self.clients[conn as usize].held += 1;
                again = again.min(due + self.plan.plan.timeout).min(self.opens_at(conn));
                script.again = script.again.min(again);
            } else {
                self.outcomes.tally.blocked += 1;
                return self.wake(again);
            }
            script.records.advance();
        }
        Next::Now
    }

    /// Sends the held queries whose clients may send now, and counts the ones whose timeout is over
    /// as lost; returns when to try again at the latest.
    fn try_held(&mut self, script: &mut Script, now: Nanos, orders: &mut Orders) -> Nanos {
        if script.held.is_empty() {
            script.again = Nanos::MAX;
            return Nanos::MAX;
        }
        let pause = if script.held.len() > FEW_HELD { HELD_INTERVAL } else { Nanos::ZERO };
        if now < script.tried + pause {
            return script.tried + pause;
        }
        if !std::mem::take(&mut script.room) && now < script.again {
            return script.again;
        }
        let mut again = Nanos::MAX;
        for _ in 0..script.held.len() {
            let Some(held) = script.held.pop_front() else { break };
            let deadline = held.due + self.plan.plan.timeout;
            if self.may_send(held.conn, now, orders) {
                // The wait is no error of the Tester.
                self.room_since = now;
                self.send_query(held.conn, held.due, held.hash, &held.query, now, orders);
            } else if deadline <= now {
                self.count_unserved(self.plan.mix.kind(held.conn), now, 1);
            } else {
                again = again.min(deadline).min(self.opens_at(held.conn));
                script.held.push_back(held);
                continue;
            }
            self.clients[held.conn as usize].held -= 1;
        }
        (script.tried, script.again) = (now, again);
        again
    }

    /// Returns when a client without a connection may open one; `MAX` for any other client.
    fn opens_at(&self, conn: ConnId) -> Nanos {
        let client = &self.clients[conn as usize];
        match client.state {
            ConnectionState::Closed => self.earliest_open().max(client.rests_until),
            _ => Nanos::MAX,
        }
    }

    /// Returns whether a client has room for a query now; opens its connection if it has none.
    fn may_send(&mut self, conn: ConnId, now: Nanos, orders: &mut Orders) -> bool {
        // Queries that were turned away are sent again first.
        if !self.clients[conn as usize].turned_away.is_empty() {
            return false;
        }
        if self.opens_at(conn) <= now {
            self.open(conn, now, orders);
        }
        self.room(conn) > 0
    }

    /// Sends a query that was due at `due`.
    fn send_query(
        &mut self,
        conn: ConnId,
        due: Nanos,
        hash: u32,
        query: &[u8],
        now: Nanos,
        orders: &mut Orders,
    ) {
        let (client, population) = (&mut self.clients[conn as usize], &self.plan.population);
        // A length has 16 bits.
        let changes =
            population.changes_queries() && query.len() + MAX_OPTIONS <= usize::from(u16::MAX);
        let room = query.len() + if changes { MAX_OPTIONS } else { 0 };
        let id = client.pipeline.launch(due, hash);
        let mut sent = query.len();
        orders.send(conn, room, |out| {
            out[..query.len()].copy_from_slice(query);
            out[..2].copy_from_slice(&id.to_be_bytes());
            if changes {
                let padding = population.padding.into();
                sent = wire::extend::extend(out, query.len(), &client.options, padding)
                    .unwrap_or(query.len());
            }
            if population.keeps_queries() {
                client.kept.keep(&out[..sent]);
            }
            sent
        });
        client.queries_sent += 1;
        if !client.sending {
            // The wait for the connection is no error of the Tester.
            self.outcomes.tally.schedule_error.record(now.since(due.max(self.room_since)));
        }
        self.outcomes.tally.query_bytes += sent as u64;
        self.in_flight += 1;
    }
}
