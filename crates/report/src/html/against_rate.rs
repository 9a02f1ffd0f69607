//! Behaviour of each trial at its rate: latency against rate, and answered against offered.
//!
//! ```text
//! trials of a cell ──┐
//!                    ├──> dots: number, rates, p50, p90, p99 ──> 99th percentile of all cells, answered against offered
//! steps of a ramp  ──┘                                      └──> p50, p90, p99 of each cell, on the same axes
//! ```

use maud::{Markup, html};
use record::{CellRecord, LoadPoint, Trial, TrialRecord};

use super::cells::{Cell, Cells};
use super::curves::grouped;
use super::parts::{fold, pictures};
use super::plot::{Axis, Line, Picture, Plot, Point, Scale};
use crate::view::limiter::limiter_name;
use crate::view::number::counted;
use crate::view::search::met;
use crate::view::unit::Unit;
use crate::view::{thousands, time_us};

/// Largest number of cells whose own plot is shown at once; further plots are folded.
const MAX_SHOWN: usize = 12;
/// Largest number of cells with a plot of their own; the table of trials has all.
const MAX_CELLS: usize = 48;
/// Shortest latency on a logarithmic axis, in microseconds.
const LEAST_US: f64 = 0.01;
/// Smallest relative distance of two rates that are joined by a line.
const MIN_RATE_DISTANCE: f64 = 0.005;

/// Names and styles of the percentiles.
const PERCENTILES: [(&str, usize); 3] = [("p50", 0), ("p90", 2), ("p99", 1)];

