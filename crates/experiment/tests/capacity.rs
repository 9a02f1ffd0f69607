//! The method `capacity` against simulated servers, whose demand, plateau and Tester are known.

use std::collections::BTreeMap;
use std::path::Path;

use experiment::capacity::{Known, align_windows, capacity_of};
use experiment::{
    Bench, BenchError, Circumstances, Experiment, NameBudget, TrialSpec, add_visit, visit,
};
use measure::{Limiter, Nanos, Pacing, Rng, Void};
use record::{
    Basis, CellRecord, Connections, Cpu, EngineKind, Seen, ServerCapacity, Trial, VoidRepeat,
    Voidness, WindowStep,
};

use crate::scripted::{self, Trials, rounds};

/// A server, its Tester and the machine.
#[derive(Clone)]
struct Simulated {
    /// CPU seconds of the server for each answer, and its cores.
    demand_s: f64,
    cores: usize,
    /// CPU seconds for each query that it drops, and for each connection.
    dropped_s: f64,
    connection_s: f64,
    /// Number of queries of a connection over streams.
    queries_per_connection: Option<u64>,
    /// Share of the answers that are wrong.
    wrong: f64,
    /// Share of its core that it uses without queries.
    idle: f64,
    /// Answers a second at which it ends, for another reason than its CPU, and whether it drops what is above.
    plateau: f64,
    drops: bool,
    /// Every how many visits it answers nothing, and whether it does now.
    fails: u32,
    is_down: bool,
    /// Number of open loops that are void, the first ones.
    void_loads: u32,
    /// Answers a second at which the Tester ends.
    tester: f64,
    /// Largest window that the way to it holds: the Tester's own device drops a twentieth of what a larger one sends at once.
    holds: u32,
    /// Time of a query without waiting, in seconds.
    trip_s: f64,
    /// Whether its CPU time is seen, and whether it has one thread on several cores.
    seen: bool,
    one_thread: bool,
    /// Whether it may run on the Tester's cores, so that what others took of them is not known.
    shares: bool,
    /// Share of the time in which the Tester waits for a core, where the server is not seen.
    waits: f64,
    /// Largest share of the server's core that others take, drawn anew in each trial.
    foreign: f64,
    /// Smallest speed of its core, as a share of the full one; drawn anew in each trial.
    speed: f64,
    /// By how much more CPU each further long loop of a visit needs, and the number of those so far.
    drift: f64,
    loops: u32,
    rng: Rng,
}

impl Simulated {
    fn new() -> Self {
        Simulated {
            demand_s: 40e-6,
            cores: 1,
            dropped_s: 0.0,
            connection_s: 0.0,
            queries_per_connection: None,
            wrong: 0.0,
            idle: 0.0,
            plateau: f64::MAX,
            drops: false,
            fails: u32::MAX,
            is_down: false,
            void_loads: 0,
            tester: 200_000.0,
            holds: u32::MAX,
            trip_s: 1e-3,
            seen: true,
            one_thread: false,
            shares: false,
            waits: 0.0,
            foreign: 0.0,
            speed: 1.0,
            drift: 0.0,
            loops: 0,
            rng: Rng::new(1),
        }
    }

    /// Returns a random factor near 1, at most 1.5 times `spread` away from it.
    fn noise(&mut self, spread: f64) -> f64 {
        1.0 + spread * (self.rng.unit() + self.rng.unit() + self.rng.unit() - 1.5)
    }
}

