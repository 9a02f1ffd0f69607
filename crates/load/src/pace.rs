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
    Window(Window),
}

/// A window, and how long a free place waits for others, so that their queries leave together.
#[derive(Debug)]
pub(crate) struct Window {
    size: u64,
    until: Nanos,
    /// So many free places need not wait.
    company: u64,
    hold: Nanos,
    /// Since when places have been free.
    free_since: Option<Nanos>,
}

/// A message's worth of queries need not wait for more.
const COMPANY: u64 = 64;
/// So long a free place waits for company. A closed loop has no schedule that this could break, and
/// latencies count from when a query leaves; a server of 64,000 queries a second fills a message meanwhile.
const COMPANY_WAIT: Nanos = Nanos::from_millis(1);

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
            let size = n / w + u64::from(i < n % w);
            let window = Window {
                size,
                until: plan.duration,
                company: (size / 4).clamp(1, COMPANY),
                hold: COMPANY_WAIT,
                free_since: None,
            };
            return (Pace::Window(window), 0);
        }
        let schedule = plan
            .pacing
            .schedule(plan.duration, plan.seed)
            .expect("what is no window and not lock-step is an open loop")
            .shard(plan.worker, plan.workers);
        let planned = schedule.planned();
        let hold = hold(plan);
        let gap = Nanos(plan.duration.0 / planned.max(1));
        (Pace::Open(OpenLoop { schedule, hold, gap }), planned)
    }

    /// Whether a query is due at `now`; `leaving` when others are leaving in the same batch.
    #[inline]
    pub(crate) fn due(&mut self, now: Nanos, leaving: bool, in_flight: u64) -> Due {
        match self {
            Pace::Open(open) => match open.schedule.peek() {
                None => Due::Over,
                Some(due) if due <= now && (leaving || due + open.hold() <= now) => Due::Since(due),
                Some(due) => Due::Wait(due + open.hold()),
            },
            Pace::Window(window) => window.due(now, leaving, in_flight),
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

/// How long a query may be held back. The clock runs on between the last look and the kernel's; the
/// rest of the burst is for that.
fn hold(plan: &Plan) -> Nanos {
    Nanos(plan.max_burst.0 / 8 * 7)
}

impl Window {
    /// A query takes a free place at once when others leave or enough places are free, else when the
    /// first free place has waited long enough. Replies come one by one from most servers: without
    /// the wait each query would leave alone, and a walk through the kernel is dear.
    #[inline]
    fn due(&mut self, now: Nanos, leaving: bool, in_flight: u64) -> Due {
        if self.size == 0 || now >= self.until {
            return Due::Over;
        }
        let free = self.size.saturating_sub(in_flight);
        if free == 0 {
            self.free_since = None;
            return Due::Wait(self.until);
        }
        let since = *self.free_since.get_or_insert(now);
        if leaving || free >= self.company || since + self.hold <= now {
            Due::Since(now)
        } else {
            Due::Wait((since + self.hold).min(self.until))
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
