//! Comparison of two runs: differences that are shown, and those that must not be.

use std::collections::BTreeMap;

use measure::stats::Terms;
use measure::{Limiter, Link, Path, Warning};
use record::host::CpuFacts;
use record::{
    Capacity, CellRecord, Comparison, Figure, HostFacts, Outcome, Run, SCHEMA, Skipped, Trial,
    TrialRecord, compare,
};

const TERMS: Terms = Terms { confidence: 0.95, margin: 0.05, seed: 1 };

fn capacity(qps: f64) -> Capacity {
    Capacity {
        qps: Some(qps),
        failed_qps: Some(qps * 1.05),
        at_least: false,
        limiter: Limiter::Target,
        verdict: String::new(),
        also: Vec::new(),
    }
}

fn cell(server: &str, capacities: &[f64]) -> CellRecord {
    CellRecord {
        capacities: capacities.iter().copied().map(capacity).collect(),
        goal: "zero-loss".into(),
        ..CellRecord::new(server, BTreeMap::new(), "search")
    }
}

fn run(results: Vec<CellRecord>) -> Run {
    Run { schema: SCHEMA, complete: true, results, ..Run::default() }
}

/// Returns the outcomes of two runs with one cell each.
fn outcomes(first: CellRecord, second: CellRecord) -> (Vec<Outcome>, Comparison) {
    let comparison = compare(&run(vec![first]), &run(vec![second]), &TERMS);
    (comparison.figures.iter().map(|f| f.outcome).collect(), comparison)
}

#[test]
fn half_a_core_is_slower_and_the_same_is_not() {
    let whole = || cell("unbound", &[10_000.0, 10_400.0]);
    let (found, c) = outcomes(whole(), cell("unbound", &[5_100.0, 5_000.0]));
    assert_eq!(found, [Outcome::Slower]);
    assert!(c.has_slower() && c.says_something());
    assert!((c.figures[0].ratio - 0.495).abs() < 0.005, "{c:?}");
    let (low, high) = c.figures[0].interval.expect("there are repeats");
    assert!(low < 0.495 && 0.495 < high && high < 0.95, "{low} to {high}");
    assert_eq!(outcomes(cell("unbound", &[5_100.0, 5_000.0]), whole()).0, [Outcome::Faster]);
    let (found, c) = outcomes(whole(), cell("unbound", &[10_300.0, 9_900.0]));
    assert_eq!(found, [Outcome::NoDifferenceShown]);
    assert!(!c.has_slower());
    assert_eq!(outcomes(whole(), whole()).0, [Outcome::NoDifferenceShown]);
}

#[test]
fn lower_bounds_show_less() {
    let (slow, fast) = ([5_000.0, 5_100.0], [10_000.0, 10_100.0]);
    let bound = |values: &[f64]| CellRecord { at_least: true, ..cell("nsd", values) };
    for (first, second, wanted) in [
        (bound(&slow), cell("nsd", &fast), Outcome::NoDifferenceShown),
        (bound(&fast), cell("nsd", &slow), Outcome::Slower),
        (cell("nsd", &slow), bound(&fast), Outcome::Faster),
        (cell("nsd", &fast), bound(&slow), Outcome::NoDifferenceShown),
    ] {
        let (found, c) = outcomes(first, second);
        assert_eq!(found, [wanted]);
        assert!(c.figures[0].notes.iter().any(|n| n.contains("lower bound")), "{c:?}");
    }
}

#[test]
fn cells_measured_in_different_ways_are_not_compared() {
    let fast = cell("nsd", &[10_000.0, 10_100.0]);
    let slow = cell("nsd", &[5_000.0, 5_100.0]);
    let lossy = CellRecord { goal: "loss < 1%".into(), ..slow.clone() };
    let (found, c) = outcomes(fast.clone(), lossy);
    assert_eq!(found, [Outcome::NotComparable]);
    assert!(!c.has_slower() && !c.says_something());
    assert!(c.figures[0].notes[0].starts_with("goal: `zero-loss` in the first run"), "{c:?}");

    let linked = |cell: &CellRecord, link: Link, path: Path| {
        let mut trial: Trial =
            serde_json::from_str(include_str!("fixtures/trial.json")).expect("a trial");
        (trial.conditions.link, trial.conditions.path) = (Some(link), Some(path));
        let trials = vec![TrialRecord { repeat: 0, rate_qps: 1.0, trial }];
        CellRecord { trials, ..cell.clone() }
    };
    let plain = |cell| linked(cell, Link::Plain, Path::Wire);
    let others = [(Link::Steered, Path::Wire), (Link::Plain, Path::HostOffload)];
    for (link, path) in others {
        let (found, _) = outcomes(plain(&fast), linked(&slow, link, path));
        assert_eq!(found, [Outcome::NotComparable]);
    }
    assert_eq!(outcomes(plain(&fast), plain(&slow)).0, [Outcome::Slower]);
}

