//! The role: receives queries, sends queries upstream, sends answers.
//!
//! ```text
//!   client ──> client ──> special? cache? already pending? ────────────┐
//!                │ no                                                  │
//!                v                                                     v
//!             lookup ──> upstream ──> lookup ──> progress ─> answer ──> deliver ──> clients
//!               ^  resent after a timeout  AAAA? then A, synthesis        │
//!               └──────── next lookup ──────────┘                      cache
//! ```
//!
//! A worker shares nothing: it has its own tables, cache and sockets. All tables are bounded.

mod absent;
mod begun;
mod chain;
mod client;
mod credible;
mod deliver;
mod discover;
mod lookup;
mod outcome;
mod progress;
mod questions;
mod ruled;
mod stale;
mod store;
mod target;
mod waits;

use std::collections::VecDeque;
use std::hash::RandomState;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;

use chacha20::ChaCha12Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use engine::{Next, Role, RxBatch, SocketId, TxBatch};
use measure::Nanos;

use crate::admission::Admission;
use crate::answer::Answer;
use crate::cache::{Cache, Domain, Dump};
use crate::config::ports;
use crate::cookie::Cookies;
use crate::counters::Counters;
use crate::mirror::{Mirror, StepCopies};
use crate::reply::FoundRecord;
use crate::settings::Settings;
use crate::snapshot::{Snapshot, SnapshotWriter, StoredAnswer};
use crate::statistics::Statistics;
use crate::streams::{FromStreams, Outbox, ToStreams};
use crate::tap::{Observed, Tap};
use crate::upstream::{Server, SocketChange, Upstreams};
use deliver::Delivery;
use questions::Questions;
use store::Store;
use waits::Waits;

/// Longest time between two calls of a worker: between calls its caller changes ports, reloads and publishes
/// metrics.
const MAX_PAUSE: Nanos = Nanos::from_millis(50);

/// The DNS64 server of one worker, a role of the engine.
pub struct Dns64 {
    settings: Arc<Settings>,
    delivery: Delivery,
    upstreams: Upstreams,
    questions: Questions,
    waits: Waits,
    store: Store,
    cookies: Cookies,
    rng: ChaCha12Rng,
    counters: Counters,
    inbox: VecDeque<FromStreams>,
    scratch: Scratch,
}

/// State of one call of the role.
struct Ctx<'a> {
    /// Time at which the call began, on the monotonic clock.
    now: Nanos,
    /// The datagrams to be sent.
    tx: &'a mut TxBatch,
    /// Upstream's reply to the query that is being begun, and the server that sent it.
    begun: Option<(SocketAddr, Vec<u8>)>,
}

/// Buffers that are used again for each answer.
#[derive(Default)]
struct Scratch {
    /// The answer that is being composed.
    answer: Answer,
    /// The question of that answer, in lower case.
    question: Vec<u8>,
    /// The aliases of the current reply, and the records found at the end of them.
    chain: Vec<u8>,
    found: Vec<FoundRecord>,
    expired: Vec<u32>,
    /// The record that is being composed.
    record: Vec<u8>,
    /// The current reply of upstream, normalised.
    reply: Vec<u8>,
}

/// Current sizes of a worker's tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Number of questions that wait for upstream.
    pub outstanding: u64,
    /// Number of clients that wait for a question of another client.
    pub waiters: u64,
    /// Memory of the cached answers, in octets.
    pub cache_bytes: u64,
    /// Number of answers in the cache.
    pub cache_answers: u64,
}

impl Gauges {
    /// Adds the numbers of another worker.
    pub fn merge(&mut self, other: &Gauges) {
        measure::add!(self, other; outstanding, waiters, cache_bytes, cache_answers);
    }
}

/// State of an upstream server as one worker sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServerHealth {
    /// Address of the server in the configuration.
    pub address: std::net::SocketAddr,
    /// Whether the server is considered alive.
    pub alive: bool,
    /// Whether the server is for some zones only (`[[forward]]`).
    pub forward: bool,
    /// Smoothed round trip time; zero before the first reply.
    pub rtt: Nanos,
    /// Number of source ports in use for this server.
    pub ports: usize,
}

