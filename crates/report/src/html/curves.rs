//! A quantity of each cell as a plot: bars, or lines over a numeric setting, with the models that such curves are
//! compared with.

use measure::stats::least_squares;

use super::cells::{Cell, Cells, SettingAxis};
use super::plot::{Axis, Bar, Bars, Line, MAX_LINES, Picture, Plot, Point, Scale};
use crate::view::table::each_once;
use crate::view::unit::Unit;

/// Confidence of the intervals of a fit, which are not shown.
const CONFIDENCE: f64 = 0.95;
/// Largest relative error of a fitted curve; a worse fit is not shown.
const MAX_FIT_ERROR: f64 = 0.5;
/// Largest number of bars in one plot; further bars get plots of their own.
const MAX_BARS: usize = 16;

/// Value of one cell, with its texts.
pub(crate) struct Value {
    pub(crate) y: f64,
    /// Lowest and highest value of the repeats.
    pub(crate) spread: Option<(f64, f64)>,
    /// Value of each repeat, in order.
    pub(crate) each: Vec<f64>,
    /// Complete text of the value.
    pub(crate) text: String,
    /// Text of the tooltip, which has the value in full.
    pub(crate) tip: String,
    /// Whether the value is a lower bound.
    pub(crate) hollow: bool,
}

/// A quantity that a plot shows for each cell.
pub(crate) struct Quantity<'a> {
    pub(crate) title: &'a str,
    /// Label of the value axis.
    pub(crate) label: &'a str,
    pub(crate) unit: Unit,
    pub(crate) note: &'a str,
}

/// Name and points of a line.
type NamedLine = (String, Vec<(f64, f64)>);

