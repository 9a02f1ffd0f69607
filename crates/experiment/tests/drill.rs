//! The method `drill` on a bench that says of each second how much was answered, and its settings.

use std::path::Path;

use experiment::{
    Bench, BenchError, Circumstances, DrillSpec, Drilled, Experiment, NameBudget, TrialSpec,
    add_visit, visit,
};
use measure::{Limiter, Nanos, Void};
use record::{AttackKind, AttackOutcome, CellRecord, Second, Series, Trial};

use crate::scripted;

const GOOD: &str = r#"
name = "x"
title = "x"
role = "resolver"
servers = ["a"]
repeats = 1
method = "drill"

[drill]
attack = "amplification"
queries = "100"
rate = "5k"
before = "2s"
during = "1s"
after = "3s"
"#;

fn parse(text: &str) -> Result<Experiment, String> {
    Experiment::parse(text, Path::new("x.toml")).map_err(|error| error.to_string())
}

/// A bench whose load has so many valid answers in each second, after some void drills, and whose server answers half as
/// many after each drill until it is started anew.
struct Attacked {
    valid: Vec<u64>,
    voids: usize,
    names: Vec<u64>,
    left: u32,
    starts: usize,
}

impl Attacked {
    fn new(valid: &[u64], voids: usize) -> Self {
        Attacked { valid: valid.to_vec(), voids, names: Vec::new(), left: 0, starts: 1 }
    }
}

impl Bench for Attacked {
    fn trial(&mut self, _: &TrialSpec) -> Result<Trial, BenchError> {
        Err(BenchError::Failed("a drill is asked for as one".to_owned()))
    }

    fn start_anew(&mut self) -> Result<(), BenchError> {
        (self.left, self.starts) = (0, self.starts + 1);
        Ok(())
    }

    fn drill(&mut self, spec: &DrillSpec) -> Result<Drilled, BenchError> {
        assert_eq!((spec.begins, spec.lasts), (Nanos::from_secs(2), Nanos::from_secs(1)));
        assert_eq!(spec.load.duration, Nanos::from_secs(6));
        assert_eq!((spec.attack, spec.rate.get()), (AttackKind::Amplification, 5_000.0));
        self.names.push(spec.load.first_name);
        let void = (self.names.len() <= self.voids)
            .then_some(Void::Starved { run_delay: 0.4, foreign: 0.5 });
        let mut trial = scripted::trial(&spec.load, 100.0, void.is_none(), Limiter::Dut, void);
        let valid = self.valid.iter().map(|&valid| valid >> self.left);
        trial.series =
            valid.map(|valid| Second { sent: 100, valid, ..Second::default() }).collect();
        trial.void.0 = trial.void.0.take().or_else(|| spec.unanswered_before(&trial));
        self.left += 1;
        let course: Vec<(f64, f64)> =
            (1..=12).map(|n| (f64::from(n) / 2.0, f64::from(n) * 100.0)).collect();
        let (name, unit) = ("latency.p99".to_owned(), "us".to_owned());
        // A record of many series keeps few samples of each.
        trial.probes.extend((0..40).map(|n| Series {
            name: format!("dut.{n}"),
            unit: String::new(),
            samples: course.iter().map(|(at, _)| (*at, f64::from(n))).collect(),
        }));
        trial.probes.push(Series { name, unit, samples: course });
        let (query_octets, reply_octets) = (40_000, 1_000_000);
        let attack = AttackOutcome { sent: 4_000, closed: 7, query_octets, reply_octets };
        Ok(Drilled { trial, attack })
    }
}

/// One repeat of a drill: the bench after it, and its cell.
fn drill(text: &str, valid: &[u64], voids: usize) -> (Attacked, CellRecord) {
    let experiment = parse(text).unwrap_or_else(|error| panic!("{error}"));
    let settings = experiment.common();
    let mut bench = Attacked::new(valid, voids);
    let mut names = NameBudget::new(1 << 20, false);
    let mut cell = CellRecord::new("a", Default::default(), settings.method.word());
    let mut trials = Vec::new();
    let found = visit(settings, &mut bench, &mut names, 0, &mut |trial| trials.push(trial.clone()));
    cell.trials = trials;
    add_visit(&mut cell, settings, found.expect("a drill"), &Circumstances::default());
    (bench, cell)
}

fn figure(cell: &CellRecord, name: &str) -> Option<f64> {
    cell.figures.get(name)?.median()
}

#[test]
fn a_drill_has_the_goodput_of_its_parts_and_the_seconds_to_recover() {
    let (_, cell) = drill(GOOD, &[100, 100, 25, 50, 100, 100], 0);
    let wanted = [
        ("goodput_before", Some(100.0)),
        ("goodput_during", Some(25.0)),
        ("recovery", Some(1.0)),
        ("not_recovered_within", None),
        ("latency_p99_before", Some(250.0)),
        ("latency_p99_during", Some(550.0)),
        ("latency_p99_after", Some(950.0)),
        ("amplification", Some(25.0)),
        ("attack_a_second", Some(4_000.0)),
        // No connections.
        ("attack_closed", None),
    ];
    for (name, value) in wanted {
        assert_eq!(figure(&cell, name), value, "{name}");
    }
    assert!(figure(&cell, "goodput_after").is_some_and(|after| (after - 250.0 / 3.0).abs() < 1e-9));
    assert_eq!((cell.repeats, cell.limiter), (1, Limiter::Dut));
    let [kept] = &cell.trials[..] else { panic!("one trial") };
    assert_eq!(kept.rate_qps, 100.0);
    let course = kept.trial.probes.iter().find(|series| series.name == "latency.p99");
    assert!(course.is_some_and(|series| series.samples.len() < 6), "{course:?}");
}

