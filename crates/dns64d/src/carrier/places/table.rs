//! The connections of one transport, and the choice of the connection that gives way to another.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use dns64::config::LimitsConfig;
use tokio_util::sync::CancellationToken;

use super::Refusal;
use super::shares::Shares;

/// Time since its last query within which a connection does not give way to another.
pub(super) const FRESH: Duration = Duration::from_millis(250);
/// Share of the idle time that is left when all places are taken.
const LEAST_IDLE: f64 = 0.1;
/// Value in place of a time for a client for which no answer waits.
pub(super) const READS: u64 = u64::MAX;
/// Highest number of connections that end for a new one, because they are idle under pressure.
const ENDED_AT_ONCE: usize = 16;

/// Open connections by their numbers.
type OpenConnections = HashMap<u64, Arc<ConnectionState>>;

/// The connections of one transport.
#[derive(Default)]
pub(super) struct Table {
    pub(super) open: OpenConnections,
    networks: HashMap<IpAddr, NetworkPlaces>,
    idlest: Idlest,
    /// Connections in their handshake, the oldest first; some may have ended it. The others by their networks.
    handshakes: VecDeque<u64>,
    handshakes_of: BTreeSet<(IpAddr, u64)>,
    /// Each network's share of all connections, and of the connections in their handshake.
    shares: Shares,
    handshake_shares: Shares,
    next: u64,
}

#[derive(Default)]
struct NetworkPlaces {
    count: usize,
    idlest: Idlest,
}

/// State that a connection and the table share.
#[derive(Debug)]
pub(super) struct ConnectionState {
    pub(super) number: u64,
    network: IpAddr,
    /// Time of the last query or answer, in milliseconds.
    pub(super) last_ms: AtomicU64,
    pub(super) pending: AtomicUsize,
    /// Time since which the client has not read any of an answer, in milliseconds; [`READS`] if no
    /// answer waits.
    pub(super) unread_ms: AtomicU64,
    pub(super) handshaking: AtomicBool,
    pub(super) end: CancellationToken,
}

/// Connections by the time of their last use when they were put into the heap. The time is
/// corrected when a connection reaches the top, so that queries need no update of the heap.
#[derive(Default)]
struct Idlest(BinaryHeap<Reverse<(u64, u64)>>);

impl Idlest {
    fn push(&mut self, time: u64, number: u64, open: &OpenConnections) {
        if self.0.len() > 2 * open.len() + 64 {
            self.0.retain(|Reverse((_, number))| open.contains_key(number));
        }
        self.0.push(Reverse((time, number)));
    }

    /// Returns the connection that is idle for the longest time if it is idle since `before` or
    /// earlier. The connection stays in the heap.
    fn first(&mut self, open: &OpenConnections, before: u64, now: u64) -> Option<u64> {
        loop {
            let Reverse((time, number)) = *self.0.peek()?;
            if time > before {
                return None;
            }
            let Some(state) = open.get(&number) else {
                self.0.pop();
                continue;
            };
            let last = match state.unread_ms.load(Ordering::Relaxed) {
                READS if state.pending.load(Ordering::Relaxed) > 0 => now,
                READS => state.last_ms.load(Ordering::Relaxed),
                since => since,
            };
            if last <= time {
                return Some(number);
            }
            self.0.pop();
            self.0.push(Reverse((last, number)));
        }
    }
}

impl Table {
    /// Ends connections that are idle for too long: from half of the places on, less and less time is enough. Returns their
    /// number.
    pub(super) fn end_idle(&mut self, limits: &LimitsConfig, now: u64) -> usize {
        let (most, half) = (limits.tcp_connections, limits.tcp_connections / 2);
        if self.open.len() <= half {
            return 0;
        }
        let left = most.saturating_sub(self.open.len()) as f64 / (most - half) as f64;
        let idle = Duration::from(limits.tcp_idle).mul_f64(left.max(LEAST_IDLE)).max(FRESH);
        (0..ENDED_AT_ONCE).take_while(|_| self.end_idlest(None, now, idle)).count()
    }

    /// Finds room for a connection of a network; returns those that must end for it.
    ///
    /// # Errors
    /// The reason for which there is no room.
    pub(super) fn find_room(
        &mut self,
        network: IpAddr,
        limits: &LimitsConfig,
        now: u64,
        handshake: bool,
    ) -> Result<Vec<u64>, Refusal> {
        let most = limits.tcp_connections;
        let mut ends = Vec::new();
        if handshake && self.handshakes_of.len() >= (most / 4).max(1) {
            let ended = self.heaviest_handshake(network).or_else(|| self.oldest_handshake(now));
            ends.push(ended.ok_or(Refusal::Handshakes)?);
        }
        let of_network = self.networks.get(&network).map_or(0, |network| network.count);
        if of_network >= limits.tcp_connections_per_client {
            ends.push(self.idlest(Some(network), now, FRESH).ok_or(Refusal::Network)?);
        }
        if self.open.len() >= most && ends.is_empty() {
            ends.push(self.yields_to(network, now).ok_or(Refusal::Full)?);
        }
        Ok(ends)
    }