/// Returns the plots of a quantity.
pub(crate) fn curves(
    cells: &Cells<'_>,
    quantity: &Quantity<'_>,
    value: &dyn Fn(&Cell<'_>) -> Option<Value>,
) -> Vec<Picture> {
    let Some(across) = &cells.across else {
        return bars(cells, quantity, value);
    };
    let lines = lines(cells, value);
    // With one value along the axis for every line there are no points to connect.
    if lines.iter().all(|l| l.points.len() < 2) {
        return bars(cells, quantity, value);
    }
    let chunks = lines.chunks(MAX_LINES);
    let several = chunks.len();
    let mut pictures: Vec<Picture> = chunks
        .zip(1..)
        .map(|(lines, n)| {
            let title = format!("{} over {}{}", quantity.title, across.key, part(n, several));
            over(across, title, quantity, lines.to_vec())
        })
        .collect();
    let shares = shares_of_udp(cells, value);
    if !shares.is_empty() {
        let quantity = Quantity {
            title: &format!("{}, % of UDP", quantity.title),
            label: "% of UDP",
            unit: Unit::Percent,
            note: "Each value over UDP’s at the same settings.",
        };
        let title = format!("{} over {}", quantity.title, across.key);
        pictures.push(over(across, title, &quantity, shares));
    }
    pictures
}

/// Returns the number of a plot among several of the same quantity, as an addition to its title.
pub(super) fn part(n: usize, of: usize) -> String {
    if of > 1 { format!(" ({n} of {of})") } else { String::new() }
}

/// Groups items into plots: all in one if they are few, otherwise one plot for each server. Returns
/// each group with the addition to its title.
pub(super) fn grouped<'c, T>(
    all: &'c [T],
    server: impl Fn(&T) -> &str,
) -> Vec<(String, Vec<&'c T>)> {
    if all.len() <= MAX_LINES {
        return if all.is_empty() {
            Vec::new()
        } else {
            vec![(String::new(), all.iter().collect())]
        };
    }
    let mut groups = Vec::new();
    for name in each_once(all.iter().map(&server)) {
        let of: Vec<&T> = all.iter().filter(|one| server(one) == name).collect();
        let chunks = of.chunks(MAX_LINES);
        let count = chunks.len();
        let titled =
            |(group, n): (&[&'c T], usize)| (format!(": {name}{}", part(n, count)), group.to_vec());
        groups.extend(chunks.zip(1..).map(titled));
    }
    groups
}

fn bars(
    cells: &Cells<'_>,
    quantity: &Quantity<'_>,
    value: &dyn Fn(&Cell<'_>) -> Option<Value>,
) -> Vec<Picture> {
    let bars: Vec<Bar> = cells
        .cells
        .iter()
        .filter_map(|c| {
            let v = value(c)?;
            let (label, style) = (c.name.clone(), c.line);
            let (spread, each, text, hollow) = (v.spread, v.each, v.text, v.hollow);
            Some(Bar { label, style, value: Some(v.y), spread, each, text, hollow })
        })
        .collect();
    let chunks = bars.chunks(MAX_BARS);
    let several = chunks.len();
    let picture = |(bars, n): (&[Bar], usize)| {
        Picture::Bars(Bars {
            title: format!("{}{}", quantity.title, part(n, several)),
            alt: bars
                .iter()
                .map(|b| format!("{} {}", b.label, b.text))
                .collect::<Vec<_>>()
                .join(", "),
            note: quantity.note.to_owned(),
            label: quantity.label.to_owned(),
            unit: quantity.unit.clone(),
            bars: bars.to_vec(),
        })
    };
    chunks.zip(1..).map(picture).collect()
}

/// Returns the lines over the axis that have points.
fn lines(cells: &Cells<'_>, value: &dyn Fn(&Cell<'_>) -> Option<Value>) -> Vec<Line> {
    let line = |(style, name): (usize, &String)| {
        let of_line = cells.cells.iter().filter(|c| c.line == style);
        let mut points: Vec<Point> = of_line
            .filter_map(|c| {
                let v = value(c)?;
                let (spread, each, tip, hollow) = (v.spread, v.each, v.tip, v.hollow);
                Some(Point { x: c.x?, y: v.y, spread, each, tip, hollow, pale: false })
            })
            .collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        let name = name.clone();
        (!points.is_empty()).then_some(Line { name, style, points, joined: true, marked: true })
    };
    cells.lines.iter().enumerate().filter_map(line).collect()
}

fn over(across: &SettingAxis, title: String, quantity: &Quantity<'_>, lines: Vec<Line>) -> Picture {
    let mut x = Axis::new(&across.key, across.scale(), Unit::of(""));
    x.ticks = Some(across.ticks());
    let points = lines.iter().flat_map(|l| &l.points);
    let low_and_high = |p: &Point| p.spread.map_or([p.y, p.y], |(low, high)| [low, high]);
    let y = Scale::fitting(points.flat_map(low_and_high));
    let (guides, fits) = amortisation(across, quantity, &lines);
    Picture::Plot(Plot {
        title,
        alt: lines.iter().map(|l| in_words(l, &quantity.unit)).collect::<Vec<_>>().join(". "),
        note: format!("{} {fits}", quantity.note).trim().to_owned(),
        x,
        y: Axis::new(quantity.label, y, quantity.unit.clone()),
        lines,
        guides,
    })
}

/// Describes the first and the last point of a line.
fn in_words(line: &Line, unit: &Unit) -> String {
    let text = |p: Option<&Point>| p.map_or(String::new(), |p| unit.full(p.y));
    format!("{} from {} to {}", line.name, text(line.points.first()), text(line.points.last()))
}

/// Returns each line's values as percent of UDP's at the same settings, if the transport was varied.
fn shares_of_udp(cells: &Cells<'_>, value: &dyn Fn(&Cell<'_>) -> Option<Value>) -> Vec<Line> {
    const TRANSPORT_SETTING: &str = "transport";
    if !cells.varied.iter().any(|key| key == TRANSPORT_SETTING) {
        return Vec::new();
    }
    let base = |cell: &Cell<'_>| {
        let mut settings = cell.record.settings.clone();
        settings.insert(TRANSPORT_SETTING.to_owned(), "udp".to_owned());
        let udp = cells.cells.iter().find(|c| c.record.is(&cell.record.server, &settings))?;
        value(udp).map(|v| v.y).filter(|y| *y > 0.0)
    };
    let share = |cell: &Cell<'_>| {
        let (v, base) = (value(cell)?, base(cell)?);
        let percent = |y: f64| 100.0 * y / base;
        Some(Value {
            y: percent(v.y),
            spread: v.spread.map(|(low, high)| (percent(low), percent(high))),
            each: Vec::new(),
            tip: format!("{}: {:.1} % of UDP", cell.name, percent(v.y)),
            text: v.text,
            hollow: v.hollow,
        })
    };
    lines(cells, &share)
}

/// Adds dotted guides for the model of a connection's cost spread over its N queries (N + 1 exchanges for N answers),
/// and a better fit: Q(N) = Qmax N / (N + h), where a connection costs as much as h queries.
fn amortisation(
    across: &SettingAxis,
    quantity: &Quantity<'_>,
    lines: &[Line],
) -> (Vec<NamedLine>, String) {
    let per_connection = across.key.replace(['_', ' '], "-") == "queries-per-connection";
    if !per_connection || quantity.unit != Unit::Qps {
        return (Vec::new(), String::new());
    }
    let (mut guides, mut fits) = (Vec::new(), Vec::new());
    for line in lines.iter().filter(|l| l.points.len() > 2) {
        let top = line.points.iter().map(|p| p.y).fold(0.0, f64::max);
        let curve = line.points.iter().map(|p| (p.x, top * p.x / (p.x + 1.0))).collect();
        guides.push(("N/(N+1) of the highest rate of each line".to_owned(), curve));
        if let Some((best, h, error)) = fit(&line.points) {
            let curve = format!("{} N / (N + {h:.1})", quantity.unit.full(best));
            fits.push(match error {
                ..=MAX_FIT_ERROR => {
                    format!("{}: {curve} within {:.0} %.", line.name, 100.0 * error)
                }
                _ => format!("{}: does not fit.", line.name),
            });
        }
    }
    let fits = if fits.is_empty() {
        String::new()
    } else {
        format!("Q(N) by least squares: {}", fits.join(" "))
    };
    (guides, fits)
}

