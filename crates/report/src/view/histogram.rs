//! Distributions of times in columns between round bounds, for the page and for terminals.

use measure::{Histogram, Nanos};

use super::bar::full_bar;
use super::unit::short_time_us;

/// Bounds of the columns of a page in each decade: about a tenth of a decade apart.
pub(crate) const FINE: [f64; 10] = [1.0, 1.25, 1.6, 2.0, 2.5, 3.2, 4.0, 5.0, 6.3, 8.0];
/// Bounds of the rows of a terminal in each decade.
const COARSE: [f64; 3] = [1.0, 2.0, 5.0];
/// Largest number of rows of a terminal; times beyond them are in the first and the last row.
const MAX_ROWS: usize = 8;
/// Least share (0 to 1) of a row: less is printed as 0.00 %.
const LEAST: f64 = 0.00005;
/// Length of the longest bar of a terminal, in columns.
const MAX_BAR: usize = 30;

/// A column of a histogram: the times between two bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct HistogramColumn {
    /// Lower bound in microseconds, which is not within.
    pub(crate) low_us: f64,
    /// Upper bound in microseconds, which is within.
    pub(crate) high_us: f64,
    /// Share (0 to 1) of all times.
    pub(crate) share: f64,
}

/// Counts times between the bounds `steps` of each power of ten, from the column of the shortest
/// time to the column of the longest; empty without times.
pub(crate) fn columns(times: &Histogram, steps: &[f64]) -> Vec<HistogramColumn> {
    columns_without(times, steps, Lost { queries: 0, timeout_ns: 0 })
}

/// Queries without a reply in time, which a histogram counts with the timeout.
#[derive(Clone, Copy, Debug)]
struct Lost {
    queries: u64,
    timeout_ns: u64,
}

/// Counts times in columns, without lost queries, but as shares of all.
fn columns_without(times: &Histogram, steps: &[f64], lost: Lost) -> Vec<HistogramColumn> {
    // In nanoseconds: more than the longest time of a histogram.
    let bounds = (0..12).flat_map(|decade| steps.iter().map(move |s| s * 10f64.powi(decade)));
    let bounds: Vec<f64> = bounds.collect();
    let mut counts = vec![0; bounds.len()];
    for [shortest, longest, count] in times.spans() {
        let gone = (shortest..=longest).contains(&lost.timeout_ns).then_some(lost.queries);
        counts[bounds.partition_point(|bound| *bound < shortest as f64)] +=
            count.saturating_sub(gone.unwrap_or(0));
    }
    let seen = |count: &u64| *count > 0;
    let (first, last) = (counts.iter().position(seen), counts.iter().rposition(seen));
    let column = |i: usize| HistogramColumn {
        low_us: i.checked_sub(1).map_or(0.0, |below| bounds[below] / 1e3),
        high_us: bounds[i] / 1e3,
        share: counts[i] as f64 / times.count() as f64,
    };
    first.zip(last).map_or_else(Vec::new, |(first, last)| (first..=last).map(column).collect())
}

