//! Fall of the rate of a secondary under updates: against the same servers without updates, next to
//! the figures that ISC-TN-2008-1 prints in section 6.3.3 (BIND 9.4.2 on FreeBSD 7, the COM zone in
//! thirds, thirteen secondaries).

use std::collections::BTreeMap;

use measure::stats::{Ratio, Repeated, Scatter, Terms, ratio};
use record::CellRecord;

use crate::table::{Field, Table};
use crate::view::name::server_name;
use crate::view::table::varied;
use crate::view::{quantity, thousands};

/// Setting that the rates are compared over, and its value without updates.
const SETTING: &str = "update-rate";
const NONE: &str = "0";
/// Rates that the source prints: updates a second, queries a second of the unsigned and of the signed zone.
const PRINTED_RATES: [(&str, f64, f64); 5] = [
    ("0", 69_400.0, 61_200.0),
    ("4", 67_600.0, 60_100.0),
    ("8", 68_100.0, 58_500.0),
    ("10", 67_400.0, 58_000.0),
    ("32", 60_900.0, 54_900.0),
];
/// Terms of the change's interval: confidence, margin, seed of the bootstrap.
const TERMS: Terms = Terms { confidence: 0.95, margin: 0.0, seed: 1 };

/// Title of the table.
pub(crate) const TITLE: &str =
    "Change of the rate against no updates, beside ISC-TN-2008-1 section 6.3.3";

/// The rate of one cell compared with the same servers without updates.
#[derive(Clone, Debug)]
struct RateFall<'a> {
    cell: &'a CellRecord,
    /// Rates, queries a second: without updates, and with them.
    base: f64,
    qps: f64,
    ratio: Ratio,
}

impl RateFall<'_> {
    /// Returns the fields of the columns after the settings.
    fn columns(&self) -> [Field; 6] {
        let rate = self.cell.settings.get(SETTING).map_or("", String::as_str);
        let [_, none_unsigned, none_signed] = source(NONE);
        let [_, unsigned, signed] = source(rate);
        let interval = self.ratio.interval.map_or_else(
            || "not known with one repeat".to_owned(),
            |(low, high)| format!("{} to {}", percent(low), percent(high)),
        );
        let change = |value: Option<f64>, none: Option<f64>| {
            Field::number(value.zip(none).map(|(value, none)| value / none), percent)
        };
        let qps = |qps| Field::number(Some(qps), |qps| quantity(qps, "qps"));
        [
            qps(self.base),
            qps(self.qps),
            Field::number(Some(self.ratio.ratio), percent),
            Field::words(interval),
            change(unsigned, none_unsigned),
            change(signed, none_signed),
        ]
    }
}

/// Returns the source's figures for a rate of updates: the rate, queries a second unsigned, and
/// signed.
fn source(rate: &str) -> [Option<f64>; 3] {
    let line = PRINTED_RATES.iter().find(|(printed, ..)| *printed == rate);
    [line.and_then(|(rate, ..)| rate.parse().ok()), line.map(|l| l.1), line.map(|l| l.2)]
}

/// Formats a ratio as a change in percent.
fn percent(ratio: f64) -> String {
    let change = (ratio - 1.0) * 100.0;
    format!("{}{:.1} %", if change < 0.0 { "\u{2212}" } else { "+" }, change.abs())
}

/// Returns each cell under updates that has a counterpart without updates and otherwise the same
/// settings.
fn falls<'a>(cells: &[&'a CellRecord]) -> Vec<RateFall<'a>> {
    let cells = || cells.iter().copied().filter(|cell| cell.method == "query-under-update");
    let values = |cell: &CellRecord| {
        let figure = cell.figures.get("qps")?;
        Some((figure.median()?, Repeated::new(&figure.values)))
    };
    let scatter = cells().filter_map(values).map(|(_, repeated)| repeated.scatter());
    let pooled: Scatter = scatter.sum();
    let mut falls = Vec::new();
    for cell in cells().filter(|cell| cell.settings.get(SETTING).is_some_and(|rate| rate != NONE)) {
        let other = without_rate(&cell.settings);
        let base = cells().find(|base| {
            let none = base.settings.get(SETTING).is_some_and(|rate| rate == NONE);
            none && base.server == cell.server && without_rate(&base.settings) == other
        });
        let Some(((base, first), (qps, second))) = base.and_then(values).zip(values(cell)) else {
            continue;
        };
        if let Some(ratio) = ratio(&first, &second, pooled, &TERMS) {
            falls.push(RateFall { cell, base, qps, ratio });
        }
    }
    falls
}

