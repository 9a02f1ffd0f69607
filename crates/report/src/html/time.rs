//! Trials over time: answers and latencies by the second, the server's CPU and memory, and, folded, all other
//! samples.

use maud::{Markup, html};
use record::{Second, Series, TrialRecord};

use super::cells::{Cell, Cells};
use super::curves::{grouped, part};
use super::parts::{fold, pictures};
use super::plot::{Axis, Line, MAX_LINES, Picture, Plot, Point, Scale};
use crate::view::table::each_once;
use crate::view::thousands;
use crate::view::unit::Unit;

/// Largest number of series of one unit and cell; the raw data has all.
const MAX_SERIES: usize = 24;
/// Largest number of cells; the raw data has all.
const MAX_CELLS: usize = 64;
/// Largest number of marks on a line; more marks would hide the line.
const MAX_MARKS: usize = 24;
/// Names of the latency series of a trial, with the title of the plot.
const LATENCIES: [(&str, &str); 2] = [
    ("latency.p50", "Latency over time, median"),
    ("latency.p99", "Latency over time, 99th percentile"),
];

/// A cell and the trial that represents it.
type ShownTrial<'a, 'r> = (&'a Cell<'r>, &'a TrialRecord);

/// Renders the section; empty without samples.
pub(crate) fn section(cells: &Cells<'_>) -> Markup {
    let shown = shown(cells);
    let beside = |cell: &Cell<'_>| format!("{}, beside the trials", cell.name);
    let sampled: Vec<(String, &[Series])> = shown
        .iter()
        .map(|(cell, t)| (cell.name.clone(), t.trial.probes.as_slice()))
        .chain(cells.cells.iter().map(|c| (beside(c), c.record.series.as_slice())))
        .filter(|(_, series)| !series.is_empty())
        .collect();
    html! {
        @if !shown.is_empty() || !sampled.is_empty() {
            h3 { "Over time" }
            p.note { "One trial of each cell, the last one that decided. CPU in percent of one core." }
            (pictures(plots(cells)))
            @for (name, series) in sampled.iter().take(MAX_CELLS) {
                (fold(&format!("All sampled series: {name}"), pictures(probes(name, series))))
            }
        }
    }
}

/// Returns the plots of the trials that represent the cells.
pub(crate) fn plots(cells: &Cells<'_>) -> Vec<Picture> {
    let shown = shown(cells);
    let mut all = Vec::new();
    for (part, group) in grouped(&shown, |(cell, _)| &cell.record.server) {
        let group = group.as_slice();
        let named = |title: &str| format!("{title}{part}");
        all.extend(rates(group, named("Valid answers over time"), "valid", |s| s.valid));
        if group.iter().any(|(_, t)| t.trial.bad() > 0) {
            let bad = |s: &Second| (s.sent + s.unserved).saturating_sub(s.valid);
            all.extend(rates(
                group,
                named("Queries without a valid answer over time"),
                "not valid",
                bad,
            ));
        }
        for (name, title) in LATENCIES {
            all.extend(over(group, named(title), &|s| s.name == name));
        }
        let of_cpu = |s: &Series| s.name == "dut.user" || s.name == "dut.system";
        all.extend(over(group, named("CPU of the server over time"), &of_cpu));
        let of_memory = |s: &Series| s.name == record::RESIDENT;
        all.extend(over(group, named("Memory of the server over time"), &of_memory));
    }
    all
}

/// Returns each cell with the trial that represents it.
fn shown<'a, 'r>(cells: &'a Cells<'r>) -> Vec<ShownTrial<'a, 'r>> {
    cells.cells.iter().filter_map(|c| Some((c, c.record.deciding().pop()?))).collect()
}

/// Returns the name of a line: the cell, and the rate of its trial.
fn at_rate((cell, t): &ShownTrial<'_, '_>) -> String {
    format!("{}, at {}/s", cell.name, thousands(t.trial.offered_qps))
}

/// Plots a count of the queries of each whole second; its tooltips name the invalid ones.
fn rates(
    shown: &[&ShownTrial<'_, '_>],
    title: String,
    what: &str,
    count: impl Fn(&Second) -> u64,
) -> Option<Picture> {
    let line = |(style, of): (usize, &&ShownTrial<'_, '_>)| {
        let (cell, t) = of;
        let whole = (t.trial.duration_s + 0.01).floor() as usize;
        let points = t.trial.series.iter().take(whole).enumerate().map(|(i, s)| Point {
            x: i as f64,
            y: count(s) as f64,
            tip: format!(
                "{}, second {i}: {} sent, {} valid{}",
                cell.name,
                s.sent,
                s.valid,
                not_valid(s)
            ),
            ..Point::default()
        });
        line(at_rate(of), style, points.collect())
    };
    let lines: Vec<Line> = shown.iter().enumerate().map(line).collect();
    let lines = lines.into_iter().filter(|l| l.points.len() > 1).collect();
    plot(title, &format!("{what}, by time of sending"), lines, Unit::Qps)
}

/// Lists the invalid outcomes of a second, each after a comma.
fn not_valid(s: &Second) -> String {
    let reasons = s.invalid.iter().map(|(reason, n)| (reason.as_str(), *n));
    let others = [("lost", s.lost), ("unserved", s.unserved)];
    let all = reasons.chain(others).filter(|(_, n)| *n > 0);
    all.map(|(what, n)| format!(", {n} {what}")).collect()
}

/// Plots samples of some series, one line for each cell; several series of a cell are added.
fn over(
    shown: &[&ShownTrial<'_, '_>],
    title: String,
    which: &dyn Fn(&Series) -> bool,
) -> Option<Picture> {
    let mut unit = None;
    let lines = shown.iter().enumerate().filter_map(|(style, of_cell)| {
        let (cell, t) = of_cell;
        let mut of = t.trial.probes.iter().filter(|s| which(s));
        let first = of.next()?;
        unit.get_or_insert(Unit::of(&first.unit));
        let mut samples = first.samples.clone();
        for more in of {
            // All series of a role are sampled at the same times.
            for (at, value) in &mut samples {
                *value += more.samples.iter().find(|(t, _)| t == at).map_or(0.0, |(_, v)| *v);
            }
        }
        Some(line(at_rate(of_cell), style, points(&cell.name, &first.unit, &samples)))
    });
    let lines: Vec<Line> = lines.filter(|l| !l.points.is_empty()).collect();
    let unit = unit.unwrap_or(Unit::Percent);
    let label = if unit == Unit::Percent { "% of a core" } else { unit.name() };
    plot(title, label, lines, unit.clone())
}

/// Plots the samples of one cell under its name: one plot for each unit.
fn probes(name: &str, series: &[Series]) -> Vec<Picture> {
    let mut all = Vec::new();
    for unit in each_once(series.iter().map(|s| s.unit.as_str())) {
        let of_unit = series.iter().filter(|s| s.unit == unit && !s.samples.is_empty());
        let of_unit: Vec<&Series> = of_unit.take(MAX_SERIES).collect();
        let groups = of_unit.chunks(MAX_LINES);
        let count = groups.len();
        for (group, n) in groups.zip(1..) {
            all.extend(sampled(unit, group, &format!(": {name}{}", part(n, count))));
        }
    }
    all
}

fn sampled(unit: &str, group: &[&Series], part: &str) -> Option<Picture> {
    let what = match unit {
        "%" => "CPU",
        "B" => "Memory",
        "us" => "Latency",
        "1/s" => "Events",
        _ => "Probes",
    };
    let lines = group
        .iter()
        .enumerate()
        .map(|(style, s)| line(s.name.clone(), style, points(&s.name, &s.unit, &s.samples)));
    let of = Unit::of(unit);
    let label = match unit {
        "%" => "% of a core",
        "1/s" => "a second",
        _ => of.name(),
    };
    plot(format!("{what} over time{part}"), label, lines.collect(), of.clone())
}

fn points(name: &str, unit: &str, samples: &[(f64, f64)]) -> Vec<Point> {
    let unit = Unit::of(unit);
    let point = |(x, y): &(f64, f64)| Point {
        x: *x,
        y: *y,
        tip: format!("{name} at {x:.1} s: {}", unit.full(*y)),
        ..Point::default()
    };
    samples.iter().map(point).collect()
}

fn line(name: String, style: usize, points: Vec<Point>) -> Line {
    let marked = points.len() <= MAX_MARKS;
    Line { name, style, points, joined: true, marked }
}

fn plot(title: String, label: &str, lines: Vec<Line>, unit: Unit) -> Option<Picture> {
    if lines.is_empty() {
        return None;
    }
    let all = || lines.iter().flat_map(|l| &l.points);
    let range = |l: &Line| {
        let (low, high) =
            l.points.iter().fold((f64::MAX, f64::MIN), |(a, b), p| (a.min(p.y), b.max(p.y)));
        format!("{} from {} to {}", l.name, unit.full(low), unit.full(high))
    };
    let y = Scale::fitting(all().map(|p| p.y));
    Some(Picture::Plot(Plot {
        title,
        alt: lines.iter().map(range).collect::<Vec<_>>().join(". "),
        note: String::new(),
        x: Axis::new("seconds", Scale::around(all().map(|p| p.x)), Unit::of("")),
        y: Axis::new(label, y, unit.clone()),
        lines,
        guides: Vec::new(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_system_time_are_added_where_both_were_sampled() {
        let series = |name: &str, values: &[(f64, f64)]| Series {
            name: name.to_owned(),
            unit: "%".to_owned(),
            samples: values.to_vec(),
        };
        let run = concat!(env!("CARGO_MANIFEST_DIR"), "/../cli/tests/runs/load.json");
        let mut run = record::read_run(std::path::Path::new(run)).expect("a stored run");
        for trial in &mut run.results[0].trials {
            trial.trial.void = record::Voidness(None);
            trial.trial.probes = vec![
                series("dut.user", &[(0.5, 20.0), (1.0, 25.0)]),
                series("dut.system", &[(0.5, 50.0)]),
                series("latency.p99", &[(0.5, 300.0), (1.0, 600.0)]),
                series("tester.user", &[(0.5, 99.0)]),
            ];
        }
        run.results.truncate(1);
        let page = section(&Cells::of(&run)).into_string();
        for part in [" at 0.5 s: 70 %", " at 1.0 s: 25 %", "99th percentile", " at 0.5 s: 300"] {
            assert!(page.contains(part), "{part} is not in {page}");
        }
        let (plots, folded) = page.split_once("<details").expect("the rest is folded");
        assert!(!plots.contains("99 %") && folded.contains("tester.user at 0.5 s: 99 %"));
    }
}
