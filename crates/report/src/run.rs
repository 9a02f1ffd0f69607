//! The report of a search or a run: a table with one line for each server and setting.

use std::fmt::Write;

use measure::warning::summarise;
use record::{CellRecord, Certificate, Run};

use crate::auth_hosts;
use crate::cells;
use crate::checks::{certified, check_line};
use crate::merged;
use crate::spread::spread;
use crate::view::Align::{Left, Right};
use crate::view::conditions::Conditions;
use crate::view::limiter::proofs;
use crate::view::name::{long_name, repeats, short_name, void_notes};
use crate::view::number::counted;
use crate::view::search::{at_full_speed, each_search, interrupted, latency_us, of_udp, rate};
use crate::view::table::varied;
use crate::view::{align, skipped_name, thousands, time_us};

/// Returns the table and the notes that are needed to read it.
pub fn run(run: &Run) -> String {
    let mut out = String::new();
    let searches: Vec<&CellRecord> = run.results.iter().filter(|r| r.method == "search").collect();
    if !searches.is_empty() {
        capacities(&mut out, run, &searches);
    }
    out.push_str(&cells::tables(run));
    let trials = run.results.iter().flat_map(|cell| &cell.trials).map(|t| &t.trial);
    for warning in summarise(trials.flat_map(|trial| &trial.warnings)) {
        let count = counted(warning.count, "trial", "trials");
        let _ = writeln!(out, "warning: {} ({count})", warning.text);
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
    let void: usize = run.results.iter().map(|cell| cell.void_repeats.len()).sum();
    if void > 0 {
        let what = if void == 1 { "repeat" } else { "repeats" };
        let _ = writeln!(
            out,
            "INCOMPLETE: {void} {what} stayed void and gave no figure; `dnsdyno run --resume` measures them again"
        );
    } else if !run.complete {
        let _ = writeln!(out, "INCOMPLETE: the run ended before its time");
    }
    out
}

/// Writes the table of capacities and its notes.
fn capacities(out: &mut String, run: &Run, results: &[&CellRecord]) {
    let varied = varied(results.iter().copied());
    let conditions = Conditions::of(run, results.iter().copied(), &varied);
    let names: Vec<String> = results.iter().map(|r| short_name(r, varied.iter())).collect();
    // Percentiles need many searches.
    let percentiles = results.iter().any(|r| r.p01_qps.is_some());
    let mut heads = vec!["server"];
    heads.extend(&conditions.columns);
    let unit = results.iter().find_map(|r| r.over.as_deref()).unwrap_or("qps");
    let (median, each) = (format!("median {unit}"), format!("each search, {unit}"));
    heads.push(&median);
    let of_udp: Vec<Option<String>> =
        results.iter().map(|r| of_udp(r, results.iter().copied())).collect();
    let compared = of_udp.iter().any(Option::is_some);
    heads.extend(compared.then_some("of UDP"));
    heads.extend(percentiles.then_some(["1st pct", "99th pct"]).into_iter().flatten());
    heads.extend(["p50", "p99", "searches", "limiter", "RFC 8219", &each]);
    let heads: Vec<String> = heads.into_iter().map(str::to_owned).collect();
    let rows = results.iter().zip(of_udp).map(|(r, of_udp)| {
        let mut row = vec![long_name(r, varied.iter())];
        row.extend(conditions.values(run, r));
        row.push(rate(r.median_qps, r.at_least, "-"));
        row.extend(compared.then(|| of_udp.unwrap_or_else(|| "-".to_owned())));
        row.extend(of_cell(r, percentiles));
        row
    });
    let table: Vec<Vec<String>> = std::iter::once(heads).chain(rows).collect();
    let numbers = 4 + if percentiles { 2 } else { 0 } + usize::from(compared);
    let mut sides = vec![Left; 1 + conditions.columns.len()];
    sides.extend(vec![Right; numbers]);
    sides.push(Left);
    let _ = writeln!(out, "{}", conditions.title(heading(results)));
    out.push_str(&align(&table, &sides));
    // A note that applies to several cells appears once.
    let mut said: Vec<(String, Vec<&str>)> = Vec::new();
    for (result, name) in results.iter().zip(&names) {
        for note in notes(result) {
            match said.iter_mut().find(|(text, _)| *text == note) {
                Some((_, names)) => names.push(name),
                None => said.push((note, vec![name])),
            }
        }
    }
    for (note, names) in said {
        let all = names.len() == results.len() && names.len() > 1;
        let whom = if all { "all".to_owned() } else { names.join(", ") };
        let _ = writeln!(out, "{whom}: {note}");
    }
}

/// Returns what the table has.
fn heading(results: &[&CellRecord]) -> &'static str {
    if results.iter().any(|r| r.is_estimated()) {
        "Capacity, with the latency of the nearest trial that passed"
    } else {
        "Capacity, with the latency at that rate"
    }
}