impl Dns64 {
    /// Makes the server of one worker at time `now`. `seed` must be drawn from the operating system: ids,
    /// ports and letter cases are generated from it.
    pub fn new(settings: Arc<Settings>, seed: [u8; 32], now: Nanos) -> Self {
        let outstanding = settings.outstanding();
        Dns64 {
            delivery: Delivery {
                admission: Admission::new(&settings.config, settings.policy.clone(), outstanding),
                statistics: Statistics::new(settings.policy.prefixes()),
                tap: Tap::new(&settings.config),
                outbox: Outbox::new(settings.answers_at_once()),
            },
            upstreams: Upstreams::new(&settings.config, settings.cookie_secret, &|server| {
                settings.way_to(server)
            }),
            questions: Questions::new(outstanding, settings.kept_replies()),
            waits: Waits::new(outstanding, now),
            store: Store {
                cache: Cache::new(settings.cache_size()),
                hasher: RandomState::new(),
                mirror: None,
            },
            cookies: Cookies::new(settings.cookie_secret),
            rng: ChaCha12Rng::from_seed(seed),
            counters: Counters::default(),
            inbox: VecDeque::new(),
            scratch: Scratch { answer: Answer::new(), ..Scratch::default() },
            settings,
        }
    }

    /// Replaces the settings; pending questions continue, and the cache stays unless other rules
    /// may give other answers. The number of workers and the bound of outstanding queries do not
    /// change. Changed names of hosts have no effect on it.
    pub fn reload(&mut self, settings: Arc<Settings>) {
        if settings.differs_in_hosts_only(&self.settings) {
            self.settings = settings;
            return;
        }
        let outstanding = self.settings.outstanding();
        self.delivery.admission.reload(&settings.config, settings.policy.clone(), outstanding);
        self.upstreams.reload(&settings.config, &|server| settings.way_to(server));
        self.delivery.statistics.set_prefixes(settings.policy.prefixes());
        self.delivery.tap = Tap::new(&settings.config);
        if settings.has_same_answers(&self.settings) {
            let (view, prefixes) = settings.policy.changes(&self.settings.policy);
            self.store.cache.forget(view, &prefixes);
            if !Arc::ptr_eq(&settings.rules, &self.settings.rules) {
                self.store.cache.forget_targets(&settings.rules);
            }
        } else {
            self.store.cache = Cache::new(settings.cache_size());
            self.questions.set_apart(&settings.policy);
        }
        self.settings = settings;
    }

    /// From now on copies answers for a second cache, marked with this generation; 0 ends the
    /// copying. A caller that changes settings or flushes the cache takes the earlier copies first,
    /// and then begins a new generation.
    pub fn mirror_as(&mut self, generation: u64) {
        self.store.mirror = (generation > 0).then(|| Box::new(Mirror::new(generation)));
    }

    /// Returns the answers copied since the caller cleared them; `None` if copying is off.
    pub fn mirrored(&mut self) -> Option<&mut StepCopies> {
        self.store.mirror.as_mut().map(|mirror| &mut mirror.mirrored)
    }

    /// Sets the Unix time, in seconds, at time `now`.
    pub fn set_unix_time(&mut self, now: Nanos, unix: u64) {
        self.cookies.set_time(now, unix);
    }

    /// Returns the counters since the start.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Returns the statistics of queries and answers since the start.
    pub fn statistics(&self) -> &Statistics {
        &self.delivery.statistics
    }

    /// Removes the cached answers to questions about a name, or about a domain and all names below
    /// it; returns how many. Pending questions are still answered, and stored, with upstream's
    /// reply.
    pub fn flush(&mut self, domain: &Domain) -> usize {
        self.store.cache.flush(domain)
    }

    /// Returns up to `most` cached answers, from the place `from` on.
    pub fn dump(&self, from: u32, most: usize, now: Nanos) -> Dump {
        self.store.cache.dump(from, most, now)
    }

    /// Adds the cached answers of this worker to a snapshot; returns how many there are.
    ///
    /// # Errors
    /// Errors of its output.
    pub fn save<W: Write>(
        &self,
        worker: usize,
        now: Nanos,
        to: &mut SnapshotWriter<W>,
    ) -> io::Result<usize> {
        self.store.cache.save(worker as u16, now, to)
    }

    /// Stores the answers of a snapshot that belong to a worker: with the same number of workers
    /// its own earlier answers. Returns how many are in the cache then.
    pub fn restore(&mut self, worker: usize, now: Nanos, from: &Snapshot) -> usize {
        let workers = self.settings.workers;
        let own = |stored: &StoredAnswer<'_>| usize::from(stored.worker) % workers == worker;
        self.store.restore(from, own, now, &mut self.scratch.answer);
        // The rules may have changed since.
        self.store.cache.forget_targets(&self.settings.rules);
        self.store.cache.used().1
    }

    /// Returns the current sizes of the tables.
    pub fn gauges(&self) -> Gauges {
        let (bytes, answers) = self.store.cache.used();
        Gauges {
            outstanding: self.questions.transactions.len() as u64,
            waiters: self.questions.waiters.len() as u64,
            cache_bytes: bytes as u64,
            cache_answers: answers as u64,
        }
    }

