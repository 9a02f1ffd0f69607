use measure::limiter::Void;
use measure::stall::{LossSpan, Side, Stall};
use measure::{Histogram, Limiter, Nanos, Outstanding, Rng, Warning};

use super::*;
use crate::series::Second;
use crate::trial::{AgreedStart, Conditions, Cpu, Octets, Trial, Voidness};
use crate::{Connections, SCHEMA, Times};

/// Histograms of one part: latency, latency from sending, schedule error.
#[derive(Clone, Default)]
struct Recorded([Histogram; 3]);

impl Recorded {
    /// Records `count` queries of `part`, all answered.
    fn of(part: u64, count: u64) -> Self {
        let (mut recorded, mut rng) = (Recorded::default(), Rng::part(7, part));
        for _ in 0..count {
            let time = |most: u64, rng: &mut Rng| Nanos(rng.next_u64() % most + 1);
            let late = time(90_000, &mut rng);
            let reply = Nanos(time(3_000_000, &mut rng).0 * time(20, &mut rng).0);
            recorded.0[0].record(late + reply);
            recorded.0[1].record(reply);
            recorded.0[2].record(late);
        }
        recorded
    }

    /// Makes the trial of a slice with these times.
    fn trial(&self, slice: &str) -> Trial {
        let count = self.0[2].count();
        Trial {
            schema: SCHEMA,
            planned: count,
            sent: count,
            answered: count,
            valid: count,
            octets: Octets { queries: 40 * count, replies: 100 * count },
            offered_qps: count as f64,
            answered_qps: count as f64,
            duration_s: 1.0,
            latency_us: Times::from(&self.0[0]),
            latency_from_send_us: Times::from(&self.0[1]),
            schedule_error_us: Times::from(&self.0[2]),
            rcodes: [("NOERROR".to_owned(), count)].into(),
            limiter: Limiter::Offered,
            outstanding: Some(Outstanding { middle: 1.0, end: 1.0, allowed: 20.0 }),
            cpu: [("tester".to_owned(), Cpu { user_s: 0.5, busy: 0.5, ..Cpu::default() })].into(),
            series: vec![Second { sent: count, valid: count, ..Second::default() }],
            conditions: Conditions {
                pacing: "constant 3000 qps".to_owned().into(),
                slice: slice.parse().expect(slice),
                sockets: 8,
                workers: 1,
                agreed_start: Some(AgreedStart {
                    at: "@1795408200".parse().expect("an instant"),
                    error_us: 1.5,
                    clock_error_us: Some(100.0),
                }),
                ..Conditions::default()
            },
            ..Trial::default()
        }
    }
}

/// The part of a slice with `count` queries.
fn part(slice: &str, count: u64) -> Part {
    let number = slice.bytes().next().expect("a digit").into();
    let trial = Recorded::of(number, count).trial(slice);
    Part { name: format!("{slice}.json"), trial, clock: None }
}

fn merged(parts: Vec<Part>, goal: Option<&str>) -> Trial {
    let goal = goal.map(|goal| goal.parse().expect(goal));
    let terms = MergeTerms { goal, ..MergeTerms::default() };
    merge(parts, &terms, "1", "merge").expect("one load").with_verdict()
}

#[test]
fn a_part_that_fell_behind_does_not_lower_the_rate_of_the_others() {
    let (mut behind, mut in_time) = (part("1/2", 1_000), part("2/2", 1_000));
    behind.trial.outstanding = Some(Outstanding { middle: 200.0, end: 500.0, allowed: 20.0 });
    behind.trial.valid_while_sending = Some(500);
    in_time.trial.valid_while_sending = Some(1_000);
    behind.trial.set_rates(0.0);
    let found = merged(vec![behind, in_time], None);
    assert_eq!([found.answered_qps, found.valid_qps()].map(f64::round), [1_500.0; 2]);
}

#[test]
fn a_lost_part_is_named_and_the_others_are_counted() {
    let (slice, name, why) =
        ("2/3".parse().expect("a slice"), "b".to_owned(), "it died".to_owned());
    let terms = MergeTerms { lost: vec![LostPart { name, slice, why }], ..MergeTerms::default() };
    let found = merge(vec![part("1/3", 100), part("3/3", 100)], &terms, "1", "merge");
    let found = found.expect("one load").with_verdict();
    assert_eq!((found.sent, found.limiter), (200, Limiter::Unknown));
    let void = found.void.0.expect("void").to_string();
    assert_eq!(void, "part 2/3 (b): the Tester was lost: it died");
    let parts = found.merged.expect("parts").parts;
    let told: Vec<_> = parts.iter().map(|p| (p.slice.number(), p.sent, p.void.is_void())).collect();
    assert_eq!(told, [(1, 100, false), (2, 0, true), (3, 100, false)]);
    assert_eq!(found.warnings, [], "the clocks of the others were looked at");
    // Without any part there is no trial.
    assert_eq!(merge(Vec::new(), &terms, "1", "merge").map(|_| ()), Err(MergeError::NoParts));
}

