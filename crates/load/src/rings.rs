//! Outstanding queries of one worker over UDP: a ring for each socket, swept at intervals.

use engine::Next;
use measure::{Nanos, Rng};

use crate::flight::Ring;
use crate::live::GoalWatch;
use crate::outcome::Outcomes;
use crate::plan::Plan;

/// Sweeps within one timeout: an expired query is noticed within 1.6 % of the timeout.
const SWEEPS: u64 = 64;
/// Shortest and longest interval between sweeps, in nanoseconds.
const SWEEP_BOUNDS: (u64, u64) = (1_000, 1_000_000);
/// Difference of the salts of neighbouring rings.
const SALT_STEP: u16 = 0x5851;

/// Outstanding queries of one worker.
pub(crate) struct Rings {
    rings: Vec<Ring>,
    /// Number of outstanding queries in all rings.
    pub(crate) in_flight: u64,
    next_sweep: Nanos,
    every: Nanos,
}

impl Rings {
    /// Makes a ring for each socket of the plan's worker; their ids are mixed with salts of the seed.
    ///
    /// # Panics
    /// When the plan has no socket.
    pub(crate) fn new(plan: &Plan) -> Self {
        assert!(plan.sockets > 0, "a role over UDP has a socket");
        let salt = Rng::part(plan.seed, u64::from(plan.worker)).next_u64() as u16;
        let ring = |i: u16| Ring::new(salt.wrapping_add(i.wrapping_mul(SALT_STEP)));
        Rings {
            rings: (0..plan.sockets).map(ring).collect(),
            in_flight: 0,
            next_sweep: Nanos::ZERO,
            every: Nanos((plan.timeout.0 / SWEEPS).clamp(SWEEP_BOUNDS.0, SWEEP_BOUNDS.1)),
        }
    }

    /// Returns the number of sockets.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.rings.len()
    }

    /// Returns the ring of a socket.
    #[inline]
    pub(crate) fn ring(&mut self, socket: usize) -> &mut Ring {
        &mut self.rings[socket]
    }

    /// Returns whether the ring of a socket has a free id.
    #[inline]
    pub(crate) fn has_room(&mut self, socket: usize) -> bool {
        self.rings[socket].has_room()
    }

    /// Handles a message that arrived `at` on a socket, or on an unknown one.
    #[inline]
    pub(crate) fn reply(
        &mut self,
        outcomes: &mut Outcomes,
        socket: Option<usize>,
        at: Nanos,
        message: &[u8],
    ) {
        let ring = socket.and_then(|socket| self.rings.get_mut(socket));
        let socket = socket.unwrap_or_default() as u16;
        let ended = outcomes.record_reply(socket, ring, at, message);
        self.in_flight -= u64::from(ended.is_some());
    }

    /// At intervals, expires queries that are overdue at `seen`, the time up to which all replies
    /// have been received; publishes the counters and checks the goal. After a `full` batch nothing
    /// expires, since replies that arrived in time may still wait in the sockets. Returns whether
    /// the goal is missed for certain.
    pub(crate) fn sweep(
        &mut self,
        now: Nanos,
        seen: Nanos,
        full: bool,
        outcomes: &mut Outcomes,
        watch: &mut GoalWatch,
    ) -> bool {
        if now < self.next_sweep {
            return false;
        }
        self.next_sweep = now + self.every;
        for (socket, ring) in self.rings.iter_mut().enumerate().filter(|_| !full) {
            self.in_flight -= outcomes.expire(ring, socket as u16, seen);
        }
        watch.goal_missed(now, &outcomes.tally)
    }

    /// Returns when to be called: at `at` or at the next expiry, whichever is earlier.
    pub(crate) fn wake(&self, at: Nanos) -> Next {
        let sweep = if self.in_flight > 0 { self.next_sweep } else { Nanos::MAX };
        match at.min(sweep) {
            Nanos::MAX => Next::Idle,
            at => Next::At(at),
        }
    }

    /// Returns the time of the next call once no more queries are sent: `Done` when none is
    /// outstanding.
    pub(crate) fn drain(&self) -> Next {
        if self.in_flight == 0 { Next::Done } else { self.wake(Nanos::MAX) }
    }
}
