//! Results of searches: the table of capacities, the plot, and the trials of each search.

use maud::{Markup, html};
use measure::stats;
use record::CellRecord;

use super::cells::{Cell, Cells};
use super::curves::{Quantity, Value, curves};
use super::parts::{Narrow, fold, number_cell, table};
use super::plot::{Axis, Line, Plot, Point, Scale};
use crate::view::limiter::{limiter_names, proofs};
use crate::view::name::repeats;
use crate::view::number::range;
use crate::view::search::{each_search, latency_us, met, rate, sustained};
use crate::view::unit::Unit;
use crate::view::{thousands, time_us};

/// Largest number of searches with a plot; the table of trials has all of them.
const MAX_TRACES: usize = 24;

/// Plot of capacities.
const PICTURE: Quantity<'static> = Quantity {
    title: "Capacity",
    label: "queries per second",
    unit: Unit::Qps,
    note: "Error bars: the smallest and the largest of the searches, from 20 searches on their 1st and 99th percentile. \
           Hollow: a lower bound, the server was not the limit.",
};

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
        Some(_) => format!("{} queries/s{each}; limiter: {limited}", qps(cell, cell.median_qps)),
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

/// Renders the section; empty without a search.
pub(crate) fn section(cells: &Cells<'_>) -> Markup {
    let searched = searched(cells);
    html! {
        @if !searched.is_empty() {
            h3 { "Capacity" }
            (capacities(cells, &searched))
            @if let Some(goal) = searched.iter().map(|c| &c.record.goal).find(|g| !g.is_empty()) {
                p.note { "Goal: " (goal) ". Median over the searches, and each of them. Latencies are those at that rate; “sustained”: "
                    "in how many of these trials no more queries were outstanding at the end than in the middle. "
                    "“≥”: the server was not what limited every search, its capacity is at least this." }
            }
            div.plots { (curves(cells, &PICTURE, &value)) }
            (fold(&format!("How each search went ({})", searched.len()), html! {
                div.plots { @for cell in searched.iter().filter(|c| c.record.trials.len() > 1).take(MAX_TRACES) { (trace(cell)) } }
            }))
        }
    }
}

fn capacities(cells: &Cells<'_>, searched: &[&Cell<'_>]) -> Markup {
    // Percentiles need many searches.
    let percentiles = searched.iter().any(|c| c.record.p01_qps.is_some());
    let mut heads = cells.heads();
    heads.push("median, queries/s");
    heads
        .extend(percentiles.then_some(["1st percentile", "99th percentile"]).into_iter().flatten());
    heads.extend([
        "std. dev.",
        "latency p50",
        "latency p99",
        "searches",
        "sustained",
        "limited by",
        "RFC 8219",
    ]);
    let rows: Vec<Markup> = searched
        .iter()
        .map(|cell| html! { (cells.named(cell)) (row(cell.record, percentiles)) })
        .collect();
    let caption = "Capacity of each server and setting";
    table(caption, &cells.conditions.heading, Narrow::Cards, &heads, &rows)
}

/// Renders the figures of one cell.
fn row(r: &CellRecord, percentiles: bool) -> Markup {
    let deviation = stats::std_dev(&r.found_qps());
    let latency = |h: &str, q| {
        let us = latency_us(r, q);
        number_cell(h, us, us.map_or("–".into(), time_us))
    };
    let each = each_search(r).replace(">=", "≥");
    html! {
        td.n data-h="median, queries/s" data-v=[r.median_qps] {
            (qps(r, r.median_qps))
            @if r.capacities.len() > 1 { small { "each: " (each) } }
        }
        @if percentiles {
            (number_cell("1st percentile", r.p01_qps, qps(r, r.p01_qps)))
            (number_cell("99th percentile", r.p99_qps, qps(r, r.p99_qps)))
        }
        (number_cell("std. dev.", deviation, deviation.map_or("–".into(), thousands)))
        (latency("latency p50", 0.5))
        (latency("latency p99", 0.99))
        (number_cell("searches", Some(f64::from(r.repeats)), repeats(r)))
        td data-h="sustained" { (sustained(r).unwrap_or_else(|| "–".to_owned())) }
        td data-h="limited by" data-v=(r.limiter.word()) {
            (limiter_names(r))
            @for proof in proofs(r) { small { (proof) } }
        }
        td data-h="RFC 8219" { (crate::run::conforming(r)) }
    }
}

/// Returns the capacity of a cell for a plot.
fn value(cell: &Cell<'_>) -> Option<Value> {
    let r = cell.record;
    (r.method == "search").then_some(())?;
    Some(Value {
        y: r.median_qps?,
        spread: spread(r),
        text: qps(r, r.median_qps),
        tip: format!("{}: {}", cell.name, in_words(r)),
        hollow: r.at_least,
    })
}

/// Renders every trial of a cell's searches, in order, with its rate and outcome.
fn trace(cell: &Cell<'_>) -> Markup {
    let trials = &cell.record.trials;
    let point = |(i, t): (usize, &record::TrialRecord)| Point {
        x: (i + 1) as f64,
        y: t.rate_qps,
        spread: None,
        tip: format!("search {}, trial {}: {}", t.repeat + 1, i + 1, crate::trial_line(t).trim()),
        hollow: false,
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
    Plot {
        title: format!("The search: {}", cell.name),
        alt,
        note: String::new(),
        x: Axis::new("trial", Scale::Linear(0.0, last + 1.0), Unit::of("")),
        y: Axis::new("rate asked for, queries/s", Scale::log(rates()), Unit::Qps),
        lines: lines.into_iter().filter(|l| !l.points.is_empty()).collect(),
        guides: vec![(
            "in order".into(),
            trials.iter().enumerate().map(|(i, t)| ((i + 1) as f64, t.rate_qps)).collect(),
        )],
    }
    .figure()
}
