//! A plot of any kind: in the page, or as a picture of its own for documents.
//!
//! A picture of its own has its title, legend and note within, and plain colours in place of the
//! page's variables, which few programs other than browsers support.

use maud::{Markup, PreEscaped, html};

use super::{Bars, Plot, WIDTH};

/// Style of a picture of its own.
const STYLE: &str = include_str!("picture.css");
/// Room above the plot for its title, and for each line of the legend and of the note.
const TITLE_HEIGHT: f64 = 26.0;
const ROW_HEIGHT: f64 = 16.0;
/// Longest line of a title, a legend or a note, in characters.
const MAX_LINE: usize = 66;
/// Share of the largest value below which a change is not seen.
const VISIBLE: f64 = 0.03;

/// A plot of any kind.
#[derive(Clone, Debug)]
pub(crate) enum Picture {
    Plot(Plot),
    Bars(Bars),
}

impl Picture {
    pub(crate) fn title(&self) -> &str {
        match self {
            Picture::Plot(plot) => &plot.title,
            Picture::Bars(bars) => &bars.title,
        }
    }

    /// Renders the figure of the page.
    pub(crate) fn figure(&self) -> Markup {
        match self {
            Picture::Plot(plot) => plot.figure(),
            Picture::Bars(bars) => bars.figure(),
        }
    }

    /// Returns whether the plot shows no difference: each line is level, or all bars are equal.
    /// Lines of single points are not.
    fn is_flat(&self) -> bool {
        match self {
            Picture::Plot(plot) => {
                let all = || plot.lines.iter().flat_map(|line| &line.points).map(|p| p.y);
                let most = all().fold(0.0, f64::max);
                let level =
                    |line: &super::Line| extent(line.points.iter().map(|p| p.y)) <= VISIBLE * most;
                let several = plot.lines.iter().any(|line| line.points.len() > 1);
                extent(all()) == 0.0
                    || several && plot.guides.is_empty() && plot.lines.iter().all(level)
            }
            Picture::Bars(bars) => extent(bars.bars.iter().filter_map(|bar| bar.value)) == 0.0,
        }
    }

    /// Returns the content of a flat picture in words.
    fn in_words(&self) -> String {
        let values = match self {
            Picture::Plot(plot) => plot
                .lines
                .iter()
                .filter_map(|line| {
                    Some(format!("{} {}", line.name, plot.y.unit.full(line.points.first()?.y)))
                })
                .collect(),
            Picture::Bars(bars) => match bars.bars.first() {
                Some(bar) if bars.bars.len() > 1 => vec![format!("{} for all", bar.text)],
                bar => bar
                    .into_iter()
                    .map(|bar| format!("{} {}", bar.label, bar.text))
                    .collect::<Vec<_>>(),
            },
        };
        format!("{}: {}", self.title(), values.join(", "))
    }

    /// Returns the shapes of the picture, without words: equal for two pictures of the same values.
    fn values(&self) -> Vec<(u64, u64)> {
        match self {
            Picture::Plot(plot) => {
                let points = plot.lines.iter().flat_map(|line| &line.points);
                points.map(|p| (p.x.to_bits(), p.y.to_bits())).collect()
            }
            Picture::Bars(bars) => {
                let values = (0u64..).zip(&bars.bars);
                values.map(|(i, bar)| (i, bar.value.unwrap_or(f64::NAN).to_bits())).collect()
            }
        }
    }

    /// Renders the picture as an SVG file that needs nothing else.
    pub(crate) fn file(&self) -> String {
        let (svg, height, note, samples) = match self {
            Picture::Plot(plot) => {
                let samples = if plot.has_legend() { plot.samples() } else { Vec::new() };
                (plot.svg(), Plot::HEIGHT, &plot.note, samples)
            }
            Picture::Bars(bars) => (bars.svg(), bars.height(), &bars.note, Vec::new()),
        };
        let title = lines(self.title());
        let above = TITLE_HEIGHT + ROW_HEIGHT * (title.len() - 1) as f64;
        let top = above + ROW_HEIGHT * samples.len() as f64;
        let notes = if note.is_empty() { Vec::new() } else { lines(note) };
        let whole = top + height + ROW_HEIGHT * notes.len() as f64 + 8.0;
        let at = |y: f64| format!("{y:.0}");
        let picture = html! {
            svg xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {WIDTH} {whole:.0}")) width=(WIDTH) height=(at(whole)) {
                style { (PreEscaped(STYLE)) }
                rect width="100%" height="100%" fill="#fff" {}
                @for (line, row) in title.iter().zip(0u32..) {
                    text.value x="8" y=(at(18.0 + ROW_HEIGHT * f64::from(row))) { (line) }
                }
                @for ((name, sample), row) in samples.iter().zip(0u32..) {
                    @let y = above + ROW_HEIGHT * f64::from(row);
                    g transform=(format!("translate(8 {y:.0})")) { (sample) }
                    text.tick x="44" y=(at(y + 10.0)) { (name) }
                }
                svg x="0" y=(at(top)) width=(WIDTH) height=(at(height)) { (svg) }
                @for (line, row) in notes.iter().zip(0u32..) {
                    text.tick x="8" y=(at(top + height + 12.0 + ROW_HEIGHT * f64::from(row))) { (line) }
                }
            }
        };
        picture.into_string() + "\n"
    }
}

