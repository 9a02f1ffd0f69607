//! The method `drill`: a legitimate load, an attack in its middle, and the effect on the load.
//!
//! ```text
//!                 before             during                    after
//! load     ├──────────────────┼─────────────────────┼───────────────────────────┤
//! attack                      ├─────────────────────┤
//! goodput  ████████████████████▃▂▁▂▁▁▂▁▁▁▂▁▁▂▁▁▂▁▂▁▁▂▂▃▅▆▆███████████████████████
//!                                                   └──────┘ seconds to recover
//! ```
//!
//! The goodput of a second is the share of the queries due in it that got a valid answer in time. A server has recovered
//! from the first second after the attack on from which every second has at least 99 % of the goodput before it. One that did
//! not answer the load before the attack has nothing to recover: its drill is void.

mod methods;

use measure::{Nanos, Qps, Void};
use record::request::TrialSpec;
use record::{AttackKind, AttackOutcome, Second, Trial};

/// Share of the goodput before the attack that each second has after a recovery.
const RECOVERED: f64 = 0.99;

/// Least goodput before the attack, as a share: below it the load is too much for the server without any attack.
const ANSWERED: f64 = 0.9;

/// Request for one drill: a legitimate load, and an attack in the midst of it.
#[derive(Clone, Debug, PartialEq)]
pub struct DrillSpec {
    /// The legitimate load, which lasts from before the attack until after it.
    pub load: TrialSpec,
    /// Kind of the attack, which determines the exhausted resource.
    pub attack: AttackKind,
    /// Largest rate of the attack: queries, first packets or new connections a second.
    pub rate: Qps,
    /// Largest number of connections of the attack at a time, if it has any.
    pub connections: u32,
    /// Time from the start of the load to the start of the attack, in nanoseconds.
    pub begins: Nanos,
    /// Duration of the attack, in nanoseconds.
    pub lasts: Nanos,
}

impl DrillSpec {
    /// Returns why the drill is void if the server did not answer the load before the attack.
    pub fn unanswered_before(&self, trial: &Trial) -> Option<Void> {
        let Goodput { before: share, .. } = Goodput::of_trial(trial, self.begins, self.lasts)?;
        (share < ANSWERED).then_some(Void::UnansweredBefore { share, least: ANSWERED })
    }
}

/// Result of a drill: the legitimate load, and the attack on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Drilled {
    /// Record of the legitimate load, complete: it is reduced after the figures were computed.
    pub trial: Trial,
    /// Traffic of the attack, and the server's reactions.
    pub attack: AttackOutcome,
}

/// Goodput of the parts of a drill, as shares (0 to 1) of their queries.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Goodput {
    before: f64,
    during: f64,
    after: f64,
    /// Number of seconds after the attack until the goodput stays normal; `None` if the last second
    /// is not normal.
    recovery_s: Option<usize>,
}

impl Goodput {
    /// Computes the course of a drill whose attack came after `before` and lasted for `during`;
    /// `None` if the load ended before the drill.
    fn of_trial(trial: &Trial, before: Nanos, during: Nanos) -> Option<Self> {
        let seconds = |time: Nanos| time.as_secs_f64().round() as usize;
        Goodput::of(trial.seconds_of_sending(), seconds(before), seconds(during))
    }

    /// Computes the goodput of a load of which `series` has each second, `before` of them before the attack and `during`
    /// during it; `None` if there is no second of each part, or no query before the attack.
    fn of(series: &[Second], before: usize, during: usize) -> Option<Self> {
        let (calm, rest) = series.split_at_checked(before)?;
        let (attacked, after) = rest.split_at_checked(during)?;
        if after.is_empty() || calm.iter().all(|second| second.sent == 0) {
            return None;
        }
        let before = share(calm);
        let good = |second: &Second| second.valid as f64 >= RECOVERED * before * second.sent as f64;
        let last_bad = after.iter().rposition(|second| !good(second));
        let recovery_s = match last_bad {
            None => Some(0),
            Some(last) if last + 1 == after.len() => None,
            Some(last) => Some(last + 1),
        };
        Some(Goodput { before, during: share(attacked), after: share(after), recovery_s })
    }
}

