//! The report of a search or a run: a table with one line for each server and setting.

use std::fmt::Write;

use record::{CellRecord, Run};

use crate::cells;
use crate::spread::spread;
use crate::view::Align::{Left, Right};
use crate::view::name::{long_name, repeats, short_name, void_notes};
use crate::view::table::varied;
use crate::view::{align, skipped_name, thousands};

/// Returns the table and the notes that are needed to read it.
pub fn run(run: &Run) -> String {
    let mut out = String::new();
    let searches: Vec<&CellRecord> = run.results.iter().filter(|r| r.method == "search").collect();
    if !searches.is_empty() {
        capacities(&mut out, &searches);
    }
    out.push_str(&cells::tables(run));
    for skipped in &run.skipped {
        let _ = writeln!(out, "{}: not measured: {}", skipped_name(skipped), skipped.why);
    }
    for (what, how) in run.plan.words() {
        let _ = writeln!(out, "{what}: {how}");
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
fn capacities(out: &mut String, results: &[&CellRecord]) {
    let varied = varied(results.iter().copied());
    let names: Vec<String> = results.iter().map(|r| short_name(r, varied.iter())).collect();
    let rows: Vec<[String; 7]> = results.iter().map(|r| row(r, &varied)).collect();
    let heads = ["server", "median qps", "1st pct", "99th pct", "searches", "limiter", "RFC 8219"]
        .map(str::to_owned);
    let table: Vec<&[String; 7]> = std::iter::once(&heads).chain(&rows).collect();
    out.push_str(&align(&table, &[Left, Right, Right, Right, Right, Left]));
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

fn row(r: &CellRecord, varied: &[String]) -> [String; 7] {
    let sign = if r.at_least { ">= " } else { "" };
    let qps = |x: Option<f64>| x.map_or("-".to_owned(), |x| format!("{sign}{}", thousands(x)));
    let conforming = if r.conforming { "conforming" } else { "not conforming" };
    [
        long_name(r, varied.iter()),
        qps(r.median_qps),
        qps(r.p01_qps),
        qps(r.p99_qps),
        repeats(r),
        r.limiter.to_string(),
        conforming.into(),
    ]
}

/// Returns the notes below the table about one server.
fn notes(r: &CellRecord) -> Vec<String> {
    let mut out = spread(r);
    if r.at_least {
        let why =
            "\">=\": the server was not what limited every search; its capacity is at least this";
        out.push(why.to_owned());
    }
    if r.median_qps.is_none() && r.void_repeats.is_empty() {
        let verdict = r.capacities.iter().find(|c| c.qps.is_none()).map(|c| c.verdict.as_str());
        out.push(format!("no capacity: {}", verdict.unwrap_or("no search ended")));
    }
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
    if !r.differs.is_empty() {
        out.push(format!("differs from RFC 8219: {}", r.differs.join("; ")));
    }
    out
}
