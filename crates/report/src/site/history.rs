//! The history of a server: each figure over its runs, with the points where its level changed.

use std::collections::BTreeMap;

use maud::{Markup, html};
use measure::stats::{Change, ChangeTerms, Level, changes};
use record::Form;

use super::entry::{Fact, SiteRun};
use crate::html::plot::{Axis, Line, MAX_LINES, Picture, Plot, Point, Scale};
use crate::html::{Frame, fold, frame, pictures, table};
use crate::view::name::figure_title;
use crate::view::number::range;
use crate::view::table::{by_key, each_once};
use crate::view::unit::{Unit, with_unit};
use crate::view::{figure_name, thousands};

/// Terms of change points: confidence, margin, seed of the random orders.
const TERMS: ChangeTerms = ChangeTerms { confidence: 0.95, margin: 0.05, seed: 1 };
/// Largest number of plots of a part; its table has all figures.
const MAX_PLOTS: usize = 16;
/// Largest number of rows of a table that is not folded.
const MAX_OPEN: usize = 12;

/// Figures that can be compared: of one experiment in one form, on one host, under equal conditions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Comparable<'a> {
    experiment: &'a str,
    form: Form,
    host: &'a str,
    conditions: &'a str,
}

/// A figure of a run.
type RunFigure<'a> = (&'a SiteRun, &'a Fact);

/// A figure at one setting over the runs, oldest first.
struct FigureHistory<'a> {
    settings: &'a str,
    figure: &'a str,
    seen: Vec<RunFigure<'a>>,
    changes: Vec<Change>,
}

/// Renders the history of a server.
pub(super) fn page(server: &str, entries: &[SiteRun]) -> String {
    let mut kinds: BTreeMap<Comparable<'_>, Vec<RunFigure<'_>>> = BTreeMap::new();
    let mut oldest_first: Vec<&SiteRun> = entries.iter().collect();
    oldest_first.sort_by(|a, b| a.began_unix_s.total_cmp(&b.began_unix_s));
    for entry in oldest_first {
        for fact in entry.facts.iter().filter(|fact| fact.server == server) {
            let kind = Comparable {
                experiment: &entry.experiment,
                form: entry.form,
                host: &entry.host,
                conditions: &fact.conditions,
            };
            kinds.entry(kind).or_default().push((entry, fact));
        }
    }
    let body = html! {
        @if kinds.is_empty() { p { "No run has a figure of this server." } }
        @for (kind, seen) in &kinds { (part(&kind.title(kinds.keys()), kind, seen)) }
    };
    let foot = html! {
        p { "A change point: the level before and after it differs by more than 5 %, which at 95 % is not due to chance (Pettitt’s test by permutation); it requires at least eight runs. A lower bound (≥, a hollow dot) counts as above another figure only if the bound is above it, and never as below one." }
    };
    let title = format!("History of {server}");
    let navigation = [("../index.html".to_owned(), "All runs".to_owned())];
    frame(&Frame { title: &title, navigation: &navigation, body: &body, foot: &foot, script: "" })
}

impl Comparable<'_> {
    /// Returns a title that no other of `all` kinds has: the experiment, and where that is not enough the conditions, the host, or both.
    fn title<'a>(&self, all: impl Iterator<Item = &'a Comparable<'a>>) -> String {
        let same = |other: &&Comparable<'_>| {
            (other.experiment, other.form) == (self.experiment, self.form)
        };
        let others: Vec<&Comparable<'_>> =
            all.filter(same).filter(|other| *other != self).collect();
        let form = self.form.suffix();
        let base = format!("{}{form}", self.experiment);
        let both = format!("{}, {}", self.conditions, self.host);
        match () {
            () if others.is_empty() => base,
            () if others.iter().all(|o| o.conditions != self.conditions) => {
                format!("{base}, {}", self.conditions)
            }
            () if others.iter().all(|o| o.host != self.host) => format!("{base}, {}", self.host),
            () => format!("{base}, {both}"),
        }
    }
}

