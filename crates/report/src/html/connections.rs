//! Costs of connections: handshakes, first and later queries, resumptions and failures.

use maud::{Markup, html};
use measure::Histogram;
use record::{CellRecord, Connections, Times};

use super::cells::Cells;
use crate::table::{Field, Table};
use crate::view::number::range;
use crate::view::{thousands, time_us};

/// Renders the section; empty if no cell has connections.
pub(crate) fn section(cells: &Cells<'_>) -> Markup {
    let all = cells.cells.iter().map(|cell| cell.record);
    let with: Vec<&CellRecord> = all.filter(|cell| of(cell).next().is_some()).collect();
    let results = cells.results(with.clone());
    html! {
        @if !with.is_empty() {
            h3 { "Connections" }
            p.note { "A handshake lasts from the first packet until queries could be sent, TCP’s part included; "
                "queries last from when they were sent to their reply. All trials of a cell together, of the lowest to the highest rate." }
            (costs(results.named(), &with).html("What connections cost", &results.conditions.heading))
        }
    }
}

/// A count of connections, and a distribution of their times.
type Count = fn(&Connections) -> u64;
type TimesOf = fn(&Connections) -> &Times;

/// Returns the connections of a cell's trials.
fn of(cell: &CellRecord) -> impl Iterator<Item = &Connections> {
    cell.trials.iter().filter_map(|t| t.trial.connections.as_ref())
}

/// Describes the rates of the trials, in queries a second: one, or the lowest and the highest.
fn rates(cell: &CellRecord) -> Field {
    let with = cell.trials.iter().filter(|t| t.trial.connections.is_some());
    let range = range(&with.map(|t| t.trial.offered_qps).collect::<Vec<_>>());
    Field::number(range.map(|(_, high)| high), |high| match range {
        Some((low, _)) if thousands(low) != thousands(high) => {
            format!("{} to {}/s", thousands(low), thousands(high))
        }
        _ => format!("{}/s", thousands(high)),
    })
}

/// Adds the columns of connections to a table that names the cells.
fn costs(mut table: Table, cells: &[&CellRecord]) -> Table {
    let mut add = |head: &str, field: &dyn Fn(&CellRecord) -> Field| {
        table.numbers(head, 0, cells.iter().map(|cell| field(cell)).collect());
    };
    let sum = |cell: &CellRecord, count: Count| of(cell).map(count).sum::<u64>();
    add("connections", &|cell| Field::count(sum(cell, |c| c.established)));
    add("rates", &rates);
    let times: [(&str, TimesOf, f64); 5] = [
        ("TCP p50", |c| &c.connect_us, 0.5),
        ("handshake p50", |c| &c.handshake_us, 0.5),
        ("handshake p99", |c| &c.handshake_us, 0.99),
        ("first query p50", |c| &c.first_query_us, 0.5),
        ("later queries p50", |c| &c.steady_us, 0.5),
    ];
    for (head, which, quantile) in times {
        let us = |all: Histogram| all.quantile(quantile).as_micros_f64();
        add(head, &|cell| Field::number(merged(cell, which).map(us), time_us));
    }
    let shares: [(&str, Count); 2] = [("resumed", |c| c.resumed), ("0-RTT", |c| c.early_data)];
    for (head, count) in shares {
        let share = |cell: &CellRecord| {
            sum(cell, count) as f64 / sum(cell, |c| c.established).max(1) as f64
        };
        add(head, &|cell| Field::number(Some(share(cell)), |x| format!("{:.0} %", x * 100.0)));
    }
    add("failed", &|cell| Field::count(sum(cell, |c| c.failed.values().sum())));
    table
}

/// Returns a distribution over all trials; `None` if no time was recorded.
fn merged(cell: &CellRecord, which: TimesOf) -> Option<Histogram> {
    let mut sum = Histogram::new();
    for connections in of(cell) {
        sum.merge(&which(connections).histogram().ok()?);
    }
    (sum.count() > 0).then_some(sum)
}

#[cfg(test)]
mod tests {
    use measure::Nanos;
    use record::{Run, TrialRecord};

    use super::*;

    #[test]
    fn handshakes_and_first_queries_are_shown() {
        let times = |ms: &[u64]| {
            let mut histogram = Histogram::new();
            ms.iter().for_each(|&ms| histogram.record(Nanos::from_millis(ms)));
            Times::from(&histogram)
        };
        let connections = |handshake: &[u64]| Connections {
            established: 4,
            resumed: 1,
            failed: [("reset".to_owned(), 2)].into(),
            handshake_us: times(handshake),
            first_query_us: times(&[40]),
            ..Connections::default()
        };
        let mut tls = CellRecord::new("nsd", Default::default(), "load");
        for (rate_qps, handshakes) in [(500.0, &[3, 3, 3][..]), (2_000.0, &[9])] {
            let mut trial = crate::tests::trial();
            (trial.offered_qps, trial.connections) = (rate_qps, Some(connections(handshakes)));
            tls.trials.push(TrialRecord { repeat: 0, rate_qps, trial });
        }
        let run = Run { results: vec![tls], ..Run::default() };
        let page = section(&Cells::of(&run)).into_string();
        let cell = |head: &str| {
            let from = page.find(&format!("data-h=\"{head}\"")).expect("a cell");
            let text = &page[from..];
            text[text.find('>').expect("its end") + 1..text.find("</td>").expect("its end")]
                .to_owned()
        };
        assert_eq!((cell("connections").as_str(), cell("failed").as_str()), ("8", "4"));
        assert_eq!(cell("rates"), "500 to 2,000/s");
        assert_eq!((cell("resumed").as_str(), cell("0-RTT").as_str()), ("25 %", "0 %"));
        assert!(
            cell("handshake p50").starts_with('3') && cell("handshake p50").ends_with("ms"),
            "{page}"
        );
        assert!(
            cell("handshake p99").starts_with('9') || cell("handshake p99").starts_with("8.9"),
            "{page}"
        );
        assert!(
            cell("first query p50").starts_with("40") || cell("first query p50").starts_with("39."),
            "{page}"
        );
        assert_eq!(cell("later queries p50"), "–");
    }
}
