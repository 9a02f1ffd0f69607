//! Plots as SVG, in the page or each as a file: lines and marks over two axes, and bars.
//!
//! Plots have the width of a phone, so that the same plot fits a grid on a wide screen and a single column on a
//! narrow one. Colours are those of the page (`s0` to `s7`, safe for colour-blind readers); each line also has its
//! own mark and dashes, and each mark shows its numbers in a tooltip (`title`).

mod bars;
mod picture;
mod scale;

pub(crate) use bars::{Bar, Bars};
pub(crate) use picture::{Picture, distinct};
pub(crate) use scale::Scale;

use std::collections::BTreeSet;
use std::fmt::Write;

use maud::{Markup, html};

use crate::view::unit::Unit;

/// Largest number of distinguishable lines in one plot.
pub(crate) const MAX_LINES: usize = 8;
/// Width of the plot in its own units; its height is [`HEIGHT`].
const WIDTH: f64 = 440.0;
/// Height of the plot; see [`WIDTH`].
const HEIGHT: f64 = 290.0;

/// An axis of a plot.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    pub(crate) label: String,
    pub(crate) scale: Scale,
    pub(crate) unit: Unit,
    /// Ticks with their texts; `None` to choose them.
    pub(crate) ticks: Option<Vec<(f64, String)>>,
}

impl Axis {
    /// Makes an axis that chooses its ticks.
    pub(crate) fn new(label: &str, scale: Scale, unit: Unit) -> Self {
        Axis { label: label.to_owned(), scale, unit, ticks: None }
    }

    /// Returns the ticks with their texts.
    fn texts(&self, wanted: usize) -> Vec<(f64, String)> {
        self.ticks.clone().unwrap_or_else(|| {
            self.scale.ticks(wanted).into_iter().map(|t| (t, self.unit.short(t))).collect()
        })
    }
}

/// One value of a line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
    /// The spread, drawn as an error bar.
    pub(crate) spread: Option<(f64, f64)>,
    /// Values of the single repeats, each drawn as a dot.
    pub(crate) each: Vec<f64>,
    /// Text of the tooltip, which has the value in full.
    pub(crate) tip: String,
    /// Whether the point is hollow: a lower bound, or a failed trial.
    pub(crate) hollow: bool,
    /// Whether the point is pale: shown, but no figure.
    pub(crate) pale: bool,
}

impl Point {
    /// Returns the CSS classes of the point's mark.
    fn classes(&self) -> String {
        let [hollow, pale] =
            [(self.hollow, " hollow"), (self.pale, " pale")].map(|(is, c)| if is { c } else { "" });
        format!("mark{hollow}{pale}")
    }
}

/// One line of a plot.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) name: String,
    /// Number of the line, which selects colour, mark and dashes.
    pub(crate) style: usize,
    pub(crate) points: Vec<Point>,
    /// Whether the points are joined.
    pub(crate) joined: bool,
    /// Whether each point has a mark.
    pub(crate) marked: bool,
}

/// A plot of lines over a numeric axis.
#[derive(Clone, Debug)]
pub(crate) struct Plot {
    pub(crate) title: String,
    /// Description of the plot in one sentence, for screen readers.
    pub(crate) alt: String,
    /// Note for the reader, below the plot.
    pub(crate) note: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) lines: Vec<Line>,
    /// Lines to compare with, by name: a model, a limit. They are thin and dotted.
    pub(crate) guides: Vec<(String, Vec<(f64, f64)>)>,
}

/// Position of the axes within the plot.
struct PlotFrame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl PlotFrame {
    fn x(&self, share: f64) -> f64 {
        self.left + share * (self.right - self.left)
    }

    fn y(&self, share: f64) -> f64 {
        self.bottom - share * (self.bottom - self.top)
    }
}

impl Plot {
    /// Height of the image; its width is 440.
    pub(crate) const HEIGHT: f64 = HEIGHT;

    /// Renders the figure: title, legend, plot, note.
    pub(crate) fn figure(&self) -> Markup {
        html! {
            figure.plot {
                figcaption { (self.title) }
                @if self.has_legend() { (self.legend()) }
                (self.svg())
                @if !self.note.is_empty() { p.note { (self.note) } }
            }
        }
    }

    /// Returns whether there is more than one line to tell apart.
    pub(crate) fn has_legend(&self) -> bool {
        self.lines.len() + self.guides.len() > 1
    }

    fn legend(&self) -> Markup {
        html! {
            ul.legend {
                @for (name, sample) in self.samples() {
                    li {
                        svg viewBox="0 0 30 12" width="30" height="12" aria-hidden="true" { (sample) }
                        (name)
                    }
                }
            }
        }
    }

