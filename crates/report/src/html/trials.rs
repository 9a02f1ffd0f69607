//! Distributions of the trials that represent the cells: latency and the schedule; and a table of
//! all trials.

use std::collections::BTreeMap;

use maud::{Markup, html};
use measure::Histogram;
use record::{Trial, TrialRecord};

use super::cells::{Cell, Cells};
use super::curves::grouped;
use super::parts::{fold, pictures};
use super::plot::{Axis, Line, Picture, Plot, Point, Scale};
use crate::table::{Field, Table};
use crate::view::goal::missed;
use crate::view::histogram::{FINE, columns};
use crate::view::limiter::limiter_name;
use crate::view::number::range;
use crate::view::search::met;
use crate::view::unit::Unit;
use crate::view::{thousands, time_us};

/// Shares of slowest queries in percent (100 minus the percentile) at which the percentile curves have their points, in rising order.
const SLOWEST: [f64; 18] = [
    0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 35.0, 50.0, 75.0, 90.0,
    99.0, 100.0,
];
/// Ticks of these curves, in percent.
const TICKS: [f64; 6] = [0.001, 0.01, 0.1, 1.0, 10.0, 100.0];
/// Largest number of trials in the table; the raw data has all.
const MAX_ROWS: usize = 1_000;

/// A distribution of a trial.
type Which = fn(&TrialRecord) -> &record::Times;

/// Renders the section; empty without trials.
pub(crate) fn section(cells: &Cells<'_>) -> Markup {
    let with: Vec<&Cell<'_>> = cells.cells.iter().filter(|c| !c.record.trials.is_empty()).collect();
    html! {
        @if !with.is_empty() {
            h3 { "Latency and schedule" }
            p.note { "The slowest queries are on the left: the 99th percentile is at 1 %. "
                "One line for each search: the trials at the rate that it found, or at the nearest rate that passed; for other methods one line for each repeat: the trial at the highest rate. "
                "Latency counts from when a query was due; lost queries count with the timeout." }
            (pictures(plots(cells)))
            (fold(&format!("Every trial ({})", with.iter().map(|c| c.record.trials.len()).sum::<usize>()), rows(cells, &with)))
        }
    }
}

/// Returns the plots of the distributions.
pub(crate) fn plots(cells: &Cells<'_>) -> Vec<Picture> {
    let with: Vec<&Cell<'_>> = cells.cells.iter().filter(|c| !c.record.trials.is_empty()).collect();
    let groups = grouped(&with, |cell| &cell.record.server);
    let kinds: [(&str, &str, Which); 2] = [
        ("Latency by percentile", "latency", |t| &t.trial.latency_us),
        ("Schedule error by percentile", "schedule error", |t| &t.trial.schedule_error_us),
    ];
    let mut all: Vec<Picture> =
        groups.iter().filter_map(|(part, group)| histogram(group, part)).collect();
    for (title, label, which) in kinds {
        let of = |(part, group): &(String, Vec<&&Cell<'_>>)| {
            percentiles(group, format!("{title}{part}"), label, which)
        };
        all.extend(groups.iter().filter_map(of));
    }
    all
}

