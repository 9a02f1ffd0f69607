//! Comparison of two runs: differences that are shown, and those that must not be.

use std::collections::BTreeMap;

use measure::stats::Terms;
use measure::{Histogram, Limiter, Link, Nanos, Pacing, Path, Void, Warning};
use record::host::CpuFacts;
use record::{
    Capacity, CellRecord, CompareTerms, Comparison, Decision, Figure, HostFacts, Outcome, Run,
    SCHEMA, Second, ServerCapacity, Skipped, Times, Trial, TrialRecord, Voidness, compare,
    of_trial,
};

const TERMS: CompareTerms = CompareTerms {
    stats: Terms { confidence: 0.95, margin: 0.05, seed: 1 },
    resolution: 0.1,
    fail_if: Vec::new(),
    unlike: false,
};

fn capacity(qps: f64) -> Capacity {
    let (failed_qps, limiter) = (Some(qps * 1.05), Limiter::Target);
    Capacity { qps: Some(qps), failed_qps, limiter, ..Capacity::default() }
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
    assert!(c.says_something());
    assert!((c.figures[0].ratio - 0.495).abs() < 0.005, "{c:?}");
    let (low, high) = c.figures[0].interval.expect("there are repeats");
    assert!(low < 0.495 && 0.495 < high && high < 0.95, "{low} to {high}");
    assert_eq!(outcomes(cell("unbound", &[5_100.0, 5_000.0]), whole()).0, [Outcome::Faster]);
    let similar = cell("unbound", &[10_300.0, 9_900.0]);
    assert_eq!(outcomes(whole(), similar).0, [Outcome::NoDifferenceShown]);
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
    let (found, c) = outcomes(fast.clone(), lossy.clone());
    assert_eq!(found, [Outcome::NotComparable]);
    assert!(!c.says_something());
    assert!(c.figures[0].notes[0].starts_with("goal: `zero-loss` in the first run"), "{c:?}");
    let fail_if = vec!["capacity < -5%".parse().expect("a condition")];
    let c =
        compare(&run(vec![fast.clone()]), &run(vec![lossy]), &CompareTerms { fail_if, ..TERMS });
    assert_eq!(c.decision, Decision::Inconclusive);
    assert_eq!(c.reasons, ["nsd: capacity: not comparable"]);

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
    assert_eq!(found, [Outcome::NoInterval]);
    assert_eq!((c.figures[0].interval, c.decision), (None, Decision::Inconclusive));
    let said = [&c.figures[0].notes[0], &c.reasons[0]];
    assert!(said.iter().all(|text| text.contains("one visit each") && text.contains("--repeats")));
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
fn a_large_difference_of_one_visit_each_leans_and_is_never_none() {
    use Outcome::{Faster, NoInterval, Slower};
    for (first, second, leaning) in [
        (235_343.0, 2_948.0, Slower),
        (2_948.0, 235_343.0, Faster),
        (10_000.0, 9_000.0, NoInterval),
    ] {
        let (found, c) = outcomes(cell("nsd", &[first]), cell("nsd", &[second]));
        assert_eq!((&found[..], c.figures[0].suggested()), (&[NoInterval][..], leaning));
        let ratio = format!("x {:.3}", c.figures[0].ratio);
        assert!(c.reasons[0].contains(&ratio), "{:?}", c.reasons);
    }
    let shown = outcomes(cell("nsd", &[1e4, 1.01e4]), cell("nsd", &[4e3, 4.01e3])).1;
    assert_eq!(shown.figures[0].suggested(), Slower);
}

#[test]
fn runs_of_one_target_each_are_compared_and_a_chosen_window_is_no_condition() {
    let (found, c) = outcomes(cell("a", &[1e4, 1.01e4]), cell("b", &[5e3, 5.01e3]));
    assert_eq!((found, c.missing.len(), c.added.len()), (vec![Outcome::Slower], 0, 0));
    assert_eq!(c.differs, ["target: a; then b"]);
    let mut planned = run(vec![cell("a", &[1e4, 1e4])]);
    planned.plan.text = "servers = ['a']".to_owned();
    let c = compare(&planned, &run(vec![cell("b", &[1e4, 1e4])]), &TERMS);
    assert_eq!((c.missing.len(), c.added.len()), (1, 1), "servers of an experiment");

    let rounds = |outstanding| {
        let mut trial = load(20_000, 500);
        trial.conditions.pacing = Pacing::Window { outstanding }.into();
        let mut cell = CellRecord::new("a", BTreeMap::new(), "capacity");
        cell.trials.push(TrialRecord { repeat: 0, rate_qps: 0.0, trial });
        cell.capacity = Some(ServerCapacity::default());
        cell.figures.insert("capacity".into(), Figure::new("qps", vec![1e4; 8]));
        cell
    };
    let (found, c) = outcomes(rounds(16), rounds(256));
    assert_eq!((found, c.unlike.len()), (vec![Outcome::NoDifferenceShown], 0), "{:?}", c.unlike);
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
    let steal = "the hypervisor took 10.0 % of the cores' time for others: use a machine that is not shared";
    assert_eq!(c.doubts, [format!("second run: {steal}")]);
    assert!(!c.says_something());
}

/// A load of 20,000 queries at 2,000 per second, of which `valid` got valid replies after `latency_us` microseconds, give
/// or take a tenth.
fn load(valid: u64, latency_us: u64) -> Trial {
    let mut trial: Trial =
        serde_json::from_str(include_str!("fixtures/trial.json")).expect("a trial");
    let mut times = Histogram::new();
    for k in 0..20_000 {
        let time = latency_us * (90 + k % 21) / 100;
        times.record(if k < valid { Nanos::from_micros(time) } else { Nanos::from_secs(1) });
    }
    (trial.sent, trial.valid, trial.answered, trial.lost) = (20_000, valid, valid, 20_000 - valid);
    trial.answered_qps = valid as f64 / 10.0;
    trial.duration_s = 10.0;
    trial.latency_us = Times::from(&times);
    trial.conditions.pacing = "constant 2k".to_owned().into();
    trial.cpu.entry("dut".to_owned()).or_default().spent_s = Some(4.0);
    trial
}

fn loads(trials: Vec<Trial>) -> CellRecord {
    let record = |(repeat, trial)| TrialRecord { repeat, rate_qps: 2_000.0, trial };
    CellRecord {
        trials: (0..).zip(trials).map(record).collect(),
        ..CellRecord::new("nsd", BTreeMap::new(), "load")
    }
}

/// The decision about two single loads, with conditions.
fn decided(first: Trial, second: Trial, conditions: &[&str]) -> Comparison {
    let fail_if = conditions.iter().map(|text| text.parse().expect(text)).collect();
    let terms = CompareTerms { fail_if, ..TERMS };
    compare(&of_trial("load", first), &of_trial("load", second), &terms)
}

#[test]
fn the_queries_of_single_loads_decide() {
    use Decision::{Fine, Inconclusive, Slower};
    let whole = || load(20_000, 500);
    for (second, conditions, wanted, reason) in [
        (load(2_000, 500), &[][..], Slower, "valid is worse (-90.0 %)"),
        (load(0, 500), &[], Slower, "valid is worse (-100.0 %)"),
        // No connection took the others.
        (
            Trial { sent: 2_000, lost: 0, unserved: 18_000, ..load(2_000, 500) },
            &[],
            Slower,
            "valid is worse (-90.0 %)",
        ),
        (whole(), &[], Fine, ""),
        (load(19_900, 500), &[], Fine, ""),
        // A p99 of one trial may be that of one stall.
        (load(19_500, 500), &[], Fine, ""),
        (load(19_500, 500), &["p99 > 50%"], Slower, "% more than the first run; limit 50 %"),
        (whole(), &["valid < -10%"], Fine, ""),
        (load(2_000, 500), &["valid < -10%"], Slower, "% less than the first run; limit 10 %"),
        (
            load(18_010, 500),
            &["valid < -10%"],
            Inconclusive,
            "% less than the first run; limit 10 %",
        ),
        (load(20_000, 2_000), &[], Slower, "p50 is slower (+300.0 %)"),
        (load(20_000, 600), &[], Fine, ""),
        (load(20_000, 600), &["p99 > 10%"], Slower, "limit 10 %"),
        (load(20_000, 600), &["p90 > 50%", "valid < -1%"], Fine, ""),
        (
            load(20_000, 600),
            &["cpu > 50%"],
            Inconclusive,
            "cpu an unknown change from the first run; limit 50 %",
        ),
    ] {
        let found = decided(whole(), second, conditions);
        assert_eq!(found.decision, wanted, "{conditions:?} {:?}", found.reasons);
        assert!(found.reasons.join("; ").contains(reason), "{:?}", found.reasons);
    }
    let none = decided(whole(), whole(), &["zone_load > 1%"]);
    let asked = ["zone_load > 1%".parse().expect("a condition")];
    assert_eq!(none.unknown(&asked).len(), 1);
}

#[test]
fn cpu_times_of_both_runs_are_of_one_kind_and_unknown_ones_are_left_out() {
    let without = || {
        let mut trial = load(20_000, 500);
        let cpu = trial.cpu.get_mut("dut").expect("the server");
        (cpu.spent_s, cpu.user_s, cpu.system_s) = (None, 1.0, 1.0);
        trial
    };
    let both = || vec![load(20_000, 500), without()];
    let fail_if = vec!["cpu > 5%".parse().expect("a condition")];
    let terms = CompareTerms { fail_if, ..TERMS };
    for (first, second, us) in
        [(both(), both(), [200.0, 200.0]), (vec![without()], both(), [100.0, (96.5 + 100.0) / 2.0])]
    {
        let c = compare(&run(vec![loads(first)]), &run(vec![loads(second)]), &terms);
        let cpu = c.figures.iter().find(|figure| figure.figure == "cpu").expect("the figure");
        assert_eq!([cpu.first, cpu.second], us);
    }
}

#[test]
fn a_slowdown_beyond_the_resolution_is_slower_or_inconclusive() {
    // A quick form has two repeats, or one.
    for (first, second, wanted) in [
        (&[10_000.0, 10_400.0][..], &[2_500.0, 2_600.0][..], Decision::Slower),
        (&[10_000.0], &[2_500.0], Decision::Inconclusive),
        (&[10_000.0, 10_400.0], &[10_000.0, 10_400.0], Decision::Inconclusive),
        (&[10_000.0, 10_010.0, 10_020.0], &[10_010.0, 10_000.0, 10_030.0], Decision::Fine),
        (&[10_000.0, 10_010.0, 10_020.0], &[40_010.0, 40_000.0, 40_030.0], Decision::Fine),
    ] {
        let (_, c) = outcomes(cell("nsd", first), cell("nsd", second));
        assert_eq!(c.decision, wanted, "{first:?} {second:?} {:?}", c.reasons);
    }
    let bound = CellRecord { at_least: true, ..cell("nsd", &[10_000.0, 10_010.0, 10_020.0]) };
    let exact = || cell("nsd", &[10_010.0, 10_000.0, 10_030.0]);
    let (_, c) = outcomes(bound.clone(), exact());
    assert_eq!(c.decision, Decision::Inconclusive, "the first may have been much faster");
    assert!(c.reasons[0].contains("may be slower by any amount"), "{:?}", c.reasons);
    assert_eq!(outcomes(exact(), bound).1.decision, Decision::Fine);
}

#[test]
fn void_trials_are_not_compared() {
    let void = |trial: Trial| Trial {
        void: Voidness(Some(Void::ForeignOnServer { share: 0.3 })),
        ..trial
    };
    let first = loads(vec![load(20_000, 500), load(20_000, 510)]);
    let second = loads(vec![void(load(100, 9_000)), load(20_000, 505)]);
    let (_, c) = outcomes(first.clone(), second);
    assert_eq!(c.figures.iter().find(|f| f.figure == "valid").map(|f| f.second), Some(1.0));
    let all = loads(vec![void(load(100, 9_000)), void(load(90, 9_000))]);
    let typical = |name: &str| vec![format!("{name} < -10%").parse().expect("a condition")];
    for (first, second, why) in [
        (first.clone(), all.clone(), ": void 2 of 2"),
        (all.clone(), first, "in the first run void 2 of 2"),
        (all.clone(), all, "in the first run void 2 of 2"),
    ] {
        let (_, c) = outcomes(first, second);
        assert_eq!((c.decision, c.figures.len()), (Decision::Inconclusive, 0), "{why}");
        assert!(c.missing[0].why.ends_with(why), "{:?}", c.missing);
        assert!(c.unknown(&typical("answered")).is_empty(), "nothing says which figures there are");
    }

    let method = |values: Vec<f64>, void_repeat: Option<usize>| {
        let mut trials = vec![load(20_000, 500); values.len()];
        if let Some(repeat) = void_repeat {
            trials[repeat] = void(trials[repeat].clone());
        }
        let figures = [("closed_loop".to_owned(), Figure::new("qps", values))].into();
        CellRecord { figures, ..loads(trials) }
    };
    let (_, c) = outcomes(
        method(vec![1_000.0, 1_010.0, 1_005.0], None),
        method(vec![1_002.0, 90.0, 1_008.0], Some(1)),
    );
    assert_eq!((c.figures[0].repeats, c.figures[0].second), ([3, 2], 1_005.0));
    assert_eq!(c.figures[0].outcome, Outcome::NoDifferenceShown);
}

#[test]
fn cells_of_other_conditions_are_compared_on_request_only() {
    let with = |change: &dyn Fn(&mut Trial)| {
        let mut trial = load(20_000, 500);
        change(&mut trial);
        trial
    };
    let table: [(&str, Trial); 7] = [
        ("timeout: `1 s`", with(&|t| t.conditions.timeout_s = 3.0)),
        ("duration: `10 s`", with(&|t| t.duration_s = 2.0)),
        ("receive buffer of a socket", with(&|t| t.conditions.receive_buffer = 7)),
        ("segmented messages", with(&|t| t.conditions.gso = !t.conditions.gso)),
        (
            "pacing: `constant 2k`",
            with(&|t| t.conditions.pacing = Pacing::Window { outstanding: 9 }.into()),
        ),
        ("transport", with(&|t| t.conditions.transport = "tls".into())),
        ("link", with(&|t| t.conditions.link = Some(Link::Moderated))),
    ];
    for (what, other) in table {
        let mut base = load(20_000, 500);
        base.conditions.timeout_s = 1.0;
        let mut other = other;
        if !what.starts_with("timeout") {
            other.conditions.timeout_s = 1.0;
        }
        let (first, second) = (run(vec![loads(vec![base])]), run(vec![loads(vec![other])]));
        let c = compare(&first, &second, &TERMS);
        assert!(c.unlike.len() == 1 && c.unlike[0].starts_with(what), "{what}: {:?}", c.unlike);
        assert!(!c.says_something());
        let c = compare(&first, &second, &CompareTerms { unlike: true, ..TERMS });
        assert!(c.says_something() && c.figures[0].notes.iter().any(|n| n.starts_with(what)));
    }
    // A trial ends with its last batch, not to the millisecond.
    let (_, c) =
        outcomes(loads(vec![load(20_000, 500)]), loads(vec![with(&|t| t.duration_s = 10.01)]));
    assert_eq!(c.unlike, [] as [&str; 0]);
}

#[test]
fn a_single_closed_loop_is_compared_by_its_seconds() {
    let closed = |qps: u64| {
        let mut trial = load(20_000, 500);
        trial.conditions.pacing = Pacing::Window { outstanding: 64 }.into();
        trial.answered_qps = qps as f64;
        trial.series = (0..10)
            .map(|k| Second { sent: qps, valid: qps - k % 3 * qps / 200, ..Second::default() })
            .collect();
        trial
    };
    for (first, second, wanted) in
        [(5_000, 2_500, Decision::Slower), (5_000, 5_010, Decision::Fine)]
    {
        let c = decided(closed(first), closed(second), &[]);
        assert_eq!(c.decision, wanted, "{:?}", c.reasons);
        assert!(c.figures.iter().any(|f| f.figure == "answered" && f.interval.is_some()));
    }
}

#[test]
fn a_capacity_of_rounds_is_the_one_of_its_record() {
    let rounds = [10.0, 11.0, 12.0, 13.0, 30.0, 11.5, 12.5, 10.5, 11.0, 40.0, 12.0];
    let of = |factor: f64| {
        let values: Vec<f64> = rounds.iter().map(|x| x * factor * 1e3).collect();
        let found = measure::stats::of_rounds(&values, 0.95, 1).expect("rounds").value;
        let mut cell = CellRecord::new("nsd", BTreeMap::new(), "capacity");
        cell.figures = [("capacity".to_owned(), Figure::new("qps", values))].into();
        cell.capacity = Some(ServerCapacity { qps: found, ..ServerCapacity::default() });
        cell
    };
    let (first, second) = (of(1.0), of(2.0));
    let qps = [&first, &second].map(|cell| cell.capacity.as_ref().expect("a capacity").qps);
    let (found, c) = outcomes(first, second);
    assert_eq!((found, [c.figures[0].first, c.figures[0].second]), (vec![Outcome::Faster], qps));
    assert!((c.figures[0].ratio - 2.0).abs() < 1e-9, "{c:?}");
}