/// Returns the settings without the rate of updates.
fn without_rate(settings: &BTreeMap<String, String>) -> Vec<(&String, &String)> {
    settings.iter().filter(|(key, _)| *key != SETTING).collect()
}

/// Makes the table; `None` without such cells.
pub(crate) fn table(cells: &[&CellRecord]) -> Option<Table> {
    let keys = varied(cells.iter().copied());
    let row = |fall: &RateFall<'_>| {
        let setting = |key| fall.cell.settings.get(key).map_or("", String::as_str);
        let settings = keys.iter().map(|key| Field::words(setting(key)));
        let name = Field::words(server_name(fall.cell));
        std::iter::once(name).chain(settings).chain(fall.columns()).collect()
    };
    let behind = [
        "qps without updates",
        "qps",
        "change",
        "95 % interval",
        "BIND 9.4.2 unsigned",
        "BIND 9.4.2 signed",
    ];
    let heads = ["server"].into_iter().chain(keys.iter().map(String::as_str)).chain(behind);
    let falls = falls(cells);
    (!falls.is_empty()).then(|| Table::of_rows(heads, falls.iter().map(row)))
}

/// Returns the table as text; empty without such cells.
pub(crate) fn text(cells: &[&CellRecord]) -> String {
    let Some(table) = table(cells) else { return String::new() };
    let printed = PRINTED_RATES.map(|(rate, unsigned, signed)| {
        format!("{rate}: {} and {}", thousands(unsigned), thousands(signed))
    });
    format!(
        "\n{TITLE}\n{}BIND 9.4.2 (2008), updates a second: queries a second of the unsigned and of the signed zone; {}\n",
        table.whole_text(),
        printed.join("; ")
    )
}

#[cfg(test)]
mod tests {
    use record::Figure;

    use super::*;

    fn cell(server: &str, rate: &str, signed: &str, qps: &[f64]) -> CellRecord {
        let settings = [(SETTING, rate), ("signed", signed)];
        let settings = settings.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let mut cell = CellRecord::new(server, settings, "query-under-update");
        if !qps.is_empty() {
            cell.figures.insert("qps".to_owned(), Figure::new("qps", qps.to_vec()));
        }
        cell
    }

    #[test]
    fn a_fall_is_against_the_same_servers_without_updates() {
        let all = [
            cell("bind9", "0", "false", &[100_000.0, 101_000.0, 99_000.0]),
            cell("bind9", "32", "false", &[80_000.0, 80_500.0, 79_500.0]),
            cell("bind9", "0", "true", &[50_000.0, 50_100.0, 49_900.0]),
            cell("bind9", "3%/day", "true", &[50_000.0, 50_100.0, 49_900.0]),
            cell("nsd", "32", "false", &[1.0]),
            cell("knot", "0", "false", &[]),
            cell("knot", "32", "false", &[70_000.0]),
        ];
        let cells: Vec<&CellRecord> = all.iter().collect();
        let found = falls(&cells);
        let servers: Vec<_> = found.iter().map(|fall| fall.cell.server.as_str()).collect();
        assert_eq!(servers, ["bind9", "bind9"], "others have nothing to compare with");
        let texts = |fall: &RateFall<'_>| fall.columns().map(|field| field.text);
        let [base, qps, change, interval, unsigned, signed] = texts(&found[0]);
        assert_eq!((base.as_str(), qps.as_str()), ("100,000", "80,000"));
        assert_eq!(change, "\u{2212}20.0 %");
        assert!(
            interval.starts_with('\u{2212}') && interval.contains(" to \u{2212}"),
            "{interval}"
        );
        // 60,900 of 69,400, and 54,900 of 61,200.
        assert_eq!((unsigned.as_str(), signed.as_str()), ("\u{2212}12.2 %", "\u{2212}10.3 %"));
        let [_, _, change, _, unsigned, _] = texts(&found[1]);
        assert_eq!(
            (change.as_str(), unsigned.as_str()),
            ("+0.0 %", "-"),
            "not a rate of the source"
        );
        let text = text(&cells);
        assert!(text.contains("qps without updates"), "{text}");
        assert!(text.contains("32: 60,900 and 54,900"), "{text}");
        assert_eq!(table(&cells[4..]), None);
    }

    #[test]
    fn one_repeat_has_no_interval() {
        let all = [cell("nsd", "0", "false", &[10.0]), cell("nsd", "4", "false", &[9.0])];
        let cells: Vec<&CellRecord> = all.iter().collect();
        let [.., interval, unsigned, _] = falls(&cells)[0].columns().map(|field| field.text);
        assert_eq!(
            (interval.as_str(), unsigned.as_str()),
            ("not known with one repeat", "\u{2212}2.6 %")
        );
    }
}
