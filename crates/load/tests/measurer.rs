//! The Measurer against scripted far sides on the simulated engine: exact to the nanosecond.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use dnsdyno_load as load;
use load::workload::namespace::{NamespaceExpect, NamespaceSpec, NamespaceWorkload};
use load::{Live, LockStep, Measurer, Plan, Tally};
use measure::{Goal, Nanos, Pacing, Qps, Rng};
use net::sim::{Replies, SimEngine};
use net::{SocketId, WaitMode, drive};
use proptest::prelude::*;
use wire::{Expect, Invalid, Namespace, Qtype, reply};

const MS: fn(u64) -> Nanos = Nanos::from_millis;

fn plan(pacing: Pacing, duration: Nanos, sockets: u16) -> Plan {
    Plan {
        pacing,
        duration,
        timeout: MS(100),
        max_burst: Nanos::from_micros(50),
        stop_at: None,
        sockets,
        seed: 1,
        worker: 0,
        workers: 1,
    }
}

fn constant(rate: f64) -> Pacing {
    Pacing::Constant { rate: Qps::new(rate).expect("a rate") }
}

fn workload(names: u64, sequential: bool) -> NamespaceWorkload {
    let spec = NamespaceSpec {
        namespace: Namespace::with_default_zone("10.0.0.0/8".parse().expect("a prefix")),
        qtype: Qtype::A,
        expect: NamespaceExpect::Address,
        first: 0,
        names,
        reuse: false,
        sequential,
        seed: 3,
        recursion_desired: true,
        edns: None,
    };
    NamespaceWorkload::new(spec, 0, 1).expect("inside")
}

/// A right answer to a namespace query for A.
fn answer(query: &[u8]) -> Vec<u8> {
    let label = &query[13..28];
    let address = Namespace::parse_label(label).expect("a namespace query");
    let mut out = query.to_vec();
    (out[2], out[3], out[7]) = (0x84, 0, 1);
    out.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
    out.extend(address.octets());
    out
}

fn run(
    plan: Plan,
    script: impl FnMut(Nanos, SocketId, &[u8], &mut Replies),
) -> (Tally, Vec<Nanos>) {
    let mut engine = SimEngine::new(script).recording();
    let mut role =
        Measurer::new(plan, Box::new(workload(1 << 24, false)), Arc::new(Live::default()));
    drive(&mut engine, &mut role, WaitMode::Sleep, &AtomicBool::new(false))
        .expect("no errors here");
    (role.into_tally(), engine.sent().iter().map(|(at, _, _)| *at).collect())
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
}

#[test]
fn at_high_rates_none_is_held_longer_than_the_burst() {
    let (tally, _) = run(plan(constant(1e6), MS(20), 4), |_, _, q, replies| {
        replies.after(Nanos::from_micros(300), answer(q))
    });
    assert_eq!((tally.sent, tally.valid), (20_000, 20_000));
    assert!(
        tally.schedule_error.max() <= Nanos::from_micros(50),
        "{:?}",
        tally.schedule_error.max()
    );
    // Latency counts from the due time: the hold is in it.
    assert!(tally.latency.max() >= Nanos::from_micros(343));
    assert!(tally.latency_from_send.max() <= Nanos::from_micros(301));
}

#[test]
fn one_in_ten_lost_is_one_in_ten_lost() {
    let mut k = 0;
    let (tally, _) = run(plan(constant(10_000.0), MS(500), 2), |_, _, q, replies| {
        k += 1;
        if k % 10 != 0 {
            replies.after(MS(1), answer(q));
        }
    });
    assert_eq!((tally.sent, tally.valid, tally.lost, tally.unresolved), (5_000, 4_500, 500, 0));
    assert_eq!(tally.latency.count(), 5_000, "timeouts stay in the distribution");
    assert_eq!(tally.latency_from_send.count(), 4_500);
    assert!(tally.latency.max() >= MS(99));
}

#[test]
fn late_duplicate_and_unexpected_replies_are_told_apart() {
    let mut k = 0u32;
    let (tally, _) = run(plan(constant(1_000.0), MS(400), 1), |_, _, q, replies| {
        match k % 4 {
            0 => replies.after(MS(100), answer(q)),
            1 => replies.after(Nanos(100_000_001), answer(q)),
            2 => {
                replies.after(MS(1), answer(q));
                replies.after(MS(2), answer(q));
            }
            _ => {
                let mut other = answer(q);
                other[0] ^= 0x80;
                replies.after(MS(1), answer(q));
                if k == 3 {
                    replies.after(MS(1), other);
                }
                replies.after(MS(1), [1].as_slice());
            }
        }
        k += 1;
    });
    assert_eq!(
        (tally.sent, tally.valid, tally.lost),
        (400, 300, 100),
        "a reply at the timeout is in time"
    );
    // The last late replies come when the trial is over already.
    assert!((95..=100).contains(&tally.late), "{}", tally.late);
    assert_eq!(tally.duplicates, 100);
    assert_eq!(tally.unexpected, 101);
}

#[test]
fn invalid_replies_name_their_reason() {
    type Spoil = fn(&mut Vec<u8>);
    let table: [(Spoil, Invalid); 6] = [
        (|m| *m.last_mut().expect("bytes") ^= 1, Invalid::WrongAddress),
        (|m| m[15] = b'9', Invalid::WrongQuestion),
        (|m| m[2] |= 2, Invalid::Truncated),
        (|m| m[2] &= 0x7f, Invalid::NotResponse),
        (|m| m.truncate(m.len() - 3), Invalid::Malformed),
        (|m| m[3] = 2, Invalid::Rcode(2)),
    ];
    for (spoil, reason) in table {
        let (tally, _) = run(plan(constant(1_000.0), MS(20), 1), |_, _, q, replies| {
            let mut message = answer(q);
            spoil(&mut message);
            replies.after(MS(1), message);
        });
        assert_eq!(tally.invalid[reason.index()], 20, "{reason:?}");
        assert_eq!((tally.answered, tally.valid, tally.lost, tally.bad()), (20, 0, 0, 20));
    }
}

