//! Several runs as one comparison: each with the first of them, as `dnsdyno compare` does, with the trend of each figure and
//! thresholds.

use maud::{Markup, html};
use record::{CompareTerms, Compared, Comparison, Decision, Outcome, Run, compare};

use super::curves::part;
use super::parts::{pictures, table};
use super::plot::{Axis, Line, MAX_LINES, Picture, Plot, Point, Scale};
use crate::comparison::ratio;
use crate::view::name::{compared_name, figure_title, setting_words};
use crate::view::number::{counted, significant};
use crate::view::table::{each_once, sorted_once};
use crate::view::unit::{Unit, with_unit};
use crate::view::{date, figure_name};

/// Largest number of plots of trends; the table has all figures.
const MAX_PLOTS: usize = 24;

/// Factor beyond which an interval leaves the plot, whose other points would be squeezed to a line.
const MAX_SHOWN_FACTOR: f64 = 3.0;

/// Largest number of reasons of a decision; the table has all verdicts.
const MAX_REASONS: usize = 5;

/// A figure of a cell that the first run shares with others.
struct SharedFigure<'a> {
    /// Server and settings of the cell, in words.
    cell: String,
    figure: &'a str,
    unit: &'a str,
    first: f64,
    /// The figure's comparison in each later run; `None` where the run does not have it.
    later: Vec<Option<&'a Compared>>,
}

/// Returns the title of the page.
pub(crate) fn title(runs: &[&Run]) -> String {
    let experiments = sorted_once(runs.iter().map(|run| run.plan.experiment.as_str()));
    let cells = runs.iter().flat_map(|run| &run.results);
    let servers = sorted_once(cells.map(|cell| cell.server.as_str()));
    let more = servers.len().saturating_sub(4);
    let of = servers[..servers.len() - more].join(", ");
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}: {} of {of}{more}", experiments.join(", "), counted(runs.len(), "run", "runs"))
}

/// Renders the section: each later run against the first.
pub(crate) fn section(runs: &[&Run], terms: &CompareTerms) -> Markup {
    let Some((first, later)) = runs.split_first() else { return html! {} };
    let comparisons: Vec<Comparison> = later.iter().map(|run| compare(first, run, terms)).collect();
    let shared = shared(&comparisons);
    let names = names(runs);
    let percent = |share: f64| format!("{} %", significant(share * 100.0));
    html! {
        ul.findings {
            @for (comparison, name) in comparisons.iter().zip(&names[1..]) { li { strong { (name) } ": " (verdict(comparison)) " against " (names[0]) (reasons(comparison)) } }
        }
        @if shared.is_empty() {
            p { "These runs have no figure in common." }
        } @else {
            (pictures(trends(&shared, &names, terms.stats.margin)))
            (figures(&shared, &names))
            p.note { "The first run is the base. Below a value: its ratio to the base, the interval of the ratio, and the verdict. All verdicts of a run together are "
                (percent(terms.stats.confidence)) " sure; a difference within the dotted thresholds, " (percent(terms.stats.margin))
                ", counts as none. “No difference shown” does not mean that there is none. “One visit each: no interval”: the spread between visits is not known; "
                "measure with " code { "--repeats 5" } "." }
        }
        (notes(&comparisons, &names))
    }
}

/// Returns a short name of each run: its number in the store or in the page, and its time.
pub(crate) fn names(runs: &[&Run]) -> Vec<String> {
    let name = |(run, n): (&&Run, u32)| {
        let which = run.id.map_or(format!("{n}."), |id| format!("run {id},"));
        match run.plan.started_unix_s {
            at if at > 0.0 => format!("{which} {}", date(at)),
            _ => which,
        }
    };
    runs.iter().zip(1..).map(name).collect()
}

/// Returns the decision about a run, in words.
fn verdict(comparison: &Comparison) -> &'static str {
    match comparison.decision {
        Decision::Fine => "nothing is slower",
        Decision::Inconclusive => "inconclusive",
        Decision::Slower => "slower",
    }
}

