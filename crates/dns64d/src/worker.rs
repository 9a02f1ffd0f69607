//! A worker: a thread with an engine and the role, and a hook that serves both after each step.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use anyhow::Context;
use dns64::plain::ContinuedQuery;
use dns64::streams::{DISCOVERY, FromStreams, ToStreams};
use dns64::{
    Counters, Dns64, Domain, Dump, Gauges, ServerHealth, Settings, Snapshot, SocketChange,
    Statistics,
};
use engine::{Engine, EngineCounters, HookResult, SocketId, WaitMode};
use measure::Nanos;
use measure::any_address;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;
use udp::{Doorbell, UdpEngine, UdpOptions};

use crate::beat::Beat;
use crate::carrier::{Budget, Outgoing, Reservation, Threads};
use crate::files;
use crate::observer::Observer;
use crate::route;
use crate::saver::Saver;

/// Number of random ports that are tried for a socket.
const PORT_TRIES: usize = 32;
/// Highest number of sockets that are opened or changed in one step: all of a worker.
const MAX_CHANGES: usize = 4_096;
/// Interval at which a worker publishes its counters.
const PUBLISH_EVERY: Nanos = Nanos::from_millis(250);
/// Time after a warning about sockets to upstream in which there is no other one.
const WARNING_PAUSE: Nanos = Nanos::from_secs(60);
/// Longest time that pending queries are waited for at the end.
const LAST_ANSWERS: Nanos = Nanos::from_secs(5);
/// Highest number of messages from streams that wait for a worker.
const MAX_INBOX: usize = 16_384;
/// Highest number of messages that a worker takes from its inbox at once: at most 8 MiB.
const TAKEN_AT_ONCE: usize = 128;
/// Highest number of queries that the kernel has begun and that wait for a worker: at most 5 MiB.
const MAX_BEGUN: usize = 4_096;

/// Published state of a worker.
#[derive(Clone, Debug, Default)]
pub(crate) struct Status {
    pub(crate) counters: Counters,
    pub(crate) statistics: Statistics,
    pub(crate) gauges: Gauges,
    pub(crate) health: Vec<ServerHealth>,
    pub(crate) engine: EngineCounters,
    /// Messages of streams that were dropped because a queue was full.
    pub(crate) lost: u64,
}

impl Status {
    /// Adds the state of another worker; the servers are listed once for each worker.
    fn add(&mut self, other: &Status) {
        self.counters.merge(&other.counters);
        self.statistics.merge(&other.statistics);
        self.gauges.merge(&other.gauges);
        self.engine.merge(&other.engine);
        self.health.extend_from_slice(&other.health);
        self.lost += other.lost;
    }

    /// Returns the state of all workers together, as published last.
    pub(crate) fn of_all(workers: &[WorkerHandle]) -> Self {
        let mut sum = Status::default();
        workers.iter().for_each(|worker| sum.add(&lock(&worker.shared.status)));
        sum
    }
}

/// Handle with which other threads reach a worker.
#[derive(Clone)]
pub(crate) struct WorkerHandle {
    bell: Doorbell,
    shared: Arc<SharedServer>,
}

struct SharedServer {
    beat: Beat,
    inbox: Mutex<Inbox>,
    status: Mutex<Status>,
    /// Set when the worker must end once no question is pending.
    ending: AtomicBool,
    /// File to which the worker's cache is written at the end.
    saver: OnceLock<Saver>,
    /// Messages of streams that were dropped because a queue was full.
    lost: AtomicU64,
}

#[derive(Default)]
struct Inbox {
    /// Messages, each with the memory reserved for it.
    messages: VecDeque<(FromStreams, Reservation)>,
    settings: Option<Arc<Settings>>,
    /// Generation of the answers that are copied to the kernel from now on.
    generation: Option<u64>,
    /// Orders of an operator, one at a time.
    orders: Vec<Order>,
    /// Queries that the kernel has begun to resolve.
    begun: Vec<ContinuedQuery>,
    /// Channel for the answer about upstream's prefixes.
    discovery: Option<UnboundedSender<Vec<u8>>>,
}

/// An operator's order to a worker. The worker sends the result to `done`.
pub(crate) enum Order {
    /// Remove answers from the cache; the result is their number.
    Flush { domain: Box<Domain>, done: oneshot::Sender<usize> },
    /// Show some answers of the cache.
    Dump { from: u32, most: usize, done: oneshot::Sender<Dump> },
    /// Query upstream's prefixes; the result is the reply.
    Discover { done: UnboundedSender<Vec<u8>> },
}

