//! Places of connections: the limits for each transport, and the choice of a connection that gives
//! way.
//!
//! ```text
//!   client ──> permitted? ──> its network has room? ──> the transport has room? ──> memory? ──> Place
//!                 no: refused       no: the network's       no: the network with       no: refused
//!                                   idlest gives way        most gives way
//! ```
//!
//! Networks get equal shares ([`shares`]): one that has most gives its idlest connection, whatever it does, to one that has less.
//!
//! A client that is not permitted takes no place. Each transport has a pool of its own, so that a flood over one transport
//! costs the others nothing. From half of a pool on, connections may be idle for less and less time. Among networks with equal
//! shares a connection with a pending query, or younger than [`FRESH`], gives way to nobody; one whose client takes nothing of its
//! answers is idle.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use dns64::config::LimitsConfig;
use measure::Transport;
use streams::serve::Ending;
use tokio::time::error::Elapsed;

use self::table::{ConnectionState, FRESH, READS, Table};
use super::budget::{Account, Budget, Reservation};

mod shares;
mod table;

/// Longest time of a handshake.
pub(super) const HANDSHAKE: Duration = Duration::from_secs(5);
/// Highest number of QUIC handshakes with clients that have not shown that they are at their address; further clients
/// must show it first (Retry).
const MAX_UNVALIDATED_HANDSHAKES: usize = 64;

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
    /// The memory of the streams is used up.
    Memory,
    /// The server is being taken out of service.
    Draining,
    /// A proxy sent no valid PROXY header.
    Proxy,
}

measure::words! {
    Refusal {
        Client = "client",
        Network = "network",
        Full = "full",
        Handshakes = "handshakes",
        Memory = "memory",
        Draining = "draining",
        Proxy = "proxy",
    }
}

/// How a connection with a place ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    Client,
    /// The connection was idle for too long.
    Idle,
    /// The connection was closed in favour of another one.
    Displaced,
    /// An error, also in the handshake.
    Error,
}

measure::words! {
    Closed {
        Client = "client",
        Idle = "idle",
        Displaced = "displaced",
        Error = "error",
    }
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
    pools: [TransportPlaces; Transport::ALL.len()],
    budget: Budget,
    started: Instant,
    /// QUIC handshakes with unproven clients.
    unproven: AtomicUsize,
    /// Whether there are no new places, since the server is being taken out of service.
    draining: AtomicBool,
}

/// The places of one transport.
#[derive(Default)]
struct TransportPlaces {
    traffic: Traffic,
    table: Mutex<Table>,
}

/// The right to one connection; given back when it is dropped.
pub(crate) struct Place {
    usage: Usage,
    closed: Closed,
    _memory: Reservation,
}

/// The right to a QUIC handshake with a client that has not shown that it is at its address.
pub(super) struct Unproven(Arc<Places>);

impl Places {
    /// Makes empty pools with a common memory.
    pub(crate) fn new(budget: Budget) -> Self {
        let pools = Transport::ALL.map(|_| TransportPlaces::default());
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

    pub(super) fn refuse(&self, transport: Transport, why: Refusal) {
        self.traffic(transport).refused[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Takes a place for a permitted client, whose handshake begins if there is one.
    ///
    /// # Errors
    /// The reason for the refusal, which is counted.
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
        let octets = footprint(transport);
        let mut table = self.table(transport);
        let mut ended = table.end_idle(limits, now);
        // No connection is ended before place and memory for the new one are found.
        let room = table.find_room(network, limits, now, handshake).and_then(|mut ends| {
            let memory = match account.take_place(octets) {
                Some(memory) => memory,
                None => {
                    // A new connection replaces another one: one of its network, if that has its
                    // share.
                    let ended = match account.is_full(octets) {
                        true => table.idlest(Some(network), now, FRESH),
                        false => table.yields_to(network, now),
                    };
                    ends.push(ended.ok_or(Refusal::Memory)?);
                    account.follow(octets)
                }
            };
            Ok((ends, memory))
        });
        let taken = room.map(|(ends, memory)| {
            ended += ends.into_iter().filter(|number| table.end(*number)).count();
            (table.insert(network, now, handshake), memory)
        });
        drop(table);
        self.count_displaced(transport, ended);
        let (state, memory) = taken.inspect_err(|why| self.refuse(transport, *why))?;
        self.traffic(transport).accepted.fetch_add(1, Ordering::Relaxed);
        let usage = Usage { places: self.clone(), transport, state, account };
        Ok(Place { usage, closed: Closed::Error, _memory: memory })
    }

    /// Begins a QUIC handshake with a client that has not shown that it is at its address; `None` if there are too many.
    pub(super) fn unproven(self: &Arc<Self>) -> Option<Unproven> {
        // Made before the check, so that dropping it releases a place too many.
        let unproven = Unproven(self.clone());
        (self.unproven.fetch_add(1, Ordering::Relaxed) < MAX_UNVALIDATED_HANDSHAKES)
            .then_some(unproven)
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

impl Place {
    /// Runs a handshake until its end, or until it must give way; returns its result if it
    /// succeeded.
    pub(super) async fn handshake<T, E>(
        &self,
        handshake: impl Future<Output = Result<Result<T, E>, Elapsed>>,
    ) -> Option<T> {
        let done = tokio::select! {
            done = handshake => done.ok()?.ok()?,
            () = self.usage.state.end.cancelled() => return None,
        };
        self.usage.established();
        Some(done)
    }

    /// Runs a connection until its end, or until it must give way.
    pub(super) async fn run<E>(mut self, connection: impl Future<Output = Result<Ending, E>>) {
        let end = self.usage.state.end.clone();
        self.closed = tokio::select! {
            ended = connection => ended.map_or(Closed::Error, Closed::from),
            () = end.cancelled() => Closed::Displaced,
        };
    }

    /// Returns a handle for the queries of the connection.
    pub(super) fn usage(&self) -> Usage {
        self.usage.clone()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Usage { places, transport, state, .. } = &self.usage;
        let handshaking = state.handshaking.load(Ordering::Relaxed);
        let removed = places.table(*transport).remove(state.number).is_some();
        let traffic = places.traffic(*transport);
        // A connection that was displaced is counted already.
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
    state: Arc<ConnectionState>,
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

    /// Notes that an answer waits for the client, or that the client has read a part of one.
    pub(super) fn writes(&self) {
        self.state.unread_ms.store(self.places.now(), Ordering::Relaxed);
    }

    /// Notes that the client has read all waiting answers.
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
