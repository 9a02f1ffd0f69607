//! How long a trial waits for cores that were too slow for the last one.

use std::time::Duration;

use measure::{Limiter, Void};
use udp::core_speed::WorkTimes;

use crate::testbed::Host;

/// Longest wait for cores that were too slow for the last trial.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// How fast the cores were at best, and how long may be waited until they are so again.
#[derive(Debug, Default)]
pub(super) struct Patience {
    /// Shortest time of the work of the watchers on the cores of each host, in nanoseconds, in the order of [`Host::ALL`].
    fastest: [Option<u64>; Host::ALL.len()],
    /// The host whose cores may have been too slow for the last trial.
    slow: Option<Host>,
    /// What is left of the time of all trials.
    left: Duration,
}

/// A wait for the cores of a host.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wait {
    pub(super) host: Host,
    /// Shortest time of the work on them so far, in nanoseconds.
    pub(super) fastest: u64,
    pub(super) longest: Duration,
}

impl Patience {
    /// Returns the shortest time of the work on the cores of a host, in nanoseconds.
    pub(super) fn fastest(&self, host: Host) -> Option<u64> {
        self.fastest[host.index()]
    }

    /// Notes a trial: the times of the work on the cores of each host, how long it lasted, and why it is void.
    pub(super) fn note(
        &mut self,
        times: [Option<WorkTimes>; Host::ALL.len()],
        lasted: Duration,
        void: Option<&Void>,
    ) {
        for (fastest, times) in self.fastest.iter_mut().zip(times) {
            *fastest = fastest.iter().copied().chain(times.map(|times| times.best.0)).min();
        }
        self.left += lasted;
        self.slow = void.and_then(too_slow);
    }

    /// Returns what the next trial waits for; `None` if nothing was slow, or nobody knows how fast it can be.
    pub(super) fn wait(&mut self) -> Option<Wait> {
        let host = self.slow.take()?;
        let fastest = self.fastest(host)?;
        Some(Wait { host, fastest, longest: MAX_WAIT.min(self.left) })
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
    fn cores_are_waited_for_that_were_faster_before() {
        let mut patience = Patience::default();
        let slow = Void::SlowCore { share: 0.2 };
        let times = |best| Some(WorkTimes { mean: Nanos(2_000), best: Nanos(best) });
        let seconds = Duration::from_secs;
        let wait = |fastest, longest| Some(Wait { host: Host::Dut, fastest, longest });
        // Nobody knows how fast its cores can be.
        patience.note([None; 3], seconds(3), Some(&slow));
        assert_eq!(patience.wait(), None);
        for best in [1_100, 900, 1_000] {
            patience.note([times(700), None, times(best)], seconds(4), Some(&slow));
        }
        assert_eq!(patience.wait(), wait(900, seconds(15)));
        assert_eq!(patience.wait(), None);
        patience.spend(seconds(14));
        patience.note([None; 3], seconds(2), Some(&slow));
        assert_eq!(patience.wait(), wait(900, seconds(3)));
        patience.spend(seconds(4));
        patience.note([None; 3], seconds(120), None);
        assert_eq!(patience.wait(), None);
        patience.note([None; 3], seconds(120), Some(&slow));
        assert_eq!(patience.wait(), wait(900, MAX_WAIT));
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
