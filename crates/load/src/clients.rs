//! Clients: the Measurer of connections. It is a role on an engine of streams, as [`Measurer`](crate::Measurer)
//! is one on datagrams, with the same workloads, paces, outcomes and tally.
//!
//! ```text
//!            open            up             all its queries sent and answered
//!   closed ───────> opening ────> open ──────────────────────────> ending ───> closed
//!     ^                │            │ stalled: aborted                            │
//!     │      waits a while after a failure                                        │
//!     └────────────────┴────────────┴─────────────────────────────────────────────┘
//! ```
//!
//! A client has one connection at a time. A query goes to the next client in turn: first to one that may open
//! its connection, so that all clients are soon connected, otherwise to the next one with room for a query.
//! A query for a connection that is still being opened waits in it, so that the wait of the client counts from
//! the due time of the query. The queries that a client gets at the same time leave in one write.

mod again;
mod events;
mod replayed;

use std::collections::VecDeque;
use std::sync::Arc;

use engine::Next;
use engine::stream::{ConnId, Failure, Mix, Orders};
use measure::{Nanos, Qps};

use crate::connections::ConnectionTally;
use crate::kept::KeptQueries;
use crate::live::{GoalWatch, Live};
use crate::outcome::{Outcomes, PIPE_CHECK_INTERVAL};
use crate::pace::{Due, Pace};
use crate::patience::Patience;
use crate::pipeline::Pipeline;
use crate::plan::Plan;
use crate::population::Population;
use crate::stall_watch::StallWatch;
use crate::tally::Tally;
use crate::workload::Workload;

pub use self::replayed::ClientReplay;
use self::replayed::Script;

/// Highest number of queries sent in one call.
const MAX_BURST: u32 = 512;
/// Number of clients that are tried at random before the next in the queue is taken.
const RANDOM_TRIES: u32 = 8;
/// Time that a query waits before other closed clients are tried.
const RANDOM_RETRY_DELAY: Nanos = Nanos::from_micros(100);
/// Highest number of bytes that EDNS options and padding add to a query.
const MAX_OPTIONS: usize = 1_024;
/// Number of queries of all clients that are remembered where they may lose their places before their timeout: 6 MB of memory.
const MAX_REMEMBERED: u32 = 1 << 18;
/// Time that a client waits after its connection has failed before it opens another.
const RECONNECT_DELAY: Nanos = Nanos::from_millis(100);

/// Plan of one worker's clients.
#[derive(Clone, Debug)]
pub struct ClientPlan {
    /// Times at which queries leave, and the duration; `sockets` and `max_burst` are not used here.
    pub plan: Plan,
    /// Number of clients of this worker.
    pub clients: u32,
    /// Number of queries on a connection before it is closed and a new one opened; `None` for no limit.
    pub queries_per_connection: Option<u64>,
    /// Highest number of outstanding queries on one connection.
    pub outstanding: u32,
    /// Highest number of connections that are being opened at the same time.
    pub opening: u32,
    /// Highest rate at which this worker opens connections, per second.
    pub connection_rate: Option<Qps>,
    /// Properties that clients keep over the trial: cookies, subnets, idle times.
    pub population: Population,
    /// Number of this worker's first client among the clients of all workers.
    pub first_client: u32,
    /// The kind of connection of each client, as the engine assigns them.
    pub mix: Mix,
    /// For each kind, whether its transport has no keepalive option (RFC 7828): datagrams, QUIC and HTTP have
    /// none.
    pub no_keepalive: Vec<bool>,
}

/// Result of one worker's clients.
#[derive(Clone, Debug)]
pub struct ClientsResult {
    /// Outcomes of the queries of all these clients.
    pub tally: Tally,
    /// Outcomes of the connections, for each kind.
    pub connections: Vec<ConnectionTally>,
}

/// Phase of a trial over connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientPhase {
    /// Connections are opened and no query leaves; with the number of connections still to try.
    Opening(u32),
    Sending,
    /// Nothing more is sent; the trial ends when each outstanding query is answered or expired.
    Draining,
}

/// State of a client's connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ConnectionState {
    #[default]
    Closed,
    Opening,
    Open,
    /// The connection must be closed; with the failure if that is the reason.
    Ending(Option<Failure>),
}

