//! Counts of a trial by steps of equal length, to show changes while a rate grows. Each event
//! counts in the step in which it happened.

use measure::Nanos;

/// Largest number of steps; events after the last one are not counted.
const MAX_STEPS: u64 = 100_000;

/// Counts of one step of a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Queries that left in this step.
    pub sent: u64,
    /// Replies in time that arrived in this step, valid or not.
    pub answered: u64,
    /// Replies in time to queries that left in this step, whenever they arrived.
    pub answered_of_sent: u64,
    /// Replies of `answered` with a return code other than NOERROR and NXDOMAIN.
    pub failed: u64,
    /// Sum of the times from sending to reply of `answered`, in nanoseconds.
    pub latency_ns: u64,
}

/// Steps of a trial, whose queries are counted separately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steps {
    /// Length of each step, the last one aside.
    pub length: Nanos,
    /// Counts of each step, from the start of the trial.
    pub counts: Vec<Step>,
}

impl Steps {
    /// Makes the empty steps of a trial that sends for `duration`.
    pub fn new(length: Nanos, duration: Nanos) -> Self {
        let length = Nanos(length.0.max(1));
        let count = duration.0.div_ceil(length.0).clamp(1, MAX_STEPS);
        Steps { length, counts: vec![Step::default(); count as usize] }
    }

    /// Returns the step at `offset` from the start; `None` after the last one.
    #[inline]
    pub(crate) fn at(&mut self, offset: Nanos) -> Option<&mut Step> {
        self.counts.get_mut((offset.0 / self.length.0) as usize)
    }

    /// Counts a reply in time that arrived `at` to a query that left at `sent`; `failed` tells
    /// whether its return code is an error.
    pub(crate) fn add_reply(&mut self, sent: Nanos, at: Nanos, failed: bool) {
        if let Some(step) = self.at(sent) {
            step.answered_of_sent += 1;
        }
        if let Some(step) = self.at(at) {
            step.answered += 1;
            step.failed += u64::from(failed);
            step.latency_ns = step.latency_ns.saturating_add(at.since(sent).0);
        }
    }

    /// Adds the steps of another worker of the same trial.
    pub(crate) fn merge(&mut self, other: &Steps) {
        self.add(&other.counts);
    }

    /// Adds counts of the same steps.
    pub(crate) fn add(&mut self, counts: &[Step]) {
        for (a, b) in self.counts.iter_mut().zip(counts) {
            a.sent += b.sent;
            a.answered += b.answered;
            a.answered_of_sent += b.answered_of_sent;
            a.failed += b.failed;
            a.latency_ns = a.latency_ns.saturating_add(b.latency_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_counts_in_its_step() {
        let ms = Nanos::from_millis;
        let mut steps = Steps::new(ms(500), ms(1_200));
        assert_eq!(steps.counts.len(), 3);
        for at in [0, 499, 500, 1_199, 9_000] {
            steps.at(ms(at)).into_iter().for_each(|step| step.sent += 1);
        }
        // The second reply comes in the step after its query, and the last after the end.
        for (sent, at, failed) in [(0, 1, false), (499, 501, true), (1_199, 2_000, false)] {
            steps.add_reply(ms(sent), ms(at), failed);
        }
        steps.merge(&steps.clone());
        let counts = |of: fn(&Step) -> u64| steps.counts.iter().map(of).collect::<Vec<_>>();
        assert_eq!(counts(|step| step.sent), [4, 2, 2]);
        assert_eq!(counts(|step| step.answered), [2, 2, 0]);
        assert_eq!(counts(|step| step.answered_of_sent), [4, 0, 2]);
        assert_eq!(counts(|step| step.failed), [0, 2, 0]);
        assert_eq!(counts(|step| step.latency_ns), [2_000_000, 4_000_000, 0]);
        assert_eq!(Steps::new(Nanos(1), Nanos::from_secs(1)).counts.len(), MAX_STEPS as usize);
    }
}