impl Bench for Simulated {
    fn trial(&mut self, spec: &TrialSpec) -> Result<Trial, BenchError> {
        let foreign = self.foreign * self.rng.unit();
        let threads = if self.one_thread { 1.0 } else { self.cores as f64 };
        let slower = if self.speed < 1.0 { (1.0 - self.speed) * self.rng.unit() } else { 0.0 };
        let speed = 1.0 - slower;
        let queries = spec.queries_per_connection.or(self.queries_per_connection);
        let connecting_s = queries.map_or(0.0, |queries| self.connection_s / queries as f64);
        let slowed = self.noise(0.02) / speed * (1.0 + self.drift * f64::from(self.loops));
        self.loops += u32::from(spec.duration >= Nanos::from_secs(1));
        let demand_s = (self.demand_s + connecting_s) * slowed;
        let by_cpu = (1.0 - foreign) * threads / demand_s;
        let (plateau, drops) = if self.is_down { (0.0, true) } else { (self.plateau, self.drops) };
        let most = by_cpu.min(plateau).min(self.tester) * self.noise(0.01);
        let seconds = spec.duration.as_secs_f64();
        let bursts = |window| window > self.holds;
        let burst = matches!(spec.pacing, Pacing::Window { outstanding } if bursts(outstanding));
        let (offered, answered) = match spec.pacing {
            Pacing::Window { .. } if burst => {
                let answered = (f64::from(self.holds) / self.trip_s).min(most);
                (answered / 0.95, answered)
            }
            Pacing::Window { outstanding } => {
                let asked = f64::from(outstanding) / self.trip_s;
                let answered = asked.min(most);
                (if drops { asked.min(self.tester) } else { answered }, answered)
            }
            Pacing::CappedWindow { outstanding, rate } => {
                let asked = (f64::from(outstanding) / self.trip_s).min(rate.get());
                (asked.min(self.tester), asked.min(most))
            }
            Pacing::Constant { rate } => (rate.get(), rate.get().min(most)),
            _ => panic!("{:?}", spec.pacing),
        };
        let mut void = (foreign > 0.05).then_some(Void::ForeignOnServer { share: foreign });
        if self.void_loads > 0 && matches!(spec.pacing, Pacing::Constant { .. }) {
            self.void_loads -= 1;
            void = Some(Void::Interrupted);
        }
        let mut trial = scripted::trial(spec, offered, true, Limiter::Unknown, void);
        (trial.sent, trial.answered) = ((offered * seconds) as u64, (answered * seconds) as u64);
        (trial.valid, trial.lost) = (trial.answered, trial.sent - trial.answered);
        if burst {
            trial.conditions.engine = Some(EngineKind::Kernel);
            trial.drops.tester_send = trial.lost;
        }
        let wrong = (self.wrong * trial.answered as f64) as u64;
        trial.valid -= wrong;
        trial.invalid = [("servfail".to_owned(), wrong)].into();
        trial.passed = None;
        trial.connections = queries.map(|queries| Connections {
            queries_per_connection: Some(queries),
            // Each client has one before it sends.
            clients: 100,
            established: 100 + trial.answered / queries,
            ..Connections::default()
        });
        let dropped_s = (offered - answered) * seconds * self.dropped_s * slowed;
        let spent_s = answered * seconds * demand_s + dropped_s;
        let cpu = Cpu {
            spent_s: Some(spent_s),
            busiest_thread: Some((spent_s / seconds / threads).min(1.0)),
            threads: Some(if self.one_thread { 1 } else { self.cores as u32 }),
            foreign: (!self.shares).then_some(foreign),
            work_ns: Some((700.0 / speed) as u64),
            full_speed_work_ns: Some(700),
            cpus: (1..=self.cores).collect(),
            ..Cpu::default()
        };
        let busy = (answered / self.tester).min(1.0);
        let run_delay = Some(self.waits);
        let tester = Cpu { busy, run_delay, foreign: Some(0.0), cpus: vec![0], ..Cpu::default() };
        let dut = self.seen.then(|| ("dut".to_owned(), cpu));
        trial.cpu = dut.into_iter().chain([("tester".to_owned(), tester)]).collect();
        Ok(trial)
    }

    fn hidden_cpu(&self) -> Option<Seen> {
        self.shares.then_some(Seen::SharedCore)
    }

    fn idle_share(&mut self, _: Nanos) -> Result<Option<f64>, BenchError> {
        Ok(self.seen.then_some(self.idle))
    }
}

/// Makes rounds of servers side by side until they are enough.
fn measured(servers: &mut [Simulated]) -> Vec<CellRecord> {
    rounds::measured(servers, "repeats = 24", |server, round| {
        (server.is_down, server.loops) = ((round + 1) % server.fails == 0, 0);
    })
}

fn one(mut server: Simulated) -> (ServerCapacity, CellRecord) {
    let cell = measured(std::slice::from_mut(&mut server)).remove(0);
    (cell.capacity.clone().expect("a capacity"), cell)
}