/// One client with its connection.
#[derive(Debug, Default)]
struct Client {
    state: ConnectionState,
    pipeline: Pipeline,
    /// Number of queries sent on this connection.
    queries_sent: u64,
    /// Whether the client is in the queue of clients with room for a query.
    queued: bool,
    /// Whether the first query of the connection was answered.
    answered: bool,
    /// Whether a query was lost on the connection.
    lost_query: bool,
    /// Whether queries were already handed to the kernel on this connection.
    sending: bool,
    /// Time of the last message, or of the opening, on this connection.
    last_activity: Nanos,
    /// EDNS options of this client's queries, in wire form.
    options: Box<[u8]>,
    /// Queries that were turned away and that wait for the next connection.
    turned_away: Vec<Box<[u8]>>,
    /// Outstanding queries, kept if they may be sent again.
    kept: KeptQueries,
    /// Time before which no connection is opened for them.
    rests_until: Nanos,
    /// Number of replayed queries that wait until the client may send.
    held: u32,
}

impl Client {
    /// Makes the client with number `k` of its worker, with no connection.
    fn new(plan: &ClientPlan, k: u32, pipeline: Pipeline) -> Self {
        let no_keepalive = plan.no_keepalive.get(plan.mix.kind(k)) == Some(&true);
        let keepalive = plan.population.keepalive && !no_keepalive;
        let options = plan.population.options(
            plan.first_client + k % plan.clients,
            plan.plan.seed,
            keepalive,
        );
        Client { pipeline, options: options.into(), ..Client::default() }
    }
}

/// Result of an attempt to send.
enum ClientLaunch {
    Sent,
    /// No client has room for a query; there may be one from this time on.
    Blocked(Nanos),
    /// The workload has no more queries.
    Exhausted,
}

/// The clients of one worker.
pub struct Clients {
    plan: ClientPlan,
    outcomes: Outcomes,
    pace: Pace,
    closed_loop: bool,
    phase: ClientPhase,
    start: Option<Nanos>,
    clients: Vec<Client>,
    rng: measure::Rng,
    /// Queue of clients with room for a query. Some of them may have lost their room since they were queued.
    ready: VecDeque<ConnId>,
    /// Clients without a connection, which may open one.
    closed: VecDeque<ConnId>,
    /// Clients with queries that were turned away. They open their connection before others do.
    turned_away: VecDeque<ConnId>,
    /// Clients whose connection failed, each with the time until which it waits.
    waiting: VecDeque<(Nanos, ConnId)>,
    /// Clients whose connection is closed with the next orders.
    ending: Vec<ConnId>,
    /// Number of connections that are being opened, and that are open.
    opening: u32,
    open: u64,
    /// Earliest time at which the next connection may be opened.
    next_open: Nanos,
    in_flight: u64,
    /// Time from which on a client had room: the schedule error of a query that was due earlier
    /// counts from it.
    room_since: Nanos,
    /// Time at which the query before was due.
    last_due: Nanos,
    blocked: bool,
    next_sweep: Nanos,
    sweep_every: Nanos,
    /// The client at which the next sweep begins.
    sweep_at: usize,
    /// Queries of a recording, if it is replayed.
    script: Option<Script>,
    /// Outcomes of the connections of each kind.
    connections: Vec<ConnectionTally>,
    watch: GoalWatch,
    stalls: StallWatch,
}

impl Clients {
    /// Makes the clients of one worker, which follow `plan` with `workload`. With `open_first`, all
    /// connections are opened before [`begin`](Self::begin).
    ///
    /// # Panics
    /// When there is no client or the plan is lock-step.
    pub fn new(
        plan: ClientPlan,
        workload: Box<dyn Workload>,
        live: Arc<Live>,
        open_first: bool,
    ) -> Self {
        let outstanding = plan.outstanding;
        Self::with_pipelines(plan, workload, live, open_first, |_| outstanding)
    }

