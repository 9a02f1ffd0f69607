//! The report of a search or a run: a table with one line for each server and setting.

use std::collections::BTreeSet;
use std::fmt::Write;

use measure::warning::{Summary, summarise};
use measure::{Void, Warning};
use record::{CellRecord, Certificate, Form, Run, Seen, TrialRecord};

use crate::auth_hosts;
use crate::caveats::caveats;
use crate::cells;
use crate::checks::{certified, check_line};
use crate::faster::faster;
use crate::merged;
use crate::results::Results;
use crate::spread::spread;
use crate::view::limiter::{differences, lacks_cpu, proofs};
use crate::view::name::{notes_of_cells, short_name, void_notes};
use crate::view::number::counted;
use crate::view::search::interrupted;
use crate::view::table::{sorted_once, varied};
use crate::view::{skipped_name, thousands};

/// Largest width of a table, in columns.
const TABLE_WIDTH: usize = 100;
/// Largest number of lines below the tables.
const MAX_LINES_BELOW: usize = 5;

/// Returns the tables of a run, below them what a reader should do, and the decision of its conditions last; [`details`] has everything else.
pub fn run(run: &Run) -> String {
    run_in(run, None)
}

/// Returns the same of a run that is in a file of this name.
pub fn run_in(run: &Run, file: Option<&str>) -> String {
    let (mut out, left_out) = tables(run, TABLE_WIDTH);
    let mut below = to_do(run, &out);
    let hidden = below.split_off(below.len().min(MAX_LINES_BELOW - 1)).len();
    for line in &below {
        let _ = writeln!(out, "{line}");
    }
    // A command is whole.
    let _ = writeln!(out, "{}", more(run, file, [(left_out, "column"), (hidden, "note")]));
    out + &decision(run)
}

/// Returns the tables of a run, and below them whether something is missing.
pub fn result(run: &Run) -> String {
    let missing = incomplete(run).map_or(String::new(), |missing| missing + "\n");
    tables(run, TABLE_WIDTH).0 + &missing + &decision(run)
}

/// Returns the line with the decision of a run's conditions; empty without conditions.
fn decision(run: &Run) -> String {
    run.gate.as_ref().map_or(String::new(), |gate| gate.line() + "\n")
}

/// Returns the tables of a run at most `width` columns wide, by omitting columns; and the number of
/// omitted ones.
fn tables(run: &Run, width: usize) -> (String, usize) {
    let (mut out, mut left_out) = (String::new(), 0);
    let searches = searches(run);
    if !searches.is_empty() {
        let results = Results::of(run, sorted(searches));
        let (text, gone) = results.all().text(width);
        let _ = write!(out, "{}\n{text}", results.conditions.title("Capacity"));
        left_out += gone;
    }
    let (text, gone) = cells::tables(run, width);
    (out + &text, left_out + gone)
}

/// Returns the cells that were searched.
fn searches(run: &Run) -> Vec<&CellRecord> {
    run.results.iter().filter(|cell| cell.method == "search").collect()
}

/// Sorts cells by their capacity, the highest first, unless settings vary.
fn sorted(mut cells: Vec<&CellRecord>) -> Vec<&CellRecord> {
    if varied(cells.iter().copied()).is_empty() {
        let key = |cell: &CellRecord| cell.median_qps.unwrap_or(-1.0);
        cells.sort_by(|a, b| key(b).total_cmp(&key(a)));
    }
    cells
}