/// Asserts that a capacity is within 2 % of the truth, and says with what basis.
fn near(found: &ServerCapacity, truth: f64, basis: Basis) {
    assert!((found.qps / truth - 1.0).abs() < 0.02, "{found:?}, not {truth}");
    assert_eq!((found.basis, found.exceeded), (basis, false), "{found:?}");
    assert!(found.low_qps <= found.qps && found.qps <= found.high_qps, "{found:?}");
}

#[test]
fn a_server_whose_cpu_is_the_limit_is_saturated() {
    let (found, cell) = one(Simulated::new());
    near(&found, 25_000.0, Basis::Saturated);
    assert!((found.cpu_us_per_answer.expect("known") / 40.0 - 1.0).abs() < 0.02, "{found:?}");
    assert_eq!((found.rounds, cell.rounds.len(), cell.repeats), (8, 8, 8));
    assert!(cell.void_repeats.is_empty());
    // A millisecond at 25,000 a second is 25 queries; two larger windows gave no more.
    assert!((32..=128).contains(&found.window), "{found:?}");
    let [two, four] = [Simulated::new(), Simulated::new()].map(|s| Simulated { cores: 2, ..s });
    near(&one(two).0, 50_000.0, Basis::Saturated);
    let (found, _) = one(Simulated { one_thread: true, ..four });
    near(&found, 25_000.0, Basis::Saturated);
    assert!(matches!(found.seen[..], [Seen::FullThread(_)]), "{found:?}");
}

#[test]
fn on_cores_of_the_tester_a_server_has_the_time_of_its_own_processes() {
    let shares = || Simulated { shares: true, ..Simulated::new() };
    let (found, cell) = one(shares());
    near(&found, 25_000.0, Basis::Saturated);
    assert_eq!((&found.seen[..], cell.limiter), (&[Seen::SharedCore][..], Limiter::Dut));
    assert!((found.cpu_us_per_answer.expect("known") / 40.0 - 1.0).abs() < 0.02, "{found:?}");
    // What it left of the cores may have been the Tester's.
    let (found, cell) = one(Simulated { plateau: 10_000.0, ..shares() });
    near(&found, 10_000.0, Basis::Plateau);
    assert_eq!((&found.seen[..], cell.limiter), (&[Seen::SharedCore][..], Limiter::Target));
    assert!((found.cpu_us_per_answer.expect("known") / 40.0 - 1.0).abs() < 0.02, "{found:?}");
    // The server ran for 40 % of the time: a Tester that waited for much longer waited for others.
    for (waited, by_others) in [(0.5, false), (0.8, true)] {
        let mut cell = cell.clone();
        cell.rounds.iter_mut().for_each(|round| round.tester_foreign = Some(waited));
        let found = capacity_of(&cell).expect("a capacity");
        assert_eq!(found.exceeded, by_others, "{waited}: {found:?}");
        assert_eq!(found.seen.contains(&Seen::Others(waited)), by_others, "{found:?}");
    }
}

#[test]
fn void_loads_are_offered_again_and_cost_no_round() {
    for void_loads in [1, 2, 3] {
        let (found, cell) = one(Simulated { void_loads, ..Simulated::new() });
        assert_eq!((found.rounds, cell.void_repeats.len()), (8, 0));
        assert_eq!(cell.loads.len(), 5, "{:?}", cell.loads);
        let offered = cell.trials.iter().filter(|t| t.rate_qps == cell.loads[0].asked_qps).count();
        assert_eq!(offered, 4 - void_loads.max(2) as usize, "{void_loads} of four rounds");
    }
}

#[test]
fn what_others_take_of_the_core_is_no_limit_of_the_server() {
    let (found, cell) = one(Simulated { foreign: 0.5, ..Simulated::new() });
    near(&found, 25_000.0, Basis::Saturated);
    assert!(cell.trials.iter().all(|t| t.trial.void == Voidness(None)), "disturbed, but not void");
}

#[test]
fn a_saturated_server_is_measured_at_the_full_speed_of_its_core() {
    let (found, _) = one(Simulated { speed: 0.5, ..Simulated::new() });
    near(&found, 25_000.0, Basis::Saturated);
    assert!(matches!(found.seen[..], [Seen::SlowCore(share)] if share < 0.9), "{found:?}");
    assert!((found.cpu_us_per_answer.expect("known") / 40.0 - 1.0).abs() < 0.02, "{found:?}");
    // A limit of its own is none of its core.
    let limited = Simulated { speed: 0.5, plateau: 10_000.0, ..Simulated::new() };
    near(&one(limited).0, 10_000.0, Basis::Plateau);
}

