//! Places of connections: how many clients may have, for each transport, and whose connection ends for another one.
//!
//! ```text
//!   client ──> permitted? ──> its network has room? ──> the transport has room? ──> memory? ──> Place
//!                 no: refused       no: the network's       no: the idlest             no: refused
//!                                   idlest gives way        gives way
//! ```
//!
//! A client that is not permitted takes no place. Each transport has a pool of its own, so that a flood over one transport
//! costs the others nothing. From half of a pool on, connections may be idle for less and less time. A connection with a
//! pending query, or younger than [`FRESH`], gives way to nobody; one whose client takes nothing of its answers is idle.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use dns64::config::LimitsConfig;
use measure::Transport;
use streams::serve::Ending;
use tokio::time::error::Elapsed;
use tokio_util::sync::CancellationToken;

use super::budget::{Account, Budget, Reservation};

/// Longest time of a handshake.
pub(super) const HANDSHAKE: Duration = Duration::from_secs(5);
/// Time since its last query within which a connection gives way to no other.
const FRESH: Duration = Duration::from_millis(250);
/// Share of the idle time that is left when all places are taken.
const LEAST_IDLE: f64 = 0.1;
/// Highest number of QUIC handshakes with clients that have not shown that they are at their address; further clients
/// must show it first (Retry).
const UNPROVEN: usize = 64;
/// What stands for the time since when a client takes nothing if no answer waits for it.
const READS: u64 = u64::MAX;
/// Highest number of connections that end for a new one, because they are idle under pressure.
const ENDED_AT_ONCE: usize = 16;

/// Counts of a transport since the start.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) accepted: AtomicU64,
    pub(crate) refused: [AtomicU64; Refusal::ALL.len()],
    pub(crate) closed: [AtomicU64; Closed::ALL.len()],
    pub(crate) handshakes: AtomicU64,
    pub(crate) failed_handshakes: AtomicU64,
    pub(crate) retries: AtomicU64,
    pub(crate) queries: AtomicU64,
}

/// Reason for which a connection is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The client is not permitted.
    Client,
    /// The network of the client has all its connections, and none is idle.
    Network,
    /// All places of the transport are taken by connections that are not idle.
    Full,
    /// Too many handshakes are under way.
    Handshakes,
    /// There is no memory left.
    Memory,
    /// The server is being taken out of service.
    Draining,
    /// A proxy sent no valid PROXY header.
    Proxy,
}

impl Refusal {
    /// All reasons, with their words in metrics.
    pub(crate) const ALL: [(Self, &str); 7] = [
        (Refusal::Client, "client"),
        (Refusal::Network, "network"),
        (Refusal::Full, "full"),
        (Refusal::Handshakes, "handshakes"),
        (Refusal::Memory, "memory"),
        (Refusal::Draining, "draining"),
        (Refusal::Proxy, "proxy"),
    ];
}

/// How a connection with a place ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// The client closed it.
    Client,
    /// It was idle for too long.
    Idle,
    /// It gave way to another one.
    Displaced,
    /// An error, that of a handshake too.
    Error,
}

impl Closed {
    /// All ends, with their words in metrics.
    pub(crate) const ALL: [(Self, &str); 4] = [
        (Closed::Client, "client"),
        (Closed::Idle, "idle"),
        (Closed::Displaced, "displaced"),
        (Closed::Error, "error"),
    ];
}

impl From<Ending> for Closed {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Client | Ending::Fault => Closed::Client,
            Ending::Idle => Closed::Idle,
        }
    }
}

/// The places of all transports, shared by all threads.
pub(crate) struct Places {
    pools: [Pool; Transport::ALL.len()],
    budget: Budget,
    started: Instant,
    /// QUIC handshakes with unproven clients.
    unproven: AtomicUsize,
    /// Whether there are no new places, since the server is being taken out of service.
    draining: AtomicBool,
}

/// The places of one transport.
#[derive(Default)]
struct Pool {
    traffic: Traffic,
    table: Mutex<Table>,
}

/// The connections of one transport.
#[derive(Default)]
struct Table {
    open: HashMap<u64, Open>,
    networks: HashMap<IpAddr, Network>,
    idlest: Idlest,
    /// Connections in their handshake, the oldest first; some may have ended it.
    handshakes: VecDeque<u64>,
    handshaking: usize,
    next: u64,
}

