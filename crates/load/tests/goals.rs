//! Trials that end early because they can no longer meet their goal, with one worker and with several.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use engine::sim::{Replies, SimEngine};
use load::{Live, Plan, Tally};
use measure::{Goal, Nanos, Pacing};

use crate::common::{MS, answer, assert_sums, constant, late, plan, run, run_on};

fn goal(text: &str) -> Option<Goal> {
    Some(text.parse().expect("a goal"))
}

/// Runs a worker's share of 10 s at 1,000/s (for all workers). Each `every`-th query is lost, the others are
/// answered after `after`.
fn worker(
    worker: u32,
    workers: u32,
    text: &str,
    every: u64,
    after: Nanos,
    live: &Arc<Live>,
) -> Tally {
    let mut k = 0;
    let mut engine = SimEngine::new(|_, _, q: &[u8], replies: &mut Replies| {
        k += 1;
        if k % every != 0 {
            replies.after(after, answer(q));
        }
    });
    let plan =
        Plan { stop_at: goal(text), worker, workers, ..plan(constant(1_000.0), MS(10_000), 1) };
    run_on(&mut engine, plan, 1 << 24, live)
}

#[test]
fn a_trial_ends_early_when_it_cannot_meet_its_goal() {
    let tally = worker(0, 1, "zero-loss", 100, MS(1), &Arc::default());
    assert!(tally.stopped_early);
    // The hundredth query left at 99 ms and was lost at 199 ms.
    assert!((199..=201).contains(&tally.sent), "{}", tally.sent);
    assert_eq!(tally.planned, 10_000);
    assert_eq!(late(&tally), None, "all due queries have left");
    assert_sums(&tally, tally.sent);
}

#[test]
fn a_trial_ends_when_more_than_the_allowed_share_is_lost() {
    // 1 % of 10,000 planned queries may be lost: the 101st is one too many.
    let tally = worker(0, 1, "loss < 1%", 50, MS(1), &Arc::default());
    assert!(tally.stopped_early && (5_100..5_300).contains(&tally.sent), "{}", tally.sent);
    let tally = worker(0, 1, "loss < 3%", 50, MS(1), &Arc::default());
    assert!(!tally.stopped_early);
    assert_eq!((tally.sent, tally.lost), (10_000, 200));
}

#[test]
fn a_trial_ends_when_too_many_queries_are_slow() {
    let tally = worker(0, 1, "p90 < 5ms, loss < 100%", u64::MAX, MS(10), &Arc::default());
    // A tenth of 10,000 queries may take longer: certain after 1,000 answers, checked every 100 ms.
    assert!(tally.stopped_early && (1_000..1_250).contains(&tally.sent), "{}", tally.sent);
    let tally = worker(0, 1, "p90 < 50ms, loss < 100%", u64::MAX, MS(10), &Arc::default());
    assert!(!tally.stopped_early && tally.sent == 10_000);
}

#[test]
fn the_allowed_share_refers_to_all_workers() {
    // One worker loses 1.5 % of its half, the other nothing: 0.75 % of the whole.
    let live = Arc::default();
    let lossy = worker(0, 2, "loss < 1%", 66, MS(1), &live);
    let good = worker(1, 2, "loss < 1%", u64::MAX, MS(1), &live);
    assert_eq!((lossy.stopped_early, good.stopped_early), (false, false));
    assert_eq!((lossy.lost + good.lost, lossy.sent + good.sent), (75, 10_000));
    assert_eq!(live.sent.load(Relaxed), 10_000);
    assert_eq!(live.bad.load(Relaxed), 75);
}

#[test]
fn one_worker_that_cannot_meet_the_goal_ends_all() {
    let live = Arc::default();
    let lossy = worker(0, 2, "zero-loss", 10, MS(1), &live);
    let good = worker(1, 2, "zero-loss", u64::MAX, MS(1), &live);
    assert!(lossy.stopped_early && good.stopped_early && live.failed.load(Relaxed));
    assert!(good.sent < 10, "{}", good.sent);
}

#[test]
fn a_window_ends_early_only_for_zero_loss() {
    for (text, stops) in [("zero-loss", true), ("loss < 1%", false), ("p50 < 1ms", false)] {
        let mut k = 0;
        let plan =
            Plan { stop_at: goal(text), ..plan(Pacing::Window { outstanding: 4 }, MS(500), 1) };
        let (tally, _) = run(plan, |_, _, q, replies| {
            k += 1;
            if text != "zero-loss" || k != 10 {
                replies.after(MS(5), answer(q));
            }
        });
        assert_eq!(tally.stopped_early, stops, "{text}");
    }
}