    /// Returns the state of each upstream server. One in several pools is dead if it is for one of
    /// them, which then probes it: a worker that does not query it knows nothing of its state.
    pub fn health(&self) -> impl Iterator<Item = ServerHealth> {
        let servers = move || self.upstreams.servers();
        let at = move |address| servers().filter(move |server| server.address == address);
        let is_first = move |(i, address): &(usize, SocketAddr)| {
            !servers().take(*i).any(|server| server.address == *address)
        };
        let addresses = servers().map(|server| server.address).enumerate().filter(is_first);
        addresses.filter_map(move |(_, address)| {
            let last = at(address).max_by_key(|server| server.heard_at)?;
            Some(ServerHealth {
                address,
                alive: at(address).all(|server| !server.dead),
                forward: at(address).all(Server::is_for_zones),
                rtt: last.rtt,
                ports: at(address).map(Server::ports).sum(),
            })
        })
    }

    /// Returns a socket that must be opened or changed now, if there is one. The caller then calls
    /// [`socket_changed`](Self::socket_changed) or [`socket_change_failed`](Self::socket_change_failed).
    pub fn next_socket_change(&mut self, now: Nanos) -> Option<SocketChange> {
        self.upstreams.next_socket_change(now, &mut self.rng)
    }

    /// Returns a random source port, never a privileged or an avoided one.
    pub fn random_port(&mut self) -> u16 {
        let avoided = &self.settings.config.upstream.avoid_ports;
        loop {
            // A quarter of all ports is usable at least.
            let port = self.rng.next_u32() as u16;
            if ports::is_usable(port, avoided) {
                return port;
            }
        }
    }

    /// Notes that a socket was opened or changed and has the number `socket`.
    pub fn socket_changed(&mut self, change: SocketChange, socket: SocketId) {
        self.upstreams.socket_changed(change, socket);
    }

    /// Notes that a socket could not be opened or changed.
    pub fn socket_change_failed(&mut self, change: SocketChange, now: Nanos) {
        self.upstreams.socket_change_failed(change, now);
    }

    /// Returns the settings of the last reload, or of the start.
    pub fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// Returns the highest number of connections to each upstream server.
    pub fn upstream_connections(&self) -> usize {
        self.settings.config.upstream.tcp_connections
    }

    /// Returns whether all messages from streams have been handled.
    pub fn inbox_is_empty(&self) -> bool {
        self.inbox.is_empty()
    }

    /// Takes a message from a stream; the next call of the role handles it.
    pub fn push_from_streams(&mut self, message: FromStreams) {
        self.inbox.push_back(message);
    }

    /// Returns the messages observed since the caller cleared them; `None` if nothing is to be observed.
    pub fn observed(&mut self) -> Option<&mut Observed> {
        self.delivery.tap.as_mut().map(|tap| &mut tap.observed)
    }

    /// Returns whether there are messages that must be sent on streams.
    pub fn has_stream_output(&self) -> bool {
        !self.delivery.outbox.is_empty()
    }

    /// Returns the messages that must be sent on streams.
    pub fn drain_to_streams(&mut self) -> std::vec::Drain<'_, ToStreams> {
        self.delivery.outbox.drain()
    }
}

impl Role for Dns64 {
    #[inline(never)] // into the worker loop of dns64d, whose library `make dist` compiles for size
    fn handle(&mut self, now: Nanos, rx: &RxBatch, tx: &mut TxBatch) -> Next {
        let ctx = &mut Ctx { now, tx, begun: None };
        self.upstreams.shuffle(&mut self.rng);
        for received in rx.iter() {
            match self.upstreams.server_of(received.socket) {
                Some(server) => self.on_reply(server, &received, ctx),
                None => self.on_query(&received, ctx),
            }
        }
        while !self.delivery.outbox.has_enough()
            && let Some(message) = self.inbox.pop_front()
        {
            match message {
                FromStreams::Query { stream, transport, client, message } => {
                    self.on_stream_query(stream, client, transport, &message, ctx);
                }
                FromStreams::Reply { lookup, ticket, message } => {
                    self.on_stream_reply(lookup.into(), ticket, message, ctx);
                }
                FromStreams::Discovery => self.discover(ctx),
                FromStreams::Begun(begun) => self.on_begun(begun, ctx),
            }
        }
        self.expire(ctx);
        self.serve_impatient(ctx);
        self.probe(ctx);
        if !self.inbox.is_empty() {
            return Next::Now;
        }
        let next_call = now + MAX_PAUSE;
        Next::At(self.waits.timeouts.next().map_or(next_call, |next| next.min(next_call)))
    }
}
