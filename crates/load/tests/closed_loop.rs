//! Windows and lock-step lanes on the simulated engine.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use engine::sim::{Replies, SimEngine};
use engine::{WaitMode, drive};
use load::lockstep::{Span, experiment_times};
use load::{LockStep, LockStepPlan, Plan, Rounds};
use measure::{Nanos, Pacing};

use crate::common::{
    MS, Stepped, US, answer, assert_sums, lockstep_plan, plan, qps, run, run_lockstep, run_worker,
    workload,
};

#[test]
fn a_window_keeps_its_number_of_queries_outstanding() {
    let window = Pacing::Window { outstanding: 32 };
    let outstanding = std::cell::Cell::new(0i64);
    let mut returned: Vec<Nanos> = Vec::new();
    let (tally, _) = run(plan(window, MS(100), 2), |now, _, q, replies| {
        returned.retain(|at| {
            if *at <= now {
                outstanding.set(outstanding.get() - 1);
                false
            } else {
                true
            }
        });
        outstanding.set(outstanding.get() + 1);
        assert!(outstanding.get() <= 32);
        returned.push(now + MS(1));
        replies.after(MS(1), answer(q));
    });
    assert_eq!(tally.sent, 32 * 100);
    assert_eq!(tally.valid, tally.sent);
}

#[test]
fn a_window_with_a_highest_rate_keeps_both() {
    let capped = Pacing::CappedWindow { outstanding: 10, rate: qps(1_000.0) };
    // A fast server: the rate bounds the load; query k leaves when the rate allows it, never earlier.
    let (tally, times) = run(plan(capped, MS(500), 1), |_, _, q, replies| {
        replies.after(MS(1), answer(q));
    });
    assert_eq!((tally.sent, tally.valid), (500, 500));
    assert!((0u64..).zip(&times).all(|(k, at)| *at >= MS(k) && *at < MS(k + 1)), "{times:?}");
    // A slow one: the window bounds it.
    let (tally, _) = run(plan(capped, MS(500), 1), |_, _, q, replies| {
        replies.after(MS(50), answer(q));
    });
    assert!((90..=110).contains(&tally.sent), "{}", tally.sent);
    // After a stop of 100 ms the queries that the rate allowed meanwhile follow.
    let (tally, _) = run(plan(capped, MS(500), 1), |now, _, q, replies| {
        let resumes = if (MS(100)..MS(200)).contains(&now) { MS(200) } else { now };
        replies.after(resumes.since(now) + US(100), answer(q));
    });
    assert_eq!(tally.sent, 500);
    let shares = (0..3).map(|worker| {
        let plan = Plan { worker, workers: 3, ..plan(capped, MS(500), 1) };
        run(plan, |_, _, q, replies| replies.after(MS(1), answer(q))).0.sent
    });
    assert_eq!(shares.sum::<u64>(), 500);
}

#[test]
fn workers_share_the_window() {
    for (outstanding, workers, sizes) in
        [(10, 3, &[4, 3, 3][..]), (1, 2, &[1, 0]), (512, 1, &[512])]
    {
        for (worker, size) in (0..).zip(sizes) {
            let pacing = Pacing::Window { outstanding };
            let plan = Plan { worker, workers, ..plan(pacing, MS(10), 2) };
            let (tally, times) = run(plan, |_, _, _, _| ());
            assert_eq!((tally.sent, tally.lost), (*size, *size), "{outstanding} {worker}");
            assert_eq!(times.len() as u64, *size);
            assert!(times.iter().all(|at| *at == Nanos(0)));
        }
    }
}

/// A server with a receive queue: it takes a query each microsecond and answers it 1 ms later.
struct Queue {
    room: u64,
    free_at: Nanos,
    dropped: u64,
}

impl Queue {
    fn take(&mut self, now: Nanos, query: &[u8], replies: &mut engine::sim::Replies) {
        self.free_at = self.free_at.max(now) + US(1);
        if self.free_at.since(now) > US(self.room) {
            self.free_at = Nanos(self.free_at.0 - 1_000);
            self.dropped += 1;
            return;
        }
        replies.after(self.free_at.since(now) + MS(1), answer(query));
    }
}