    /// Works as [`new`](Self::new); `outstanding` is the highest number of outstanding queries of each client.
    fn with_pipelines(
        plan: ClientPlan,
        workload: Box<dyn Workload>,
        live: Arc<Live>,
        open_first: bool,
        outstanding: impl Fn(u32) -> u32,
    ) -> Self {
        assert!(plan.clients > 0, "a load has at least one client");
        let mut rng = measure::Rng::part(plan.plan.seed, u64::from(plan.plan.worker));
        // A connection that is closed loses the outstanding replies.
        let stays = plan.queries_per_connection.is_none() && plan.population.close_idle.is_none();
        let retry = plan.population.retry;
        let patience = Patience::of(&plan.plan).filter(|_| stays && retry.is_none());
        let remembered = patience.as_ref().map_or(0, |_| MAX_REMEMBERED / plan.clients);
        let client = |k| {
            let most = outstanding(k % plan.clients);
            let pipeline = Pipeline::new(most, remembered, rng.next_u64() as u16);
            Client::new(&plan, k, pipeline)
        };
        let companions = if plan.population.tcp_fallback { plan.clients } else { 0 };
        let clients: Vec<Client> = (0..plan.clients + companions).map(client).collect();
        Clients {
            sweep_every: events::interval(
                plan.plan.timeout.min(retry.unwrap_or(Nanos::MAX)),
                clients.len(),
                patience.is_some(),
            ),
            outcomes: Outcomes::new(workload, Tally::of(&plan.plan), plan.plan.timeout)
                .freeing_places(patience)
                .with_journal(&live),
            pace: Pace::new(&plan.plan, plan.plan.timeout),
            closed_loop: !plan.plan.pacing.is_open_loop(),
            phase: ClientPhase::Opening(if open_first { plan.clients } else { 0 }),
            start: None,
            rng,
            ready: VecDeque::with_capacity(plan.clients as usize),
            closed: (0..plan.clients).collect(),
            turned_away: VecDeque::new(),
            waiting: VecDeque::new(),
            ending: Vec::new(),
            opening: 0,
            open: 0,
            next_open: Nanos::ZERO,
            in_flight: 0,
            room_since: Nanos::ZERO,
            last_due: Nanos::ZERO,
            blocked: false,
            next_sweep: Nanos::ZERO,
            sweep_at: 0,
            clients,
            script: None,
            connections: vec![ConnectionTally::default(); plan.mix.kinds()],
            watch: GoalWatch::new(&plan.plan, live),
            stalls: StallWatch::new(),
            plan,
        }
    }

    /// Returns the number of connections that may be open at once.
    pub fn count(&self) -> usize {
        self.clients.len()
    }

    /// Returns whether clients have companions over TCP, each with the number of its client and [`ClientPlan::clients`].
    pub fn has_companions(&self) -> bool {
        self.clients.len() > self.plan.clients as usize
    }

    /// Returns the kinds of the connections.
    pub fn mix(&self) -> &Mix {
        &self.plan.mix
    }

    /// Returns the number of a client among the clients of all workers.
    pub fn number_of(&self, conn: ConnId) -> u32 {
        let plan = &self.plan;
        match &self.script {
            Some(_) => conn % plan.clients * plan.plan.workers + plan.plan.worker,
            None => plan.first_client + conn % plan.clients,
        }
    }

    /// Starts the schedule at `start` on the engine's clock.
    pub fn begin(&mut self, start: Nanos) {
        self.start = Some(start);
        self.phase = ClientPhase::Sending;
        self.stalls = StallWatch::new();
        self.outcomes.tally.started = start;
        self.outcomes.tally.disturbances.started = start;
        self.next_open = Nanos::ZERO;
        // The clock of these times began before the start.
        self.waiting.iter_mut().for_each(|(until, _)| *until = RECONNECT_DELAY);
        self.clients.iter_mut().for_each(|client| client.last_activity = Nanos::ZERO);
    }

    /// Returns the outcomes of queries and connections; outstanding queries count as unresolved.
    pub fn into_result(mut self) -> ClientsResult {
        let waiting = self.clients.iter().map(|client| client.pipeline.waiting()).sum();
        self.count_unserved(0, self.plan.plan.duration, waiting);
        self.outcomes.tally.unresolved = self.in_flight - waiting;
        self.pace.conclude(&mut self.outcomes.tally);
        if let Some(script) = &self.script {
            self.outcomes.tally.planned = script.planned;
        }
        self.watch.show(&self.outcomes.tally);
        ClientsResult { tally: self.outcomes.into_tally(), connections: self.connections }
    }

    /// Returns the time since the start of the trial, or the engine's time before that.
    fn clock(&self, now: Nanos) -> Nanos {
        now.since(self.start.unwrap_or(Nanos::ZERO))
    }

    /// Returns the number of further queries that a client can send now; one repeated over TCP
    /// keeps its place.
    fn room(&self, conn: ConnId) -> u64 {
        let client = &self.clients[conn as usize];
        let companion = self.clients.get((conn + self.plan.clients) as usize);
        let over_tcp = companion.map_or(0, |companion| companion.pipeline.outstanding());
        if !matches!(client.state, ConnectionState::Opening | ConnectionState::Open) {
            return 0;
        }
        let most = self.plan.outstanding.min(client.pipeline.capacity());
        let pipeline = u64::from(most.saturating_sub(client.pipeline.outstanding() + over_tcp));
        let left = self
            .plan
            .queries_per_connection
            .map_or(u64::MAX, |most| most.saturating_sub(client.queries_sent));
        pipeline.min(left)
    }

