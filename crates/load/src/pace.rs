//! The pace: decides whether a query is due now.
//!
//! ```text
//! open loop   due ───────────────┐ hold: more become due     all leave together
//!             ──┴──┴──┴──┴──┴──┴──┴──> now
//! window      due as soon as the window has a free place
//! ```
//!
//! After a stall of the Measurer's core an open loop catches up at twice its rate: the queries that
//! became due would otherwise leave at once, as a burst that no client sends and that overflows the
//! server's queue. The [window](crate::window) opens slowly for the same reason.

use measure::{Nanos, Pacing, Schedule};

use crate::plan::Plan;
use crate::tally::Tally;
use crate::window::Window;

/// Whether a query is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// A query is due since this time.
    Ready(Nanos),
    /// No query is due before this time.
    Wait(Nanos),
    /// There are no more queries.
    Done,
}

/// The rule by which queries become due.
#[derive(Debug)]
pub(crate) enum Pace {
    /// A query is due at its time in a schedule.
    Open(OpenLoop),
    /// A query is due when a place in the window is free, until the end of the trial.
    Window(Window),
}

/// A schedule, and the time for which a due query is held to leave together with others.
#[derive(Debug)]
pub(crate) struct OpenLoop {
    schedule: Schedule,
    catch_up: CatchUp,
    hold: Nanos,
    /// Time from which on no query leaves.
    cut_off: Nanos,
    /// Whether unsent queries remained at the cut-off.
    is_cut_off: bool,
}

impl Pace {
    /// Makes the pace of the plan's worker; an open loop ends `wait` after [`Plan::cut_off`] at the latest, since
    /// its queries may wait so long for a connection.
    ///
    /// # Panics
    /// When the plan is lock-step.
    pub(crate) fn new(plan: &Plan, wait: Nanos) -> Self {
        if let Pacing::Window { outstanding } | Pacing::CappedWindow { outstanding, .. } =
            plan.pacing
        {
            let (n, w, i) =
                (u64::from(outstanding), u64::from(plan.workers), u64::from(plan.worker));
            let size = n / w + u64::from(i < n % w);
            return Pace::Window(Window::new(size, plan));
        }
        let schedule = plan
            .pacing
            .schedule(plan.duration, plan.seed)
            .expect("every other pacing is an open loop")
            .shard(plan.worker, plan.workers);
        let (catch_up, cut_off) = (CatchUp::default(), plan.cut_off() + wait);
        let (hold, is_cut_off) = (hold(plan), false);
        Pace::Open(OpenLoop { schedule, catch_up, hold, cut_off, is_cut_off })
    }

    /// Returns whether a query is due at `now`; `leaving` tells whether others leave in the same
    /// batch.
    #[inline]
    pub(crate) fn due(&mut self, now: Nanos, leaving: bool, in_flight: u64) -> Due {
        match self {
            Pace::Open(open) => open.due(now, leaving),
            Pace::Window(window) => window.due(now, in_flight),
        }
    }

    /// Adapts a window to the replies and losses so far.
    #[inline]
    pub(crate) fn follow(&mut self, now: Nanos, tally: &Tally) {
        if let Pace::Window(window) = self {
            window.follow(now, tally);
        }
    }

    /// Writes into the tally at the end of a load the number of unsent queries, as
    /// [`Schedule::planned`], or the size to which its window was held.
    pub(crate) fn conclude(&self, tally: &mut Tally) {
        match self {
            Pace::Open(open) => {
                (tally.planned, tally.cut_off) = (open.schedule.planned(), open.is_cut_off);
            }
            Pace::Window(window) => tally.window_held_at = window.held_at(),
        }
    }

    /// Takes the due query off the schedule.
    #[inline]
    pub(crate) fn advance(&mut self) {
        match self {
            Pace::Open(open) => open.schedule.advance(),
            Pace::Window(window) => window.advance(),
        }
    }
}

/// Returns the time for which a query is held, the same at all rates. The rest of the burst's time
/// is a reserve for the delay between reading the clock here and sending in the kernel.
fn hold(plan: &Plan) -> Nanos {
    if plan.segmented { Nanos(plan.max_burst.0 / 8 * 7) } else { Nanos::ZERO }
}

/// The time of the schedule up to which queries may leave: the time of the clock, or an earlier one
/// after a stall.
///
/// ```text
/// schedule │                   ·/  the clock again
///          │                 ·/
///          │               /·   at twice the speed of the clock
///          │             /·
///          │           _/·      1 ms of the stall is made up at once
///          │  ________|
///          │/  stall
///          └──────────────────────> clock
/// ```
#[derive(Debug, Default)]
struct CatchUp {
    cursor: Nanos,
    /// Time of the last call.
    last: Nanos,
    /// Time at which the next call is due.
    promised: Nanos,
}

/// Part of a stall whose queries leave at once: the lateness that a schedule tolerates.
const AT_ONCE: Nanos = Nanos::from_millis(1);
/// Factor of the rate at which the rest is made up.
const CATCH_UP: u64 = 2;

impl CatchUp {
    /// Returns the time of the schedule up to which queries may leave now.
    #[inline]
    fn cursor(&mut self, now: Nanos) -> Nanos {
        let ran = now.min(self.promised.max(self.last) + AT_ONCE);
        let passed = Nanos(ran.since(self.last).0.saturating_mul(CATCH_UP));
        self.cursor = ran.min(self.cursor + passed).max(self.cursor);
        (self.last, self.promised) = (now, now);
        self.cursor
    }

    /// Returns when the schedule reaches `target`, and expects the next call then.
    #[inline]
    fn wait(&mut self, target: Nanos) -> Nanos {
        let behind = self.last.since(self.cursor);
        self.promised = if target >= self.last + behind {
            target
        } else {
            self.last + Nanos(target.since(self.cursor).0.div_ceil(CATCH_UP))
        };
        self.promised
    }
}

impl OpenLoop {
    /// Returns whether the next query of the schedule may leave now.
    #[inline]
    fn due(&mut self, now: Nanos, leaving: bool) -> Due {
        let Some(due) = self.schedule.peek() else { return Due::Done };
        if now >= self.cut_off {
            self.is_cut_off = true;
            return Due::Done;
        }
        let (cursor, held_until) = (self.catch_up.cursor(now), due + self.hold);
        if due <= cursor && (leaving || held_until <= cursor) {
            Due::Ready(due)
        } else {
            Due::Wait(self.catch_up.wait(held_until))
        }
    }
}
