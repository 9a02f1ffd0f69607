//! Resources of a zone of 2^27 names, extrapolated from all zones that were loaded if there are
//! three sizes or more, otherwise from two, next to the figures that Lencse, Pivoda and Shima
//! (2021) print for that size in section 5.7.

use std::collections::BTreeMap;

use measure::stats::{OfRounds, least_squares};
use record::CellRecord;

use crate::view::Align::{Left, Right};
use crate::view::name::server_name;
use crate::view::{align, figure_name, quantity, thousands};

/// Confidence (0 to 1) of the intervals after `±`.
const CONFIDENCE: f64 = 0.95;
/// Smallest number of values with a useful interval.
const MIN_VALUES: usize = 4;
/// Setting of the size, a prefix.
const SIZE_SETTING: &str = "namespace";
/// Number of names of the source's zone, a /5.
const SOURCE_NAMES: f64 = (1_u64 << 27) as f64;
/// Figures that grow with the zone.
const FIGURES: [&str; 4] =
    ["zone_load_first", "zone_load_later", "memory_proportional", "disk_used"];
/// Printed figures: server, figure, value (seconds or bytes).
const PRINTED_VALUES: [(&str, &str, f64); 6] = [
    ("nsd", "zone_load_first", 657.0),
    ("nsd", "zone_load_later", 210.0),
    ("nsd", "memory_proportional", 38.1e9),
    ("nsd", "disk_used", 84.1e9),
    ("knot", "zone_load_first", 315.0),
    ("yadifa", "memory_proportional", 23e9),
];

/// Returns the table as text; empty without two sizes of a zone.
pub(crate) fn table(cells: &[&CellRecord]) -> String {
    let mut head = vec!["server".to_owned(), "figure".to_owned()];
    head.extend(["of names", "of names", "at 2^27 names", "printed for 2^27"].map(str::to_owned));
    let mut rows = vec![head];
    for group in groups(cells) {
        for figure in FIGURES {
            rows.extend(row(&group, figure));
        }
    }
    if rows.len() == 1 {
        return String::new();
    }
    format!(
        "\nA zone of 2^27 names, extrapolated by a line through the sizes measured, beside printed values (seed 003 section 5.7)\n{}",
        align(&rows, &[Left, Left, Right])
    )
}

/// Cells of one server and one setting, with the number of names of each, ascending.
type Group<'a> = Vec<(f64, &'a CellRecord)>;

/// Settings of a cell without the size.
type Settings<'a> = Vec<(&'a str, &'a str)>;

