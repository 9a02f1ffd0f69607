//! Probabilistic bisection against a server whose core changes its speed, whose trials have chance in them, and whose Tester has an end.

mod scripted;

use experiment::{Bench, BenchError, NameBudget, Rule, Search, SlowCores, TrialSpec};
use measure::{Goal, Limiter, Nanos, OpenPacing, Qps, Rng, Void};
use record::{Capacity, Cpu, Trial};

/// A simulated server.
struct Server {
    rng: Rng,
    /// Number at which half of the trials pass on a core at full speed.
    capacity: f64,
    /// Spread of outcomes, as a natural logarithm.
    spread: f64,
    /// Times as long as at full speed that work takes in a trial: one of these at random.
    slowness: &'static [f64],
    /// Number from which on the Tester is void.
    tester: f64,
    trials: usize,
}

impl Server {
    fn new(seed: u64, capacity: f64) -> Self {
        let rng = Rng::new(seed);
        let slowness = &[1.0, 1.05, 1.2, 1.3, 1.45];
        Server { rng, capacity, spread: 0.05, slowness, tester: f64::INFINITY, trials: 0 }
    }

    /// A number from 0 to 1.
    fn chance(&mut self) -> f64 {
        self.rng.below(1 << 30) as f64 / f64::from(1 << 30)
    }
}

impl Bench for Server {
    fn trial(&mut self, spec: &TrialSpec) -> Result<Trial, BenchError> {
        assert_eq!(spec.slow_cores, SlowCores::Count);
        self.trials += 1;
        let number = spec.pacing.peak_rate().expect("a rate").get();
        let slowness = self.slowness[self.rng.below(self.slowness.len() as u64) as usize];
        let above = (number * slowness / self.capacity).ln() / self.spread;
        let passed = self.chance() < 0.95 / (1.0 + above.exp());
        let starved = Void::Starved { run_delay: 0.5, foreign: 0.0 };
        let void = Some(starved).filter(|_| number >= self.tester);
        let limiter = match &void {
            Some(void) => void.limiter(),
            None if passed => Limiter::Offered,
            None => Limiter::Dut,
        };
        let mut trial = scripted::trial(spec, number, passed, limiter, void);
        let (full, took) = (Some(800), Some((800.0 * slowness) as u64));
        let cpu = Cpu { work_ns: took, full_speed_work_ns: full, ..Cpu::default() };
        trial.cpu.insert("dut".to_owned(), cpu);
        Ok(trial)
    }
}

fn qps(rate: f64) -> Qps {
    Qps::new(rate).expect("a rate")
}

fn search() -> Search {
    Search {
        rule: Rule::Probabilistic,
        goal: Goal::zero_loss(),
        start: qps(2_000.0),
        min: qps(100.0),
        max: qps(9_000.0),
        resolution: 0.05,
        duration: Nanos::from_secs(1),
        timeout: Nanos::from_secs(1),
        void_retries: 2,
        near: false,
        client_names: None,
        pacing: OpenPacing::Constant,
    }
}

fn run(search: &Search, server: &mut Server) -> Capacity {
    let mut names = NameBudget::new(1 << 40, false);
    search.run(server, &mut names, 0, &mut |_| ()).expect("the bench does not fail").capacity
}

#[test]
fn the_capacity_at_full_speed_is_found_on_slow_cores() {
    let (mut trials, mut far, mut within) = (0, 0, 0);
    for seed in 0..100 {
        let mut server = Server::new(seed, 700.0 + 50.0 * seed as f64);
        let found = run(&search(), &mut server);
        let estimate = found.estimate.expect("an estimate");
        let qps = found.qps.expect("a capacity");
        assert!(!found.at_least && found.limiter == Limiter::Dut, "{}", found.verdict);
        assert!((0.7..0.95).contains(&estimate.speed), "{estimate:?}");
        assert!(estimate.passed_qps.is_some() && found.failed_qps.is_some(), "{estimate:?}");
        trials += server.trials;
        far += usize::from((qps / server.capacity).ln().abs() > 0.15);
        within += usize::from((estimate.low_qps..=estimate.high_qps).contains(&server.capacity));
    }
    // The interval is for 90 %.
    assert!(far <= 2 && within >= 80 && trials < 1_800, "{far} far, {within}, {trials} trials");
}

#[test]
fn a_search_near_what_was_found_takes_fewer_trials_and_finds_what_is_far() {
    let near = Search { near: true, ..search() };
    let count = |search: &Search, capacity: f64| {
        let mut server = Server::new(7, capacity);
        let found = run(search, &mut server).qps.expect("a capacity");
        assert!((found / capacity).ln().abs() < 0.15, "{found} of {capacity}");
        server.trials
    };
    assert!(count(&near, 2_100.0) <= count(&search(), 2_100.0));
    count(&near, 6_500.0);
    count(&near, 400.0);
}

#[test]
fn a_tester_at_its_end_makes_a_lower_bound() {
    let mut server = Server { tester: 3_000.0, ..Server::new(3, 8_000.0) };
    let found = run(&search(), &mut server);
    assert!(found.at_least && found.limiter == Limiter::TesterCpu);
    // It can do enough for a slower server.
    let found = run(&search(), &mut Server { tester: 3_000.0, ..Server::new(3, 2_000.0) });
    assert!(!found.at_least && found.limiter == Limiter::Dut, "{}", found.verdict);
    let found = run(&search(), &mut Server { tester: 1.0, ..Server::new(3, 8_000.0) });
    assert_eq!(found.qps, None);
}

#[test]
fn the_ends_of_the_range_end_a_search() {
    let found = run(&search(), &mut Server::new(5, 40_000.0));
    assert_eq!((found.qps, found.limiter), (Some(9_000.0), Limiter::SearchBound));
    let found = run(&search(), &mut Server::new(5, 20.0));
    assert_eq!(found.qps, None, "{}", found.verdict);
}
