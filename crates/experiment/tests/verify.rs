//! Known truths against a scripted bench: what passes, what fails, and what the machine is to blame for.

use experiment::verify::{INTERVAL, ServerCounts, Way, against_capture, median_checks};
use experiment::{
    Behaviour, Bench, BenchError, Capture, Captured, TrialSpec, TruthBench, Verified, VerifyPlan,
    verify,
};
use measure::stall::{LateSpan, LostQuery, Side};
use measure::{Histogram, Limiter, Nanos, Pacing, Qps, Stall, Transport, Void};
use record::{
    Bound, Check, CheckVerdict, EngineKind, Known, Step, Steps, Times, Trial, TruthSource,
};

use crate::scripted;

/// Round trip time between Tester and server.
const ROUND_TRIP: Nanos = Nanos::from_micros(50);

/// What a Tester or its machine does wrong.
#[derive(Clone, Copy, Default)]
struct Wrongs {
    /// Replies that the Tester loses in each trial.
    loses: u64,
    /// Length of a stall at that time.
    stall: Option<Nanos>,
    /// Rate above which the Tester is void.
    void_above: Option<f64>,
    /// Share by which the Tester's latencies are wrong.
    latency: f64,
    /// Whether they are wrong in every other trial alone.
    by_chance: bool,
    /// Delay of the server beyond what was set.
    server_late: Nanos,
    /// Packets that the capture lost.
    dropped: u64,
    /// Whether no capture can be taken, as without the rights for it.
    no_capture: bool,
    /// Queries that the Tester claims and did not send.
    claims: u64,
    /// Share of the intervals that are empty; their queries come in the next.
    uneven: f64,
    /// Shares by which sockets find other capacities and latencies than the kernel.
    sockets_differ: [f64; 2],
    /// Time that a free place of a window waits.
    place_waits: Nanos,
    /// Largest number of places that are used; all of them if 0.
    places: u32,
    /// Time that a query of a window waits in a queue of the Tester.
    queued: Nanos,
    /// Part of the server's delay for which a query of a window waits in a queue.
    queue_grows: f64,
    /// Queries that a Poisson schedule leaves out.
    leaves_out: u64,
}

/// A server that behaves as it was set, and a Tester with these errors.
struct Scripted {
    behaviour: Behaviour,
    wrongs: Wrongs,
    captures: u32,
    trials: u32,
    /// Engine of the trials; `None` before one is chosen.
    engine: Option<EngineKind>,
    /// Whether the numbers of trials are connections a second.
    connections: bool,
    /// Queries since the server was started.
    sent: u64,
}

impl Scripted {
    fn new(wrongs: Wrongs) -> Self {
        let behaviour = Behaviour::default();
        let (captures, trials, sent) = (0, 0, 0);
        Scripted { behaviour, wrongs, captures, trials, engine: None, connections: false, sent }
    }

    /// The steps of a window, which the server answers after its delay; 100,000 queries a second without one.
    fn window(&self, outstanding: u32, seconds: f64) -> Steps {
        let places =
            if self.wrongs.places > 0 { outstanding.min(self.wrongs.places) } else { outstanding };
        let least = ROUND_TRIP.max(Nanos(u64::from(places) * 10_000));
        let trip = if self.behaviour.delay > Nanos::ZERO {
            self.behaviour.delay + ROUND_TRIP
        } else {
            least
        };
        let grown = self.behaviour.delay.as_secs_f64() * self.wrongs.queue_grows;
        let trip = trip + self.wrongs.queued + Nanos::from_secs_f64(grown);
        let rate = f64::from(places) / (trip + self.wrongs.place_waits).as_secs_f64();
        let length_s = 0.01;
        let sent_until = |step: usize| (rate * length_s * step as f64).round() as u64;
        let step = |k: usize| {
            let count = sent_until(k + 1) - sent_until(k);
            let latency_us = trip.as_micros_f64();
            Step { sent: count, answered: count, latency_us, ..Step::default() }
        };
        let count = (seconds / length_s).round() as usize;
        Steps { length_s, steps: (0..count).map(step).collect() }
    }
}

