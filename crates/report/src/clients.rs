//! The clients of a capture and their behaviour.

use std::fmt::Write;

use record::{ClientStats, Quantiles};

use crate::view::number::counted;
use crate::view::{significant, time_us};

/// Largest number of types in the table; the JSON has all.
const TYPES: usize = 12;

/// Returns the table for a terminal.
pub fn clients(stats: &ClientStats) -> String {
    let mut out = String::new();
    if let Some(why) = &stats.incomplete {
        let _ = writeln!(out, "INCOMPLETE: {why}");
    }
    let _ = writeln!(
        out,
        "{} with {} {}",
        counted(stats.clients as usize, "client", "clients"),
        counted(stats.queries as usize, "query", "queries"),
        match stats.qps {
            0.0 => "at the same time".to_owned(),
            qps => format!("in {}: {} queries a second", seconds(stats.period_s), significant(qps)),
        }
    );
    if stats.left_out > 0 {
        let why = "cut, without a header, a year or more from the others, or beyond a limit";
        let left_out = counted(stats.left_out as usize, "query was", "queries were");
        let _ = writeln!(out, "{left_out} left out: {why}");
    }
    let _ = writeln!(
        out,
        "\n{:<24}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}",
        "", "mean", "10 %", "50 %", "90 %", "99 %", "max"
    );
    row(&mut out, "queries of a client", &stats.queries_per_client, significant);
    row(&mut out, "... a second", &stats.qps_per_client, significant);
    row(&mut out, "between two queries", &stats.think_s, seconds);
    row(&mut out, "idle", &stats.idle_s, seconds);
    let _ = writeln!(
        out,
        "\nIdle after {}, a client closes its connection: {}, {} open at once, {} on average",
        seconds(stats.idle_after_s),
        counted(stats.connections as usize, "connection", "connections"),
        stats.most_open,
        significant(stats.mean_open)
    );
    let _ = writeln!(out, "\nBy type of query:");
    for kind in stats.types.iter().take(TYPES) {
        let share = kind.count as f64 * 100.0 / stats.queries.max(1) as f64;
        let name = if kind.name.is_empty() { "(no question)" } else { &kind.name };
        let _ = writeln!(out, "  {:>12} {share:>5.1}%  {name}", kind.count);
    }
    if stats.types.len() > TYPES {
        let _ =
            writeln!(out, "  ... and {} more types (--json has all)", stats.types.len() - TYPES);
    }
    out
}

/// Writes a distribution; one without a value has no numbers.
fn row(out: &mut String, name: &str, of: &Quantiles, show: fn(f64) -> String) {
    let _ = write!(out, "{name:<24}");
    for value in [of.mean, of.p10, of.p50, of.p90, of.p99, of.max] {
        let text = if of.count > 0 { show(value) } else { "-".to_owned() };
        let _ = write!(out, "{text:>12}");
    }
    let _ = writeln!(out);
}

fn seconds(value: f64) -> String {
    time_us(value * 1e6)
}

#[cfg(test)]
mod tests {
    use record::TraceCode;

    use super::*;

    #[test]
    fn rows_have_their_numbers_and_units() {
        let stats = ClientStats {
            clients: 2,
            queries: 5,
            period_s: 25.0,
            qps: 0.2,
            queries_per_client: Quantiles::of_sorted(&[1, 4], 1.0),
            think_s: Quantiles::of_sorted(&[1, 1, 18], 1.0),
            idle_after_s: 10.0,
            connections: 3,
            most_open: 2,
            mean_open: 1.08,
            types: vec![TraceCode { name: "A".to_owned(), count: 5 }],
            ..ClientStats::default()
        };
        let text = clients(&stats);
        for line in [
            "2 clients with 5 queries in 25.00 s: 0.2 queries a second",
            "queries of a client              2.5           1           1           4           4           4",
            "idle                               -           -           -           -           -           -",
            "3 connections, 2 open at once, 1.08 on average",
            "             5 100.0%  A",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        let one =
            ClientStats { clients: 1, queries: 1, connections: 1, left_out: 1, qps: 0.0, ..stats };
        let text = clients(&one);
        for line in [
            "1 client with 1 query at the same time\n",
            ": 1 connection, 2 open",
            "1 query was left out: ",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }
}
