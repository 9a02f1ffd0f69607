//! Outcomes of a trial's queries, and the quantities by which it missed its goal.

use measure::Goal;
use measure::goal::percentile_name;
use record::Trial;

use super::thousands;
use super::unit::time_us;

/// Returns the number of queries without a reply in time, and separately the ones that the Tester's
/// own host dropped: "lost 3, 20 dropped on the Tester's own host".
pub(crate) fn lost(t: &Trial) -> String {
    let (lost, here) = (thousands(t.lost_elsewhere() as f64), t.dropped_here());
    match here {
        0 => format!("lost {lost}"),
        here => format!("lost {lost}, {} dropped on the Tester's own host", thousands(here as f64)),
    }
}

/// Returns the quantities by which a trial missed its goal, in words: "p99 12.30 ms, not < 5ms".
/// Without a goal, or where the record lacks them: the queries without a valid reply.
pub(crate) fn missed(t: &Trial) -> String {
    let goal = t.goal.as_ref().and_then(|goal| goal.parse::<Goal>().ok());
    let mut found = Vec::new();
    // A stopped trial cannot pass with fewer queries than planned.
    let queries = if t.stopped_early { t.planned.max(t.sent) } else { t.sent };
    let slow = goal.iter().flat_map(|goal| slow(goal, t, queries));
    found.extend(slow.map(|(at, us, bound)| format!("{at} {}, not < {bound}", time_us(us))));
    if let Some(numbers) = t.outstanding.filter(|numbers| !numbers.is_sustained()) {
        found.push(format!(
            "fell behind: {:.0} outstanding in the middle, {:.0} at the end",
            numbers.middle, numbers.end
        ));
    }
    let too_many = goal.as_ref().is_some_and(|goal| goal.lost_too_many(queries, t.bad()));
    if too_many || found.is_empty() {
        let invalid = t.invalid.iter().map(|(reason, n)| format!(", {reason} {n}"));
        let invalid: String = invalid.collect();
        found.insert(0, format!("{}{invalid} of {}", lost(t), thousands(t.sent as f64)));
    }
    found.join("; ")
}

/// Returns the bounds on latency that a trial exceeded: name of the percentile, its value in microseconds, the bound.
fn slow(goal: &Goal, t: &Trial, queries: u64) -> Vec<(String, f64, measure::Nanos)> {
    let times = &t.latency_us;
    let row = |(quantile, us, bound)| (percentile_name(quantile), us, bound);
    match times.histogram() {
        Ok(latency) => goal
            .exceeded(queries, &latency)
            .map(|(q, bound)| row((q, latency.quantile(q).as_micros_f64(), bound)))
            .collect(),
        Err(_) => goal
            .latency
            .iter()
            .filter_map(|(q, bound)| Some((*q, times.kept(*q)?, *bound)))
            .filter(|(_, us, bound)| *us >= bound.as_micros_f64())
            .map(row)
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use measure::{Histogram, Nanos, Outstanding};
    use record::{Drops, Times};

    use super::*;

    /// A trial of 1,000 queries, of which one in twenty took 12 ms.
    fn trial(goal: &str) -> Trial {
        let mut trial = crate::tests::trial();
        let mut latency = Histogram::new();
        latency.record_many(Nanos::from_millis(1), 950);
        latency.record_many(Nanos::from_millis(12), 50);
        (trial.latency_us, trial.goal) = (Times::from(&latency), Some(goal.to_owned()));
        (trial.planned, trial.sent, trial.answered, trial.valid) = (1_000, 1_000, 1_000, 1_000);
        (trial.lost, trial.passed, trial.outstanding) = (0, Some(false), None);
        (trial.drops, trial.stopped_early) = (Drops::default(), false);
        trial.invalid.clear();
        trial
    }

    #[test]
    fn a_missed_goal_shows_the_quantity_that_missed_it() {
        let slow = || trial("p99 < 5ms, loss = 0");
        assert_eq!(missed(&slow()), "p99 12.00 ms, not < 5ms");
        let kept = Times { hdr: String::new(), ..slow().latency_us };
        assert_eq!(missed(&Trial { latency_us: kept, ..slow() }), "p99 12.00 ms, not < 5ms");
        assert_eq!(
            missed(&trial("p50 < 500us, p99 < 5ms")),
            "p50 1.00 ms, not < 500us; p99 12.00 ms, not < 5ms"
        );
        let lossy = Trial { answered: 998, valid: 997, lost: 2, ..slow() };
        let lossy = Trial { invalid: [("rcode".to_owned(), 1)].into(), ..lossy };
        assert_eq!(missed(&lossy), "lost 2, rcode 1 of 1,000; p99 12.00 ms, not < 5ms");
        let few = Trial { goal: Some("p99 < 50ms, loss < 1%".into()), ..lossy.clone() };
        let behind = Some(Outstanding { middle: 10.0, end: 90.0, allowed: 20.0 });
        let behind = Trial { outstanding: behind, ..few };
        assert_eq!(missed(&behind), "fell behind: 10 outstanding in the middle, 90 at the end");
        assert_eq!(missed(&Trial { goal: None, ..lossy }), "lost 2, rcode 1 of 1,000");
    }

    #[test]
    fn what_the_own_host_dropped_is_counted_apart() {
        let drops = Drops { tester_receive: 150, ..Drops::default() };
        let dropping = Trial { answered: 800, valid: 800, lost: 200, drops, ..trial("zero-loss") };
        let wanted = "lost 50, 150 dropped on the Tester's own host of 1,000";
        assert_eq!(missed(&dropping), wanted);
        assert_eq!((dropping.lost_elsewhere(), dropping.dropped_here()), (50, 150));
        let more = Drops { tester_receive: 999, ..Drops::default() };
        assert_eq!(Trial { drops: more, ..dropping }.lost_elsewhere(), 0, "strays are dropped too");
    }
}
