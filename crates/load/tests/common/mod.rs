//! Helpers for the tests of the roles: plans, a workload, a right answer, a run on the simulated engine.

#![allow(dead_code, reason = "each test binary uses a part of it")]

pub(crate) mod net;
mod plans;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use engine::sim::{Replies, SimEngine};
use engine::stream::Mix;
use engine::{SocketId, WaitMode, drive};
use load::lockstep::experiment_times;
use load::workload::namespace::{NamespaceExpect, NamespaceSpec, NamespaceWorkload};
use load::{
    ClientPlan, Clients, Live, LockStep, LockStepPlan, Measurer, Plan, Population, Rounds, Tally,
};
use measure::{Nanos, Pacing, Qps, ScheduleTolerance, Void};
use wire::{Namespace, Qtype};

pub(crate) use self::plans::plan;

pub(crate) const MS: fn(u64) -> Nanos = Nanos::from_millis;
pub(crate) const US: fn(u64) -> Nanos = Nanos::from_micros;

/// Returns why the schedule was not kept; of a trial that ended early only the queries due until then are required.
pub(crate) fn late(tally: &Tally) -> Option<Void> {
    let planned = if tally.stopped_early { tally.wanted() } else { tally.planned };
    ScheduleTolerance::default().verdict(planned, tally.wanted(), &tally.schedule_error)
}

/// Makes a plan of clients that may all open their connections at once.
pub(crate) fn client_plan(plan: Plan, clients: u32, outstanding: u32) -> ClientPlan {
    ClientPlan {
        plan,
        clients,
        queries_per_connection: None,
        outstanding,
        opening: clients,
        connection_rate: None,
        population: Population::default(),
        first_client: 0,
        mix: Mix::one(),
        no_keepalive: vec![false],
    }
}

/// Makes clients of a plan that begin at once.
pub(crate) fn begun(plan: ClientPlan) -> Clients {
    let mut clients = Clients::new(plan, Box::new(workload(1 << 24, false)), Arc::default(), false);
    clients.begin(Nanos::ZERO);
    clients
}

pub(crate) fn qps(rate: f64) -> Qps {
    Qps::new(rate).expect("a rate")
}

pub(crate) fn constant(rate: f64) -> Pacing {
    Pacing::Constant { rate: qps(rate) }
}

/// Makes a workload of type A for the first `names` names of 10.0.0.0/8, for one worker.
pub(crate) fn workload(names: u64, sequential: bool) -> NamespaceWorkload {
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

/// Composes a right answer to a namespace query of type A.
pub(crate) fn answer(query: &[u8]) -> Vec<u8> {
    let label = &query[13..28];
    let address = Namespace::parse_label(label).expect("a namespace query");
    let mut out = query.to_vec();
    (out[2], out[3], out[7]) = (0x84, 0, 1);
    out.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
    out.extend(address.octets());
    out
}

/// Runs a Measurer with `live` on an engine until it is done.
pub(crate) fn run_on(engine: &mut SimEngine, plan: Plan, names: u64, live: &Arc<Live>) -> Tally {
    let mut role = Measurer::new(plan, Box::new(workload(names, false)), live.clone());
    drive(engine, &mut role, WaitMode::Sleep, &AtomicBool::new(false)).expect("no errors here");
    role.into_tally()
}

/// Runs a Measurer against a scripted server; returns its tally and when each query left.
pub(crate) fn run(
    plan: Plan,
    script: impl FnMut(Nanos, SocketId, &[u8], &mut Replies),
) -> (Tally, Vec<Nanos>) {
    let mut engine = SimEngine::new(script).recording();
    let tally = run_on(&mut engine, plan, 1 << 24, &Arc::default());
    (tally, engine.sent().iter().map(|(at, _, _)| *at).collect())
}

/// Times of the experiments of a lock-step load, and its counts.
pub(crate) struct Stepped {
    pub(crate) times: Vec<Nanos>,
    pub(crate) tally: Tally,
}

/// Returns the plan of the only worker of a lock-step load with a timeout of 100 ms.
pub(crate) fn lockstep_plan(threads: u32, experiments: u32) -> LockStepPlan {
    LockStepPlan {
        threads,
        experiments,
        timeout: MS(100),
        worker: 0,
        pauses: false,
        rounds: Rounds::of(1),
    }
}

/// Runs a lock-step load with a timeout of 100 ms; each call of the role takes `call_cost`.
pub(crate) fn run_lockstep(
    threads: u32,
    experiments: u32,
    names: u64,
    call_cost: Nanos,
    script: impl FnMut(Nanos, SocketId, &[u8], &mut Replies),
) -> Stepped {
    run_worker(lockstep_plan(threads, experiments), names, call_cost, script)
}

/// Runs one worker of a lock-step load.
pub(crate) fn run_worker(
    plan: LockStepPlan,
    names: u64,
    call_cost: Nanos,
    script: impl FnMut(Nanos, SocketId, &[u8], &mut Replies),
) -> Stepped {
    let mut engine = SimEngine::new(script).call_cost(call_cost);
    let workload = Box::new(workload(names, true));
    let mut role = LockStep::new(plan, workload, Arc::default()).expect("1 to 256 threads");
    drive(&mut engine, &mut role, WaitMode::Sleep, &AtomicBool::new(false))
        .expect("no errors here");
    let result = role.into_result();
    Stepped { times: experiment_times(&[result.spans]), tally: result.tally }
}

/// Asserts that every query has one outcome and that every reply is counted at most once.
pub(crate) fn assert_sums(tally: &Tally, replied: u64) {
    assert_eq!(tally.sent, tally.answered + tally.lost + tally.unresolved, "{tally:?}");
    assert_eq!(tally.answered, tally.valid + tally.invalid.iter().sum::<u64>());
    assert_eq!(tally.answered, tally.rcodes.iter().sum::<u64>());
    assert_eq!(tally.answered, tally.latency_from_send.count());
    assert_eq!(tally.latency.count(), tally.sent - tally.unresolved);
    assert_eq!(tally.schedule_error.count(), tally.sent);
    let taken = tally.answered + tally.late + tally.duplicates + tally.unexpected;
    assert!(taken <= replied, "{taken} of {replied}");
    let of_seconds = |count: fn(&load::tally::Second) -> u64| tally.series.iter().map(count).sum();
    let seconds: [u64; 3] =
        [of_seconds(|s| s.sent), of_seconds(|s| s.answered), of_seconds(|s| s.valid)];
    assert_eq!(seconds, [tally.sent, tally.answered, tally.valid]);
}
