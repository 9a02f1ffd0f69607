//! The method `capacity` against simulated servers that limit their rate: the Measurer itself on the simulated engine, so that the
//! truth is exact and no machine disturbs it.

#[path = "../../load/tests/common/plans.rs"]
mod plans;
#[path = "../../experiment/tests/scripted/rounds.rs"]
mod rounds;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use engine::sim::SimEngine;
use engine::{Engine, EngineCounters, RxBatch, TxBatch, Wait, WaitMode, drive};
use experiment::{Bench, BenchError, TrialSpec};
use load::workload::file::QueryOptions;
use load::workload::generated::{GeneratedSpec, GeneratedWorkload};
use load::{Measurer, Plan, Tally};
use measure::{Histogram, Limiter, Nanos, Rng};
use record::{CellRecord, SCHEMA, Step, Steps, Times, Trial};
use wire::{Expect, Qtype};

const MS: fn(u64) -> Nanos = Nanos::from_millis;
const SECOND: u64 = 1_000_000_000;
/// Number of queries for which a server's receive queue has room.
const QUEUE: usize = 600;

/// How a server limits its answers.
#[derive(Clone, Copy, Debug)]
enum Limit {
    /// A token bucket of some milliseconds.
    Bucket { depth_ms: u64 },
    /// So many in each second of the clock, as Unbound's `ip-ratelimit` (`infra_ip_ratelimit_inc` of infra.c).
    EachSecond,
    /// None while the mean of the seconds, in which each counts half of the next, or this second is at twice the limit, as NSD's
    /// `rrl-ratelimit` (`rrl_update` of rrl.c).
    Smoothed,
}

/// A server that answers `rate` queries a second and drops the others.
#[derive(Clone, Debug)]
struct Server {
    rate: u64,
    limit: Limit,
    /// Time of a query without waiting.
    trip: Nanos,
    /// Tokens of the bucket in billionths, or queries of this second; mean of those of the seconds before.
    level: u64,
    mean: u64,
    last: Nanos,
    /// When the queries before are done, each of which takes a microsecond.
    free_at: Nanos,
    queue: VecDeque<Nanos>,
    /// When others take its core the next time, for 1 to 6 ms; never if nobody does.
    taken: Nanos,
    rng: Rng,
}

impl Server {
    fn new(rate: u64, limit: Limit, trip_us: u64) -> Self {
        Server {
            rate,
            limit,
            trip: Nanos::from_micros(trip_us),
            level: 0,
            mean: 0,
            last: Nanos::ZERO,
            free_at: Nanos::ZERO,
            queue: VecDeque::new(),
            taken: Nanos::MAX,
            rng: Rng::new(rate + trip_us),
        }
    }

    /// Returns when the query that arrives now is answered, if it is.
    fn takes(&mut self, now: Nanos) -> Option<Nanos> {
        while self.taken < self.free_at.max(now) {
            self.free_at = self.free_at.max(self.taken + MS(1 + self.rng.next_u64() % 6));
            self.taken = self.free_at + MS(1 + self.rng.next_u64() % 15);
        }
        let free_at = self.free_at.max(now) + Nanos(1_000);
        let done = self.queue.iter().take_while(|done| **done <= now).count();
        self.queue.drain(..done);
        if self.queue.len() == QUEUE {
            return None;
        }
        self.free_at = free_at;
        self.queue.push_back(free_at);
        let answers = match self.limit {
            Limit::Bucket { depth_ms } => {
                let most = self.rate * depth_ms * 1_000_000;
                let gained = free_at.since(self.last).0.min(SECOND) * self.rate;
                self.level = (self.level + gained).min(most.max(SECOND));
                let answers = self.level >= SECOND;
                self.level -= if answers { SECOND } else { 0 };
                answers
            }
            Limit::EachSecond => {
                let same = self.last.0 / SECOND == free_at.0 / SECOND;
                self.level = if same { self.level + 1 } else { 1 };
                self.level <= self.rate
            }
            Limit::Smoothed => {
                let passed = free_at.0 / SECOND - self.last.0 / SECOND;
                if passed > 0 {
                    self.mean = (self.mean / 2 + self.level) >> (passed - 1).min(63);
                    self.level = 0;
                }
                self.level += 1;
                self.mean.max(self.level + self.mean / 2) < 2 * self.rate
            }
        };
        self.last = free_at;
        answers.then(|| free_at.since(now) + self.trip)
    }
}

/// A Tester that takes a microsecond and a half for each query, and stands still for 8 ms every 0.7 s.
struct Stopping<'a> {
    own: SimEngine<'a>,
    next_stop: Nanos,
}

impl Stopping<'_> {
    fn stop(&mut self) {
        if self.own.now() >= self.next_stop {
            let until = self.own.now() + MS(8);
            self.own.sleep(until);
            self.next_stop += MS(700);
        }
    }
}

impl Engine for Stopping<'_> {
    fn now(&mut self) -> Nanos {
        self.stop();
        self.own.now()
    }

    fn spin(&mut self, due: Nanos) {
        self.own.spin(due);
    }

    fn sleep(&mut self, until: Nanos) {
        self.own.sleep(until);
    }

    fn batches(&self) -> (RxBatch, TxBatch) {
        self.own.batches()
    }

    fn receive(&mut self, rx: &mut RxBatch, wait: Wait) -> io::Result<()> {
        self.stop();
        self.own.receive(rx, wait)
    }

    fn send(&mut self, tx: &mut TxBatch) -> io::Result<()> {
        let took = Nanos(1_500 * tx.iter().count() as u64);
        self.own.send(tx)?;
        let until = self.own.now() + took;
        self.own.sleep(until);
        Ok(())
    }

    fn counters(&self) -> EngineCounters {
        self.own.counters()
    }
}

