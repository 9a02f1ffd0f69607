//! Stalls of a worker: times at which it was called much later than requested.

use engine::Next;
use measure::Nanos;
use measure::stall::{MIN_STALL, Side, Stall};

/// Compares the times at which a role is called with the requested times.
#[derive(Debug)]
pub(crate) struct StallWatch {
    /// Time at which the role must be called, on the engine's clock; `MAX` for no such time.
    expected: Nanos,
}

impl StallWatch {
    /// Makes a watch without an expected call.
    pub(crate) fn new() -> Self {
        StallWatch { expected: Nanos::MAX }
    }

    /// Returns the stall that ended `now`, if there was one, and expects the next call from `now`
    /// on.
    #[inline]
    pub(crate) fn called(&mut self, now: Nanos) -> Option<Stall> {
        let length = now.since(self.expected);
        let at = std::mem::replace(&mut self.expected, now);
        (length >= MIN_STALL).then_some(Stall { side: Side::Tester, at, length })
    }

    /// Works as [`called`](Self::called) for the time at which a batch leaves: the next call is
    /// still expected at the time requested before.
    #[inline]
    pub(crate) fn sent(&mut self, composed: Nanos, at: Nanos) -> Option<Stall> {
        if self.expected != Nanos::MAX {
            self.expected = self.expected.max(at);
        }
        let length = at.since(composed);
        (length >= MIN_STALL).then_some(Stall { side: Side::Tester, at: composed, length })
    }

    /// Notes when the role is to be called after its call `now`.
    #[inline]
    pub(crate) fn returns(&mut self, now: Nanos, next: Next) {
        self.expected = match next {
            Next::Now => now,
            Next::At(at) => at.max(now),
            Next::Idle | Next::Done => Nanos::MAX,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    #[test]
    fn only_late_calls_are_stalls() {
        // What the role says at 10 ms, when it is called next, and the length of the stall.
        let table = [
            (Next::Now, MS(10), None),
            (Next::Now, Nanos(10_999_999), None),
            (Next::Now, MS(11), Some(MS(1))),
            (Next::At(MS(20)), MS(12), None),
            (Next::At(MS(20)), MS(28), Some(MS(8))),
            (Next::At(MS(5)), MS(12), Some(MS(2))),
            (Next::Idle, MS(500), None),
        ];
        for (next, called, wanted) in table {
            let mut watch = StallWatch::new();
            assert_eq!(watch.called(MS(10)), None, "nothing was expected");
            watch.returns(MS(10), next);
            let found = watch.called(called);
            assert_eq!(found.map(|stall| stall.length), wanted, "{next:?} {called}");
            assert!(found.is_none_or(|stall| stall.at + stall.length == called));
        }
    }

    #[test]
    fn a_batch_may_stall_before_it_leaves() {
        let mut watch = StallWatch::new();
        watch.returns(MS(10), Next::At(MS(12)));
        let stall = watch.sent(MS(10), MS(15)).expect("5 ms between composing and sending");
        assert_eq!((stall.at, stall.length), (MS(10), MS(5)));
        assert_eq!(watch.called(MS(15)), None, "it is counted once");
    }
}
