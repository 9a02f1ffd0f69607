//! Roles, and the worker loop that joins a role to an engine.
//!
//! ```text
//!            ┌──────────── drive ────────────┐
//!   kernel ──> engine.receive ──> role.handle ──> engine.send ──> kernel
//!                    (RxBatch)   now   (TxBatch)
//! ```
//!
//! A role is a state machine: it reads no clock and opens no socket. It gets the time and the datagrams that
//! arrived, and fills a batch of datagrams to send. The same Measurer, AuthDNS or DNS64 server therefore runs
//! on sockets and, exact to the nanosecond, on the simulated engine.
//!
//! One batch is received between any two that are sent, so that a fast sender never starves its own receive
//! queue. The role limits how much is sent at once.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use measure::{Nanos, WaitMode};

use crate::batch::{RxBatch, TxBatch};
use crate::engine::{Engine, Wait};

/// Time at which a role must be called again if nothing arrives before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Immediately: there is more to send.
    Now,
    /// At this time on the engine's clock, or when something arrives.
    At(Nanos),
    /// Only when a message arrives or another thread wakes the engine.
    Idle,
    /// Never: the work is done.
    Done,
}

/// The work that a worker does with datagrams.
pub trait Role {
    /// Handles the datagrams that arrived and fills the batch to send. `rx` is empty if the call is
    /// only due by time.
    fn handle(&mut self, now: Nanos, rx: &RxBatch, tx: &mut TxBatch) -> Next;

    /// Gets the time just before the last filled batch goes to the kernel.
    fn sent(&mut self, _at: Nanos) {}

    /// Time before the next call during which a spinning worker reads only the clock, since receiving
    /// datagrams would make the role late. Arrivals wait for at most [`UNSEEN`].
    fn quiet(&self) -> Nanos {
        Nanos::ZERO
    }

    /// Time until which the worker does not receive, so that datagrams wait in the sockets, and drop when these are
    /// full: for a role that stalls on request. The role is called again then.
    fn paused_until(&self) -> Nanos {
        Nanos::ZERO
    }
}

/// Longest time between two checks of the stop flag.
const STOP_LATENCY: Nanos = Nanos::from_millis(50);
/// Time that `Auto` spins before a due time and after the last datagram: a few times as long as a wake-up
/// takes, so that neither a due time nor a burst has to wait for one.
pub const AUTO_SPIN: Nanos = Nanos::from_micros(60);
/// Longest time that arrivals wait for a role with a quiet time; the kernel timestamps and keeps them.
pub const UNSEEN: Nanos = Nanos::from_millis(1);

/// Runs the worker loop until the role is done or `stop` is set; returns the time that it spun
/// without work.
///
/// # Errors
/// Errors of the engine from which it cannot recover.
pub fn drive<E: Engine, R: Role>(
    engine: &mut E,
    role: &mut R,
    mode: WaitMode,
    stop: &AtomicBool,
) -> io::Result<Nanos> {
    drive_with_hook(engine, role, mode, stop, |_, _| Ok(HookResult::Nothing))
}

/// Works as [`drive`] and calls `hook` before each wait, for work that a role cannot do, such as changing
/// sockets or passing messages of other threads. It is called after each call of the role, and after the
/// engine [was rung](Engine::was_rung).
///
/// # Errors
/// Errors of the engine or of the hook.
pub fn drive_with_hook<E: Engine, R: Role>(
    engine: &mut E,
    role: &mut R,
    mode: WaitMode,
    stop: &AtomicBool,
    hook: impl FnMut(&mut E, &mut R) -> io::Result<HookResult>,
) -> io::Result<Nanos> {
    Worker::new(engine).run(engine, role, mode, stop, hook)
}

/// Instruction of a hook to the worker loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookResult {
    /// The role need not be called.
    Nothing,
    /// The role must be called immediately.
    CallRole,
}

/// The two halves of the loop, with their batches, for [`drive`] more than once: batches take
/// megabytes, which a thread with few queries should not allocate.
#[derive(Debug)]
pub struct Worker {
    rx: RxBatch,
    tx: TxBatch,
    /// Time of the last call of the role, and of its last work.
    now: Nanos,
    last_work: Nanos,
    /// Time of the last receive.
    last_look: Nanos,
    /// Time spent in polls without a result.
    spun: Nanos,
}

impl Worker {
    /// Makes a worker with empty batches.
    pub fn new(engine: &mut impl Engine) -> Self {
        let (rx, tx) = engine.batches();
        let never = Nanos::ZERO;
        Worker { rx, tx, now: never, last_work: never, last_look: never, spun: Nanos::ZERO }
    }

