//! The pace: decides whether a query is due now.
//!
//! ```text
//! open loop   due ───────────────┐ hold: more become due     all leave together
//!             ──┴──┴──┴──┴──┴──┴──┴──> now
//! window      due as soon as the window has a free place
//! ```

use measure::{Nanos, Schedule};

use crate::plan::Plan;

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
    /// By a schedule.
    Open(OpenLoop),
    /// When a place in the window is free, until the end of the trial.
    Window(Window),
}

/// A window, and how long a free place waits for others so that their queries leave together.
#[derive(Debug)]
pub(crate) struct Window {
    size: u64,
    until: Nanos,
    /// Number of free places from which on none of them waits.
    full_batch: u64,
    hold: Nanos,
    /// Time since which places have been free.
    free_since: Option<Nanos>,
}

/// Number of queries from which on none waits for more: one segmented message.
const FULL_BATCH: u64 = 64;
/// Longest time that a free place waits for others. A closed loop has no schedule that this could break, and
/// latencies count from when a query leaves. A server of 64,000 queries a second fills a message in this
/// time.
const FULL_BATCH_WAIT: Nanos = Nanos::from_millis(1);

/// A schedule, and how long a due query is held to leave together with others.
#[derive(Debug)]
pub(crate) struct OpenLoop {
    schedule: Schedule,
    hold: Nanos,
    /// Mean gap of about the last [`GAPS`] queries; the gaps of a ramp differ.
    gap: Nanos,
}

/// Number of gaps over which the mean is taken.
const GAPS: u64 = 16;
/// Queries are held only if at least this number becomes due meanwhile.
const MIN_HELD_BATCH: u64 = 4;

impl Pace {
    /// Makes the pace of the plan's worker; also returns how many queries it plans (0 in a closed loop).
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
                full_batch: (size / 4).clamp(1, FULL_BATCH),
                hold: FULL_BATCH_WAIT,
                free_since: None,
            };
            return (Pace::Window(window), 0);
        }
        let schedule = plan
            .pacing
            .schedule(plan.duration, plan.seed)
            .expect("a pacing that is neither a window nor lock-step is an open loop")
            .shard(plan.worker, plan.workers);
        let planned = schedule.planned();
        let hold = hold(plan);
        let gap = Nanos(plan.duration.0 / planned.max(1));
        (Pace::Open(OpenLoop { schedule, hold, gap }), planned)
    }

    /// Returns whether a query is due at `now`; `leaving` says that others leave in the same batch.
    #[inline]
    pub(crate) fn due(&mut self, now: Nanos, leaving: bool, in_flight: u64) -> Due {
        match self {
            Pace::Open(open) => match open.schedule.peek() {
                None => Due::Done,
                Some(due) if due <= now && (leaving || due + open.hold() <= now) => Due::Ready(due),
                Some(due) => Due::Wait(due + open.hold()),
            },
            Pace::Window(window) => window.due(now, leaving, in_flight),
        }
    }

    /// Takes the due query off the schedule.
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

/// Returns how long a query may be held. The rest of the burst is for the time that passes between reading
/// the clock here and sending in the kernel.
fn hold(plan: &Plan) -> Nanos {
    Nanos(plan.max_burst.0 / 8 * 7)
}

impl Window {
    /// Returns whether a query takes a free place now: when others leave, when enough places are free, or
    /// when the first free place has waited long enough. Replies arrive one by one from most servers; without
    /// the wait each query would leave alone, and a system call is expensive.
    #[inline]
    fn due(&mut self, now: Nanos, leaving: bool, in_flight: u64) -> Due {
        if self.size == 0 || now >= self.until {
            return Due::Done;
        }
        let free = self.size.saturating_sub(in_flight);
        if free == 0 {
            self.free_since = None;
            return Due::Wait(self.until);
        }
        let since = *self.free_since.get_or_insert(now);
        if leaving || free >= self.full_batch || since + self.hold <= now {
            Due::Ready(now)
        } else {
            Due::Wait((since + self.hold).min(self.until))
        }
    }
}

impl OpenLoop {
    /// At high rates queries wait for others; at low rates each leaves when it is due.
    #[inline]
    fn hold(&self) -> Nanos {
        if self.gap.0.saturating_mul(MIN_HELD_BATCH) <= self.hold.0 {
            self.hold
        } else {
            Nanos::ZERO
        }
    }
}
