//! Several roles on one virtual clock: a simulated network, for tests that must be exact.
//!
//! Time stands still while a role thinks, and jumps to whatever comes next when everybody waits. What
//! becomes of each datagram is decided by a [`Fate`] script: delay, loss, duplication, disorder.
//!
//! ```text
//!   drive(&mut host, &mut role, ..)    one role, its peers are scripts (Network::respond)
//!   run(&mut [(host, role), ..], end)  several roles, interleaved
//! ```
//!
//! Hosts cost no time unless told so: [`Host::set_send_cost`] makes a slow sender, [`Host::stall`] takes
//! the processor away for a while, [`Host::set_poll_cost`] lets time pass for one that spins.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use measure::Nanos;

use crate::batch::{Destination, RxBatch, SocketId, TxBatch};
use crate::drive::{Next, Role, Worker};
use crate::engine::{Engine, EngineCounters, Wait};

/// Receives in a row while time stands still before the simulation gives up.
const FRUITLESS_POLLS: u32 = 100_000;

/// What the network does to one datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Arrives after this time.
    After(Nanos),
    /// Arrives twice, after these times.
    Twice(Nanos, Nanos),
    /// Never arrives.
    Lost,
}

/// A datagram under way, as a [`Fate`] script sees it.
#[derive(Clone, Copy, Debug)]
pub struct Parcel<'a> {
    /// How many were sent before it, by anyone.
    pub sequence: u64,
    /// When it was sent.
    pub sent: Nanos,
    /// Who sent it.
    pub from: SocketAddr,
    /// To whom.
    pub to: SocketAddr,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// A datagram on its way to a host, ordered by arrival, then by the order of sending.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Arrival {
    at: Nanos,
    sequence: u64,
    socket: SocketId,
    from: SocketAddr,
    to: SocketAddr,
    bytes: Vec<u8>,
}

/// A scripted host: (time of arrival, sender, bytes) to replies, each with the time it takes to think of it.
type Script = Box<dyn FnMut(Nanos, SocketAddr, &[u8]) -> Vec<(Nanos, Vec<u8>)>>;