/// Plots the number of queries by latency, of the representative trials: a step for each column
/// between round bounds.
fn histogram(cells: &[&&Cell<'_>], part: &str) -> Option<Picture> {
    let line = |(style, cell): (usize, &&&Cell<'_>)| {
        let times = cell.record.merged(|t| &t.trial.latency_us)?;
        let columns = columns(&times, &FINE);
        let (first, last) = (columns.first()?, columns.last()?);
        let point = |us: f64, share: f64| Point {
            x: us.max(LEAST_US),
            y: share * 100.0,
            ..Point::default()
        };
        let steps =
            columns.iter().flat_map(|c| [point(c.low_us, c.share), point(c.high_us, c.share)]);
        let ends = [point(first.low_us, 0.0), point(last.high_us, 0.0)];
        let [start, end] = ends;
        let points = std::iter::once(start).chain(steps).chain([end]).collect();
        let words = format!(
            "{}: half of the queries within {}",
            cell.name,
            time_us(times.quantile(0.5).as_micros_f64())
        );
        Some((Line { name: cell.name.clone(), style, points, joined: true, marked: false }, words))
    };
    let (lines, alt): (Vec<Line>, Vec<String>) = cells.iter().enumerate().filter_map(line).unzip();
    let points = || lines.iter().flat_map(|line| &line.points);
    points().next()?;
    Some(Picture::Plot(Plot {
        title: format!("Histogram of latencies{part}"),
        alt: alt.join(". "),
        note: "Ten columns for each factor of ten.".into(),
        x: Axis::new("latency", Scale::log(points().map(|p| p.x)), Unit::Micros),
        y: Axis::new("queries, %", Scale::from_zero(points().map(|p| p.y)), Unit::Percent),
        lines,
        guides: Vec::new(),
    }))
}

/// Plots a distribution of the deciding trials: times against the share of slowest queries, both axes logarithmic, as dnsdist's
/// logarithmic percentile histogram and DNS Shotgun's latency plots have them.
fn percentiles(cells: &[&&Cell<'_>], title: String, label: &str, which: Which) -> Option<Picture> {
    let (mut lines, mut alt) = (Vec::new(), Vec::new());
    for (style, cell) in cells.iter().enumerate() {
        let name = format!("{}, at {}", cell.name, rates(cell));
        for (repeat, times) in each_repeat(cell, which) {
            alt.push(in_words(&cell.name, repeat, &times));
            lines.push(curve(name.clone(), style, repeat, &times));
        }
    }
    let all = || lines.iter().flat_map(|l| &l.points);
    // A time of zero has no place on a logarithmic axis.
    let times = || all().map(|p| p.y);
    if times().all(|y| y <= LEAST_US) {
        return None;
    }
    let lowest = all().map(|p| p.x).fold(100.0, f64::min);
    let mut x = Axis::new(
        "slowest queries, % (100 minus the percentile)",
        Scale::Log(lowest, 100.0),
        Unit::Percent,
    );
    let within = TICKS.into_iter().filter(|tick| *tick >= lowest);
    x.ticks = Some(within.map(|tick| (tick, tick.to_string())).collect());
    let each = lines.len() > cells.len();
    Some(Picture::Plot(Plot {
        title,
        alt: alt.join(". "),
        note: if each { "A line for each repeat." } else { "" }.to_owned(),
        y: Axis::new(label, Scale::log(times()), Unit::Micros),
        x,
        lines,
        guides: Vec::new(),
    }))
}

/// Shortest time on a logarithmic axis, in microseconds.
const LEAST_US: f64 = 0.01;

/// Returns the distributions of the deciding trials of each repeat, by its number from 0.
fn each_repeat(cell: &Cell<'_>, which: Which) -> BTreeMap<u32, Histogram> {
    let mut all: BTreeMap<u32, Histogram> = BTreeMap::new();
    for t in cell.record.deciding() {
        if let Ok(histogram) = which(t).histogram() {
            all.entry(t.repeat).or_default().merge(&histogram);
        }
    }
    all.retain(|_, histogram| histogram.count() > 0);
    all
}

/// Returns the rates of the deciding trials in words: one, or the lowest and the highest.
fn rates(cell: &Cell<'_>) -> String {
    let deciding = cell.record.deciding();
    let rates: Vec<f64> = deciding.iter().map(|t| t.trial.offered_qps).collect();
    let Some((low, high)) = range(&rates) else { return "no rate".to_owned() };
    let (low, high) = (thousands(low), thousands(high));
    if low == high { format!("{low}/s") } else { format!("{low} to {high}/s") }
}

fn curve(name: String, style: usize, repeat: u32, times: &Histogram) -> Line {
    let point = |slowest: f64| {
        let us = times.quantile(1.0 - slowest / 100.0).as_micros_f64();
        let tip = format!(
            "{name}, repeat {}: p{} {}",
            repeat + 1,
            shortest(100.0 - slowest),
            time_us(us)
        );
        Point { x: slowest, y: us.max(LEAST_US), tip, ..Point::default() }
    };
    let points = SLOWEST.into_iter().filter(|p| has_ten_queries(times, *p)).map(point).collect();
    // Marks distinguish cells; the first repeat's are enough.
    Line { name, style, points, joined: true, marked: repeat == 0 }
}

fn in_words(name: &str, repeat: u32, times: &Histogram) -> String {
    let at = |q| time_us(times.quantile(q).as_micros_f64());
    let most = time_us(times.max().as_micros_f64());
    let repeat = repeat + 1;
    format!(
        "{name}, repeat {repeat}: median {}, 99th percentile {}, largest {most}",
        at(0.5),
        at(0.99)
    )
}

/// Returns whether a share this small contains ten queries.
fn has_ten_queries(times: &Histogram, percent: f64) -> bool {
    times.count() as f64 * percent / 100.0 >= 10.0 || percent == 100.0
}

/// Formats a percentage with as few digits as needed.
fn shortest(percent: f64) -> String {
    let text = format!("{percent:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Returns the numbers of queries outstanding in the middle and at the end of a trial, and whether that was sustained.
fn outstanding(t: &Trial) -> Field {
    let middle = t.outstanding.map_or(0.0, |numbers| numbers.middle);
    let sustained = t.outstanding.map(|numbers| numbers.is_sustained());
    Field::number(t.outstanding.map(|numbers| numbers.end), |end| {
        format!("{middle:.0} to {end:.0}")
    })
    .with_notes(sustained.map(|yes| if yes { "sustained" } else { "not sustained" }.to_owned()))
}

/// Returns the head of the column with a trial's requested number.
fn requested_head(cells: &[&Cell<'_>]) -> String {
    let over = cells.iter().find_map(|c| c.record.over.as_deref());
    format!("offered, {}", over.unwrap_or("queries/s"))
}

/// Renders the table of trials.
fn rows(all: &Cells<'_>, cells: &[&Cell<'_>]) -> Markup {
    let asked = requested_head(cells);
    let heads = [
        "cell",
        "search",
        &asked,
        "offered",
        "answered",
        "valid, %",
        "lost",
        "p50",
        "p99",
        "max",
        "schedule p99",
        "outstanding",
        "limited by",
        "verdict",
    ];
    let trials = cells.iter().flat_map(|c| c.record.trials.iter().map(move |t| (c, t)));
    let total = cells.iter().map(|c| c.record.trials.len()).sum::<usize>();
    let rows = trials.take(MAX_ROWS).map(|(cell, r)| {
        let t = &r.trial;
        let count = |x: f64| Field::number(Some(x), thousands);
        let time = |us: f64| Field::number(Some(us), time_us);
        let share = t.percent_of_sent(t.valid);
        let verdict = match (&t.void.0, met(cell.record, r)) {
            (Some(why), _) => format!("void: {why}"),
            (None, Some(true)) => "passed".into(),
            (None, Some(false)) => format!("failed: {}", missed(t)),
            (None, None) => String::new(),
        };
        let proof = t.limiter_proof.as_ref().map(|proof| proof.to_string());
        // What limits a capacity is said of all its rounds together.
        let limiter = match cell.record.method.as_str() {
            "capacity" => Field::words(""),
            _ => Field::words(limiter_name(t.limiter)).with_notes(proof),
        };
        vec![
            Field::words(&cell.name),
            Field::number(Some(f64::from(r.repeat)), |repeat| (repeat + 1.0).to_string()),
            count(r.rate_qps),
            count(t.offered_qps),
            count(t.replies_qps()),
            Field::number(Some(share), |share| format!("{share:.4}")),
            Field::count(t.lost_elsewhere()),
            time(t.latency_us.p50),
            time(t.latency_us.p99),
            time(t.latency_us.max),
            time(t.schedule_error_us.p99),
            outstanding(t),
            limiter,
            Field::words(verdict),
        ]
    });
    html! {
        (Table::of_rows(heads, rows).html("Every trial", &all.conditions.heading))
        @if total > MAX_ROWS { p.note { "The first " (MAX_ROWS) " of " (total) "; the raw data has the others." } }
    }
}