/// Fits Qmax and h of Q(N) = Qmax N / (N + h) by least squares of the relative errors of 1/Q; returns them with the
/// largest relative residual, or `None` if no such curve fits.
fn fit(points: &[Point]) -> Option<(f64, f64, f64)> {
    // 1/Q = 1/Qmax + (h/Qmax) (1/N) is a straight line.
    let positive = points.iter().filter(|p| p.x > 0.0 && p.y > 0.0);
    let inverse: Vec<(f64, f64)> = positive.map(|p| (1.0 / p.x, 1.0 / p.y)).collect();
    let [intercept, slope] = least_squares(&inverse, CONFIDENCE)?.map(|of| of.value);
    let (best, h) = (1.0 / intercept, slope / intercept);
    let usable = best.is_finite() && best > 0.0 && h.is_finite() && h >= 0.0;
    let residual = |p: &Point| (best * p.x / (p.x + h) / p.y - 1.0).abs();
    usable.then(|| (best, h, points.iter().map(residual).fold(0.0, f64::max)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use record::{CellRecord, Figure, Run};

    use super::*;

    fn page(settings: &[(&[(&str, &str)], f64)]) -> String {
        let cell = |(settings, qps): &(&[(&str, &str)], f64)| {
            let settings: BTreeMap<String, String> =
                settings.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            let mut cell = CellRecord::new("nsd", settings, "load");
            cell.figures.insert("rate".into(), Figure::new("qps", vec![*qps]));
            cell
        };
        let run = Run { results: settings.iter().map(cell).collect(), ..Run::default() };
        let value = |c: &Cell<'_>| {
            let y = c.record.figures["rate"].median()?;
            let (text, tip) = (y.to_string(), c.name.clone());
            Some(Value { y, spread: None, each: Vec::new(), text, tip, hollow: false })
        };
        let quantity = Quantity { title: "Rate", label: "qps", unit: Unit::Qps, note: "As it is." };
        let pictures = curves(&Cells::of(&run), &quantity, &value);
        pictures.iter().map(|picture| picture.figure().into_string()).collect()
    }

    #[test]
    fn the_amortisation_of_connections() {
        let n = ["1", "10", "100", "1000"];
        let settings: Vec<[(&str, &str); 1]> =
            n.iter().map(|n| [("queries-per-connection", *n)]).collect();
        let qps = |n: &str| {
            let n: f64 = n.parse().expect("a number");
            50_000.0 * n / (n + 8.0)
        };
        let cells: Vec<(&[(&str, &str)], f64)> =
            settings.iter().map(|s| (s.as_slice(), qps(s[0].1))).collect();
        let page = page(&cells);
        assert!(page.contains("nsd: 50,000 N / (N + 8.0) within 0 %"), "{page}");
        assert!(
            page.contains("N/(N+1) of the highest rate of each line")
                && page.contains("class=\"guide\"")
        );
    }

    #[test]
    fn transports_as_percent_of_udp() {
        let page = page(&[
            (&[("transport", "udp"), ("clients", "1")], 1_000.0),
            (&[("transport", "udp"), ("clients", "2")], 2_000.0),
            (&[("transport", "tls"), ("clients", "1")], 250.0),
            (&[("transport", "tls"), ("clients", "2")], 600.0),
        ]);
        assert!(page.contains("nsd clients=1 transport=tls: 25.0 % of UDP"), "{page}");
        assert!(page.contains("nsd clients=2 transport=tls: 30.0 % of UDP"));
    }

    #[test]
    fn many_lines_are_grouped_by_server() {
        let cells: Vec<(&str, u32)> = [("nsd", 3), ("knot", 10)]
            .into_iter()
            .flat_map(|(server, n)| (0..n).map(move |i| (server, i)))
            .collect();
        let groups = grouped(&cells, |cell| cell.0);
        let told: Vec<(&str, usize)> =
            groups.iter().map(|(title, group)| (title.as_str(), group.len())).collect();
        assert_eq!(told, [(": nsd", 3), (": knot (1 of 2)", 8), (": knot (2 of 2)", 2)]);
        let few = grouped(&cells[..8], |cell| cell.0);
        assert_eq!(
            few.iter().map(|(title, g)| (title.as_str(), g.len())).collect::<Vec<_>>(),
            [("", 8)]
        );
        assert!(grouped(&cells[..0], |cell| cell.0).is_empty());
    }

    #[test]
    fn without_an_axis_there_are_bars() {
        let page = page(&[(&[("hash", "on")], 9.0), (&[("hash", "off")], 5.0)]);
        assert!(page.contains("class=\"bar\"") && !page.contains("class=\"dot\""), "{page}");
        assert!(page.contains("nsd hash=on") && page.contains("nsd hash=off"), "{page}");
    }
}