/// Renders the figures of one kind.
fn part(title: &str, kind: &Comparable<'_>, seen: &[RunFigure<'_>]) -> Markup {
    let runs = by_key(seen.iter().map(|(entry, _)| (entry.name.as_str(), *entry)));
    let runs: Vec<&SiteRun> = runs.into_iter().map(|(_, same)| same[0]).collect();
    let courses = courses(seen);
    let changed = courses.iter().any(|course| !course.changes.is_empty());
    let rows = runs.len() * courses.len();
    html! {
        section {
            h2 { (title) }
            p.meta { "Host: " (kind.host) @if !kind.conditions.is_empty() { " · " (kind.conditions) } }
            @if runs.len() == 1 { p.note { "One run: a history needs several." } }
            @if changed { (change_table(&courses)) }
            @if runs.len() > 1 { (pictures(plots(&courses, &runs))) }
            @if rows > MAX_OPEN {
                (fold(&format!("All figures ({})", seen.len()), values(&courses)))
            } @else {
                (values(&courses))
            }
        }
    }
}

/// Returns the figures of a kind, each over the runs.
fn courses<'a>(seen: &[RunFigure<'a>]) -> Vec<FigureHistory<'a>> {
    let level = |(_, fact): &RunFigure<'_>| Level { value: fact.value, at_least: fact.at_least };
    let course = |((figure, settings), seen): ((&'a str, &'a str), Vec<RunFigure<'a>>)| {
        let levels: Vec<Level> = seen.iter().map(level).collect();
        FigureHistory { settings, figure, seen, changes: changes(&levels, &TERMS) }
    };
    let figures = seen
        .iter()
        .map(|&(entry, fact)| ((fact.figure.as_str(), fact.settings.as_str()), (entry, fact)));
    by_key(figures).into_iter().map(course).collect()
}