struct Open {
    network: IpAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct Network {
    count: usize,
    idlest: Idlest,
}

/// What a connection and the table know of each other.
#[derive(Debug)]
struct State {
    /// Time of the last query or answer, in milliseconds.
    last_ms: AtomicU64,
    /// Number of pending queries.
    pending: AtomicUsize,
    /// Time since when the client takes nothing of an answer, in milliseconds; [`READS`] if none waits for it.
    unread_ms: AtomicU64,
    handshaking: AtomicBool,
    end: CancellationToken,
}

/// Connections by the time of their last use as it was when they came into the heap. The order is put right when one
/// comes to the top, so that a query costs nothing here.
#[derive(Default)]
struct Idlest(BinaryHeap<Reverse<(u64, u64)>>);

impl Idlest {
    fn push(&mut self, time: u64, number: u64, open: &HashMap<u64, Open>) {
        if self.0.len() > 2 * open.len() + 64 {
            self.0.retain(|Reverse((_, number))| open.contains_key(number));
        }
        self.0.push(Reverse((time, number)));
    }

    /// Returns the connection that is idle for the longest time if that is since `before` or earlier.
    fn pop(&mut self, open: &HashMap<u64, Open>, before: u64, now: u64) -> Option<u64> {
        loop {
            let Reverse((time, number)) = *self.0.peek()?;
            if time > before {
                return None;
            }
            self.0.pop();
            let Some(Open { state, .. }) = open.get(&number) else { continue };
            let last = match state.unread_ms.load(Ordering::Relaxed) {
                READS if state.pending.load(Ordering::Relaxed) > 0 => now,
                READS => state.last_ms.load(Ordering::Relaxed),
                since => since,
            };
            if last <= time {
                return Some(number);
            }
            self.0.push(Reverse((last, number)));
        }
    }
}

/// The right to one connection; given back when it is dropped.
pub(crate) struct Place {
    places: Arc<Places>,
    transport: Transport,
    number: u64,
    state: Arc<State>,
    closed: Closed,
    account: Account,
    _memory: Reservation,
}

/// The right to a QUIC handshake with a client that has not shown that it is at its address.
pub(super) struct Unproven(Arc<Places>);

impl Places {
    /// Makes empty pools with a common memory.
    pub(crate) fn new(budget: Budget) -> Self {
        let pools = Transport::ALL.map(|_| Pool::default());
        let (unproven, draining) = (AtomicUsize::new(0), AtomicBool::new(false));
        Places { pools, budget, started: Instant::now(), unproven, draining }
    }

    /// Refuses new connections from now on and ends the idle ones; or takes new ones again.
    pub(crate) fn drain(&self, draining: bool) {
        self.draining.store(draining, Ordering::Relaxed);
        for transport in Transport::ALL.into_iter().filter(|_| draining) {
            let (mut table, mut ended) = (self.table(transport), 0);
            while table.end_idlest(None, self.now(), FRESH) {
                ended += 1;
            }
            drop(table);
            self.count_displaced(transport, ended);
        }
    }

    /// Returns whether new connections are refused.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Returns the counts of a transport.
    pub(crate) fn traffic(&self, transport: Transport) -> &Traffic {
        &self.pools[transport as usize].traffic
    }

    /// Returns the number of open connections of a transport.
    pub(crate) fn open(&self, transport: Transport) -> usize {
        self.table(transport).open.len()
    }