/// Returns the figures of one cell but its median.
fn of_cell(r: &CellRecord, percentiles: bool) -> Vec<String> {
    let qps = |qps: Option<f64>| rate(qps, r.at_least, "-");
    let latency = |q| latency_us(r, q).map_or_else(|| "-".to_owned(), time_us);
    let limiters = r.limiters().to_string();
    let percentiles = percentiles.then(|| [qps(r.p01_qps), qps(r.p99_qps)]);
    let mut row: Vec<String> = percentiles.into_iter().flatten().collect();
    row.extend([
        latency(0.5),
        latency(0.99),
        repeats(r),
        if limiters.is_empty() { "-".to_owned() } else { limiters },
        conforming(r).to_owned(),
        each_search(r),
    ]);
    row
}

/// Returns the notes below the table about one server.
fn notes(r: &CellRecord) -> Vec<String> {
    let mut out = r.notes.clone();
    out.extend(spread(r));
    out.extend(at_full_speed(r).map(|words| format!("the capacity is the one {words}")));
    if r.at_least {
        let why =
            "\">=\": the server was not what limited every search; its capacity is at least this";
        out.push(why.to_owned());
    }
    out.extend(interrupted(r));
    if r.median_qps.is_none() && r.void_repeats.is_empty() {
        let verdict = r.capacities.iter().find(|c| c.qps.is_none()).map(|c| c.verdict.as_str());
        out.push(format!("no capacity: {}", verdict.unwrap_or("no search ended")));
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
    if !r.differs.is_empty() {
        out.push(format!("differs from RFC 8219: {}", r.differs.join("; ")));
    }
    out
}

/// Returns the known values that the Tester missed in its self-test, if it missed any.
fn missed_truths(certificate: &Certificate) -> Option<String> {
    let missed: Vec<String> =
        certificate.checks.iter().filter(|check| check.is_failed()).map(check_line).collect();
    (!missed.is_empty()).then(|| format!("the Tester missed known values: {}", missed.join("; ")))
}

/// Returns whether a cell conforms to RFC 8219, as words.
pub(crate) fn conforming(r: &CellRecord) -> &'static str {
    match (r.conforming, r.shortened_s) {
        (true, None) => "conforming",
        (true, Some(_)) => "conforming, SHORTENED",
        (false, _) => "not conforming",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use measure::stall::Side;
    use measure::{Histogram, Limiter, LimiterProof, Link, Nanos, Outstanding, Path};
    use record::{Capacity, Times, Trial, TrialRecord, VoidRepeat, Voidness};

    use super::*;

    /// A cell of MLRsearch: each search has a trial at its rate and one above it, which failed by the server's cores.
    fn cell(server: &str, found: &[(f64, Limiter)]) -> CellRecord {
        let mut trial: Trial =
            serde_json::from_str(include_str!("../../record/tests/fixtures/trial.json"))
                .expect("a trial");
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
                verdict: String::new(),
                also: Vec::new(),
                estimate: None,
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
        assert_eq!(
            lines[0],
            "Capacity, with the latency at that rate (rule mlrsearch, goal loss < 0.5%, link plain, path wire)"
        );
        let words = |i: usize| {
            lines[i].split("  ").map(str::trim).filter(|w| !w.is_empty()).collect::<Vec<_>>()
        };
        assert_eq!(words(1)[..3], ["server", "median qps", "p50"], "no percentile of few repeats");
        assert_eq!(words(2)[..3], ["unbound", "12,500", &p50]);
        assert_eq!(
            words(2)[4..],
            ["2", "2 of 2 searches: dut", "not conforming", "12,000; 13,000"]
        );
        assert_eq!(words(3)[4], "2, void 1 of 3");
        assert_eq!(words(3)[5], "1 of 2 searches: dut, 1 of 2: limiter not known");
        assert_eq!(words(3)[7], "8,000; >= 9,000");
        assert_eq!(words(4), ["dns64d", "-", "-", "-", "void 1 of 1", "-", "not conforming"]);
        for line in [
            "unbound: limiter: the server's core 1 busy 99 % of the time, the AuthDNS 40 % (searches 1, 2)",
            "bind9: limiter: no single limiter was proven (search 2)",
            "bind9: repeat 3 of 3 void: 3 of 3 trials: starved",
            "dns64d: its cache cannot be switched off",
        ] {
            assert!(lines.contains(&line), "{line} is not in\n{text}");
        }
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
            let text = super::run(&Run { results: vec![cell.clone()], ..Run::default() });
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
        let said = "nsd: search 2 was interrupted: 15,000 clients passed, nothing above it failed";
        assert_eq!(interrupted(&cell).as_deref(), Some(said));
    }
}