impl Scripted {
    fn latencies(&self, spec: &TrialSpec, wrong: f64, add: Nanos) -> Histogram {
        let mut all = Histogram::new();
        let mut record = |time: Nanos, count: u64| {
            let time = Nanos(((time + add).0 as f64 * (1.0 + wrong)) as u64);
            (0..count).for_each(|_| all.record(time));
        };
        let late = self.wrongs.server_late;
        match self.behaviour.latency {
            Some(two) => {
                let low = (spec.names as f64 * two.share) as u64;
                record(two.low + late, low);
                record(two.high + late, spec.names - low);
            }
            None => record(late, spec.names),
        }
        all
    }
}

/// The number of queries that a trial sends.
fn names(spec: &TrialSpec) -> u64 {
    let seconds = spec.duration.as_secs_f64();
    match spec.pacing {
        Pacing::Constant { rate } | Pacing::Poisson { rate } => {
            (rate.get() * seconds).round() as u64
        }
        Pacing::Ramp { from, to } => ((from.get() + to.get()) / 2.0 * seconds).round() as u64,
        _ => spec.names,
    }
}

impl Bench for Scripted {
    fn trial(&mut self, spec: &TrialSpec) -> Result<Trial, BenchError> {
        self.trials += 1;
        let seconds = spec.duration.as_secs_f64();
        let spec = &TrialSpec { names: names(spec), ..spec.clone() };
        let rate = spec.names as f64 / seconds;
        let starved = Void::Starved { run_delay: 0.5, foreign: 0.0 };
        let void = self.wrongs.void_above.filter(|most| rate > *most).map(|_| starved);
        let limiter = void.as_ref().map_or(Limiter::Target, Void::limiter);
        let mut trial = scripted::trial(spec, rate, true, limiter, void);
        let share = |share: f64| (spec.names as f64 * share).round() as u64;
        let (over, behaviour) =
            (|all: f64| (spec.names as f64 - all).max(0.0) as u64, &self.behaviour);
        let [capacity, latency] = match self.engine {
            Some(EngineKind::Sockets) => self.wrongs.sockets_differ,
            _ => [0.0; 2],
        };
        let dropped = behaviour.capacity.map_or(0, |bucket| {
            over(bucket.lossless(spec.duration) * seconds * (1.0 + capacity) + 0.5)
        });
        let late = behaviour.late.map_or(0, |late| share(late.share));
        trial.lost = share(behaviour.loss) + late + dropped + self.wrongs.loses;
        (trial.answered, trial.valid) = (spec.names - trial.lost, spec.names - trial.lost);
        (trial.late, trial.duplicates) = (late, share(behaviour.duplicates));
        trial.conditions.timeout_s = spec.timeout.as_secs_f64();
        let right = self.wrongs.by_chance && self.trials.is_multiple_of(2);
        let wrong = if right { 0.0 } else { self.wrongs.latency };
        trial.latency_us = Times::from(&self.latencies(spec, wrong + latency, ROUND_TRIP));
        trial.latency_from_send_us = trial.latency_us.clone();
        let servfail = share(behaviour.servfail);
        trial.rcodes.insert("SERVFAIL".to_owned(), servfail);
        trial.latency_from_send_us.mean = (behaviour.delay + ROUND_TRIP).as_micros_f64();
        match spec.pacing {
            Pacing::Window { outstanding } => trial.steps = Some(self.window(outstanding, seconds)),
            Pacing::LockStep { threads, experiments, .. } => {
                let time = f64::from(256 / threads) * trial.latency_from_send_us.mean / 1e3;
                trial.experiment_times_ms = vec![time; experiments as usize];
            }
            Pacing::Poisson { .. } => trial.sent -= self.wrongs.leaves_out,
            _ => {}
        }
        let accepted =
            behaviour.accept_rate.map_or(f64::INFINITY, |accepted| accepted.get() * seconds);
        if self.connections && spec.names as f64 > accepted {
            (trial.lost, trial.passed) = (spec.names - accepted as u64, Some(false));
        }
        self.sent += trial.sent;
        trial.sent += self.wrongs.claims;
        if let Some(length) = self.wrongs.stall {
            let at = Nanos::from_millis(100);
            trial.disturbances.add_stall(Stall { side: Side::Tester, at, length });
            let late = LateSpan { from: at, until: at + length, queries: 10, worst: length };
            trial.disturbances.late.push(late);
            for _ in 0..self.wrongs.loses {
                let lost = LostQuery {
                    due: at,
                    sent: at,
                    socket: 0,
                    address: None,
                    port: None,
                    id: 0,
                    seen_by_authdns: None,
                };
                trial.disturbances.add_lost(lost);
            }
        }
        Ok(trial)
    }
}

