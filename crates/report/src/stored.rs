//! Runs as the store has them: the list, and what stands above the table of one.

use std::fmt::Write;
use std::time::{Duration, UNIX_EPOCH};

use record::{CellRecord, Run, RunLine, Seam};

use crate::thousands;

/// The list of runs, a line each, the oldest first.
pub fn runs(lines: &[RunLine]) -> String {
    let heads = ["run", "began", "took", "experiment", "cells", "trials", "state", "servers"];
    let rows = lines.iter().map(|line| {
        [
            line.id.to_string(),
            date(line.started_unix_s),
            took(line.touched_unix_s - line.started_unix_s),
            line.experiment.clone(),
            format!("{}/{}", line.cells_done, line.cells),
            line.trials.to_string(),
            line.state.word().to_owned(),
            line.servers.join(", "),
        ]
    });
    let rows: Vec<[String; 8]> = std::iter::once(heads.map(str::to_owned)).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..heads.len()).map(|column| width(column).unwrap_or(0)).collect();
    let mut out = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            let width = *width;
            if matches!(column, 0 | 2 | 4 | 5) {
                format!("{cell:>width$}")
            } else {
                format!("{cell:<width$}")
            }
        });
        let _ = writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    out
}

/// What a run was, in some lines: what, when, by which command, and where it was interrupted.
pub fn heading(run: &Run) -> String {
    let plan = &run.plan;
    let mut out = String::new();
    let number = run.id.map_or(String::new(), |id| format!("run {id}: "));
    let title = if plan.title.is_empty() { String::new() } else { format!(": {}", plan.title) };
    let quick = if plan.quick { " (quick)" } else { "" };
    let _ = writeln!(out, "{number}{}{quick}{title}", plan.experiment);
    if plan.started_unix_s > 0.0 {
        let (began, took) = (date(plan.started_unix_s), took(run.elapsed_s));
        let _ = writeln!(out, "began {began}, took {took}, dnsdyno {}", plan.version);
    }
    if !plan.command.is_empty() {
        let _ = writeln!(out, "command: {}", plan.command);
    }
    for seam in &run.seams {
        let _ = writeln!(out, "{}", interruption(seam));
    }
    out
}

/// Which cell it is: the server, its version and what was varied.
pub fn cell_name(cell: &CellRecord) -> String {
    let version = cell.server_version.iter().map(|version| format!(" {version}"));
    let settings = cell.settings.iter().map(|(key, value)| format!(" {key}={value}"));
    std::iter::once(cell.server.clone()).chain(version).chain(settings).collect()
}

/// The figures of a cell, a line each.
pub fn figures(cell: &CellRecord) -> String {
    let mut out = String::new();
    for (name, figure) in &cell.figures {
        let Some(median) = figure.median() else { continue };
        let value = |x: f64| format!("{} {}", significant(x), figure.unit).trim_end().to_owned();
        let count = figure.values.len();
        let _ = write!(out, "{name} {}", value(median));
        if count > 1 {
            let (low, high) = figure
                .values
                .iter()
                .fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(*v), high.max(*v)));
            let _ = write!(out, " (median of {count}; {} to {})", value(low), value(high));
        }
        out.push('\n');
    }
    out
}

/// A number with four significant digits, whole ones as they are.
pub(crate) fn significant(x: f64) -> String {
    if x.fract() == 0.0 || x.abs() >= 1_000.0 {
        return thousands(x);
    }
    let before = x.abs().max(1e-9).log10().floor() as i32 + 1;
    format!("{x:.*}", usize::try_from(4 - before).unwrap_or(0))
}

/// An interruption, in a line.
fn interruption(seam: &Seam) -> String {
    format!(
        "interrupted {}, taken up again {} by dnsdyno {}; {} trials are from before",
        date(seam.stopped_unix_s),
        date(seam.resumed_unix_s),
        seam.version,
        seam.trials_before,
    )
}

/// Seconds since 1970 as a date in UTC, RFC 3339.
fn date(unix_s: f64) -> String {
    // The year 9999 ends there; what is no such date is none.
    let date = Duration::try_from_secs_f64(unix_s).ok().filter(|d| d.as_secs() < 253_402_300_800);
    date.map_or("-".to_owned(), |d| humantime::format_rfc3339_seconds(UNIX_EPOCH + d).to_string())
}

/// A time that something took, to the second.
fn took(seconds: f64) -> String {
    let whole = Duration::from_secs(seconds.max(0.0).round() as u64);
    humantime::format_duration(whole).to_string()
}

#[cfg(test)]
mod tests {
    use record::RunState;

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
            "12 2026-11-21T03:51:00Z 1h 1m 5s dns64-rfc8219 1/2 31 interrupted dns64d, unbound"
        );
    }

    #[test]
    fn cells_have_names_and_figures() {
        let settings = [("cores".to_owned(), "2".to_owned()), ("zone".into(), "/16".into())].into();
        let mut cell = CellRecord::new("nsd", settings, "load");
        assert_eq!(cell_name(&cell), "nsd cores=2 zone=/16");
        cell.server_version = Some("4.6.1".into());
        assert_eq!(cell_name(&cell), "nsd 4.6.1 cores=2 zone=/16");
        let figure = |unit, values| record::Figure::new(unit, values);
        cell.figures = [
            ("memory".to_owned(), figure("B", vec![1_234_567.0])),
            ("names".to_owned(), figure("", vec![])),
            ("zone_load".to_owned(), figure("s", vec![0.25, 0.012_346, 1.5])),
        ]
        .into();
        assert_eq!(
            figures(&cell),
            "memory 1,234,567 B\nzone_load 0.2500 s (median of 3; 0.01235 s to 1.500 s)\n"
        );
    }

    #[test]
    fn dates() {
        assert_eq!(date(0.0), "1970-01-01T00:00:00Z");
        assert_eq!([date(-1.0), date(f64::NAN), date(1e300)], ["-", "-", "-"]);
    }
}