    /// Returns the connection that is closed in favour of a new one: the idlest of the network with
    /// most connections, or, if all have equally many, the idlest of all.
    pub(super) fn yields_to(&mut self, network: IpAddr, now: u64) -> Option<u64> {
        match self.shares.heaviest(network) {
            Some(heaviest) => self.idlest(Some(heaviest), now, Duration::ZERO),
            None => self.idlest(None, now, FRESH),
        }
    }

    /// Returns the oldest handshake of the network with most of them, if it has more than a network.
    fn heaviest_handshake(&self, network: IpAddr) -> Option<u64> {
        let heaviest = self.handshake_shares.heaviest(network)?;
        let mut own = self.handshakes_of.range((heaviest, 0)..=(heaviest, u64::MAX));
        own.next().map(|(_, number)| *number)
    }

    /// Ends the connection, of a network or of all, that is idle for the longest time, if that is `least`. Returns whether
    /// there was one.
    pub(super) fn end_idlest(
        &mut self,
        network: Option<IpAddr>,
        now: u64,
        least: Duration,
    ) -> bool {
        self.idlest(network, now, least).is_some_and(|number| self.end(number))
    }

    /// Returns the connection, of a network or of all, that is idle for the longest time, if that is `least`.
    pub(super) fn idlest(
        &mut self,
        network: Option<IpAddr>,
        now: u64,
        least: Duration,
    ) -> Option<u64> {
        let before = now.checked_sub(least.as_millis() as u64)?;
        let idlest = match network {
            None => &mut self.idlest,
            Some(network) => &mut self.networks.get_mut(&network)?.idlest,
        };
        idlest.first(&self.open, before, now)
    }

    /// Returns the oldest handshake, if it is not fresh.
    fn oldest_handshake(&mut self, now: u64) -> Option<u64> {
        while let Some(&number) = self.handshakes.front() {
            match self.open.get(&number).filter(|state| state.handshaking.load(Ordering::Relaxed)) {
                None => drop(self.handshakes.pop_front()),
                Some(state) => {
                    let since = now.saturating_sub(state.last_ms.load(Ordering::Relaxed));
                    return (since >= FRESH.as_millis() as u64).then_some(number);
                }
            }
        }
        None
    }

    /// Ends a connection; its place is free from now on.
    pub(super) fn end(&mut self, number: u64) -> bool {
        let Some(state) = self.remove(number) else { return false };
        state.end.cancel();
        true
    }