/// Returns what a reader must know before believing a figure of `tables`, with what to do; the most
/// important first.
fn to_do(run: &Run, tables: &str) -> Vec<String> {
    let cells = &run.results;
    let mut out = Vec::new();
    let which = |holds: &dyn Fn(&CellRecord) -> bool| names_of(cells, holds);
    let shortened = cells.iter().find_map(|cell| cell.shortened_s);
    out.extend(shortened.map(|s| {
        format!("SHORTENED by a test: each trial sent for {s} s; this is no measurement")
    }));
    out.extend(incomplete(run));
    out.extend(faster(run));
    out.extend(caveats(run));
    let untrusted = |cell: &CellRecord| cell.certificate.as_ref().is_some_and(|c| !c.passed);
    out.extend(which(&untrusted).map(|whom| {
        format!("{whom}: the Tester failed its self-test: nothing here is the server's capacity")
    }));
    let unchecked = |cell: &CellRecord| warnings(cell).any(|w| *w == Warning::AddressNotChecked);
    out.extend(
        which(&unchecked).map(|whom| format!("{whom}: warning: {}", Warning::AddressNotChecked)),
    );
    if let Some(first) = run.skipped.first() {
        let names = sorted_once(run.skipped.iter().map(|s| s.server.as_str()));
        let why = first.why.lines().next().unwrap_or_default();
        out.push(format!("not measured: {} ({why})", names.join(", ")));
    }
    let none = |cell: &CellRecord| {
        cell.method == "search" && cell.median_qps.is_none() && cell.void_repeats.is_empty()
    };
    if let Some(cell) = cells.iter().find(|cell| none(cell)) {
        out.push(format!("{}: {}", cell.server, no_capacity(cell)));
    }
    let notes: BTreeSet<&String> = cells.iter().flat_map(|cell| &cell.notes).collect();
    for note in notes {
        let noted = |cell: &CellRecord| cell.notes.contains(note);
        out.extend(which(&noted).map(|whom| format!("{whom}: {note}")));
    }
    // An interrupted search had not reached a limit.
    let bound = |cell: &CellRecord| {
        cell.at_least && cell.has_figure() && (run.complete || interrupted(cell).is_none())
    };
    let crowded = |cell: &CellRecord| bound(cell) && lost_to_others(cell);
    let own = if run.plan.text.is_empty() { ", or search without a goal" } else { "" };
    out.extend(
        which(&crowded)
            .map(|whom| format!("\">=\" ({whom}): others used the Tester's cores: stop them{own}")),
    );
    out.extend(which(&|cell| bound(cell) && !lost_to_others(cell)).map(|whom| {
        format!(
            "\">=\" ({whom}): the server was not the limit; a Tester with more cores finds more"
        )
    }));
    out.extend(which(&lacks_cpu).map(|whom| {
        format!("\">\" ({whom}): other processes used the cores: stop them, measure again")
    }));
    out.extend(which(&|cell| run.plan.text.is_empty() && shares_cores(cell)).map(|whom| {
        format!(
            "{whom}: it runs on the Tester's cores; separate them: `--cpus 0`, for the server `taskset -c 1`"
        )
    }));
    out.extend(legend(cells, tables));
    if run.plan.form() != Form::Full {
        let name = &run.plan.experiment;
        let form = run.plan.form().word();
        out.push(format!("a {form} form; the full form: `dnsdyno run {name}`"));
    }
    out
}

/// Returns the names of the cells for which `holds` is true, or the number of these cells; `None`
/// without any. One cell has the settings that vary.
pub(crate) fn names_of(
    cells: &[CellRecord],
    holds: &dyn Fn(&CellRecord) -> bool,
) -> Option<String> {
    let those: Vec<&CellRecord> = cells.iter().filter(|cell| holds(cell)).collect();
    let distinct = those.iter().map(|cell| &cell.server).collect::<BTreeSet<_>>().len();
    match those[..] {
        [] => None,
        [one] => Some(short_name(one, varied(cells.iter()).iter())),
        _ if those.len() == cells.len() => Some("all".to_owned()),
        [first, ..] if distinct == 1 => {
            Some(format!("{} at {} settings", first.server, those.len()))
        }
        _ => Some(format!("{} of {} cells", those.len(), cells.len())),
    }
}

/// Returns the warnings of the trials of a cell.
fn warnings(cell: &CellRecord) -> impl Iterator<Item = &Warning> {
    cell.trials.iter().flat_map(|record| &record.trial.warnings)
}

