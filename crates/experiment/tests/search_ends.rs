//! When a search begins and ends against a scripted bench: what lower rates cannot change, what an interruption leaves, and how much is
//! left.

use experiment::{BenchError, Circumstances, NameBudget, Repeats, Rule, Search, TrialSpec};
use measure::warning::CoreUser;
use measure::{Limiter, Nanos, Void, Warning};
use record::{Trial, TrialRecord};

use crate::scripted::searches::{qps, rate, search};
use crate::scripted::{self, Trials};

/// A server that takes 26,000 queries a second.
fn server(spec: &TrialSpec, rate: f64) -> Result<Trial, BenchError> {
    let mut trial = scripted::trial(spec, rate, rate <= 26_000.0, Limiter::Dut, None);
    if rate > 26_000.0 {
        trial.valid = (trial.planned as f64 * 26_000.0 / rate) as u64;
    }
    Ok(trial)
}

/// The search by both rules.
fn both() -> [Search; 2] {
    let mlr = Rule::Mlrsearch { also: Vec::new(), duration_sum: Nanos::from_secs(5) };
    [search(), Search { rule: mlr, ..search() }]
}

/// Runs a search; returns its trials, and its void reason, or the error that ended it.
fn run(
    search: &Search,
    mut trial: impl FnMut(&TrialSpec, f64) -> Result<Trial, BenchError>,
) -> (Vec<TrialRecord>, Result<Option<String>, BenchError>) {
    let mut names = NameBudget::new(1 << 40, false);
    let mut seen = Vec::new();
    let mut bench = Trials(|spec: &TrialSpec| trial(spec, rate(spec)));
    let found = search.run(&mut bench, &mut names, 0, &mut |t| seen.push(t.clone()));
    (seen, found.map(|trace| trace.void()))
}

#[test]
fn a_void_that_does_not_depend_on_the_rate_ends_a_search_after_two_rates() {
    let lasting = Void::Starved { run_delay: 0.1, foreign: 0.9 };
    for search in both() {
        let (trials, why) = run(&search, |spec, rate| {
            Ok(scripted::trial(spec, rate, false, Limiter::TesterCpu, Some(lasting.clone())))
        });
        let mut rates: Vec<f64> = trials.iter().map(|trial| trial.rate_qps).collect();
        rates.dedup();
        assert_eq!((rates.len(), trials.len()), (2, 6), "{rates:?}");
        let why = why.expect("no error").expect("void");
        assert!(why.ends_with("or stop what else runs there"), "{why}");
    }
    // What lower rates may change is followed to the lowest one.
    for search in both() {
        let (trials, _) = run(&search, |spec, rate| {
            let void = Void::Starved { run_delay: 0.9, foreign: 0.1 };
            Ok(scripted::trial(spec, rate, false, Limiter::TesterCpu, Some(void)))
        });
        assert_eq!(trials.last().map(|trial| trial.rate_qps.round()), Some(lowest(&search)));
    }
}

#[test]
fn a_process_on_the_testers_cores_ends_a_search_and_is_named() {
    for search in both() {
        let mut bench = Trials(|spec: &TrialSpec| {
            let void = Void::Starved { run_delay: 0.9, foreign: 0.84 };
            let mut trial =
                scripted::trial(spec, rate(spec), false, Limiter::TesterCpu, Some(void));
            trial.warnings.push(Warning::CoreTaken {
                by: CoreUser { command: "cc1".to_owned(), pid: 7 },
                share: 0.84,
                cpus: vec![0],
                free: None,
                is_server: false,
            });
            Ok(trial)
        });
        let circumstances = Circumstances::default();
        let repeats = Repeats { search, repeats: 3, circumstances };
        let mut names = NameBudget::new(1 << 40, false);
        let (record, _) = repeats.run(&mut bench, "x", &mut names, None, &mut |_| ());
        assert_eq!((record.trials.len(), record.void_repeats.len()), (6, 1));
        let why = &record.void_repeats[0].why;
        assert!(why.contains("; cc1 (process 7) used 84 % of the Tester's core 0: keep"), "{why}");
    }
}

/// The lowest rate that a search tries.
fn lowest(search: &Search) -> f64 {
    match search.rule {
        Rule::Rfc8219 => 1_000.0,
        Rule::Mlrsearch { .. } => 1_001.0,
    }
}

#[test]
fn a_search_without_a_valid_answer_ends_after_two_trials() {
    for search in both() {
        let (trials, error) = run(&search, |spec, rate| {
            Ok(Trial { valid: 0, ..scripted::trial(spec, rate, false, Limiter::Dut, None) })
        });
        assert_eq!(trials.len(), 2);
        let error = error.expect_err("no answer").to_string();
        assert!(error.starts_with("no valid answer"), "{error}");
    }
}

#[test]
fn every_rule_begins_at_the_start_rate_and_goes_no_further_than_needed() {
    for search in both() {
        let (trials, _) = run(&search, server);
        assert_eq!(trials[0].rate_qps, 10_000.0);
        assert!(trials.iter().all(|trial| trial.rate_qps <= 40_000.0));
    }
    // What fails at first by a stall and passes then extends the range.
    let mut stalled = false;
    let (trials, _) = run(&both()[1], |spec, rate| {
        let first = rate == 20_000.0 && !std::mem::replace(&mut stalled, rate == 20_000.0);
        if first { server(spec, 1e6) } else { server(spec, rate) }
    });
    let highest = trials.iter().filter(|t| t.trial.passed == Some(true)).map(|t| t.rate_qps);
    assert!(highest.reduce(f64::max) > Some(25_000.0));
}

#[test]
fn an_interrupted_search_says_what_has_passed() {
    for search in both() {
        let mut left = 4;
        let mut bench = Trials(|spec: &TrialSpec| {
            left -= 1;
            if left < 0 { Err(BenchError::Interrupted) } else { server(spec, rate(spec)) }
        });
        let circumstances = Circumstances::default();
        let repeats = Repeats { search, repeats: 1, circumstances };
        let mut names = NameBudget::new(1 << 40, false);
        let (record, error) = repeats.run(&mut bench, "x", &mut names, None, &mut |_| ());
        assert_eq!(error, Some(BenchError::Interrupted));
        assert_eq!((record.median_qps, record.at_least), (Some(20_000.0), true));
        let verdict = &record.capacities[0].verdict;
        assert!(verdict.starts_with("at least 20000 qps: interrupted; "), "{verdict}");
        assert!(!record.conforming && record.differs.iter().any(|why| why.contains("interrupted")));
    }
}

#[test]
fn what_is_left_is_about_what_follows() {
    for search in both() {
        let (trials, _) = run(&search, server);
        for done in 0..trials.len() {
            let (left, told) = ((trials.len() - done) as f64, search.trials_left(&trials[..done]));
            let told = f64::from(told);
            assert!(told <= 3.0 * left + 6.0 && left <= 3.0 * told + 6.0, "{done}: {left}, {told}");
        }
    }
    let narrow = Search { max: qps(10_000.0), ..search() };
    let (trials, _) = run(&narrow, server);
    assert_eq!(narrow.trials_left(&trials), 0, "the upper bound of the search passed");
}
