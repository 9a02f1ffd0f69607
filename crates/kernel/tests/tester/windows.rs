//! Closed loops: how many queries leave, when those that are not answered make room for others, and the counts of steps.

use kernel::KernelTester;
use kernel::tester::{TesterPlan, TesterStep};
use load::workload::namespace::NamespaceExpect;
use measure::{Nanos, Pacing, Qps};
use wire::Expect;

use super::{case, loaded, query, reply_frame};

/// Number of places; it opens with 64 of them.
const WINDOW: u32 = 70;

fn plan(keep_places: bool) -> TesterPlan {
    let expect = NamespaceExpect::Same(Expect::Answered);
    let plan = case("10.0.0.2:53", expect, None, &["10.0.0.1"]).plan;
    let pacing = Pacing::Window { outstanding: WINDOW };
    TesterPlan { pacing, keep_places, ..plan }
}

/// Returns the queries that leave until no place is free.
fn leaving(tester: &KernelTester) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| tester.generate_once().expect("runs")).collect()
}

/// Gives the program a valid reply to each query of `frames`.
fn answer(tester: &KernelTester, plan: &TesterPlan, frames: &[Vec<u8>]) {
    for frame in frames {
        let mut message = query(frame, plan.target).message;
        message[2] |= 0x80;
        assert!(tester.check_once(&reply_frame(frame, false, &message)).expect("runs"));
    }
}

#[test]
fn a_window_opens_with_its_replies_and_stays_full() {
    let plan = plan(true);
    let Some(tester) = loaded(&plan) else { return };
    let mut frames = leaving(&tester);
    assert_eq!(frames.len(), 64);
    // Four places are free, and two more are open.
    answer(&tester, &plan, &frames[..4]);
    frames.extend(leaving(&tester));
    assert_eq!(frames.len(), 70);
    // Further replies free nothing.
    answer(&tester, &plan, &frames[..4]);
    assert!(leaving(&tester).is_empty());
    for _ in 0..1_000 {
        let from = frames.len() - 60;
        answer(&tester, &plan, &frames[from..]);
        frames.extend(leaving(&tester));
    }
    let counts = tester.counts().expect("counts");
    assert_eq!(counts.counted.sent - counts.counted.valid, u64::from(WINDOW));
    assert_eq!(
        (counts.counted.valid, counts.counted.duplicates, counts.counted.lost),
        (60_004, 4, 0)
    );
    assert_eq!(counts.counted.while_sending, counts.counted.valid);
    let last = counts.last_reply;
    assert!(Nanos::ZERO < last && last <= counts.last_sent, "the last queries have no reply");
    let times = tester.times().expect("times");
    assert_eq!(times.latency.count(), counts.counted.valid);
    let sum = |of: fn(&TesterStep) -> u64| times.steps.iter().map(of).sum::<u64>();
    assert_eq!(sum(|step| step.sent), counts.counted.sent);
    assert_eq!(sum(|step| step.answered), counts.counted.valid);
    assert_eq!(sum(|step| step.answered_of_sent), counts.counted.valid);
    let mean_ns = sum(|step| step.latency_ns) as f64 / counts.counted.valid as f64;
    let of_all = times.latency_from_send.mean_ns();
    assert!((mean_ns / of_all - 1.0).abs() < 0.01, "{mean_ns} {of_all}");
}

#[test]
fn a_window_with_a_highest_rate_is_whole_at_once_and_waits_for_its_times() {
    let capped = |rate: f64| {
        let rate = Qps::new(rate).expect("a rate");
        let pacing = Pacing::CappedWindow { outstanding: WINDOW, rate };
        loaded(&TesterPlan { pacing, ..plan(true) })
    };
    let (Some(fast), Some(slow)) = (capped(50_000.0), capped(1.0)) else { return };
    // What was due in the last ten seconds leaves at twice the rate.
    let mut count = 0;
    while count < WINDOW as usize {
        count += leaving(&fast).len();
    }
    assert!(count == WINDOW as usize && leaving(&fast).is_empty(), "{count} without a reply");
    let count = leaving(&slow).len();
    assert!((1..WINDOW as usize).contains(&count), "{count} in ten seconds");
}

#[test]
fn a_query_without_a_reply_gives_its_place_up_and_may_still_be_answered() {
    let plan = plan(false);
    let Some(tester) = loaded(&plan) else { return };
    let first = leaving(&tester);
    assert_eq!(first.len(), 64, "nobody knows yet how long replies take");
    answer(&tester, &plan, &first[..1]);
    while tester.counts().expect("counts").counted.sent < 1_000 {
        leaving(&tester);
    }
    let before = tester.counts().expect("counts");
    assert_eq!((before.counted.valid, before.counted.late, before.counted.lost), (1, 0, 0));
    answer(&tester, &plan, &first[1..3]);
    let after = tester.counts().expect("counts");
    assert_eq!(
        (after.counted.valid, after.counted.late, after.counted.lost, after.counted.duplicates),
        (3, 2, 0, 0)
    );
}
