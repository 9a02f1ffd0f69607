//! The method `capacity` on a machine that others use: real-time processes that take shares of the server's core and of the Tester's, drawn
//! anew every 1 to 4 s, as `benches/disturbed-rounds.py` has them.

use experiment::{Bench, BenchError, TrialSpec};
use measure::{Limiter, Nanos, Pacing, Rng};
use record::{Basis, Cpu, ServerCapacity, Trial};

use crate::scripted::{self, rounds};

/// Period in which a hog takes its share at once.
const PERIOD_S: f64 = 0.01;
/// Time of a query that waits for nothing, and that between two trials.
const TRIP_S: f64 = 2e-4;
const BETWEEN_S: f64 = 0.1;
/// Settings of the method: a minute for five servers is as many rounds.
const SETTINGS: &str = "repeats = 9\ncapacity = { loads = false }";
/// Number of simulated runs of a server.
const RUNS: u64 = 100;

/// A process that takes a share of a core.
#[derive(Clone, Copy, Debug, Default)]
struct Hog {
    most: f64,
    share: f64,
    until_s: f64,
}

/// A server on a core, its Tester on another one, and a hog on each.
#[derive(Clone, Debug)]
struct Machine {
    /// CPU seconds of the server for each answer, by how much of that it needs more with one query outstanding and with twice as many,
    /// and those of the Tester.
    demand_s: f64,
    alone: f64,
    doubled: f64,
    tester_s: f64,
    /// Answers a second at which it ends for another reason than its CPU.
    plateau: f64,
    /// Hogs on the cores of the server and of the Tester.
    hogs: [Hog; 2],
    now_s: f64,
    rng: Rng,
}

impl Machine {
    fn new(seed: u64) -> Self {
        Machine {
            demand_s: 37e-6,
            alone: 1.0,
            doubled: 0.0,
            tester_s: 6e-6,
            plateau: f64::MAX,
            hogs: [0.4, 0.2].map(|most| Hog { most, ..Hog::default() }),
            now_s: 0.0,
            rng: Rng::new(seed),
        }
    }

    /// Returns the answers a second at which the CPU is used up, with so many queries outstanding.
    fn limit(&self, window: f64) -> f64 {
        1.0 / (self.demand_s * (1.0 + self.alone / window + self.doubled * window.log2()))
    }

    /// Draws a factor near 1: a uniform one with this standard deviation.
    fn noise(&mut self, spread: f64) -> f64 {
        1.0 + spread * (self.rng.unit() - 0.5) * 12.0_f64.sqrt()
    }

    /// Goes on for `duration_s`; returns the answers, at a demand and a pacing, and the seconds that each hog took.
    fn run(&mut self, duration_s: f64, demand_s: f64, pacing: Pacing) -> (f64, [f64; 2]) {
        let end_s = self.now_s + duration_s;
        let (mut answers, mut taken_s) = (0.0, [0.0; 2]);
        while self.now_s < end_s {
            for hog in self.hogs.iter_mut().filter(|hog| hog.until_s <= self.now_s) {
                hog.until_s = self.now_s + 1.0 + 3.0 * self.rng.unit();
                hog.share = hog.most * self.rng.unit();
            }
            let until_s = self.hogs.iter().map(|hog| hog.until_s).fold(end_s, f64::min);
            let (step_s, [server, tester]) = (until_s - self.now_s, self.hogs.map(|hog| hog.share));
            let by_cpu = (1.0 - server) / demand_s;
            let most = by_cpu.min((1.0 - tester) / self.tester_s).min(self.plateau);
            let rate = match pacing {
                Pacing::Window { outstanding } => {
                    // While the Tester stands still, the server has the queries of the window.
                    let window = f64::from(outstanding);
                    let missed = (most * tester * PERIOD_S - window).max(0.0) / PERIOD_S;
                    (most - missed).min(window / TRIP_S)
                }
                Pacing::Constant { rate } => most.min(rate.get()),
                _ => panic!("{pacing:?}"),
            };
            answers += rate * step_s;
            taken_s = [taken_s[0] + server * step_s, taken_s[1] + tester * step_s];
            self.now_s = until_s;
        }
        (answers, taken_s)
    }
}

