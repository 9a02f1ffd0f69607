//! Engines: a clock, batches, receiving, sending, counters.

use std::io;

use measure::Nanos;

use crate::batch::{RxBatch, TxBatch};

/// How long `receive` may wait for the first datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Not at all: only datagrams that have already arrived are received.
    No,
    /// Until this time on the engine's clock.
    Until(Nanos),
}

/// Sends and receives batches of datagrams, and has the clock of its worker.
pub trait Engine {
    /// Returns the time on this engine's clock.
    fn now(&mut self) -> Nanos;

    /// Reads only the clock until `due`.
    fn spin(&mut self, due: Nanos) {
        while self.now() < due {}
    }

    /// Waits until `until` without receiving: datagrams wait in the sockets.
    fn sleep(&mut self, until: Nanos) {
        loop {
            match until.since(self.now()) {
                Nanos::ZERO => return,
                left => std::thread::sleep(left.into()),
            }
        }
    }

    /// Makes batches of the size that suits this engine.
    fn batches(&self) -> (RxBatch, TxBatch);

    /// Clears `rx` and receives the available datagrams; waits for the first one according to
    /// `wait`.
    ///
    /// # Errors
    /// Errors of the kernel, except temporary ones, which are counted.
    fn receive(&mut self, rx: &mut RxBatch, wait: Wait) -> io::Result<()>;

    /// Sends all of `tx` and clears it.
    ///
    /// # Errors
    /// Errors of the kernel, except temporary ones, which are counted.
    fn send(&mut self, tx: &mut TxBatch) -> io::Result<()>;

    /// Returns whether another thread has rung the doorbell since the last call.
    fn was_rung(&mut self) -> bool {
        false
    }

    /// Returns the counters since the start.
    fn counters(&self) -> EngineCounters;
}

/// Counters of an engine since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineCounters {
    /// Datagrams passed to the kernel.
    pub sent: u64,
    /// Datagrams received from the kernel.
    pub received: u64,
    /// Number of system calls that sent datagrams.
    pub send_calls: u64,
    /// Number of system calls that received datagrams.
    pub receive_calls: u64,
    /// Datagrams that the kernel refused, also after retries.
    pub send_errors: u64,
    /// Retries because the kernel had no room for a datagram.
    pub send_retries: u64,
    /// ICMP port unreachable messages: no process listens at the peer.
    pub refused: u64,
    /// Datagrams dropped because a receive queue was full.
    pub dropped: u64,
    /// Messages longer than a slot, truncated.
    pub oversize: u64,
}

impl EngineCounters {
    /// Adds the counts of another worker.
    pub fn merge(&mut self, other: &EngineCounters) {
        measure::add!(self, other;
            sent, received, send_calls, receive_calls, send_errors, send_retries, refused, dropped,
            oversize);
    }
}