/// Returns whether a server had its capacity on cores of the Tester.
fn shares_cores(cell: &CellRecord) -> bool {
    cell.capacity.as_ref().is_some_and(|found| found.seen.contains(&Seen::SharedCore))
}

/// Share (0 to 1) of the Tester's cores from which on others are a reason why a trial was void.
const FOREIGN: f64 = 0.1;

/// Returns whether most void trials above a cell's result are void because others used the Tester's
/// cores.
fn lost_to_others(cell: &CellRecord) -> bool {
    let above = |t: &&TrialRecord| cell.median_qps.is_none_or(|reached| t.rate_qps > reached);
    let void = || cell.trials.iter().filter(above).filter_map(|t| t.trial.void.0.as_ref());
    let others = |why: &&Void| matches!(why, Void::Starved { foreign, .. } if *foreign >= FOREIGN);
    2 * void().filter(others).count() > void().count()
}

/// Returns the meaning of the marks in `tables` of these cells; `None` without marks.
fn legend(cells: &[CellRecord], tables: &str) -> Option<String> {
    let marks = [
        (cells.iter().any(CellRecord::is_bound), "\">\", \"<\": a bound, quote it with its sign"),
        (
            // The columns may be left out.
            cells.iter().any(|cell| !cell.loads.is_empty()) && tables.contains("  - ("),
            "\"- (33 %)\": not measured, the Tester could send only 33 % of it; \"- (97 % late)\": 97 % of it left late",
        ),
    ];
    let words: Vec<&str> = marks.iter().filter(|(is, _)| *is).map(|(_, words)| *words).collect();
    (!words.is_empty()).then(|| words.join("; "))
}

/// Returns the missing parts of a run, and the command to measure them; `None` for a complete run.
fn incomplete(run: &Run) -> Option<String> {
    let void: usize = run.results.iter().map(|cell| cell.void_repeats.len()).sum();
    if void == 0 {
        let search = run.results.iter().filter(|_| !run.complete).find_map(interrupted);
        let why = search.unwrap_or_else(|| "the run ended before its time".to_owned());
        return (!run.complete).then(|| format!("INCOMPLETE: {why}"));
    }
    // Loads and searches have no plan to go on with.
    let again = if run.plan.text.is_empty() {
        let trials = run.results.iter().flat_map(|cell| &cell.trials).rev();
        let last = trials.filter_map(|record| record.trial.void.0.as_ref()).next();
        let repeats = run.results.iter().flat_map(|cell| &cell.void_repeats);
        last.map(ToString::to_string)
            .or_else(|| repeats.map(|void| void.why.clone()).next())
            .map_or(String::new(), |why| format!(": {why}"))
    } else {
        let run_name = run.id.map_or_else(String::new, |id| format!(" {id}"));
        let it = if void == 1 { "it" } else { "them" };
        format!("; `dnsdyno run --resume{run_name}` measures {it} again")
    };
    let repeats = counted(void, "repeat", "repeats");
    // The others have a figure for each cell: the exit code is 0.
    let is_whole = run.complete && run.results.iter().all(CellRecord::has_figure);
    let mark = if is_whole { "" } else { "INCOMPLETE: " };
    Some(format!("{mark}{repeats} stayed void and gave no figure{again}"))
}

/// Returns the line that tells how to show the hidden columns and notes.
fn more(run: &Run, file: Option<&str>, hidden: [(usize, &str); 2]) -> String {
    let kept = run.id.map(|id| id.to_string()).or(file.map(str::to_owned));
    let hidden = hidden.into_iter().filter(|(count, _)| *count > 0);
    let hidden = hidden
        .map(|(count, what)| counted(count, &format!("more {what}"), &format!("more {what}s")));
    let what: Vec<String> = hidden.chain(["conditions, proofs".to_owned()]).collect();
    let what = what.join(", ");
    match kept {
        Some(which) => {
            format!("{what}: `dnsdyno show --details {which}`; page: `dnsdyno report {which}`")
        }
        None => format!(
            "{what}: `--json FILE` keeps them for `dnsdyno show --details FILE` and `report`"
        ),
    }
}