/// Measurements at one rate: a trial, or a step of a ramp.
struct Dot {
    /// Requested number: a rate, or another quantity that a search varies.
    asked: f64,
    offered: f64,
    answered: f64,
    /// 50th, 90th and 99th percentile of the latency in microseconds, each with its name; a step has its mean only.
    latency: Vec<(&'static str, f64)>,
    /// Whether the goal was missed.
    missed: bool,
    /// Whether its queries left late, so that its latency is partly the Tester's.
    late: bool,
    /// Whether its trial is void: shown where a cell has no valid one.
    void: bool,
    /// Whether the rate was chosen: closed loops differ in rate by their disturbances.
    chosen: bool,
    tip: String,
}

/// A cell with its dots in rising order.
struct CellDots<'a, 'r> {
    cell: &'a Cell<'r>,
    dots: Vec<Dot>,
}

/// Renders the section under its heading; empty if no cell has a trial.
pub(crate) fn section(cells: &Cells<'_>, heading: &Markup) -> Markup {
    let (all, each) = all_pictures(cells);
    let all_dots: Vec<Dot> = cells.cells.iter().flat_map(dots).collect();
    let late = all_dots.iter().any(|dot| dot.late && !dot.void);
    let void = all_dots.iter().any(|dot| dot.void);
    html! {
        @if !all.is_empty() || !each.is_empty() {
            (heading)
            p.note {
                @if void { "A server without a valid trial has pale dots of its void trials: these show nothing about the server. " }
                "Every trial that is not void is a dot; hollow: its goal was missed. Latency counts from when a query was due; "
                "lost queries count with the timeout."
                @if late { " Pale, and outside the lines: over 1 % of the queries left late, so the Tester caused a part of the latency." }
            }
            @if each.len() > MAX_SHOWN {
                (pictures(all))
                (fold(&format!("Latency against rate, one plot for each ({})", each.len()), pictures(each)))
            } @else {
                (pictures(all.into_iter().chain(each).collect()))
            }
        }
    }
}

/// Returns the plots of the section: of all cells, and of each cell.
pub(crate) fn all_pictures(cells: &Cells<'_>) -> (Vec<Picture>, Vec<Picture>) {
    let dotted: Vec<CellDots<'_, '_>> = { cells.cells.iter() }
        .map(|cell| CellDots { cell, dots: dots(cell) })
        .filter(|dotted| !dotted.dots.is_empty())
        .collect();
    let unit = unit(cells);
    let several: Vec<&CellDots<'_, '_>> = dotted.iter().filter(|d| d.has_several_rates()).collect();
    let (mut all, mut each) = (Vec::new(), Vec::new());
    let groups = grouped(&dotted, |dotted| &dotted.cell.record.server);
    if dotted.len() > 1 {
        let axes = Scales::of_highest(&dotted);
        all.extend(groups.iter().filter_map(|(part, group)| highest(group, part, &axes, &unit)));
    }
    let axis = Scale::fitting(rates(&dotted).filter(|rate| *rate > 0.0));
    all.extend(groups.iter().filter_map(|(part, group)| answered(group, part, axis)));
    let scales = Scales::of(&several);
    for dotted in several.into_iter().take(MAX_CELLS) {
        let alone = cells.cells.len() == 1;
        each.push(cell_plot(dotted, alone, &scales, &unit));
    }
    if cells.cells.len() == 1 {
        // The plot that matters most comes first.
        each.append(&mut all);
    }
    (all, each)
}

impl CellDots<'_, '_> {
    /// Returns whether there are two rates that differ.
    fn has_several_rates(&self) -> bool {
        let rates = || self.dots.iter().map(|dot| dot.asked);
        rates().fold(0.0, f64::max) > (1.0 + MIN_RATE_DISTANCE) * rates().fold(f64::MAX, f64::min)
    }
}

/// Returns the unit of the trials' requested numbers.
fn unit(cells: &Cells<'_>) -> String {
    let over = cells.cells.iter().find_map(|c| c.record.over.as_deref());
    over.unwrap_or("qps").to_owned()
}

/// Returns the label of the axis of these numbers.
fn label(unit: &str) -> &str {
    if unit == "qps" { "offered, queries/s" } else { unit }
}

/// Returns the dots of a cell: one for each load at a given rate, or, without any, one for each
/// closed loop at the rate of the server. A cell without a valid trial has dots of its void ones.
fn dots(cell: &Cell<'_>) -> Vec<Dot> {
    let record = cell.record;
    let all_void = record.trials.iter().all(|t| t.trial.void.is_void());
    let valid = record.trials.iter().filter(|t| all_void || !t.trial.void.is_void());
    let is_open = |t: &&TrialRecord| t.trial.conditions.pacing.is_open_loop();
    let has_open = valid.clone().any(|t| is_open(&t));
    let mut dots: Vec<Dot> = valid
        .filter(|t| is_open(t) || !has_open)
        .flat_map(|t| match step_dots(&cell.name, &t.trial) {
            steps if steps.is_empty() => vec![trial_dot(cell, record, t)],
            steps => steps,
        })
        .filter(|dot| dot.asked > 0.0)
        .map(|dot| Dot { void: all_void, ..dot })
        .collect();
    dots.sort_by(|a, b| a.asked.total_cmp(&b.asked));
    dots
}

fn trial_dot(cell: &Cell<'_>, record: &CellRecord, t: &TrialRecord) -> Dot {
    let trial = &t.trial;
    let times = &trial.latency_us;
    let latency = [times.p50, times.p90, times.p99];
    let share = trial.late_departures();
    let is_late = trial.conditions.pacing.is_open_loop() && share > LoadPoint::MAX_LATE_SHARE;
    let late = if is_late { format!(", {:.1} % left late", share * 100.0) } else { String::new() };
    let asked = if record.over.is_some() { t.rate_qps } else { trial.offered_qps };
    let number = match &record.over {
        Some(unit) => format!("{} {unit}, ", thousands(asked)),
        None => String::new(),
    };
    let limited = match record.method.as_str() {
        "capacity" => String::new(),
        _ => format!(", limited by {}", limiter_name(trial.limiter)),
    };
    let tip = format!(
        "{}: {number}{} offered, {} answered per second, p50 {}, p90 {}, p99 {}{late}{limited}",
        cell.name,
        thousands(trial.offered_qps),
        thousands(trial.replies_qps()),
        time_us(times.p50),
        time_us(times.p90),
        time_us(times.p99),
    );
    Dot {
        asked,
        offered: trial.offered_qps,
        answered: trial.replies_qps(),
        latency: PERCENTILES.iter().map(|(name, _)| *name).zip(latency).collect(),
        missed: met(record, t) == Some(false),
        late: is_late,
        void: false,
        chosen: record.over.is_some() || trial.conditions.pacing.is_open_loop(),
        tip,
    }
}

/// Returns the steps of a ramp; empty for other trials.
fn step_dots(name: &str, trial: &Trial) -> Vec<Dot> {
    let Some(steps) = &trial.steps else { return Vec::new() };
    let rate = |count: u64| count as f64 / steps.length_s.max(1e-9);
    let dot = |step: &record::Step| {
        step.target_qps?;
        let (offered, answered) = (rate(step.sent), rate(step.answered));
        let (sent, replies) = (thousands(offered), thousands(answered));
        let mean = time_us(step.latency_us);
        Some(Dot {
            asked: offered,
            offered,
            answered,
            latency: (step.answered > 0).then_some(("mean", step.latency_us)).into_iter().collect(),
            missed: false,
            late: false,
            void: false,
            chosen: true,
            tip: format!(
                "{name}: {sent} offered, {replies} answered per second, mean latency {mean}"
            ),
        })
    };
    let dots: Vec<Dot> = steps.steps.iter().filter_map(dot).collect();
    let rises = |dots: &[Dot]| {
        dots.windows(2).any(|w| w[1].offered > w[0].offered * (1.0 + MIN_RATE_DISTANCE))
    };
    if rises(&dots) { dots } else { Vec::new() }
}

/// Returns one latency of the dots as a line through the medians at each chosen rate, and the dots themselves.
fn lines(name: &str, style: usize, dots: &[Dot], which: &str) -> Vec<Line> {
    let of = |dot: &Dot| {
        dot.latency.iter().find(|(name, _)| *name == which).map(|(_, us)| us.max(LEAST_US))
    };
    let point = |dot: &Dot| {
        let tip = dot.tip.clone();
        let (hollow, pale) = (dot.missed, dot.late || dot.void);
        Some(Point { x: dot.asked, y: of(dot)?, tip, hollow, pale, ..Point::default() })
    };
    let points: Vec<Point> = dots.iter().filter_map(point).collect();
    let mut joined: Vec<Point> = Vec::new();
    let chosen = dots.iter().filter(|dot| dot.chosen).filter_map(point);
    let in_time: Vec<Point> = chosen.filter(|point| !point.pale).collect();
    for group in in_time.chunk_by(|a, b| b.x <= a.x * (1.0 + MIN_RATE_DISTANCE)) {
        let ys: Vec<f64> = group.iter().map(|p| p.y).collect();
        let y = measure::stats::median(&ys).unwrap_or(f64::NAN);
        joined.push(Point { x: group[group.len() / 2].x, y, ..Point::default() });
    }
    let line =
        |points, joined| Line { name: name.to_owned(), style, points, joined, marked: !joined };
    let through = (joined.len() > 1).then(|| line(joined, true));
    through.into_iter().chain((!points.is_empty()).then(|| line(points.clone(), false))).collect()
}

/// Axes that several plots share.
struct Scales {
    x: Scale,
    y: Scale,
}

impl Scales {
    /// Makes the axes of the 99th percentiles of all cells.
    fn of_highest(dotted: &[CellDots<'_, '_>]) -> Self {
        let dots = || dotted.iter().flat_map(|d| &d.dots);
        let p99 = |dot: &Dot| {
            dot.latency.iter().find(|(name, _)| *name == "p99").map(|l| l.1.max(LEAST_US))
        };
        Scales {
            x: Scale::fitting(dots().filter(|dot| p99(dot).is_some()).map(|dot| dot.asked)),
            y: Scale::fitting(dots().filter_map(p99)),
        }
    }

