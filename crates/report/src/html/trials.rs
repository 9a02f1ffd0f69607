//! Results of trials: answered against offered rate, latency, the schedule, and a table of all trials.

use maud::{Markup, html};
use measure::Histogram;
use record::{Trial, TrialRecord};

use super::cells::{Cell, Cells};
use super::parts::{Narrow, fold, name_cell, number_cell, table};
use super::plot::{Axis, Line, MAX_LINES, Plot, Point, Scale};
use crate::view::limiter::limiter_name;
use crate::view::search::met;
use crate::view::unit::Unit;
use crate::view::{thousands, time_us};

/// Percentages of slowest queries at which the percentile curves have their points.
const SLOWEST: [f64; 16] =
    [100.0, 90.0, 75.0, 50.0, 35.0, 25.0, 15.0, 10.0, 5.0, 2.5, 1.0, 0.5, 0.25, 0.1, 0.05, 0.01];
/// Largest number of trials in the table; the raw data has all.
const MAX_ROWS: usize = 1_000;

/// Renders the section; empty without trials.
pub(crate) fn section(cells: &Cells<'_>) -> Markup {
    let with: Vec<&Cell<'_>> = cells.cells.iter().filter(|c| !c.record.trials.is_empty()).collect();
    html! {
        @if !with.is_empty() {
            h3 { "Answers and latency" }
            p.note { "Latency counts from when a query was due; lost queries stay in with the timeout. "
                "Of a search the trials at the rate that it found stand for a cell, all searches merged; of other methods those at the highest rate." }
            div.plots {
                @for group in with.chunks(MAX_LINES) {
                    (answered(group))
                    (percentiles(group, "Latency by percentile", "the slowest so many queries, %", |t| &t.trial.latency_us))
                    (percentiles(group, "Schedule error by percentile", "the latest so many queries, %", |t| &t.trial.schedule_error_us))
                }
            }
            (fold(&format!("Every trial ({})", with.iter().map(|c| c.record.trials.len()).sum::<usize>()), rows(cells, &with)))
        }
    }
}