#[test]
fn a_missed_goal_ends_the_trial_early() {
    let mut k = 0;
    let mut p = plan(constant(1_000.0), MS(10_000), 1);
    p.stop_at = Some(Goal::zero_loss());
    let (tally, _) = run(p, |_, _, q, replies| {
        k += 1;
        if k != 100 {
            replies.after(MS(1), answer(q));
        }
    });
    assert!(tally.stopped_early);
    // The hundredth left at 99 ms and was lost at 199 ms.
    assert!((199..=201).contains(&tally.sent), "{}", tally.sent);
    assert_eq!(tally.planned, 10_000);
}

#[test]
fn a_window_is_kept_full_and_no_fuller() {
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
fn a_silent_server_frees_the_window_by_timeouts() {
    let (tally, _) = run(plan(Pacing::Window { outstanding: 10 }, MS(1_000), 1), |_, _, _, _| ());
    assert!((90..=100).contains(&tally.sent), "{}", tally.sent);
    assert_eq!((tally.lost, tally.unresolved), (tally.sent, 0));
}

#[test]
fn more_in_flight_than_one_sockets_ids() {
    let mut p = plan(constant(1e6), MS(200), 4);
    p.timeout = MS(1_000);
    let (tally, _) = run(p, |_, _, q, replies| replies.after(MS(150), answer(q)));
    assert_eq!((tally.sent, tally.valid, tally.blocked), (200_000, 200_000, 0));
    // With one socket the ids run out: queries wait, and it shows as schedule error, never as loss.
    let mut p = plan(constant(1e6), MS(200), 1);
    p.timeout = MS(1_000);
    let (tally, _) = run(p, |_, _, q, replies| replies.after(MS(150), answer(q)));
    assert_eq!((tally.sent, tally.valid), (200_000, 200_000));
    assert!(tally.blocked > 0 && tally.schedule_error.max() > MS(10));
}

#[test]
fn lock_step_asks_one_name_a_lane_at_a_time() {
    for threads in [1u32, 4, 256] {
        let mut engine =
            SimEngine::new(|_, _, q, replies: &mut Replies| replies.after(MS(1), answer(q)));
        let role = LockStep::new(
            threads,
            5,
            MS(100),
            Box::new(workload(5 * 256, true)),
            Arc::new(Live::default()),
        );
        let mut role = role.expect("a power of two");
        drive(&mut engine, &mut role, WaitMode::Sleep, &AtomicBool::new(false))
            .expect("no errors here");
        let result = role.into_result();
        assert_eq!(result.times, vec![MS(u64::from(256 / threads)); 5]);
        assert_eq!((result.tally.sent, result.tally.valid), (1_280, 1_280));
    }
    assert!(
        LockStep::new(3, 1, MS(1), Box::new(workload(256, true)), Arc::new(Live::default()))
            .is_err()
    );
}

#[test]
fn lock_step_goes_on_after_a_lost_reply() {
    let mut k = 0;
    let mut engine = SimEngine::new(|_, _, q, replies: &mut Replies| {
        k += 1;
        if k != 7 {
            replies.after(MS(1), answer(q));
        }
    });
    let role =
        LockStep::new(2, 2, MS(100), Box::new(workload(512, true)), Arc::new(Live::default()));
    let mut role = role.expect("a power of two");
    drive(&mut engine, &mut role, WaitMode::Sleep, &AtomicBool::new(false))
        .expect("no errors here");
    let result = role.into_result();
    assert_eq!(result.times, [MS(227), MS(128)]);
    assert_eq!((result.tally.valid, result.tally.lost), (511, 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_query_ends_once(seed: u64, rate in 100.0f64..20_000.0, sockets in 1u16..5, window in prop::option::of(1u32..200)) {
        let mut rng = Rng::new(seed);
        let pacing = window.map_or(constant(rate), |outstanding| Pacing::Window { outstanding });
        let mut replied = 0;
        let (tally, _) = run(plan(pacing, MS(300), sockets), |_, _, q, replies| {
            let copies = rng.below(4);
            for _ in 0..copies {
                let mut message = answer(q);
                if rng.unit() < 0.2 {
                    let at = rng.below(message.len() as u64) as usize;
                    message[at] ^= 1 << rng.below(8);
                }
                replies.after(Nanos(rng.below(150_000_000)), message);
                replied += 1;
            }
        });
        prop_assert_eq!(tally.sent, tally.answered + tally.lost + tally.unresolved);
        prop_assert_eq!(tally.unresolved, 0);
        prop_assert_eq!(tally.answered, tally.valid + tally.invalid.iter().sum::<u64>());
        prop_assert_eq!(tally.answered, tally.rcodes.iter().sum::<u64>());
        prop_assert_eq!(tally.latency.count(), tally.sent);
        prop_assert!(tally.answered + tally.late + tally.duplicates + tally.unexpected <= replied);
        prop_assert_eq!(tally.schedule_error.count(), tally.sent);
        prop_assert_eq!(tally.series.iter().map(|s| s.sent).sum::<u64>(), tally.sent);
    }
}

#[test]
fn the_check_that_the_helper_here_answers_rightly() {
    let mut out = [0; 512];
    let composed = load::Workload::next(&mut workload(1, true), &mut out).expect("one name");
    let query = &out[..composed.len];
    let question = reply::question(query).expect("one question");
    assert_eq!(
        reply::check(&answer(query), question, &Expect::A("10.0.0.0".parse().expect("an address"))),
        Ok(0)
    );
}