/// Renders the first reasons of a decision.
fn reasons(comparison: &Comparison) -> Markup {
    let reasons = &comparison.reasons;
    let more = reasons.len().saturating_sub(MAX_REASONS);
    html! {
        @if !reasons.is_empty() {
            ul {
                @for reason in reasons.iter().take(MAX_REASONS) { li { (reason) } }
                @if more > 0 { li { "and " (more) " more" } }
            }
        }
    }
}

/// Returns the figures that the first run shares with at least one later run.
fn shared(comparisons: &[Comparison]) -> Vec<SharedFigure<'_>> {
    let mut all: Vec<SharedFigure<'_>> = Vec::new();
    for (i, comparison) in comparisons.iter().enumerate() {
        for figure in &comparison.figures {
            let cell = cell(figure);
            let known = all.iter_mut().find(|s| s.cell == cell && s.figure == figure.figure);
            if let Some(known) = known {
                known.later[i] = Some(figure);
                continue;
            }
            let mut later = vec![None; comparisons.len()];
            later[i] = Some(figure);
            let (name, unit, first) = (&figure.figure, &figure.unit, figure.first);
            all.push(SharedFigure { cell, figure: name, unit, first, later });
        }
    }
    all
}

/// Returns the name of the cell of a figure.
fn cell(figure: &Compared) -> String {
    format!("{} {}", figure.server, setting_words(&figure.settings)).trim_end().to_owned()
}

