//! The methods about updates against a scripted primary and its secondaries: calls, counts, void trials, and the
//! checks of their files.

use std::path::Path;

use experiment::{
    Bench, BenchError, Circumstances, Experiment, NameBudget, Replication, Sizes, Syncs, TrialSpec,
    UpdateResult, UpdateSpec, VisitResult, add_visit, visit, visit_estimate,
};
use measure::{Histogram, Limiter, Nanos, UpdateRate, Void, Warning};
use record::{
    CellRecord, Durability, Form, Lag, SCHEMA, Secondary, TargetOutcome, Times, TransferCount,
    Transfers, Trial, UpdateRun, VoidRepeat,
};

use crate::scripted;

const FILE: &str = r#"
name = "x"
title = "an experiment about updates"
role = "authoritative"
method = "query-under-update"
servers = ["nsd", "bind9"]

[closed]
duration = "2s"

[replication]
primary = "knot"
secondaries = ["yadifa"]
delegations = 8_640_000

[matrix]
replication.update-rate = ["0", 8, "100%/day", "max"]
replication.signed = [false, true]

[quick]
replication.delegations = 1_000
matrix.replication.update-rate = ["max"]
"#;

fn parse(text: &str) -> Experiment {
    Experiment::parse(text, Path::new("x.toml")).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

#[test]
fn a_file_varies_rates_and_signatures() {
    let experiment = parse(FILE);
    let rates: Vec<_> =
        experiment.points.iter().map(|p| p.settings.replication.update_rate).collect();
    let [none, some, share, max] = [
        UpdateRate::None,
        UpdateRate::PerSecond(8.0),
        UpdateRate::PercentPerDay(100.0),
        UpdateRate::Max,
    ];
    assert_eq!(rates, [none, none, some, some, share, share, max, max]);
    let varied = &experiment.points[3].varied;
    assert_eq!((varied["update-rate"].as_str(), varied["signed"].as_str()), ("8", "true"));
    let quick = experiment.clone().in_form(Form::Quick).expect("a form");
    assert_eq!((quick.points.len(), quick.common().replication.delegations), (2, 1_000));
    assert!(visit_estimate(quick.common(), true) < Nanos::from_secs(30));
}

#[test]
fn mistakes_have_their_place() {
    let rates = "replication.update-rate = [\"0\", 8, \"100%/day\", \"max\"]";
    let table = [
        (
            ("8,", "\"fast\","),
            "x.toml:17:33: `fast` is not a rate of updates: write 0 for none, 8 or",
        ),
        (("8,", "-8,"), "x.toml:17:33: `-8` is not a rate of updates"),
        (("\"100%/day\"", "\"100%\""), "x.toml:17:36: `100%` is not a rate of updates"),
        (
            (rates, "tester.transport = [\"tls\"]"),
            "x.toml:17:21: servers that replicate are queried over udp or tcp",
        ),
        (
            ("primary = \"knot\"\n", ""),
            "x.toml:5:10: the method `query-under-update` needs a `replication.primary`",
        ),
        (
            ("\"query-under-update\"", "\"update-rate\""),
            "x.toml:12:11: the servers of the method `update-rate` are",
        ),
        (
            ("\"query-under-update\"", "\"closed\""),
            "x.toml:17:28: `[replication]` applies to the methods `update-rate`",
        ),
        (
            ("\"query-under-update\"", "\"signed-unsigned\""),
            "x.toml:17:33: `update-rate` requires the method",
        ),
        (
            ("\"authoritative\"", "\"dns64\""),
            "x.toml:5:10: this method measures authoritative servers",
        ),
        (
            ("[\"yadifa\"]", "[\"yadifa\", \"yadifa\"]"),
            "x.toml:13:15: `secondaries` lists each server once",
        ),
        (
            ("[\"yadifa\"]", "[]\ninstances = 0"),
            "x.toml:14:13: `instances` is at least 1, and with `secondaries` 21 at most",
        ),
        (
            ("[\"yadifa\"]", "[\"yadifa\"]\ninstances = 21"),
            "x.toml:14:13: `instances` is at least 1",
        ),
        (
            ("8_640_000", "1_000\nslice = \"3/2\""),
            "x.toml:15:9: `3/2` is not a slice of a zone such as 1/2",
        ),
        (("8_640_000", "10"), "x.toml:14:15: `delegations` is a number from 100"),
        (("delegations = 8_640_000", "updates = 0"), "x.toml:14:11: `updates` is a number from 1"),
        (
            ("delegations = 8_640_000", "killed-after = 0"),
            "x.toml:14:16: `killed-after` is a number",
        ),
        (
            ("delegations = 8_640_000", "killed_after = 1"),
            "x.toml:14:1: unknown field `killed_after`",
        ),
    ];
    for ((from, to), start) in table {
        let text = FILE.replacen(from, to, 1);
        assert_ne!(text, FILE, "{from}");
        let error = Experiment::parse(&text, Path::new("x.toml")).expect_err(&text).to_string();
        assert!(error.starts_with(start), "{error}\nwanted {start}");
    }
}

/// A scripted group that records its calls in order.
#[derive(Default)]
struct Group {
    calls: Vec<String>,
    /// Verdict of each trial; the last one repeats.
    trials: Vec<Option<Void>>,
    /// Reason why the sender ends by itself.
    left_out: Option<String>,
    /// Syncs of the traced primary; `None` where it cannot be traced.
    syncs: Option<u64>,
    ran_out: bool,
    warnings: Vec<Warning>,
}

impl Group {
    fn run(&self, sent: u64, acknowledged: u64) -> UpdateRun {
        let mut times = Histogram::new();
        times.record(Nanos::from_millis(2));
        UpdateRun {
            schema: SCHEMA,
            server: "primary".to_owned(),
            transport: "udp".to_owned(),
            window: 1,
            seconds: 2.0,
            sent,
            acknowledged,
            lost: sent - acknowledged,
            per_second: acknowledged as f64 / 2.0,
            latency_us: Times::from(&times),
            left_out: self.left_out.clone(),
            ..UpdateRun::default()
        }
    }
}

impl Bench for Group {
    fn trial(&mut self, spec: &TrialSpec) -> Result<Trial, BenchError> {
        self.calls.push(format!("trial of {}", spec.duration));
        let void =
            if self.trials.len() > 1 { self.trials.remove(0) } else { self.trials[0].clone() };
        let limiter = if void.is_some() { Limiter::TesterCpu } else { Limiter::Dut };
        // As many servers as the window of each, 256, makes the whole one.
        let servers = spec.pacing.outstanding().map_or(1, |all| all / 256);
        let target = |number: u32| TargetOutcome {
            target: number.to_string(),
            sent: 4_000,
            valid: 1_000 * u64::from(number),
            bad: 1_000,
        };
        let targets = if servers > 1 { (1..=servers).map(target).collect() } else { Vec::new() };
        let trial = scripted::trial(spec, 2_500.0, true, limiter, void);
        Ok(Trial { valid: 5_000, targets, ..trial })
    }

    fn replication(&mut self) -> Result<&mut dyn Replication, BenchError> {
        Ok(self)
    }
}

impl Replication for Group {
    fn send(&mut self, spec: &UpdateSpec) -> Result<UpdateResult, BenchError> {
        self.calls.push(format!("send {}, kill after {:?}", spec.count, spec.kill_after));
        let done = spec.kill_after.unwrap_or(spec.count - 1);
        let mut run = self.run(spec.count, done);
        run.killed = spec.kill_after.is_some();
        Ok(UpdateResult { run, busy: 0.25, limiter: Limiter::Dut, warnings: self.warnings.clone() })
    }

    fn trace(&mut self, count: u64) -> Result<Syncs, BenchError> {
        self.calls.push(format!("trace {count}"));
        let (acknowledged, seconds) = (count, 2.0);
        Ok(match self.syncs {
            Some(syncs) => Syncs::Counted { acknowledged, seconds, writes: 2 * count, syncs },
            None => Syncs::No("no strace".to_owned()),
        })
    }

    fn disk_syncs(&mut self) -> Result<f64, BenchError> {
        self.calls.push("sync".to_owned());
        Ok(90.0)
    }

    fn look_up(&mut self) -> Result<Durability, BenchError> {
        self.calls.push("look up".to_owned());
        let gone = self.calls.iter().filter(|calls| *calls == "restart").count() as u64;
        Ok(Durability { acknowledged: 7, gone, examples: Vec::new() })
    }

    fn restart(&mut self) -> Result<(), BenchError> {
        self.calls.push("restart".to_owned());
        Ok(())
    }

    fn trial_with_updates(
        &mut self,
        per_second: Option<f64>,
        spec: &TrialSpec,
    ) -> Result<(Trial, UpdateRun), BenchError> {
        self.calls.push(format!("begin at {per_second:?}"));
        let mut trial = self.trial(spec)?;
        let mut times = Histogram::new();
        times.record(Nanos::from_millis(4));
        let lag = |unseen, times: &Histogram| Lag {
            server: String::new(),
            lag_us: Times::from(times),
            unseen,
        };
        let lags = vec![lag(1, &times), lag(3, &Histogram::new())];
        let interrupted = !self.ran_out && self.left_out.is_none();
        let run = UpdateRun { interrupted, lags, ..self.run(40, 39) };
        trial.void.0 = trial.void.0.take().or_else(|| run.ran_out());
        Ok((trial, run))
    }

    fn sizes(&mut self) -> Result<Sizes, BenchError> {
        self.calls.push("sizes".to_owned());
        Ok(Sizes { query: 40.0, reply: 150.0 })
    }

    fn transfers(&mut self) -> Result<Option<Transfers>, BenchError> {
        let count = |transfers, octets| TransferCount { transfers, octets };
        let one = |kind: &str, count| [(kind.to_owned(), count), ("ixfr".to_owned(), count)].into();
        let secondaries = vec![one("axfr", count(1, 100)), one("axfr", count(0, 0))];
        let others = [("ixfr_in_full".to_owned(), count(0, 0))].into();
        Ok(Some(Transfers { schema: SCHEMA, packets_lost: 0, secondaries, others }))
    }
}

fn healthy() -> Group {
    Group { trials: vec![None], ..Group::default() }
}

/// Visits the first point of a file; the cell with it, and the calls to the group.
fn measure(text: &str, mut group: Group) -> (Result<CellRecord, BenchError>, Vec<String>) {
    let experiment = parse(text);
    let settings = experiment.common();
    let mut cell = CellRecord::new("nsd", Default::default(), settings.method.word());
    cell.secondaries = vec![Secondary::default(), Secondary::default()];
    let mut names = NameBudget::new(u64::MAX, false);
    let mut trials = Vec::new();
    let found = visit(settings, &mut group, &mut names, 0, &mut |trial| trials.push(trial.clone()));
    cell.trials = trials;
    let cell = found.map(|found: VisitResult| {
        add_visit(&mut cell, settings, found, &Circumstances::default());
        cell
    });
    (cell, group.calls)
}

/// Asserts that the only repeat of a cell is void because of `why`, and that the cell has no figure.
fn void(cell: Result<CellRecord, BenchError>, why: &str) {
    let cell = cell.expect("a void repeat is no error");
    assert_eq!(cell.void_repeats, [VoidRepeat { repeat: 0, why: why.to_owned() }]);
    assert!(cell.repeats == 0 && !cell.has_figure(), "{:?}", cell.figures);
    assert!(cell.secondaries.iter().all(|secondary| secondary.figures.is_empty()));
}

/// Returns the only value of a figure.
fn figure(figures: &std::collections::BTreeMap<String, record::Figure>, name: &str) -> f64 {
    let figure = figures.get(name).unwrap_or_else(|| panic!("no figure {name}: {figures:?}"));
    assert_eq!(figure.values.len(), 1);
    figure.values[0]
}

#[test]
fn updates_are_sent_looked_up_and_sent_again_until_the_primary_dies() {
    let text = FILE
        .replace("query-under-update", "update-rate")
        .replace("primary = \"knot\"\nsecondaries = [\"yadifa\"]", "updates = 10\nkilled-after = 3")
        .replace("replication.update-rate = [\"0\", 8, \"100%/day\", \"max\"]\n", "")
        .replace("matrix.replication.update-rate = [\"max\"]\n", "");
    let (cell, calls) = measure(&text, Group { syncs: Some(9), ..healthy() });
    let wanted = [
        "send 10, kill after None",
        "look up",
        "trace 3",
        "sync",
        "send 6, kill after Some(3)",
        "restart",
        "look up",
    ];
    assert_eq!(calls, wanted);
    let cell = cell.expect("a cell");
    let table = [
        ("updates", 4.5),
        ("not_acknowledged", 1.0),
        ("acknowledged_but_not_done", 0.0),
        ("looked_up_after_SIGKILL", 7.0),
        ("gone_after_SIGKILL", 1.0),
        ("primary_busy", 25.0),
        ("disk_syncs", 90.0),
        ("writes_per_update", 2.0),
        ("syncs_per_update", 3.0),
        ("updates_while_traced", 1.5),
    ];
    for (name, value) in table {
        assert_eq!(figure(&cell.figures, name), value, "{name}");
    }
    assert_eq!((cell.limiter, cell.repeats), (Limiter::Dut, 1));
    assert_eq!(cell.notes, [""; 0]);
    // A primary that does not sync for each update is caught, and one that is not traced is no finding.
    let notes = |syncs| measure(&text, Group { syncs, ..healthy() }).0.expect("a cell").notes;
    assert!(notes(Some(2))[0].starts_with("NOT ON STABLE STORAGE"));
    assert_eq!(notes(None), ["syncs were not counted: no strace"]);
    // What others took of the primary's cores is told.
    let foreign = Warning::ForeignOnServer { share: 0.3 };
    let disturbed = Group { warnings: vec![foreign.clone()], ..healthy() };
    let notes = measure(&text, disturbed).0.expect("a cell").notes;
    assert_eq!(notes.last(), Some(&foreign.to_string()));
    let refused = Group { left_out: Some("NOTAUTH".to_owned()), ..healthy() };
    let error = measure(&text, refused).0.expect_err("refused").to_string();
    assert_eq!(error, "updates were not sent: NOTAUTH");
}

/// Returns the file with one rate of updates.
fn at(rate: &str) -> String {
    FILE.replace("[\"0\", 8, \"100%/day\", \"max\"]", &format!("[\"{rate}\"]"))
}

#[test]
fn queries_run_while_updates_are_sent() {
    for (rate, begun) in [("8", "Some(8.0)"), ("100%/day", "Some(100.0)"), ("max", "None")] {
        let (cell, calls) = measure(&at(rate), healthy());
        assert_eq!(calls, [format!("begin at {begun}"), "trial of 2s".to_owned()]);
        let cell = cell.expect("a cell");
        let table = [
            ("qps", 2_500.0),
            ("updates_done", 19.5),
            ("not_acknowledged", 1.0),
            ("lag_watched", 2.0),
            ("lag_unseen", 1.0),
            ("axfr", 1.0),
            ("ixfr", 1.0),
            ("ixfr_octets", 100.0),
        ];
        for (name, value) in table {
            assert_eq!(figure(&cell.figures, name), value, "{name}");
        }
        assert!((figure(&cell.figures, "lag_p50") - 0.004).abs() < 1e-4);
        assert!(!cell.figures.contains_key("ixfr_in_full"), "none occurred");
        // Each secondary has its own figures; the second one never received an update.
        let [first, second] = [&cell.secondaries[0].figures, &cell.secondaries[1].figures];
        assert_eq!((figure(first, "axfr"), figure(second, "axfr")), (1.0, 0.0));
        assert_eq!((figure(first, "lag_unseen"), figure(second, "lag_unseen")), (1.0, 3.0));
        assert!(first.contains_key("lag_p99") && !second.contains_key("lag_p99"));
        assert_eq!(cell.limiter, Limiter::Dut);
    }
    let (cell, calls) = measure(&at("0"), healthy());
    assert_eq!(calls, ["trial of 2s"]);
    let cell = cell.expect("a cell");
    assert!(!cell.figures.contains_key("updates_done") && cell.figures.contains_key("axfr"));
}

#[test]
fn each_instance_has_its_window_and_its_rate() {
    let text = at("8").replace("[\"yadifa\"]", "[]\ninstances = 3");
    let (cell, calls) = measure(&text, healthy());
    assert_eq!(calls, ["begin at Some(8.0)", "trial of 2s"]);
    let cell = cell.expect("a cell");
    assert_eq!(figure(&cell.figures, "qps"), 2_500.0, "all of them");
    // The scripted cell has two secondaries only.
    for (secondary, (qps, unseen)) in cell.secondaries.iter().zip([(500.0, 1.0), (1_000.0, 3.0)]) {
        assert_eq!(figure(&secondary.figures, "qps"), qps);
        assert_eq!(figure(&secondary.figures, "not_valid"), 25.0);
        assert_eq!(figure(&secondary.figures, "lag_unseen"), unseen);
    }
}

#[test]
fn a_void_trial_is_run_again_with_its_updates_and_gives_no_figure() {
    let why = Void::Starved { run_delay: 0.4, foreign: 0.5 };
    let starved = || Some(why.clone());
    let once = Group { trials: vec![starved(), None], ..healthy() };
    let (cell, calls) = measure(&at("8"), once);
    assert_eq!(calls.iter().filter(|calls| calls.starts_with("begin")).count(), 2);
    let cell = cell.expect("a cell");
    assert_eq!((cell.trials.len(), figure(&cell.figures, "qps")), (2, 2_500.0));
    let always = Group { trials: vec![starved()], ..healthy() };
    let (cell, calls) = measure(&at("8"), always);
    void(cell, &format!("3 of 3 trials: {why}"));
    assert_eq!(calls.iter().filter(|calls| calls.starts_with("begin")).count(), 3);
    // Queries whose updates ran out do not count as queries under update.
    let (cell, _) = measure(&at("8"), Group { ran_out: true, ..healthy() });
    void(cell, "3 of 3 trials: the updates ran out after 2.0 s");
}

#[test]
fn sizes_stand_beside_the_rate() {
    let text = at("0").replace("query-under-update", "signed-unsigned");
    let text = text.replace("replication.update-rate = [\"max\"]", "replication.signed = [true]");
    let (cell, calls) = measure(&text, healthy());
    assert_eq!(calls, ["trial of 2s", "sizes"]);
    let cell = cell.expect("a cell");
    let trial = &cell.trials[0].trial;
    let table = [
        ("qps", 2_500.0),
        ("query_octets", 40.0),
        ("reply_octets", 150.0),
        ("octets_of_all_queries", 40.0 * trial.sent as f64),
        ("octets_of_all_replies", 150.0 * trial.answered as f64),
    ];
    for (name, value) in table {
        assert_eq!(figure(&cell.figures, name), value, "{name}");
    }
}
