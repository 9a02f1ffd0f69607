//! The start that several Testers have agreed on: the check that this host can keep it, and the
//! conversion to its clocks.
//!
//! ```text
//! CLOCK_REALTIME   synchronised with the other hosts; says when to start
//! CLOCK_MONOTONIC  of the engines; the start is converted to it some milliseconds before, and back after the trial
//! ```

use std::sync::atomic::{AtomicBool, Ordering};

use engine::clock;
use measure::{ClockBound, Nanos, StartAt};
use record::{AgreedStart, TrialRequest};
use udp::sys::{self, ClockState};

use crate::error::Invalid;

/// Longest sleep before the start; then it is looked whether the trial was interrupted.
const MAX_SLEEP: Nanos = Nanos::from_millis(20);
/// Longest time after the agreed start that a schedule may begin with late queries: the trial then shows them, and is void if
/// they are too many. Later there is no trial.
const LATEST: Nanos = Nanos::from_secs(1);
/// Number of times that both clocks are read; the pair with the least time in between counts.
const CLOCK_READS: usize = 16;

/// A start that this host can keep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct AgreedTime {
    at: StartAt,
    /// The same instant on `CLOCK_REALTIME`, since 1970.
    unix: Nanos,
    /// Largest error of that clock; `None` if it was not looked at.
    clock_error: Option<Nanos>,
}

impl AgreedTime {
    /// Returns the start of a request, if it has one.
    ///
    /// # Errors
    /// If it is past, or the clock is not known to be right within the bound.
    pub(crate) fn of(request: &TrialRequest) -> Result<Option<Self>, Invalid> {
        let Some(at) = request.start_at else { return Ok(None) };
        let state = sys::clock_state();
        AgreedTime::new(at, request.clock_bound, &state, clock::realtime()).map(Some)
    }

    fn new(
        at: StartAt,
        bound: ClockBound,
        clock: &ClockState,
        now: Nanos,
    ) -> Result<Self, Invalid> {
        let refuse = |why: String| Err(Invalid::value("start_at", why));
        let Some(unix) = at.unix(clock.tai_offset) else {
            return refuse(format!(
                "{at}: this host's kernel does not know TAI; give the time in UTC"
            ));
        };
        if unix <= now {
            let ago = Nanos(now.since(unix).0 / 1_000_000 * 1_000_000);
            return refuse(format!("{at} is {ago} in the past"));
        }
        let clock_error = match (bound, clock.error) {
            (ClockBound::Unchecked, _) => None,
            (ClockBound::Within(bound), Some(error)) if error <= bound => Some(error),
            (ClockBound::Within(bound), found) => {
                let found = match found {
                    Some(error) => format!("may be wrong by {error}, the bound is {bound}"),
                    None => "is not synchronised".to_owned(),
                };
                return refuse(format!(
                    "this host's clock {found}: start chrony or another client of NTP or PTP, raise --clock-bound, or give \
                     --clock-bound unchecked if the hosts share a clock"
                ));
            }
        };
        Ok(AgreedTime { at, unix, clock_error })
    }

    /// Sleeps until `before` the start, or until `stop`.
    pub(crate) fn wait(&self, before: Nanos, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let left = self.unix.since(clock::realtime() + before);
            if left == Nanos::ZERO {
                return;
            }
            sys::sleep_until(clock::monotonic() + left.min(MAX_SLEEP));
        }
    }

    /// Returns the start on `CLOCK_MONOTONIC`; `None` if it is long past.
    pub(crate) fn monotonic(&self) -> Option<Nanos> {
        let (monotonic, realtime) = both_clocks();
        let late = realtime.since(self.unix);
        (late <= LATEST).then(|| Nanos((monotonic + self.unix.since(realtime)).0 - late.0))
    }

    /// Returns the start for the record, after a trial that started at `started` on
    /// `CLOCK_MONOTONIC`.
    pub(crate) fn record(&self, started: Nanos) -> AgreedStart {
        let (monotonic, realtime) = both_clocks();
        let behind = i128::from(realtime.0) - i128::from(self.unix.0);
        let error_ns = behind - (i128::from(monotonic.0) - i128::from(started.0));
        AgreedStart {
            at: self.at,
            error_us: error_ns as f64 / 1e3,
            clock_error_us: self.clock_error.map(Nanos::as_micros_f64),
        }
    }
}