    /// Returns the entries of the legend: names, each with a sample of its line, 30 wide and 12 high. Lines of the same name and style
    /// share an entry.
    pub(crate) fn samples(&self) -> Vec<(&str, Markup)> {
        let mut named: Vec<(&str, usize, bool, bool)> = Vec::new();
        for line in &self.lines {
            match named
                .iter_mut()
                .find(|(name, style, ..)| *name == line.name && *style == line.style)
            {
                Some((.., joined, marked)) => {
                    *joined |= line.joined;
                    *marked |= line.marked;
                }
                None => named.push((&line.name, line.style, line.joined, line.marked)),
            }
        }
        let lines = named.into_iter().map(|(name, style, joined, marked)| {
            let sample = html! {
                g class=(style_class(style)) {
                    @if joined { path class="line" d="M1 6H29" stroke-dasharray=(dashes(style)) {} }
                    @if marked { path class="mark" d=(mark(style, 15.0, 6.0)) {} }
                }
            };
            (name, sample)
        });
        let guides: BTreeSet<&str> = self.guides.iter().map(|(name, _)| name.as_str()).collect();
        let guides =
            guides.into_iter().map(|name| (name, html! { path class="guide" d="M1 6H29" {} }));
        lines.chain(guides).collect()
    }

    /// Renders the SVG image without title and note.
    pub(crate) fn svg(&self) -> Markup {
        let y_ticks = self.y.texts(5);
        let widest = y_ticks.iter().map(|(_, text)| text.chars().count()).max().unwrap_or(0);
        let frame = PlotFrame {
            left: 26.0 + 6.8 * widest as f64,
            right: WIDTH - 14.0,
            top: 10.0,
            bottom: HEIGHT - 44.0,
        };
        let alt = format!("{}: {}", self.title, self.alt);
        html! {
            svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label=(alt) {
                (self.axes(&frame, &y_ticks))
                @for (_, points) in &self.guides {
                    path class="guide" d=(self.path(&frame, points.iter().copied())) {}
                }
                @for line in &self.lines { (self.line(&frame, line)) }
            }
        }
    }

    fn axes(&self, frame: &PlotFrame, y_ticks: &[(f64, String)]) -> Markup {
        let (middle, bottom) = ((frame.left + frame.right) / 2.0, HEIGHT - 8.0);
        let centre = (frame.top + frame.bottom) / 2.0;
        html! {
            @for (at, text) in y_ticks {
                @let y = frame.y(self.y.scale.place(*at));
                path class="grid" d=(format!("M{:.1} {y:.1}H{:.1}", frame.left, frame.right)) {}
                text.tick x=(format!("{:.1}", frame.left - 6.0)) y=(format!("{:.1}", y + 4.0)) text-anchor="end" { (text) }
            }
            @for (at, text) in self.x.texts(6) {
                @let x = frame.x(self.x.scale.place(at));
                path class="grid" d=(format!("M{x:.1} {:.1}V{:.1}", frame.top, frame.bottom)) {}
                // A text at the right edge ends at its tick.
                @let anchor = if x + 3.4 * text.chars().count() as f64 > WIDTH - 2.0 { "end" } else { "middle" };
                text.tick x=(format!("{x:.1}")) y=(format!("{:.1}", frame.bottom + 16.0)) text-anchor=(anchor) { (text) }
            }
            path class="axis" d=(format!("M{:.1} {:.1}V{:.1}H{:.1}", frame.left, frame.top, frame.bottom, frame.right)) {}
            text.label x=(format!("{middle:.1}")) y=(format!("{bottom:.1}")) text-anchor="middle" { (self.x.label) }
            text.label transform=(format!("translate(13 {centre:.1}) rotate(-90)")) text-anchor="middle" { (self.y.label) }
        }
    }

    fn path(&self, frame: &PlotFrame, points: impl Iterator<Item = (f64, f64)>) -> String {
        let mut d = String::new();
        for (x, y) in points.filter(|(x, y)| x.is_finite() && y.is_finite()) {
            let (x, y) = (frame.x(self.x.scale.place(x)), frame.y(self.y.scale.place(y)));
            let _ = write!(d, "{}{x:.1} {y:.1}", if d.is_empty() { 'M' } else { 'L' });
        }
        d
    }

    fn line(&self, frame: &PlotFrame, line: &Line) -> Markup {
        let place =
            |p: &Point| (frame.x(self.x.scale.place(p.x)), frame.y(self.y.scale.place(p.y)));
        html! {
            g class=(style_class(line.style)) {
                @if line.joined {
                    path class="line" stroke-dasharray=(dashes(line.style)) d=(self.path(frame, line.points.iter().map(|p| (p.x, p.y)))) {
                        title { (line.name) }
                    }
                }
                @for point in &line.points {
                    @let (x, y) = place(point);
                    @if let Some((low, high)) = point.spread {
                        @let end = |value| End { at: frame.y(self.y.scale.place(value)), cut: !self.y.scale.contains(value) };
                        path class="error" d=(error_bar([end(low), end(high)], |along, across| (x + across, along))) {}
                    }
                    @for value in bars::several(&point.each) { path class="dot" d=(dot(x, frame.y(self.y.scale.place(*value)))) {} }
                    @if line.marked {
                        path class=(point.classes()) d=(mark(line.style, x, y)) {
                            title { (point.tip) }
                        }
                    }
                }
            }
        }
    }
}