/// Renders the answered against the offered rate of every valid trial, with the diagonal.
fn answered(cells: &[&Cell<'_>]) -> Markup {
    let lines: Vec<Line> = cells
        .iter()
        .enumerate()
        .map(|(style, cell)| {
            let valid_trials = cell.record.trials.iter().filter(|t| !t.trial.void.is_void());
            let mut points: Vec<Point> = valid_trials
                .map(|t| Point {
                    x: t.trial.offered_qps,
                    y: t.trial.answered_qps,
                    spread: None,
                    tip: format!("{}: {}", cell.name, in_words(t)),
                    hollow: met(cell.record, t) == Some(false),
                })
                .collect();
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            Line { name: cell.name.clone(), style, points, joined: false, marked: true }
        })
        .filter(|l| !l.points.is_empty())
        .collect();
    let all = || lines.iter().flat_map(|l| &l.points).flat_map(|p| [p.x, p.y]);
    let positive = || all().filter(|v| *v > 0.0);
    let (low, high) = (positive().fold(f64::MAX, f64::min), positive().fold(0.0, f64::max));
    if lines.is_empty() || high == 0.0 {
        return html! {};
    }
    let scale =
        if high / low > 20.0 { Scale::log(positive()) } else { Scale::from_zero(positive()) };
    let start = if high / low > 20.0 { low / 1.25 } else { 0.0 };
    Plot {
        title: "Answered against offered rate".into(),
        alt: format!(
            "{} trials; points below the diagonal were not answered in full",
            lines.iter().map(|l| l.points.len()).sum::<usize>()
        ),
        note: "Hollow: the goal was missed. On the dotted diagonal everything is answered.".into(),
        x: Axis::new("offered, queries/s", scale, Unit::Qps),
        y: Axis::new("answered, queries/s", scale, Unit::Qps),
        lines,
        guides: vec![("all answered".into(), vec![(start, start), (high, high)])],
    }
    .figure()
}

/// Describes a trial.
fn in_words(t: &TrialRecord) -> String {
    format!(
        "{} offered, {} answered per second, p99 {}, limited by {}",
        thousands(t.trial.offered_qps),
        thousands(t.trial.answered_qps),
        time_us(t.trial.latency_us.p99),
        limiter_name(t.trial.limiter)
    )
}

/// Renders a distribution of the deciding trials: times of the slowest queries, both axes logarithmic.
fn percentiles(
    cells: &[&Cell<'_>],
    title: &str,
    label: &str,
    which: fn(&TrialRecord) -> &record::Times,
) -> Markup {
    let line = |(style, cell): (usize, &&Cell<'_>)| {
        let times = cell.record.merged(which)?;
        let points = SLOWEST.iter().filter(|p| enough(&times, **p)).map(|slowest| {
            let us = times.quantile(1.0 - slowest / 100.0).as_micros_f64();
            let tip = format!("{}: p{} {}", cell.name, shortest(100.0 - slowest), time_us(us));
            // The axis runs from large shares to small ones.
            Point { x: 100.0 / slowest, y: us.max(0.01), tip, ..Point::default() }
        });
        let points = points.collect();
        Some(Line { name: cell.name.clone(), style, points, joined: true, marked: true })
    };
    let lines: Vec<Line> = cells.iter().enumerate().filter_map(line).collect();
    if lines.is_empty() {
        return html! {};
    }
    let all = || lines.iter().flat_map(|l| &l.points);
    let mut x = Axis::new(label, Scale::log(all().map(|p| p.x)), Unit::Percent);
    x.ticks = Some([100.0, 10.0, 1.0, 0.1, 0.01].map(|p| (100.0 / p, format!("{p} %"))).to_vec());
    if let (Some(ticks), Scale::Log(_, high)) = (&mut x.ticks, x.scale) {
        ticks.retain(|(at, _)| *at <= high);
    }
    let alt: Vec<String> = cells
        .iter()
        .filter_map(|c| {
            let h = c.record.merged(which)?;
            let at = |q| time_us(h.quantile(q).as_micros_f64());
            Some(format!(
                "{}: median {}, 99th percentile {}, largest {}",
                c.name,
                at(0.5),
                at(0.99),
                time_us(h.max().as_micros_f64())
            ))
        })
        .collect();
    Plot {
        title: title.to_owned(),
        alt: alt.join(". "),
        note: String::new(),
        y: Axis::new("time", Scale::log(all().map(|p| p.y)), Unit::Micros),
        x,
        lines,
        guides: Vec::new(),
    }
    .figure()
}

/// Returns whether a share this small contains ten queries.
fn enough(times: &Histogram, percent: f64) -> bool {
    times.count() as f64 * percent / 100.0 >= 10.0
}

/// Formats a percentage with as few digits as needed.
fn shortest(percent: f64) -> String {
    let text = format!("{percent:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Renders the numbers of queries outstanding in the middle and at the end of a trial, and whether that was sustained.
fn outstanding(t: &Trial) -> Markup {
    let Some(numbers) = t.outstanding else {
        return number_cell("outstanding", None, "–".into());
    };
    let text = format!("{:.0} to {:.0}", numbers.middle, numbers.end);
    html! {
        td.n data-h="outstanding" data-v=(numbers.end) {
            (text) small { @if numbers.is_sustained() { "sustained" } @else { "not sustained" } }
        }
    }
}

/// Renders the table of trials.
fn rows(all: &Cells<'_>, cells: &[&Cell<'_>]) -> Markup {
    let heads = [
        "cell",
        "search",
        "asked for, queries/s",
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
        let count = |h: &str, x: f64| number_cell(h, Some(x), thousands(x));
        let time = |h: &str, us: f64| number_cell(h, Some(us), time_us(us));
        let share = t.percent_of_sent(t.valid);
        let verdict = match (&t.void.0, met(cell.record, r)) {
            (Some(why), _) => format!("void: {why}"),
            (None, Some(true)) => "passed".into(),
            (None, Some(false)) => "failed".into(),
            (None, None) => "–".into(),
        };
        let proof = t.limiter_proof.as_ref().map(|proof| proof.to_string());
        html! {
            (name_cell("cell", &cell.name))
            (number_cell("search", Some(f64::from(r.repeat)), (r.repeat + 1).to_string()))
            (count("asked for, queries/s", r.rate_qps))
            (count("offered", t.offered_qps))
            (count("answered", t.answered_qps))
            (number_cell("valid, %", Some(share), format!("{share:.4}")))
            (count("lost", t.lost as f64))
            (time("p50", t.latency_us.p50))
            (time("p99", t.latency_us.p99))
            (time("max", t.latency_us.max))
            (time("schedule p99", t.schedule_error_us.p99))
            (outstanding(t))
            td data-h="limited by" { (limiter_name(t.limiter)) @if let Some(proof) = proof { small { (proof) } } }
            td data-h="verdict" { (verdict) }
        }
    });
    html! {
        (table("Every trial", &all.conditions.heading, Narrow::Scrolls, &heads, &rows.collect::<Vec<_>>()))
        @if total > MAX_ROWS { p.note { "The first " (MAX_ROWS) " of " (total) "; the raw data holds the rest." } }
    }
}