    /// Works as [`drive`], with the batches of the worker.
    ///
    /// # Errors
    /// Errors of the engine from which it cannot recover.
    pub fn drive<E: Engine, R: Role>(
        &mut self,
        engine: &mut E,
        role: &mut R,
        mode: WaitMode,
        stop: &AtomicBool,
    ) -> io::Result<Nanos> {
        self.run(engine, role, mode, stop, |_, _| Ok(HookResult::Nothing))
    }

    /// Runs the loop from the beginning: datagrams for an earlier role are dropped.
    fn run<E: Engine, R: Role>(
        &mut self,
        engine: &mut E,
        role: &mut R,
        mode: WaitMode,
        stop: &AtomicBool,
        mut hook: impl FnMut(&mut E, &mut R) -> io::Result<HookResult>,
    ) -> io::Result<Nanos> {
        self.rx.clear();
        self.tx.clear();
        let now = engine.now();
        (self.now, self.last_work, self.last_look, self.spun) = (now, now, now, Nanos::ZERO);
        while !stop.load(Ordering::Relaxed) {
            let next = self.step(engine, role)?;
            if next == Next::Done {
                break;
            }
            let next = match hook(engine, role)? {
                HookResult::Nothing => next,
                HookResult::CallRole => Next::Now,
            };
            if !self.pause(engine, role.paused_until(), stop) {
                self.wait(engine, next, role.quiet(), mode, stop)?;
            }
        }
        Ok(self.spun)
    }

    /// Passes the arrived datagrams to the role, and sends those that it fills in.
    fn step<E: Engine, R: Role>(&mut self, engine: &mut E, role: &mut R) -> io::Result<Next> {
        self.now = engine.now();
        let next = role.handle(self.now, &self.rx, &mut self.tx);
        if !self.rx.is_empty() || !self.tx.is_empty() {
            self.last_work = self.now;
        }
        if !self.tx.is_empty() {
            role.sent(engine.now());
            engine.send(&mut self.tx)?;
        }
        Ok(next)
    }

    /// Sleeps until `until`, or `stop` is set, without receiving; returns whether there was a pause.
    fn pause<E: Engine>(&mut self, engine: &mut E, until: Nanos, stop: &AtomicBool) -> bool {
        if until <= self.now {
            return false;
        }
        self.rx.clear();
        let mut now = engine.now();
        while now < until && !stop.load(Ordering::Relaxed) {
            engine.sleep(until.min(now + STOP_LATENCY));
            now = engine.now();
        }
        true
    }

    /// Receives until a datagram arrives, the role is due, or `stop` is set.
    fn wait<E: Engine>(
        &mut self,
        engine: &mut E,
        next: Next,
        quiet: Nanos,
        mode: WaitMode,
        stop: &AtomicBool,
    ) -> io::Result<()> {
        let due = match next {
            Next::Now | Next::Done => return engine.receive(&mut self.rx, Wait::No),
            Next::At(due) => due,
            Next::Idle => Nanos::MAX,
        };
        // Time of the last poll: the time of the role and of sending is no spinning.
        let mut looked = None;
        let mut now = self.now;
        loop {
            let is_quiet = quiet > Nanos::ZERO && due <= now + quiet && mode != WaitMode::Sleep;
            if is_quiet && now < self.last_look + UNSEEN {
                self.rx.clear();
                let from = engine.now();
                engine.spin(due);
                self.spun += due.since(from);
                return Ok(());
            }
            self.last_look = now;
            let pause = pause(mode, now, self.last_work, due);
            engine.receive(&mut self.rx, pause)?;
            if !self.rx.is_empty() || engine.was_rung() || stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            now = engine.now();
            if let (Some(before), Wait::No) = (looked, pause) {
                self.spun += now.since(before).min(AUTO_SPIN);
            }
            if mode == WaitMode::Yield {
                std::thread::yield_now();
                now = engine.now();
            }
            looked = Some(now);
            if now >= due {
                return Ok(());
            }
        }
    }
}