#[test]
fn the_latest_part_is_the_one_that_is_named() {
    let mut parts = vec![part("1/3", 100), part("2/3", 100), part("3/3", 100)];
    for (part, late) in parts.iter_mut().zip([0.02, 0.33, 0.01]) {
        let tolerance = Nanos::from_millis(1);
        part.trial.void = Voidness(Some(Void::ScheduleNotKept { late, sent: 1.0, tolerance }));
    }
    let void = merged(parts, None).void.0.expect("void");
    assert!(void.to_string().starts_with("part 2/3 (2/3.json): "), "{void}");
}

#[test]
fn sixty_four_parts_are_the_whole_bit_for_bit() {
    let all: Vec<Recorded> = (0..64).map(|part| Recorded::of(part, 1_000)).collect();
    let mut whole = Recorded::default();
    for recorded in &all {
        whole.0.iter_mut().zip(&recorded.0).for_each(|(sum, one)| sum.merge(one));
    }
    // The parts are files, in any order.
    let file = |(number, recorded): (usize, &Recorded)| {
        let trial = recorded.trial(&format!("{}/64", number + 1));
        let json = serde_json::to_vec(&trial).expect("serialises");
        let trial = serde_json::from_slice(&json).expect("reads");
        Part { name: number.to_string(), trial, clock: None }
    };
    let mut parts: Vec<Part> = all.iter().enumerate().map(file).collect();
    parts.reverse();
    let found = merged(parts, None);
    let wanted = whole.trial("1/1");
    assert_eq!(found.latency_us, wanted.latency_us);
    assert_eq!(found.latency_from_send_us, wanted.latency_from_send_us);
    assert_eq!(found.schedule_error_us, wanted.schedule_error_us);
    assert_eq!(found.latency_us.histogram(), Ok(whole.0[0].clone()));
    let counts = |t: &Trial| (t.sent, t.valid, t.octets, t.rcodes.clone(), t.series.clone());
    assert_eq!(counts(&found), counts(&wanted));
    assert_eq!((found.limiter, &found.void), (Limiter::Offered, &Voidness(None)));
    let parts = found.merged.expect("its parts").parts;
    assert!(parts.iter().map(|part| part.slice.number()).eq(1..=64), "{parts:?}");
    assert_eq!((found.conditions.workers, found.conditions.sockets), (64, 512));
}

#[test]
fn parts_that_do_not_belong_together_are_refused() {
    let pair = || vec![part("1/2", 100), part("2/2", 100)];
    let changed = |change: fn(&mut Trial)| {
        let mut parts = pair();
        change(&mut parts[1].trial);
        parts
    };
    let drawn = |a, b| {
        let mut parts = vec![part("1/2", a), part("2/2", b)];
        parts
            .iter_mut()
            .for_each(|p| p.trial.conditions.pacing = "poisson 4500 qps".to_owned().into());
        parts
    };
    assert_eq!(merged(drawn(4_493, 4_607), None).sent, 9_100, "Poisson draws its numbers");
    let table = [
        (Vec::new(), "there are no parts"),
        (vec![part("1/2", 9)], "has 2 slices, and one is not given: 2/2"),
        (vec![part("2/3", 9)], "has 3 slices, and some are not given: 1/3, 3/3"),
        (vec![part("1/2", 9), part("1/2", 9)], "1/2.json and 1/2.json are both slice 1/2"),
        (vec![part("1/2", 9), part("2/3", 9)], "number of slices `2` and `3`"),
        (vec![part("1/1", 9), part("1/1", 9)], "1/1.json is a whole load"),
        (vec![part("1/2", 9), part("2/2", 99)], "planned queries `9` and `99`"),
        (drawn(4_000, 4_600), "planned queries `4000` and `4600`"),
        (changed(|t| t.conditions.target = "[::1]:53".into()), "target `` and `[::1]:53`"),
        (changed(|t| t.conditions.seed = 2), "seed `0` and `2`"),
        (changed(|t| t.conditions.workload = "x".into()), "workload `` and `x`"),
        (changed(|t| t.conditions.version = "9".into()), "version `` and `9`"),
        (changed(|t| t.duration_s = 2.0), "duration in seconds `1` and `2`"),
        (
            changed(|t| t.conditions.agreed_start = None),
            "start `2026-11-23T04:30:00Z` and `without --start-at`",
        ),
        (changed(|t| t.compact().expect("histograms")), "2/2.json: its histograms were reduced"),
        (changed(|t| t.latency_us.hdr = "AAAA".into()), "2/2.json: latency_us: not an HDR"),
        (
            changed(|t| t.merged = merged(vec![part("1/1", 9)], None).merged),
            "2/2.json was merged already",
        ),
    ];
    for (parts, wanted) in table {
        let found = merge(parts, &MergeTerms::default(), "1", "merge").map(|_| ());
        let found = found.expect_err(wanted).to_string();
        assert!(found.contains(wanted), "{wanted}: {found}");
    }
    assert_eq!(merged(vec![part("1/1", 9)], None).sent, 9, "one part may be the whole");
}

