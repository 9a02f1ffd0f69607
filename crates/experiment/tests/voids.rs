//! Every method on a bench whose trials are void: a figure is made of valid trials only.

use std::fmt::Write;
use std::path::Path;

use experiment::{
    Bench, BenchError, Circumstances, Experiment, GeneratorSpec, GeneratorTimes, LockStepSpec,
    NameBudget, TrialSpec, add_visit, visit,
};
use measure::{Limiter, Void};
use record::{CellRecord, LockStepRow, Trial};

use crate::scripted;

/// A bench that says of each trial, by its number from 0, whether it is void.
struct Disturbed<F> {
    void: F,
    trials: usize,
}

impl<F: FnMut(usize) -> bool> Disturbed<F> {
    fn next(&mut self) -> Option<Void> {
        self.trials += 1;
        let void = (self.void)(self.trials - 1);
        void.then_some(Void::Starved { run_delay: 0.4, foreign: 0.5 })
    }
}

impl<F: FnMut(usize) -> bool> Bench for Disturbed<F> {
    fn trial(&mut self, spec: &TrialSpec) -> Result<Trial, BenchError> {
        let void = self.next();
        let limiter = if void.is_some() { Limiter::TesterCpu } else { Limiter::Dut };
        let rate = spec.pacing.peak_rate().map_or(1_000.0, |rate| rate.get());
        Ok(scripted::trial(spec, rate, void.is_none(), limiter, void))
    }

    fn lockstep(&mut self, spec: &LockStepSpec) -> Result<LockStepRow, BenchError> {
        let void = self.next();
        let trial = TrialSpec {
            first_name: spec.first_name,
            names: 256,
            ..TrialSpec::new(
                measure::Pacing::LockStep { threads: 1, experiments: 1, anew: false },
                spec.timeout,
                spec.timeout,
            )
        };
        Ok(LockStepRow {
            threads: 1,
            experiments: 1,
            mean_ms: 2.0,
            std_dev_ms: 0.0,
            max_ms: 2.0,
            qps: 128_000.0,
            cpu_percent: None,
            cpu_std_dev: None,
            trial: scripted::trial(&trial, 128_000.0, true, Limiter::Unknown, void),
        })
    }

    fn generate(&mut self, _: &GeneratorSpec) -> Result<GeneratorTimes, BenchError> {
        Ok(GeneratorTimes { mean_s: 0.5, void: self.next(), ..GeneratorTimes::default() })
    }
}

/// Four repeats of a method on a bench: what each trial was, and what the cell says.
fn run(method: &str, void: impl FnMut(usize) -> bool) -> CellRecord {
    let text = format!(
        "name = \"x\"\ntitle = \"x\"\nrole = \"dns64\"\nservers = [\"a\"]\nrepeats = 4\nmethod = \"{method}\"\n\
         [workload]\nnamespace = \"0.0.0.0/2\"\n{}",
        match method {
            "load" => "[load]\nrates = [\"1k\", \"2k\", \"4k\"]\nduration = \"1s\"\n",
            "search" | "clients" =>
                "[search]\ngoal = \"zero-loss\"\nstart = \"1k\"\nmin = \"1k\"\nmax = \"1k\"\nresolution = 0.1\nduration = \"1s\"\n",
            _ => "",
        }
    );
    let experiment =
        Experiment::parse(&text, Path::new("x.toml")).unwrap_or_else(|e| panic!("{e}"));
    let settings = experiment.common();
    let mut cell = CellRecord::new("a", Default::default(), settings.method.recorded());
    let mut bench = Disturbed { void, trials: 0 };
    let mut names = NameBudget::new(1 << 30, false);
    for repeat in 0..4 {
        let mut trials = Vec::new();
        let found = visit(settings, &mut bench, &mut names, repeat, &mut |trial| {
            trials.push(trial.clone())
        })
        .expect("a void repeat is no error");
        cell.trials.extend(trials);
        add_visit(&mut cell, settings, found, &Circumstances::default());
    }
    cell
}

/// A cell in a line: repeats, void ones, and the number of values of each figure.
fn line(cell: &CellRecord) -> String {
    let void: Vec<u32> = cell.void_repeats.iter().map(|void| void.repeat).collect();
    let mut out =
        format!("{} repeats, void {void:?}, capacities {:?};", cell.repeats, cell.found_qps());
    for (name, figure) in &cell.figures {
        let _ = write!(out, " {name} {}", figure.values.len());
    }
    out
}

