//! The role: queries in, queries to upstream, answers out.
//!
//! ```text
//!   client ──> client ──> special? cache? already asked? ──────────────┐
//!                │ no                                                  │
//!                v                                                     v
//!             lookup ──> upstream ──> lookup ──> settle ──> answer ──> deliver ──> clients
//!               ^  resent, in time        AAAA? then A, synthesis         │
//!               └──────── what comes next ──────┘                      cache
//! ```
//!
//! A worker shares nothing: its tables, its cache, its sockets are its own. All tables are bounded.

mod client;
mod deliver;
mod lookup;
mod settle;
mod target;

use std::collections::VecDeque;
use std::hash::RandomState;
use std::sync::Arc;

use engine::{Next, Role, RxBatch, SocketId, TxBatch};
use hashbrown::HashTable;
use measure::Nanos;
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use crate::admission::Admission;
use crate::answer::Answer;
use crate::cache::Cache;
use crate::counters::Counters;
use crate::reply::Found;
use crate::settings::Settings;
use crate::streams::{FromStreams, Outbox, ToStreams};
use crate::table::ids::Ids;
use crate::table::slab::{NONE, Slab};
use crate::table::wheel::Wheel;
use crate::transaction::{Transaction, Waiter};
use crate::upstream::{SocketChange, Upstreams};

/// A worker wants to be tended at least so often: for ports, reloads, metrics.
const TEND_EVERY: Nanos = Nanos::from_millis(50);

/// One worker's DNS64 server.
pub struct Dns64 {
    settings: Arc<Settings>,
    admission: Admission,
    upstreams: Upstreams,
    transactions: Slab<Transaction>,
    waiters: Slab<Waiter>,
    /// Lookups by socket and id, and by the time when their patience ends.
    ids: Ids,
    wheel: Wheel,
    /// Questions that others may join, by their hashes.
    under_way: HashTable<u32>,
    /// The ends of the list of questions by age.
    oldest: u32,
    newest: u32,
    cache: Cache,
    hasher: RandomState,
    rng: ChaCha12Rng,
    tickets: u32,
    counters: Counters,
    inbox: VecDeque<FromStreams>,
    outbox: Outbox,
    scratch: Scratch,
}

/// Room that is used again and again.
struct Scratch {
    /// The answer in the making.
    answer: Answer,
    /// The question of the answer, in lower case.
    question: Vec<u8>,
    /// The aliases of the reply that is read, and what was found behind them.
    chain: Vec<u8>,
    found: Vec<Found>,
    expired: Vec<u32>,
    /// A record in the making.
    record: Vec<u8>,
}

/// What a worker has at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Questions under way.
    pub outstanding: u64,
    /// Clients that wait for somebody else's question.
    pub waiters: u64,
    /// Octets and answers in the cache.
    pub cache_bytes: u64,
    /// Answers in the cache.
    pub cache_answers: u64,
}

impl Gauges {
    /// Adds another worker's.
    pub fn merge(&mut self, other: &Gauges) {
        self.outstanding += other.outstanding;
        self.waiters += other.waiters;
        self.cache_bytes += other.cache_bytes;
        self.cache_answers += other.cache_answers;
    }
}

/// How a worker finds an upstream server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServerHealth {
    /// Its address.
    pub address: std::net::SocketAddr,
    /// Whether it is believed alive.
    pub alive: bool,
    /// Its smoothed round trip time; zero before the first.
    pub rtt: Nanos,
    /// Source ports in use to it.
    pub ports: usize,
}

impl Dns64 {
    /// A worker at time `now`. `seed` must be drawn from the operating system: ids, ports and spellings come from it.
    pub fn new(settings: Arc<Settings>, seed: [u8; 32], now: Nanos) -> Self {
        let outstanding = settings.outstanding();
        Dns64 {
            admission: Admission::new(&settings.config, settings.policy.clone(), outstanding),
            upstreams: Upstreams::new(&settings.config.upstream),
            transactions: Slab::new(outstanding),
            waiters: Slab::new(outstanding),
            ids: Ids::new(2 * outstanding),
            wheel: Wheel::new(now),
            under_way: HashTable::new(),
            oldest: NONE,
            newest: NONE,
            cache: Cache::new(settings.cache_size()),
            hasher: RandomState::new(),
            rng: ChaCha12Rng::from_seed(seed),
            tickets: 0,
            counters: Counters::default(),
            inbox: VecDeque::new(),
            outbox: Outbox::default(),
            scratch: Scratch {
                answer: Answer::new(),
                question: Vec::new(),
                chain: Vec::new(),
                found: Vec::new(),
                expired: Vec::new(),
                record: Vec::new(),
            },
            settings,
        }
    }

