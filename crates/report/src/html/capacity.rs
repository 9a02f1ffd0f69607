//! Results of searches: the table of capacities, the plot, and the trials of each search.

use maud::{Markup, html};
use measure::stats;
use record::CellRecord;

use super::cells::{Cell, Cells};
use super::curves::{Quantity, Value, curves};
use super::parts::{Narrow, fold, name_cell, number_cell, table};
use super::plot::{Axis, Line, Plot, Point, Scale};
use crate::view::name::{limiter_name, repeats, server_name};
use crate::view::unit::Unit;
use crate::view::{thousands, time_us};

/// Largest number of searches with a plot; the table of trials has all of them.
const MAX_TRACES: usize = 24;

/// Plot of capacities.
const PICTURE: Quantity<'static> = Quantity {
    title: "Capacity",
    label: "queries per second",
    unit: Unit::Qps,
    note: "Error bars: 1st to 99th percentile of the searches. Hollow: a lower bound, the server was not the limit.",
};

/// Formats a capacity with its sign.
pub(crate) fn qps(cell: &CellRecord, x: Option<f64>) -> String {
    let sign = if cell.at_least { "≥ " } else { "" };
    x.map_or("–".to_owned(), |x| format!("{sign}{}", thousands(x)))
}

/// Returns the spread of a capacity: 1st to 99th percentile of the repeats.
fn spread(cell: &CellRecord) -> Option<(f64, f64)> {
    cell.p01_qps.zip(cell.p99_qps)
}

/// Describes the median with its spread.
pub(crate) fn in_words(cell: &CellRecord) -> String {
    let of = match cell.repeats {
        1 => "one search".to_owned(),
        n => format!("{n} searches"),
    };
    match (cell.median_qps, spread(cell)) {
        (Some(_), Some((low, high))) if cell.repeats > 1 => format!(
            "{} queries/s ({} to {}, {of}); limited by {}",
            qps(cell, cell.median_qps),
            thousands(low),
            thousands(high),
            limiter_name(cell.limiter)
        ),
        (Some(_), _) => format!(
            "{} queries/s ({of}); limited by {}",
            qps(cell, cell.median_qps),
            limiter_name(cell.limiter)
        ),
        (None, _) if !cell.void_repeats.is_empty() => {
            format!("no capacity: {} searches", repeats(cell))
        }
        (None, _) => {
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
                p.note { "Goal: " (goal) ". Median over the searches with their 1st and 99th percentile. "
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
    let mut heads = vec!["server"];
    heads.extend(cells.varied.iter().map(String::as_str));
    heads.extend([
        "median, queries/s",
        "1st percentile",
        "99th percentile",
        "std. dev.",
        "searches",
        "latency p50",
        "latency p99",
        "limited by",
        "RFC 8219",
    ]);
    let rows = searched.iter().map(|cell| {
        let r = cell.record;
        let found = r.found_qps();
        let latency = cell.merged(|t| &t.trial.latency_us);
        let quantile = |q| latency.as_ref().map(|h| h.quantile(q).as_micros_f64());
        let time = |h: &str, us: Option<f64>| number_cell(h, us, us.map_or("–".into(), time_us));
        html! {
            (name_cell("server", &server_name(r)))
            @for key in &cells.varied {
                @let value = r.settings.get(key).map_or("–", String::as_str);
                td data-h=(key) data-v=(value) { (value) }
            }
            (number_cell("median, queries/s", r.median_qps, qps(r, r.median_qps)))
            (number_cell("1st percentile", r.p01_qps, qps(r, r.p01_qps)))
            (number_cell("99th percentile", r.p99_qps, qps(r, r.p99_qps)))
            (number_cell("std. dev.", stats::std_dev(&found), stats::std_dev(&found).map_or("–".into(), thousands)))
            (number_cell("searches", Some(f64::from(r.repeats)), repeats(r)))
            (time("latency p50", quantile(0.5)))
            (time("latency p99", quantile(0.99)))
            td data-h="limited by" data-v=(r.limiter.word()) { (limiter_name(r.limiter)) }
            td data-h="RFC 8219" { (if r.conforming { "conforming" } else { "not conforming" }) }
        }
    });
    table("Capacity of each server and setting", Narrow::Cards, &heads, &rows.collect::<Vec<_>>())
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
        of("passed", 0, &|t| !void(t) && t.trial.passed == Some(true)),
        of("failed", 4, &|t| !void(t) && t.trial.passed != Some(true)),
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