#[test]
fn a_limit_of_its_own_is_a_plateau() {
    let (found, _) = one(Simulated { plateau: 10_000.0, ..Simulated::new() });
    near(&found, 10_000.0, Basis::Plateau);
    assert!(matches!(found.seen[..], [Seen::CpuLeft(share)] if (share - 0.6).abs() < 0.02));
    // A token bucket that polls: it drops what is above its rate, and its CPU says nothing.
    let bucket = Simulated { plateau: 20_000.0, drops: true, idle: 1.0, ..Simulated::new() };
    let (found, cell) = one(bucket);
    near(&found, 20_000.0, Basis::Plateau);
    assert!(matches!(found.seen[..], [Seen::Polls(_), Seen::Unanswered(_)]), "{found:?}");
    assert_eq!(found.cpu_us_per_answer, None);
    let last = cell.windows.last().expect("a step");
    assert_eq!((found.window, found.rounds), (4_096, 4), "{:?}", cell.windows);
    assert!(last.most_qps.is_some() && (last.qps / 20_000.0 - 1.0).abs() < 0.02, "{last:?}");
    let (found, _) = one(Simulated { seen: false, ..Simulated::new() });
    near(&found, 25_000.0, Basis::Plateau);
    assert!(found.seen.contains(&Seen::NoCpu), "{found:?}");
}

#[test]
fn a_tester_that_ends_first_is_said() {
    let (found, cell) = one(Simulated { tester: 22_000.0, ..Simulated::new() });
    near(&found, 25_000.0, Basis::Demand);
    assert_eq!(cell.limiter, Limiter::TesterCpu);
    let (found, _) = one(Simulated { tester: 10_000.0, ..Simulated::new() });
    assert!(found.exceeded && (found.qps / 10_000.0 - 1.0).abs() < 0.02, "{found:?}");
    assert!(found.seen.iter().any(|seen| matches!(seen, Seen::TesterBusy(_))), "{found:?}");
}

#[test]
fn a_way_that_holds_no_larger_window_is_no_limit_of_the_server() {
    let server = Simulated { demand_s: 5e-6, tester: 1e6, holds: 64, ..Simulated::new() };
    near(&one(server).0, 200_000.0, Basis::Saturated);
}

#[test]
fn a_plateau_that_others_lowered_is_a_lower_bound() {
    let polls = Simulated { idle: 0.4, ..Simulated::new() };
    let (found, cell) = one(Simulated { foreign: 0.8, ..polls.clone() });
    assert!(found.exceeded && found.qps < 24_000.0, "{found:?}");
    assert!(found.seen.iter().any(|seen| matches!(seen, Seen::Others(_))), "{found:?}");
    assert_eq!(cell.limiter, Limiter::Unknown);
    // A Tester that waits for its core shows no limit, except of a server that drops what it was offered.
    let unseen = Simulated { seen: false, waits: 0.4, ..Simulated::new() };
    let (found, cell) = one(unseen.clone());
    assert!(found.exceeded && cell.limiter == Limiter::Unknown, "{found:?}");
    let (found, _) = one(Simulated { plateau: 20_000.0, drops: true, ..unseen });
    near(&found, 20_000.0, Basis::Plateau);
    // Where half of the rounds or more were left alone, they say it.
    let (found, _) = one(Simulated { foreign: 0.03, ..polls });
    near(&found, 25_000.0, Basis::Plateau);
}

#[test]
fn ratios_are_paired_with_the_baseline() {
    let slower = Simulated { demand_s: 42e-6, rng: Rng::new(2), ..Simulated::new() };
    let same = Simulated { rng: Rng::new(3), ..Simulated::new() };
    let cells = measured(&mut [Simulated::new(), slower, same]);
    assert_eq!(cells[0].ratio, None);
    let [slower, same] = [1, 2].map(|i| cells[i].ratio.clone().expect("a ratio"));
    assert_eq!(slower.baseline, "first");
    assert!(
        slower.low < 40.0 / 42.0 && 40.0 / 42.0 < slower.high && slower.high < 1.0,
        "{slower:?}"
    );
    assert!(same.low < 1.0 && 1.0 < same.high, "{same:?}");
}