    fn of(dotted: &[&CellDots<'_, '_>]) -> Self {
        let dots = || dotted.iter().flat_map(|d| &d.dots);
        Scales {
            x: Scale::fitting(dots().map(|dot| dot.asked)),
            y: Scale::fitting(dots().flat_map(|dot| &dot.latency).map(|(_, us)| us.max(LEAST_US))),
        }
    }
}

/// Plots the percentiles of one cell.
fn cell_plot(dotted: &CellDots<'_, '_>, alone: bool, scales: &Scales, unit: &str) -> Picture {
    let CellDots { cell, dots } = dotted;
    let mut of = PERCENTILES.to_vec();
    of.push(("mean", 3));
    let lines: Vec<Line> =
        of.into_iter().flat_map(|(name, style)| lines(name, style, dots, name)).collect();
    let title = format!("Latency against {}", what(unit));
    let found = cell.record.median_qps.filter(|x| *x > 0.0);
    let (low, high) = scales.y.ends();
    let guides = found.map(|x| ("capacity".to_owned(), vec![(x, low), (x, high)]));
    Picture::Plot(Plot {
        title: if alone { title } else { format!("{title}: {}", cell.name) },
        alt: dots.iter().map(|dot| dot.tip.as_str()).take(3).collect::<Vec<_>>().join(". "),
        note: String::new(),
        x: Axis::new(label(unit), scales.x, Unit::of(if unit == "qps" { unit } else { "" })),
        y: Axis::new("latency", scales.y, Unit::Micros),
        lines,
        guides: guides.into_iter().collect(),
    })
}

/// Returns the varied quantity of the trials, in words.
fn what(unit: &str) -> &str {
    match unit {
        "qps" => "rate",
        "connections/s" => "connections a second",
        other => other,
    }
}

/// Plots the 99th percentile of several cells.
fn highest(group: &[&CellDots<'_, '_>], part: &str, axes: &Scales, unit: &str) -> Option<Picture> {
    let lines: Vec<Line> = group
        .iter()
        .enumerate()
        .flat_map(|(style, d)| lines(&d.cell.name, style, &d.dots, "p99"))
        .collect();
    let plot = Plot {
        title: format!("99th percentile of latency against {}{part}", what(unit)),
        alt: counted(
            lines.iter().filter(|l| l.marked).map(|l| l.points.len()).sum(),
            "trial",
            "trials",
        ),
        note: String::new(),
        x: Axis::new(label(unit), axes.x, Unit::of(if unit == "qps" { unit } else { "" })),
        y: Axis::new("99th percentile of latency", axes.y, Unit::Micros),
        lines,
        guides: Vec::new(),
    };
    (!plot.lines.is_empty()).then_some(Picture::Plot(plot))
}

/// Returns the offered and the answered rates of all dots.
fn rates(dotted: &[CellDots<'_, '_>]) -> impl Iterator<Item = f64> + Clone {
    dotted.iter().flat_map(|d| &d.dots).flat_map(|dot| [dot.offered, dot.answered])
}

/// Plots the answered against the offered rate of every valid trial, with the diagonal.
fn answered(group: &[&CellDots<'_, '_>], part: &str, scale: Scale) -> Option<Picture> {
    let line = |(style, dotted): (usize, &&CellDots<'_, '_>)| {
        let point = |dot: &Dot| Point {
            x: dot.offered,
            y: dot.answered,
            tip: dot.tip.clone(),
            hollow: dot.missed,
            pale: dot.late || dot.void,
            ..Point::default()
        };
        let mut points: Vec<Point> = dotted.dots.iter().map(point).collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        Line { name: dotted.cell.name.clone(), style, points, joined: false, marked: true }
    };
    let lines: Vec<Line> = group.iter().enumerate().map(line).collect();
    if lines.iter().all(|line| line.points.is_empty()) {
        return None;
    }
    // A trial without an answer has no place on a logarithmic axis; it is drawn at its edge.
    let (start, end) = scale.ends();
    Some(Picture::Plot(Plot {
        title: format!("Answered against offered rate{part}"),
        alt: format!(
            "{}; points below the diagonal were not answered in full",
            counted(lines.iter().map(|l| l.points.len()).sum(), "trial", "trials")
        ),
        note: "On the dotted diagonal answers come as fast as queries; later answers are below it."
            .into(),
        x: Axis::new("offered, queries/s", scale, Unit::Qps),
        y: Axis::new("answered, queries/s", scale, Unit::Qps),
        lines,
        guides: vec![("all answered".into(), vec![(start, start), (end, end)])],
    }))
}