#[test]
fn a_repeat_that_stays_void_gives_no_figure_and_the_others_do() {
    // The second repeat stays void: its three trials, or those of its three rates.
    let mut out = String::new();
    for method in ["search", "closed", "lockstep", "generators"] {
        let cell = run(method, |trial| (1..4).contains(&trial));
        let _ = writeln!(out, "{method}: {}", line(&cell));
        assert!(!cell.has_repeat(1) && cell.has_repeat(0) && cell.has_repeat(3));
        assert!(!cell.has_repeat(4), "not made yet");
    }
    let load = run("load", |trial| (3..12).contains(&trial));
    let _ = writeln!(out, "load: {}", line(&load));
    insta::assert_snapshot!(out, @r#"
    search: 3 repeats, void [1], capacities [1000.0, 1000.0, 1000.0];
    closed: 3 repeats, void [1], capacities []; qps 3
    lockstep: 3 repeats, void [1], capacities []; experiment_time 3 experiment_time_max 3 experiment_time_std_dev 3 qps 3
    generators: 3 repeats, void [1], capacities []; experiment_time 3 requests_per_second 3 unanswered 3
    load: 3 repeats, void [1], capacities []; highest_answered 3
    "#);
    assert_eq!(load.void_rates(1), [1_000.0, 2_000.0, 4_000.0]);
    assert_eq!(load.void_rates(0), [0.0; 0]);
}

#[test]
fn a_search_over_clients_is_recorded_as_a_search_with_its_unit() {
    let cell = run("clients", |trial| (1..4).contains(&trial));
    assert_eq!((&*cell.method, cell.capacity_unit()), ("search", "clients"));
    assert_eq!((cell.repeats, cell.found_qps()), (3, vec![1_000.0; 3]));
    let verdict = "at least 1000 clients: the search's own upper bound passed";
    assert_eq!(cell.capacities[0].verdict, verdict);
    let why = &cell.void_repeats[0].why;
    assert!(why.starts_with("void at every rate down to 1000 clients (tester-cpu); "), "{why}");
    // All void.
    let cell = run("clients", |_| true);
    assert!(!cell.has_figure() && cell.repeats_made() == 4);
}

#[test]
fn nothing_but_void_trials_is_a_cell_without_a_figure() {
    let mut out = String::new();
    for method in ["search", "closed", "lockstep", "generators", "load"] {
        let cell = run(method, |_| true);
        assert!(!cell.has_figure() && cell.repeats == 0, "{method}: {}", line(&cell));
        assert!(!cell.at_least, "{method}: no figure is a lower bound");
        assert_eq!((cell.repeats_made(), cell.limiter), (4, Limiter::Unknown), "{method}");
        let _ = writeln!(out, "{method}: {}", cell.void_repeats[3].why);
    }
    insta::assert_snapshot!(out, @r#"
    search: void at every rate down to 1000 qps (tester-cpu); the Tester was starved: it waited for its CPU 40 % of the time, other processes used 50 % of its cores: leave the Tester cores of its own (`--cpus 0`, and `taskset -c 1` before the server), or stop what else runs there
    closed: 3 of 3 trials: the Tester was starved: it waited for its CPU 40 % of the time, other processes used 50 % of its cores
    lockstep: 3 of 3 trials: the Tester was starved: it waited for its CPU 40 % of the time, other processes used 50 % of its cores
    generators: 3 of 3 trials: the Tester was starved: it waited for its CPU 40 % of the time, other processes used 50 % of its cores
    load: at every rate, 3 of 3 trials: the Tester was starved: it waited for its CPU 40 % of the time, other processes used 50 % of its cores
    "#);
}

#[test]
fn one_void_rate_of_a_load_is_named() {
    // The highest rate of the first repeat stays void.
    let cell = run("load", |trial| (2..5).contains(&trial));
    insta::assert_snapshot!(line(&cell), @"4 repeats, void [], capacities []; highest_answered 4");
    assert_eq!(cell.figures["highest_answered"].values[..2], [2_000.0, 4_000.0]);
    assert_eq!(cell.void_rates(0), [4_000.0]);
}