    pub(super) fn insert(
        &mut self,
        network: IpAddr,
        now: u64,
        handshake: bool,
    ) -> Arc<ConnectionState> {
        let number = self.next;
        self.next += 1;
        let state = Arc::new(ConnectionState {
            number,
            network,
            last_ms: AtomicU64::new(now),
            pending: AtomicUsize::new(0),
            unread_ms: AtomicU64::new(READS),
            handshaking: AtomicBool::new(handshake),
            end: CancellationToken::new(),
        });
        self.open.insert(number, state.clone());
        self.idlest.push(now, number, &self.open);
        let of_network = self.networks.entry(network).or_default();
        of_network.count += 1;
        of_network.idlest.push(now, number, &self.open);
        self.shares.add(network);
        if handshake {
            self.handshakes_of.insert((network, number));
            self.handshake_shares.add(network);
            self.handshakes.push_back(number);
            if self.handshakes.len() > 2 * self.open.len() + 64 {
                self.handshakes.retain(|number| self.open.contains_key(number));
            }
        }
        state
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<Arc<ConnectionState>> {
        let state = self.open.remove(&number)?;
        self.end_handshake(&state);
        self.shares.remove(state.network);
        if let Some(of_network) = self.networks.get_mut(&state.network) {
            of_network.count -= 1;
            if of_network.count == 0 {
                self.networks.remove(&state.network);
            }
        }
        Some(state)
    }

    pub(super) fn end_handshake(&mut self, state: &ConnectionState) {
        if state.handshaking.swap(false, Ordering::Relaxed) {
            self.handshakes_of.remove(&(state.network, state.number));
            self.handshake_shares.remove(state.network);
        }
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

    /// Takes a place of a network at a time; returns its state.
    fn take(table: &mut Table, n: u8, now: u64) -> Result<Arc<ConnectionState>, Refusal> {
        come(table, n, now, false)
    }

    /// The same with a handshake or without one.
    fn come(
        table: &mut Table,
        n: u8,
        now: u64,
        tls: bool,
    ) -> Result<Arc<ConnectionState>, Refusal> {
        table.end_idle(&limits(), now);
        let ends = table.find_room(network(n), &limits(), now, tls)?;
        assert!(ends.into_iter().all(|number| table.end(number)));
        Ok(table.insert(network(n), now, tls))
    }

    #[test]
    fn a_network_gives_way_to_itself_first() {
        let mut table = Table::default();
        let of_one: Vec<_> = (0..4).map(|n| take(&mut table, 1, n).expect("room")).collect();
        // All are fresh.
        assert_eq!(take(&mut table, 1, 100).err(), Some(Refusal::Network));
        let other = take(&mut table, 2, 100).expect("another network has room");
        // The first one was used again, so that the second one is the idlest.
        of_one[0].last_ms.store(500, Ordering::Relaxed);
        take(&mut table, 1, 600).expect("the idlest gives way");
        let ended: Vec<bool> = of_one.iter().map(|s| s.end.is_cancelled()).collect();
        assert_eq!((ended, other.end.is_cancelled()), (vec![false, true, false, false], false));
        assert_eq!(table.networks[&network(1)].count, 4);
    }

    #[test]
    fn who_has_none_gets_a_place_of_who_has_most() {
        let mut table = Table::default();
        for n in 0..2 {
            let all = (0..4).map(|_| take(&mut table, n, 0).expect("room"));
            // All have pending queries.
            all.for_each(|state| state.pending.store(1, Ordering::Relaxed));
        }
        for n in 2..4 {
            take(&mut table, n, 1).expect("those who have most give way");
        }
        assert_eq!(take(&mut table, 0, 2).err(), Some(Refusal::Full), "it has most itself");
        let counts = [0, 1, 2, 3].map(|n| table.networks[&network(n)].count);
        assert_eq!((counts.iter().sum::<usize>(), counts[2], counts[3]), (8, 1, 1));
        assert_eq!(counts[0], counts[1]);
        // The same for handshakes.
        let mut table = Table::default();
        for _ in 0..2 {
            come(&mut table, 1, 0, true).expect("room");
        }
        assert_eq!(come(&mut table, 1, 1, true).err(), Some(Refusal::Handshakes));
        come(&mut table, 2, 1, true).expect("a handshake of the other one ends");
    }

    #[test]
    fn pending_queries_keep_their_connections() {
        let mut table = Table::default();
        let all: Vec<_> = (0..8).map(|n| take(&mut table, n, 0).expect("room")).collect();
        all.iter().for_each(|state| state.pending.store(1, Ordering::Relaxed));
        assert_eq!(take(&mut table, 9, 5_000).err(), Some(Refusal::Full));
        all[6].pending.store(0, Ordering::Relaxed);
        take(&mut table, 9, 6_000).expect("one is idle");
        assert!(all[6].end.is_cancelled());
        assert_eq!(table.open.len(), 8);
        for state in all {
            table.remove(state.number);
        }
        assert_eq!((table.open.len(), table.networks.len()), (1, 1));
    }

    #[test]
    fn who_takes_no_answers_gives_way() {
        let mut table = Table::default();
        let all: Vec<_> = (0..8).map(|n| take(&mut table, n, 0).expect("room")).collect();
        all.iter().for_each(|state| state.pending.store(1, Ordering::Relaxed));
        all[3].unread_ms.store(5_000, Ordering::Relaxed);
        assert_eq!(take(&mut table, 9, 5_100).err(), Some(Refusal::Full), "it may be reading");
        take(&mut table, 9, 5_600).expect("it takes nothing");
        let ended = all.iter().map(|state| state.end.is_cancelled());
        assert_eq!(ended.collect::<Vec<_>>(), [0, 0, 0, 1, 0, 0, 0, 0].map(|n| n == 1));
    }

    #[test]
    fn idle_time_shrinks_under_pressure() {
        let mut table = Table::default();
        let first = take(&mut table, 0, 0).expect("room");
        let mut next = 1;
        // Seven of eight places: a quarter of the idle time of 10 s.
        while !first.end.is_cancelled() {
            take(&mut table, next, 4_000 + u64::from(next)).expect("room");
            next += 1;
            assert!(next < 9);
        }
        assert!(table.open.len() < 8, "it ended before all places were taken");
    }

    #[test]
    fn handshakes_are_limited_and_the_oldest_ends() {
        let mut table = Table::default();
        let first = come(&mut table, 1, 0, true).expect("room");
        come(&mut table, 2, 10, true).expect("room");
        assert_eq!(come(&mut table, 3, 20, true).err(), Some(Refusal::Handshakes));
        come(&mut table, 3, 400, true).expect("the oldest ends");
        assert!(first.end.is_cancelled());
        assert_eq!(table.handshakes_of.len(), 2);
        let states: Vec<_> = table.open.values().cloned().collect();
        states.iter().for_each(|state| table.end_handshake(state));
        states.iter().for_each(|state| table.end_handshake(state));
        assert_eq!(table.handshakes_of.len(), 0);
    }

    #[test]
    fn nobody_gives_way_to_one_that_is_refused() {
        let mut table = Table::default();
        let idle: Vec<_> = (0..4).map(|_| take(&mut table, 1, 0).expect("room")).collect();
        for n in 2..4 {
            come(&mut table, n, 1_000, true).expect("room");
        }
        // Its network is full of idle connections, but the handshakes are fresh.
        assert_eq!(come(&mut table, 1, 1_050, true).err(), Some(Refusal::Handshakes));
        assert!(idle.iter().all(|state| !state.end.is_cancelled()));
        assert_eq!(table.open.len(), 6);
    }
}