#[test]
fn a_server_that_stays_down_has_no_recovery() {
    let (_, cell) = drill(GOOD, &[100, 100, 0, 0, 100, 98], 0);
    assert_eq!(figure(&cell, "recovery"), None);
    assert_eq!(figure(&cell, "not_recovered_within"), Some(3.0));
    let idle = GOOD.replace("amplification", "random-names");
    assert!(parse(&idle).is_ok());
}

#[test]
fn a_void_drill_is_run_again_with_other_names_and_gives_no_figure() {
    let (bench, cell) = drill(GOOD, &[100, 100, 0, 0, 100, 100], 2);
    assert_eq!((bench.names.len(), cell.trials.len()), (3, 3));
    assert!(bench.names.is_sorted_by(|a, b| a + 600 <= *b), "{:?}", bench.names);
    assert_eq!(cell.figures["recovery"].values, [1.0]);
    // On a server to which no attack has come yet.
    assert_eq!((bench.starts, figure(&cell, "goodput_before")), (3, Some(100.0)));
    let (_, cell) = drill(GOOD, &[100; 6], 9);
    assert!(!cell.has_figure() && cell.void_repeats[0].why.contains("3 of 3 trials"));
}

#[test]
fn a_server_that_does_not_answer_before_the_attack_has_no_recovery() {
    for before in [0, 89] {
        let (bench, cell) = drill(GOOD, &[before, before, 0, before, before, before], 0);
        assert!(!cell.has_figure(), "{:?}", cell.figures);
        assert_eq!((bench.starts, cell.trials.len()), (3, 3));
        let why = &cell.void_repeats[0].why;
        assert!(
            why.contains("3 of 3 trials: the server did not answer the legitimate load"),
            "{why}"
        );
        let share = before as f64 / 100.0;
        let void = Void::UnansweredBefore { share, least: 0.9 };
        assert!(cell.trials.iter().all(|kept| kept.trial.void.0 == Some(void.clone())));
    }
    // Nine tenths are enough.
    let (bench, cell) = drill(GOOD, &[90, 90, 0, 90, 90, 90], 0);
    assert_eq!((bench.starts, figure(&cell, "recovery")), (1, Some(0.0)));
}

#[test]
fn a_load_that_ended_early_is_an_error() {
    let experiment = parse(GOOD).expect("valid");
    let mut bench = Attacked::new(&[100; 3], 0);
    let mut names = NameBudget::new(1 << 20, false);
    let found = visit(experiment.common(), &mut bench, &mut names, 0, &mut |_| {});
    let error = found.expect_err("three seconds of six").to_string();
    assert_eq!(error, "the load ended before the drill did");
}

#[test]
fn settings_that_make_no_drill_are_refused_with_their_place() {
    let with = |from: &str, to: &str| parse(&GOOD.replace(from, to)).expect_err(to);
    let table = [
        ("\"amplification\"", "\"plague\"", "unknown variant `plague`"),
        (
            "before = \"2s\"",
            "before = \"1500ms\"",
            "13:10: `before` is whole seconds, from 1s to 10m",
        ),
        ("after = \"3s\"", "after = \"0s\"", "15:9: `after` is whole seconds"),
        ("during = \"1s\"", "during = \"11m\"", "14:10: `during` is whole seconds"),
        ("rate = \"5k\"", "rate = \"2M\"", "12:8: `rate` is a number from 1 to 1000000"),
        ("rate = \"5k\"", "rate = \"5k\"\nconnections = 60000", "13:15: `connections` is a number"),
        (
            "\"resolver\"",
            "\"authoritative\"",
            "10:10: `amplification` changes replies of the AuthDNS",
        ),
        ("\"amplification\"", "\"handshakes\"", "requires queries over tls or https"),
        ("\"amplification\"", "\"initials\"", "requires queries over quic or http3"),
        ("rate = \"5k\"\n", "", "missing field `rate`"),
        ("after = \"3s\"", "after = \"3s\"\n[workload]\nhosts = 100", "names of the namespace"),
    ];
    for (from, to, wanted) in table {
        let error = with(from, to);
        assert!(error.contains(wanted), "{error}");
    }
    let (head, _) = GOOD.split_once("[drill]").expect("a table");
    let error = parse(head).expect_err("no table");
    assert!(error.contains("the method `drill` needs a table `[drill]`"), "{error}");
    let quic = GOOD.replace("\"amplification\"", "\"initials\"");
    assert!(parse(&format!("{quic}[tester]\ntransport = \"quic\"\n")).is_ok());
}
