//! Replays on the simulated engine.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use engine::sim::{Replies, SimEngine};
use engine::{Destination, SocketId, WaitMode, drive};
use load::{Plan, Recorder, Recording, ReplayPlan, Replayer, Tally};
use measure::{Nanos, Rng};
use wire::{Qtype, QueryTemplate};

use crate::common::{MS, answer, assert_sums, constant, plan};

/// Composes a query for a namespace name with this id.
fn query(number: u16, qtype: Qtype) -> Vec<u8> {
    let name = "010-000-000-001.dns64perf.test".parse().expect("a name");
    let mut query = QueryTemplate::new(&name, qtype, true, false, None).bytes().to_vec();
    query[..2].copy_from_slice(&number.to_be_bytes());
    query
}

/// Records 2,000 queries of 30 clients with gaps of very different lengths; returns their due times too.
fn recording() -> (Recording, Vec<Nanos>) {
    let (mut rng, mut recorder) = (Rng::new(9), Recorder::new(MS(100)).expect("a place"));
    let (mut at, mut times) = (Nanos::from_secs(1_700_000_000), Vec::new());
    for number in 0..2_000u16 {
        at += Nanos(rng.below(1 << (number % 25)));
        times.push(at.since(Nanos::from_secs(1_700_000_000)));
        let qtype = if number % 3 == 0 { Qtype::MX } else { Qtype::A };
        assert!(recorder.add(at, u32::from(number % 30), &query(number, qtype)).expect("room"));
    }
    assert!(!recorder.add(at, 0, b"short").expect("room"));
    let recording = recorder.finish(None).expect("room").expect("queries");
    let first = times[0];
    (recording, times.into_iter().map(|at| at.since(first)).collect())
}

/// Makes the plan of a replay for `worker` of `workers`.
fn replay(recording: &Recording, speed: f64, worker: u32, workers: u32) -> ReplayPlan {
    let plan = Plan { worker, workers, ..plan(constant(1_000.0), recording.span, 4) };
    let sources: Vec<IpAddr> = (1..=20).map(|last| [10, 77, 0, last].into()).collect();
    let target = ([127, 0, 0, 1], 53).into();
    ReplayPlan { plan, speed, loops: 1, target, sources: sources.into() }
}

/// Runs a replay; returns its tally, and when and from where each query left.
fn run(
    plan: ReplayPlan,
    recording: &Recording,
    script: impl FnMut(Nanos, SocketId, &[u8], &mut Replies),
) -> (Tally, Vec<(Nanos, Destination, Vec<u8>)>) {
    let mut engine = SimEngine::new(script).recording();
    let mut role = Replayer::new(plan, recording.clone(), Arc::default());
    drive(&mut engine, &mut role, WaitMode::Sleep, &AtomicBool::new(false)).expect("no errors");
    (role.into_tally(), engine.sent().to_vec())
}

#[test]
fn each_query_leaves_at_its_time_from_its_client() {
    let (recording, times) = recording();
    let plan = replay(&recording, 1.0, 0, 1);
    let (tally, sent) = run(plan, &recording, |_, _, q, replies| replies.after(MS(3), answer(q)));
    assert_eq!((tally.planned, tally.sent, tally.answered), (2_000, 2_000, 2_000));
    assert_sums(&tally, 2_000);
    assert_eq!(tally.schedule_error.max(), Nanos::ZERO);
    for (number, ((at, to, bytes), time)) in (0u16..).zip(sent.iter().zip(times)) {
        assert_eq!(*at, time, "{number}");
        let qtype = if number % 3 == 0 { Qtype::MX } else { Qtype::A };
        assert_eq!(bytes[2..], query(number, qtype)[2..]);
        let client = (number % 30) as u8;
        let from = Some([10, 77, 0, 1 + client % 20].into());
        let socket = SocketId(u16::from(client % 4));
        assert_eq!(*to, Destination::Peer { socket, peer: ([127, 0, 0, 1], 53).into(), from });
    }
}

#[test]
fn three_workers_replay_at_twice_the_speed() {
    let (recording, times) = recording();
    let mut all = Vec::new();
    for worker in 0..3 {
        let plan = replay(&recording, 2.0, worker, 3);
        let (tally, sent) = run(plan, &recording, |_, _, _, _| ());
        assert_eq!((tally.planned, tally.lost), (sent.len() as u64, tally.sent));
        all.extend(sent.into_iter().map(|(at, _, _)| at));
    }
    all.sort_unstable();
    // Here each worker's clock starts at its first query.
    assert_eq!(all.len(), times.len());
    assert!(all.iter().zip(&times).all(|(at, time)| at.0 == time.0 / 2));
}

#[test]
fn a_loop_begins_after_the_period_of_the_recording() {
    let (recording, times) = recording();
    let plan = ReplayPlan { loops: 3, ..replay(&recording, 1.0, 0, 1) };
    let (tally, sent) = run(plan, &recording, |_, _, q, replies| replies.after(MS(3), answer(q)));
    assert_eq!((tally.planned, tally.sent, tally.answered), (6_000, 6_000, 6_000));
    assert_eq!(tally.schedule_error.max(), Nanos::ZERO);
    for (number, (at, ..)) in sent.iter().enumerate() {
        let round = Nanos(recording.period.0 * (number / 2_000) as u64);
        assert_eq!(*at, round + times[number % 2_000], "{number}");
    }
}

#[test]
fn a_notification_is_answered_by_one() {
    let (mut recorder, mut notify) =
        (Recorder::new(MS(100)).expect("a place"), query(1, Qtype::SOA));
    // Opcode NOTIFY.
    notify[2] |= 0x20;
    assert!(recorder.add(Nanos::from_secs(1), 0, &notify).expect("room"));
    let recording = recorder.finish(None).expect("room").expect("a query");
    let (tally, _) = run(replay(&recording, 1.0, 0, 1), &recording, |_, _, sent, replies| {
        let mut reply = sent.to_vec();
        reply[2] |= 0x80;
        replies.after(MS(1), reply);
    });
    assert_eq!((tally.answered, tally.valid), (1, 1));
}

#[test]
fn replies_from_other_addresses_are_unexpected() {
    let (recording, _) = recording();
    let (_, sent) = run(replay(&recording, 1.0, 0, 1), &recording, |_, _, _, _| ());
    let (_, to, bytes) = &sent[0];
    for (peer, counts) in [([127, 0, 0, 1], (1, 0)), ([127, 0, 0, 2], (0, 1))] {
        let mut engine = SimEngine::new(|_, _, _, _: &mut Replies| ());
        engine.inject(MS(1), to.socket(), (peer, 53).into(), answer(bytes));
        let mut role =
            Replayer::new(replay(&recording, 1.0, 0, 1), recording.clone(), Arc::default());
        drive(&mut engine, &mut role, WaitMode::Sleep, &AtomicBool::new(false)).expect("no errors");
        let tally = role.into_tally();
        assert_eq!((tally.answered, tally.unexpected), counts);
    }
}
