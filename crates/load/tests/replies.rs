//! How replies are counted: in time, late, duplicate, invalid, from unknown sockets, for the last user of an
//! id.

use std::sync::Arc;

use engine::sim::{Replies, SimEngine};
use engine::{SocketId, WaitMode};
use load::{Plan, Workload};
use measure::{Nanos, Pacing, Rng};
use proptest::prelude::*;
use wire::{Expect, Invalid, reply};

use crate::common::{
    MS, US, answer, assert_sums, constant, plan, qps, run, run_lockstep, run_on, workload,
};

#[test]
fn lost_queries_are_counted_exactly() {
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
fn late_duplicate_and_unexpected_replies_are_distinguished() {
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
    // The last late replies arrive after the end of the trial.
    assert!((95..=100).contains(&tally.late), "{}", tally.late);
    assert_eq!(tally.duplicates, 100);
    assert_eq!(tally.unexpected, 101);
}

#[test]
fn invalid_replies_are_counted_by_reason() {
    type Spoil = fn(&mut Vec<u8>);
    let table: [(Spoil, Invalid); 8] = [
        (|m| *m.last_mut().expect("bytes") ^= 1, Invalid::WrongAddress),
        (|m| m[15] = b'9', Invalid::WrongQuestion),
        (|m| m[2] |= 2, Invalid::Truncated),
        (|m| m[2] &= 0x7f, Invalid::NotResponse),
        (|m| m.truncate(m.len() - 3), Invalid::Malformed),
        (|m| m.truncate(2), Invalid::Malformed),
        (|m| m[3] = 2, Invalid::Rcode(2)),
        (
            |m| {
                m[7] = 0;
                m.truncate(m.len() - 16);
            },
            Invalid::NoAnswer,
        ),
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
fn replies_to_an_unknown_socket_are_unexpected() {
    let mut engine = SimEngine::new(|_, _, q: &[u8], replies: &mut Replies| {
        replies.after(MS(1), answer(q));
    });
    let peer = std::net::SocketAddr::from(([127, 0, 0, 1], 53));
    engine.inject(MS(5), SocketId(9), peer, [0; 40]);
    let tally = run_on(&mut engine, plan(constant(1_000.0), MS(20), 1), 100, &Arc::default());
    assert_eq!((tally.unexpected, tally.valid), (1, 20));
}

#[test]
fn a_reply_to_the_previous_query_with_an_id_is_late() {
    // An id is used again after 65.5 ms. One in a thousand queries is answered after 70 ms, when its id has
    // a new query that is still outstanding; the others are answered after 8 ms; the timeout is 10 ms.
    let p = Plan { timeout: MS(10), ..plan(constant(1e6), MS(200), 1) };
    let (mut k, mut replied) = (0u64, 0);
    let (tally, _) = run(p, |_, _, q, replies| {
        let slow = k.is_multiple_of(1_000);
        replies.after(if slow { MS(70) } else { MS(8) }, answer(q));
        k += 1;
        replied += 1;
    });
    assert_eq!((tally.sent, tally.valid, tally.lost), (200_000, 199_800, 200));
    assert_eq!(tally.invalid.iter().sum::<u64>(), 0);
    assert!((130..=140).contains(&tally.late), "{}", tally.late);
    assert_eq!((tally.duplicates, tally.unexpected), (0, 0));
    assert_sums(&tally, replied);
}

#[test]
fn with_the_sockets_needed_late_replies_find_their_own_query() {
    let (rate, timeout) = (1e6, MS(20));
    let sockets = load::sockets_needed(rate, timeout) as u16;
    let p = Plan { timeout, ..plan(constant(rate), MS(160), sockets) };
    let (mut k, mut replied) = (0u64, 0);
    let (tally, _) = run(p, |_, _, q, replies| {
        // These replies are late by up to three timeouts.
        let slow = k.is_multiple_of(500);
        replies.after(if slow { US(20_001 + k % 60_000) } else { MS(1) }, answer(q));
        k += 1;
        replied += 1;
    });
    assert_eq!((tally.sent, tally.valid, tally.lost), (160_000, 159_680, 320));
    assert!(tally.late >= 200, "{}", tally.late);
    assert_sums(&tally, replied);
}

#[test]
fn replies_that_wait_in_the_socket_are_in_time() {
    // All replies arrive at the timeout, more than a batch holds.
    let window = Pacing::Window { outstanding: 300 };
    let (tally, _) =
        run(plan(window, MS(250), 2), |_, _, q, replies| replies.after(MS(100), answer(q)));
    assert_eq!((tally.sent, tally.valid, tally.late), (900, 900, 0));
}

#[test]
fn after_a_stop_outstanding_queries_are_unresolved() {
    let stop = std::sync::atomic::AtomicBool::new(false);
    let mut k = 0;
    let mut engine = SimEngine::new(|_, _, q: &[u8], replies: &mut Replies| {
        k += 1;
        replies.after(MS(50), answer(q));
        stop.store(k == 80, std::sync::atomic::Ordering::Relaxed);
    });
    let mut role = load::Measurer::new(
        plan(constant(1_000.0), MS(1_000), 1),
        Box::new(workload(1_000, false)),
        Arc::default(),
    );
    engine::drive(&mut engine, &mut role, WaitMode::Sleep, &stop).expect("no errors here");
    let tally = role.into_tally();
    assert_eq!((tally.sent, tally.unresolved), (80, 50));
    assert_sums(&tally, 80);
}

/// A server that answers never, once or several times, early or late, flips some bits, and counts its
/// replies.
fn chaos(seed: u64, replied: &mut u64) -> impl FnMut(Nanos, SocketId, &[u8], &mut Replies) + '_ {
    let mut rng = Rng::new(seed);
    move |_, _, query, replies| {
        let copies = rng.below(4);
        for _ in 0..copies {
            let mut message = answer(query);
            if rng.unit() < 0.2 {
                let at = rng.below(message.len() as u64) as usize;
                message[at] ^= 1 << rng.below(8);
            }
            if rng.unit() < 0.05 {
                message.truncate(rng.below(20) as usize);
            }
            replies.after(Nanos(rng.below(150_000_000)), message);
            *replied += 1;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_query_has_one_outcome(
        seed: u64,
        rate in 100.0f64..20_000.0,
        sockets in 1u16..5,
        kind in 0u8..4,
        window in 1u32..200,
        call_cost in prop_oneof![Just(0u64), 1u64..200_000],
    ) {
        let pacing = match kind {
            0 => constant(rate),
            1 => Pacing::Poisson { rate: qps(rate) },
            2 => Pacing::Ramp { from: qps(rate), to: qps(rate / 2.0) },
            _ => Pacing::Window { outstanding: window },
        };
        let mut replied = 0;
        let mut engine = SimEngine::new(chaos(seed, &mut replied)).call_cost(Nanos(call_cost));
        let tally = run_on(&mut engine, plan(pacing, MS(300), sockets), 1 << 24, &Arc::default());
        drop(engine);
        prop_assert_eq!(tally.unresolved, 0);
        if kind != 3 {
            prop_assert!(kind == 1 || tally.sent == tally.planned);
        }
        assert_sums(&tally, replied);
    }

    #[test]
    fn every_lock_step_query_has_one_outcome(seed: u64, lanes in 0u32..9, call_cost in prop_oneof![Just(0u64), 1u64..200_000]) {
        let mut replied = 0;
        let result = run_lockstep(1 << lanes, 2, 512, Nanos(call_cost), chaos(seed, &mut replied));
        prop_assert_eq!((result.times.len(), result.tally.sent, result.tally.unresolved), (2, 512, 0));
        assert_sums(&result.tally, replied);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4))]

    #[test]
    fn every_query_has_one_outcome_when_ids_are_used_again(seed: u64, loss in 0.0f64..0.4, late in 0.0f64..0.1) {
        let mut rng = Rng::new(seed);
        let mut replied = 0;
        let mut engine = SimEngine::new(|_, _, query: &[u8], replies: &mut Replies| {
            let x = rng.unit();
            if x < loss {
                return;
            }
            let after = if x < loss + late { 5_000_001 + rng.below(20_000_000) } else { rng.below(2_000_000) };
            replies.after(Nanos(after), answer(query));
            replied += 1;
        });
        let window = Pacing::Window { outstanding: 8_000 };
        let p = Plan { timeout: MS(5), ..plan(window, MS(25), 1) };
        let tally = run_on(&mut engine, p, 1 << 24, &Arc::default());
        drop(engine);
        prop_assert!(tally.sent > 65_536 && tally.unresolved == 0, "{}", tally.sent);
        assert_sums(&tally, replied);
    }
}

#[test]
fn the_answer_of_these_tests_is_valid() {
    let mut out = [0; 512];
    let composed = workload(1, true).next(&mut out).expect("one name");
    let query = &out[..composed.len];
    let question = reply::question(query).expect("one question");
    let expect = Expect::A("10.0.0.0".parse().expect("an address"));
    assert_eq!(reply::check(&answer(query), question, &expect), Ok(0));
}