    /// Puts a client with room for a query into the queue unless it is already there; for a companion, its client.
    fn enqueue_if_room(&mut self, conn: ConnId) {
        let conn = conn % self.plan.clients;
        if !self.clients[conn as usize].queued && self.room(conn) > 0 {
            self.clients[conn as usize].queued = true;
            self.ready.push_back(conn);
        }
    }

    /// Returns when a connection may be opened; `MAX` while too many connections are being opened.
    fn earliest_open(&self) -> Nanos {
        if self.opening >= self.plan.opening { Nanos::MAX } else { self.next_open }
    }

    /// Opens the connection of the next client that has none, if a connection may be opened now.
    fn open_next(&mut self, now: Nanos, orders: &mut Orders) -> Option<ConnId> {
        if self.closed.is_empty() || self.earliest_open() > now {
            return None;
        }
        // A connection with queries to repeat may be open already.
        while let Some(conn) = self.closed.pop_front() {
            if self.clients[conn as usize].state == ConnectionState::Closed {
                self.open(conn, now, orders);
                return Some(conn);
            }
        }
        None
    }

    /// Opens the connection of a client that has none.
    fn open(&mut self, conn: ConnId, now: Nanos, orders: &mut Orders) {
        if let Some(rate) = self.plan.connection_rate {
            // After a pause the rate is not exceeded to catch up.
            let gap = Nanos((1e9 / rate.get()) as u64);
            self.next_open = self.next_open.max(now.since(gap)) + gap;
        }
        let client = &mut self.clients[conn as usize];
        client.state = ConnectionState::Opening;
        client.pipeline.next_connection();
        (client.queries_sent, client.answered, client.lost_query, client.sending) =
            (0, false, false, false);
        client.last_activity = now;
        self.opening += 1;
        self.connections[self.plan.mix.kind(conn)].attempts += 1;
        orders.open(conn);
    }

    /// Picks a random client that may send; after some that may not, the next in the queue. `None` if none can.
    fn random_client(&mut self, now: Nanos, orders: &mut Orders) -> Option<ConnId> {
        for _ in 0..RANDOM_TRIES {
            let conn = (self.rng.next_u64() % u64::from(self.plan.clients)) as ConnId;
            let state = self.clients[conn as usize].state;
            if state == ConnectionState::Closed && self.earliest_open() <= now {
                self.open(conn, now, orders);
            }
            if self.room(conn) > 0 {
                return Some(conn);
            }
        }
        self.head_of_queue()
    }

    /// Picks the next client in turn: one whose connection is opened now, or the head of the queue.
    fn next_client(&mut self, now: Nanos, orders: &mut Orders) -> Option<ConnId> {
        self.open_next(now, orders).or_else(|| self.head_of_queue())
    }

    /// Takes the first client with room for a query from the queue.
    fn head_of_queue(&mut self) -> Option<ConnId> {
        while let Some(conn) = self.ready.pop_front() {
            self.clients[conn as usize].queued = false;
            if self.room(conn) > 0 {
                return Some(conn);
            }
        }
        None
    }

    /// Composes one query that was due at `due`.
    fn launch(&mut self, due: Nanos, now: Nanos, orders: &mut Orders) -> ClientLaunch {
        let next = if self.plan.population.random_order {
            self.random_client(now, orders)
        } else {
            self.next_client(now, orders)
        };
        let Some(conn) = next else {
            self.blocked = true;
            if self.plan.population.random_order {
                return ClientLaunch::Blocked(now + RANDOM_RETRY_DELAY);
            }
            let rested = self.waiting.front().map_or(Nanos::MAX, |(until, _)| *until);
            let earliest_open = if self.closed.is_empty() { rested } else { self.earliest_open() };
            return ClientLaunch::Blocked(earliest_open);
        };
        if std::mem::take(&mut self.blocked) {
            self.room_since = now;
        }
        let (client, population) = (&mut self.clients[conn as usize], &self.plan.population);
        let changes = population.changes_queries();
        let own = self.outcomes.room();
        let room = (own + if changes { MAX_OPTIONS } else { 0 }).min(usize::from(u16::MAX));
        orders.send(conn, room, |out| {
            let len = self.outcomes.compose(&mut client.pipeline, due, &mut out[..own]);
            let mut whole = len;
            if changes && len > 0 {
                // A message of an unexpected form, or without room for its options, is sent unchanged.
                let padding = population.padding.into();
                whole = wire::extend::extend(out, len, &client.options, padding).unwrap_or(len);
                let octets = &mut self.outcomes.tally.query_bytes;
                *octets = *octets + whole as u64 - len as u64;
            }
            if population.keeps_queries() {
                client.kept.keep(&out[..whole]);
            }
            whole
        });
        if self.outcomes.tally.exhausted {
            return ClientLaunch::Exhausted;
        }
        client.queries_sent += 1;
        if due < self.room_since {
            // The query waited for room, or after queries that did. A backlog leaves at twice the
            // rate of the schedule; queries that are later than that are late because of the
            // Tester.
            let gap = due.since(self.last_due);
            self.room_since = (self.room_since + Nanos(gap.0 / 2)).min(now);
        }
        self.last_due = due;
        if !client.sending {
            // The wait for the connection is no error of the Tester.
            self.outcomes.tally.schedule_error.record(now.since(due.max(self.room_since)));
        }
        self.in_flight += 1;
        self.enqueue_if_room(conn);
        ClientLaunch::Sent
    }

