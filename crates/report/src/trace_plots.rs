//! Plots of a capture, drawn with characters, so that any terminal shows them: rates over time,
//! types, return codes, sizes, the spread over clients.

use std::fmt::Write;

use measure::Nanos;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::symbols::Marker;
use ratatui::text::Line;
use ratatui::widgets::{Axis, Chart, Dataset, GraphType, Widget};
use record::{TraceDirection, TraceStats};

use crate::view::full_bar;

/// Width and height of a curve with its axes, in columns and rows.
const CURVE_SIZE: (u16, u16) = (100, 14);
/// Largest number of points of a curve over time, two for each column; bins are merged until there are no more.
const POINTS: usize = 160;
/// Width of the longest bar, in columns.
const MAX_BAR: usize = 60;
/// Largest number of bars of types and of return codes; one more bar sums the others.
const MAX_BARS: usize = 16;

/// Draws all plots, one below the other.
pub fn trace_plots(stats: &TraceStats) -> String {
    let mut out = String::new();
    rates(&mut out, stats);
    for (title, counts) in counts(stats, MAX_BARS) {
        bars(&mut out, &title, &counts);
    }
    clients(&mut out, stats);
    out
}

/// Numbers of messages, each with the common property of its messages.
pub(crate) type Counts = Vec<(String, u64)>;

/// Returns the messages by type, code and size, each with its title. If there are more than `most`
/// types or codes, the first ones are kept, and the others are summed.
pub(crate) fn counts(stats: &TraceStats, most: usize) -> [(String, Counts); 4] {
    let types = stats.types.iter().map(|kind| {
        let name = match kind.class.as_str() {
            "IN" => kind.name.clone(),
            "" => "(no question)".to_owned(),
            class => format!("{class} {}", kind.name),
        };
        (name, if stats.requests_are == "replies" { kind.replies } else { kind.queries })
    });
    let codes = stats.return_codes.iter().chain(&stats.opcodes);
    let codes = codes.map(|code| (code.name.clone(), code.count));
    [
        (format!("Types, of all {}", stats.requests_are), first(most, types)),
        ("Return codes and other opcodes".to_owned(), first(most, codes)),
        ("Octets of queries".to_owned(), sizes(&stats.queries).collect()),
        ("Octets of replies".to_owned(), sizes(&stats.replies).collect()),
    ]
}

/// Returns the first `most` of the counts that are not 0, and the sum of the others.
fn first(most: usize, counts: impl Iterator<Item = (String, u64)>) -> Counts {
    let mut all: Counts = counts.filter(|(_, count)| *count > 0).collect();
    if all.len() > most + 1 {
        let rest = all.split_off(most);
        all.push((format!("{} others", rest.len()), rest.iter().map(|(_, count)| count).sum()));
    }
    all
}

/// Rates of a capture over time, in messages a second by the seconds from its start.
pub(crate) struct Rates {
    /// Time between two points, and of all, in seconds.
    pub(crate) step_s: f64,
    pub(crate) end_s: f64,
    pub(crate) queries: Vec<(f64, f64)>,
    pub(crate) replies: Vec<(f64, f64)>,
}

impl Rates {
    /// Returns the rates at `most` points at most; `None` of an empty capture.
    pub(crate) fn of(stats: &TraceStats, most: usize) -> Option<Self> {
        let series = &stats.series;
        let bins = series.queries.len().max(series.replies.len());
        let together = bins.div_ceil(most);
        let step_s = series.bin_s * together as f64;
        let points = |counts: &[u64]| -> Vec<(f64, f64)> {
            let point = |(part, n): (&[u64], u32)| {
                // A point is in the middle of its bins; the last point may have fewer bins.
                let seconds = part.len() as f64 * series.bin_s;
                (f64::from(n) * step_s + seconds / 2.0, part.iter().sum::<u64>() as f64 / seconds)
            };
            counts.chunks(together).zip(0u32..).map(point).collect()
        };
        (bins > 0).then(|| Rates {
            step_s,
            end_s: series.bin_s * bins as f64,
            queries: points(&series.queries),
            replies: points(&series.replies),
        })
    }
}

/// One curve or several in one picture.
struct Curve<'a> {
    title: String,
    /// The points of each curve with its name; the second curve is drawn with dots.
    lines: Vec<(&'a str, Vec<(f64, f64)>)>,
    x: (f64, [String; 3]),
    y: (f64, [String; 3]),
}

impl Curve<'_> {
    fn draw(&self, out: &mut String) {
        let area = Rect::new(0, 0, CURVE_SIZE.0, CURVE_SIZE.1);
        let mut buffer = Buffer::empty(area);
        let markers = [Marker::Braille, Marker::Dot];
        let sets = self.lines.iter().zip(markers).map(|((_, points), marker)| {
            let kind = if marker == Marker::Dot { GraphType::Scatter } else { GraphType::Line };
            Dataset::default().data(points).marker(marker).graph_type(kind)
        });
        let axis = |(most, labels): &(f64, [String; 3])| {
            let labels = labels.iter().map(|label| Line::raw(label.clone()));
            Axis::default().bounds([0.0, *most]).labels(labels.collect::<Vec<_>>())
        };
        Chart::new(sets.collect())
            .x_axis(axis(&self.x))
            .y_axis(axis(&self.y))
            .render(area, &mut buffer);
        let _ = writeln!(out, "\n{}:", self.title);
        for row in buffer.content.chunks(usize::from(CURVE_SIZE.0)) {
            let text: String = row.iter().map(ratatui::buffer::Cell::symbol).collect();
            let _ = writeln!(out, "  {}", text.trim_end());
        }
    }
}