/// Plots each figure over the runs.
fn plots(courses: &[FigureHistory<'_>], runs: &[&SiteRun]) -> Vec<Picture> {
    let figures = each_once(courses.iter().map(|course| course.figure));
    let of = |figure: &str| {
        let of: Vec<&FigureHistory<'_>> =
            courses.iter().filter(|c| c.figure == figure && c.seen.len() > 1).collect();
        let groups = of.chunks(MAX_LINES);
        let count = groups.len();
        let plot = |(group, n): (&[&FigureHistory<'_>], usize)| {
            let part = if count > 1 { format!(" ({n} of {count})") } else { String::new() };
            plot(format!("{}{part}", titled(figure)), group, runs)
        };
        groups.zip(1..).map(plot).collect::<Vec<_>>()
    };
    figures.into_iter().flat_map(of).take(MAX_PLOTS).collect()
}

fn plot(title: String, courses: &[&FigureHistory<'_>], runs: &[&SiteRun]) -> Picture {
    let place = |entry: &SiteRun| {
        let at = runs.iter().position(|run| run.name == entry.name).unwrap_or(0);
        at as f64 + 1.0
    };
    let unit = courses.first().and_then(|c| c.seen.first()).map_or("", |(_, fact)| &fact.unit);
    let line = |(style, course): (usize, &&FigureHistory<'_>)| {
        let point = |(entry, fact): &RunFigure<'_>| Point {
            x: place(entry),
            y: fact.value,
            spread: range(&fact.each).filter(|_| fact.each.len() > 1),
            each: fact.each.clone(),
            tip: format!(
                "{}: {}{}",
                entry.heading,
                bound(fact.at_least),
                with_unit(fact.value, &fact.unit)
            ),
            hollow: fact.at_least,
            pale: false,
        };
        let points = course.seen.iter().map(point).collect();
        Line { name: named(course), style, points, joined: true, marked: true }
    };
    let lines: Vec<Line> = courses.iter().enumerate().map(line).collect();
    let points = || lines.iter().flat_map(|line| &line.points);
    let ends = |p: &Point| p.spread.map_or([p.y, p.y], |(low, high)| [low, high]);
    let y = Scale::fitting(points().flat_map(ends));
    let at = |(course, change): (&&FigureHistory<'_>, &Change)| {
        let x = place(course.seen[change.at].0) - 0.5;
        ("change of level".to_owned(), vec![(x, y.ends().0), (x, y.ends().1)])
    };
    let guides = courses.iter().flat_map(|c| c.changes.iter().map(move |change| (c, change)));
    let last = runs.len() as f64;
    let mut x = Axis::new("began", Scale::Linear(0.5, last + 0.5), Unit::of(""));
    let day = |run: &SiteRun| run.began().chars().take(10).collect::<String>();
    let every = runs.len().div_ceil(4);
    x.ticks =
        Some(runs.iter().zip(1u32..).step_by(every).map(|(run, n)| (n.into(), day(run))).collect());
    Picture::Plot(Plot {
        title,
        alt: points().map(|p| p.tip.as_str()).take(4).collect::<Vec<_>>().join(". "),
        note: String::new(),
        x,
        y: Axis::new(Unit::of(unit).name(), y, Unit::of(unit)),
        guides: guides.map(at).collect(),
        lines,
    })
}

/// Returns the settings of a history, or a word for one without settings.
fn named(course: &FigureHistory<'_>) -> String {
    if course.settings.is_empty() { spoken(course.figure) } else { course.settings.to_owned() }
}

/// Returns the name of a figure in words; the latencies next to a capacity have their quantile as
/// name.
fn spoken(figure: &str) -> String {
    match figure {
        "p50" | "p90" | "p99" => format!("latency {figure}"),
        figure => figure_name(figure),
    }
}

/// Returns the name of a figure for a title.
fn titled(figure: &str) -> String {
    match figure {
        "p50" | "p90" | "p99" => format!("Latency {figure} at the capacity"),
        figure => figure_title(figure),
    }
}

/// Renders the table of change points.
fn change_table(courses: &[FigureHistory<'_>]) -> Markup {
    const HEADS: [&str; 6] = ["settings", "figure", "from the run", "before", "after", "change"];
    let row = |course: &FigureHistory<'_>, change: &Change| {
        let (entry, fact) = course.seen[change.at];
        let percent = 100.0 * (change.after.value / change.before.value - 1.0);
        let sign = if percent < 0.0 { "−" } else { "+" };
        let more = if change.before.at_least || change.after.at_least { " or more" } else { "" };
        let shown =
            |level: Level| bound(level.at_least).to_owned() + &with_unit(level.value, &fact.unit);
        html! {
            th scope="row" data-h="settings" data-v=(course.settings) { (if course.settings.is_empty() { "–" } else { course.settings }) }
            td data-h="figure" { (spoken(course.figure)) }
            td data-h="from the run" data-v=(entry.began_unix_s) { (link(entry)) }
            td.n data-h="before" data-v=(change.before.value) { (shown(change.before)) }
            td.n data-h="after" data-v=(change.after.value) { (shown(change.after)) }
            td.n data-h="change" data-v=(percent) { (sign) (format!("{:.1} %", percent.abs())) (more) }
        }
    };
    let rows = courses.iter().flat_map(|course| course.changes.iter().map(move |c| row(course, c)));
    table("Change points", "", &HEADS, &rows.collect::<Vec<_>>())
}

/// Renders all figures of a kind.
fn values(courses: &[FigureHistory<'_>]) -> Markup {
    const HEADS: [&str; 7] =
        ["run", "version", "settings", "figure", "value", "repeats", "dnsdyno"];
    let row = |(entry, fact): &RunFigure<'_>| {
        html! {
            th scope="row" data-h="run" data-v=(entry.began_unix_s) { (link(entry)) }
            td data-h="version" data-v=(fact.version) { (if fact.version.is_empty() { "–" } else { &fact.version }) }
            td data-h="settings" data-v=(fact.settings) { (if fact.settings.is_empty() { "–" } else { &fact.settings }) }
            td data-h="figure" { (spoken(&fact.figure)) }
            td.n data-h="value" data-v=(fact.value) {
                (bound(fact.at_least)) (with_unit(fact.value, &fact.unit))
                @if let Some((low, high)) = range(&fact.each).filter(|_| fact.each.len() > 1) {
                    small { (with_unit(low, &fact.unit)) " to " (with_unit(high, &fact.unit)) }
                }
            }
            td.n data-h="repeats" data-v=(fact.each.len()) { (thousands(fact.each.len() as f64)) }
            td data-h="dnsdyno" data-v=(entry.version) { (entry.version) }
        }
    };
    let rows: Vec<Markup> = courses.iter().flat_map(|course| &course.seen).map(row).collect();
    table("Figures of each run", "", &HEADS, &rows)
}

/// Returns the sign in front of a lower bound.
fn bound(at_least: bool) -> &'static str {
    if at_least { "≥ " } else { "" }
}

/// Renders the link to a run, by its time.
fn link(entry: &SiteRun) -> Markup {
    html! { a href=(format!("../runs/{}.html", entry.name)) { (entry.began()) } }
}
