//! A simulated engine: a virtual clock and a scripted peer, for exact tests of roles.
//!
//! The clock advances only when the role waits (to the awaited time or the next arrival, whichever is
//! earlier) and by a set cost per call. Nothing is random unless the script is.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::net::SocketAddr;

use measure::Nanos;

use crate::batch::{Destination, RxBatch, SocketId, TxBatch};
use crate::engine::{Engine, EngineCounters, Wait};

/// A datagram on its way to the role.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Arrival {
    at: Nanos,
    order: u64,
    socket: u16,
    peer: SocketAddr,
    bytes: Vec<u8>,
}

/// The replies of a script to a datagram of the role.
#[derive(Debug, Default)]
pub struct Replies(Vec<(Nanos, Vec<u8>)>);

impl Replies {
    /// Sends `bytes` back, `after` this time from the query.
    pub fn after(&mut self, after: Nanos, bytes: impl Into<Vec<u8>>) {
        self.0.push((after, bytes.into()));
    }
}

/// Scripted peer: gets the time, the socket and the sent bytes, and adds replies.
pub type Script<'a> = Box<dyn FnMut(Nanos, SocketId, &[u8], &mut Replies) + 'a>;

/// An engine without a kernel.
pub struct SimEngine<'a> {
    now: Nanos,
    call_cost: Nanos,
    script: Script<'a>,
    arrivals: BinaryHeap<Reverse<Arrival>>,
    order: u64,
    counters: EngineCounters,
    /// Every sent datagram with its time, if the engine records.
    sent: Option<Vec<(Nanos, Destination, Vec<u8>)>>,
}

impl<'a> SimEngine<'a> {
    /// Makes an engine at time zero whose peer is `script`.
    pub fn new(script: impl FnMut(Nanos, SocketId, &[u8], &mut Replies) + 'a) -> Self {
        SimEngine {
            now: Nanos::ZERO,
            call_cost: Nanos::ZERO,
            script: Box::new(script),
            arrivals: BinaryHeap::new(),
            order: 0,
            counters: EngineCounters::default(),
            sent: None,
        }
    }

    /// Sets the virtual time that each receive and send takes.
    pub fn call_cost(mut self, cost: Nanos) -> Self {
        self.call_cost = cost;
        self
    }

    /// Records every sent datagram, for [`sent`](Self::sent).
    pub fn recording(mut self) -> Self {
        self.sent = Some(Vec::new());
        self
    }

    /// Returns the recorded datagrams with their times.
    pub fn sent(&self) -> &[(Nanos, Destination, Vec<u8>)] {
        self.sent.as_deref().unwrap_or(&[])
    }

    /// Makes `bytes` arrive from `peer` at time `at`.
    pub fn inject(
        &mut self,
        at: Nanos,
        socket: SocketId,
        peer: SocketAddr,
        bytes: impl Into<Vec<u8>>,
    ) {
        self.order += 1;
        self.arrivals.push(Reverse(Arrival {
            at,
            order: self.order,
            socket: socket.0,
            peer,
            bytes: bytes.into(),
        }));
    }
}

impl Engine for SimEngine<'_> {
    fn now(&mut self) -> Nanos {
        self.now
    }

    fn spin(&mut self, due: Nanos) {
        self.now = self.now.max(due);
    }

    fn sleep(&mut self, until: Nanos) {
        self.now = self.now.max(until);
    }

    fn batches(&self) -> (RxBatch, TxBatch) {
        (RxBatch::new(64, 4_096), TxBatch::new(256, 64 * 1_024, 64))
    }

    fn receive(&mut self, rx: &mut RxBatch, wait: Wait) -> io::Result<()> {
        rx.clear();
        self.now += self.call_cost;
        self.counters.receive_calls += 1;
        if let Wait::Until(until) = wait {
            let next = self.arrivals.peek().map_or(until, |Reverse(a)| a.at.min(until));
            self.now = self.now.max(next);
        }
        while let Some(Reverse(arrival)) = self.arrivals.peek() {
            if arrival.at > self.now
                || !rx.put(SocketId(arrival.socket), arrival.peer, arrival.at, &arrival.bytes)
            {
                break;
            }
            self.arrivals.pop();
            self.counters.received += 1;
        }
        Ok(())
    }

    fn send(&mut self, tx: &mut TxBatch) -> io::Result<()> {
        self.now += self.call_cost;
        self.counters.send_calls += 1;
        for (to, bytes) in tx.iter() {
            self.counters.sent += 1;
            let mut replies = Replies::default();
            (self.script)(self.now, to.socket(), bytes, &mut replies);
            let peer = match to {
                Destination::Connected(_) => SocketAddr::from(([127, 0, 0, 1], 53)),
                Destination::Peer { peer, .. } => peer,
            };
            for (after, bytes) in replies.0 {
                self.order += 1;
                let at = self.now + after;
                self.arrivals.push(Reverse(Arrival {
                    at,
                    order: self.order,
                    socket: to.socket().0,
                    peer,
                    bytes,
                }));
            }
            if let Some(sent) = &mut self.sent {
                sent.push((self.now, to, bytes.to_vec()));
            }
        }
        tx.clear();
        Ok(())
    }

    fn counters(&self) -> EngineCounters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::WaitMode;
    use crate::drive::{Next, Role, drive};

    /// Sends a datagram every millisecond and records when the echoes arrive.
    struct Pinger {
        due: u64,
        echoes: Vec<Nanos>,
    }

    impl Role for Pinger {
        fn handle(&mut self, now: Nanos, rx: &RxBatch, tx: &mut TxBatch) -> Next {
            self.echoes.extend(rx.iter().map(|r| r.at));
            while self.due < 5 && Nanos::from_millis(self.due) <= now {
                let byte = self.due as u8;
                tx.push(Destination::Connected(SocketId(0)), 1, |room| {
                    room[0] = byte;
                    1
                });
                self.due += 1;
            }
            match (self.due < 5, self.echoes.len() < 5) {
                (true, _) => Next::At(Nanos::from_millis(self.due)),
                (false, true) => Next::Idle,
                (false, false) => Next::Done,
            }
        }
    }

    #[test]
    fn virtual_time_is_exact() {
        let echo = |_: Nanos, _: SocketId, bytes: &[u8], replies: &mut Replies| {
            replies.after(Nanos::from_micros(250), bytes)
        };
        for mode in [WaitMode::Sleep, WaitMode::Auto] {
            let mut engine = SimEngine::new(echo).recording();
            let mut role = Pinger { due: 0, echoes: Vec::new() };
            // `Auto` spins: the virtual clock must move with each call.
            engine.call_cost = Nanos(if mode == WaitMode::Auto { 1_000 } else { 0 });
            let stop = AtomicBool::new(false);
            let spun = drive(&mut engine, &mut role, mode, &stop).expect("no errors here");
            assert_eq!(engine.sent().len(), 5);
            // For 60 us after each of ten events and before four of them, of 4.25 ms.
            let spins = mode == WaitMode::Auto;
            assert_eq!((Nanos(700_000)..Nanos(1_000_000)).contains(&spun), spins, "{spun}");
            if mode == WaitMode::Sleep {
                let wanted: Vec<_> = (0..5).map(|i| Nanos(i * 1_000_000 + 250_000)).collect();
                assert_eq!(role.echoes, wanted);
            }
        }
    }
}
