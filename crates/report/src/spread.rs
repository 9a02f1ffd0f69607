//! Spread of the repeats of a cell: confidence intervals of the medians, and warnings.

use measure::stats;
use record::CellRecord;

use crate::view::significant;

/// Requested confidence (0 to 1); few repeats give less, and the text shows it.
const CONFIDENCE: f64 = 0.95;

/// Returns a line for each repeated figure of `cell`: its interval and its warnings.
pub(crate) fn spread(cell: &CellRecord) -> Vec<String> {
    let capacity = ("capacity", cell.capacity_unit(), cell.found_qps());
    let figures =
        cell.figures.iter().map(|(name, f)| (name.as_str(), f.unit.as_str(), f.values.clone()));
    std::iter::once(capacity)
        .chain(figures)
        .flat_map(|(name, unit, values)| lines(name, unit, &values))
        .collect()
}

fn lines(name: &str, unit: &str, values: &[f64]) -> Vec<String> {
    let interval = stats::shown_median_interval(values, CONFIDENCE).map(|i| {
        let (low, high) = (significant(i.low), significant(i.high));
        let sure = (i.confidence * 100.0).floor();
        format!("{name}: the median lies from {low} to {high} {unit}, {sure} % sure")
            .replace(" ,", ",")
    });
    let warnings =
        stats::repeat_warnings(values).into_iter().map(|warning| format!("{name}: {warning}"));
    interval.into_iter().chain(warnings).collect()
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
        ]
        .into();
        let lines = spread(&cell);
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert_eq!(lines[0], "b: the median lies from 2 to 3, 50 % sure");
        assert_eq!(lines[1], "c: the median lies from 90 to 100 qps, 93 % sure");
        assert!(lines[2].starts_with("c: the repeats fall by 10.5 %"), "{}", lines[2]);
    }
}
