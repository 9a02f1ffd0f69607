//! Probabilistic bisection against a server whose core changes its speed, whose trials have chance in them, and whose Tester has an end.

mod scripted;
#[path = "scripted/searches.rs"]
mod searches;

use std::cell::Cell;
use std::rc::Rc;

use experiment::{
    Bench, BenchError, Circumstances, NameBudget, Progress, Repeats, Rule, Search, SlowCores,
    TrialSpec,
};
use measure::{Limiter, Rng, Void, stats};
use record::{Capacity, CellRecord, Cpu, Trial};
use searches::qps;

/// A simulated server.
struct Server {
    rng: Rng,
    /// Number at which half of the trials pass on a core at full speed.
    capacity: f64,
    /// Spread of outcomes, as a natural logarithm.
    spread: f64,
    /// Times as long as at full speed that work takes in a trial: one of these at random.
    slowness: &'static [f64],
    /// Whether the times of that work are measured.
    measured: bool,
    /// Number from which on the Tester is void.
    tester: f64,
    trials: usize,
    /// Limiter of its failures.
    limiter: Rc<Cell<Limiter>>,
}

impl Server {
    fn new(seed: u64, capacity: f64) -> Self {
        let rng = Rng::new(seed);
        let slowness = &[1.0, 1.05, 1.2, 1.3, 1.45];
        Server {
            rng,
            capacity,
            spread: 0.05,
            slowness,
            measured: true,
            tester: f64::INFINITY,
            trials: 0,
            limiter: Rc::new(Cell::new(Limiter::Dut)),
        }
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
            None => self.limiter.get(),
        };
        let mut trial = scripted::trial(spec, number, passed, limiter, void);
        let (full, took) = (Some(800), Some((800.0 * slowness) as u64));
        let cpu = Cpu { work_ns: took, full_speed_work_ns: full, ..Cpu::default() };
        if self.measured {
            trial.cpu.insert("dut".to_owned(), cpu);
        }
        Ok(trial)
    }
}

/// Returns the search of the method `clients`.
fn search() -> Search {
    Search {
        rule: Rule::Probabilistic,
        start: qps(2_000.0),
        min: qps(100.0),
        max: qps(9_000.0),
        ..searches::search()
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
        assert!(estimate.speed.is_some_and(|speed| (0.7..0.95).contains(&speed)), "{estimate:?}");
        assert!(estimate.passed_qps.is_some() && found.failed_qps.is_some(), "{estimate:?}");
        trials += server.trials;
        far += usize::from((qps / server.capacity).ln().abs() > 0.15);
        within += usize::from((estimate.low_qps..=estimate.high_qps).contains(&server.capacity));
    }
    // The interval is for 90 %.
    assert!(far <= 2 && within >= 80 && trials < 1_800, "{far} far, {within}, {trials} trials");
}

#[test]
fn its_verdict_names_the_interval_the_limiter_and_the_speed() {
    let mut server = Server { slowness: &[1.25], spread: 0.01, ..Server::new(1, 3_000.0) };
    let found = run(&search(), &mut server);
    insta::assert_snapshot!(found.verdict, @"3078 qps (2841 to 3351 with 90 %) at full speed of the server's cores, of which they had 80 %, limited by dut");
    // At full speed nothing was corrected.
    let mut server = Server { slowness: &[1.0], spread: 0.01, ..Server::new(1, 3_000.0) };
    insta::assert_snapshot!(run(&search(), &mut server).verdict, @"3017 qps (2799 to 3252 with 90 %), limited by dut");
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
    insta::assert_snapshot!(found.verdict, @"at least 4344 qps at full speed of the server's cores, of which they had 88 %; Tester-limited from 3010 qps on (tester-cpu)");
    assert!(found.at_least && found.limiter == Limiter::TesterCpu);
    // It can do enough for a slower server, and for one that fails a little below its end.
    for capacity in [2_000.0, 2_600.0] {
        let found = run(&search(), &mut Server { tester: 3_000.0, ..Server::new(3, capacity) });
        assert!(!found.at_least && found.limiter == Limiter::Dut, "{}", found.verdict);
    }
    // It can do less than a tenth of the start.
    let found = run(&search(), &mut Server { tester: 170.0, ..Server::new(3, 8_000.0) });
    assert!(found.at_least && found.qps.is_some_and(|qps| qps > 120.0), "{}", found.verdict);
    let found = run(&search(), &mut Server { tester: 1.0, ..Server::new(3, 8_000.0) });
    assert_eq!(found.verdict, "void at every rate down to 100 qps (tester-cpu)");
    assert_eq!(found.qps, None);
}