#[test]
fn latency_and_loss_are_those_of_loads_at_shares_of_the_capacity() {
    let (found, cell) = one(Simulated::new());
    let shares: Vec<f64> = cell.loads.iter().map(|load| load.share).collect();
    assert_eq!(shares, [0.25, 0.5, 0.8, 0.9, 1.0]);
    for load in &cell.loads {
        assert!((load.asked_qps / (load.share * found.qps) - 1.0).abs() < 0.05, "{load:?}");
        let of_load = cell.trials.iter().filter(|t| t.rate_qps == load.asked_qps);
        assert_eq!(of_load.count(), 2, "{load:?}");
        assert!(load.reached, "{load:?}");
        assert_eq!(load.unanswered < 0.001, load.share < 0.95, "{load:?}");
    }
}

#[test]
fn an_open_loop_checks_a_server_whose_cpu_is_not_known() {
    let shares = |cell: &CellRecord| cell.loads.iter().map(|load| load.share).collect::<Vec<_>>();
    let unseen = Simulated { seen: false, plateau: 10_000.0, ..Simulated::new() };
    let polls = Simulated { seen: true, idle: 0.5, ..unseen.clone() };
    for server in [&unseen, &polls] {
        let (found, cell) = one(server.clone());
        near(&found, 10_000.0, Basis::Plateau);
        assert_eq!(shares(&cell), [0.25, 0.5, 0.8, 0.9, 1.0, 1.2]);
    }
    // The largest window has its places for less than that.
    let (found, cell) = one(Simulated { trip_s: 0.8, ..unseen });
    assert!(found.exceeded && (found.qps / 5_120.0 - 1.0).abs() < 0.05, "{found:?}");
    assert!(matches!(found.seen[..], [Seen::NoCpu, Seen::OpenLoop(qps)] if qps > 6_000.0));
    assert_eq!(cell.limiter, Limiter::Unknown);
}

#[test]
fn servers_that_are_compared_by_their_answers_have_one_window() {
    let unseen = Simulated { seen: false, ..Simulated::new() };
    let mut cells = measured(&mut [unseen.clone(), unseen, Simulated::new()]);
    let found = |cell: &CellRecord| Known::of(cell).step.expect("a window").window;
    let step = |window, qps| WindowStep { window, qps, ..WindowStep::default() };
    // A disturbed search ended at once.
    cells[0].windows = vec![step(16, 25_000.0), step(32, 20_000.0), step(64, 20_000.0)];
    cells[1].windows = vec![step(16, 15_000.0), step(64, 25_000.0)];
    let known = found(&cells[2]);
    assert!(align_windows(&mut cells.iter_mut().collect::<Vec<_>>()));
    assert_eq!([0, 1, 2].map(|i| found(&cells[i])), [64, 64, known]);
    assert_eq!([0, 1, 2].map(|i| cells[i].rounds.len()), [0, 8, 8]);
    // Where it loses queries, the smaller one stays.
    cells[0].windows = vec![step(16, 25_000.0), WindowStep { lost: 0.005, ..step(64, 25_000.0) }];
    cells[0].rounds = cells[1].rounds.clone();
    assert!(!align_windows(&mut cells.iter_mut().collect::<Vec<_>>()));
    assert_eq!((found(&cells[0]), cells[0].rounds.len()), (16, 8));
}