    /// Counts a refused connection.
    pub(super) fn refuse(&self, transport: Transport, why: Refusal) {
        self.traffic(transport).refused[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Takes a place for a permitted client, whose handshake begins if there is one.
    ///
    /// # Errors
    /// The reason for which there is none; it is counted.
    pub(super) fn take(
        self: &Arc<Self>,
        transport: Transport,
        client: IpAddr,
        limits: &LimitsConfig,
    ) -> Result<Place, Refusal> {
        let (network, now, handshake) =
            (limits.network_of(client), self.now(), transport.uses_tls());
        if self.is_draining() {
            self.refuse(transport, Refusal::Draining);
            return Err(Refusal::Draining);
        }
        let account = self.budget.account(network);
        let mut table = self.table(transport);
        let Some(memory) = account.take_place(footprint(transport)) else {
            // The next client, or the next one of the network that has its share, may have what it leaves.
            let of = account.is_full(footprint(transport)).then_some(network);
            let ended = table.end_idlest(of, now, FRESH);
            drop(table);
            self.count_displaced(transport, usize::from(ended));
            self.refuse(transport, Refusal::Memory);
            return Err(Refusal::Memory);
        };
        let room = table.make_room(network, limits, now, handshake);
        let ended = room.inspect_err(|why| self.refuse(transport, *why))?;
        let (number, state) = table.insert(network, now, handshake);
        drop(table);
        self.count_displaced(transport, ended);
        self.traffic(transport).accepted.fetch_add(1, Ordering::Relaxed);
        let places = self.clone();
        let closed = Closed::Error;
        Ok(Place { places, transport, number, state, closed, account, _memory: memory })
    }

    /// Begins a QUIC handshake with a client that has not shown that it is at its address; `None` if there are too many.
    pub(super) fn unproven(self: &Arc<Self>) -> Option<Unproven> {
        // Made before the check, so that its drop gives back what is too much.
        let unproven = Unproven(self.clone());
        (self.unproven.fetch_add(1, Ordering::Relaxed) < UNPROVEN).then_some(unproven)
    }

    /// Counts a QUIC client that must show its address.
    pub(super) fn count_retry(&self, transport: Transport) {
        self.traffic(transport).retries.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a failed handshake of a client without a place.
    pub(super) fn count_failed(&self, transport: Transport) {
        self.traffic(transport).failed_handshakes.fetch_add(1, Ordering::Relaxed);
    }

    fn count_displaced(&self, transport: Transport, count: usize) {
        let counter = &self.traffic(transport).closed[Closed::Displaced as usize];
        counter.fetch_add(count as u64, Ordering::Relaxed);
    }

    fn now(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    fn table(&self, transport: Transport) -> MutexGuard<'_, Table> {
        // Each change of the table is complete before anything can panic.
        self.pools[transport as usize].table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the memory that a connection may take besides its queries and answers, in octets: buffers of the stream, of
/// TLS, and the windows of HTTP/2 and QUIC.
fn footprint(transport: Transport) -> usize {
    match transport {
        Transport::Udp | Transport::Tcp => 16 << 10,
        Transport::Tls => 64 << 10,
        Transport::Https | Transport::Quic | Transport::Http3 => 160 << 10,
    }
}

impl Table {
    /// Makes room for a connection of a network; returns how many others end for it.
    fn make_room(
        &mut self,
        network: IpAddr,
        limits: &LimitsConfig,
        now: u64,
        handshake: bool,
    ) -> Result<usize, Refusal> {
        let mut ended = 0;
        let most = limits.tcp_connections;
        let half = most / 2;
        // From half of the places on, connections may be idle for less time.
        if self.open.len() > half {
            let left = most.saturating_sub(self.open.len()) as f64 / (most - half) as f64;
            let idle = Duration::from(limits.tcp_idle).mul_f64(left.max(LEAST_IDLE)).max(FRESH);
            while ended < ENDED_AT_ONCE && self.end_idlest(None, now, idle) {
                ended += 1;
            }
        }
        let of_network = self.networks.get(&network).map_or(0, |network| network.count);
        if of_network >= limits.tcp_connections_per_client {
            if !self.end_idlest(Some(network), now, FRESH) {
                return Err(Refusal::Network);
            }
            ended += 1;
        }
        if self.open.len() >= most {
            if !self.end_idlest(None, now, FRESH) {
                return Err(Refusal::Full);
            }
            ended += 1;
        }
        if handshake && self.handshaking >= (most / 4).max(1) {
            if !self.end_oldest_handshake(now) {
                return Err(Refusal::Handshakes);
            }
            ended += 1;
        }
        Ok(ended)
    }

    /// Ends the connection, of a network or of all, that is idle for the longest time, if that is `least`. Returns whether
    /// there was one.
    fn end_idlest(&mut self, network: Option<IpAddr>, now: u64, least: Duration) -> bool {
        let Some(before) = now.checked_sub(least.as_millis() as u64) else { return false };
        let idlest = match network {
            None => Some(&mut self.idlest),
            Some(network) => self.networks.get_mut(&network).map(|network| &mut network.idlest),
        };
        let found = idlest.and_then(|idlest| idlest.pop(&self.open, before, now));
        found.is_some_and(|number| self.end(number))
    }

    /// Ends the oldest handshake, if it is not fresh. Returns whether there was one.
    fn end_oldest_handshake(&mut self, now: u64) -> bool {
        while let Some(&number) = self.handshakes.front() {
            let state = self.open.get(&number).map(|open| &open.state);
            match state.filter(|state| state.handshaking.load(Ordering::Relaxed)) {
                None => drop(self.handshakes.pop_front()),
                Some(state) => {
                    let since = now.saturating_sub(state.last_ms.load(Ordering::Relaxed));
                    return since >= FRESH.as_millis() as u64 && self.end(number);
                }
            }
        }
        false
    }

    /// Ends a connection; its place is free from now on.
    fn end(&mut self, number: u64) -> bool {
        let Some(state) = self.remove(number) else { return false };
        state.end.cancel();
        true
    }

    fn insert(&mut self, network: IpAddr, now: u64, handshake: bool) -> (u64, Arc<State>) {
        let number = self.next;
        self.next += 1;
        let state = Arc::new(State {
            last_ms: AtomicU64::new(now),
            pending: AtomicUsize::new(0),
            unread_ms: AtomicU64::new(READS),
            handshaking: AtomicBool::new(handshake),
            end: CancellationToken::new(),
        });
        self.open.insert(number, Open { network, state: state.clone() });
        self.idlest.push(now, number, &self.open);
        let of_network = self.networks.entry(network).or_default();
        of_network.count += 1;
        of_network.idlest.push(now, number, &self.open);
        if handshake {
            self.handshaking += 1;
            self.handshakes.push_back(number);
            if self.handshakes.len() > 2 * self.open.len() + 64 {
                self.handshakes.retain(|number| self.open.contains_key(number));
            }
        }
        (number, state)
    }

    fn remove(&mut self, number: u64) -> Option<Arc<State>> {
        let Open { network, state } = self.open.remove(&number)?;
        self.end_handshake(&state);
        if let Some(of_network) = self.networks.get_mut(&network) {
            of_network.count -= 1;
            if of_network.count == 0 {
                self.networks.remove(&network);
            }
        }
        Some(state)
    }

    fn end_handshake(&mut self, state: &State) {
        self.handshaking -= usize::from(state.handshaking.swap(false, Ordering::Relaxed));
    }
}

impl Place {
    /// Runs a handshake until its end, or until it must give way; returns its result if it is good.
    pub(super) async fn handshake<T, E>(
        &self,
        handshake: impl Future<Output = Result<Result<T, E>, Elapsed>>,
    ) -> Option<T> {
        let done = tokio::select! {
            done = handshake => done.ok()?.ok()?,
            () = self.state.end.cancelled() => return None,
        };
        self.usage().established();
        Some(done)
    }

    /// Runs a connection until its end, or until it must give way.
    pub(super) async fn run<E>(mut self, connection: impl Future<Output = Result<Ending, E>>) {
        let end = self.state.end.clone();
        self.closed = tokio::select! {
            ended = connection => ended.map_or(Closed::Error, Closed::from),
            () = end.cancelled() => Closed::Displaced,
        };
    }

    /// Returns a handle for the queries of the connection.
    pub(super) fn usage(&self) -> Usage {
        let Place { places, transport, state, account, .. } = self;
        let (places, state, account) = (places.clone(), state.clone(), account.clone());
        Usage { places, transport: *transport, state, account }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let handshaking = self.state.handshaking.load(Ordering::Relaxed);
        let removed = self.places.table(self.transport).remove(self.number).is_some();
        let traffic = self.places.traffic(self.transport);
        // One that gave way is counted already.
        if removed {
            traffic.closed[self.closed as usize].fetch_add(1, Ordering::Relaxed);
        }
        traffic.failed_handshakes.fetch_add(u64::from(handshaking), Ordering::Relaxed);
    }
}

impl Drop for Unproven {
    fn drop(&mut self) {
        self.0.unproven.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Handle with which a connection notes its queries.
#[derive(Clone)]
pub(super) struct Usage {
    places: Arc<Places>,
    transport: Transport,
    state: Arc<State>,
    account: Account,
}

impl Usage {
    /// Returns the memory of the client's network.
    pub(super) fn account(&self) -> &Account {
        &self.account
    }

    /// Returns the transport of the connection.
    pub(super) fn transport(&self) -> Transport {
        self.transport
    }

    /// Notes that the handshake has ended well.
    pub(super) fn established(&self) {
        let Usage { places, transport, state, .. } = self;
        places.table(*transport).end_handshake(state);
        places.traffic(*transport).handshakes.fetch_add(1, Ordering::Relaxed);
        state.last_ms.store(places.now(), Ordering::Relaxed);
    }

    /// Notes that an answer waits for the client, or that it has taken a part of one.
    pub(super) fn writes(&self) {
        self.state.unread_ms.store(self.places.now(), Ordering::Relaxed);
    }

    /// Notes that the client has taken what waited for it.
    pub(super) fn has_written(&self) {
        self.state.unread_ms.store(READS, Ordering::Relaxed);
    }

    /// Notes a query; it is pending until the result is dropped.
    pub(super) fn query(&self) -> Pending {
        self.places.traffic(self.transport).queries.fetch_add(1, Ordering::Relaxed);
        self.state.pending.fetch_add(1, Ordering::Relaxed);
        self.state.last_ms.store(self.places.now(), Ordering::Relaxed);
        Pending(self.clone())
    }
}

/// A pending query of a connection.
pub(super) struct Pending(Usage);

impl Drop for Pending {
    fn drop(&mut self) {
        let Usage { places, state, .. } = &self.0;
        state.last_ms.store(places.now(), Ordering::Relaxed);
        state.pending.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> LimitsConfig {
        LimitsConfig { tcp_connections: 8, tcp_connections_per_client: 4, ..Default::default() }
    }

    fn network(n: u8) -> IpAddr {
        [192, 0, 2, n].into()
    }

    /// Takes a place of a network at a time; returns its number and state.
    fn take(table: &mut Table, n: u8, now: u64) -> Result<(u64, Arc<State>), Refusal> {
        table.make_room(network(n), &limits(), now, false)?;
        Ok(table.insert(network(n), now, false))
    }

    #[test]
    fn a_network_gives_way_to_itself_first() {
        let mut table = Table::default();
        let of_one: Vec<_> = (0..4).map(|n| take(&mut table, 1, n).expect("room")).collect();
        // All are fresh.
        assert_eq!(take(&mut table, 1, 100).err(), Some(Refusal::Network));
        let other = take(&mut table, 2, 100).expect("another network has room");
        // The first one was used again, so that the second one is the idlest.
        of_one[0].1.last_ms.store(500, Ordering::Relaxed);
        take(&mut table, 1, 600).expect("the idlest gives way");
        let ended: Vec<bool> = of_one.iter().map(|(_, s)| s.end.is_cancelled()).collect();
        assert_eq!((ended, other.1.end.is_cancelled()), (vec![false, true, false, false], false));
        assert_eq!(table.networks[&network(1)].count, 4);
    }

    #[test]
    fn pending_queries_keep_their_connections() {
        let mut table = Table::default();
        let all: Vec<_> = (0..8).map(|n| take(&mut table, n, 0).expect("room")).collect();
        all.iter().for_each(|(_, state)| state.pending.store(1, Ordering::Relaxed));
        assert_eq!(take(&mut table, 9, 5_000).err(), Some(Refusal::Full));
        all[6].1.pending.store(0, Ordering::Relaxed);
        take(&mut table, 9, 6_000).expect("one is idle");
        assert!(all[6].1.end.is_cancelled());
        assert_eq!(table.open.len(), 8);
        for (number, _) in all {
            table.remove(number);
        }
        assert_eq!((table.open.len(), table.networks.len()), (1, 1));
    }

    #[test]
    fn who_takes_no_answers_gives_way() {
        let mut table = Table::default();
        let all: Vec<_> = (0..8).map(|n| take(&mut table, n, 0).expect("room")).collect();
        all.iter().for_each(|(_, state)| state.pending.store(1, Ordering::Relaxed));
        all[3].1.unread_ms.store(5_000, Ordering::Relaxed);
        assert_eq!(take(&mut table, 9, 5_100).err(), Some(Refusal::Full), "it may be reading");
        take(&mut table, 9, 5_600).expect("it takes nothing");
        let ended = all.iter().map(|(_, state)| state.end.is_cancelled());
        assert_eq!(ended.collect::<Vec<_>>(), [0, 0, 0, 1, 0, 0, 0, 0].map(|n| n == 1));
    }

    #[test]
    fn idle_time_shrinks_under_pressure() {
        let mut table = Table::default();
        let first = take(&mut table, 0, 0).expect("room");
        let mut next = 1;
        // Seven of eight places: a quarter of the idle time of 10 s.
        while !first.1.end.is_cancelled() {
            take(&mut table, next, 4_000 + u64::from(next)).expect("room");
            next += 1;
            assert!(next < 9);
        }
        assert!(table.open.len() < 8, "it ended before all places were taken");
    }

    #[test]
    fn handshakes_are_limited_and_the_oldest_ends() {
        let mut table = Table::default();
        let mut begin = |n: u8, now| {
            table.make_room(network(n), &limits(), now, true)?;
            Ok(table.insert(network(n), now, true).1)
        };
        let first = begin(1, 0).expect("room");
        begin(2, 10).expect("room");
        assert_eq!(begin(3, 20).err(), Some(Refusal::Handshakes));
        begin(3, 400).expect("the oldest ends");
        assert!(first.end.is_cancelled());
        assert_eq!(table.handshaking, 2);
        let states: Vec<_> = table.open.values().map(|open| open.state.clone()).collect();
        states.iter().for_each(|state| table.end_handshake(state));
        states.iter().for_each(|state| table.end_handshake(state));
        assert_eq!(table.handshaking, 0);
    }
}