impl WorkerHandle {
    /// Gives the worker an order.
    pub(crate) fn order(&self, order: Order) {
        lock(&self.shared.inbox).orders.push(order);
        self.bell.ring();
    }

    /// Passes a message to the worker; returns `false` if its inbox is full, or if there is no memory for it.
    pub(crate) fn send(&self, message: FromStreams, memory: Option<Reservation>) -> bool {
        let mut inbox = lock(&self.shared.inbox);
        let memory = memory.filter(|_| inbox.messages.len() < MAX_INBOX);
        let fits = memory.is_some();
        match memory {
            Some(memory) => inbox.messages.push_back((message, memory)),
            None => drop(self.shared.lost.fetch_add(1, Ordering::Relaxed)),
        }
        drop(inbox);
        self.bell.ring();
        fits
    }

    /// Lets the worker continue a query that the kernel has begun to resolve; without room the
    /// query is dropped and counted.
    pub(crate) fn continue_query(&self, begun: ContinuedQuery) {
        let mut inbox = lock(&self.shared.inbox);
        if inbox.begun.len() < MAX_BEGUN {
            inbox.begun.push(begun);
        } else {
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
        }
        drop(inbox);
        self.bell.ring();
    }

    /// Gives the worker an order after which answers copied to the kernel are of another generation.
    pub(crate) fn order_as(&self, generation: u64, order: Order) {
        let mut inbox = lock(&self.shared.inbox);
        inbox.generation = Some(generation);
        inbox.orders.push(order);
        drop(inbox);
        self.bell.ring();
    }

    /// Gives the worker other settings, and the generation of the answers that it copies to the
    /// kernel; 0: no copies.
    pub(crate) fn reload(&self, generation: u64, settings: Arc<Settings>) {
        let mut inbox = lock(&self.shared.inbox);
        inbox.generation = Some(generation);
        inbox.settings = Some(settings);
        drop(inbox);
        self.bell.ring();
    }

    /// Makes the worker take no more datagrams of clients, end once no question is pending, and write its cache if there is
    /// a file for it.
    pub(crate) fn end(&self, saver: Option<Saver>) {
        saver.into_iter().for_each(|saver| drop(self.shared.saver.set(saver)));
        self.shared.ending.store(true, Ordering::Relaxed);
        self.bell.ring();
    }

    /// Returns the worker's signs of life.
    pub(crate) fn beat(&self) -> &Beat {
        &self.shared.beat
    }

    /// Returns the state that the worker published last.
    pub(crate) fn status(&self) -> Status {
        lock(&self.shared.status).clone()
    }
}

/// Locks a mutex. A panic of its holder cannot have left the data inconsistent.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A worker with open sockets.
pub(crate) struct Worker {
    engine: UdpEngine,
    role: Dns64,
    handle: WorkerHandle,
    /// Number of the worker, for the thread that has its streams.
    number: usize,
    streams: Threads,
    /// Memory of the streams, shared with all workers.
    budget: Budget,
    observer: Observer,
    published: Nanos,
    /// Time until which no further socket that cannot be opened is logged.
    quiet_until: Nanos,
    /// Time at which the end was requested.
    ending_since: Option<Nanos>,
}

impl Worker {
    /// Opens the upstream sockets in addition to the listening ones of `engine`.
    ///
    /// # Errors
    /// When a server cannot be reached; the error names it.
    pub(crate) fn new(
        mut engine: UdpEngine,
        settings: Arc<Settings>,
        seed: [u8; 32],
        number: usize,
        streams: Threads,
        budget: Budget,
        observer: Observer,
    ) -> anyhow::Result<Self> {
        let bell = engine.doorbell()?;
        let now = engine.now();
        let role = Dns64::new(settings, seed, now);
        let shared = Arc::new(SharedServer {
            beat: Beat::new(format!("worker-{number}")),
            inbox: Mutex::default(),
            status: Mutex::default(),
            ending: AtomicBool::new(false),
            saver: OnceLock::new(),
            lost: AtomicU64::new(0),
        });
        let handle = WorkerHandle { bell, shared };
        let mut worker = Worker {
            engine,
            role,
            handle,
            number,
            streams,
            budget,
            observer,
            published: Nanos::ZERO,
            quiet_until: Nanos::ZERO,
            ending_since: None,
        };
        worker.change_sockets(now).context("upstream.servers")?;
        Ok(worker)
    }