/// Returns the cells by server and settings other than the size.
fn groups<'a>(cells: &[&'a CellRecord]) -> Vec<Group<'a>> {
    let mut groups = BTreeMap::<(usize, Settings<'a>), Group<'a>>::new();
    let servers: Vec<&str> = cells.iter().map(|cell| cell.server.as_str()).collect();
    for cell in cells.iter().filter(|cell| cell.method == "zone-load") {
        let Some(names) = cell.settings.get(SIZE_SETTING).and_then(|prefix| names(prefix)) else {
            continue;
        };
        let others = cell.settings.iter().filter(|(key, _)| *key != SIZE_SETTING);
        let others = others.map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let first = servers.iter().position(|server| *server == cell.server).unwrap_or(0);
        groups.entry((first, others)).or_default().push((names, *cell));
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.iter_mut().for_each(|group| group.sort_by(|a, b| a.0.total_cmp(&b.0)));
    groups
}

/// Returns the number of names of an IPv4 prefix.
fn names(prefix: &str) -> Option<f64> {
    let length: u32 = prefix.rsplit_once('/')?.1.parse().ok().filter(|length| *length <= 32)?;
    Some(f64::from(32 - length).exp2())
}

/// Returns the line of one figure; `None` without two sizes that have it.
fn row(group: &Group<'_>, figure: &str) -> Option<Vec<String>> {
    let known: Vec<(f64, f64, &CellRecord)> = group
        .iter()
        .filter_map(|(names, cell)| Some((*names, cell.figures.get(figure)?.median()?, *cell)))
        .collect();
    let [.., (n1, y1, _), (n2, y2, cell)] = known[..] else { return None };
    if n1 >= n2 {
        return None;
    }
    let unit = &cell.figures.get(figure)?.unit;
    let beyond = |y: f64| quantity(y.max(0.0), unit);
    let far = match fitted(group, figure).filter(|_| known.len() > 2) {
        Some([at_zero, slope]) => {
            let at = |slope: f64| beyond(at_zero.value + slope * SOURCE_NAMES);
            let (low, high) = (at(slope.interval.low), at(slope.interval.high));
            format!("{} ({low} to {high})", at(slope.value))
        }
        None => beyond(y2 + (y2 - y1) / (n2 - n1) * (SOURCE_NAMES - n2)),
    };
    let printed = PRINTED_VALUES.iter().find(|p| (p.0, p.1) == (cell.server.as_str(), figure));
    let mut others =
        cell.settings.iter().filter(|(key, _)| ![SIZE_SETTING, "cores"].contains(&key.as_str()));
    let mut name = server_name(cell);
    for (key, value) in &mut others {
        name.push_str(&format!(" {key}={value}"));
    }
    let of = |y: f64, n: f64| format!("{} of {}", quantity(y, unit), thousands(n));
    Some(vec![
        name,
        figure_name(figure),
        of(y1, n1),
        of(y2, n2),
        far,
        printed.map_or_else(|| "-".to_owned(), |p| quantity(p.2, unit)),
    ])
}

/// Returns the value at no name and the growth with each name, of all values of a figure.
fn fitted(group: &Group<'_>, figure: &str) -> Option<[OfRounds; 2]> {
    let of_cell = |(names, cell): &(f64, &CellRecord)| {
        let values = cell.figures.get(figure).map_or(Vec::new(), |figure| figure.values.clone());
        values.into_iter().map(|value| (*names, value)).collect::<Vec<_>>()
    };
    let values: Vec<(f64, f64)> = group.iter().flat_map(of_cell).collect();
    least_squares(&values, CONFIDENCE).filter(|_| values.len() >= MIN_VALUES)
}

#[cfg(test)]
mod tests {
    use record::Figure;

    use super::*;

    fn cell(server: &str, prefix: &str, figures: &[(&str, &str, f64)]) -> CellRecord {
        let settings = [(SIZE_SETTING.to_owned(), prefix.to_owned())].into();
        let mut cell = CellRecord::new(server, settings, "zone-load");
        for (name, unit, value) in figures {
            cell.figures.insert((*name).to_owned(), Figure::new(unit, vec![*value]));
        }
        cell
    }

    #[test]
    fn the_two_largest_zones_decide() {
        let memory = |bytes| [("memory_proportional", "B", bytes)];
        let all = [
            cell("nsd", "10.0.0.0/16", &memory(9e9)),
            cell("nsd", "10.0.0.0/12", &memory(300e6)),
            // 2^19 names are 200 MB less: 2^27 are 100 MB + 400 * 2^8 MB / 2.
            cell("nsd", "10.0.0.0/13", &memory(200e6)),
            cell("knot", "10.0.0.0/12", &memory(1e6)),
        ];
        let cells: Vec<&CellRecord> = all.iter().collect();
        let text = table(&cells);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        let words: Vec<&str> =
            lines[3].split("  ").map(str::trim).filter(|w| !w.is_empty()).collect();
        assert_eq!(
            words,
            [
                "nsd",
                "memory proportional",
                "200.0 MB of 524,288",
                "300.0 MB of 1,048,576",
                "25.70 GB",
                "38.10 GB"
            ]
        );
        assert_eq!(table(&cells[3..]), "", "one size gives no line");
    }

    #[test]
    fn three_sizes_have_an_interval() {
        let of = |prefix: &str, errors: [f64; 2]| {
            let names = names(prefix).expect("a prefix");
            let values = errors.map(|error| (1e7 + 300.0 * names) * (1.0 + error)).to_vec();
            let mut cell = cell("nsd", prefix, &[]);
            cell.figures.insert("memory_proportional".to_owned(), Figure::new("B", values));
            cell
        };
        let cells =
            [of("1.0.0.0/16", [0.01; 2]), of("1.0.0.0/14", [-0.01; 2]), of("1.0.0.0/12", [0.0; 2])];
        let text = table(&cells.iter().collect::<Vec<_>>());
        let line = text.lines().last().unwrap_or_default();
        let far = line.split("  ").filter(|word| !word.is_empty()).nth(4);
        // 2^27 x 300 octets are 40.27 GB.
        assert!(
            far.is_some_and(|far| far.contains(" GB (3") && far.contains(" GB to 4")),
            "{text}"
        );
    }
}