/// Reads `CLOCK_MONOTONIC` and `CLOCK_REALTIME` at the same time.
fn both_clocks() -> (Nanos, Nanos) {
    let read = |_| {
        let (before, realtime, after) = (clock::monotonic(), clock::realtime(), clock::monotonic());
        (after.since(before), before + Nanos(after.since(before).0 / 2), realtime)
    };
    let best = (0..CLOCK_READS).map(read).min_by_key(|(between, ..)| *between);
    best.map(|(_, monotonic, realtime)| (monotonic, realtime)).expect("at least one read was made")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_refused_that_this_host_cannot_keep() {
        let now = Nanos::from_secs(1_795_408_200);
        let [right, wrong] = [Nanos::from_millis(2), Nanos::from_millis(12)];
        let (within, unchecked) = (ClockBound::default(), ClockBound::Unchecked);
        let table = [
            ("@1795408205", within, Some(right), Ok(Some(right))),
            ("@1795408205", unchecked, None, Ok(None)),
            ("@1795408205", unchecked, Some(wrong), Ok(None)),
            ("2026-11-23T04:30:42TAI", within, Some(right), Ok(Some(right))),
            ("2026-11-23T04:30:37TAI", within, Some(right), Err("is 0s in the past")),
            ("@1795408198.5", within, Some(right), Err("is 1s 500ms in the past")),
            ("@1795408205", within, Some(wrong), Err("may be wrong by 12ms, the bound is 10ms")),
            ("@1795408205", within, None, Err("is not synchronised")),
        ];
        for (at, bound, error, wanted) in table {
            let clock = ClockState { error, tai_offset: Some(37) };
            let found = AgreedTime::new(at.parse().expect(at), bound, &clock, now);
            match wanted {
                Ok(error) => {
                    let found = found.expect(at);
                    assert_eq!((found.unix, found.clock_error), (now + Nanos::from_secs(5), error));
                }
                Err(why) => {
                    let error = found.expect_err(at).to_string();
                    assert!(error.contains(why), "{at}: {error}");
                }
            }
        }
        let clock = ClockState { error: Some(right), tai_offset: None };
        let tai = "2026-11-23T04:30:42TAI".parse().expect("an instant");
        let error = AgreedTime::new(tai, within, &clock, now).expect_err("no TAI").to_string();
        assert!(error.contains("does not know TAI"), "{error}");
    }

    #[test]
    fn a_start_is_the_same_instant_on_both_clocks() {
        let now = clock::realtime();
        let unix = now + Nanos::from_millis(200);
        let at: StartAt = format!("@{}.{:09}", unix.0 / 1_000_000_000, unix.0 % 1_000_000_000)
            .parse()
            .expect("an instant");
        let clock = ClockState { error: None, tai_offset: None };
        let agreed = AgreedTime::new(at, ClockBound::Unchecked, &clock, now).expect("in time");
        let start = agreed.monotonic().expect("in the future");
        // Ten milliseconds: somebody may set this host's clock meanwhile, but not often.
        assert!(agreed.record(start).error_us.abs() < 10_000.0, "{:?}", agreed.record(start));
        agreed.wait(Nanos::ZERO, &AtomicBool::new(false));
        let past = agreed.monotonic().expect("not long past");
        assert!(past <= clock::monotonic() && past.0.abs_diff(start.0) < 10_000_000, "{past:?}");
        let long_past = AgreedTime { unix: agreed.unix.since(LATEST).since(LATEST), ..agreed };
        assert_eq!(long_past.monotonic(), None);
        let later = agreed.record(start + Nanos::from_secs(1));
        assert!((later.error_us - 1e6).abs() < 10_000.0, "{later:?}");
    }
}
