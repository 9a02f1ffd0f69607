//! Stored runs: the list, and the heading above the table of one run.

use std::fmt::Write;

use record::{CellRecord, Plan, Run, RunLine, Seam};

use crate::results::CAPACITY;
use crate::view::Align::{Left, Right};
use crate::view::number::{counted, range};
use crate::view::unit::with_unit;
use crate::view::{align, date, figure_name, span};

/// Returns the list of runs, one line each, oldest first.
pub fn runs(lines: &[RunLine]) -> String {
    let heads = ["run", "began", "took", "experiment", "cells", "trials", "state", "servers"];
    let rows = lines.iter().map(|line| {
        [
            line.id.to_string(),
            date(line.started_unix_s),
            span(line.touched_unix_s - line.started_unix_s),
            line.experiment.clone(),
            format!("{}/{}", line.cells_done, line.cells),
            line.trials.to_string(),
            line.state.word().to_owned(),
            line.servers.join(", "),
        ]
    });
    let rows: Vec<[String; 8]> = std::iter::once(heads.map(str::to_owned)).chain(rows).collect();
    let sides = [Right, Left, Right, Left, Right, Right, Left, Left];
    align(&rows, &sides)
}

/// Describes a run in some lines: title, start, command, and interruptions.
pub fn heading(run: &Run) -> String {
    let plan = &run.plan;
    let mut out = String::new();
    let number = run.id.map_or(String::new(), |id| format!("run {id}: "));
    let title = if plan.title.is_empty() { String::new() } else { format!(": {}", plan.title) };
    let _ = writeln!(out, "{number}{}{}{title}", plan.experiment, plan.form().suffix());
    if plan.started_unix_s > 0.0 {
        let (began, took) = (date(plan.started_unix_s), span(run.elapsed_s));
        let _ = writeln!(out, "began {began}, took {took}, {}", program(plan));
    }
    if !plan.command.is_empty() {
        let _ = writeln!(out, "command: {}", plan.command);
    }
    for seam in &run.seams {
        let _ = writeln!(out, "{}", interruption(seam));
    }
    out
}

/// Returns the program that made a run: its version, and the commit where that is known.
pub(crate) fn program(plan: &Plan) -> String {
    let commit = plan.commit.as_ref().map(|commit| format!(" ({commit})"));
    format!("dnsdyno {}{}", plan.version, commit.unwrap_or_default())
}

/// Returns the figures of a cell, one line each.
pub(crate) fn figures(cell: &CellRecord) -> String {
    let mut out = String::new();
    for (name, figure) in &cell.figures {
        let Some(median) = figure.median() else { continue };
        let value = |x: f64| with_unit(x, &figure.unit);
        let count = figure.values.len();
        if let Some(found) = cell.capacity.as_ref().filter(|_| name == CAPACITY) {
            let (low, high) = (value(found.low_qps), value(found.high_qps));
            let rounds = counted(found.rounds as usize, "round", "rounds");
            let sign = if found.exceeded { "> " } else { "" };
            let capacity = format!("{sign}{} ({low} to {high}; {rounds})", value(found.qps));
            let _ = writeln!(out, "{} {capacity}", figure_name(name));
            continue;
        }
        let _ = write!(out, "{} {}", figure_name(name), value(median));
        if let Some((low, high)) = range(&figure.values).filter(|_| count > 1) {
            let _ = write!(out, " (median of {count}; {} to {})", value(low), value(high));
        }
        out.push('\n');
    }
    out
}

/// Returns the description of an interruption in one line.
fn interruption(seam: &Seam) -> String {
    format!(
        "interrupted {}, resumed {} by dnsdyno {}; {} from before",
        date(seam.stopped_unix_s),
        date(seam.resumed_unix_s),
        seam.version,
        counted(seam.trials_before as usize, "trial is", "trials are"),
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use record::{RunState, ServerCapacity};

    use super::*;

    #[test]
    fn a_list_has_its_columns() {
        let line = RunLine {
            id: 12,
            experiment: "dns64-rfc8219".into(),
            started_unix_s: 1_795_233_060.5,
            touched_unix_s: 1_795_236_725.0,
            state: RunState::Interrupted,
            servers: vec!["dns64d".into(), "unbound".into()],
            cells_done: 1,
            cells: 2,
            trials: 31,
        };
        let text = runs(&[line]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0].find("state"), lines[1].find("interrupted"), "{text}");
        assert_eq!(
            lines[1].split_whitespace().collect::<Vec<_>>().join(" "),
            "12 2026-11-21T03:51:00Z 61 min dns64-rfc8219 1/2 31 interrupted dns64d, unbound"
        );
    }

    #[test]
    fn a_heading_names_the_commit_of_the_program() {
        let commit = Some("3689cb1808e9".to_owned());
        let plan = Plan { version: "0.1.0".into(), started_unix_s: 1.0, commit, ..Plan::default() };
        let heading = heading(&Run { plan, ..Run::default() });
        assert!(heading.contains("took 0 s, dnsdyno 0.1.0 (3689cb1808e9)\n"), "{heading}");
    }

    #[test]
    fn each_figure_has_a_line() {
        let mut cell = CellRecord::new("nsd", BTreeMap::new(), "load");
        let figure = |unit, values| record::Figure::new(unit, values);
        cell.figures = [
            ("memory".to_owned(), figure("B", vec![1_234_567.0])),
            ("names".to_owned(), figure("", vec![])),
            ("zone_load".to_owned(), figure("s", vec![0.25, 0.012_346, 1.5])),
        ]
        .into();
        assert_eq!(
            figures(&cell),
            "memory 1.2 MB\nzone load 250 ms (median of 3; 12.35 ms to 1.5 s)\n"
        );
        // A capacity of rounds is no median of them.
        cell.figures =
            [("capacity".to_owned(), figure("qps", vec![900.0, 1_000.0, 2_000.0]))].into();
        let (qps, low_qps, high_qps, rounds) = (1_100.0, 1_000.0, 1_200.0, 3);
        let found = ServerCapacity { qps, low_qps, high_qps, rounds, ..ServerCapacity::default() };
        cell.capacity = Some(found);
        assert_eq!(figures(&cell), "capacity 1,100 qps (1,000 qps to 1,200 qps; 3 rounds)\n");
        assert_eq!(crate::export::measures(&cell)[0].value, 1_100.0);
    }
}
