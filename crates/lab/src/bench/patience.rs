//! How long a trial waits for cores that were too slow for the last one.

use std::time::Duration;

use measure::{Limiter, Void};

use crate::testbed::Host;

/// Longest wait for cores that were too slow for the last trial.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// Which cores were too slow, and how long may be waited for them.
#[derive(Debug, Default)]
pub(super) struct Patience {
    /// The host whose cores may have been too slow for the last trial.
    slow: Option<Host>,
    /// What is left of the time of all trials.
    left: Duration,
}

impl Patience {
    /// Notes a trial: how long it lasted, and why it is void.
    pub(super) fn note(&mut self, lasted: Duration, void: Option<&Void>) {
        self.left += lasted;
        self.slow = void.and_then(too_slow);
    }

    /// Returns the host whose cores the next trial waits for, and for how long at most; `None` if nothing was slow.
    pub(super) fn wait(&mut self) -> Option<(Host, Duration)> {
        Some((self.slow.take()?, MAX_WAIT.min(self.left)))
    }

    /// Notes how long was waited.
    pub(super) fn spend(&mut self, waited: Duration) {
        self.left = self.left.saturating_sub(waited);
    }
}

/// Returns the host whose cores a trial that is void for this reason may have found too slow.
fn too_slow(void: &Void) -> Option<Host> {
    match (void, void.limiter()) {
        (Void::SlowCore { .. }, _) => Some(Host::Dut),
        (Void::StartSpread { .. } | Void::Part { .. }, _) => None,
        (_, Limiter::TesterCpu | Limiter::TesterSchedule) => Some(Host::Tester),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use measure::Nanos;
    use measure::stall::{Side, Stall};

    use super::*;

    #[test]
    fn cores_are_waited_for_as_long_as_trials_lasted() {
        let mut patience = Patience::default();
        let slow = Void::SlowCore { share: 0.2 };
        let seconds = Duration::from_secs;
        let wait = |longest| Some((Host::Dut, longest));
        for _ in 0..3 {
            patience.note(seconds(5), Some(&slow));
        }
        assert_eq!(patience.wait(), wait(seconds(15)));
        assert_eq!(patience.wait(), None);
        patience.spend(seconds(14));
        patience.note(seconds(2), Some(&slow));
        assert_eq!(patience.wait(), wait(seconds(3)));
        patience.spend(seconds(4));
        patience.note(seconds(120), None);
        assert_eq!(patience.wait(), None);
        patience.note(seconds(120), Some(&slow));
        assert_eq!(patience.wait(), wait(MAX_WAIT));
    }

    #[test]
    fn the_cores_that_made_a_trial_void_are_waited_for() {
        let stalled = |side| {
            let longest = Stall { side, at: Nanos::ZERO, length: Nanos::from_millis(9) };
            Void::Stalled { lost: 9, by_stalls: 9, longest }
        };
        for (void, host) in [
            (Void::SlowCore { share: 0.2 }, Some(Host::Dut)),
            (Void::Starved { run_delay: 0.2, foreign: 0.0 }, Some(Host::Tester)),
            (stalled(Side::Tester), Some(Host::Tester)),
            (stalled(Side::Dut), None),
            (Void::ForeignOnServer { share: 0.2 }, None),
            (Void::NothingSent, None),
            (Void::Part { part: "2/3".to_owned(), why: Box::new(stalled(Side::Tester)) }, None),
        ] {
            assert_eq!(too_slow(&void), host, "{void}");
        }
    }
}