impl TruthBench for Scripted {
    fn serve(&mut self, behaviour: &Behaviour) -> Result<(), BenchError> {
        (self.behaviour, self.sent) = (behaviour.clone(), 0);
        Ok(())
    }

    fn use_engine(&mut self, engine: EngineKind) -> Result<(), BenchError> {
        self.engine = Some(engine);
        Ok(())
    }

    fn use_way(&mut self, _: Way) -> Result<(), BenchError> {
        Ok(())
    }

    fn search_connections(&mut self, connections: bool) -> Result<(), BenchError> {
        self.connections = connections;
        Ok(())
    }

    fn server_counts(&mut self) -> Result<ServerCounts, BenchError> {
        Ok(ServerCounts { queries: self.sent, connections: 0 })
    }

    fn captured_trial(&mut self, spec: &TrialSpec) -> Result<(Trial, Capture), BenchError> {
        self.captures += 1;
        let trial = self.trial(spec)?;
        if self.wrongs.no_capture {
            return Ok((trial, Capture::Missing("no right to capture".into())));
        }
        let spec = &TrialSpec { names: names(spec), ..spec.clone() };
        let mean = spec.names as f64 / spec.duration.as_secs_f64() * INTERVAL.as_secs_f64();
        let (each, count) = (mean as u32, (spec.duration.0 / INTERVAL.0) as usize);
        let shape = |k: usize| match spec.pacing {
            // One standard deviation to either side.
            Pacing::Poisson { .. } if k.is_multiple_of(2) => mean + mean.sqrt(),
            Pacing::Poisson { .. } => mean - mean.sqrt(),
            Pacing::Ramp { from, to } => {
                let part = (k as f64 + 0.5) / count as f64;
                (from.get() + (to.get() - from.get()) * part) * INTERVAL.as_secs_f64()
            }
            _ => mean,
        };
        let mut intervals: Vec<u32> = (0..count).map(|k| shape(k) as u32).collect();
        let uneven = (intervals.len() as f64 * self.wrongs.uneven) as usize;
        for pair in intervals.chunks_exact_mut(2).take(uneven.div_ceil(2)) {
            pair.copy_from_slice(&[0, 2 * each]);
        }
        let captured = Captured {
            queries: spec.names,
            replies: trial.answered + trial.duplicates + trial.late,
            dropped: self.wrongs.dropped,
            rate_qps: spec.names as f64 / spec.duration.as_secs_f64(),
            intervals,
            latency: self.latencies(spec, 0.0, Nanos::ZERO),
        };
        Ok((trial, Capture::Taken(captured)))
    }
}

fn verified(plan: &VerifyPlan, wrongs: Wrongs) -> (Verified, u32) {
    let mut bench = Scripted::new(wrongs);
    let mut seen = 0;
    let verified = verify(plan, &mut bench, &mut |_| seen += 1);
    assert_eq!((&verified.error, seen), (&None, verified.checks.len()));
    (verified, bench.captures)
}

/// The plan without other ways than the sockets.
fn sockets(plan: VerifyPlan) -> VerifyPlan {
    let (ways, windows, accept_rates) = (Vec::new(), Vec::new(), Vec::new());
    VerifyPlan { ways, windows, accept_rates, ..plan }
}

/// The checks that did not pass: name, source, verdict.
fn missed(checks: &[Check]) -> Vec<String> {
    let others = checks.iter().filter(|check| check.verdict != CheckVerdict::Passed);
    others.map(|c| format!("{} ({}): {}", c.name, c.truth, c.verdict.words())).collect()
}

fn of<'a>(checks: &'a [Check], name: &str) -> &'a Check {
    checks.iter().find(|check| check.name == name).unwrap_or_else(|| panic!("{name}: {checks:?}"))
}

#[test]
fn a_right_tester_finds_every_truth() {
    for (plan, highest, rows) in
        [(sockets(VerifyPlan::quick()), 20e3, 18), (sockets(VerifyPlan::full()), 100e3, 39)]
    {
        let (verified, _) = verified(&plan, Wrongs::default());
        assert_eq!(missed(&verified.checks), Vec::<String>::new());
        assert_eq!((verified.certified_qps, verified.checks.len()), (highest, rows));
    }
}

