//! The window of a closed loop: the number of queries that may be outstanding now.
//!
//! ```text
//! places │      ______ size ______________       it opens with the replies: by half in each round trip
//!        │    /                  \__/ held       where many are lost it is held to the number that is
//!        │  /                                    answered: more the server's queue does not take
//!        └─────────────────────────────> time
//! ```
//!
//! A window of datagrams that is sent at once overflows the receive queue of a server with default buffers. What is
//! lost waits for its timeout, together, and overflows it again. A stream has flow control, so that its window is
//! whole at once.
//!
//! One with a highest rate sends no bursts, so that it is whole at once, too, and never held.
//!
//! An open place that is free never waits: its query leaves with the next batch, together with those of the other
//! places that are free then.

use measure::{Nanos, Pacing, Schedule};

use crate::pace::Due;
use crate::plan::Plan;
use crate::tally::Tally;

/// Number of places with which a window opens: a quarter of the small queries that fit a receive buffer of
/// 208 kB, Linux's default.
const FIRST_PLACES: u64 = 64;
/// Replies for each of which the window opens by one place.
const REPLIES_PER_PLACE: u64 = 2;
/// A window that loses this part of its places in a timeout may be larger than the server's receive queue.
const LOST_PART: u64 = 8;
/// Smallest number of queries lost in a timeout after which the window is held.
const MIN_LOST: u64 = 8;
/// Part of the window by which a held one rises in each timeout.
const RISE_PART: u64 = 16;

/// Whether a window was held because of losses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum HeldWindow {
    /// The window is not held, or rises again.
    #[default]
    No,
    /// The window is held; queries lost before that expire in this timeout.
    Settling,
    /// The window is held; losses in this timeout have another cause.
    Checked,
    /// Losses have another cause, so that the window is never held.
    Never,
}

/// The window of one worker.
#[derive(Debug, Default)]
pub(crate) struct Window {
    size: u64,
    until: Nanos,
    /// Number of places in use now, and the number up to which it grows.
    open: u64,
    ceiling: u64,
    /// Replies since the last place was opened.
    replies: u64,
    held: HeldWindow,
    /// Smallest ceiling to which losses have brought the window.
    held_at: Option<u64>,
    /// Queries answered until the last check.
    answered: u64,
    /// Queries lost before this timeout, the sum of the latencies before it in nanoseconds, and the
    /// end of this timeout.
    lost: u64,
    waited_ns: f64,
    timeout_ends: Nanos,
    timeout: Nanos,
    /// Earliest times of the queries, if the window has a highest rate.
    cap: Option<Schedule>,
}

impl Window {
    /// Makes the window of `size` places of a worker.
    pub(crate) fn new(size: u64, plan: &Plan) -> Self {
        let cap = match plan.pacing {
            Pacing::CappedWindow { rate, .. } => {
                Some(Schedule::constant(rate, plan.duration).shard(plan.worker, plan.workers))
            }
            _ => None,
        };
        let adapts = plan.adaptive_window && cap.is_none();
        Window {
            cap,
            size,
            until: plan.duration,
            open: if adapts { size.min(FIRST_PLACES) } else { size },
            ceiling: size,
            held: if adapts { HeldWindow::No } else { HeldWindow::Never },
            timeout_ends: plan.timeout,
            timeout: plan.timeout,
            ..Window::default()
        }
    }

    /// Opens the window by the replies, and checks the losses of each timeout.
    #[inline]
    pub(crate) fn follow(&mut self, now: Nanos, tally: &Tally) {
        let answered = tally.answered - std::mem::replace(&mut self.answered, tally.answered);
        if self.open < self.ceiling {
            let replies = self.replies + answered;
            self.open = (self.open + replies / REPLIES_PER_PLACE).min(self.ceiling);
            self.replies = replies % REPLIES_PER_PLACE;
        }
        if now >= self.timeout_ends {
            self.end_timeout(now, tally);
        }
    }

    /// Notes that a query has left.
    #[inline]
    pub(crate) fn advance(&mut self) {
        if let Some(cap) = &mut self.cap {
            cap.advance();
        }
    }

    /// Returns the smallest number of places to which the window was held.
    pub(crate) fn held_at(&self) -> Option<u64> {
        self.held_at.filter(|_| self.held != HeldWindow::Never)
    }

    /// Evaluates the losses of the timeout that has ended.
    #[cold]
    fn end_timeout(&mut self, now: Nanos, tally: &Tally) {
        // Some queries that lost their places were answered later.
        let lost = tally.lost.saturating_sub(std::mem::replace(&mut self.lost, tally.lost));
        let waited_ns = tally.latency_from_send.mean_ns() * tally.latency_from_send.count() as f64;
        // By Little's law: the mean number of outstanding queries that were answered.
        let passed_ns = waited_ns - std::mem::replace(&mut self.waited_ns, waited_ns);
        let taken = (passed_ns / self.timeout.0.max(1) as f64) as u64;
        self.timeout_ends = now + self.timeout;
        let many = lost >= (self.open / LOST_PART).max(MIN_LOST);
        self.held = match (self.held, many) {
            (HeldWindow::No, true) => {
                self.ceiling = taken.clamp(self.size.min(FIRST_PLACES), self.size);
                self.open = self.ceiling;
                if self.ceiling < self.size {
                    let least = self.held_at.unwrap_or(self.ceiling);
                    self.held_at = Some(least.min(self.ceiling));
                }
                HeldWindow::Settling
            }
            (HeldWindow::Settling, _) => HeldWindow::Checked,
            (HeldWindow::Checked, true) | (HeldWindow::Never, _) => {
                self.ceiling = self.size;
                HeldWindow::Never
            }
            (HeldWindow::No | HeldWindow::Checked, false) => {
                self.ceiling = (self.ceiling + (self.size / RISE_PART).max(1)).min(self.size);
                HeldWindow::No
            }
        };
    }

    /// Returns whether a query may use a free place now.
    #[inline]
    pub(crate) fn due(&mut self, now: Nanos, in_flight: u64) -> Due {
        if self.size == 0 || now >= self.until {
            return Due::Done;
        }
        if in_flight >= self.open {
            return Due::Wait(self.until);
        }
        // A highest rate without a next query allows no more until the end.
        match self.cap.as_ref().map(|cap| cap.peek().unwrap_or(self.until)) {
            Some(allowed) if allowed > now => Due::Wait(allowed.min(self.until)),
            _ => Due::Ready(now),
        }
    }
}
