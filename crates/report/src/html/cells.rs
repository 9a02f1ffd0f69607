//! The cells of a run, named by the varied settings, and ordered along a numeric setting.

use std::collections::BTreeSet;

use record::{CellRecord, Run};

use super::plot::Scale;
use crate::results::Results;
use crate::view::conditions::Conditions;
use crate::view::name::short_name;
use crate::view::table::varied;

/// Settings that become an axis, before any other numeric one.
const AXES: [&str; 6] = ["cores", "threads", "clients", "queries-per-connection", "zone", "share"];

/// Cells of a run, with the data that their tables and plots share.
pub(crate) struct Cells<'a> {
    /// Settings that differ between cells.
    pub(crate) varied: Vec<String>,
    /// Setting of the horizontal axis, if one is numeric.
    pub(crate) across: Option<SettingAxis>,
    /// Cells in the order of the record.
    pub(crate) cells: Vec<Cell<'a>>,
    /// Names of the lines: all varied settings except the axis.
    pub(crate) lines: Vec<String>,
    /// Conditions that the cells share, and those that differ.
    pub(crate) conditions: Conditions,
    /// The run whose cells these are.
    run: &'a Run,
}

/// A cell, as tables and plots name and place it.
pub(crate) struct Cell<'a> {
    /// Record with the figures.
    pub(crate) record: &'a CellRecord,
    /// Server and all varied settings.
    pub(crate) name: String,
    /// Index of the line of the cell.
    pub(crate) line: usize,
    /// Position along the axis; `None` without a numeric setting.
    pub(crate) x: Option<f64>,
}

/// A setting as an axis.
#[derive(Clone, Debug)]
pub(crate) struct SettingAxis {
    pub(crate) key: String,
    /// Values in rising order, with their texts.
    pub(crate) values: Vec<(f64, String)>,
}

impl SettingAxis {
    /// Returns the scale: logarithmic if the values span more than a factor of six.
    pub(crate) fn scale(&self) -> Scale {
        let values = || self.values.iter().map(|(x, _)| *x);
        let (low, high) = (self.values[0].0, self.values[self.values.len() - 1].0);
        if low > 0.0 && high / low > 6.0 { Scale::log(values()) } else { Scale::around(values()) }
    }

    /// Returns the values as ticks, at most about seven.
    pub(crate) fn ticks(&self) -> Vec<(f64, String)> {
        self.values.iter().step_by(self.values.len().div_ceil(7)).cloned().collect()
    }
}

/// Parses a setting's value as a number: with k, M, s, ms or %, or as the size of an IPv4 prefix.
fn number(text: &str) -> Option<f64> {
    if let Some((_, length)) = text.split_once('/') {
        let length: u32 = length.parse().ok().filter(|l| *l <= 32)?;
        return Some(2f64.powi(32 - length as i32));
    }
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == '%').trim_end();
    let factor = match text[digits.len()..].trim() {
        "" | "%" | "s" | "B" => 1.0,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "ms" => 1e-3,
        "us" => 1e-6,
        _ => return None,
    };
    digits.parse::<f64>().ok().filter(|x| x.is_finite()).map(|x| x * factor)
}

impl<'a> Cells<'a> {
    /// Makes the cells of a run.
    pub(crate) fn of(run: &'a Run) -> Self {
        let varied = varied(run.results.iter());
        let across = axis(&varied, run);
        let mut lines = Vec::new();
        let cells = run
            .results
            .iter()
            .map(|record| {
                let axis = across.as_ref().map(|a| &a.key);
                let line_name = short_name(record, varied.iter().filter(|key| Some(*key) != axis));
                let line = lines.iter().position(|l| *l == line_name).unwrap_or_else(|| {
                    lines.push(line_name);
                    lines.len() - 1
                });
                let x = across.as_ref().and_then(|a| number(record.settings.get(&a.key)?));
                Cell { record, name: short_name(record, varied.iter()), line, x }
            })
            .collect();
        let conditions = Conditions::of(run, run.results.iter(), &varied);
        Cells { varied, across, cells, lines, conditions, run }
    }
}

impl Cells<'_> {
    /// Returns the results of some cells.
    pub(crate) fn results<'a>(&'a self, cells: Vec<&'a CellRecord>) -> Results<'a> {
        Results::of(self.run, cells)
    }
}

/// Returns the setting of the axis.
fn axis(varied: &[String], run: &Run) -> Option<SettingAxis> {
    let rank = |key: &str| AXES.iter().position(|a| *a == key).unwrap_or(AXES.len());
    let mut numeric: Vec<SettingAxis> = varied
        .iter()
        .filter_map(|key| {
            let texts: BTreeSet<&String> =
                run.results.iter().filter_map(|c| c.settings.get(key)).collect();
            let mut values: Vec<(f64, String)> =
                texts.iter().map(|t| Some((number(t)?, (*t).clone()))).collect::<Option<_>>()?;
            values.sort_by(|a, b| a.0.total_cmp(&b.0));
            values.dedup_by(|a, b| a.0 == b.0);
            (values.len() > 1).then(|| SettingAxis { key: key.clone(), values })
        })
        .collect();
    // If two settings have the same rank, the one with more values wins.
    numeric.sort_by_key(|a| (rank(&a.key), usize::MAX - a.values.len()));
    numeric.into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(cells: &[(&str, &[(&str, &str)])]) -> Run {
        let results = cells
            .iter()
            .map(|(server, settings)| {
                let settings =
                    settings.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
                CellRecord::new(server, settings, "search")
            })
            .collect();
        Run { results, ..Run::default() }
    }

    #[test]
    fn cells_are_named_by_what_varies() {
        let run = run(&[
            ("nsd", &[("cores", "1"), ("role", "auth"), ("hash", "on")]),
            ("nsd", &[("cores", "2"), ("role", "auth"), ("hash", "on")]),
            ("knot", &[("cores", "1"), ("role", "auth"), ("hash", "off")]),
        ]);
        let cells = Cells::of(&run);
        let names: Vec<&str> = cells.cells.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["nsd cores=1 hash=on", "nsd cores=2 hash=on", "knot cores=1 hash=off"]);
        assert_eq!(cells.lines, ["nsd hash=on", "knot hash=off"]);
        let across = cells.across.as_ref().expect("cores are numbers");
        assert_eq!((across.key.as_str(), across.values.len()), ("cores", 2));
        assert_eq!(cells.cells.iter().map(|c| c.line).collect::<Vec<_>>(), [0, 0, 1]);
    }

    #[test]
    fn settings_as_numbers() {
        let table = [
            ("4", Some(4.0)),
            ("20k", Some(20_000.0)),
            ("5ms", Some(0.005)),
            ("40 %", Some(40.0)),
            ("10.0.0.0/16", Some(65_536.0)),
            ("/12", Some(1_048_576.0)),
            ("/99", None),
            ("on", None),
            ("", None),
        ];
        for (text, value) in table {
            assert_eq!(number(text), value, "{text}");
        }
    }
}
