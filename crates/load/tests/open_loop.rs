//! The Measurer's open loops on the simulated engine: exact to the nanosecond.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use engine::sim::{Replies, SimEngine};
use engine::{Destination, SocketId, WaitMode, drive};
use load::{Measurer, Plan, Tally};
use measure::{Nanos, Pacing, Void};

use crate::common::{MS, US, answer, constant, late, plan, qps, run, run_on, workload};

/// Answers each query after a millisecond.
fn after_1_ms(_: Nanos, _: SocketId, query: &[u8], replies: &mut Replies) {
    replies.after(MS(1), answer(query));
}

#[test]
fn at_low_rates_each_query_leaves_when_it_is_due() {
    let (tally, times) =
        run(plan(constant(1_000.0), MS(50), 3), |_, _, q, replies| replies.after(MS(2), answer(q)));
    assert_eq!(times, (0..50).map(MS).collect::<Vec<_>>());
    assert_eq!((tally.sent, tally.valid, tally.lost, tally.planned), (50, 50, 0, 50));
    assert_eq!(tally.schedule_error.max(), Nanos(0));
    assert!((1_998_000..=2_002_000).contains(&tally.latency.quantile(0.5).0));
    assert_eq!(tally.latency, tally.latency_from_send);
    assert_eq!(late(&tally), None);
}

#[test]
fn no_query_of_a_segmented_message_is_held_longer_than_max_burst() {
    let p = Plan { segmented: true, ..plan(constant(1e6), MS(20), 4) };
    let (tally, _) = run(p, |_, _, q, replies| {
        replies.after(US(300), answer(q));
    });
    assert_eq!((tally.sent, tally.valid), (20_000, 20_000));
    assert!(tally.schedule_error.max() <= US(50), "{:?}", tally.schedule_error.max());
    // Latency counts from the due time and includes the hold.
    assert!(tally.latency.max() >= US(343));
    assert!(tally.latency_from_send.max() <= US(301));
}

#[test]
fn queries_are_even_over_ten_milliseconds_at_100_k_per_second() {
    let mut engine = SimEngine::new(after_1_ms).recording().call_cost(US(3));
    let tally =
        run_on(&mut engine, plan(constant(100_000.0), MS(1_000), 7), 1 << 24, &Arc::default());
    assert_eq!((tally.sent, tally.valid), (100_000, 100_000));
    let mut counts = [0i32; 101];
    engine.sent().iter().for_each(|(at, _, _)| counts[(at.0 / 10_000_000) as usize] += 1);
    assert!(counts[..100].iter().all(|count| (count - 1_000).abs() <= 10), "{counts:?}");
    assert!(tally.schedule_error.max() <= US(55), "{:?}", tally.schedule_error.max());
}

#[test]
fn each_segmented_burst_goes_to_the_next_socket() {
    let mut engine = SimEngine::new(after_1_ms).recording();
    let p = Plan { segmented: true, ..plan(constant(1e6), MS(10), 3) };
    run_on(&mut engine, p, 1 << 24, &Arc::default());
    let mut bursts: Vec<(Nanos, u16, u32)> = Vec::new();
    for (at, to, _) in engine.sent() {
        let Destination::Connected(SocketId(socket)) = *to else { panic!("{to:?}") };
        match bursts.last_mut() {
            Some((last, same, count)) if last == at && *same == socket => *count += 1,
            _ => bursts.push((*at, socket, 1)),
        }
    }
    let full = bursts.iter().filter(|(_, _, count)| (40..=50).contains(count)).count();
    assert!(full * 10 >= bursts.len() * 9, "{bursts:?}");
    assert!(bursts.windows(2).all(|pair| pair[1].1 == (pair[0].1 + 1) % 3), "{bursts:?}");
}