/// End of an error bar.
#[derive(Clone, Copy)]
struct End {
    /// Place along the axis, in the unit of the image.
    at: f64,
    /// Whether the value is beyond the axis.
    cut: bool,
}

/// Returns an error bar: each end has a mark across, or an arrow where the axis cuts it. `place` makes a point of the places along and
/// across the bar.
fn error_bar([low, high]: [End; 2], place: impl Fn(f64, f64) -> (f64, f64)) -> String {
    let point = |along, across| {
        let (x, y) = place(along, across);
        format!("{x:.1} {y:.1}")
    };
    let mark = |end: End, other: End| {
        let back = if end.cut { 6.0 * (other.at - end.at).signum() } else { 0.0 };
        let [left, right] = [-3.5, 3.5].map(|across| point(end.at + back, across));
        format!("M{left}L{}L{right}", point(end.at, 0.0))
    };
    let line = format!("M{}L{}", point(low.at, 0.0), point(high.at, 0.0));
    line + &mark(low, high) + &mark(high, low)
}

/// Returns a small dot around (x, y): one repeat of several.
fn dot(x: f64, y: f64) -> String {
    format!("M{:.1} {y:.1}a2 2 0 1 0 4 0a2 2 0 1 0 -4 0Z", x - 2.0)
}

/// Returns the class of the colour.
pub(crate) fn style_class(style: usize) -> String {
    format!("s{}", style % MAX_LINES)
}

/// Returns the dashes of a line.
fn dashes(style: usize) -> &'static str {
    ["none", "7 3", "2 2", "9 3 2 3", "5 2 1 2 1 2"][style % 5]
}

/// Returns the mark of a line around (x, y), about 8 units wide.
fn mark(style: usize, x: f64, y: f64) -> String {
    match style % 7 {
        0 => format!("M{:.1} {y:.1}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0Z", x - 4.0),
        1 => format!("M{:.1} {:.1}h7v7h-7Z", x - 3.5, y - 3.5),
        2 => format!("M{x:.1} {:.1}l4.5 8h-9Z", y - 5.0),
        3 => format!("M{x:.1} {:.1}l5 5l-5 5l-5 -5Z", y - 5.0),
        4 => format!("M{x:.1} {:.1}l4.5 -8h-9Z", y + 5.0),
        5 => format!("M{:.1} {:.1}h3v3h3v3h-3v3h-3v-3h-3v-3h3Z", x - 1.5, y - 4.5),
        _ => format!("M{:.1} {:.1}l4 -3l4 3l-1.5 5h-5Z", x - 4.0, y - 1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot() -> Plot {
        let point = |x, y| Point { x, y, tip: "<&>".into(), ..Point::default() };
        Plot {
            title: "T".into(),
            alt: "a".into(),
            note: String::new(),
            x: Axis::new("x", Scale::Linear(0.0, 2.0), Unit::of("")),
            y: Axis::new("y", Scale::Log(1.0, 100.0), Unit::Qps),
            lines: vec![Line {
                name: "\"><script>".into(),
                style: 9,
                points: vec![point(0.0, 1.0), point(1.0, f64::NAN), point(2.0, 100.0)],
                joined: true,
                marked: true,
            }],
            guides: vec![("g".into(), vec![(0.0, 1.0), (2.0, 100.0)])],
        }
    }

    #[test]
    fn text_is_escaped_and_no_number_is_nan() {
        let text = plot().figure().into_string();
        assert!(!text.contains("<script>") && !text.contains("<&>"), "{text}");
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        assert!(text.contains("role=\"img\"") && text.contains("aria-label=\"T: a\""));
    }

    #[test]
    fn what_an_axis_cuts_ends_in_an_arrow() {
        let bar = |cut| {
            let ends = [End { at: 50.0, cut: false }, End { at: 0.0, cut }];
            error_bar(ends, |along, across| (10.0 + across, along))
        };
        assert_eq!(
            bar(false),
            "M10.0 50.0L10.0 0.0M6.5 50.0L10.0 50.0L13.5 50.0M6.5 0.0L10.0 0.0L13.5 0.0"
        );
        assert!(bar(true).ends_with("M6.5 6.0L10.0 0.0L13.5 6.0"), "{}", bar(true));
        let mut plot = plot();
        plot.lines[0].points[0].spread = Some((2.0, 50.0));
        let whole = plot.svg().into_string();
        plot.lines[0].points[0].spread = Some((2.0, 500.0));
        assert_ne!(
            plot.svg().into_string().matches(" 16.0L").count(),
            whole.matches(" 16.0L").count()
        );
    }

    #[test]
    fn the_ends_of_the_scale_are_the_corners_of_the_frame() {
        let plot = plot();
        let frame = PlotFrame { left: 10.0, right: 110.0, top: 0.0, bottom: 50.0 };
        let ends = plot.path(&frame, [(0.0, 1.0), (1.0, 10.0), (2.0, 100.0)].into_iter());
        assert_eq!(ends, "M10.0 50.0L60.0 25.0L110.0 0.0");
    }
}
