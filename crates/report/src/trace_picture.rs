//! The plots of a capture as one picture (SVG): rates over time, types, return codes, sizes, the spread over clients.
//!
//! The picture contains all it needs: the styles of the page, and each plot as an image of its own within it.

use maud::{Markup, PreEscaped, html};
use record::TraceStats;

use crate::html::STYLE;
use crate::html::plot::{Axis, Bar, Bars, Line, Plot, Point, Scale};
use crate::trace_plots::{Counts, Rates, counts};
use crate::view::unit::Unit;

/// Width of a plot, and the room above it for its title, in the units of the picture.
const WIDTH: f64 = 440.0;
const TITLE_HEIGHT: f64 = 30.0;
/// Largest number of bars of types and of return codes.
const MAX_BARS: usize = 12;
/// Largest number of points of a curve over time.
const MAX_POINTS: usize = 220;

/// Draws all plots in one picture, one below the other.
pub fn trace_picture(stats: &TraceStats) -> String {
    let bars = counts(stats, MAX_BARS).map(|(title, counts)| bars(&title, counts));
    let drawn = [rates(stats)].into_iter().chain(bars).chain([clients(stats)]);
    let mut top = 10.0;
    let mut placed = Vec::new();
    for (title, height, image) in drawn.flatten() {
        placed.push((top, title, height, image));
        top += TITLE_HEIGHT + height;
    }
    let picture = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {WIDTH} {top:.0}")) width=(format!("{}", 2.0 * WIDTH)) {
            style { (PreEscaped(STYLE)) }
            rect class="paper" width="100%" height="100%" style="fill: var(--bg)" {}
            @for (top, title, height, image) in &placed {
                text.value x="8" y=(format!("{:.0}", top + 18.0)) { (title) }
                svg x="0" y=(format!("{:.0}", top + TITLE_HEIGHT)) width=(WIDTH) height=(format!("{height:.0}")) { (image) }
            }
        }
    };
    if placed.is_empty() { String::new() } else { picture.into_string() + "\n" }
}

/// A plot: its title, its height, and its image.
type Drawn = Option<(String, f64, Markup)>;

/// Draws queries and replies a second over time.
fn rates(stats: &TraceStats) -> Drawn {
    let Rates { end_s, queries, replies, .. } = Rates::of(stats, MAX_POINTS)?;
    let line = |name: &str, style, points: Vec<(f64, f64)>| Line {
        name: name.to_owned(),
        style,
        points: points.into_iter().map(|(x, y)| Point { x, y, ..Point::default() }).collect(),
        joined: true,
        marked: false,
    };
    let lines = vec![line("queries", 0, queries), line("replies", 1, replies)];
    let rates = lines.iter().flat_map(|line| &line.points).map(|point| point.y);
    let title = "Queries (line) and replies (dashes) a second over time".to_owned();
    let plot = Plot {
        alt: format!("from {}", stats.series.start),
        title: title.clone(),
        note: String::new(),
        x: Axis::new("seconds", Scale::Linear(0.0, end_s), Unit::of("")),
        y: Axis::new("a second", Scale::from_zero(rates), Unit::of("")),
        lines,
        guides: Vec::new(),
    };
    Some((title, Plot::HEIGHT, plot.svg()))
}

/// Draws the share of the requests that the busiest clients make.
fn clients(stats: &TraceStats) -> Drawn {
    let clients = &stats.clients;
    let [.., (all, _)] = clients.curve[..] else { return None };
    if all < 2 {
        return None;
    }
    let title = format!("Share of the requests by the busiest of {} clients", clients.distinct);
    let point =
        |&(n, share): &(u64, f64)| Point { x: n as f64, y: share * 100.0, ..Point::default() };
    let plot = Plot {
        alt: format!("{} clients make half of them", clients.half),
        title: title.clone(),
        note: String::new(),
        x: Axis::new("clients, the busiest first", Scale::Log(1.0, all as f64), Unit::of("")),
        y: Axis::new("share", Scale::Linear(0.0, 100.0), Unit::Percent),
        lines: vec![Line {
            name: "share".to_owned(),
            style: 0,
            points: clients.curve.iter().map(point).collect(),
            joined: true,
            marked: true,
        }],
        guides: Vec::new(),
    };
    Some((title, Plot::HEIGHT, plot.svg()))
}

/// Draws bars of counts.
fn bars(title: &str, all: Counts) -> Drawn {
    if all.is_empty() {
        return None;
    }
    let sum: u64 = all.iter().map(|(_, count)| count).sum();
    let bar = |(label, count): (String, u64)| Bar {
        label,
        style: 0,
        value: Some(count as f64),
        spread: None,
        each: Vec::new(),
        text: format!("{count} ({:.1} %)", count as f64 / sum as f64 * 100.0),
        hollow: false,
    };
    let bars = Bars {
        title: title.to_owned(),
        alt: format!("of {sum} messages"),
        note: String::new(),
        label: "messages".to_owned(),
        unit: Unit::of(""),
        bars: all.into_iter().map(bar).collect(),
    };
    Some((title.to_owned(), bars.height(), bars.svg()))
}

#[cfg(test)]
mod tests {
    use record::{TraceClients, TraceCode, TraceDirection, TraceSeries};

    use super::*;

    #[test]
    fn a_picture_is_one_svg_that_needs_nothing_else() {
        let stats = TraceStats {
            return_codes: vec![TraceCode { name: "<NOERROR>".to_owned(), count: 3 }],
            queries: TraceDirection {
                sizes: vec![(0, 5), (512, 2), (576, 3)],
                ..Default::default()
            },
            clients: TraceClients {
                distinct: 4,
                curve: vec![(1, 0.5), (4, 1.0)],
                ..Default::default()
            },
            series: TraceSeries {
                bin_s: 0.5,
                start: "2026-11-21T00:00:00Z".to_owned(),
                queries: vec![10; 1_000],
                replies: vec![20; 1_000],
            },
            ..TraceStats::default()
        };
        let text = trace_picture(&stats);
        assert!(text.starts_with("<svg xmlns=") && text.trim_end().ends_with("</svg>"), "{text}");
        assert_eq!(text.matches("<svg").count(), text.matches("</svg>").count());
        for part in ["&lt;NOERROR&gt;", "512 to 1023", "Share of the requests", "aria-label"] {
            assert!(text.contains(part), "{part}");
        }
        assert!(!text.contains("NaN") && !text.contains("href"), "{text}");
        assert_eq!(trace_picture(&TraceStats::default()), "");
    }
}
