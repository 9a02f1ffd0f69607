//! The pace: whether a query is due now.
//!
//! ```text
//! open loop   due ───────────────┐ hold: others come due     all leave together
//!             ──┴──┴──┴──┴──┴──┴──┴──> now
//! window      due as soon as a place is free
//! ```

use measure::{Nanos, Schedule};

use crate::plan::Plan;

/// Whether a query is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// It was due at this time, which has come.
    Since(Nanos),
    /// Not before this time.
    Wait(Nanos),
    /// No more queries.
    Over,
}

/// How queries come due.
#[derive(Debug)]
pub(crate) enum Pace {
    /// By a schedule.
    Open(OpenLoop),
    /// As places in a window become free, until the end.
    Window { size: u64, until: Nanos },
}

/// A schedule, and how long a due query is held back to leave together with others.
#[derive(Debug)]
pub(crate) struct OpenLoop {
    schedule: Schedule,
    hold: Nanos,
    /// The mean gap of about the last [`GAPS`] queries: a ramp has no one gap.
    gap: Nanos,
}

/// Over how many gaps the mean goes.
const GAPS: u64 = 16;
/// Queries are held only where so many come due meanwhile.
const WORTH_HOLDING: u64 = 4;

impl Pace {
    /// The pace of the plan's worker, and how many queries it plans (0 in a closed loop).
    ///
    /// # Panics
    /// When the plan is lock-step.
    pub(crate) fn new(plan: &Plan) -> (Self, u64) {
        if let measure::Pacing::Window { outstanding } = plan.pacing {
            let (n, w, i) =
                (u64::from(outstanding), u64::from(plan.workers), u64::from(plan.worker));
            return (Pace::Window { size: n / w + u64::from(i < n % w), until: plan.duration }, 0);
        }
        let schedule = plan
            .pacing
            .schedule(plan.duration, plan.seed)
            .expect("what is no window and not lock-step is an open loop")
            .shard(plan.worker, plan.workers);
        let planned = schedule.planned();
        // The clock runs on between the last look and the kernel's; the rest of the burst is for that.
        let hold = Nanos(plan.max_burst.0 / 8 * 7);
        let gap = Nanos(plan.duration.0 / planned.max(1));
        (Pace::Open(OpenLoop { schedule, hold, gap }), planned)
    }

    /// Whether a query is due at `now`; `leaving` when others are leaving in the same batch.
    #[inline]
    pub(crate) fn due(&self, now: Nanos, leaving: bool, in_flight: u64) -> Due {
        match self {
            Pace::Open(open) => match open.schedule.peek() {
                None => Due::Over,
                Some(due) if due <= now && (leaving || due + open.hold() <= now) => Due::Since(due),
                Some(due) => Due::Wait(due + open.hold()),
            },
            Pace::Window { size, until } if *size == 0 || now >= *until => Due::Over,
            Pace::Window { size, until } if in_flight >= *size => Due::Wait(*until),
            Pace::Window { .. } => Due::Since(now),
        }
    }

    /// Takes the query that was due off the schedule.
    #[inline]
    pub(crate) fn advance(&mut self) {
        if let Pace::Open(open) = self {
            let last = open.schedule.peek();
            open.schedule.advance();
            if let (Some(last), Some(next)) = (last, open.schedule.peek()) {
                open.gap = Nanos((open.gap.0 * (GAPS - 1) + next.since(last).0) / GAPS);
            }
        }
    }
}

impl OpenLoop {
    /// At high rates queries wait for company; at low rates each leaves when it is due.
    #[inline]
    fn hold(&self) -> Nanos {
        if self.gap.0.saturating_mul(WORTH_HOLDING) <= self.hold.0 {
            self.hold
        } else {
            Nanos::ZERO
        }
    }
}