#[test]
fn a_window_opens_without_losses() {
    // A burst of 1,000 queries would overflow a queue of 400; a window that opens slowly does not.
    let mut queue = Queue { room: 400, free_at: Nanos(0), dropped: 0 };
    let window = Pacing::Window { outstanding: 1_000 };
    let p = Plan { adaptive_window: true, ..plan(window, MS(100), 64) };
    let (tally, times) = run(p, |now, _, q, replies| {
        queue.take(now, q, replies);
    });
    assert_eq!((queue.dropped, tally.lost, tally.window_held_at), (0, 0, None));
    assert_eq!(times.iter().filter(|at| **at == Nanos(0)).count(), 64);
    // Each place is used about once in 1 to 1.3 ms, after some that it takes to open.
    assert!(tally.sent > 70_000, "{}", tally.sent);
    assert_sums(&tally, tally.sent);
}

#[test]
fn a_window_is_held_to_what_the_server_takes() {
    // The server answers 10,000 queries a second from a queue of 300, whose rest is lost.
    let (mut free_at, mut dropped) = (Nanos(0), 0);
    let window = Pacing::Window { outstanding: 1_000 };
    let p = Plan { adaptive_window: true, ..plan(window, MS(2_000), 64) };
    let (tally, _) = run(p, |now, _, q, replies| {
        free_at = free_at.max(now);
        if free_at.since(now) > US(100 * 300) {
            dropped += 1;
            return;
        }
        free_at += US(100);
        replies.after(free_at.since(now), answer(q));
    });
    let held = tally.window_held_at.expect("it lost bursts");
    assert!((64..=400).contains(&held), "{held}");
    // Without that, 700 queries were lost in each of 20 timeouts.
    assert_eq!(tally.lost, dropped);
    assert!(dropped < 3_000, "{dropped}");
    assert!(tally.valid > 19_000, "{}", tally.valid);
}

#[test]
fn a_silent_server_frees_the_window_by_timeouts() {
    let (tally, times) =
        run(plan(Pacing::Window { outstanding: 10 }, MS(1_000), 1), |_, _, _, _| ());
    assert!((90..=100).contains(&tally.sent), "{}", tally.sent);
    assert_eq!((tally.lost, tally.unresolved), (tally.sent, 0));
    // A place becomes free within a sixty-fourth of the timeout, at most a millisecond.
    assert!(times.chunks(10).zip(0..).all(|(t, k)| t[0] <= MS(100 * k) + MS(k)), "{times:?}");
}

#[test]
fn lost_queries_do_not_block_a_socket() {
    // At 1.2 M/s on one socket an id is used again after 55 ms. One in a thousand queries is lost and
    // occupies a place of the window for 100 ms: 120 of 400 places.
    let (mut k, mut replied) = (0u64, 0);
    let window = Pacing::Window { outstanding: 400 };
    let (tally, _) = run(plan(window, MS(150), 1), |_, _, q, replies| {
        k += 1;
        if !k.is_multiple_of(1_000) {
            replies.after(US(233), answer(q));
            replied += 1;
        }
    });
    assert!(tally.sent > 150_000, "{}", tally.sent);
    assert_eq!((tally.blocked, tally.lost), (0, tally.sent / 1_000));
    assert_sums(&tally, replied);
}

#[test]
fn each_lock_step_lane_has_one_query_outstanding() {
    for threads in [1u32, 4, 256] {
        let result = run_lockstep(threads, 5, 5 * 256, Nanos(0), |_, _, q, replies| {
            replies.after(MS(1), answer(q));
        });
        assert_eq!(result.times, vec![MS(u64::from(256 / threads)); 5]);
        assert_eq!((result.tally.sent, result.tally.valid), (1_280, 1_280));
    }
    for threads in [0, 257, 512] {
        let plan = lockstep_plan(threads, 1);
        let role = LockStep::new(plan, Box::new(workload(256, true)), Default::default());
        let error = role.err().expect("not from 1 to 256").to_string();
        assert!(error.contains("take 1 to 256"), "{error}");
    }
}

