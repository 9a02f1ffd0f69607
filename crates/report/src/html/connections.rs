//! Costs of connections: handshakes, first and later queries, resumptions and failures.

use maud::{Markup, html};
use measure::Histogram;
use record::{Connections, Times, TrialRecord};

use super::cells::{Cell, Cells};
use super::parts::{number_cell, table};
use crate::view::number::range;
use crate::view::{thousands, time_us};

/// Renders the section; empty if no cell has connections.
pub(crate) fn section(cells: &Cells<'_>) -> Markup {
    let with: Vec<&Cell<'_>> = cells.cells.iter().filter(|c| of(c).next().is_some()).collect();
    let mut heads = cells.heads();
    heads.extend([
        "connections",
        "rates",
        "TCP p50",
        "handshake p50",
        "handshake p99",
        "first query p50",
        "later queries p50",
        "resumed",
        "0-RTT",
        "failed",
    ]);
    let row = |cell: &&Cell<'_>| {
        let all: Vec<&Connections> = of(cell).collect();
        let rates: Vec<f64> = of_trials(cell).map(|t| t.trial.offered_qps).collect();
        html! { (cells.named(cell)) (columns(&all, &rates)) }
    };
    let rows: Vec<Markup> = with.iter().map(row).collect();
    html! {
        @if !with.is_empty() {
            h3 { "Connections" }
            p.note { "A handshake counts from the first packet until queries could be sent, TCP’s part included; "
                "queries from when they were sent to their reply. All trials of a cell together, of the lowest to the highest rate." }
            (table("What connections cost", &cells.conditions.heading, &heads, &rows))
        }
    }
}

/// Returns the connections of a cell's trials.
fn of<'a>(cell: &'a Cell<'_>) -> impl Iterator<Item = &'a Connections> {
    of_trials(cell).filter_map(|t| t.trial.connections.as_ref())
}

/// Returns a cell's trials with connections.
fn of_trials<'a>(cell: &'a Cell<'_>) -> impl Iterator<Item = &'a TrialRecord> {
    cell.record.trials.iter().filter(|t| t.trial.connections.is_some())
}

/// Describes rates in queries a second: one, or the lowest and the highest.
fn in_words(rates: &[f64]) -> String {
    match range(rates) {
        None => "–".to_owned(),
        Some((low, high)) if thousands(low) == thousands(high) => format!("{}/s", thousands(low)),
        Some((low, high)) => format!("{} to {}/s", thousands(low), thousands(high)),
    }
}

/// Renders the columns after a cell's settings.
fn columns(all: &[&Connections], rates: &[f64]) -> Markup {
    let sum = |count: fn(&Connections) -> u64| all.iter().map(|c| count(c)).sum::<u64>();
    let count = |head: &str, n: u64| number_cell(head, Some(n as f64), thousands(n as f64));
    let established = sum(|c| c.established);
    let share = |head: &str, n: u64| {
        let share = n as f64 / established.max(1) as f64;
        number_cell(head, Some(share), format!("{:.0} %", share * 100.0))
    };
    let time = |head: &str, which: fn(&Connections) -> &Times, q: f64| {
        let us = merged(all, which).map(|h| h.quantile(q).as_micros_f64());
        number_cell(head, us, us.map_or("–".into(), time_us))
    };
    html! {
        (count("connections", established))
        td data-h="rates" data-v=[range(rates).map(|(_, high)| high)] { (in_words(rates)) }
        (time("TCP p50", |c| &c.connect_us, 0.5))
        (time("handshake p50", |c| &c.handshake_us, 0.5))
        (time("handshake p99", |c| &c.handshake_us, 0.99))
        (time("first query p50", |c| &c.first_query_us, 0.5))
        (time("later queries p50", |c| &c.steady_us, 0.5))
        (share("resumed", sum(|c| c.resumed)))
        (share("0-RTT", sum(|c| c.early_data)))
        (count("failed", sum(|c| c.failed.values().sum())))
    }
}

/// Returns a distribution over all trials; `None` if nothing was recorded.
fn merged(all: &[&Connections], which: fn(&Connections) -> &Times) -> Option<Histogram> {
    let mut sum = Histogram::new();
    for connections in all {
        sum.merge(&which(connections).histogram().ok()?);
    }
    (sum.count() > 0).then_some(sum)
}

#[cfg(test)]
mod tests {
    use measure::Nanos;

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
        let (a, b) = (connections(&[3, 3, 3]), connections(&[9]));
        let page = columns(&[&a, &b], &[500.0, 2_000.0]).into_string();
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