#[test]
fn a_slow_engine_sends_all_with_a_schedule_error() {
    // Each call takes 2 ms, and 100 queries become due meanwhile.
    let mut engine = SimEngine::new(after_1_ms).call_cost(MS(2));
    let tally = run_on(&mut engine, plan(constant(50_000.0), MS(200), 2), 1 << 24, &Arc::default());
    assert_eq!((tally.sent, tally.planned, tally.lost), (10_000, 10_000, 0));
    assert!(tally.schedule_error.max() >= MS(3), "{:?}", tally.schedule_error.max());
    assert!(tally.latency.quantile(0.9) > tally.latency_from_send.quantile(0.9));
    let void = late(&tally);
    assert!(matches!(void, Some(Void::ScheduleNotKept { sent: 1.0, .. })), "{void:?}");
}

#[test]
fn a_loop_that_is_far_behind_ends_and_counts_nothing_unsent_as_lost() {
    // A slow engine, whose calls take the time in which 500 queries become due.
    for (duration, ends) in [(MS(1_000), MS(2_100)), (MS(5_000), MS(6_500))] {
        let mut engine = SimEngine::new(after_1_ms).call_cost(MS(50));
        let plan = Plan { timeout: MS(1_000), ..plan(constant(10_000.0), duration, 2) };
        let tally = run_on(&mut engine, plan, 1 << 24, &Arc::default());
        let last = tally.last_sent.since(tally.started);
        assert!(last < ends && ends < last + MS(200), "{last}");
        assert!(tally.cut_off && !tally.stopped_early && tally.sent < tally.planned / 2);
        assert_eq!((tally.planned, tally.lost), (duration.0 / 100_000, 0));
        let (valid, latencies) = (tally.valid, tally.latency.count());
        assert_eq!((valid, latencies), (tally.sent, tally.sent));
        let void = late(&tally);
        assert!(matches!(void, Some(Void::ScheduleNotKept { sent, .. }) if sent < 0.5), "{void:?}");
    }
}

#[test]
fn a_ramp_is_counted_second_by_second() {
    let ramp = Pacing::Ramp { from: qps(0.0), to: qps(4_000.0) };
    // The server answers at most 2,000 queries in a second.
    let (mut second, mut answered) = (0, 0);
    let (tally, times) = run(plan(ramp, MS(4_000), 2), |now, _, q, replies| {
        if now.0 / 1_000_000_000 != second {
            (second, answered) = (now.0 / 1_000_000_000, 0);
        }
        if answered < 2_000 {
            answered += 1;
            replies.after(MS(1), answer(q));
        }
    });
    assert_eq!((tally.sent, tally.planned), (8_000, 8_000));
    let seconds: Vec<(u64, u64)> = tally.series.iter().map(|s| (s.sent, s.answered)).collect();
    let expected = [(500, 500), (1_500, 1_500), (2_500, 2_000), (3_500, 2_000)];
    for ((sent, answered), (e_sent, e_answered)) in seconds.iter().zip(expected) {
        assert!(sent.abs_diff(e_sent) <= 1 && answered.abs_diff(e_answered) <= 1, "{seconds:?}");
    }
    assert!(times.is_sorted() && tally.schedule_error.max() == Nanos(0));
}