impl Bench for Machine {
    fn trial(&mut self, spec: &TrialSpec) -> Result<Trial, BenchError> {
        let seconds = spec.duration.as_secs_f64();
        let window = spec.pacing.outstanding().map_or(64.0, f64::from);
        let demand_s = 1.0 / self.limit(window) * self.noise(0.025);
        let (answers, taken_s) = self.run(seconds, demand_s, spec.pacing);
        self.run(BETWEEN_S, demand_s, spec.pacing);
        let offered = spec.pacing.peak_rate().map_or(answers / seconds, |rate| rate.get());
        let mut trial = scripted::trial(spec, offered, true, Limiter::Unknown, None);
        (trial.sent, trial.answered) = ((offered * seconds) as u64, answers as u64);
        (trial.valid, trial.lost) = (trial.answered, trial.sent - trial.answered);
        // Others are counted over a little longer than the trial.
        let foreign = taken_s.map(|taken_s| Some(taken_s / seconds * self.noise(0.03)));
        let dut = Cpu {
            spent_s: Some(answers * demand_s),
            foreign: foreign[0],
            cpus: vec![1],
            ..Cpu::default()
        };
        let busy = answers / seconds * self.tester_s;
        let tester = Cpu { busy, foreign: foreign[1], cpus: vec![0], ..Cpu::default() };
        trial.cpu = [("dut".to_owned(), dut), ("tester".to_owned(), tester)].into();
        Ok(trial)
    }

    fn idle_share(&mut self, time: Nanos) -> Result<Option<f64>, BenchError> {
        self.now_s += time.as_secs_f64();
        Ok(Some(0.0))
    }
}

/// Measures one server with the method `capacity`, and returns what its rounds show.
fn capacity(mut machine: Machine) -> ServerCapacity {
    let mut cells = rounds::measured(std::slice::from_mut(&mut machine), SETTINGS, |_, _| ());
    cells.remove(0).capacity.expect("a capacity")
}

#[test]
fn hogs_do_not_make_a_server_slower() {
    let usual = Machine::new(0);
    let [server, tester] = usual.hogs;
    let many = Machine { alone: 4.0, ..usual.clone() };
    let machines = [
        usual.clone(),
        Machine { doubled: 0.02, ..usual.clone() },
        Machine { demand_s: 75e-6, tester_s: 10e-6, ..many.clone() },
        Machine { demand_s: 8e-6, ..many },
        Machine { hogs: [server, Hog::default()], ..usual.clone() },
        Machine { hogs: [Hog::default(), Hog { most: 0.5, ..tester }], ..usual },
    ];
    let (mut held, mut near) = (0, 0);
    for machine in &machines {
        let windows = (4..13).map(|log| machine.limit(f64::from(1 << log)));
        let best = windows.fold(0.0, f64::max);
        for seed in 0..RUNS {
            let found = capacity(Machine { rng: Rng::new(seed), ..machine.clone() });
            let limit = machine.limit(f64::from(found.window));
            assert_eq!((found.basis, found.exceeded), (Basis::Saturated, false), "{found:?}");
            held += usize::from(found.low_qps <= limit && limit <= found.high_qps);
            near += usize::from(limit >= 0.97 * best);
        }
    }
    let runs = machines.len() * RUNS as usize;
    assert!(held * 100 >= runs * 92, "{held} of {runs} intervals have the limit at their window");
    assert!(near * 100 >= runs * 92, "{near} of {runs} windows have nearly the best limit");
}

#[test]
fn a_plateau_among_hogs_is_a_lower_bound() {
    for seed in 0..RUNS {
        let found = capacity(Machine { plateau: 13_000.0, ..Machine::new(seed) });
        assert_eq!((found.basis, found.exceeded), (Basis::Plateau, true), "{found:?}");
        assert!((12_000.0..=13_000.0).contains(&found.qps), "{found:?}");
    }
}