/// Draws a distribution as some rows of text with bars, without those of 0.00 %; empty without times. Of these, `lost` are queries
/// without a reply, counted with the timeout: they have the last row.
pub(crate) fn rows(times: &Histogram, lost: u64, timeout_s: f64) -> Vec<String> {
    let timeout_ns = Nanos::from_secs_f64(timeout_s).0;
    let columns = columns_without(times, &COARSE, Lost { queries: lost, timeout_ns });
    // The rows with most of the times.
    let weight = |from: &usize| {
        columns.iter().skip(*from).take(MAX_ROWS).map(|column| column.share).sum::<f64>()
    };
    let starts = 0..=columns.len().saturating_sub(MAX_ROWS);
    let first = starts.max_by(|a, b| weight(a).total_cmp(&weight(b)).then(b.cmp(a))).unwrap_or(0);
    let end = (first + MAX_ROWS).min(columns.len());
    let shares = |part: &[HistogramColumn]| part.iter().map(|column| column.share).sum::<f64>();
    let mut shown: Vec<(String, f64)> = columns[first..end]
        .iter()
        .map(|c| (format!("{} to {}", short_time_us(c.low_us), short_time_us(c.high_us)), c.share))
        .collect();
    if end < columns.len() {
        shown.push((
            format!("over {}", short_time_us(columns[end].low_us)),
            shares(&columns[end..]),
        ));
    }
    if first > 0 {
        let below = format!("up to {}", short_time_us(columns[first].low_us));
        shown.insert(0, (below, shares(&columns[..first])));
    }
    shown.push(("no reply in time".to_owned(), lost as f64 / times.count().max(1) as f64));
    shown.retain(|(_, share)| *share >= LEAST);
    let most = shown.iter().map(|(_, share)| *share).fold(0.0, f64::max);
    let row = |(label, share): (String, f64)| {
        format!("{label:>16}  {:>6.2} % {}", share * 100.0, full_bar(share / most, MAX_BAR))
    };
    shown.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(all: &[(u64, u64)]) -> Histogram {
        let mut times = Histogram::new();
        all.iter().for_each(|(us, count)| times.record_many(Nanos::from_micros(*us), *count));
        times
    }

    #[test]
    fn columns_are_adjacent_and_count_each_time_once() {
        let found = columns(&times(&[(30, 1), (150, 2), (170, 1)]), &COARSE);
        let shown: Vec<_> = found.iter().map(|c| (c.low_us, c.high_us, c.share)).collect();
        assert_eq!(shown, [(20.0, 50.0, 0.25), (50.0, 100.0, 0.0), (100.0, 200.0, 0.75)]);
        assert!(columns(&Histogram::new(), &COARSE).is_empty());
        for all in [&[(1, 5)][..], &[(3, 1), (90_000_000, 7)], &[(999, 1), (1_001, 1)]] {
            let found = columns(&times(all), &FINE);
            assert!((found.iter().map(|c| c.share).sum::<f64>() - 1.0).abs() < 1e-9, "{found:?}");
            assert!(found.windows(2).all(|pair| pair[0].high_us == pair[1].low_us), "{found:?}");
        }
    }

    #[test]
    fn a_terminal_gets_some_rows_with_all_times() {
        let rows = |times: &Histogram| super::rows(times, 0, 1.0);
        assert!(rows(&Histogram::new()).is_empty());
        let lines = rows(&times(&[(60, 25), (150, 75)]));
        assert_eq!(lines[0], format!("{:>16}   25.00 % ██████████", "50 us to 100 us"));
        assert_eq!(lines[1], format!("{:>16}   75.00 % {}", "100 us to 200 us", "█".repeat(30)));
        let wide = rows(&times(&[(1, 1), (60, 90), (70_000, 8), (90_000_000, 1)]));
        assert!(wide.len() <= MAX_ROWS + 2, "{wide:?}");
        let wide = wide.join("\n");
        assert!(wide.contains("over ") && wide.contains(" 90.00 %"), "{wide}");
    }

    #[test]
    fn lost_queries_are_no_time_and_empty_rows_are_left_out() {
        let all = times(&[(30, 70), (150, 10), (1_000_000, 20)]);
        let lines = rows(&all, 20, 1.0);
        let labels: Vec<&str> = lines
            .iter()
            .map(|line| line.split("  ").find(|s| !s.is_empty()).unwrap_or("").trim())
            .collect();
        assert_eq!(labels, ["20 us to 50 us", "100 us to 200 us", "no reply in time"], "{lines:?}");
        assert!(lines[2].contains(" 20.00 % "), "{lines:?}");
        assert!(rows(&all, 0, 1.0)[2].contains("over "), "not lost: a time");
        assert_eq!(rows(&times(&[(1_000_000, 5)]), 5, 1.0).len(), 1);
    }
}
