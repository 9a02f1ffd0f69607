//! The method `answers` on a bench that says what was answered, and its settings.

use std::collections::VecDeque;
use std::path::Path;

use experiment::settings::AnswersSettings;
use experiment::{
    Bench, BenchError, Circumstances, ComparedAnswers, Experiment, NameBudget, TrialSpec,
    VisitResult, add_visit, visit,
};
use measure::Nanos;
use record::{AnswerDiff, AnswerPair, AnswerServer, CellRecord, Trial};

const GOOD: &str = r#"
name = "x"
title = "x"
role = "dns64"
servers = ["a", "b"]
repeats = 1
method = "answers"

[workload]
mixed = 300

[answers]
rate = "200"
ttl = "any"
"#;

fn parse(text: &str) -> Result<Experiment, String> {
    Experiment::parse(text, Path::new("x.toml")).map_err(|error| error.to_string())
}

/// A bench whose comparisons lose so many replies at the Tester, one after the other.
struct Scripted {
    dropped: VecDeque<u64>,
    incomplete: Option<String>,
    compared: usize,
    paused: Vec<Nanos>,
}

impl Bench for Scripted {
    fn trial(&mut self, _: &TrialSpec) -> Result<Trial, BenchError> {
        Err(BenchError::Failed("a comparison is asked for as one".to_owned()))
    }

    fn pause(&mut self, time: Nanos) {
        self.paused.push(time);
    }

    fn compare_answers(&mut self, spec: &AnswersSettings) -> Result<ComparedAnswers, BenchError> {
        assert_eq!((spec.rate.get(), spec.ttl.as_str(), spec.edns), (200.0, "any", true));
        self.compared += 1;
        let server = |name: &str| AnswerServer {
            name: name.into(),
            replies: 300,
            ..AnswerServer::default()
        };
        let pair = AnswerPair { first: 0, second: 1, differ: 20, ..AnswerPair::default() };
        let diff = AnswerDiff {
            asked: 300,
            differ: 20,
            servers: ["a", "b"].map(server).into(),
            pairs: vec![pair],
            incomplete: self.incomplete.clone(),
            ..AnswerDiff::default()
        };
        Ok(ComparedAnswers { diff, dropped: self.dropped.pop_front().unwrap_or(0) })
    }
}

fn compare(
    dropped: &[u64],
    incomplete: Option<&str>,
) -> (Scripted, Experiment, Result<VisitResult, BenchError>) {
    let experiment = parse(GOOD).unwrap_or_else(|error| panic!("{error}"));
    let (dropped, incomplete) = (dropped.iter().copied().collect(), incomplete.map(str::to_owned));
    let mut bench = Scripted { dropped, incomplete, compared: 0, paused: Vec::new() };
    let mut names = NameBudget::new(u64::MAX, false);
    let found = visit(experiment.common(), &mut bench, &mut names, 0, &mut |_| ());
    (bench, experiment, found)
}

#[test]
fn each_server_has_figures_and_the_first_has_the_comparison() {
    let (bench, experiment, found) = compare(&[], None);
    let found = found.expect("a comparison");
    assert_eq!((bench.compared, bench.paused.len()), (1, 0));
    for (server, other, has) in [("a", "b", true), ("b", "a", false)] {
        let mut cell = CellRecord::new(server, Default::default(), "answers");
        add_visit(&mut cell, experiment.common(), found.clone(), &Circumstances::default());
        let figure = |name: &str| cell.figures.get(name).and_then(|figure| figure.median());
        assert_eq!(figure(&format!("differs_from_{other}")), Some(20.0), "{server}");
        assert_eq!((figure("replies"), figure("alone")), (Some(300.0), None));
        assert_eq!((cell.repeats, cell.answers.is_some()), (1, has), "{server}");
    }
}

#[test]
fn only_replies_that_the_tester_lost_make_a_comparison_void() {
    let (bench, _, found) = compare(&[3, 1], None);
    assert!(matches!(found, Ok(VisitResult::Answers(_))), "{found:?}");
    assert_eq!((bench.compared, bench.paused.len()), (3, 2));
    let (bench, _, found) = compare(&[3, 1, 7], None);
    let Ok(VisitResult::Void(void)) = found else { panic!("{found:?}") };
    assert_eq!(bench.compared, 3);
    let why = "in 3 of 3 comparisons the Tester dropped replies, 7 in the last one";
    assert_eq!(void.why, why);
}

#[test]
fn a_comparison_that_ended_early_is_an_error() {
    let why = "b answered none of the first 256 queries";
    let (bench, _, found) = compare(&[9], Some(why));
    assert_eq!(found.expect_err("it ended").to_string(), why);
    assert_eq!(bench.compared, 1);
}

#[test]
fn settings_that_make_no_comparison_are_refused_with_their_place() {
    let table = [
        ("repeats = 1", "repeats = 2", "6:11: the method `answers` repeats a query itself"),
        ("mixed = 300", "mixed = 0", "10:9: `mixed` is a number from 1 to"),
        ("mixed = 300", "mixed = 300\nhosts = 5", "are all zones: give one of them"),
        ("mixed = 300", "type = \"AAAA\"", "sends each query of a stream once"),
        ("rate = \"200\"", "rate = 200", "expected a string"),
        ("rate = \"200\"", "window = 0", "`window` is a number from 1 to 1024"),
        ("rate = \"200\"", "timeout = \"0s\"", "`timeout` must be longer than 0"),
        ("rate = \"200\"", "speed = 1", "unknown field `speed`"),
        ("role = \"dns64\"", "role = \"dns64\"\nwarm-up = \"1s\"", "leave out `warm-up`"),
        ("[answers]", "[dut]\ncpu-limit = 0.5\n[answers]", "queries all servers at once"),
        (
            "[answers]",
            "[tester]\ntransport = \"tcp\"\n[answers]",
            "sends queries over udp by sockets",
        ),
    ];
    for (from, to, wanted) in table {
        let error = parse(&GOOD.replace(from, to)).expect_err(to);
        assert!(error.contains(wanted), "{to}: {error}");
    }
    for (from, to) in [("mixed = 300", "hosts = 10"), ("mixed = 300", "queries = \"q.txt\"")] {
        assert!(parse(&GOOD.replace(from, to)).is_ok(), "{to}");
    }
}