/// Returns the share (0 to 1) of the queries of some seconds that got a valid answer in time; 1 without queries.
fn share(seconds: &[Second]) -> f64 {
    let sum = |of: fn(&Second) -> u64| seconds.iter().map(of).sum::<u64>() as f64;
    let sent = sum(|second| second.sent);
    if sent > 0.0 { sum(|second| second.valid) / sent } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Seconds of 100 queries with so many valid answers.
    fn seconds(valid: &[u64]) -> Vec<Second> {
        valid.iter().map(|&valid| Second { sent: 100, valid, ..Second::default() }).collect()
    }

    #[test]
    fn a_recovery_is_the_first_second_that_stays() {
        let table: [(&[u64], Option<usize>); 8] = [
            (&[100, 100, 100], Some(0)),
            (&[99, 99, 99], Some(0)),
            (&[50, 98, 99], Some(2)),
            (&[0, 100, 100], Some(1)),
            // Once more below it: not yet.
            (&[100, 100, 98, 100], Some(3)),
            (&[0, 0, 0], None),
            (&[100, 100, 98], None),
            (&[100], Some(0)),
        ];
        for (after, wanted) in table {
            let series = seconds(&[&[100, 100, 10, 20][..], after].concat());
            let found = Goodput::of(&series, 2, 2).expect("all parts");
            assert_eq!(found.recovery_s, wanted, "{after:?}");
            assert_eq!((found.before, found.during), (1.0, 0.15));
        }
    }

    #[test]
    fn a_server_that_never_answered_all_has_to_answer_as_before() {
        let series = seconds(&[50, 50, 0, 49, 50]);
        assert_eq!(Goodput::of(&series, 2, 1).expect("all parts").recovery_s, Some(1));
        // A second without queries says nothing.
        let mut series = seconds(&[100, 0, 100, 100]);
        series[3] = Second::default();
        assert_eq!(Goodput::of(&series, 1, 1).expect("all parts").recovery_s, Some(0));
    }

    #[test]
    fn a_load_that_ended_early_has_no_goodput() {
        let series = seconds(&[100, 100, 0]);
        for (before, during) in [(4, 1), (2, 2), (2, 1)] {
            assert_eq!(Goodput::of(&series, before, during), None, "{before} {during}");
        }
        assert_eq!(Goodput::of(&vec![Second::default(); 5], 2, 2), None, "nothing was asked");
    }

    proptest! {
        #[test]
        fn what_recovered_stays_so_and_what_did_not_ends_so(
            calm in prop::collection::vec((1u64..1_000, 0.0..=1.0), 1..10),
            attacked in prop::collection::vec((0u64..1_000, 0.0..=1.0), 1..10),
            after in prop::collection::vec((0u64..1_000, 0.0..=1.0), 1..30),
        ) {
            let second = |&(sent, share): &(u64, f64)| {
                Second { sent, valid: (sent as f64 * share) as u64, ..Second::default() }
            };
            let all = [&calm[..], &attacked, &after].concat();
            let series: Vec<Second> = all.iter().map(second).collect();
            let found = Goodput::of(&series, calm.len(), attacked.len()).expect("all parts");
            for share in [found.before, found.during, found.after] {
                prop_assert!((0.0..=1.0).contains(&share), "{found:?}");
            }
            let rest = &series[calm.len() + attacked.len()..];
            let bad = |s: &Second| (s.valid as f64) < 0.99 * found.before * s.sent as f64;
            match found.recovery_s {
                Some(at) => {
                    prop_assert!(!rest[at..].iter().any(bad));
                    prop_assert!(at == 0 || bad(&rest[at - 1]));
                    // Further good seconds change nothing.
                    let longer = [&series[..], &[Second { sent: 7, valid: 7, ..Second::default() }]].concat();
                    let longer = Goodput::of(&longer, calm.len(), attacked.len());
                    prop_assert_eq!(longer.expect("all parts").recovery_s, Some(at));
                }
                None => prop_assert!(rest.last().is_some_and(bad)),
            }
        }
    }
}