/// Trials of one server, one after the other on one clock.
struct Simulated {
    server: Server,
    stops: bool,
    /// Time at which the next trial begins.
    clock: Nanos,
    rng: Rng,
}

impl Simulated {
    fn tally(&mut self, plan: &Plan) -> Tally {
        let (server, began) = (&mut self.server, self.clock);
        let sim = SimEngine::new(|now, _, query, replies| {
            if let Some(after) = server.takes(began + now) {
                let mut reply = query.to_vec();
                reply[2] |= 0x80;
                replies.after(after, reply);
            }
        });
        let next_stop =
            if self.stops { Nanos(MS(700).0 - began.0 % MS(700).0) } else { Nanos::MAX };
        let mut engine = Stopping { own: sim.call_cost(Nanos(500)), next_stop };
        let mut role = Measurer::new(plan.clone(), workload(), Arc::default());
        let ended = drive(&mut engine, &mut role, WaitMode::Sleep, &AtomicBool::new(false));
        ended.expect("no errors here");
        let ended = began + engine.own.now();
        drop(engine);
        // The next trial is set up meanwhile.
        self.clock = ended + MS(5 + self.rng.next_u64() % 40);
        role.into_tally()
    }
}

fn workload() -> Box<dyn load::Workload> {
    let options = QueryOptions { expect: Expect::NoError, ..QueryOptions::default() };
    let single = GeneratedSpec::Single { name: "example.".parse().expect("a name") };
    Box::new(GeneratedWorkload::new(single, vec![Qtype::A], options, 1, 0, 1).expect("valid"))
}

impl Bench for Simulated {
    fn trial(&mut self, spec: &TrialSpec) -> Result<Trial, BenchError> {
        let (timeout, step) = (spec.timeout, spec.step);
        let plan = plans::plan(spec.pacing, spec.duration, 4);
        let tally = self.tally(&Plan { timeout, step, adaptive_window: true, ..plan });
        Ok(trial(spec, &tally))
    }
}

/// Returns the record of a trial.
fn trial(spec: &TrialSpec, tally: &Tally) -> Trial {
    let seconds = spec.duration.as_secs_f64();
    let none = Times::from(&Histogram::new());
    let steps = tally.steps.as_ref().map(|steps| {
        let step = |step: &load::Step| Step { answered: step.answered, ..Step::default() };
        Steps {
            length_s: steps.length.as_secs_f64(),
            steps: steps.counts.iter().map(step).collect(),
        }
    });
    Trial {
        schema: SCHEMA,
        planned: tally.planned,
        sent: tally.sent,
        answered: tally.answered,
        valid: tally.valid,
        valid_while_sending: Some(tally.valid_while_sending),
        late: tally.late,
        lost: tally.lost,
        duplicates: tally.duplicates,
        unexpected: tally.unexpected,
        unresolved: tally.unresolved,
        offered_qps: tally.sent as f64 / seconds,
        answered_qps: tally.answered as f64 / seconds,
        duration_s: seconds,
        latency_us: none.clone(),
        latency_from_send_us: none.clone(),
        schedule_error_us: none,
        limiter: Limiter::Unknown,
        steps,
        ..Trial::default()
    }
}

/// Makes rounds of a server until they are enough; returns its cell.
fn measured(server: Server, stops: bool) -> (CellRecord, Nanos) {
    let rng = Rng::new(server.rate + server.trip.0);
    let clock = Nanos(rng.clone().next_u64() % SECOND);
    let mut bench = Simulated { server, stops, clock, rng };
    let settings = "repeats = 24\n[capacity]\nduration = \"500ms\"\nloads = false";
    let cell = rounds::measured(std::slice::from_mut(&mut bench), settings, |_, _| ()).remove(0);
    (cell, bench.clock.since(clock))
}

/// Servers of one rate by their limits: at rest, with stops of the Tester, and with others on the server's core too.
fn within_three_percent(rate: u64) {
    let buckets = [1, 10, 100].map(|depth_ms| Limit::Bucket { depth_ms });
    let mut trips = Rng::new(rate);
    for (limit, disturbed) in buckets.into_iter().chain([Limit::EachSecond]).zip([0, 2, 1, 1]) {
        let mut server = Server::new(rate, limit, 50 + trips.next_u64() % 151);
        server.taken = if disturbed == 2 { MS(3) } else { Nanos::MAX };
        let (cell, took) = measured(server, disturbed > 0);
        let found = cell.capacity.as_ref().map_or(0.0, |capacity| capacity.qps);
        assert!((found / rate as f64 - 1.0).abs() < 0.03, "{limit:?}: {found}, {:?}", cell.windows);
        assert!(took < Nanos::from_secs(15), "{limit:?}: {took}");
    }
}

#[test]
fn limits_are_found() {
    for rate in [5_000, 20_000, 50_000, 100_000] {
        within_three_percent(rate);
    }
}

#[test]
fn a_server_that_answers_nothing_above_its_limit_has_no_plateau() {
    let (cell, _) = measured(Server::new(5_000, Limit::Smoothed, 100), false);
    assert_eq!(cell.capacity, None, "{:?}", cell.rounds);
}