#[test]
fn the_rules_for_void_trials_are_over_all_parts() {
    /// Queries of each part that leave 5 ms late.
    fn delay(trial: &mut Trial, count: u64) {
        let mut errors = trial.schedule_error_us.histogram().expect("a histogram");
        errors.record_many(Nanos::from_millis(5), count);
        trial.planned += count;
        trial.sent += count;
        trial.schedule_error_us = Times::from(&errors);
    }
    /// What happens, and to what; whether it is the reason, and the limiter of the whole.
    type Row = (&'static str, fn(&mut [Part]), fn(&Void) -> bool, Limiter);
    let schedule = |void: &Void| matches!(void, Void::ScheduleNotKept { .. });
    let rows: [Row; 6] = [
        (
            "a part",
            |parts| parts[1].trial.void = Voidness(Some(Void::Interrupted)),
            |void| void.to_string() == "part 2/3 (2/3.json): interrupted",
            Limiter::Unknown,
        ),
        (
            "a starved part",
            |parts| {
                let (trial, run_delay) = (&mut parts[2].trial, 0.5);
                trial.limiter = Limiter::TesterCpu;
                trial.void = Voidness(Some(Void::Starved { run_delay, foreign: 0.0 }));
            },
            |void| matches!(void, Void::Part { why, .. } if matches!(**why, Void::Starved { .. })),
            Limiter::TesterCpu,
        ),
        (
            "the schedule of all",
            |parts| parts.iter_mut().for_each(|part| delay(&mut part.trial, 5)),
            schedule,
            Limiter::TesterSchedule,
        ),
        (
            "queries that never left",
            |parts| parts.iter_mut().for_each(|part| part.trial.planned += 1),
            schedule,
            Limiter::TesterSchedule,
        ),
        (
            "starts",
            |parts| {
                let start = parts[0].trial.conditions.agreed_start.as_mut();
                start.expect("a start").error_us = -9_850.5;
            },
            |void| void.to_string().starts_with("the parts started up to 10.052 ms apart, 10.000"),
            Limiter::TesterSchedule,
        ),
        (
            "nothing",
            |parts| {
                for part in parts {
                    part.trial = Recorded::of(0, 0).trial(&part.slice().to_string());
                }
            },
            |void| *void == Void::NothingSent,
            Limiter::Unknown,
        ),
    ];
    let three = || vec![part("1/3", 100), part("2/3", 100), part("3/3", 100)];
    for (what, change, wanted, limiter) in rows {
        let mut parts = three();
        change(&mut parts);
        let found = merged(parts, None);
        let void = found.void.0.as_ref().expect(what);
        assert!(wanted(void), "{what}: {void}");
        assert_eq!(found.limiter, limiter, "{what}");
    }
    // A rate that passed although some of it left late passed, as for one Tester.
    let mut parts = three();
    parts.iter_mut().for_each(|part| delay(&mut part.trial, 5));
    let found = merged(parts, Some("loss < 5%"));
    assert_eq!((&found.void, found.passed), (&Voidness(None), Some(true)));
    assert!(matches!(found.warnings[..], [Warning::LateQueries { .. }]), "{:?}", found.warnings);
}

#[test]
fn goals_and_limiters_are_of_the_whole() {
    let lose = |count: u64| {
        let mut parts = vec![part("1/2", 1_000), part("2/2", 1_000)];
        let trial = &mut parts[0].trial;
        (trial.answered, trial.valid, trial.lost) = (1_000 - count, 1_000 - count, count);
        trial.limiter = if count > 0 { Limiter::Target } else { Limiter::Offered };
        parts
    };
    let found = merged(lose(0), Some("zero-loss"));
    assert_eq!((found.passed, found.limiter), (Some(true), Limiter::Offered));
    // Two of a thousand in one part are one of a thousand of all.
    assert_eq!(merged(lose(2), Some("loss < 0.1%")).passed, Some(true));
    let found = merged(lose(3), Some("loss < 0.1%"));
    assert_eq!((found.passed, found.limiter), (Some(false), Limiter::Target));
    let mut parts = lose(3);
    parts[1].trial.limiter = Limiter::TesterCpu;
    assert_eq!(merged(parts, Some("zero-loss")).limiter, Limiter::TesterCpu);
    // The loss of one host is near a stall of another, whose clock counts from another time.
    let mut parts = lose(3);
    parts[0].trial.disturbances.started = Nanos::from_secs(5);
    let from = Nanos::from_millis(500);
    parts[0].trial.disturbances.losses.push(LossSpan { from, until: from, queries: 3 });
    parts[1].trial.disturbances.started = Nanos::from_secs(900);
    let length = Nanos::from_millis(8);
    let at = parts[1].trial.disturbances.started + from;
    parts[1].trial.disturbances.add_stall(Stall { side: Side::Dut, at, length });
    let found = merged(parts, Some("zero-loss"));
    assert!(matches!(found.void.0, Some(Void::Stalled { by_stalls: 3, .. })), "{:?}", found.void);
}

#[test]
fn clocks_that_nobody_looked_at_are_told() {
    let mut parts = vec![part("1/2", 100), part("2/2", 100)];
    for (part, unix_s) in parts.iter_mut().zip([1_000.0, 1_000.004]) {
        part.trial.conditions.agreed_start = None;
        part.trial.conditions.started_unix_s = Some(unix_s);
    }
    let found = merged(parts, None);
    assert_eq!(found.warnings, [Warning::ClocksNotChecked]);
    let starts = found.merged.expect("parts");
    assert!((starts.start_spread_us - 4_000.0).abs() < 1.0, "{}", starts.start_spread_us);
    assert!((starts.parts[1].start_us - 4_000.0).abs() < 1.0, "{:?}", starts.parts[1]);
}

/// Connections of so many clients, one of which failed.
fn connections(clients: u32, reason: &str) -> Connections {
    let times = Times::from(&Histogram::new());
    Connections {
        clients,
        outstanding: clients,
        established: 10,
        resumed: 5,
        failed: [(reason.to_owned(), 1)].into(),
        connect_us: times.clone(),
        handshake_us: times.clone(),
        first_query_us: times.clone(),
        steady_us: times,
        ..Connections::default()
    }
}

#[test]
fn clients_that_replay_their_own_queries_are_counted_instead_of_these() {
    let replayed = |counts: [u64; 2], clients: Option<[u32; 2]>| {
        let mut parts = vec![part("1/2", counts[0]), part("2/2", counts[1])];
        for (number, part) in parts.iter_mut().enumerate() {
            part.trial.conditions.pacing = "replay at 1x".to_owned().into();
            part.trial.connections = clients.map(|clients| connections(clients[number], "refused"));
        }
        merge(parts, &MergeTerms::default(), "1", "merge").map_err(|why| why.to_string())
    };
    let found = replayed([900, 100], Some([6, 5])).expect("one load");
    let found = found.trial;
    assert_eq!((found.planned, found.sent), (1_000, 1_000));
    assert_eq!(found.connections.map(|all| all.clients), Some(11));
    // Slices of a replay over UDP have every second query.
    for (clients, wanted) in
        [(None, "planned queries `900` and `100`"), (Some([6, 1]), "clients `6` and `1`")]
    {
        let why = replayed([900, 100], clients).map(|_| ()).expect_err(wanted);
        assert!(why.contains(wanted), "{why}");
    }
}

#[test]
fn connections_are_added_by_transport() {
    let mut parts = vec![part("1/2", 100), part("2/2", 100)];
    for (part, (clients, reason)) in parts.iter_mut().zip([(3, "refused"), (2, "timeout")]) {
        let of_tls = connections(1, reason);
        let by_transport = [("tls".to_owned(), of_tls)].into();
        let all = Connections { by_transport, ..connections(clients, reason) };
        part.trial.connections = Some(all);
    }
    let found = merged(parts, None).connections.expect("connections");
    assert_eq!((found.clients, found.outstanding, found.established), (5, 3, 20));
    assert_eq!(found.resumption_rate, 0.5);
    assert_eq!(found.failed, [("refused".to_owned(), 1), ("timeout".to_owned(), 1)].into());
    assert_eq!(found.by_transport["tls"].clients, 2);
}