/// Returns how to wait for `due` (`Nanos::MAX`: only for an arrival) in this mode.
fn pause(mode: WaitMode, now: Nanos, last_work: Nanos, due: Nanos) -> Wait {
    let spin_from = due.since(AUTO_SPIN);
    match mode {
        WaitMode::Spin | WaitMode::Yield => Wait::No,
        WaitMode::Sleep => Wait::Until(due.min(now + STOP_LATENCY)),
        WaitMode::Auto if now >= spin_from || now < last_work + AUTO_SPIN => Wait::No,
        WaitMode::Auto => Wait::Until(spin_from.min(now + STOP_LATENCY)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{Destination, SocketId};
    use crate::sim::{Replies, SimEngine};

    #[test]
    fn each_mode_waits_as_documented() {
        let us = Nanos::from_micros;
        let horizon = |now: u64| Wait::Until(us(now) + STOP_LATENCY);
        let never = u64::MAX / 1_000;
        for (mode, now, last_work, due, wait) in [
            (WaitMode::Spin, 0, 0, never, Wait::No),
            (WaitMode::Spin, 0, 0, 1_000, Wait::No),
            (WaitMode::Yield, 0, 0, 1_000, Wait::No),
            (WaitMode::Sleep, 10, 10, 11, Wait::Until(us(11))),
            (WaitMode::Sleep, 10, 10, never, horizon(10)),
            (WaitMode::Sleep, 10, 10, 90_000, horizon(10)),
            // `Auto` spins shortly after work and shortly before the due time.
            (WaitMode::Auto, 1_050, 1_000, 9_000, Wait::No),
            (WaitMode::Auto, 1_060, 1_000, 9_000, Wait::Until(us(8_940))),
            (WaitMode::Auto, 8_940, 1_000, 9_000, Wait::No),
            (WaitMode::Auto, 1_050, 1_000, never, Wait::No),
            (WaitMode::Auto, 1_060, 1_000, never, horizon(1_060)),
        ] {
            assert_eq!(pause(mode, us(now), us(last_work), us(due)), wait, "{mode:?} at {now}");
        }
    }

    /// Sends a datagram every five microseconds for ten milliseconds.
    struct Hurried {
        sent: u64,
        echoes: u64,
    }

    impl Role for Hurried {
        fn handle(&mut self, now: Nanos, rx: &RxBatch, tx: &mut TxBatch) -> Next {
            let due = |sent: u64| Nanos::from_micros(5 * sent);
            self.echoes += rx.iter().count() as u64;
            while self.sent < 2_000 && due(self.sent) <= now {
                tx.push(Destination::Connected(SocketId(0)), 1, |_| 1);
                self.sent += 1;
            }
            match (self.sent, self.echoes) {
                (2_000, 2_000) => Next::Done,
                (2_000, _) => Next::Idle,
                _ => Next::At(due(self.sent)),
            }
        }

        fn quiet(&self) -> Nanos {
            Nanos::from_micros(20)
        }
    }

    #[test]
    fn arrivals_wait_for_a_busy_role_but_for_a_limited_time() {
        let echo = |_: Nanos, _: SocketId, bytes: &[u8], replies: &mut Replies| {
            replies.after(Nanos::from_micros(250), bytes)
        };
        for mode in [WaitMode::Spin, WaitMode::Auto] {
            let mut engine = SimEngine::new(echo).call_cost(Nanos::from_micros(2));
            let mut role = Hurried { sent: 0, echoes: 0 };
            drive(&mut engine, &mut role, mode, &AtomicBool::new(false)).expect("no errors here");
            let looks = engine.counters().receive_calls;
            // Ten receives while it sends, each of several batches, then 250 us with receives of 2 us at the
            // end.
            assert!((10..250).contains(&looks), "{looks}");
            assert_eq!(engine.counters().received, 2_000);
        }
    }

    /// Sends a datagram, and is done when one arrives.
    struct Once(bool);

    impl Role for Once {
        fn handle(&mut self, _: Nanos, rx: &RxBatch, tx: &mut TxBatch) -> Next {
            if !rx.is_empty() {
                return Next::Done;
            }
            if !std::mem::replace(&mut self.0, true) {
                tx.push(Destination::Connected(SocketId(0)), 1, |_| 1);
            }
            Next::Idle
        }
    }

    #[test]
    fn a_worker_that_is_driven_again_forgets_what_arrived_before() {
        let echo = |_: Nanos, _: SocketId, bytes: &[u8], replies: &mut Replies| {
            replies.after(Nanos::from_micros(250), bytes)
        };
        let mut engine = SimEngine::new(echo);
        let mut worker = Worker::new(&mut engine);
        for drives in 1..=3 {
            let stop = AtomicBool::new(false);
            worker
                .drive(&mut engine, &mut Once(false), WaitMode::Sleep, &stop)
                .expect("no errors here");
            assert_eq!(engine.counters().received, drives);
        }
    }
}
