//! Counts of the queries of a trial by steps of equal length, for what changes while a rate grows.

use measure::Nanos;

/// Largest number of steps; later queries count in the last one.
const MAX_STEPS: u64 = 100_000;

/// Counts of the queries that were due in one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Queries sent.
    pub sent: u64,
    /// Replies in time, valid or not.
    pub answered: u64,
    /// Replies in time with a return code other than NOERROR and NXDOMAIN.
    pub failed: u64,
    /// Sum of the times from sending to reply, in nanoseconds.
    pub latency_ns: u64,
}

/// Steps of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steps {
    /// Length of a step.
    pub length: Nanos,
    /// Counts of each step, from the start of the trial.
    pub counts: Vec<Step>,
}

impl Steps {
    /// Makes the empty steps of a trial that sends for `duration`.
    pub(crate) fn new(length: Nanos, duration: Nanos) -> Self {
        let length = Nanos(length.0.max(1));
        let count = duration.0.div_ceil(length.0).clamp(1, MAX_STEPS);
        Steps { length, counts: vec![Step::default(); count as usize] }
    }

    /// Returns the step at `offset` from the start.
    #[inline]
    pub(crate) fn at(&mut self, offset: Nanos) -> &mut Step {
        let last = self.counts.len() as u64 - 1;
        &mut self.counts[(offset.0 / self.length.0).min(last) as usize]
    }

    /// Adds the steps of another worker of the same trial.
    pub(crate) fn merge(&mut self, other: &Steps) {
        for (a, b) in self.counts.iter_mut().zip(&other.counts) {
            a.sent += b.sent;
            a.answered += b.answered;
            a.failed += b.failed;
            a.latency_ns = a.latency_ns.saturating_add(b.latency_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_count_in_their_step_and_later_ones_in_the_last() {
        let ms = Nanos::from_millis;
        let mut steps = Steps::new(ms(500), ms(1_200));
        assert_eq!(steps.counts.len(), 3);
        for at in [0, 499, 500, 1_199, 9_000] {
            steps.at(ms(at)).sent += 1;
        }
        steps.merge(&steps.clone());
        assert_eq!(steps.counts.iter().map(|step| step.sent).collect::<Vec<_>>(), [4, 2, 4]);
        assert_eq!(Steps::new(Nanos(1), Nanos::from_secs(1)).counts.len(), MAX_STEPS as usize);
    }
}
