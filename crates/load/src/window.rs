//! The window of a closed loop: how many queries may be outstanding now.
//!
//! ```text
//! places │      ______ size ______________       it opens with the replies: by half in each round trip
//!        │    /                  \__/ held       where many are lost it is held to the number that is
//!        │  /                                    answered: more the server's queue does not take
//!        └─────────────────────────────> time
//! ```
//!
//! A window that is sent at once overflows the receive queue of a server with default buffers. What is lost waits
//! for its timeout, together, and overflows it again.

use measure::{Nanos, Pacing, Schedule};

use crate::pace::Due;
use crate::plan::Plan;

/// Number of places with which a window opens: a quarter of the small queries that fit a receive buffer of
/// 208 kB, Linux's default.
const FIRST_PLACES: u64 = 64;
/// Replies for each of which the window opens by one place.
const REPLIES_PER_PLACE: u64 = 2;
/// A window that loses this part of its places in a timeout may be larger than the server's receive queue.
const LOST_PART: u64 = 8;
/// Smallest number of queries lost in a timeout after which it is held.
const MIN_LOST: u64 = 8;
/// Part of the window by which a held one rises in each timeout.
const RISE_PART: u64 = 16;

/// Number of free places from which on none of them waits: one segmented message.
const FULL_BATCH: u64 = 64;
/// Longest time that a free place waits for others. A closed loop has no schedule that this could break, and
/// latencies count from when a query leaves. A server of 64,000 queries a second fills a message in this
/// time.
const FULL_BATCH_WAIT: Nanos = Nanos::from_millis(1);

/// Whether a window was held because of losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// The window is not held, or rises again.
    No,
    /// The window is held; queries that it lost before expire in this timeout.
    Settling,
    /// The window is held; losses in this timeout have another cause.
    Checked,
    /// Losses have another cause, so that the window is never held.
    Never,
}

/// A window, and how long a free place waits for others so that their queries leave together.
#[derive(Debug)]
pub(crate) struct Window {
    size: u64,
    until: Nanos,
    /// Time since which places have been free.
    free_since: Option<Nanos>,
    /// Number of places in use now, and the number up to which it grows.
    open: u64,
    ceiling: u64,
    /// Replies since the last place was opened.
    replies: u64,
    held: Held,
    /// Smallest ceiling.
    held_at: Option<u64>,
    /// Queries lost in this timeout, the time that the answered ones took, and its end.
    lost: u64,
    waited: Nanos,
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
        Window {
            cap,
            size,
            until: plan.duration,
            free_since: None,
            open: if plan.adaptive_window { size.min(FIRST_PLACES) } else { size },
            ceiling: size,
            replies: 0,
            held: if plan.adaptive_window { Held::No } else { Held::Never },
            held_at: None,
            lost: 0,
            waited: Nanos::ZERO,
            timeout_ends: plan.timeout,
            timeout: plan.timeout,
        }
    }

    /// Notes that `count` queries were answered, `waited` after they had left, summed up.
    #[inline]
    pub(crate) fn answer(&mut self, count: u64, waited: Nanos) {
        self.waited += waited;
        if self.open < self.ceiling {
            let replies = self.replies + count;
            self.open = (self.open + replies / REPLIES_PER_PLACE).min(self.ceiling);
            self.replies = replies % REPLIES_PER_PLACE;
        }
    }

    /// Notes that a query has left.
    #[inline]
    pub(crate) fn advance(&mut self) {
        if let Some(cap) = &mut self.cap {
            cap.advance();
        }
    }

    /// Notes that `count` queries were lost.
    pub(crate) fn lose(&mut self, count: u64) {
        self.lost += count;
    }

    /// Returns the smallest number of places to which it was held.
    pub(crate) fn held_at(&self) -> Option<u64> {
        self.held_at.filter(|_| self.held != Held::Never)
    }

    /// Looks at the losses of the timeout that has ended.
    #[cold]
    fn end_timeout(&mut self, now: Nanos) {
        let lost = std::mem::take(&mut self.lost);
        // By Little's law: the mean number of outstanding queries that were answered.
        let taken = std::mem::take(&mut self.waited).0 / self.timeout.0.max(1);
        self.timeout_ends = now + self.timeout;
        let many = lost >= (self.open / LOST_PART).max(MIN_LOST);
        self.held = match (self.held, many) {
            (Held::No, true) => {
                self.ceiling = taken.clamp(self.size.min(FIRST_PLACES), self.size);
                self.open = self.ceiling;
                if self.ceiling < self.size {
                    let least = self.held_at.unwrap_or(self.ceiling);
                    self.held_at = Some(least.min(self.ceiling));
                }
                Held::Settling
            }
            (Held::Settling, _) => Held::Checked,
            (Held::Checked, true) | (Held::Never, _) => {
                self.ceiling = self.size;
                Held::Never
            }
            (Held::No | Held::Checked, false) => {
                self.ceiling = (self.ceiling + (self.size / RISE_PART).max(1)).min(self.size);
                Held::No
            }
        };
    }

    /// Returns whether a query takes a free place now: when others leave, when enough places are free, or
    /// when the first free place has waited long enough. Replies arrive one by one from most servers; without
    /// the wait each query would leave alone, and a system call is expensive.
    #[inline]
    pub(crate) fn due(&mut self, now: Nanos, leaving: bool, in_flight: u64) -> Due {
        if self.size == 0 || now >= self.until {
            return Due::Done;
        }
        if now >= self.timeout_ends {
            self.end_timeout(now);
        }
        let free = self.open.saturating_sub(in_flight);
        if free == 0 {
            self.free_since = None;
            return Due::Wait(self.until);
        }
        if let Some(cap) = &self.cap {
            // Without a next query the rate allows no more until the end.
            let allowed = cap.peek().unwrap_or(self.until);
            if allowed > now {
                return Due::Wait(allowed.min(self.until));
            }
            return Due::Ready(now);
        }
        let since = *self.free_since.get_or_insert(now);
        let full_batch = (self.open / 4).clamp(1, FULL_BATCH);
        if leaving || free >= full_batch || since + FULL_BATCH_WAIT <= now {
            Due::Ready(now)
        } else {
            Due::Wait((since + FULL_BATCH_WAIT).min(self.until))
        }
    }
}