/// Returns the distance of the largest value from the smallest; 0 without values.
fn extent(values: impl Iterator<Item = f64>) -> f64 {
    let (low, high) = values.fold((f64::MAX, f64::MIN), |(a, b), v| (a.min(v), b.max(v)));
    (high - low).max(0.0)
}

/// Breaks a text between words.
fn lines(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("a line");
        if !last.is_empty() && last.chars().count() + word.chars().count() >= MAX_LINE {
            lines.push(word.to_owned());
        } else {
            let gap = if last.is_empty() { "" } else { " " };
            *last = format!("{last}{gap}{word}");
        }
    }
    lines
}

/// Leaves out pictures that repeat an earlier one, and flat ones; returns the others, and sentences
/// for the flat ones.
pub(crate) fn distinct(pictures: Vec<Picture>) -> (Vec<Picture>, Vec<String>) {
    let (mut kept, mut flat): (Vec<Picture>, Vec<String>) = (Vec::new(), Vec::new());
    for picture in pictures {
        if picture.is_flat() {
            flat.push(picture.in_words());
        } else if !kept.iter().any(|other| other.values() == picture.values()) {
            kept.push(picture);
        }
    }
    (kept, flat)
}

#[cfg(test)]
mod tests {
    use super::super::{Axis, Bar, Line, Point, Scale};
    use super::*;
    use crate::view::unit::Unit;

    fn plot(title: &str, lines: &[&[f64]]) -> Picture {
        let line = |(style, values): (usize, &&[f64])| Line {
            name: format!("line {style}"),
            style,
            points: values
                .iter()
                .zip(0u32..)
                .map(|(y, x)| Point { x: x.into(), y: *y, ..Point::default() })
                .collect(),
            joined: true,
            marked: true,
        };
        let all = || lines.iter().flat_map(|line| line.iter().copied());
        Picture::Plot(Plot {
            title: title.to_owned(),
            alt: "all".to_owned(),
            note: "A note.".to_owned(),
            x: Axis::new("x", Scale::Linear(0.0, 3.0), Unit::of("")),
            y: Axis::new("y", Scale::from_zero(all()), Unit::Qps),
            lines: lines.iter().enumerate().map(line).collect(),
            guides: Vec::new(),
        })
    }

    #[test]
    fn flat_and_equal_pictures_are_left_out() {
        let bar = |value| Bar {
            label: "nsd".into(),
            style: 0,
            value: Some(value),
            spread: None,
            each: vec![value],
            text: "7".into(),
            hollow: false,
        };
        let bars = Picture::Bars(Bars {
            title: "Equal".into(),
            alt: String::new(),
            note: String::new(),
            label: String::new(),
            unit: Unit::Qps,
            bars: vec![bar(7.0), bar(7.0)],
        });
        let (kept, flat) = distinct(vec![
            plot("A", &[&[1.0, 2.0], &[5.0]]),
            plot("The same under another name", &[&[1.0, 2.0], &[5.0]]),
            plot("Level", &[&[4.0, 4.0], &[9.0, 9.01]]),
            bars,
        ]);
        assert_eq!(kept.iter().map(Picture::title).collect::<Vec<_>>(), ["A"]);
        assert_eq!(flat, ["Level: line 0 4, line 1 9", "Equal: 7 for all"]);
    }

    #[test]
    fn a_file_needs_no_page() {
        let text = plot("<T>", &[&[1.0, 2.0], &[5.0, 6.0]]).file();
        assert!(text.starts_with("<svg xmlns=") && !text.contains("var("), "{text}");
        for part in ["&lt;T&gt;", "line 0", "line 1", "A note.", ".s0"] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert_eq!(text.matches("<svg").count(), text.matches("</svg>").count());
    }

    #[test]
    fn long_words_are_kept_whole() {
        assert_eq!(lines(""), [""]);
        let text = format!("a {} b", "x".repeat(80));
        assert_eq!(lines(&text).len(), 3);
    }
}