#[test]
fn builds_of_one_server_have_one_window_and_other_servers_their_own() {
    let slower = Simulated { demand_s: 80e-6, ..Simulated::new() };
    let mut cells = measured(&mut [Simulated::new(), Simulated::new(), slower]);
    let steps = |demand_us: f64, windows: [(u32, f64); 3]| {
        let step = |(window, qps)| WindowStep {
            window,
            qps,
            cpu_us_per_answer: Some(demand_us * (1.0 + 1.0 / f64::from(window))),
            ..WindowStep::default()
        };
        windows.map(step).to_vec()
    };
    cells[0].windows = steps(40.0, [(16, 25_000.0), (32, 24_000.0), (64, 24_000.0)]);
    cells[1].windows = steps(42.0, [(16, 20_000.0), (32, 24_000.0), (128, 24_000.0)]);
    cells[2].windows = steps(80.0, [(16, 12_000.0), (32, 10_000.0), (128, 10_000.0)]);
    let windows = |cells: &[CellRecord]| {
        cells.iter().map(|cell| Known::of(cell).step.expect("a window").window).collect::<Vec<_>>()
    };
    let rounds = |cells: &[CellRecord]| cells.iter().map(|c| c.rounds.len()).collect::<Vec<_>>();
    assert_eq!(windows(&cells), [16, 128, 16]);
    // Two of its rounds had the larger window.
    for t in cells[0].trials.iter_mut().filter(|t| t.repeat >= 6) {
        t.trial.conditions.pacing = Pacing::Window { outstanding: 128 }.into();
    }
    assert!(align_windows(&mut cells.iter_mut().collect::<Vec<_>>()));
    assert_eq!(windows(&cells), [128, 128, 16]);
    assert_eq!(rounds(&cells), [2, 8, 8]);
    assert!(!align_windows(&mut cells.iter_mut().collect::<Vec<_>>()));
    // At other settings it is another question.
    cells[1].windows = steps(42.0, [(16, 20_000.0), (32, 20_000.0), (256, 24_000.0)]);
    cells[1].settings.insert("cache".to_owned(), "on".to_owned());
    assert!(!align_windows(&mut cells.iter_mut().collect::<Vec<_>>()));
    assert_eq!(windows(&cells), [128, 256, 16]);
}

#[test]
fn a_visit_without_an_answer_is_void() {
    for fails in [1, 2, 3] {
        let mut server = Simulated { fails, ..Simulated::new() };
        let cell = measured(std::slice::from_mut(&mut server)).remove(0);
        let found = cell.capacity.as_ref();
        assert_eq!(found.is_some(), fails > 1, "{found:?}");
        if let Some(found) = found {
            near(found, 25_000.0, Basis::Saturated);
        }
        let is_said = |void: &VoidRepeat| void.why == "no query was answered";
        assert!(!cell.void_repeats.is_empty() && cell.void_repeats.iter().all(is_said));
    }
}

#[test]
fn streams_have_the_demand_of_a_query_and_of_a_connection() {
    for (queries, foreign, speed) in [(1, 0.0, 1.0), (4, 0.5, 1.0), (1, 0.0, 0.7)] {
        let queries_per_connection = Some(queries);
        // Of 20 seeds one or two find a cost where there is none: the intervals are of 95 %.
        let rng = Rng::new(2);
        let own = Simulated { foreign, speed, queries_per_connection, rng, ..Simulated::new() };
        let (found, cell) = one(Simulated { connection_s: 400e-6, ..own.clone() });
        near(&found, 1.0 / (40e-6 + 400e-6 / queries as f64), Basis::Saturated);
        let streams = found.streams.expect("connections were opened");
        assert!((streams.cpu_us_per_query / 40.0 - 1.0).abs() < 0.1, "{streams:?}");
        assert!((streams.cpu_us_per_connection / 400.0 - 1.0).abs() < 0.1, "{streams:?}");
        assert!(streams.query_low_us < 42.0 && streams.query_high_us > 38.0, "{streams:?}");
        assert!(streams.connection_low_us < 420.0 && streams.connection_high_us > 380.0);
        // The second loop is none of the cell's: its trials and figures are those of its own setting.
        assert_eq!(cell.longer_connections.len(), cell.rounds.len());
        let of_trial =
            |t: &record::TrialRecord| t.trial.connections.as_ref()?.queries_per_connection;
        assert!(cell.trials.iter().all(|t| of_trial(t) == Some(queries)));
        assert_eq!(one(own).0.streams, None, "connections that cost nothing");
    }
    let kept = Simulated { connection_s: 400e-6, ..Simulated::new() };
    let (found, cell) = one(kept.clone());
    assert_eq!((found.streams, cell.longer_connections.len()), (None, 0));
    // A server that polls hides both.
    let polls = Simulated { idle: 0.5, queries_per_connection: Some(1), ..kept };
    let (found, cell) = one(polls);
    assert_eq!((found.streams, cell.longer_connections.len()), (None, 0));
}

