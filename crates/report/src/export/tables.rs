//! The figures of a run as a table for documents.

use std::fmt::Write;

use record::{CellRecord, Run};

use super::{Measure, measures};
use crate::view::name::server_name;
use crate::view::search::rate;
use crate::view::table::varied;
use crate::view::{figure_name, quantity};

/// A table: its head, its rows, and how many of its columns are words.
struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
    words: usize,
}

impl Table {
    /// Makes a row of each cell, with a column for each varied setting and each figure; the limiter comes last.
    fn of(run: &Run) -> Self {
        let cells = &run.results;
        let keys = varied(cells.iter());
        let all: Vec<Vec<Measure>> = cells.iter().map(measures).collect();
        let mut names: Vec<&str> = Vec::new();
        for measure in all.iter().flatten() {
            if !names.contains(&measure.name.as_str()) {
                names.push(&measure.name);
            }
        }
        let head = ["server".to_owned()].into_iter().chain(keys.iter().cloned());
        let head =
            head.chain(names.iter().map(|name| figure_name(name))).chain(["limiter".to_owned()]);
        let row = |(cell, measures): (&CellRecord, &Vec<Measure>)| {
            let mut row = vec![server_name(cell)];
            row.extend(keys.iter().map(|key| cell.settings.get(key).cloned().unwrap_or_default()));
            row.extend(names.iter().map(|name| {
                let measure = measures.iter().find(|measure| measure.name == *name);
                measure.map_or_else(|| "-".to_owned(), |measure| value(cell, measure))
            }));
            row.push(cell.limiters().to_string());
            row
        };
        let (head, rows) = (head.collect(), cells.iter().zip(&all).map(row).collect());
        Table { head, rows, words: 1 + keys.len() }
    }
}

/// Returns the median, and with several repeats the lowest and the highest value.
fn value(cell: &CellRecord, measure: &Measure) -> String {
    let one = |value: f64| quantity(value, &measure.unit);
    let median = match measure.name.as_str() {
        "capacity" => rate(Some(measure.median()), cell.at_least, "none"),
        _ => one(measure.median()),
    };
    match measure.values.len() {
        1 => median,
        _ => format!("{median} ({} to {})", one(measure.lowest()), one(measure.highest())),
    }
}

/// Returns the figures of a run as a table in Markdown (GitHub's).
pub fn markdown(run: &Run) -> String {
    let Table { head, rows, words } = Table::of(run);
    let mut out = String::new();
    let mut line = |row: &[String]| {
        let cells: Vec<_> = row.iter().map(|text| text.replace('|', "\\|")).collect();
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    };
    line(&head);
    let side = |i: usize| if i < words || i + 1 == head.len() { "---" } else { "---:" }.to_owned();
    line(&(0..head.len()).map(side).collect::<Vec<_>>());
    rows.iter().for_each(|row| line(row));
    out
}

/// Returns the figures of a run as a `tabular` of LaTeX, with the rules of the package booktabs.
pub fn latex(run: &Run) -> String {
    let Table { head, rows, words } = Table::of(run);
    let side = |i: usize| if i < words || i + 1 == head.len() { 'l' } else { 'r' };
    let sides: String = (0..head.len()).map(side).collect();
    let line =
        |row: &[String]| row.iter().map(|text| escaped(text)).collect::<Vec<_>>().join(" & ");
    let mut out =
        format!("\\begin{{tabular}}{{{sides}}}\n\\toprule\n{} \\\\\n\\midrule\n", line(&head));
    for row in &rows {
        let _ = writeln!(out, "{} \\\\", line(row));
    }
    out + "\\bottomrule\n\\end{tabular}\n"
}

/// Returns the text as LaTeX prints it.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => out.extend(['\\', c]),
            '\\' => out.push_str("\\textbackslash{}"),
            '~' => out.push_str("\\textasciitilde{}"),
            '^' => out.push_str("\\textasciicircum{}"),
            '<' => out.push_str("\\textless{}"),
            '>' => out.push_str("\\textgreater{}"),
            _ => out.push(c),
        }
    }
    out
}
