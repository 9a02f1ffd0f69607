//! Spread of the repeats of a cell: confidence intervals of the medians, and warnings.

use measure::stats::{self, RepeatWarning};
use record::CellRecord;

use crate::view::significant;

/// Confidence of the intervals (0 to 1).
const CONFIDENCE: f64 = 0.95;

/// Returns a line for each repeated figure of `cell`: the interval of its median if there is one, and its warnings.
pub(crate) fn spread(cell: &CellRecord) -> Vec<String> {
    let capacity = ("capacity", cell.capacity_unit(), cell.found_qps());
    let figures =
        cell.figures.iter().map(|(name, f)| (name.as_str(), f.unit.as_str(), f.values.clone()));
    // A capacity of rounds has its interval in the table, and is not the median of the repeats.
    let is_of_rounds = |name: &str| name == "capacity" && cell.capacity.is_some();
    std::iter::once(capacity)
        .chain(figures)
        .flat_map(|(name, unit, values)| {
            let spread = interval(unit, &values).filter(|_| !is_of_rounds(name));
            let some = 1..cell.rounds.len();
            let rounds = is_of_rounds(name) && some.contains(&values.len());
            let left_out = rounds.then(|| {
                let (of, all) = (values.len(), cell.rounds.len());
                format!("of {of} of {all} rounds: others used more of the cores in the rest")
            });
            let warnings = stats::repeat_warnings(&values).into_iter();
            let warnings = warnings.map(|warning| match warning {
                RepeatWarning::Outliers { repeats, .. } if rounds => {
                    let with = |i: &usize| cell.rounds.iter().find(|r| r.qps == values[*i]);
                    let rounds = repeats.iter().filter_map(with);
                    let repeats = rounds.map(|round| round.round as usize).collect();
                    RepeatWarning::Outliers { repeats, of: cell.repeats as usize }
                }
                other => other,
            });
            let lines = left_out.into_iter().chain(spread);
            let lines = lines.chain(warnings.map(|warning| warning.to_string()));
            lines.map(|line| format!("{name}: {line}")).collect::<Vec<_>>()
        })
        .collect()
}

/// Returns the interval of the median in words; `None` for few repeats: the table has their range.
fn interval(unit: &str, values: &[f64]) -> Option<String> {
    let interval = stats::shown_median_interval(values, CONFIDENCE)?;
    let (low, high) = (significant(interval.low), significant(interval.high));
    let line = format!("the median lies from {low} to {high} {unit}").trim_end().to_owned();
    Some(format!("{line}, {:.0} % sure", CONFIDENCE * 100.0))
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
            ("c".to_owned(), Figure::new("qps", vec![100.0, 98.0, 95.0, 93.0, 90.0])),
            ("e".to_owned(), Figure::new("s", vec![1.0, 6.0, 2.0, 5.0, 3.0, 4.0])),
        ]
        .into();
        let lines = spread(&cell);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].starts_with("c: the repeats fall by 10.0 %"), "{}", lines[0]);
        assert_eq!(lines[1], "e: the median lies from 1 to 6 s, 95 % sure");
        let rounds = Figure::new("qps", vec![1.0, 6.0, 2.0, 5.0, 3.0, 4.0]);
        cell.figures = [("capacity".to_owned(), rounds)].into();
        assert_eq!(spread(&cell).len(), 1);
        cell.capacity = Some(record::ServerCapacity::default());
        assert!(spread(&cell).is_empty(), "the table has another interval");
    }

    #[test]
    fn rounds_that_were_left_out_are_named_and_the_others_keep_their_numbers() {
        let mut cell = CellRecord::new("nsd", BTreeMap::new(), "capacity");
        let all = [5.0, 100.0, 101.0, 99.0, 100.5, 100.0, 30.0];
        let round = |(round, qps)| record::Round { round, qps, ..Default::default() };
        cell.rounds = (0..).zip(all).map(round).collect();
        cell.repeats = 7;
        cell.figures = [("capacity".to_owned(), Figure::new("qps", all[1..].to_vec()))].into();
        cell.capacity = Some(record::ServerCapacity::default());
        let lines = spread(&cell);
        assert!(lines[0].starts_with("capacity: of 6 of 7 rounds: others used"), "{lines:?}");
        assert!(lines[1].starts_with("capacity: repeat 7 of 7 lies far"), "{lines:?}");
    }
}