/// A script that decides what becomes of each datagram.
type FateScript = Box<dyn FnMut(&Parcel<'_>) -> Fate>;

/// What all engines of a network share.
struct State {
    now: Nanos,
    sequence: u64,
    fate: FateScript,
    /// What is on its way to each host, or has arrived and was not yet received.
    under_way: Vec<BinaryHeap<Reverse<Arrival>>>,
    hosts: HashMap<SocketAddr, (usize, SocketId)>,
    scripts: HashMap<SocketAddr, Script>,
    next_port: u16,
}

/// A simulated network; clones are handles to the same one.
#[derive(Clone)]
pub struct Network(Rc<RefCell<State>>);

impl Network {
    /// A network that delivers everything after `delay`.
    pub fn new(delay: Nanos) -> Self {
        Self::with_fate(move |_| Fate::After(delay))
    }

    /// A network that asks `fate` about every datagram.
    pub fn with_fate(fate: impl FnMut(&Parcel<'_>) -> Fate + 'static) -> Self {
        Network(Rc::new(RefCell::new(State {
            now: Nanos::ZERO,
            sequence: 0,
            fate: Box::new(fate),
            under_way: Vec::new(),
            hosts: HashMap::new(),
            scripts: HashMap::new(),
            next_port: 40_000,
        })))
    }

    /// The virtual clock.
    pub fn now(&self) -> Nanos {
        self.0.borrow().now
    }

    /// Puts a scripted host at an address: it is given (time of arrival, sender, bytes) and returns its
    /// replies, each with the time it takes before the reply is sent.
    pub fn respond(
        &self,
        at: SocketAddr,
        script: impl FnMut(Nanos, SocketAddr, &[u8]) -> Vec<(Nanos, Vec<u8>)> + 'static,
    ) {
        self.0.borrow_mut().scripts.insert(at, Box::new(script));
    }

    /// An engine with one socket per source, each connected to `target`; port 0 is chosen by the network.
    pub fn client(&self, target: SocketAddr, sources: &[SocketAddr]) -> Host {
        self.mixed(&[], target, sources)
    }

    /// An engine that listens at each address; the wildcard address stands for all of its family.
    pub fn server(&self, listen: &[SocketAddr]) -> Host {
        self.open(listen.iter().map(|&local| (local, None)))
    }

    /// An engine with listening sockets first, then connected ones.
    pub fn mixed(&self, listen: &[SocketAddr], target: SocketAddr, sources: &[SocketAddr]) -> Host {
        let connected = sources.iter().map(|&local| (local, Some(target)));
        self.open(listen.iter().map(|&local| (local, None)).chain(connected))
    }

    /// Opens the sockets (local address, peer of a connected one) of a new engine.
    fn open(&self, sockets: impl Iterator<Item = (SocketAddr, Option<SocketAddr>)>) -> Host {
        let mut state = self.0.borrow_mut();
        let host = state.under_way.len();
        state.under_way.push(BinaryHeap::new());
        let mut opened = Vec::new();
        for (mut local, peer) in sockets {
            if local.port() == 0 {
                local.set_port(state.next_port);
                state.next_port += 1;
            }
            let id = SocketId(opened.len() as u16);
            let before = state.hosts.insert(local, (host, id));
            assert!(before.is_none(), "{local} is taken twice in one simulated network");
            opened.push(SimSocket { local, peer });
        }
        Host {
            network: self.clone(),
            index: host,
            sockets: opened,
            counters: EngineCounters::default(),
            send_cost: Nanos::ZERO,
            poll_cost: Nanos::ZERO,
            stalls: VecDeque::new(),
            end: Nanos::MAX,
            fruitless: 0,
            polled: Nanos::ZERO,
        }
    }
}

impl State {
    /// Sends one datagram at `sent`; scripted hosts answer at once, for the time of arrival.
    fn post(&mut self, sent: Nanos, from: SocketAddr, to: SocketAddr, bytes: &[u8]) {
        let sequence = self.sequence;
        self.sequence += 1;
        let arrivals = match (self.fate)(&Parcel { sequence, sent, from, to, bytes }) {
            Fate::After(delay) => [Some(delay), None],
            Fate::Twice(first, second) => [Some(first), Some(second)],
            Fate::Lost => [None, None],
        };
        for delay in arrivals.into_iter().flatten() {
            self.arrive(sent + delay, sequence, from, to, bytes);
        }
    }

    /// Brings one datagram to a script, or puts it under way to a host.
    fn arrive(&mut self, at: Nanos, sequence: u64, from: SocketAddr, to: SocketAddr, bytes: &[u8]) {
        if let Some(mut script) = self.scripts.remove(&to) {
            for (thinking, reply) in script(at, from, bytes) {
                self.post(at + thinking, to, from, &reply);
            }
            self.scripts.insert(to, script);
        } else if let Some((host, socket)) = self.host_at(to) {
            let bytes = bytes.to_vec();
            self.under_way[host].push(Reverse(Arrival { at, sequence, socket, from, to, bytes }));
        }
    }

    /// The host at an address, or at the wildcard address of its port.
    fn host_at(&self, to: SocketAddr) -> Option<(usize, SocketId)> {
        let wildcard = match to {
            SocketAddr::V4(_) => IpAddr::from([0; 4]),
            SocketAddr::V6(_) => IpAddr::from([0; 16]),
        };
        self.hosts
            .get(&to)
            .or_else(|| self.hosts.get(&SocketAddr::new(wildcard, to.port())))
            .copied()
    }

    /// Moves the clock, never back.
    fn advance(&mut self, to: Nanos) {
        self.now = self.now.max(to);
    }

    /// When something reaches this host next, or did.
    fn next_arrival(&self, host: usize) -> Option<Nanos> {
        self.under_way[host].peek().map(|Reverse(arrival)| arrival.at)
    }
}

/// A simulated socket.
struct SimSocket {
    local: SocketAddr,
    peer: Option<SocketAddr>,
}

/// A host of a simulated network, which is an engine.
pub struct Host {
    network: Network,
    /// Its place among the hosts of the network.
    index: usize,
    sockets: Vec<SimSocket>,
    counters: EngineCounters,
    send_cost: Nanos,
    poll_cost: Nanos,
    stalls: VecDeque<(Nanos, Nanos)>,
    end: Nanos,
    fruitless: u32,
    polled: Nanos,
}

impl Host {
    /// The local address of a socket.
    ///
    /// # Panics
    /// When the engine has no such socket.
    pub fn local(&self, socket: SocketId) -> SocketAddr {
        self.sockets[socket.0 as usize].local
    }

    /// Lets time pass for every datagram sent.
    pub fn set_send_cost(&mut self, per_datagram: Nanos) {
        self.send_cost = per_datagram;
    }

    /// Lets time pass for every poll that finds nothing, so that a role that spins moves the clock.
    pub fn set_poll_cost(&mut self, per_poll: Nanos) {
        self.poll_cost = per_poll;
    }

    /// Takes the processor away: nothing happens on this host from `at` for `length`. Stalls are given in order.
    pub fn stall(&mut self, at: Nanos, length: Nanos) {
        self.stalls.push_back((at, length));
    }

    /// Makes receiving fail with `TimedOut` once the clock has passed `end`, so that no test hangs.
    pub fn set_end(&mut self, end: Nanos) {
        self.end = end;
    }

    /// Lets `cost` pass, and any stall that is due.
    fn spend(&mut self, cost: Nanos) {
        let mut state = self.network.0.borrow_mut();
        let mut now = state.now + cost;
        while let Some(&(at, length)) = self.stalls.front() {
            if at > now {
                break;
            }
            now = now.max(at + length);
            self.stalls.pop_front();
        }
        state.advance(now);
    }

    /// Takes what lies in the inbox; connected sockets take only what their peer sent.
    fn collect(&mut self, rx: &mut RxBatch) {
        self.counters.receive_calls += 1;
        let mut state = self.network.0.borrow_mut();
        let now = state.now;
        let arrivals = &mut state.under_way[self.index];
        while !rx.is_full() && arrivals.peek().is_some_and(|Reverse(a)| a.at <= now) {
            let Some(Reverse(arrival)) = arrivals.pop() else { break };
            let socket = &self.sockets[usize::from(arrival.socket.0)];
            if socket.peer.is_some_and(|peer| peer != arrival.from) {
                continue;
            }
            let to = socket.local.ip().is_unspecified().then_some(arrival.to.ip());
            if rx.put_to(arrival.socket, arrival.from, to, arrival.at, &arrival.bytes) {
                self.counters.received += 1;
            } else {
                self.counters.oversize += 1;
            }
        }
    }
}

impl Engine for Host {
    fn now(&mut self) -> Nanos {
        self.spend(Nanos::ZERO);
        self.network.now()
    }

    fn batches(&self) -> (RxBatch, TxBatch) {
        (RxBatch::new(32, 65_535), TxBatch::new(4_096, 1 << 20, 64))
    }

    fn receive(&mut self, rx: &mut RxBatch, wait: Wait) -> io::Result<()> {
        rx.clear();
        self.spend(Nanos::ZERO);
        if wait != Wait::No {
            let mut state = self.network.0.borrow_mut();
            let until = if let Wait::Until(t) = wait { t } else { Nanos::MAX };
            let next = state.next_arrival(self.index).map_or(until, |at| at.min(until));
            if next == Nanos::MAX {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "waiting for what nobody will send",
                ));
            }
            state.advance(next);
        }
        self.spend(Nanos::ZERO);
        self.collect(rx);
        if rx.is_empty() && wait == Wait::No {
            self.spend(self.poll_cost);
        }
        let now = self.network.now();
        self.fruitless = if now == self.polled { self.fruitless + 1 } else { 0 };
        self.polled = now;
        if now > self.end || self.fruitless > FRUITLESS_POLLS {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the simulation came to its end"));
        }
        Ok(())
    }

    fn send(&mut self, tx: &mut TxBatch) -> io::Result<()> {
        self.counters.send_calls += 1;
        for (to, bytes) in tx.iter() {
            self.spend(self.send_cost);
            let socket = &self.sockets[to.socket().0 as usize];
            let (from, peer) = match to {
                Destination::Connected(id) => match socket.peer {
                    Some(peer) => (socket.local, peer),
                    None => {
                        return Err(io::Error::other(format!(
                            "simulated socket {} has no peer",
                            id.0
                        )));
                    }
                },
                Destination::Peer { peer, from, .. } => {
                    let ip = from.unwrap_or(socket.local.ip());
                    (SocketAddr::new(ip, socket.local.port()), peer)
                }
            };
            let mut state = self.network.0.borrow_mut();
            let now = state.now;
            state.post(now, from, peer, bytes);
            self.counters.sent += 1;
        }
        tx.clear();
        Ok(())
    }

    fn counters(&self) -> EngineCounters {
        self.counters
    }
}

