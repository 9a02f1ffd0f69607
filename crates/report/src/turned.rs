//! When a server began to fail: the time from which on most of its replies are invalid for one
//! reason, or missing, although before or after that they are not.

use record::{Second, Trial};

/// Share of a second's queries from which on the second is bad, and share below which it is good.
const BAD_SHARE: f64 = 0.5;
const GOOD_SHARE: f64 = 0.1;
/// Smallest number of queries from which on a second is judged.
const MIN_QUERIES: u64 = 20;

/// Returns when a trial turned bad and for which reason, such as `servfail from 3.0 s on`; `None` if it did not.
pub(crate) fn turned_bad(t: &Trial) -> Option<String> {
    let lost = |second: &Second| second.lost;
    let reasons = t.invalid.keys().map(String::as_str);
    let spans = reasons.map(|reason| (reason, span(t, |second| count(second, reason))));
    // In a trial that was stopped, queries without an outcome count as lost.
    let lost = (t.unresolved == 0).then(|| ("no reply", span(t, lost)));
    let all = spans.chain(lost);
    let told = all.filter_map(|(reason, span)| Some(format!("{reason} {}", span?)));
    let told = told.collect::<Vec<_>>().join(", ");
    (!told.is_empty()).then_some(told)
}

fn count(second: &Second, reason: &str) -> u64 {
    second.invalid.get(reason).copied().unwrap_or(0)
}

/// Returns the first span of bad seconds. The shares of its first and last second give its begin
/// and end.
fn span(t: &Trial, bad: impl Fn(&Second) -> u64) -> Option<String> {
    // Seconds with few queries do not count: a single lost query would be a large share.
    let share = |second: &Second| match second.sent {
        0..MIN_QUERIES => 0.0,
        sent => bad(second) as f64 / sent as f64,
    };
    let sent =
        t.series.iter().rposition(|second| second.sent >= MIN_QUERIES).map_or(0, |last| last + 1);
    let shares: Vec<f64> = t.series[..sent].iter().map(share).collect();
    let first = shares.iter().position(|share| *share >= BAD_SHARE)?;
    let length = shares[first..].iter().take_while(|share| **share >= BAD_SHARE).count();
    let good = |share: &f64| *share < GOOD_SHARE;
    if !shares.iter().any(good) {
        return None;
    }
    let before = first.checked_sub(1).map_or(0.0, |before| shares[before]);
    let from = first as f64 + 1.0 - shares[first] - before;
    let end = first + length;
    Some(match shares.get(end) {
        Some(share) => format!("from {from:.1} s to {:.1} s", end as f64 + share),
        None => format!("from {from:.1} s on"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_needs_good_and_bad_seconds() {
        let told = |invalid: &[u64]| {
            let second = |n: &u64| Second {
                sent: 100,
                valid: 100 - n,
                invalid: [("servfail".to_owned(), *n)].into(),
                ..Second::default()
            };
            let mut t = crate::tests::trial();
            t.invalid = [("servfail".to_owned(), invalid.iter().sum())].into();
            // Some queries leave after the end.
            let late = Second { sent: 3, valid: 3, ..Second::default() };
            t.series = invalid.iter().map(second).chain([late]).collect();
            turned_bad(&t)
        };
        for (invalid, wanted) in [
            (&[0, 0, 100, 100][..], Some("servfail from 2.0 s on")),
            (&[0, 40, 100, 100], Some("servfail from 1.6 s on")),
            (&[0, 70, 100, 100], Some("servfail from 1.3 s on")),
            (&[0, 100, 100, 20, 0], Some("servfail from 1.0 s to 3.2 s")),
            (&[100, 100, 0], Some("servfail from 0.0 s to 2.0 s")),
            (&[100, 100, 100], None),
            (&[30, 40, 45, 30], None),
            (&[0, 5, 0, 3], None),
        ] {
            assert_eq!(told(invalid).as_deref(), wanted, "{invalid:?}");
        }
    }
}