#[test]
fn a_drift_within_visits_moves_both_demands_of_streams() {
    let connections = Simulated { connection_s: 400e-6, ..Simulated::new() };
    let (found, _) = one(Simulated { drift: 0.1, queries_per_connection: Some(4), ..connections });
    let streams = found.streams.expect("connections were opened");
    // With the second loop always last it would be 46 and 376.
    assert!((streams.cpu_us_per_query / 42.0 - 1.0).abs() < 0.05, "{streams:?}");
    assert!((streams.cpu_us_per_connection / 420.0 - 1.0).abs() < 0.05, "{streams:?}");
}

#[test]
fn queries_that_are_dropped_or_answered_wrong_have_their_share_of_the_cpu() {
    let share = |found: &ServerCapacity| {
        found.seen.iter().find_map(|seen| match seen {
            Seen::CpuOfUnanswered(share) => Some(*share),
            _ => None,
        })
    };
    let drops = Simulated { plateau: 10_000.0, drops: true, ..Simulated::new() };
    // Twice what it answers is offered: 10 us for each dropped query beside 40 us for each answer.
    for speed in [1.0, 0.6] {
        let (found, _) = one(Simulated { dropped_s: 10e-6, speed, ..drops.clone() });
        near(&found, 10_000.0, Basis::Plateau);
        let share = share(&found).expect("a loop without loss");
        assert!((share - 0.2).abs() < 0.05, "{found:?}");
    }
    // No loop is without wrong answers.
    let (found, _) = one(Simulated { wrong: 0.05, ..Simulated::new() });
    assert!(found.seen.iter().any(|seen| matches!(seen, Seen::Unanswered(_))), "{found:?}");
    assert_eq!(share(&found), None);
}

#[test]
fn a_closed_loop_has_names_for_what_the_server_answers() {
    let text = "name = \"x\"\ntitle = \"X\"\nrole = \"dns64\"\nservers = [\"x\"]\nmethod = \"closed\"\n\
                [closed]\nduration = \"1s\"\n";
    let experiment = Experiment::parse(text, Path::new("x.toml")).expect("valid");
    let settings = &experiment.points[0].settings;
    let mut cell = CellRecord::new("x", BTreeMap::new(), "closed");
    let (mut of_each, mut names) = (Vec::new(), NameBudget::new(1 << 25, false));
    // A server of two million answers a second, whose loops end with their names.
    let mut bench = Trials(|spec: &TrialSpec| {
        of_each.push(spec.names);
        let duration_s = spec.duration.as_secs_f64().min(spec.names as f64 / 2e6);
        let (sent, valid) = ((2e6 * duration_s) as u64, (2e6 * duration_s) as u64);
        let trial = scripted::trial(spec, 2e6, true, Limiter::Dut, None);
        Ok(Trial { duration_s, sent, valid, ..trial })
    });
    for repeat in 0..2 {
        let known = settings.clone().knowing(&cell);
        let found = visit(&known, &mut bench, &mut names, repeat, &mut |_| ()).expect("a visit");
        add_visit(&mut cell, settings, found, &Circumstances::default());
    }
    assert_eq!(of_each, [500_000, 8_000_000, 8_000_000]);
    assert_eq!(cell.figures["qps"].values, [2e6, 2e6]);
}

#[test]
fn a_highest_rate_that_a_server_keeps_up_with_is_raised() {
    // Something disturbed it while windows were tried.
    let mut server = [Simulated { drops: true, ..Simulated::new() }];
    let disturbed = |server: &mut Simulated, round: u32| {
        server.plateau = if round == 0 { 5_000.0 } else { 20_000.0 };
    };
    let cell = rounds::measured(&mut server, "repeats = 24", disturbed).remove(0);
    near(cell.capacity.as_ref().expect("a capacity"), 20_000.0, Basis::Plateau);
    assert!(cell.rounds.len() >= 4 && cell.rounds.iter().all(|round| round.qps > 19_000.0));
    // Loads are shares of what it answers, not of what it was offered first.
    assert!(cell.loads.iter().all(|load| load.asked_qps > 0.9 * load.share * 20_000.0));
}
