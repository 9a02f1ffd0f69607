//! The engine, the role, and the one worker loop that joins them.
//!
//! ```text
//!            ┌──────────── drive ────────────┐
//!   kernel ──> engine.receive ──> role.handle ──> engine.send ──> kernel
//!                    (RxBatch)   now   (TxBatch)
//! ```
//!
//! A role is a state machine: it reads no clock and opens no socket, it is handed the time and what
//! arrived, and fills what is to be sent. So the same Measurer, AuthDNS or DNS64 server runs on
//! sockets and, to the nanosecond, on the simulated engine.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use measure::Nanos;

use crate::batch::{RxBatch, TxBatch};

/// How long `receive` may wait for the first datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Not at all.
    No,
    /// Until this time on the engine's clock.
    Until(Nanos),
}

/// Moves batches of datagrams.
pub trait Engine {
    /// The time on this engine's clock.
    fn now(&mut self) -> Nanos;

    /// Batches of the size this engine likes.
    fn batches(&self) -> (RxBatch, TxBatch);

    /// Clears `rx` and receives what is there, after waiting as told.
    ///
    /// # Errors
    /// What the kernel says, but for the passing errors, which are counted.
    fn receive(&mut self, rx: &mut RxBatch, wait: Wait) -> io::Result<()>;

    /// Sends all of `tx` and clears it.
    ///
    /// # Errors
    /// What the kernel says, but for the passing errors, which are counted.
    fn send(&mut self, tx: &mut TxBatch) -> io::Result<()>;

    /// What was counted so far.
    fn counters(&self) -> EngineCounters;
}

/// What an engine counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineCounters {
    /// Datagrams handed to the kernel.
    pub sent: u64,
    /// Datagrams received.
    pub received: u64,
    /// System calls that sent.
    pub send_calls: u64,
    /// System calls that received.
    pub receive_calls: u64,
    /// Datagrams that the kernel would not take, after retries.
    pub send_errors: u64,
    /// Times a peer's host said that nobody listens (ICMP port unreachable).
    pub refused: u64,
    /// Datagrams dropped because a receive queue was full (`SO_RXQ_OVFL`).
    pub dropped: u64,
    /// Datagrams longer than the receive buffer, cut short.
    pub oversize: u64,
}

impl EngineCounters {
    /// Adds another worker's counts.
    pub fn merge(&mut self, other: &EngineCounters) {
        self.sent += other.sent;
        self.received += other.received;
        self.send_calls += other.send_calls;
        self.receive_calls += other.receive_calls;
        self.send_errors += other.send_errors;
        self.refused += other.refused;
        self.dropped += other.dropped;
        self.oversize += other.oversize;
    }
}

/// When a role wants to be called again, if nothing arrives before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// At once: there is more to send.
    Now,
    /// At this time.
    At(Nanos),
    /// Only when something arrives.
    Idle,
    /// Never: the work is done.
    Done,
}

/// What a worker does with datagrams.
pub trait Role {
    /// Takes what arrived, fills what is to be sent. Called with an empty `rx` when time has come.
    fn handle(&mut self, now: Nanos, rx: &RxBatch, tx: &mut TxBatch) -> Next;

    /// The clock just before the last filled batch went to the kernel.
    fn sent(&mut self, _at: Nanos) {}
}

/// How a worker waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitMode {
    /// Never sleeps: best times, a whole core.
    Spin,
    /// Always sleeps: for a worker that shares its core.
    Sleep,
    /// Sleeps through long waits, spins through the last of them.
    #[default]
    Auto,
}

/// A worker looks at its stop flag at least so often.
const STOP_LATENCY: Nanos = Nanos::from_millis(50);
/// `Auto` spins this long before a due time, and this long after the last datagram: some wake-ups'
/// worth, so that neither a due time nor a burst pays for one.
const AUTO_SPIN: Nanos = Nanos::from_micros(60);

/// The worker loop: until the role is done or `stop` is set.
///
/// # Errors
/// What the engine could not mend.
pub fn drive<E: Engine, R: Role>(
    engine: &mut E,
    role: &mut R,
    mode: WaitMode,
    stop: &AtomicBool,
) -> io::Result<()> {
    let (mut rx, mut tx) = engine.batches();
    let mut wait = Wait::No;
    let mut last_work = engine.now();
    while !stop.load(Ordering::Relaxed) {
        engine.receive(&mut rx, wait)?;
        let now = engine.now();
        let next = role.handle(now, &rx, &mut tx);
        if !rx.is_empty() || !tx.is_empty() {
            last_work = now;
        }
        if !tx.is_empty() {
            let at = engine.now();
            role.sent(at);
            engine.send(&mut tx)?;
        }
        wait = match next {
            Next::Done => return Ok(()),
            Next::Now => Wait::No,
            Next::At(due) => pause(mode, now, last_work, Some(due)),
            Next::Idle => pause(mode, now, last_work, None),
        };
    }
    Ok(())
}

/// How to wait for `due`, by the worker's mode.
fn pause(mode: WaitMode, now: Nanos, last_work: Nanos, due: Option<Nanos>) -> Wait {
    let horizon = now + STOP_LATENCY;
    match mode {
        WaitMode::Spin => Wait::No,
        WaitMode::Sleep => Wait::Until(due.map_or(horizon, |due| due.min(horizon))),
        WaitMode::Auto => match due {
            Some(due) if due <= now + AUTO_SPIN => Wait::No,
            Some(due) => Wait::Until(Nanos(due.0 - AUTO_SPIN.0).min(horizon)),
            None if now <= last_work + AUTO_SPIN => Wait::No,
            None => Wait::Until(horizon),
        },
    }
}