#[test]
fn a_right_tester_finds_every_truth_of_every_way() {
    for plan in [VerifyPlan::quick(), VerifyPlan::full()] {
        let (verified, _) = verified(&plan, Wrongs::default());
        assert_eq!(missed(&verified.checks), Vec::<String>::new());
    }
}

#[test]
fn a_place_that_waits_a_window_that_is_too_small_and_a_queue_are_noticed() {
    let windows = |wrongs| {
        let (verified, _) = verified(&VerifyPlan::quick(), wrongs);
        let failed = verified.checks.iter().any(Check::is_failed);
        assert_eq!(verified.coverage.is_empty(), failed);
        let mut missed = missed(&verified.checks);
        missed.retain(|line| line.ends_with("udp, 8 clients (law): FAILED"));
        missed
    };
    let line = |what: &str, window: u32, delay: u32| {
        format!("{what}, window {window}, delay {delay}ms, udp, 8 clients (law): FAILED")
    };
    let place_waits = Wrongs { place_waits: Nanos::from_micros(200), ..Wrongs::default() };
    assert_eq!(windows(place_waits), [line("rate", 8, 1)]);
    // A stall of a hundredth of the trial explains no sixth of the rate; one of a sixth does.
    let stalled = |ms| Wrongs { stall: Some(Nanos::from_millis(ms)), ..place_waits };
    assert_eq!(windows(stalled(2)), [line("rate", 8, 1)]);
    assert_eq!(windows(stalled(30)), Vec::<String>::new());
    let places = Wrongs { places: 64, ..Wrongs::default() };
    assert_eq!(windows(places), [line("rate", 100, 10)]);
    let queued = Wrongs { queued: Nanos::from_millis(40), ..Wrongs::default() };
    let one = "round trip, one query, udp, 8 clients (law): FAILED";
    assert_eq!(windows(queued), [one]);
    // A queue that is there only beside a slow server.
    let growing = Wrongs { queue_grows: 0.5, ..Wrongs::default() };
    let all = [(8, 1), (100, 10)].map(|(w, d)| line("round trip", w, d));
    assert_eq!(windows(growing), all);
}

#[test]
fn a_poisson_schedule_that_is_cut_is_noticed_and_one_that_is_drawn_short_is_not() {
    for (leaves_out, failed) in [(0, 0), (20, 0), (300, 7)] {
        let wrongs = Wrongs { leaves_out, ..Wrongs::default() };
        let (verified, _) = verified(&VerifyPlan::quick(), wrongs);
        let missed = missed(&verified.checks);
        let poisson =
            missed.iter().filter(|line| line.starts_with("queries of the schedule, poisson"));
        assert_eq!(poisson.count(), failed, "{leaves_out}: {missed:?}");
    }
}

#[test]
fn what_passed_is_covered() {
    let (verified, _) = verified(&VerifyPlan::full(), Wrongs::default());
    let covered = |engine, transport| {
        let of = verified.coverage.iter().find(|c| (c.engine, c.transport) == (engine, transport));
        of.unwrap_or_else(|| panic!("{transport}: {:?}", verified.coverage)).pacings.join(" ")
    };
    assert_eq!(
        covered(EngineKind::Sockets, Transport::Udp),
        "constant lockstep poisson ramp window"
    );
    for transport in Transport::ALL {
        assert_eq!(covered(EngineKind::Streams, transport), "constant poisson ramp window");
    }
}

#[test]
fn closed_loops_of_the_kernel_are_held_against_the_law_and_the_servers_counts() {
    let plan = VerifyPlan::full().for_kernel();
    let (right, _) = verified(&plan, Wrongs::default());
    assert_eq!(missed(&right.checks), Vec::<String>::new());
    let covered = |c: &record::Coverage| (c.engine, c.pacings.join(" "));
    let all: Vec<_> = right.coverage.iter().map(covered).collect();
    assert_eq!(all, [(EngineKind::Kernel, "constant poisson window".to_owned())]);
    let places = Wrongs { places: 64, ..Wrongs::default() };
    let claims = Wrongs { claims: 1, ..Wrongs::default() };
    for (wrongs, what) in [
        (places, "rate, window 100, delay 10ms, udp (law): FAILED"),
        (claims, "queries counted by the server, windows, delay 1ms (server): FAILED"),
    ] {
        let missed = missed(&verified(&plan, wrongs).0.checks);
        assert!(missed.iter().any(|line| line == what), "{what}: {missed:?}");
    }
}