    /// Returns a handle of the worker.
    pub(crate) fn handle(&self) -> WorkerHandle {
        self.handle.clone()
    }

    /// Runs until the end is requested and no question is pending.
    ///
    /// # Errors
    /// Errors of the engine from which it cannot recover.
    pub(crate) fn run(mut self, cpu: Option<usize>) -> anyhow::Result<()> {
        if let Some(cpu) = cpu {
            udp::sys::pin_to_cpus(&[cpu]).context("server.cpus")?;
        }
        let stop = AtomicBool::new(false);
        let Worker {
            engine,
            role,
            handle,
            number,
            streams,
            budget,
            observer,
            published,
            quiet_until,
            ending_since,
        } = &mut self;
        engine::drive_with_hook(engine, role, WaitMode::Sleep, &stop, |engine, role| {
            let now = engine.now();
            handle.shared.beat.give();
            let mut result = HookResult::Nothing;
            // Observed messages are passed on before new settings change what is observed.
            role.observed().into_iter().for_each(|observed| observer.pass(observed, now));
            role.mirrored().into_iter().for_each(|mirrored| observer.copy(mirrored));
            if handle.take(role, now) {
                result = HookResult::CallRole;
            }
            if role.has_stream_output() {
                handle.pass_to_streams(role, *number, streams, budget);
            }
            // A change that fails is tried again later.
            if let Err(error) = change_sockets(engine, role, now)
                && now >= *quiet_until
            {
                *quiet_until = now + WARNING_PAUSE;
                tracing::warn!("upstream.servers: {error}");
            }
            if now >= *published + PUBLISH_EVERY {
                *published = now;
                handle.publish(engine, role);
            }
            if handle.shared.ending.load(Ordering::Relaxed) {
                if ending_since.is_none() {
                    // Datagrams that arrive from now on are left to the next server.
                    engine.stop_listening()?;
                }
                let since = *ending_since.get_or_insert(now);
                let is_done = role.gauges().outstanding == 0 && !handle.has_messages(role);
                if is_done || now > since + LAST_ANSWERS {
                    stop.store(true, Ordering::Relaxed);
                }
            }
            Ok(result)
        })?;
        handle.publish(engine, role);
        if let Some(saver) = handle.shared.saver.get() {
            saver.add(|to| role.save(*number, engine.now(), to));
        }
        Ok(())
    }

    /// Stores the answers of a snapshot that belong to this worker.
    pub(crate) fn restore(&mut self, snapshot: &Snapshot) {
        let answers = self.role.restore(self.number, self.engine.now(), snapshot);
        tracing::info!(worker = self.number, answers, "saved cache read");
    }

    fn change_sockets(&mut self, now: Nanos) -> std::io::Result<()> {
        change_sockets(&mut self.engine, &mut self.role, now)
    }
}

impl WorkerHandle {
    /// Returns whether messages of streams wait for the worker.
    fn has_messages(&self, role: &Dns64) -> bool {
        let inbox = lock(&self.shared.inbox);
        !role.inbox_is_empty() || !inbox.messages.is_empty() || !inbox.begun.is_empty()
    }

    /// Passes the messages of the inbox to the role; returns whether there were any.
    fn take(&self, role: &mut Dns64, now: Nanos) -> bool {
        // The inbox is usually empty, and the lock is free.
        let mut inbox = lock(&self.shared.inbox);
        let Inbox { messages, settings, generation, orders, begun, .. } = &mut *inbox;
        let (ordered, generation) = (std::mem::take(orders), generation.take());
        let ready = role.inbox_is_empty();
        let mut any = ready && !(messages.is_empty() && begun.is_empty()) || settings.is_some();
        if let Some(settings) = settings.take() {
            role.reload(settings);
        }
        // The waiting messages are thus limited by the inbox and by what the role took before.
        if ready {
            let taken = messages.len().min(TAKEN_AT_ONCE);
            messages.drain(..taken).for_each(|(message, _)| role.push_from_streams(message));
            let begun = begun.drain(..).map(FromStreams::Begun);
            begun.for_each(|begun| role.push_from_streams(begun));
        }
        drop(inbox);
        for order in ordered {
            // The operator may have disconnected; then the result is dropped.
            match order {
                Order::Flush { domain, done } => drop(done.send(role.flush(&domain))),
                Order::Dump { from, most, done } => {
                    drop(done.send(role.dump(from, most, now)));
                }
                Order::Discover { done } => {
                    lock(&self.shared.inbox).discovery = Some(done);
                    role.push_from_streams(FromStreams::Discovery);
                    any = true;
                }
            }
        }
        // No answer was copied between the new settings, the flush and this line.
        generation.into_iter().for_each(|generation| role.mirror_as(generation));
        any
    }

