//! Results of searches: the table of capacities; the plot, and the trials of each search.

use maud::{Markup, html};
use record::CellRecord;

use super::cells::{Cell, Cells};
use super::curves::{Quantity, Value, curves};
use super::parts::{fold, pictures};
use super::plot::{Axis, Line, Picture, Plot, Point, Scale};
use crate::view::limiter::limiter_names;
use crate::view::name::repeats;
use crate::view::number::range;
use crate::view::search::{each_search, met, rate};
use crate::view::unit::Unit;

/// Largest number of searches with a plot; the table of trials has all of them.
const MAX_TRACES: usize = 24;

/// Note below the plot of capacities.
const NOTE: &str = "Dots: the searches. Error bars: the smallest and the largest of them, from 20 searches on their 1st and 99th percentile. \
                    Hollow: a lower bound, the server was not the limit.";

/// Returns the unit of the capacities, in words: queries/s, or the quantity that the searches vary.
fn counted(unit: &str) -> &str {
    if unit == "qps" { "queries/s" } else { unit }
}

/// Formats a capacity with its sign.
pub(crate) fn qps(cell: &CellRecord, x: Option<f64>) -> String {
    rate(x, cell.at_least, "–").replace(">=", "≥")
}

/// Returns the spread of a capacity: 1st to 99th percentile of the repeats, of few repeats the smallest and the largest.
fn spread(cell: &CellRecord) -> Option<(f64, f64)> {
    cell.p01_qps.zip(cell.p99_qps).or_else(|| range(&cell.found_qps()).filter(|_| cell.repeats > 1))
}

/// Describes the median, each search and the limiters.
pub(crate) fn in_words(cell: &CellRecord) -> String {
    let each = match cell.repeats {
        0 | 1 => String::new(),
        _ => format!(" (each search: {})", each_search(cell).replace(">=", "≥")),
    };
    let limited = limiter_names(cell);
    match cell.median_qps {
        Some(_) => {
            let unit = counted(cell.capacity_unit());
            format!("{} {unit}{each}; limiter: {limited}", qps(cell, cell.median_qps))
        }
        None if !cell.void_repeats.is_empty() => {
            format!("no capacity: {} searches", repeats(cell))
        }
        None => {
            let why = cell.capacities.iter().find(|c| c.qps.is_none());
            format!("no capacity: {}", why.map_or("no search ended", |c| &c.verdict))
        }
    }
}

/// Returns the cells that were searched.
pub(crate) fn searched<'a, 'r>(cells: &'a Cells<'r>) -> Vec<&'a Cell<'r>> {
    cells.cells.iter().filter(|c| c.record.method == "search").collect()
}

/// Renders the table; empty without a search.
pub(crate) fn results(cells: &Cells<'_>) -> Markup {
    let searched = searched(cells);
    let results = cells.results(searched.iter().map(|cell| cell.record).collect());
    html! {
        @if !searched.is_empty() {
            (results.searches().html("Capacity of each server and setting", &results.conditions.heading))
            @if let Some(goal) = searched.iter().map(|c| &c.record.goal).find(|g| !g.is_empty()) {
                p.note { "Goal: " (goal) ". Median over the searches, and each of them. Latencies are those at one rate, the one found that is nearest "
                    "to the median; “Sustained”: in how many of the trials at the rates found the number of outstanding queries did not grow from the middle to the end. "
                    "“≥”: some searches were not limited by the server, its capacity is at least this." }
            }
        }
    }
}

/// Renders the plots of the searches; empty without one.
pub(crate) fn section(cells: &Cells<'_>) -> Markup {
    let count = searched(cells).len();
    html! {
        @if count > 0 {
            h3 { "Capacity" }
            (pictures(plots(cells)))
            (fold(&format!("How each search went ({count})"), pictures(traces(cells))))
        }
    }
}

/// Returns the plot of the capacities.
pub(crate) fn plots(cells: &Cells<'_>) -> Vec<Picture> {
    let searched = searched(cells);
    let Some(unit) = searched.first().map(|c| c.record.capacity_unit()) else { return Vec::new() };
    let (label, unit) = match unit {
        "qps" => ("queries per second", Unit::Qps),
        other => (other, Unit::of("")),
    };
    curves(cells, &Quantity { title: "Capacity", label, unit, note: NOTE }, &value)
}

/// Returns the course of each cell's searches.
pub(crate) fn traces(cells: &Cells<'_>) -> Vec<Picture> {
    let searched = searched(cells);
    let with = searched.into_iter().filter(|c| c.record.trials.len() > 1);
    with.take(MAX_TRACES).map(trace).collect()
}

/// Returns the capacity of a cell for a plot.
fn value(cell: &Cell<'_>) -> Option<Value> {
    let r = cell.record;
    (r.method == "search").then_some(())?;
    Some(Value {
        y: r.median_qps?,
        spread: spread(r),
        each: r.found_qps(),
        text: qps(r, r.median_qps),
        tip: format!("{}: {}", cell.name, in_words(r)),
        hollow: r.at_least,
    })
}

/// Plots every trial of a cell's searches, in order, with its rate and outcome.
fn trace(cell: &Cell<'_>) -> Picture {
    let (trials, varied) = (&cell.record.trials, cell.record.capacity_unit());
    let unit = counted(varied);
    let label = |t: &record::TrialRecord| crate::trial_line(t, varied);
    let point = |(i, t): (usize, &record::TrialRecord)| Point {
        x: (i + 1) as f64,
        y: t.rate_qps,
        tip: format!("search {}, trial {}: {}", t.repeat + 1, i + 1, label(t).trim()),
        ..Point::default()
    };
    let of = |name: &str, style, which: &dyn Fn(&record::TrialRecord) -> bool| Line {
        name: name.to_owned(),
        style,
        points: trials.iter().enumerate().filter(|(_, t)| which(t)).map(point).collect(),
        joined: false,
        marked: true,
    };
    let void = |t: &record::TrialRecord| t.trial.void.is_void();
    let lines = vec![
        of("passed", 0, &|t| met(cell.record, t) == Some(true)),
        of("failed", 4, &|t| !void(t) && met(cell.record, t) != Some(true)),
        of("void", 6, &void),
    ];
    let count = |i: usize| lines[i].points.len();
    let alt = format!("{} passed, {} failed, {} void", count(0), count(1), count(2));
    let rates = || trials.iter().map(|t| t.rate_qps);
    let last = trials.len() as f64;
    Picture::Plot(Plot {
        title: format!("The search: {}", cell.name),
        alt,
        note: String::new(),
        x: Axis::new("trial", Scale::Linear(0.0, last + 1.0), Unit::of("")),
        y: Axis::new(&format!("offered, {unit}"), Scale::fitting(rates()), Unit::Qps),
        lines: lines.into_iter().filter(|l| !l.points.is_empty()).collect(),
        guides: vec![(
            "in order".into(),
            trials.iter().enumerate().map(|(i, t)| ((i + 1) as f64, t.rate_qps)).collect(),
        )],
    })
}