/// Returns everything about a run: its tables with all columns, notes on each cell, warnings, the testbed.
pub fn details(run: &Run) -> String {
    let (mut out, _) = tables(run, usize::MAX);
    notes_of_cells(&mut out, &searches(run), notes);
    out.push_str(&cells::details(run));
    for Summary { key, text, count } in summarise(run.results.iter().flat_map(warnings)) {
        let has = |cell: &CellRecord| warnings(cell).any(|w| w.key() == key);
        let whom = names_of(&run.results, &has).unwrap_or_default();
        let _ = writeln!(out, "{whom}: warning: {text} ({})", counted(count, "trial", "trials"));
    }
    for skipped in &run.skipped {
        let _ = writeln!(out, "{}: not measured: {}", skipped_name(skipped), skipped.why);
    }
    for (what, how) in run.plan.words() {
        let _ = writeln!(out, "{what}: {how}");
    }
    for line in merged::testers(run) {
        let _ = writeln!(out, "Testers: {line}");
    }
    for line in auth_hosts::lines(run) {
        let _ = writeln!(out, "AuthDNS: {line}");
    }
    if let Some(file) = &run.plan.certificate {
        let _ = writeln!(out, "{}", certified(file));
    }
    out
}

/// Returns why no search of a cell found a capacity.
fn no_capacity(r: &CellRecord) -> String {
    let verdict = r.capacities.iter().find(|c| c.qps.is_none()).map(|c| c.verdict.as_str());
    format!("no capacity: {}", verdict.unwrap_or("no search ended"))
}

/// Returns the notes below the table about one server.
fn notes(r: &CellRecord) -> Vec<String> {
    let mut out = r.notes.clone();
    out.extend(spread(r));
    if r.at_least {
        let why =
            "\">=\": the server was not what limited every search; its capacity is at least this";
        out.push(why.to_owned());
    }
    out.extend(interrupted(r));
    if r.median_qps.is_none() && r.void_repeats.is_empty() {
        out.push(no_capacity(r));
    }
    out.extend(proofs(r).into_iter().map(|proof| format!("limiter: {proof}")));
    out.extend(void_notes(r));
    match &r.certificate {
        Some(c) if c.passed => out.push(format!(
            "the Tester is certified up to {} qps (self-test at {} qps, timeout {} s, {} s long)",
            thousands(c.certified_qps),
            thousands(c.self_test_qps),
            c.timeout_s,
            c.duration_s
        )),
        Some(_) => {
            let why = "the Tester failed its self-test: nothing here is the server's capacity";
            out.push(why.to_owned());
        }
        None => {}
    }
    if let Some(missed) = r.certificate.as_ref().and_then(missed_truths) {
        out.push(missed);
    }
    if let Some(s) = r.shortened_s {
        out.push(format!(
            "SHORTENED by a test: each trial sent for {s} s, whatever its plan says; this is no measurement"
        ));
    }
    out.extend(differences(r));
    out
}