#[test]
fn wrong_truths_are_noticed() {
    for wrong in [0.05, 0.3] {
        let plan = VerifyPlan { wrong, ..sockets(VerifyPlan::quick()) };
        let (verified, _) = verified(&plan, Wrongs::default());
        assert_eq!(verified.certified_qps, 0.0);
        for name in ["capacity 20k", "sending rate at 20k", "lost", "duplicates", "late"] {
            assert!(of(&verified.checks, name).is_failed(), "{wrong}: {name}");
        }
    }
}

#[test]
fn both_engines_must_find_the_same() {
    let plan = sockets(VerifyPlan::quick().for_kernel());
    let found = |sockets_differ| {
        let (verified, _) = verified(&plan, Wrongs { sockets_differ, ..Wrongs::default() });
        (missed(&verified.checks), verified.certified_qps)
    };
    let (alike, certified) = found([0.02, 0.03]);
    assert_eq!((alike, certified), (Vec::new(), 20e3));
    let (capacity, certified) = found([0.06, 0.0]);
    let failed = "capacity 20k by both engines (sockets): FAILED".to_owned();
    assert_eq!((capacity, certified), (vec![failed], 0.0));
    let (latency, _) = found([0.0, -0.08]);
    assert_eq!(latency.len(), 3, "{latency:?}");
    // Without the other engine nothing is compared.
    let (alone, _) = verified(&sockets(VerifyPlan::quick()), Wrongs::default());
    assert!(alone.checks.iter().all(|check| check.truth != TruthSource::Sockets));
}

#[test]
fn lost_replies_are_the_testers_fault_unless_it_stood_still() {
    let loses = Wrongs { loses: 30, ..Wrongs::default() };
    let (bare, captures) = verified(&sockets(VerifyPlan::quick()), loses);
    assert!(of(&bare.checks, "lost").is_failed() && bare.certified_qps == 0.0);
    assert_eq!(captures, 3, "a failure is not tried again");
    let stalls = Wrongs { stall: Some(Nanos::from_millis(8)), ..loses };
    let (stalled, captures) = verified(&sockets(VerifyPlan::quick()), stalls);
    let lost = of(&stalled.checks, "lost");
    assert_eq!(lost.verdict, CheckVerdict::TesterLimited);
    assert!(
        lost.why.as_ref().is_some_and(|why| why.contains("8.0 ms of the Tester's core")),
        "{lost:?}"
    );
    assert!(captures > 3, "what the machine spoils is tried again");
    let plan = VerifyPlan { spoiled: 1, ..sockets(VerifyPlan::quick()) };
    assert_eq!(verified(&plan, stalls).1, 4, "but not more often than the plan allows");
    assert!(!stalled.checks.iter().any(Check::is_failed), "{:?}", missed(&stalled.checks));
}

#[test]
fn a_capacity_beyond_the_tester_is_no_failure_and_not_certified() {
    let wrongs = Wrongs { void_above: Some(12_000.0), ..Wrongs::default() };
    let capacities = [5e3, 20e3].map(|qps| Qps::new(qps).expect("a rate")).to_vec();
    let plan = VerifyPlan { rates: Vec::new(), capacities, ..sockets(VerifyPlan::quick()) };
    let (verified, _) = verified(&plan, wrongs);
    assert_eq!(missed(&verified.checks), ["capacity 20k (set): Tester-limited"]);
    assert_eq!(verified.certified_qps, 5e3);
    let why = of(&verified.checks, "capacity 20k").why.clone().expect("a reason");
    assert!(why.contains("the Tester was starved"), "{why}");
}

#[test]
fn latencies_are_the_testers_or_the_servers() {
    let (tester, _) =
        verified(&sockets(VerifyPlan::quick()), Wrongs { latency: 0.3, ..Wrongs::default() });
    let failed = [
        "latency p50 (set): FAILED",
        "latency p50 (capture): FAILED",
        "latency p99 (set): FAILED",
        "latency p99 (capture): FAILED",
    ];
    assert_eq!(missed(&tester.checks), failed);
    // What is wrong once and not again is the machine's.
    let chance = Wrongs { latency: 0.3, by_chance: true, ..Wrongs::default() };
    let (by_chance, _) = verified(&sockets(VerifyPlan::quick()), chance);
    assert_eq!(missed(&by_chance.checks), [""; 0]);
    let late = Wrongs { server_late: Nanos::from_millis(1), ..Wrongs::default() };
    let (server, _) = verified(&sockets(VerifyPlan::quick()), late);
    let limited = ["latency p50 (set): Tester-limited", "latency p99 (set): Tester-limited"];
    assert_eq!(missed(&server.checks), limited);
}