#[test]
fn each_figure_has_its_own_better_direction() {
    let with = |load: f64, memory: f64, rate: f64| {
        let figure = |unit, x: f64| Figure::new(unit, vec![x, x * 1.01, x * 0.99]);
        CellRecord {
            figures: [
                ("a_load".to_owned(), figure("s", load)),
                ("b_memory".to_owned(), figure("B", memory)),
                ("c_rate".to_owned(), figure("qps", rate)),
            ]
            .into(),
            ..CellRecord::new("nsd", BTreeMap::new(), "zone-load")
        }
    };
    let (found, _) = outcomes(with(1.0, 1e6, 100.0), with(2.0, 2e6, 200.0));
    assert_eq!(found, [Outcome::Slower, Outcome::More, Outcome::Faster]);
    let (found, _) = outcomes(with(1.0, 1e6, 100.0), with(0.5, 5e5, 50.0));
    assert_eq!(found, [Outcome::Faster, Outcome::Less, Outcome::Slower]);
}

#[test]
fn one_repeat_needs_the_spread_of_other_cells() {
    let (found, c) = outcomes(cell("nsd", &[10_000.0]), cell("nsd", &[5_000.0]));
    assert_eq!(found, [Outcome::NoDifferenceShown]);
    assert_eq!(c.figures[0].interval, None);
    assert!(c.figures[0].notes[0].contains("single repeat"), "{c:?}");
    let others = || cell("knot", &[9_000.0, 9_100.0, 9_050.0]);
    let c = compare(
        &run(vec![cell("nsd", &[10_000.0]), others()]),
        &run(vec![cell("nsd", &[5_000.0]), others()]),
        &TERMS,
    );
    let found: Vec<Outcome> = c.figures.iter().map(|f| f.outcome).collect();
    assert_eq!(found, [Outcome::Slower, Outcome::NoDifferenceShown]);
}

#[test]
fn missing_and_added_cells_are_listed() {
    let (nsd, knot) = (cell("nsd", &[1e4, 1e4]), cell("knot", &[1e4, 1e4]));
    let mut second = run(vec![cell("yadifa", &[1e4, 1e4]), cell("knot", &[])]);
    second.skipped =
        vec![Skipped { server: "nsd".into(), why: "not installed".into(), ..Skipped::default() }];
    second.plan.version = "0.2.0".into();
    let host = |model: &str, steal: Option<f64>| {
        let warnings = steal.map(|share| Warning::Steal { share }).into_iter().collect();
        let cpu = CpuFacts { model: Some(model.to_owned()), online: 2, ..CpuFacts::default() };
        Some(HostFacts { cpu, steal: Some(0.1), warnings, ..HostFacts::default() })
    };
    second.plan.host = host("B", Some(0.1));
    let mut first = run(vec![nsd, knot]);
    first.plan.host = host("A", None);
    let c = compare(&first, &second, &TERMS);
    let why: Vec<(&str, &str)> =
        c.missing.iter().map(|m| (m.server.as_str(), m.why.as_str())).collect();
    assert_eq!(why, [("nsd", "not measured: not installed"), ("knot", "no capacity")]);
    assert_eq!((c.added.len(), c.added[0].server.as_str()), (1, "yadifa"));
    assert_eq!(c.differs, ["dnsdyno: ; then 0.2.0", "CPU model: A; then B"]);
    let steal =
        "the hypervisor took 10.0 % of the cores' time for others: take a machine of your own";
    assert_eq!(c.doubts, [format!("second run: {steal}")]);
    assert!(!c.says_something());
}
