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
mod progress;
mod ruled;
mod target;

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;

use chacha20::ChaCha12Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use engine::{Next, Role, RxBatch, SocketId, TxBatch};
use hashbrown::HashTable;
use measure::Nanos;
use wire::Name;

use crate::admission::Admission;
use crate::answer::Answer;
use crate::cache::{Cache, Domain, Dump};
use crate::config::{Group, ports};
use crate::cookie::Cookies;
use crate::counters::Counters;
use crate::mirror::{Mirror, Mirrored};
use crate::reply::Found;
use crate::settings::Settings;
use crate::snapshot::{Snapshot, SnapshotWriter, Stored};
use crate::statistics::Statistics;
use crate::streams::{FromStreams, Outbox, ToStreams};
use crate::table::ids::Ids;
use crate::table::slab::{NONE, Slab};
use crate::table::wheel::Wheel;
use crate::tap::{Observed, Tap};
use crate::transaction::{Transaction, Waiter};
use crate::upstream::{SocketChange, Upstreams};
use deliver::Delivery;

/// Longest time between two calls of a worker: between calls its caller changes ports, reloads and publishes
/// metrics.
const MAX_PAUSE: Nanos = Nanos::from_millis(50);

/// The DNS64 server of one worker.
pub struct Dns64 {
    settings: Arc<Settings>,
    delivery: Delivery,
    upstreams: Upstreams,
    transactions: Slab<Transaction>,
    waiters: Slab<Waiter>,
    /// Pending lookups by socket and id, and by the end of their timeout.
    ids: Ids,
    wheel: Wheel,
    /// Pending questions that other clients may join, by their hashes.
    joinable: HashTable<u32>,
    /// First and last question of the list by age.
    oldest: u32,
    newest: u32,
    cache: Cache,
    cookies: Cookies,
    hasher: RandomState,
    rng: ChaCha12Rng,
    tickets: u32,
    counters: Counters,
    mirror: Option<Box<Mirror>>,
    inbox: VecDeque<FromStreams>,
    /// Upstream's reply to the query that is being begun, and the server that sent it.
    begun: Option<(SocketAddr, Vec<u8>)>,
    /// Octets of replies and aliases that pending questions keep.
    kept: usize,
    scratch: Scratch,
}

/// Buffers that are used again for each answer.
struct Scratch {
    /// The answer that is being composed.
    answer: Answer,
    /// The question of that answer, in lower case.
    question: Vec<u8>,
    /// The aliases of the current reply, and the records found at the end of them.
    chain: Vec<u8>,
    found: Vec<Found>,
    expired: Vec<u32>,
    /// The record that is being composed.
    record: Vec<u8>,
    /// The current reply of upstream, normalised.
    reply: Vec<u8>,
}

/// Current sizes of a worker's tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Number of pending questions.
    pub outstanding: u64,
    /// Number of clients that wait for a question of another client.
    pub waiters: u64,
    /// Octets in the cache.
    pub cache_bytes: u64,
    /// Number of answers in the cache.
    pub cache_answers: u64,
}

impl Gauges {
    /// Adds the numbers of another worker.
    pub fn merge(&mut self, other: &Gauges) {
        self.outstanding += other.outstanding;
        self.waiters += other.waiters;
        self.cache_bytes += other.cache_bytes;
        self.cache_answers += other.cache_answers;
    }
}

