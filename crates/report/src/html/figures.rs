//! Results of other methods: a table of every figure, and the plots of those that differ between cells.

use maud::{Markup, html};
use measure::stats;
use record::{CellRecord, Figure};

use super::cells::{Cell, Cells};
use super::curves::{Quantity, Value, curves};
use super::parts::pictures;
use super::plot::Picture;
use crate::falls;
use crate::results::{self, CAPACITY};
use crate::table::Field;
use crate::view::name::figure_title;
use crate::view::number;
use crate::view::table::figure_order;
use crate::view::unit::Unit;

/// Returns the smallest and the largest value, if there are several.
fn range(figure: &Figure) -> Option<(f64, f64)> {
    number::range(&figure.values).filter(|_| figure.values.len() > 1)
}

/// Describes the median, and the spread if there are repeats.
pub(crate) fn in_words(figure: &Figure) -> String {
    let unit = Unit::of(&figure.unit);
    let Some(median) = figure.median() else { return "–".to_owned() };
    match (range(figure), stats::mean(&figure.values), stats::std_dev(&figure.values)) {
        (Some((low, high)), Some(mean), Some(deviation)) => format!(
            "{} ({} to {}, mean {}, std. dev. {}, n = {})",
            unit.full(median),
            unit.full(low),
            unit.full(high),
            unit.full(mean),
            unit.full(deviation),
            figure.values.len()
        ),
        _ => unit.full(median),
    }
}

/// Returns the names of all figures of a run.
pub(crate) fn names<'a>(cells: &'a Cells<'_>) -> Vec<&'a str> {
    figure_order(cells.cells.iter().flat_map(|c| c.record.figures.keys()))
}

/// Returns whether each figure is from one visit, so that the spread between visits is unknown.
pub(crate) fn one_visit(cells: &Cells<'_>) -> bool {
    let mut all = cells.cells.iter().flat_map(|c| c.record.figures.values()).peekable();
    all.peek().is_some() && all.all(|f| f.values.len() <= 1)
}

/// Renders the tables; empty without figures.
pub(crate) fn results(cells: &Cells<'_>) -> Markup {
    let is_void = |r: &CellRecord| r.method != "search" && !r.void_repeats.is_empty();
    html! {
        @if !names(cells).is_empty() || cells.cells.iter().any(|c| is_void(c.record)) {
            (all(cells))
            (secondaries(cells))
            (falls_of(cells))
            p.note {
                @if one_visit(cells) { "One visit to each: the spread between visits is not known." }
                @else { (spread_words(cells)) " No interval below: one visit." }
            }
        }
    }
}

/// Renders the plots; empty without figures that differ.
pub(crate) fn section(cells: &Cells<'_>) -> Markup {
    let plots = plots(cells);
    html! { @if !plots.is_empty() { h3 { "Figures" } (pictures(plots)) } }
}

/// Returns the meaning of the numbers below each figure.
fn spread_words(cells: &Cells<'_>) -> &'static str {
    let records: Vec<&CellRecord> = cells.cells.iter().map(|cell| cell.record).collect();
    match results::has_intervals(&records) {
        true => "Below each figure: its 95 % interval.",
        false => {
            "Medians over the repeats; below them the 95 % interval, or for few repeats the smallest and the largest value."
        }
    }
}

/// Renders the table of the cells with figures, or with void repeats in their place.
fn all(cells: &Cells<'_>) -> Markup {
    let void = |r: &CellRecord| r.method != "search" && !r.void_repeats.is_empty();
    let records = cells.cells.iter().map(|cell| cell.record);
    let with = records.filter(|r| !r.figures.is_empty() || void(r)).collect();
    let results = cells.results(with);
    results.figures().html("Figures of each server and setting", &results.conditions.heading)
}

/// Renders the table of secondaries; empty if there are none.
fn secondaries(cells: &Cells<'_>) -> Markup {
    let results = cells.results(cells.cells.iter().map(|cell| cell.record).collect());
    let table = results.secondaries();
    html! {
        @if let Some(table) = table { (table.html("Each secondary separately", &results.conditions.heading)) }
    }
}

/// Renders the table of changes under updates; empty if there are none.
fn falls_of(cells: &Cells<'_>) -> Markup {
    let records: Vec<&CellRecord> = cells.cells.iter().map(|cell| cell.record).collect();
    html! {
        @if let Some(table) = falls::table(&records) { (table.html(falls::TITLE, &cells.conditions.heading)) }
    }
}

/// Returns the plots of all figures.
pub(crate) fn plots(cells: &Cells<'_>) -> Vec<Picture> {
    names(cells).into_iter().flat_map(|name| figure_plots(cells, name)).collect()
}

fn figure_plots(cells: &Cells<'_>, name: &str) -> Vec<Picture> {
    let figures = || cells.cells.iter().filter_map(|c| c.record.figures.get(name));
    let Some(unit) = figures().next().map(|f| Unit::of(&f.unit)) else { return Vec::new() };
    // A single value, or only zeros, need no plot: the table shows them.
    let medians = || figures().filter_map(Figure::median);
    if medians().count() < 2 || medians().all(|y| y == 0.0) {
        return Vec::new();
    }
    let value = |cell: &Cell<'_>| {
        let figure = cell.record.figures.get(name)?;
        let each = figure.values.clone();
        // A capacity of rounds is no median of them: its bar is the figure of the table.
        if let Some(found) = cell.record.capacity.as_ref().filter(|_| name == CAPACITY) {
            let Field { text, spread, .. } = results::capacity(found);
            let tip = format!("{}: {text} ({spread})", cell.name);
            let (y, spread) = (found.qps, Some((found.low_qps, found.high_qps)));
            return Some(Value { y, spread, each, text, tip, hollow: found.exceeded });
        }
        let y = figure.median()?;
        Some(Value {
            y,
            spread: range(figure),
            each,
            text: unit.full(y),
            tip: format!("{}: {}", cell.name, in_words(figure)),
            hollow: false,
        })
    };
    let label = match &unit {
        Unit::Other(name) if name.is_empty() => figure_title(name),
        unit => unit.name().to_owned(),
    };
    let of_rounds = name == CAPACITY && cells.cells.iter().any(|c| c.record.capacity.is_some());
    let note = if of_rounds {
        "Dots: the figure of each round that counts. Error bars: 95 % intervals."
    } else {
        "Dots: the repeats. Error bars: the smallest and the largest of them."
    };
    let spread = figures().any(|f| f.values.len() > 1);
    let title = figure_title(name);
    let note = if spread { note } else { "" };
    curves(cells, &Quantity { title: &title, label: &label, unit: unit.clone(), note }, &value)
}