    /// Goes by other settings from now on; what is under way goes on. The number of workers and the bound of
    /// outstanding queries stay as they were at the start.
    pub fn reload(&mut self, settings: Arc<Settings>) {
        let outstanding = self.settings.outstanding();
        self.admission.reload(&settings.config, settings.policy.clone(), outstanding);
        self.upstreams.reload(&settings.config.upstream);
        // Other rules give other answers.
        self.cache = Cache::new(settings.cache_size());
        self.settings = settings;
    }

    /// What was counted so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// What there is now.
    pub fn gauges(&self) -> Gauges {
        let (bytes, answers) = self.cache.used();
        Gauges {
            outstanding: self.transactions.len() as u64,
            waiters: self.waiters.len() as u64,
            cache_bytes: bytes as u64,
            cache_answers: answers as u64,
        }
    }

    /// How each upstream server is.
    pub fn health(&self) -> impl Iterator<Item = ServerHealth> {
        self.upstreams.servers().map(|server| ServerHealth {
            address: server.address,
            alive: !server.dead,
            rtt: server.rtt,
            ports: server.ports(),
        })
    }

    /// A socket to be opened or changed now, if there is one; the caller tells [`changed`](Self::changed) or
    /// [`not_changed`](Self::not_changed).
    pub fn wanted_change(&mut self, now: Nanos) -> Option<SocketChange> {
        self.upstreams.wanted_change(now, &mut self.rng)
    }

    /// A source port at random, never a privileged one.
    pub fn random_port(&mut self) -> u16 {
        1_024 + (self.rng.next_u32() % (65_536 - 1_024)) as u16
    }

    /// A wanted change was made; the socket has this number.
    pub fn changed(&mut self, change: SocketChange, socket: SocketId) {
        self.upstreams.changed(change, socket);
    }

    /// A wanted change could not be made.
    pub fn not_changed(&mut self, change: SocketChange, now: Nanos) {
        self.upstreams.not_changed(change, now);
    }

    /// Whether it has worked on all that came by streams.
    pub fn has_taken_all(&self) -> bool {
        self.inbox.is_empty()
    }

    /// Takes what came by a stream; it is worked on when the role is handled next.
    pub fn take(&mut self, message: FromStreams) {
        self.inbox.push_back(message);
    }

    /// Gives what is to go by streams.
    pub fn give(&mut self) -> std::vec::Drain<'_, ToStreams> {
        self.outbox.drain()
    }
}

impl Role for Dns64 {
    fn handle(&mut self, now: Nanos, rx: &RxBatch, tx: &mut TxBatch) -> Next {
        self.upstreams.shuffle(&mut self.rng);
        for received in rx.iter() {
            match self.upstreams.behind(received.socket) {
                Some(server) => self.on_reply(server, &received, now, tx),
                None => self.on_query(&received, now, tx),
            }
        }
        while !self.outbox.has_enough()
            && let Some(message) = self.inbox.pop_front()
        {
            match message {
                FromStreams::Query { stream, framed, client, message } => {
                    self.on_stream_query(stream, client, framed, &message, now, tx);
                }
                FromStreams::Reply { lookup, ticket, message } => {
                    self.on_stream_reply(lookup, ticket, message.as_deref(), now, tx);
                }
            }
        }
        self.expire(now, tx);
        self.probe(now, tx);
        if !self.inbox.is_empty() {
            return Next::Now;
        }
        let tend = now + TEND_EVERY;
        Next::At(self.wheel.next().map_or(tend, |next| next.min(tend)))
    }
}