#[test]
fn steps_count_what_happened_in_them() {
    let ramp = Pacing::RampHold { from: qps(0.0), to: qps(1_000.0), hold: MS(1_000) };
    let p = Plan { step: Some(MS(500)), ..plan(ramp, MS(3_000), 2) };
    let (tally, times) = run(p, |now, _, q, replies| {
        let mut reply = answer(q);
        // Nothing is answered in the first step, and only SERVFAIL in the last.
        if now >= MS(2_500) {
            (reply[3], reply[7]) = (2, 0);
            reply.truncate(q.len());
        }
        if now >= MS(500) {
            replies.after(MS(3), reply);
        }
    });
    let steps = tally.steps.as_ref().expect("steps");
    let sent: Vec<u64> = steps.counts.iter().map(|step| step.sent).collect();
    assert!(
        sent.iter().zip([62, 188, 312, 438, 500, 500]).all(|(a, b)| a.abs_diff(b) <= 1),
        "{sent:?}"
    );
    assert_eq!(sent.iter().sum::<u64>(), times.len() as u64);
    let [first, second, .., last] = steps.counts[..] else { panic!("six steps") };
    assert_eq!((first.answered, second.answered_of_sent, second.failed), (0, second.sent, 0));
    assert!(second.answered < second.sent, "the replies to the last ones come in the next step");
    // Replies to the queries of the step before come in this one, and those to its last ones after the end.
    let near = |found: u64, wanted: u64| found.abs_diff(wanted) <= 1;
    assert!(near(last.answered, 500) && near(last.failed, 497), "{last:?}");
    assert_eq!((last.answered_of_sent, last.latency_ns), (last.sent, last.answered * MS(3).0));
    let octets = (tally.query_bytes / tally.sent, tally.reply_bytes > tally.answered * 12);
    assert!(octets.0 > 40 && octets.1, "{octets:?}");
}

#[test]
fn the_best_step_of_a_ramp_is_what_the_server_answers() {
    // The ramps of `resperf -m 60000` and `-m 100000`: a server of 20,000 a second drops the others, so that 65,536 are
    // outstanding at last.
    for (top, queue) in [(60_000.0, 1u64), (100_000.0, 1), (60_000.0, 10_000)] {
        let ramp = Pacing::RampHold { from: qps(0.0), to: qps(top), hold: Nanos(0) };
        let p = Plan {
            step: Some(MS(500)),
            timeout: Nanos::from_secs(45),
            most_outstanding: Some(1 << 16),
            ..plan(ramp, MS(8_000), 1)
        };
        let mut free_at = Nanos(0);
        let (tally, _) = run(p, |now, _, q, replies| {
            let starts = free_at.max(now);
            if starts.since(now) < US(50 * queue) {
                free_at = starts + US(50);
                replies.after(free_at.since(now), answer(q));
            }
        });
        let steps = tally.steps.as_ref().expect("steps");
        let best = steps.counts.iter().map(|step| step.answered).max().expect("steps");
        assert!((9_990..=10_000).contains(&best), "{top} {queue}: {best} in half a second");
        assert_eq!((tally.stopped_early, tally.blocked), (true, 0), "{top} {queue}");
        // Those that the server still had then are answered.
        let lost = tally.sent - tally.answered;
        assert!(((1 << 16) - queue - 4..=1 << 16).contains(&lost), "{top} {queue}: {lost}");
    }
}

#[test]
fn an_open_loop_ends_with_too_many_outstanding() {
    let p = Plan { most_outstanding: Some(50), ..plan(constant(1_000.0), MS(500), 2) };
    let (tally, times) = run(p, |_, _, _, _| ());
    assert_eq!((tally.sent, tally.lost, tally.stopped_early), (50, 50, true));
    assert!(times[49] < MS(50));
    assert_eq!(late(&tally), None);
}

/// Returns the due times of the whole schedule.
fn due_times(pacing: Pacing, duration: Nanos) -> Vec<Nanos> {
    let mut schedule = pacing.schedule(duration, 1).expect("an open loop");
    let next = || {
        let due = schedule.peek();
        schedule.advance();
        due
    };
    std::iter::from_fn(next).collect()
}

#[test]
fn poisson_arrivals_leave_when_they_are_due() {
    let poisson = Pacing::Poisson { rate: qps(2_000.0) };
    let due = due_times(poisson, MS(500));
    let (tally, times) = run(plan(poisson, MS(500), 2), after_1_ms);
    assert_eq!(tally.sent, due.len() as u64);
    // Queries that are due close together are held for a short time, never longer than `max_burst`.
    assert!(times.iter().zip(&due).all(|(at, due)| *at >= *due && *at <= *due + US(50)));
}