/// Plots each figure of all cells as ratio to the first run, with the thresholds.
fn trends(shared: &[SharedFigure<'_>], names: &[String], margin: f64) -> Vec<Picture> {
    let figures = each_once(shared.iter().map(|s| s.figure));
    let of = |figure: &&str| {
        let lines: Vec<Line> = { shared.iter() }
            .filter(|s| s.figure == *figure && s.first > 0.0)
            .enumerate()
            .map(|(i, s)| line(s, i % MAX_LINES, names))
            .filter(|line| line.points.len() > 1)
            .collect();
        let groups = lines.chunks(MAX_LINES);
        let count = groups.len();
        let title = figure_title(figure);
        let plot = |(lines, n): (&[Line], usize)| {
            trend(&format!("{title}{}", part(n, count)), lines, names, margin)
        };
        groups.zip(1..).map(plot).collect::<Vec<_>>()
    };
    figures.iter().flat_map(of).take(MAX_PLOTS).collect()
}

fn line(shared: &SharedFigure<'_>, style: usize, names: &[String]) -> Line {
    let base = Point {
        x: 1.0,
        y: 1.0,
        tip: format!("{}, {}: {}", shared.cell, names[0], with_unit(shared.first, shared.unit)),
        ..Point::default()
    };
    let later =
        shared.later.iter().zip(&names[1..]).zip(2u32..).filter_map(|((compared, name), x)| {
            let compared = compared.filter(|c| c.outcome != Outcome::NotComparable)?;
            Some(Point {
                x: x.into(),
                y: compared.ratio,
                spread: compared.interval,
                tip: format!(
                    "{}, {name}: {}, {}",
                    shared.cell,
                    with_unit(compared.second, shared.unit),
                    words(compared)
                ),
                hollow: class(compared.outcome) == "same",
                ..Point::default()
            })
        });
    let points = std::iter::once(base).chain(later).collect();
    Line { name: shared.cell.clone(), style, points, joined: true, marked: true }
}

fn trend(title: &str, lines: &[Line], names: &[String], margin: f64) -> Picture {
    let last = names.len() as f64;
    let points = || lines.iter().flat_map(|line| &line.points);
    let ends = [1.0 - 2.0 * margin, 1.0 + 2.0 * margin];
    // A very wide interval ends in an arrow.
    let spread = |p: &Point| {
        p.spread
            .map(|(low, high)| [low.max(p.y / MAX_SHOWN_FACTOR), high.min(p.y * MAX_SHOWN_FACTOR)])
    };
    let spreads = points().filter_map(spread).flatten();
    let y = Scale::of_ratios(points().map(|p| p.y).chain(ends).chain(spreads));
    let threshold =
        |at: f64| (format!("± {} %", significant(margin * 100.0)), vec![(1.0, at), (last, at)]);
    let mut x = Axis::new("run", Scale::Linear(0.7, last + 0.3), Unit::of(""));
    let every = names.len().div_ceil(7);
    let tick = |(name, n): (&String, u32)| {
        let which = name.split_once(' ').filter(|(word, _)| *word == "run");
        let text = which.and_then(|(_, rest)| rest.split(',').next()).map(str::to_owned);
        (f64::from(n), text.unwrap_or_else(|| n.to_string()))
    };
    x.ticks = Some(names.iter().zip(1..).step_by(every).map(tick).collect());
    Picture::Plot(Plot {
        title: format!("{title}, against the first run"),
        alt: points().map(|p| p.tip.as_str()).take(6).collect::<Vec<_>>().join(". "),
        note: "Hollow: no difference shown, or no interval.".to_owned(),
        x,
        y: Axis::new("ratio to the first run", y, Unit::of("")),
        lines: lines.to_vec(),
        guides: vec![threshold(1.0 - margin), threshold(1.0 + margin)],
    })
}

/// Describes ratio, interval and outcome.
fn words(compared: &Compared) -> String {
    let interval = match compared.interval {
        Some((low, high)) => format!(" ({} to {})", ratio(low), ratio(high)),
        None => String::new(),
    };
    format!("×{}{interval}, {}", ratio(compared.ratio), compared.outcome.words())
}

/// Renders the table of figures, a column for each run.
fn figures(shared: &[SharedFigure<'_>], names: &[String]) -> Markup {
    let mut heads = vec!["cell", "figure"];
    heads.extend(names.iter().map(String::as_str));
    let row = |s: &SharedFigure<'_>| {
        html! {
            th scope="row" data-h="cell" data-v=(s.cell) { (s.cell) }
            td data-h="figure" { (figure_name(s.figure)) }
            td.n data-h=(names[0]) data-v=(s.first) { (with_unit(s.first, s.unit)) }
            @for (compared, head) in s.later.iter().zip(&names[1..]) {
                @match compared {
                    None => { td.n data-h=(head) { "–" } }
                    Some(c) if c.outcome == Outcome::NotComparable => {
                        td.n data-h=(head) data-v=(c.second) { (with_unit(c.second, s.unit)) small { "not comparable: " (c.notes.join("; ")) } }
                    }
                    Some(c) => {
                        td.n data-h=(head) data-v=(c.second) {
                            (with_unit(c.second, s.unit))
                            small.verdict.(class(c.suggested())) { (words(c)) }
                        }
                    }
                }
            }
        }
    };
    let rows: Vec<Markup> = shared.iter().map(row).collect();
    table("Figures of each run", "", &heads, &rows)
}

/// Returns the class of the colour of an outcome.
fn class(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Slower | Outcome::Worse => "worse",
        Outcome::Faster | Outcome::Better => "better",
        _ => "same",
    }
}

/// Renders the differences between the runs other than the figures.
fn notes(comparisons: &[Comparison], names: &[String]) -> Markup {
    let of = |comparison: &Comparison, name: &String| -> Vec<String> {
        let missing = comparison.missing.iter().map(|m| {
            let cell = record::cell_name(&m.server, None, &m.settings);
            format!("{name}: missing {cell}: {}", m.why)
        });
        let unlike = comparison
            .unlike
            .iter()
            .map(|what| format!("{name}: measured under other conditions: {what}"));
        let differs = comparison.differs.iter().map(|what| format!("{name}: {what}"));
        let noted = comparison.figures.iter().filter(|figure| !figure.notes.is_empty());
        let noted = noted.map(|figure| {
            format!("{name}: {}: {}", compared_name(figure), figure.notes.join("; "))
        });
        unlike.chain(missing).chain(noted).chain(differs).collect()
    };
    let all: Vec<String> =
        comparisons.iter().zip(&names[1..]).flat_map(|(c, name)| of(c, name)).collect();
    html! {
        @if !all.is_empty() {
            details.doubts {
                summary { "Doubts, and other conditions that differ (" (all.len()) ")" }
                ul { @for line in &all { li { (line) } } }
            }
        }
    }
}