#[test]
fn lanes_that_do_not_divide_an_experiment_differ_by_one_query() {
    for threads in [3u32, 7, 100, 255] {
        let mut queries = vec![0; threads as usize];
        let result = run_lockstep(threads, 3, 768, Nanos(0), |_, socket, q, replies| {
            queries[usize::from(socket.0)] += 1;
            replies.after(MS(1), answer(q));
        });
        assert_eq!(result.times, vec![MS(u64::from(256u32.div_ceil(threads))); 3], "{threads}");
        assert_eq!((result.tally.planned, result.tally.valid), (768, 768));
        let (least, most) = (queries.iter().min(), queries.iter().max());
        assert!(most.zip(least).is_some_and(|(m, l)| m - l <= 3), "{threads}: {queries:?}");
    }
}

/// Runs the workers of a lock-step load on threads; returns the labels that each one queried, in their order.
fn labels_of_workers(workers: u32, threads: u32, names: u64) -> Vec<(Vec<String>, Stepped)> {
    let rounds = Rounds::of(workers);
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..workers)
            .map(|worker| {
                let plan =
                    LockStepPlan { worker, rounds: rounds.clone(), ..lockstep_plan(threads, 3) };
                scope.spawn(move || {
                    let mut labels = Vec::new();
                    let ran = run_worker(plan, names, Nanos(0), |_, _, q, replies| {
                        labels.push(String::from_utf8_lossy(&q[13..28]).into_owned());
                        replies.after(US(100 + 10 * u64::from(worker)), answer(q));
                    });
                    (labels, ran)
                })
            })
            .collect();
        running.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}

#[test]
fn workers_share_the_lanes_and_names_of_each_experiment() {
    for (workers, threads) in [(2, 4), (3, 16), (2, 3), (4, 4)] {
        let ran = labels_of_workers(workers, threads, 768);
        for experiment in 0..3u64 {
            let mut labels = Vec::new();
            for (of_worker, stepped) in &ran {
                // Each worker has the same number of names in every experiment.
                let share = of_worker.len() / 3;
                assert_eq!(stepped.tally.planned as usize, of_worker.len());
                assert_eq!((stepped.times.len(), stepped.tally.exhausted), (3, false));
                labels.extend_from_slice(&of_worker[experiment as usize * share..][..share]);
            }
            labels.sort();
            let names = (0..256).map(|c| format!("010-000-{experiment:03}-{c:03}"));
            assert!(labels.into_iter().eq(names), "{workers} workers, {threads} threads");
        }
    }
}

#[test]
fn workers_end_when_the_names_of_one_run_out() {
    // The third experiment has 88 names: the first worker's, and none for the second.
    let ran = labels_of_workers(2, 2, 600);
    let counts: Vec<_> = ran.iter().map(|(labels, ran)| (labels.len(), ran.times.len())).collect();
    assert_eq!(counts, [(256 + 88, 2), (256, 2)]);
}

#[test]
fn the_time_of_an_experiment_is_that_of_its_slowest_worker() {
    let span = |start, end| Span { start: MS(start), end: MS(end) };
    let first = vec![span(10, 20), span(31, 40)];
    let second = vec![span(11, 25), span(30, 39), span(50, 60)];
    assert_eq!(experiment_times(&[first, second]), [MS(15), MS(10)]);
    assert_eq!(experiment_times(&[]), []);
}

#[test]
fn each_experiment_queries_its_own_256_names() {
    let mut labels = Vec::new();
    run_lockstep(8, 3, 768, Nanos(0), |_, _, q, replies| {
        labels.push(String::from_utf8_lossy(&q[13..28]).into_owned());
        // Lanes take different times.
        replies.after(US(100 + 37 * (labels.len() as u64 % 11)), answer(q));
    });
    for (experiment, labels_of_experiment) in labels.chunks_mut(256).enumerate() {
        labels_of_experiment.sort();
        let names = (0..256).map(|c| format!("010-000-{experiment:03}-{c:03}"));
        assert!(labels_of_experiment.iter().cloned().eq(names), "experiment {experiment}");
    }
}

