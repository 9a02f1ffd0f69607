//! Two runs side by side, as a table.

use std::collections::BTreeMap;
use std::fmt::Write;

use record::{Compared, Comparison, Missing, Outcome};

use crate::stored::significant;

/// The table, and what has to be known to read it.
pub fn comparison(c: &Comparison) -> String {
    let heads = ["what", "first", "second", "ratio", "interval", "verdict", "shows from"];
    let rows = c.figures.iter().map(row);
    let rows: Vec<[String; 7]> = std::iter::once(heads.map(str::to_owned)).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..heads.len()).map(|column| width(column).unwrap_or(0)).collect();
    let mut out = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            let width = *width;
            if (1..=3).contains(&column) {
                format!("{cell:>width$}")
            } else {
                format!("{cell:<width$}")
            }
        });
        let _ = writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    let percent = |share: f64| significant((share * 1e6).round() / 1e4);
    let _ = writeln!(
        out,
        "\nThe ratio is the second over the first; all verdicts together are {} % sure, a difference below \
         {} % is none. One below \"shows from\" could not have been shown.",
        percent(c.confidence),
        percent(c.margin)
    );
    for figure in c.figures.iter().filter(|f| !f.notes.is_empty()) {
        let _ = writeln!(out, "{}: {}", name(figure), figure.notes.join("; "));
    }
    let mut list = |what: &str, cells: &[Missing]| {
        for cell in cells {
            let _ = writeln!(out, "{what} {}: {}", place(&cell.server, &cell.settings), cell.why);
        }
    };
    list("MISSING", &c.missing);
    list("new", &c.added);
    for line in &c.differs {
        let _ = writeln!(out, "differs: {line}");
    }
    for line in &c.doubts {
        let _ = writeln!(out, "doubt: {line}");
    }
    out
}

fn row(f: &Compared) -> [String; 7] {
    let value = |x: f64| format!("{} {}", significant(x), f.unit).trim_end().to_owned();
    let comparable = f.outcome != Outcome::NotComparable;
    let interval = f.interval.filter(|_| comparable);
    [
        name(f),
        value(f.first),
        value(f.second),
        if comparable { format!("{:.3}", f.ratio) } else { "-".to_owned() },
        interval.map_or("-".to_owned(), |(low, high)| format!("{low:.3} to {high:.3}")),
        f.outcome.words().to_owned(),
        f.smallest
            .filter(|_| comparable)
            .map_or("-".to_owned(), |s| format!("{:.1} %", (s - 1.0) * 100.0)),
    ]
}

fn place(server: &str, settings: &BTreeMap<String, String>) -> String {
    let settings = settings.iter().map(|(key, value)| format!(" {key}={value}"));
    std::iter::once(server.to_owned()).chain(settings).collect()
}

fn name(f: &Compared) -> String {
    format!("{} {}", place(&f.server, &f.settings), f.figure)
}