    /// Sends the queries that are due; returns when to be called again.
    fn send_due(&mut self, now: Nanos, orders: &mut Orders) -> Next {
        for burst in 0..MAX_BURST {
            let due = match self.pace.due(now, burst > 0, self.in_flight) {
                Due::Ready(due) => due,
                Due::Wait(until) => return self.wake(until),
                Due::Done => return self.drain(now),
            };
            if self.plan.plan.most_outstanding.is_some_and(|most| self.in_flight >= most) {
                self.outcomes.tally.stopped_early = true;
                return self.drain(now);
            }
            let Some(due) = self.outcomes.there_since(due, now) else {
                return self.wake(now + PIPE_CHECK_INTERVAL);
            };
            match self.launch(due, now, orders) {
                ClientLaunch::Sent => self.pace.advance(),
                ClientLaunch::Blocked(until) if self.closed_loop => {
                    let end = self.plan.plan.duration;
                    return if now >= end { self.drain(now) } else { self.wake(until.min(end)) };
                }
                ClientLaunch::Blocked(until) => {
                    let deadline = due + self.plan.plan.timeout;
                    if now < deadline {
                        return self.wake(until.min(deadline));
                    }
                    // The query has no kind of connection, so that it counts for the first kind.
                    self.count_unserved(0, now, 1);
                    self.pace.advance();
                }
                ClientLaunch::Exhausted => return self.drain(now),
            }
        }
        Next::Now
    }

    /// Counts queries that left on no connection of this kind: none was free within their timeout,
    /// or it failed before they could leave.
    fn count_unserved(&mut self, kind: usize, now: Nanos, queries: u64) {
        self.connections[kind].unserved += queries;
        self.outcomes.record_unserved(now, queries);
    }

    /// Returns when to be called: at `at` or at the next sweep, whichever is earlier.
    fn wake(&self, at: Nanos) -> Next {
        let idle = self.plan.population.close_idle.is_some() && self.open > 0;
        let sweep = if self.in_flight > 0 || idle { self.next_sweep } else { Nanos::MAX };
        match at.min(sweep) {
            Nanos::MAX => Next::Idle,
            at => Next::At(at),
        }
    }

    /// Sends no more queries and waits for those that are outstanding, and for those that gave up
    /// their places.
    fn drain(&mut self, now: Nanos) -> Next {
        self.phase = ClientPhase::Draining;
        let next = if self.in_flight == 0 { Next::Done } else { self.wake(Nanos::MAX) };
        self.outcomes.outlast(next, now)
    }

    /// Queues a client again after one of its queries has ended, or closes its connection after the last
    /// query.
    fn after_query_ended(&mut self, conn: ConnId) {
        self.notice_room(conn);
        let client = &mut self.clients[conn as usize];
        let done = self.plan.queries_per_connection.is_some_and(|most| client.queries_sent >= most);
        if !done {
            self.enqueue_if_room(conn);
        } else if client.pipeline.outstanding() == 0 && client.state == ConnectionState::Open {
            client.state = ConnectionState::Ending(None);
            self.ending.push(conn);
        }
    }

    /// Opens connections before the trial; `Done` when each was tried.
    fn open_all(&mut self, now: Nanos, left: u32, orders: &mut Orders) -> Next {
        let mut left = left;
        while left > 0 && self.open_next(now, orders).is_some() {
            left -= 1;
        }
        self.phase = ClientPhase::Opening(left);
        if left > 0 {
            match self.earliest_open() {
                Nanos::MAX => Next::Idle,
                at => Next::At(at),
            }
        } else if self.opening > 0 {
            Next::Idle
        } else {
            Next::Done
        }
    }
}
