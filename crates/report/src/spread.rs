//! Spread of the repeats of a cell: confidence intervals of the medians, and warnings.

use measure::stats;
use record::CellRecord;

use crate::view::number::range;
use crate::view::significant;

/// Confidence of the intervals (0 to 1).
const CONFIDENCE: f64 = 0.95;

/// Returns a line for each repeated figure of `cell`: the interval of its median, of few repeats their range, and its warnings.
pub(crate) fn spread(cell: &CellRecord) -> Vec<String> {
    let capacity = ("capacity", cell.capacity_unit(), cell.found_qps());
    let figures =
        cell.figures.iter().map(|(name, f)| (name.as_str(), f.unit.as_str(), f.values.clone()));
    // A capacity of rounds has its interval in the table, and is no median of them.
    let is_of_rounds = |name: &str| name == "capacity" && cell.capacity.is_some();
    std::iter::once(capacity)
        .chain(figures)
        .flat_map(|(name, unit, values)| {
            let spread = interval(unit, &values).filter(|_| !is_of_rounds(name));
            let warnings = stats::repeat_warnings(&values).into_iter().map(|w| w.to_string());
            let lines = spread.into_iter().chain(warnings);
            lines.map(|line| format!("{name}: {line}")).collect::<Vec<_>>()
        })
        .collect()
}

/// Returns the interval of the median, or the range of few repeats, in words.
fn interval(unit: &str, values: &[f64]) -> Option<String> {
    let value = |x: f64| format!("{} {unit}", significant(x)).trim_end().to_owned();
    match (stats::shown_median_interval(values, CONFIDENCE), range(values)) {
        (Some(i), _) => Some(format!(
            "the median lies from {} to {}, {:.0} % sure",
            significant(i.low),
            value(i.high),
            CONFIDENCE * 100.0
        )),
        (None, Some((low, high))) if values.len() > 1 => Some(match values.len() {
            n if low == high => format!("{n} repeats, each {}", value(low)),
            n => format!("{n} repeats, from {} to {}", significant(low), value(high)),
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use record::Figure;

    use super::*;

    #[test]
    fn repeats_give_intervals_and_warnings() {
        let mut cell = CellRecord::new("nsd", BTreeMap::new(), "load");
        assert_eq!(spread(&cell), Vec::<String>::new());
        cell.figures = [
            ("a".to_owned(), Figure::new("s", vec![1.5])),
            ("b".to_owned(), Figure::new("", vec![3.0, 2.0])),
            ("c".to_owned(), Figure::new("qps", vec![100.0, 98.0, 95.0, 93.0, 90.0])),
            ("d".to_owned(), Figure::new("qps", vec![20_888.0; 2])),
            ("e".to_owned(), Figure::new("s", vec![1.0, 6.0, 2.0, 5.0, 3.0, 4.0])),
        ]
        .into();
        let lines = spread(&cell);
        assert_eq!(lines.len(), 5, "{lines:?}");
        assert_eq!(lines[0], "b: 2 repeats, from 2 to 3");
        assert_eq!(lines[1], "c: 5 repeats, from 90 to 100 qps");
        assert_eq!(lines[3], "d: 2 repeats, each 20,888 qps");
        assert_eq!(lines[4], "e: the median lies from 1 to 6 s, 95 % sure");
        assert!(lines[2].starts_with("c: the repeats fall by 10.5 %"), "{}", lines[2]);
        let rounds = Figure::new("qps", vec![1.0, 6.0, 2.0, 5.0, 3.0, 4.0]);
        cell.figures = [("capacity".to_owned(), rounds)].into();
        assert_eq!(spread(&cell).len(), 1);
        cell.capacity = Some(record::ServerCapacity::default());
        assert!(spread(&cell).is_empty(), "the table has another interval");
    }
}