#[test]
fn what_the_server_does_not_limit_is_a_lower_bound() {
    let mut server = Server::new(11, 3_000.0);
    server.limiter.set(Limiter::AuthDns);
    let found = run(&search(), &mut server);
    insta::assert_snapshot!(found.verdict, @"at least 2545 qps at full speed of the server's cores, of which they had 86 %, limited by authdns");
    let estimate = found.estimate.expect("an estimate");
    assert_eq!((found.at_least, found.qps), (true, Some(estimate.low_qps)));
}

#[test]
fn a_speed_that_is_not_known_corrects_nothing() {
    let mut server = Server { measured: false, slowness: &[1.25], ..Server::new(1, 3_000.0) };
    let found = run(&search(), &mut server);
    insta::assert_snapshot!(found.verdict, @"2483 qps (2303 to 2703 with 90 %), limited by dut");
    assert_eq!(found.estimate.expect("an estimate").speed, None);
}

#[test]
fn the_ends_of_the_range_end_a_search() {
    for slowness in [&[1.0], &[1.3]] {
        let found = run(&search(), &mut Server { slowness, ..Server::new(5, 40_000.0) });
        assert_eq!((found.qps, found.at_least), (Some(9_000.0), true), "{}", found.verdict);
        assert_eq!(found.limiter, Limiter::SearchBound);
        assert!(found.tried_qps().is_some_and(|tried| tried * slowness[0] >= 9_000.0));
        let found = run(&search(), &mut Server { slowness, ..Server::new(5, 20.0) });
        assert_eq!(found.verdict, "failed at every rate down to 100 qps, limited by dut");
    }
    // One lucky trial at the upper end does not outweigh what failed.
    let near_the_end = (0..40).filter(|seed| {
        let found = run(&search(), &mut Server::new(*seed, 8_000.0));
        found.limiter == Limiter::SearchBound
    });
    assert!(near_the_end.count() <= 4);
}

#[test]
fn what_most_searches_end_with_counts() {
    let repeats = |limiters: &[Limiter]| {
        let repeats = limiters.len() as u32;
        let all = Repeats { search: search(), repeats, circumstances: Circumstances::default() };
        let mut server = Server::new(2, 3_000.0);
        let mut names = NameBudget::new(1 << 40, false);
        let limiter = server.limiter.clone();
        limiter.set(limiters[0]);
        let mut seen = |progress: Progress<'_>| {
            if let Progress::Search { repeat, .. } = progress {
                limiter.set(limiters.get(repeat as usize + 1).copied().unwrap_or_default());
            }
        };
        all.run(&mut server, "simulated", &mut names, None, &mut seen).0
    };
    let (dut, auth) = (Limiter::Dut, Limiter::AuthDns);
    let of = |cell: &CellRecord, at_least: bool| {
        let found = cell.capacities.iter().filter(|c| c.at_least == at_least);
        stats::median(&found.filter_map(|c| c.qps).collect::<Vec<f64>>())
    };
    for (limiters, at_least) in [
        (&[dut, dut, auth][..], false),
        (&[auth, dut], false),
        (&[auth, auth, dut], true),
        (&[auth], true),
    ] {
        let cell = repeats(limiters);
        assert_eq!(
            (cell.at_least, cell.median_qps),
            (at_least, of(&cell, at_least)),
            "{limiters:?}"
        );
        assert!(cell.differs.iter().any(|d| d.starts_with("an estimate from all trials")));
        // The trials that stand for it passed.
        assert!(!cell.deciding().is_empty());
        assert!(cell.deciding().iter().all(|t| t.trial.passed == Some(true)));
        assert!(!cell.representative().is_empty());
    }
}