/// Returns the known values that the Tester missed in its self-test, if it missed any.
fn missed_truths(certificate: &Certificate) -> Option<String> {
    let missed: Vec<String> =
        certificate.checks.iter().filter(|check| check.is_failed()).map(check_line).collect();
    (!missed.is_empty()).then(|| format!("the Tester missed known values: {}", missed.join("; ")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use measure::stall::Side;
    use measure::{Histogram, Limiter, LimiterProof, Link, Nanos, Outstanding, Path};
    use record::{
        Capacity, Figure, LoadPoint, ServerCapacity, Times, TrialRecord, VoidRepeat, Voidness,
    };

    use super::*;
    use crate::view::search::latency_us;
    use crate::view::time_us;

    /// A cell of MLRsearch: each search has a trial at its rate and one above it, which failed by the server's cores.
    fn cell(server: &str, found: &[(f64, Limiter)]) -> CellRecord {
        let mut trial = crate::tests::trial();
        let mut latency = Histogram::new();
        (1..=1_000).for_each(|us| latency.record(Nanos::from_micros(us)));
        trial.latency_us = Times::from(&latency);
        let mut cell = CellRecord::new(server, BTreeMap::new(), "search");
        (cell.rule, cell.goal) = ("mlrsearch".into(), "loss < 0.5%".into());
        for (repeat, (qps, limiter)) in found.iter().enumerate() {
            let at_least = limiter.makes_lower_bound();
            cell.capacities.push(Capacity {
                qps: Some(*qps),
                failed_qps: Some(qps * 2.0),
                at_least,
                limiter: *limiter,
                ..Capacity::default()
            });
            for (rate_qps, passed) in [(*qps, true), (qps * 2.0, false)] {
                let mut trial = trial.clone();
                (trial.passed, trial.limiter) = (Some(passed), *limiter);
                trial.void = Voidness(None);
                trial.warnings = Vec::new();
                let busy = LimiterProof::Busy {
                    side: Side::Dut,
                    share: 0.99,
                    waited: None,
                    counterpart: Some(0.4),
                    cpus: vec![1],
                    host: None,
                };
                trial.limiter_proof = (*limiter == Limiter::Dut && !passed).then_some(busy);
                trial.outstanding = Some(Outstanding { middle: 10.0, end: 12.0, allowed: 20.0 });
                (trial.conditions.link, trial.conditions.path) =
                    (Some(Link::Plain), Some(Path::Wire));
                cell.trials.push(TrialRecord { repeat: repeat as u32, rate_qps, trial });
            }
        }
        cell.repeats = found.len() as u32;
        cell.median_qps = measure::stats::percentile(&cell.found_qps(), 50.0);
        cell
    }

    #[test]
    fn a_capacity_has_its_conditions_each_search_and_every_limiter() {
        let dut = cell("unbound", &[(12_000.0, Limiter::Dut), (13_000.0, Limiter::Dut)]);
        let mut mixed = cell("bind9", &[(8_000.0, Limiter::Dut), (9_000.0, Limiter::Unknown)]);
        mixed.void_repeats.push(VoidRepeat { repeat: 2, why: "3 of 3 trials: starved".into() });
        let mut void = CellRecord::new("dns64d", BTreeMap::new(), "search");
        void.void_repeats.push(VoidRepeat { repeat: 0, why: "3 of 3 trials: starved".into() });
        void.notes.push("its cache cannot be switched off".into());
        let run = Run { results: vec![dut, mixed, void], ..Run::default() };
        let text = super::run(&run);
        let lines: Vec<&str> = text.lines().collect();
        let p50 = time_us(latency_us(&run.results[0], 0.5).expect("a latency"));
        assert!(p50.starts_with("500.") && p50.ends_with(" us"), "{p50}");
        assert_eq!(lines[0], "Capacity (rule mlrsearch, goal loss < 0.5%, link plain, path wire)");
        let words = |i: usize| {
            lines[i].split("  ").map(str::trim).filter(|w| !w.is_empty()).collect::<Vec<_>>()
        };
        let limited = "1 of 2 searches: the server, 1 of 2: not known";
        assert_eq!(words(1)[..2], ["server", "median, queries/s"]);
        assert_eq!(words(2)[..2], ["unbound", "12,500 (12,000; 13,000)"]);
        assert_eq!(words(2).last(), Some(&"the server"));
        assert_eq!(words(3)[1], "8,500 (8,000; >= 9,000)");
        assert_eq!(words(3).last(), Some(&limited));
        assert_eq!(words(4)[..2], ["dns64d", "-"]);
        assert!(lines[1..5].iter().all(|line| line.chars().count() <= TABLE_WIDTH), "{text}");
        assert!(lines.len() <= 5 + MAX_LINES_BELOW, "{text}");
        for part in
            ["INCOMPLETE: 2 repeats stayed void", "dnsdyno show --details FILE", "more columns"]
        {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        let details = super::details(&run);
        for line in [
            "unbound: limiter: the server's core 1 busy 99 % of the time, the AuthDNS 40 % (searches 1, 2)",
            "bind9: limiter: no single limiter was proven (search 2)",
            "bind9: repeat 3 of 3 void: 3 of 3 trials: starved",
            "dns64d: its cache cannot be switched off",
        ] {
            assert!(details.lines().any(|other| other == line), "{line} is not in\n{details}");
        }
    }

    #[test]
    fn a_warning_names_its_server_and_its_point() {
        let at = |server: &str, cores: &str, warnings: &[Warning]| {
            let mut cell = cell(server, &[(12_000.0, Limiter::Dut)]);
            cell.settings = [("cores".to_owned(), cores.to_owned())].into();
            cell.trials[0].trial.warnings = warnings.to_vec();
            cell
        };
        let both = [Warning::AddressNotChecked, Warning::SlowCore { share: 0.04 }];
        let (one, two) = (at("nsd", "1", &both[1..]), at("nsd", "2", &both));
        let results = vec![one, two, at("knot", "2", &[])];
        let mut run = Run { results, ..Run::default() };
        let all = super::run(&run) + &details(&run);
        let told: Vec<&str> = all.lines().filter(|line| line.contains("warning:")).collect();
        let [short, slow, unchecked] = told[..] else { panic!("{told:?}") };
        assert!(short.starts_with("nsd cores=2: warning: the answers' addresses"), "{short}");
        assert!(slow.starts_with("nsd at 2 settings: warning: the server's core was 4.0 %"));
        assert!(unchecked.starts_with("nsd cores=2: warning: the answers'"), "{unchecked}");
        run.results.truncate(1);
        assert!(details(&run).contains("\nnsd: warning: "), "one point needs no name");
    }

    #[test]
    fn a_long_list_of_doubts_leaves_five_lines() {
        let mut all = cell("nsd", &[(12_000.0, Limiter::Unknown)]);
        (all.at_least, all.shortened_s) = (true, Some(0.3));
        let skipped = record::Skipped {
            server: "knot".into(),
            why: "not\ninstalled".into(),
            ..Default::default()
        };
        let mut run =
            Run { id: Some(7), results: vec![all], skipped: vec![skipped], ..Run::default() };
        run.plan.quick = true;
        let text = super::run(&run);
        let below: Vec<&str> = text.lines().skip(3).collect();
        assert_eq!(below.len(), MAX_LINES_BELOW, "{text}");
        let beginnings = ["SHORTENED", "INCOMPLETE", "not measured: knot (not)", "\">=\" (nsd)"];
        for (line, beginning) in below.iter().zip(beginnings) {
            assert!(line.starts_with(beginning), "{line}");
        }
        assert!(below[4].ends_with("page: `dnsdyno report 7`"), "{text}");
    }

    #[test]
    fn a_search_whose_repeats_are_all_void_has_no_bound_and_nothing_to_resume() {
        let mut void = cell("nsd", &[]);
        void.at_least = true;
        void.void_repeats.push(VoidRepeat { repeat: 0, why: "3 of 3 trials: starved".into() });
        let text = super::run(&Run { results: vec![void], ..Run::default() });
        let again = "INCOMPLETE: 1 repeat stayed void and gave no figure: 3 of 3 trials: starved";
        assert!(
            text.contains(again) && !text.contains(">=") && !text.contains("--resume"),
            "{text}"
        );
    }

    #[test]
    fn a_void_repeat_beside_others_is_told_and_the_run_is_complete() {
        let mut some = cell("nsd", &[(12_000.0, Limiter::Dut), (13_000.0, Limiter::Dut)]);
        some.void_repeats.push(VoidRepeat { repeat: 2, why: "3 of 3 trials: starved".into() });
        let of =
            |complete| super::run(&Run { results: vec![some.clone()], complete, ..Run::default() });
        let told = "1 repeat stayed void and gave no figure: 3 of 3 trials: starved";
        assert!(of(true).lines().any(|line| line.starts_with(told)), "{}", of(true));
        assert!(of(false).contains(&format!("INCOMPLETE: {told}")), "{}", of(false));
    }

    #[test]
    fn a_bound_by_others_says_so_and_marks_have_a_legend() {
        let mut bound = cell("nsd", &[(2_524.0, Limiter::TesterCpu)]);
        bound.at_least = true;
        let said = |cell: &CellRecord| {
            super::run(&Run { results: vec![cell.clone()], complete: true, ..Run::default() })
        };
        assert!(said(&bound).contains("a Tester with more cores finds more"), "{}", said(&bound));
        // A quiet command prints the table only.
        let run = Run { results: vec![bound.clone()], complete: true, ..Run::default() };
        assert!(said(&bound).starts_with(&super::result(&run)));
        assert_eq!(super::result(&run).lines().count(), 3);
        let last = |file| super::run_in(&run, file).lines().last().map(str::to_owned);
        assert!(last(Some("r.json")).is_some_and(|line| line.contains("show --details r.json`")));
        assert!(last(None).is_some_and(|line| line.contains("`--json FILE` keeps them")));
        for t in &mut bound.trials {
            t.trial.void = Voidness(Some(Void::Starved { run_delay: 0.5, foreign: 0.6 }));
        }
        let text = said(&bound);
        let why =
            "\">=\" (nsd): others used the Tester's cores: stop them, or search without a goal";
        assert!(text.contains(why) && !text.contains("more cores"), "{text}");

        let mut rounds = CellRecord::new("nsd", BTreeMap::new(), "capacity");
        rounds.capacity = Some(ServerCapacity { exceeded: true, ..ServerCapacity::default() });
        rounds.figures.insert("capacity".into(), Figure::new("qps", vec![1e4; 8]));
        rounds.loads.push(LoadPoint { share: 0.5, ..LoadPoint::default() });
        let text = said(&rounds);
        let legend = "\">\", \"<\": a bound, quote it with its sign; \"- (33 %)\": not measured";
        assert!(text.lines().any(|line| line.starts_with(legend)), "{text}");
        rounds.loads[0].reached = true;
        assert!(!said(&rounds).contains("not measured"), "a legend without its mark");
    }

    #[test]
    fn conditions_that_differ_are_columns() {
        let one = cell("nsd", &[(10_000.0, Limiter::Dut)]);
        let mut other = cell("knot", &[(10_000.0, Limiter::Dut)]);
        for trial in &mut other.trials {
            trial.trial.conditions.path = Some(Path::HostOffload);
        }
        let text = super::run(&Run { results: vec![one, other], ..Run::default() });
        let lines: Vec<&str> = text.lines().collect();
        assert!(!lines[0].contains("path") && lines[1].starts_with("server  path "), "{text}");
        assert!(lines[2].contains(" wire ") && lines[3].contains(" host-offload "), "{text}");
    }

    #[test]
    fn an_interrupted_search_says_what_had_passed() {
        let mut cell = cell("nsd", &[(12_000.0, Limiter::Dut)]);
        let interrupted = |cell: &CellRecord| {
            let text = super::details(&Run { results: vec![cell.clone()], ..Run::default() });
            text.lines().find(|line| line.contains("interrupted")).map(str::to_owned)
        };
        assert_eq!(interrupted(&cell), None);
        for (rate_qps, passed) in [(10_000.0, true), (20_000.0, false), (15_000.0, true)] {
            let mut record = cell.trials[0].clone();
            (record.repeat, record.rate_qps, record.trial.passed) = (1, rate_qps, Some(passed));
            cell.trials.push(record);
        }
        let said = "nsd: search 2 was interrupted: 15,000 qps passed, 20,000 failed";
        assert_eq!(interrupted(&cell).as_deref(), Some(said));
        cell.over = Some("clients".to_owned());
        cell.trials.retain(|t| t.repeat == 0 || t.trial.passed == Some(true));
        let said = "nsd: search 2 was interrupted: 15,000 clients passed, no higher rate failed";
        assert_eq!(interrupted(&cell).as_deref(), Some(said));
    }
}