/// State of an upstream server as one worker sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServerHealth {
    /// Address of the server.
    pub address: std::net::SocketAddr,
    /// Whether the server is considered alive.
    pub alive: bool,
    /// Whether it is for some zones only (`[[forward]]`).
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
            transactions: Slab::new(outstanding),
            waiters: Slab::new(outstanding),
            // Two lookups, each with two attempts.
            ids: Ids::new(4 * outstanding),
            wheel: Wheel::new(now),
            joinable: HashTable::new(),
            oldest: NONE,
            newest: NONE,
            cache: Cache::new(settings.cache_size()),
            cookies: Cookies::new(settings.cookie_secret),
            hasher: RandomState::new(),
            rng: ChaCha12Rng::from_seed(seed),
            tickets: 0,
            counters: Counters::default(),
            mirror: None,
            inbox: VecDeque::new(),
            begun: None,
            kept: 0,
            scratch: Scratch {
                answer: Answer::new(),
                question: Vec::new(),
                chain: Vec::new(),
                found: Vec::new(),
                expired: Vec::new(),
                record: Vec::new(),
                reply: Vec::new(),
            },
            settings,
        }
    }

    /// Replaces the settings; pending questions continue, and the cache stays unless other rules may give other answers.
    /// The number of workers and the bound of outstanding queries do not change. Other names of hosts change nothing else.
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
            self.cache.forget(view, &prefixes);
        } else {
            self.cache = Cache::new(settings.cache_size());
            self.set_apart(&settings);
        }
        self.settings = settings;
    }

    /// Keeps pending questions from other clients and the cache, since their answers may be those of the rules before; the rest of
    /// each is resolved for the group that its client has now.
    fn set_apart(&mut self, settings: &Settings) {
        self.joinable.clear();
        let mut t = self.oldest;
        while t != NONE {
            let transaction = &mut self.transactions[t];
            transaction.shared = false;
            // The server's own query is in no view.
            let client = transaction.client.filter(|client| !client.is_discovery());
            let group = client.map(|client| settings.policy.group(client.address));
            transaction.key.group = group.unwrap_or(transaction.key.group);
            t = transaction.newer;
        }
    }

    /// Copies answers as those of a generation from now on, for a second cache; the generation 0 ends it. A caller that changes
    /// settings or flushes the cache takes what was copied before, and then begins a new generation.
    pub fn mirror_as(&mut self, generation: u64) {
        self.mirror = (generation > 0).then(|| Box::new(Mirror::new(generation)));
    }

    /// Returns the answers copied since the caller cleared them; `None` if nothing is to be copied.
    pub fn mirrored(&mut self) -> Option<&mut Mirrored> {
        self.mirror.as_mut().map(|mirror| &mut mirror.mirrored)
    }

    /// Copies an answer in the cache if a copy is due.
    #[inline]
    fn mirror(&mut self, number: u32, now: Nanos) {
        let Some(mirror) = &mut self.mirror else { return };
        let (rules, prefetch) = (&self.settings.rules, self.settings.config.cache.prefetch);
        let is_plain = |name: &[u8]| {
            rules.is_empty()
                || Name::from_wire(name).is_ok_and(|name| rules.find(Group::ALL, &name).is_none())
        };
        self.cache.mirror(number, mirror, now, prefetch, is_plain);
    }

    /// Sets the Unix time, in seconds, at time `now`.
    pub fn set_unix_time(&mut self, now: Nanos, unix: u64) {
        self.cookies.set_time(now, unix);
    }

    /// Returns the counters since the start.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Returns what clients asked and got since the start.
    pub fn statistics(&self) -> &Statistics {
        &self.delivery.statistics
    }

    /// Removes the cached answers to questions about a name, or about a domain and all names below it; returns how many.
    /// Questions that are pending then are still answered from, and stored as, what upstream says.
    pub fn flush(&mut self, domain: &Domain) -> usize {
        self.cache.flush(domain)
    }

    /// Returns up to `most` cached answers, from the place `from` on.
    pub fn dump(&self, from: u32, most: usize, now: Nanos) -> Dump {
        self.cache.dump(from, most, now)
    }

    /// Adds the cached answers to a snapshot, as those of a worker; returns how many there are.
    ///
    /// # Errors
    /// Errors of its output.
    pub fn save<W: Write>(
        &self,
        worker: usize,
        now: Nanos,
        to: &mut SnapshotWriter<W>,
    ) -> io::Result<usize> {
        self.cache.save(worker as u16, now, to)
    }

    /// Stores the answers of a snapshot that belong to a worker: with as many workers as before those that it had.
    /// Returns how many are in the cache then.
    pub fn restore(&mut self, worker: usize, now: Nanos, from: &Snapshot) -> usize {
        if !self.cache.is_off() {
            let workers = self.settings.workers;
            let own = |stored: &Stored<'_>| usize::from(stored.worker) % workers == worker;
            for stored in from.answers().filter(own) {
                let hash = self.hasher.hash_one(stored.key);
                self.cache.restore(&stored, hash, now, &mut self.scratch.answer);
            }
        }
        self.cache.used().1
    }

    /// Returns the current sizes of the tables.
    pub fn gauges(&self) -> Gauges {
        let (bytes, answers) = self.cache.used();
        Gauges {
            outstanding: self.transactions.len() as u64,
            waiters: self.waiters.len() as u64,
            cache_bytes: bytes as u64,
            cache_answers: answers as u64,
        }
    }

    /// Returns the state of each upstream server.
    pub fn health(&self) -> impl Iterator<Item = ServerHealth> {
        self.upstreams.servers().map(|server| ServerHealth {
            address: server.address,
            alive: !server.dead,
            forward: server.is_of_forward(),
            rtt: server.rtt,
            ports: server.ports(),
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

    /// Reserves memory for what a question keeps until its end; returns whether there was enough.
    fn keep(&mut self, t: u32, octets: usize) -> bool {
        let fits = self.kept + octets <= self.settings.kept_replies();
        if fits {
            self.kept += octets;
            self.transactions[t].kept += octets as u32;
        }
        fits
    }

    /// Returns the current settings.
    pub fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// Returns how many connections there may be to each upstream server.
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
    pub fn has_to_streams(&self) -> bool {
        !self.delivery.outbox.is_empty()
    }

    /// Returns the messages that must be sent on streams.
    pub fn drain_to_streams(&mut self) -> std::vec::Drain<'_, ToStreams> {
        self.delivery.outbox.drain()
    }
}

impl Role for Dns64 {
    fn handle(&mut self, now: Nanos, rx: &RxBatch, tx: &mut TxBatch) -> Next {
        self.upstreams.shuffle(&mut self.rng);
        for received in rx.iter() {
            match self.upstreams.server_of(received.socket) {
                Some(server) => self.on_reply(server, &received, now, tx),
                None => self.on_query(&received, now, tx),
            }
        }
        while !self.delivery.outbox.has_enough()
            && let Some(message) = self.inbox.pop_front()
        {
            match message {
                FromStreams::Query { stream, transport, client, message } => {
                    self.on_stream_query(stream, client, transport, &message, now, tx);
                }
                FromStreams::Reply { lookup, ticket, message } => {
                    self.on_stream_reply(lookup.into(), ticket, message, now, tx);
                }
                FromStreams::Discovery => self.discover(now, tx),
                FromStreams::Begun(begun) => self.on_begun(begun, now, tx),
            }
        }
        self.expire(now, tx);
        self.probe(now, tx);
        if !self.inbox.is_empty() {
            return Next::Now;
        }
        let next_call = now + MAX_PAUSE;
        Next::At(self.wheel.next().map_or(next_call, |next| next.min(next_call)))
    }
}
