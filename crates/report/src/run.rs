//! A search or a run: a table, a line for each server and setting.

use std::fmt::Write;

use record::{CellRecord, Run};

use crate::spread::spread;
use crate::stored::cell_name;
use crate::thousands;

/// The table, and what has to be known to read it.
pub fn run(run: &Run) -> String {
    let mut out = String::new();
    let rows: Vec<[String; 7]> = run.results.iter().map(row).collect();
    let heads = ["server", "median qps", "1st pct", "99th pct", "searches", "limiter", "RFC 8219"]
        .map(str::to_owned);
    let mut widths = heads.clone().map(|h| h.len());
    for row in &rows {
        widths.iter_mut().zip(row).for_each(|(w, cell)| *w = (*w).max(cell.chars().count()));
    }
    for row in std::iter::once(&heads).chain(&rows) {
        let cells = row.iter().zip(widths).enumerate().map(|(i, (cell, width))| {
            if (1..=4).contains(&i) { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        let _ = writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    for result in &run.results {
        notes(&mut out, result);
    }
    for skipped in &run.skipped {
        let _ = writeln!(out, "{}: not measured: {}", skipped.server, skipped.why);
    }
    for (what, how) in &run.plan.testbed {
        let _ = writeln!(out, "{what}: {how}");
    }
    if !run.complete {
        let _ = writeln!(out, "INCOMPLETE: the run ended before its time");
    }
    out
}

fn row(r: &CellRecord) -> [String; 7] {
    let sign = if r.at_least { ">= " } else { "" };
    let qps = |x: Option<f64>| x.map_or("-".to_owned(), |x| format!("{sign}{}", thousands(x)));
    let conforming = if r.conforming { "conforming" } else { "not conforming" };
    [
        cell_name(r),
        qps(r.median_qps),
        qps(r.p01_qps),
        qps(r.p99_qps),
        r.repeats.to_string(),
        r.limiter.to_string(),
        conforming.into(),
    ]
}

/// What stands below the table about one server.
fn notes(out: &mut String, r: &CellRecord) {
    for line in spread(r) {
        let _ = writeln!(out, "{} {line}", cell_name(r));
    }
    if r.at_least {
        let _ = writeln!(
            out,
            "{}: \">=\": the server was not what limited every search; its capacity is at least this",
            r.server
        );
    }
    if r.median_qps.is_none() {
        let verdicts: Vec<&str> =
            r.capacities.iter().filter(|c| c.qps.is_none()).map(|c| c.verdict.as_str()).collect();
        let _ = writeln!(
            out,
            "{}: no capacity: {}",
            r.server,
            verdicts.first().unwrap_or(&"no search ended")
        );
    }
    match &r.certificate {
        Some(c) if c.passed => {
            let _ = writeln!(
                out,
                "{}: the Tester is certified up to {} qps (self-test at {} qps, timeout {} s, {} s long)",
                r.server,
                thousands(c.certified_qps),
                thousands(c.self_test_qps),
                c.timeout_s,
                c.duration_s
            );
        }
        Some(_) => {
            let _ = writeln!(
                out,
                "{}: the Tester failed its self-test: nothing here is the server's capacity",
                r.server
            );
        }
        None => {}
    }
    if !r.differs.is_empty() {
        let _ = writeln!(out, "{}: differs from RFC 8219: {}", r.server, r.differs.join("; "));
    }
}
