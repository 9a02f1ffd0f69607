//! Our MLRsearch against recorded searches of its authors' library, decision by decision (`mlrsearch/record.py`
//! records them).

use experiment::mlrsearch::{MlrError, MlrGoal, MlrResult, MlrSearch};
use serde::Deserialize;

/// A search of the reference implementation: its goals, its trials and its results.
#[derive(Deserialize)]
struct Recorded {
    min: f64,
    max: f64,
    goals: Vec<Goal>,
    /// Rate, duration in seconds, loss ratio, time spent in seconds.
    trials: Vec<(f64, f64, f64, f64)>,
    results: Vec<LibraryResult>,
}

#[derive(Deserialize)]
struct Goal {
    loss_ratio: f64,
    exceed_ratio: f64,
    width: f64,
    initial_trial_s: f64,
    final_trial_s: f64,
    duration_sum_s: f64,
    preceding_targets: u32,
    expansion: i64,
}

#[derive(Deserialize)]
struct LibraryResult {
    lower: Option<f64>,
    upper: Option<f64>,
    conditional_throughput: Option<f64>,
}

/// Returns whether two values differ at most by rounding.
fn same(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

fn same_option(a: Option<f64>, b: Option<f64>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => same(a, b),
        (a, b) => a == b,
    }
}

#[test]
fn decisions_are_those_of_the_library() {
    let text = include_str!("mlrsearch/searches.json");
    let searches: Vec<Recorded> = serde_json::from_str(text).expect("recorded searches");
    assert!(searches.len() >= 50, "{} searches", searches.len());
    let mut decisions = 0;
    for (number, recorded) in searches.iter().enumerate() {
        let goal = |g: &Goal| MlrGoal {
            loss_ratio: g.loss_ratio,
            exceed_ratio: g.exceed_ratio,
            width: g.width,
            initial_trial_s: g.initial_trial_s,
            final_trial_s: g.final_trial_s,
            duration_sum_s: g.duration_sum_s,
            preceding_targets: g.preceding_targets,
            expansion: g.expansion,
        };
        let goals: Vec<MlrGoal> = recorded.goals.iter().map(goal).collect();
        let mut search = MlrSearch::new(recorded.min, recorded.max, &goals).expect("valid");
        for (i, &(rate, duration_s, loss, spent_s)) in recorded.trials.iter().enumerate() {
            let wanted = search.next();
            let wanted = wanted.unwrap_or_else(|| panic!("search {number} ends before trial {i}"));
            assert!(
                same(wanted.rate, rate) && same(wanted.duration_s, duration_s),
                "search {number}, trial {i}: {wanted:?} instead of {rate} for {duration_s} s"
            );
            search.add(loss, spent_s);
            decisions += 1;
        }
        assert_eq!(search.next(), None, "search {number} goes on");
        let results = search.results();
        assert_eq!(results.len(), recorded.results.len());
        for (ours, theirs) in results.iter().zip(&recorded.results) {
            assert!(
                same_option(ours.lower, theirs.lower)
                    && same_option(ours.upper, theirs.upper)
                    && same_option(ours.conditional_throughput, theirs.conditional_throughput),
                "search {number}: {ours:?}"
            );
        }
    }
    assert!(decisions > 1_000, "{decisions} decisions");
}

#[test]
fn a_steady_server_is_found_within_the_width() {
    for capacity in [1_500.0, 42_000.0, 730_000.0] {
        let goal = MlrGoal { loss_ratio: 0.0, width: 0.01, ..MlrGoal::default() };
        let mut search = MlrSearch::new(1_000.0, 1e6, &[goal]).expect("valid");
        let mut trials = 0;
        while let Some(trial) = search.next() {
            search.add((1.0 - capacity / trial.rate).max(0.0), trial.duration_s);
            trials += 1;
            assert!(trials < 1_000);
        }
        let MlrResult { lower, upper, .. } = search.results()[0];
        let (lower, upper) = (lower.expect("a lower bound"), upper.expect("an upper bound"));
        assert!(lower <= capacity && capacity < upper, "{lower} {capacity} {upper}");
        assert!((upper - lower) / upper <= 0.01 + 1e-9);
    }
}

#[test]
fn ends_of_the_range_are_results_too() {
    let search = |loss: f64| {
        let mut search = MlrSearch::new(1_000.0, 1e6, &[MlrGoal::default()]).expect("valid");
        while let Some(trial) = search.next() {
            search.add(loss, trial.duration_s);
        }
        search.results()[0]
    };
    let fast = search(0.0);
    assert_eq!((fast.lower, fast.upper), (Some(1e6), None));
    let dead = search(1.0);
    assert_eq!((dead.lower, dead.upper, dead.conditional_throughput), (None, Some(1_000.0), None));
}

#[test]
fn what_is_invalid_is_named() {
    let goal = MlrGoal::default();
    assert_eq!(
        MlrSearch::new(5.0, 5.0, &[goal]).err(),
        Some(MlrError::Rates { min: 5.0, max: 5.0 })
    );
    assert_eq!(MlrSearch::new(1.0, 5.0, &[]).err(), Some(MlrError::NoGoal));
    let bad = [
        MlrGoal { loss_ratio: 1.0, ..goal },
        MlrGoal { exceed_ratio: -0.1, ..goal },
        MlrGoal { width: 0.0, ..goal },
        MlrGoal { initial_trial_s: 2.0, ..goal },
        MlrGoal { duration_sum_s: 0.5, ..goal },
        MlrGoal { expansion: 1, ..goal },
        MlrGoal { preceding_targets: 0, ..goal },
    ];
    for bad in bad {
        let error = MlrSearch::new(1.0, 5.0, &[goal, bad]).expect_err("invalid");
        assert!(error.to_string().starts_with("goal 2: "), "{error}");
    }
}
