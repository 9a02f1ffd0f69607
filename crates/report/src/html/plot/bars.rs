//! Horizontal bars: the label above, the value after the bar, the spread across its end.

use maud::{Markup, html};

use super::{Axis, End, Scale, dot, error_bar, mark, style_class};
use crate::view::unit::Unit;

/// A bar of a plot, with its values.
#[derive(Clone, Debug)]
pub(crate) struct Bar {
    pub(crate) label: String,
    pub(crate) style: usize,
    /// Value of the bar; absent if no value was found, which the text reports.
    pub(crate) value: Option<f64>,
    /// The spread, drawn as an error bar.
    pub(crate) spread: Option<(f64, f64)>,
    /// Values of the single repeats, each drawn as a dot.
    pub(crate) each: Vec<f64>,
    /// Text after the bar: its value with the unit.
    pub(crate) text: String,
    /// Whether the bar is hollow: a lower bound.
    pub(crate) hollow: bool,
}

/// A plot of bars. Where the values span a decade the axis is logarithmic and has no zero: there a
/// mark at the value replaces the bar, whose length would be meaningless.
#[derive(Clone, Debug)]
pub(crate) struct Bars {
    pub(crate) title: String,
    /// Description of the plot in one sentence, for screen readers.
    pub(crate) alt: String,
    /// Note for the reader, below the plot.
    pub(crate) note: String,
    pub(crate) label: String,
    pub(crate) unit: Unit,
    pub(crate) bars: Vec<Bar>,
}

/// Width of the plot in its own units.
const WIDTH: f64 = 440.0;
/// Height of a bar with its label.
const ROW_HEIGHT: f64 = 38.0;

impl Bars {
    /// Renders the figure: title, plot, note.
    pub(crate) fn figure(&self) -> Markup {
        html! {
            figure.plot {
                figcaption { (self.title) }
                (self.svg())
                @if !self.note.is_empty() { p.note { (self.note) } }
            }
        }
    }

    /// Returns the height of the image; its width is 440.
    pub(crate) fn height(&self) -> f64 {
        52.0 + ROW_HEIGHT * self.bars.len() as f64
    }

    /// Returns the scale of the axis.
    fn scale(&self) -> Scale {
        let values = self.bars.iter().filter_map(|b| b.value);
        let low = self.bars.iter().filter_map(|b| b.spread.map(|(low, _)| low));
        let high = self.bars.iter().filter_map(|b| b.spread.map(|(_, high)| high));
        Scale::fitting(values.chain(low).chain(high))
    }

    /// Renders the SVG image without title and note.
    pub(crate) fn svg(&self) -> Markup {
        let axis = Axis::new(&self.label, self.scale(), self.unit.clone());
        let scale = axis.scale;
        let bottom = 8.0 + ROW_HEIGHT * self.bars.len() as f64;
        let (left, right) = (8.0, WIDTH - 24.0);
        let x = |v: f64| left + scale.place(v) * (right - left);
        let alt = format!("{}: {}", self.title, self.alt);
        html! {
            svg viewBox=(format!("0 0 {WIDTH} {:.0}", self.height())) role="img" aria-label=(alt) {
                    @for (at, text) in axis.texts(5) {
                        path class="grid" d=(format!("M{:.1} 4V{bottom:.1}", x(at))) {}
                        text.tick x=(format!("{:.1}", x(at))) y=(format!("{:.1}", bottom + 16.0)) text-anchor="middle" { (text) }
                    }
                    @for (i, bar) in self.bars.iter().enumerate() {
                        (one(bar, 8.0 + ROW_HEIGHT * i as f64, left, scale, &x))
                    }
                    path class="axis" d=(format!("M{left:.1} 4V{bottom:.1}H{right:.1}")) {}
                    text.label x=(format!("{:.1}", (left + right) / 2.0)) y=(format!("{:.1}", bottom + 36.0)) text-anchor="middle" { (self.label) }
            }
        }
    }
}

/// Returns the values of several repeats; one alone is the value of the bar.
pub(super) fn several(each: &[f64]) -> &[f64] {
    if each.len() > 1 { each } else { &[] }
}

/// Renders one bar whose row begins at `top`.
fn one(bar: &Bar, top: f64, left: f64, scale: Scale, x: &dyn Fn(f64) -> f64) -> Markup {
    let end = x(bar.value.unwrap_or(scale.ends().0));
    let middle = top + 26.0;
    let hollow = if bar.hollow { " hollow" } else { "" };
    html! {
        g class=(style_class(bar.style)) {
            text.barlabel x=(format!("{:.1}", left + 5.0)) y=(format!("{:.1}", top + 13.0)) {
                (bar.label) ": " tspan.value { (bar.text) }
            }
            @if scale.is_log() && bar.value.is_some() {
                path class="guide" d=(format!("M{left:.1} {middle:.1}H{end:.1}")) {}
                path class=(format!("mark{hollow}")) d=(mark(0, end, middle)) { title { (bar.label) ": " (bar.text) } }
            } @else {
                path class=(format!("bar{hollow}")) d=(format!("M{left:.1} {:.1}H{end:.1}v14H{left:.1}Z", top + 19.0)) {
                    title { (bar.label) ": " (bar.text) }
                }
            }
            @if let Some((low, high)) = bar.spread {
                @let end = |value| End { at: x(value), cut: !scale.contains(value) };
                path class="error" d=(error_bar([end(low), end(high)], |along, across| (along, middle + across))) {}
            }
            @for value in several(&bar.each) { path class="dot" d=(dot(x(*value), middle)) {} }
        }
    }
}