#[test]
fn a_capture_that_is_missing_or_cut_checks_nothing() {
    for wrongs in [
        Wrongs { no_capture: true, ..Wrongs::default() },
        Wrongs { dropped: 3, ..Wrongs::default() },
    ] {
        let (verified, _) = verified(&sockets(VerifyPlan::quick()), wrongs);
        let not_made = |c: &&Check| c.verdict == CheckVerdict::NotMade;
        assert_eq!(verified.checks.iter().filter(not_made).count(), 5);
        assert!(verified.checks.iter().all(|c| !c.is_failed()), "{:?}", missed(&verified.checks));
        assert_eq!(verified.certified_qps, 20e3);
    }
}

#[test]
fn what_left_is_what_the_capture_has() {
    let (claims, _) =
        verified(&sockets(VerifyPlan::quick()), Wrongs { claims: 1, ..Wrongs::default() });
    assert!(missed(&claims.checks).contains(&"queries sent at 20k (capture): FAILED".to_owned()));
    let uneven = Wrongs { uneven: 0.2, ..Wrongs::default() };
    let (bare, _) = verified(&sockets(VerifyPlan::quick()), uneven);
    assert_eq!(missed(&bare.checks), ["even intervals at 20k (set): FAILED"]);
    let excused = Wrongs { stall: Some(Nanos::from_millis(200)), ..uneven };
    let (stalled, _) = verified(&sockets(VerifyPlan::quick()), excused);
    assert_eq!(missed(&stalled.checks), ["even intervals at 20k (set): Tester-limited"]);
    let short = Wrongs { stall: Some(Nanos::from_millis(8)), ..uneven };
    let (short, _) = verified(&sockets(VerifyPlan::quick()), short);
    assert_eq!(missed(&short.checks), ["even intervals at 20k (set): FAILED"], "not by that stall");
}

#[test]
fn a_trial_is_held_against_the_capture_of_others() {
    let rate = Qps::new(20e3).expect("a rate");
    let spec = VerifyPlan::trial(rate, Nanos::from_secs(1));
    let mut bench = Scripted::new(Wrongs::default());
    let (mut trial, capture) = bench.captured_trial(&spec).expect("runs");
    let Capture::Taken(captured) = capture else { panic!("no capture") };
    let checks = against_capture(&trial, Some(rate), captured.clone());
    assert_eq!((missed(&checks), checks.len()), (vec![], 6));
    assert_eq!(
        against_capture(&trial, None, captured.clone()).len(),
        4,
        "a closed loop has no rate"
    );
    trial.sent -= 1;
    let checks = against_capture(&trial, Some(rate), captured);
    assert_eq!(missed(&checks), ["queries sent at 20k (capture): FAILED"]);
    assert!(
        checks.iter().all(|c| c.truth == TruthSource::Capture || c.unit == "qps" || c.unit == "%")
    );
}

#[test]
fn behaviours_are_arguments_of_the_authdns() {
    let arguments = VerifyPlan::behaviour().arguments();
    let wanted = ["--loss=0.005", "--fault=duplicate:0.02", "--latency=bimodal:0.9:2ms:20ms"];
    assert_eq!(arguments, wanted);
    assert_eq!(Behaviour::default().arguments(), Vec::<String>::new());
}

#[test]
fn one_disturbed_trial_of_three_misses_nothing() {
    let (truth, value, bound) = (TruthSource::Set, 20_000.0, Bound::Absolute(500.0));
    let latency = |found| Check::compare("p99", Known { truth, value, unit: "us", bound }, found);
    for (found, median, verdict) in [
        ([20_100.0, 21_800.0, 20_050.0], 20_100.0, CheckVerdict::Passed),
        ([18_000.0, 20_400.0, 22_000.0], 20_400.0, CheckVerdict::Passed),
        ([20_100.0, 21_800.0, 21_900.0], 21_800.0, CheckVerdict::Failed),
    ] {
        let checks = median_checks(&found.map(|found| vec![latency(found)]));
        assert_eq!((checks.len(), checks[0].found), (1, Some(median)));
        assert_eq!(checks[0].verdict, verdict);
    }
}