/// Runs several roles on the hosts of one network until all of them are done or the clock reaches `end`,
/// and returns the time.
///
/// Each role is called when something arrives for it or its time has come; ties go to the first in the list.
///
/// # Errors
/// Those of the hosts.
pub fn run(parties: &mut [(&mut Host, &mut dyn Role)], end: Nanos) -> io::Result<Nanos> {
    let Some(network) = parties.first().map(|(host, _)| host.network.clone()) else {
        return Ok(Nanos::ZERO);
    };
    let mut workers: Vec<Worker> = parties.iter_mut().map(|(host, _)| Worker::new(*host)).collect();
    let mut due = vec![Some(network.now()); parties.len()];
    loop {
        let next = (0..parties.len())
            .filter_map(|i| {
                // A role that is done is deaf.
                let wake = due[i]?;
                let arrival =
                    network.0.borrow().next_arrival(parties[i].0.index).unwrap_or(Nanos::MAX);
                Some((wake.min(arrival).max(network.now()), i))
            })
            .min();
        let Some((at, i)) = next else { return Ok(network.now()) };
        if at > end {
            network.0.borrow_mut().advance(end);
            return Ok(end);
        }
        network.0.borrow_mut().advance(at);
        let (host, role) = &mut parties[i];
        host.receive(&mut workers[i].rx, Wait::No)?;
        due[i] = match workers[i].step(*host, *role)? {
            Next::Now => Some(network.now()),
            Next::At(t) => Some(t),
            Next::Idle => Some(Nanos::MAX),
            Next::Done => None,
        };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::drive::{WaitMode, drive};

    /// Sends a numbered datagram at each due time and notes when each answer came.
    struct Pinger {
        due: Vec<Nanos>,
        next: usize,
        sent: Vec<Nanos>,
        answers: Vec<(Nanos, u8)>,
        until: Nanos,
    }

    impl Pinger {
        fn new(due: &[u64], until: u64) -> Self {
            let due = due.iter().map(|&t| Nanos(t)).collect();
            Pinger { due, next: 0, sent: vec![], answers: vec![], until: Nanos(until) }
        }
    }

    impl Role for Pinger {
        fn handle(&mut self, now: Nanos, rx: &RxBatch, tx: &mut TxBatch) -> Next {
            self.answers.extend(rx.iter().map(|r| (r.at, r.bytes[0])));
            while self.due.get(self.next).is_some_and(|&t| t <= now) {
                let number = self.next as u8;
                assert!(tx.push(Destination::Connected(SocketId(0)), 1, |out| {
                    out[0] = number;
                    1
                }));
                self.next += 1;
            }
            match self.due.get(self.next) {
                Some(&t) => Next::At(t),
                None if now >= self.until => Next::Done,
                None => Next::At(self.until),
            }
        }

        fn sent(&mut self, at: Nanos) {
            self.sent.push(at);
        }
    }

    /// Sends everything back.
    struct Echo;

    impl Role for Echo {
        fn handle(&mut self, _now: Nanos, rx: &RxBatch, tx: &mut TxBatch) -> Next {
            for r in rx.iter() {
                assert!(tx.push(Destination::reply_to(&r), r.bytes.len(), |out| {
                    out.copy_from_slice(r.bytes);
                    out.len()
                }));
            }
            Next::Idle
        }
    }

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn two_roles_meet_at_exact_times() {
        let network = Network::new(Nanos(500));
        let target = address("[2001:db8::53]:53");
        let mut server = network.server(&[address("[::]:53")]);
        let mut client = network.client(target, &[address("[2001:db8::1]:0")]);
        let mut pinger = Pinger::new(&[0, 10, 100_000], 200_000);
        let end =
            run(&mut [(&mut client, &mut pinger), (&mut server, &mut Echo)], Nanos(1_000_000))
                .unwrap();
        assert_eq!(pinger.sent, [Nanos(0), Nanos(10), Nanos(100_000)]);
        assert_eq!(pinger.answers, [(Nanos(1_000), 0), (Nanos(1_010), 1), (Nanos(101_000), 2)]);
        assert_eq!(end, Nanos(1_000_000), "the server never ends, so the clock runs out");
        assert_eq!((client.counters().sent, server.counters().received), (3, 3));
    }

    #[test]
    fn scripts_answer_under_every_wait_mode() {
        for mode in [WaitMode::Spin, WaitMode::Sleep, WaitMode::Auto] {
            let mut count = 0;
            let network = Network::with_fate(move |parcel| {
                count += 1;
                match (parcel.to.port(), count) {
                    (53, 2) => Fate::Lost,
                    (53, _) => Fate::After(Nanos(100)),
                    (_, 4) => Fate::Twice(Nanos(100), Nanos(150)),
                    _ => Fate::After(Nanos(100)),
                }
            });
            let target = address("192.0.2.1:53");
            network.respond(target, |_, _, bytes| vec![(Nanos(7), bytes.to_vec())]);
            let mut client = network.client(target, &[address("192.0.2.2:0")]);
            client.set_poll_cost(Nanos(1));
            client.set_end(Nanos(1_000_000));
            let mut pinger = Pinger::new(&[0, 100_000, 200_000], 300_000);
            // Sent: query 0, its answer, query 1 (as the third datagram, so it survives), ...
            drive(&mut client, &mut pinger, mode, &AtomicBool::new(false)).unwrap();
            let numbers: Vec<_> = pinger.answers.iter().map(|&(at, n)| (at.0, n)).collect();
            assert_eq!(numbers, [(207, 0), (100_207, 1), (100_257, 1), (200_207, 2)], "{mode:?}");
            assert_eq!(pinger.sent, [Nanos(0), Nanos(100_000), Nanos(200_000)], "{mode:?}");
        }
    }

    #[test]
    fn a_stall_and_a_slow_sender_make_queries_late() {
        let network = Network::new(Nanos(1));
        let mut client = network.client(address("192.0.2.1:53"), &[address("192.0.2.2:0")]);
        client.set_send_cost(Nanos(5));
        client.stall(Nanos(150), Nanos(1_000));
        let mut pinger = Pinger::new(&[0, 100, 200, 300], 2_000);
        drive(&mut client, &mut pinger, WaitMode::Sleep, &AtomicBool::new(false)).unwrap();
        assert_eq!(
            pinger.sent,
            [Nanos(0), Nanos(100), Nanos(1_150)],
            "the stall ends at 1150 with two due"
        );
        assert_eq!(network.now(), Nanos(2_000));
    }

    #[test]
    fn what_cannot_go_on_is_an_error_not_a_hang() {
        let network = Network::new(Nanos(1));
        let mut server = network.server(&[address("192.0.2.1:53")]);
        let (mut rx, _) = server.batches();
        let polls = (0..).take_while(|_| server.receive(&mut rx, Wait::No).is_ok()).count();
        assert!(polls <= FRUITLESS_POLLS as usize);
        drive(
            &mut network.server(&[address("192.0.2.1:54")]),
            &mut Echo,
            WaitMode::Spin,
            &AtomicBool::new(true),
        )
        .unwrap();
    }
}
