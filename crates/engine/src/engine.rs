//! What every engine offers: a clock, batches, receiving, sending, counters.

use std::io;

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

    /// Looks at nothing but the clock until `due`.
    fn spin(&mut self, due: Nanos) {
        while self.now() < due {}
    }

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

    /// Whether another thread wants the worker's attention, since this was asked last.
    fn was_rung(&mut self) -> bool {
        false
    }

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
    /// Times the kernel had no room for a datagram and was asked again.
    pub send_retries: u64,
    /// Times a peer's host said that nobody listens (ICMP port unreachable).
    pub refused: u64,
    /// Datagrams dropped because a receive queue was full.
    pub dropped: u64,
    /// Messages longer than a slot, cut short.
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
        self.send_retries += other.send_retries;
        self.refused += other.refused;
        self.dropped += other.dropped;
        self.oversize += other.oversize;
    }
}