#[test]
fn lanes_that_pause_query_their_names_in_order_when_they_are_driven_again() {
    let rounds = Rounds::of(4);
    let mut lanes: Vec<_> = (0..4)
        .map(|worker| {
            let (pauses, rounds) = (true, rounds.clone());
            let plan = LockStepPlan { worker, pauses, rounds, ..lockstep_plan(4, 3) };
            LockStep::new(plan, Box::new(workload(768, true)), Arc::default()).expect("4 threads")
        })
        .collect();
    let labels = RefCell::new(Vec::new());
    for ended in 1..=3 {
        for lane in &mut lanes {
            let mut engine = SimEngine::new(|_, _, q: &[u8], replies: &mut Replies| {
                labels.borrow_mut().push(String::from_utf8_lossy(&q[13..28]).into_owned());
                replies.after(MS(1), answer(q));
            });
            drive(&mut engine, lane, WaitMode::Sleep, &AtomicBool::new(false)).expect("no errors");
            assert_eq!(lane.ended(), ended);
        }
    }
    assert!(lanes.into_iter().all(|lane| lane.into_result().tally.valid == 3 * 64));
    let names = (0..768).map(|name| format!("010-000-{:03}-{:03}", name / 256, name % 256));
    assert!(labels.into_inner().into_iter().eq(names));
}

#[test]
fn lock_step_continues_after_a_lost_reply() {
    for call_cost in [Nanos(0), Nanos(700)] {
        let mut k = 0;
        let result = run_lockstep(2, 2, 512, call_cost, |_, _, q, replies| {
            k += 1;
            if k != 7 {
                replies.after(MS(1), answer(q));
            }
        });
        if call_cost == Nanos(0) {
            assert_eq!(result.times, [MS(227), MS(128)]);
        }
        assert_eq!((result.tally.valid, result.tally.lost, result.tally.late), (511, 1, 0));
    }
}

#[test]
fn a_late_reply_does_not_free_a_lane() {
    let mut k = 0;
    let result = run_lockstep(1, 1, 256, Nanos(900), |_, _, q, replies| {
        k += 1;
        // The reply to the second query arrives when the third is outstanding.
        replies.after(if k == 2 { MS(103) } else { MS(10) }, answer(q));
    });
    assert_eq!((result.tally.valid, result.tally.lost, result.tally.late), (255, 1, 1));
    assert!(result.times[0] >= MS(255 * 10 + 100), "{:?}", result.times);
}

#[test]
fn an_experiment_that_runs_out_of_names_has_no_time() {
    let result = run_lockstep(4, 3, 600, Nanos(0), |_, _, q, replies| {
        replies.after(MS(1), answer(q));
    });
    assert_eq!(result.times, [MS(64), MS(64)]);
    assert_eq!((result.tally.sent, result.tally.valid, result.tally.exhausted), (600, 600, true));
}

#[test]
fn a_window_with_a_highest_rate_is_whole_at_once_and_stays_so() {
    // Of 10,000 queries a second, each a millisecond away, the first half of each second is dropped.
    let capped = Pacing::CappedWindow { outstanding: 4_096, rate: qps(10_000.0) };
    let p = Plan { adaptive_window: true, timeout: MS(1_000), ..plan(capped, MS(3_000), 2) };
    let (tally, times) = run(p, |now, _, q, replies| {
        if now.0 % 1_000_000_000 >= 500_000_000 {
            replies.after(MS(1), answer(q));
        }
    });
    assert_eq!((times.len(), tally.valid, tally.window_held_at), (30_000, 15_000, None));
    assert!((0..30_000).zip(times).all(|(k, at)| at.since(US(100 * k)) < MS(2)));
}

#[test]
fn a_window_whose_losses_have_another_cause_stays_whole() {
    // One query in a thousand is lost: 120 of 400 places wait for a timeout.
    let mut k = 0u64;
    let window = Pacing::Window { outstanding: 400 };
    let p = Plan { adaptive_window: true, ..plan(window, MS(1_000), 2) };
    let (tally, _) = run(p, |_, _, q, replies| {
        k += 1;
        if !k.is_multiple_of(1_000) {
            replies.after(US(233), answer(q));
        }
    });
    assert_eq!(tally.window_held_at, None);
    assert!(tally.sent > 1_000_000, "{}", tally.sent);
}
