//! The role, and the one worker loop that joins it to an engine.
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
//!
//! A batch is received between any two that are sent, so that a sender in a hurry never starves its
//! own receive queue; how much is sent at once is the role's to bound.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use measure::Nanos;

use crate::batch::{RxBatch, TxBatch};
use crate::engine::{Engine, Wait};

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

    /// So long before its time a worker that spins looks at nothing but the clock: looking for arrivals, and taking
    /// them, would make the role late. Arrivals wait for [`UNSEEN`] at most.
    fn quiet(&self) -> Nanos {
        Nanos::ZERO
    }
}

/// How a worker waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitMode {
    /// Never sleeps: best times, a whole core.
    Spin,
    /// Never sleeps, but lets others have the core whenever they want it: for a sender that must be
    /// on time beside something it waits for anyway, such as the AuthDNS of a DNS64 server.
    Yield,
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
/// A role that wants quiet leaves arrivals alone for this long at most; the kernel stamps and keeps them.
pub const UNSEEN: Nanos = Nanos::from_millis(1);

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
    drive_and_tend(engine, role, mode, stop, |_, _| Ok(Tended::Nothing))
}

/// As [`drive`], with a hand that tends engine and role before each wait: it does what a role cannot do
/// itself, such as changing sockets, and carries what comes from other threads. It is called each time
/// that the role was, and once the engine [was rung](Engine::was_rung).
///
/// # Errors
/// What the engine or the hand could not mend.
pub fn drive_and_tend<E: Engine, R: Role>(
    engine: &mut E,
    role: &mut R,
    mode: WaitMode,
    stop: &AtomicBool,
    mut tend: impl FnMut(&mut E, &mut R) -> io::Result<Tended>,
) -> io::Result<()> {
    let mut worker = Worker::new(engine);
    while !stop.load(Ordering::Relaxed) {
        let next = worker.step(engine, role)?;
        if next == Next::Done {
            break;
        }
        let next = match tend(engine, role)? {
            Tended::Nothing => next,
            Tended::Role => Next::Now,
        };
        worker.wait(engine, next, role.quiet(), mode, stop)?;
    }
    Ok(())
}

/// What a tending hand did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tended {
    /// Nothing that the role waits for.
    Nothing,
    /// Something that the role is to be called for at once.
    Role,
}

/// The two halves of the loop, and the batches they share.
struct Worker {
    rx: RxBatch,
    tx: TxBatch,
    /// When the role was called last, and when it last had anything to do.
    now: Nanos,
    last_work: Nanos,
    /// When it was last seen what arrived.
    last_look: Nanos,
}

impl Worker {
    /// A worker with empty batches.
    fn new(engine: &mut impl Engine) -> Self {
        let (rx, tx) = engine.batches();
        let now = engine.now();
        Worker { rx, tx, now, last_work: now, last_look: now }
    }

    /// Hands the role what arrived, and sends what it fills.
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

    /// Receives until something arrives, the role's time has come, or `stop` is set.
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
        let mut now = self.now;
        loop {
            let is_quiet = quiet > Nanos::ZERO && due <= now + quiet && mode != WaitMode::Sleep;
            if is_quiet && now < self.last_look + UNSEEN {
                self.rx.clear();
                engine.spin(due);
                return Ok(());
            }
            self.last_look = now;
            engine.receive(&mut self.rx, pause(mode, now, self.last_work, due))?;
            if !self.rx.is_empty() || engine.was_rung() || stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            if mode == WaitMode::Yield {
                std::thread::yield_now();
            }
            now = engine.now();
            if now >= due {
                return Ok(());
            }
        }
    }
}

/// How to wait for `due` (`Nanos::MAX`: for an arrival only), by the worker's mode.
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
    fn each_mode_waits_as_it_says() {
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
            // Shortly after work, and shortly before it is due again, it spins.
            (WaitMode::Auto, 1_050, 1_000, 9_000, Wait::No),
            (WaitMode::Auto, 1_060, 1_000, 9_000, Wait::Until(us(8_940))),
            (WaitMode::Auto, 8_940, 1_000, 9_000, Wait::No),
            (WaitMode::Auto, 1_050, 1_000, never, Wait::No),
            (WaitMode::Auto, 1_060, 1_000, never, horizon(1_060)),
        ] {
            assert_eq!(pause(mode, us(now), us(last_work), us(due)), wait, "{mode:?} at {now}");
        }
    }

    /// Sends a datagram each five microseconds of ten milliseconds.
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
    fn a_role_in_a_hurry_is_left_alone_but_not_for_ever() {
        let echo = |_: Nanos, _: SocketId, bytes: &[u8], replies: &mut Replies| {
            replies.after(Nanos::from_micros(250), bytes)
        };
        for mode in [WaitMode::Spin, WaitMode::Auto] {
            let mut engine = SimEngine::new(echo).call_cost(Nanos::from_micros(2));
            let mut role = Hurried { sent: 0, echoes: 0 };
            drive(&mut engine, &mut role, mode, &AtomicBool::new(false)).expect("no errors here");
            let looks = engine.counters().receive_calls;
            // Ten while it sends, of which each fills several batches; then 250 us of two at the end.
            assert!((10..250).contains(&looks), "{looks}");
            assert_eq!(engine.counters().received, 2_000);
        }
    }
}