#[test]
fn a_poisson_load_is_complete_whatever_number_was_drawn() {
    // 500 are expected, with a deviation of 22.
    let mut numbers = Vec::new();
    for seed in 0..40 {
        let poisson = Pacing::Poisson { rate: qps(333.3) };
        let of_worker = |worker| {
            let p = Plan { seed, worker, workers: 2, ..plan(poisson, MS(1_500), 1) };
            run(p, after_1_ms).0
        };
        let mut tally = of_worker(0);
        tally.merge(&of_worker(1));
        assert_eq!((tally.planned, tally.valid), (tally.sent, tally.sent), "seed {seed}");
        assert_eq!(late(&tally), None, "seed {seed}");
        numbers.push(tally.sent);
    }
    assert!(numbers.iter().any(|n| *n < 480) && numbers.iter().any(|n| *n > 520), "{numbers:?}");
}

#[test]
fn workers_interleave_to_the_whole_schedule() {
    let start = MS(7);
    let mut all: Vec<Nanos> = Vec::new();
    let mut merged: Option<Tally> = None;
    for worker in 0..3 {
        let mut engine = SimEngine::new(after_1_ms).recording();
        let plan = Plan { worker, workers: 3, ..plan(constant(3_000.0), MS(100), 1) };
        let mut role = Measurer::new(plan, Box::new(workload(1 << 24, false)), Arc::default())
            .starting_at(start);
        drive(&mut engine, &mut role, WaitMode::Sleep, &AtomicBool::new(false))
            .expect("no errors here");
        all.extend(engine.sent().iter().map(|(at, _, _)| *at));
        let tally = role.into_tally();
        assert_eq!((tally.sent, tally.planned, tally.started), (100, 100, start));
        match &mut merged {
            Some(merged) => merged.merge(&tally),
            None => merged = Some(tally),
        }
    }
    all.sort();
    let due = due_times(constant(3_000.0), MS(100));
    assert!(all.iter().copied().eq(due.iter().map(|due| start + *due)));
    let merged = merged.expect("three workers");
    assert_eq!((merged.sent, merged.valid, merged.planned), (300, 300, 300));
    assert_eq!((merged.started, merged.last_sent), (start, start + due[299]));
    assert_eq!((merged.latency.count(), merged.series[0].valid), (300, 300));
}

#[test]
fn more_outstanding_queries_than_ids_of_one_socket() {
    let p = |sockets| Plan { timeout: MS(1_000), ..plan(constant(1e6), MS(100), sockets) };
    let (tally, _) = run(p(2), |_, _, q, replies| replies.after(MS(80), answer(q)));
    assert_eq!((tally.sent, tally.valid, tally.blocked), (100_000, 100_000, 0));
    // With one socket the ids run out: queries wait, which counts as schedule error, never as loss.
    let (tally, _) = run(p(1), |_, _, q, replies| replies.after(MS(80), answer(q)));
    assert_eq!((tally.sent, tally.valid), (100_000, 100_000));
    assert!(tally.blocked > 0 && tally.schedule_error.max() > MS(10));
    assert!(late(&tally).is_some());
}

#[test]
fn names_that_run_out_end_the_trial() {
    let mut engine = SimEngine::new(after_1_ms);
    let tally = run_on(&mut engine, plan(constant(1_000.0), MS(100), 1), 60, &Arc::default());
    assert_eq!((tally.sent, tally.valid, tally.exhausted), (60, 60, true));
    let void = late(&tally).expect("40 are missing").to_string();
    assert!(void.contains("60.00 % of the planned"), "{void}");
}

#[test]
fn a_trial_without_a_query_is_void() {
    let (tally, _) = run(plan(constant(1.0), MS(1), 1), after_1_ms);
    assert_eq!(tally.sent, 1, "the first is due at once");
    let (tally, _) = run(plan(Pacing::Window { outstanding: 1 }, Nanos(0), 1), after_1_ms);
    assert_eq!(late(&tally), Some(Void::NothingSent));
}