/// Draws queries and replies per second over time.
fn rates(out: &mut String, stats: &TraceStats) {
    let Some(Rates { step_s, end_s, queries, replies }) = Rates::of(stats, POINTS) else { return };
    let most = queries.iter().chain(&replies).map(|p| p.1).fold(1.0, f64::max);
    let time = |seconds: f64| Nanos::from_micros((seconds * 1e6) as u64);
    Curve {
        title: format!(
            "Queries (line) and replies (dots) a second, each over {}, from {}",
            time(step_s),
            stats.series.start
        ),
        lines: vec![("queries", queries), ("replies", replies)],
        x: (end_s, ["0".to_owned(), time(end_s * 0.5).to_string(), time(end_s).to_string()]),
        y: (most, ["0".to_owned(), format!("{:.0}", most / 2.0), format!("{most:.0}")]),
    }
    .draw(out);
}

/// Draws the share of the requests that the busiest clients make.
fn clients(out: &mut String, stats: &TraceStats) {
    let clients = &stats.clients;
    let [.., (all, _)] = clients.curve[..] else { return };
    if all < 2 {
        return;
    }
    // The axis is logarithmic, since clients are counted at powers of two.
    let points = clients.curve.iter().map(|&(n, share)| ((n as f64).log2(), share)).collect();
    let most = (all as f64).log2();
    Curve {
        title: format!(
            "Share of the requests that the busiest clients make, of {} clients",
            clients.distinct
        ),
        lines: vec![("share", points)],
        x: (most, ["1".to_owned(), format!("{:.0}", (most / 2.0).exp2()), all.to_string()]),
        y: (1.0, ["0".to_owned(), "50 %".to_owned(), "100 %".to_owned()]),
    }
    .draw(out);
}

/// Returns the number of messages of each step of lengths; from 512 octets on steps double.
fn sizes(direction: &TraceDirection) -> impl Iterator<Item = (String, u64)> {
    let mut steps: Vec<(u64, u64)> = Vec::new();
    for &(least, count) in &direction.sizes {
        let begin = if least < 512 { least } else { 1 << least.ilog2() };
        match steps.last_mut() {
            Some((last, sum)) if *last == begin => *sum += count,
            _ => steps.push((begin, count)),
        }
    }
    let name = |begin: u64| match begin {
        0..512 => format!("{begin} to {}", begin + 63),
        _ => format!("{begin} to {}", 2 * begin - 1),
    };
    steps.into_iter().map(move |(begin, count)| (name(begin), count))
}

fn bars(out: &mut String, title: &str, bars: &[(String, u64)]) {
    let most = bars.iter().map(|(_, count)| *count).max().unwrap_or_default();
    if most == 0 {
        return;
    }
    let sum: u64 = bars.iter().map(|(_, count)| count).sum();
    let width = bars.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default();
    let _ = writeln!(out, "\n{title}:");
    for (name, count) in bars {
        let share = *count as f64 / sum as f64 * 100.0;
        let bar = full_bar(*count as f64 / most as f64, MAX_BAR);
        let _ = writeln!(out, "  {name:>width$} {count:>12} {share:>5.1}% {}", bar.trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{TraceClients, TraceCode, TraceSeries, TraceType};

    fn stats() -> TraceStats {
        let queries = TraceDirection {
            sizes: vec![(0, 5), (512, 2), (576, 3), (1_024, 90)],
            ..TraceDirection::default()
        };
        TraceStats {
            requests_are: "queries".to_owned(),
            types: (0..30)
                .map(|n| TraceType {
                    class: "IN".to_owned(),
                    name: format!("TYPE{n}"),
                    queries: 100 - n,
                    ..TraceType::default()
                })
                .collect(),
            return_codes: vec![
                TraceCode { name: "NOERROR".to_owned(), count: 300 },
                TraceCode { name: "NXDOMAIN".to_owned(), count: 100 },
            ],
            queries,
            clients: TraceClients {
                distinct: 4,
                curve: vec![(1, 0.5), (2, 0.75), (4, 1.0)],
                ..TraceClients::default()
            },
            series: TraceSeries {
                bin_s: 0.5,
                start: "2026-11-21T00:00:00Z".to_owned(),
                queries: (0..1_000).map(|n| if n < 500 { 10 } else { 20 }).collect(),
                replies: vec![10; 1_000],
            },
            ..TraceStats::default()
        }
    }

    #[test]
    fn bars_are_as_long_as_their_counts() {
        let text = trace_plots(&stats());
        let line =
            |begin: &str| text.lines().find(|l| l.trim_start().starts_with(begin)).expect(begin);
        let length = |begin: &str| line(begin).chars().filter(|&c| c == '█').count();
        assert_eq!((length("NOERROR"), length("NXDOMAIN")), (MAX_BAR, MAX_BAR / 3));
        assert!(line("NXDOMAIN").contains("25.0%"), "{text}");
        assert!(line("14 others").contains(" 1085 "), "{text}");
        // Two steps of 64 octets, put together from 512 on.
        assert!(line("512 to 1023").contains(" 5 "), "{text}");
        assert_eq!(length("1024 to 2047"), MAX_BAR);
    }

    #[test]
    fn curves_have_their_scales() {
        let text = trace_plots(&stats());
        // 1,000 bins of half a second in 143 points, of 40 a second at most.
        assert!(text.contains("a second, each over 3s 500ms, from 2026"), "{text}");
        for label in ["  40│", "  20│••", "8m 20s\n", "100 %│", "of 4 clients"] {
            assert!(text.contains(label), "{label}\n{text}");
        }
        assert!(text.contains('⠉') && !text.contains('⢹'), "a step up and none down: {text}");
    }

    #[test]
    fn nothing_gives_nothing() {
        assert_eq!(trace_plots(&TraceStats::default()), "");
    }
}