    /// Passes the messages of the role to the streams, each answer with memory of its client's network.
    fn pass_to_streams(&self, role: &mut Dns64, worker: usize, streams: &Threads, budget: &Budget) {
        let settings = role.settings().clone();
        let upstream_connections = role.upstream_connections();
        for mut message in role.drain_to_streams() {
            let mut reservation = None;
            match &mut message {
                ToStreams::Answer { stream: DISCOVERY, message, .. } => {
                    self.discovered(std::mem::take(message));
                    continue;
                }
                ToStreams::Answer { client, message, .. } => {
                    let network = settings.config.limits.network_of(*client);
                    reservation = budget.account(network).take(message.len());
                    if reservation.is_none() {
                        // An empty message tells the stream that there is no answer.
                        *message = Vec::new();
                        self.shared.lost.fetch_add(1, Ordering::Relaxed);
                    }
                }
                ToStreams::Query { .. } => {}
            }
            streams.pass(Outgoing { worker, message, reservation }, upstream_connections);
        }
    }

    /// Passes on upstream's answer about its prefixes.
    fn discovered(&self, message: Vec<u8>) {
        if let Some(done) = lock(&self.shared.inbox).discovery.take() {
            // At the end of the server the message is not needed.
            let _ = done.send(message);
        }
    }

    /// Publishes the state of the worker, and logs which servers have failed or recovered.
    fn publish(&self, engine: &mut UdpEngine, role: &mut Dns64) {
        role.set_unix_time(engine.now(), files::unix());
        let health: Vec<ServerHealth> = role.health().collect();
        let mut status = lock(&self.shared.status);
        for server in &health {
            let before = status.health.iter().find(|before| before.address == server.address);
            match (before.is_none_or(|before| before.alive), server.alive) {
                (true, false) => {
                    tracing::warn!(server = %server.address, "upstream does not answer")
                }
                (false, true) => tracing::info!(server = %server.address, "upstream answers again"),
                _ => {}
            }
        }
        let (counters, gauges, engine) = (role.counters(), role.gauges(), engine.counters());
        let statistics = role.statistics().clone();
        let lost = self.shared.lost.load(Ordering::Relaxed);
        *status = Status { counters, statistics, gauges, health, engine, lost };
    }
}

/// Returns the options of the sockets, each with buffers of `buffer` octets.
pub(crate) fn options(buffer: usize) -> UdpOptions {
    UdpOptions { timestamps: false, buffer, ..UdpOptions::default() }
}

/// Makes the socket changes that the role requests, a limited number in one step.
///
/// # Errors
/// The last one; its change is tried again later.
fn change_sockets(engine: &mut UdpEngine, role: &mut Dns64, now: Nanos) -> std::io::Result<()> {
    let mut result = Ok(());
    for _ in 0..MAX_CHANGES {
        let Some(change) = role.next_socket_change(now) else { break };
        match bind(engine, role, &change) {
            Ok(socket) => role.socket_changed(change, socket),
            Err(error) => {
                role.socket_change_failed(change, now);
                result = Err(error);
            }
        }
    }
    result
}

/// Binds a socket to a random free port.
fn bind(
    engine: &mut UdpEngine,
    role: &mut Dns64,
    change: &SocketChange,
) -> std::io::Result<SocketId> {
    let config = &role.settings().clone().config;
    let source = config.source_of(change.address, change.target);
    let any = source.unwrap_or_else(|| any_address(change.target.ip()));
    let prepare = |socket: BorrowedFd<'_>| route::prepare(&config.upstream.route, socket);
    let mut last = None;
    for _ in 0..PORT_TRIES {
        let source = SocketAddr::new(any, role.random_port());
        let bound = match change.socket {
            Some(socket) => {
                engine.replace(socket, change.target, source, &prepare).map(|()| socket)
            }
            None => engine.connect_with(change.target, source, &prepare),
        };
        match bound {
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => last = Some(error),
            bound => return bound,
        }
    }
    Err(last.unwrap_or_else(|| std::io::Error::other("no free port")))
}
