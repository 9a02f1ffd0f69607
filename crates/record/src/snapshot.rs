//! Counters of a running trial, for live views.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Counters that the Measurer writes to the `live` file of its request four times a second. They
/// are not stored: the trial contains them all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Version of the JSON, [`SCHEMA`](crate::SCHEMA).
    pub schema: u32,
    /// Time since the start of the trial, in seconds.
    pub at_s: f64,
    /// Number of queries sent so far.
    pub sent: u64,
    /// Replies in time so far, valid or not.
    pub answered: u64,
    /// Valid replies in time so far.
    pub valid: u64,
    /// Queries without a valid reply in time.
    pub bad: u64,
    /// Queries without a reply in time.
    pub lost: u64,
    /// Replies by latency: upper bounds in rising order, in microseconds, and the number of replies between each
    /// bound and the one before.
    pub latency_us: Vec<(f64, u64)>,
    /// Invalid replies so far, by reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub invalid: BTreeMap<String, u64>,
    /// Counters of each Tester, if several send together.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub testers: Vec<TesterCount>,
}

/// Counters of one of several Testers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TesterCount {
    /// Rank, host and process of the Tester.
    pub name: String,
    /// Number of queries that it has sent so far.
    pub sent: u64,
    /// Queries without a valid reply in time.
    pub bad: u64,
}

impl Snapshot {
    /// Returns the latency in microseconds below which a share (0 to 1) of the replies arrived;
    /// `None` without replies.
    pub fn latency_bound_us(&self, share: f64) -> Option<f64> {
        let all: u64 = self.latency_us.iter().map(|(_, count)| count).sum();
        if all == 0 {
            return None;
        }
        let wanted = (share * all as f64).ceil().max(1.0);
        let mut seen = 0;
        let reached = |(_, count): &&(f64, u64)| {
            seen += count;
            seen as f64 >= wanted
        };
        self.latency_us.iter().find(reached).map(|(bound, _)| *bound)
    }

    /// Returns the counters since an earlier snapshot of the same trial.
    pub fn since(&self, before: &Snapshot) -> Snapshot {
        let earlier = |bound: f64| {
            before.latency_us.iter().find(|(b, _)| *b == bound).map_or(0, |(_, count)| *count)
        };
        let latency =
            self.latency_us.iter().map(|(b, count)| (*b, count.saturating_sub(earlier(*b))));
        let invalid = self.invalid.iter().map(|(reason, count)| {
            let earlier = before.invalid.get(reason).copied().unwrap_or(0);
            (reason.clone(), count.saturating_sub(earlier))
        });
        Snapshot {
            schema: self.schema,
            at_s: self.at_s - before.at_s,
            sent: self.sent.saturating_sub(before.sent),
            answered: self.answered.saturating_sub(before.answered),
            valid: self.valid.saturating_sub(before.valid),
            bad: self.bad.saturating_sub(before.bad),
            lost: self.lost.saturating_sub(before.lost),
            latency_us: latency.collect(),
            invalid: invalid.filter(|(_, count)| *count > 0).collect(),
            testers: self.testers.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_of_shares_and_what_came_since() {
        let at =
            |counts: &[(f64, u64)]| Snapshot { latency_us: counts.to_vec(), ..Snapshot::default() };
        let first = at(&[(50.0, 90), (100.0, 9), (500.0, 1)]);
        let bounds = [0.0, 0.5, 0.9, 0.99, 1.0].map(|share| first.latency_bound_us(share));
        assert_eq!(bounds, [50.0, 50.0, 50.0, 100.0, 500.0].map(Some));
        assert_eq!(at(&[]).latency_bound_us(0.5), None);
        let later = at(&[(50.0, 90), (100.0, 19), (500.0, 1), (1_000.0, 2)]);
        assert_eq!(later.since(&first).latency_bound_us(0.5), Some(100.0));
        assert_eq!(later.since(&later).latency_bound_us(0.5), None, "no reply since");
    }
}
