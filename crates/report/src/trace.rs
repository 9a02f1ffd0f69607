//! The statistics of a capture, in the order of ISC-TN-2008-1 section 5.1.

use std::fmt::Write;

use record::{TraceDirection, TraceStats, TraceType};

use crate::view::number::counted;
use crate::view::{number, time_us};

/// Largest number of types of class IN in the table; the JSON has all.
const TYPES: usize = 24;

/// Returns the table for a terminal.
pub fn trace(stats: &TraceStats) -> String {
    let mut out = String::new();
    head(&mut out, stats);
    types(&mut out, stats);
    let _ = writeln!(out, "\nReturn codes and other opcodes (of all {}):", stats.requests_are);
    for code in stats.return_codes.iter().chain(&stats.opcodes) {
        let share = percent(code.count, stats.requests.max(stats.replies.messages));
        let _ = writeln!(out, "  {:>12} {share:>6}  {}", code.count, code.name);
    }
    sizes(&mut out, stats);
    clients(&mut out, stats);
    unreadable_packets(&mut out, stats);
    out
}

/// Writes the lines above the types.
fn head(out: &mut String, s: &TraceStats) {
    if let Some(why) = &s.incomplete {
        let _ = writeln!(out, "INCOMPLETE: {why}");
    }
    let _ = writeln!(out, "Start: {}, duration: {:.2} seconds.", s.start, s.duration_s);
    for (at, count) in &s.other_times {
        let messages = counted(*count as usize, "message has a time", "messages have times");
        let _ = writeln!(
            out,
            "{messages} far from the others, from {at} on: left out of duration, rates and plots"
        );
    }
    let _ = writeln!(
        out,
        "{} requests ({} failed){}\n",
        s.requests,
        percent(s.failed, s.replies.messages),
        if s.requests_are == "replies" {
            ", counted by their replies: there are no queries in the capture"
        } else {
            ""
        }
    );
    let _ = writeln!(
        out,
        "Avg rate (requests/second) = {:.1}, 95%ile burst = {:.1}, Max burst = {:.1} (in windows of {} s)",
        s.rates.average, s.rates.p95_burst, s.rates.max_burst, s.rates.window_s
    );
    let _ = writeln!(
        out,
        "{} of opcode QUERY ({} failed); {} recursive, with RD ({} failed); {} replies, {} authoritative, {} truncated",
        s.query_requests,
        // All replies of other opcodes count as failed.
        percent(
            s.query_failed,
            s.replies.messages.saturating_sub(s.failed.saturating_sub(s.query_failed))
        ),
        s.recursion_desired,
        percent(s.recursive_failed, s.recursive_replies),
        s.replies.messages,
        s.authoritative,
        s.truncated
    );
    if s.unanswered > 0 {
        let share = percent(s.unanswered, s.queries.messages);
        let _ = writeln!(out, "{} queries have no reply in the capture ({share})", s.unanswered);
    }
    if s.latency_s.count > 0 {
        let q = &s.latency_s;
        let [p50, p90, p99] = [q.p50, q.p90, q.p99].map(|seconds| time_us(seconds * 1e6));
        let _ = writeln!(
            out,
            "{} pairs of query and reply: latency p50 {p50}, p90 {p90}, p99 {p99}",
            q.count
        );
    }
    let p = &s.packets;
    let _ = writeln!(
        out,
        "{} TCP packets in {} sessions ({} never closed), {} of all packets; {} queries and {} replies in these",
        p.tcp,
        p.tcp_sessions,
        p.tcp_never_closed,
        percent(p.tcp, p.packets),
        s.queries.tcp,
        s.replies.tcp
    );
}

/// Writes the rows by type: class IN first, then the others.
fn types(out: &mut String, s: &TraceStats) {
    let (internet, others): (Vec<_>, Vec<_>) = s.types.iter().partition(|t| t.class == "IN");
    let _ = writeln!(out, "\nBy type of query in class IN:");
    for kind in internet.iter().take(TYPES) {
        type_row(out, s, kind, &kind.name);
    }
    if internet.len() > TYPES {
        let _ = writeln!(out, "  ... and {} more types (--json has all)", internet.len() - TYPES);
    }
    if !others.is_empty() {
        let _ = writeln!(out, "\nOther classes:");
    }
    for kind in others.iter().take(TYPES) {
        let name = format!("{} {}", kind.name, kind.class);
        type_row(out, s, kind, if kind.name.is_empty() { "(no question)" } else { &name });
    }
}

/// Writes one row: requests, their share, the type, failed replies and their share of the type's replies.
fn type_row(out: &mut String, s: &TraceStats, kind: &TraceType, name: &str) {
    let count = if s.requests_are == "replies" { kind.replies } else { kind.queries };
    let share = percent(count, s.requests);
    let failed = format!("({})", percent(kind.failed, kind.replies));
    let _ = writeln!(
        out,
        "  {count:>12} {share:>6}  {name:<16} {:>12} failed {failed:>8}",
        kind.failed
    );
}

/// Writes the lengths of messages.
fn sizes(out: &mut String, s: &TraceStats) {
    let _ = writeln!(
        out,
        "\nMessages:     count        tcp       ipv6       edns         do   mean B    p50    p95    p99    max"
    );
    for (name, d) in [("queries", &s.queries), ("replies", &s.replies)] {
        let TraceDirection { messages, tcp, ipv6, edns, dnssec_ok, size_mean, .. } = d;
        let [p50, p95, p99, max] = d.size_p50_p95_p99_max;
        let _ = writeln!(
            out,
            "  {name} {messages:>10} {tcp:>10} {ipv6:>10} {edns:>10} {dnssec_ok:>10} {size_mean:>8.1} {p50:>6} {p95:>6} {p99:>6} {max:>6}"
        );
    }
}

/// Writes the distribution of requests over clients.
fn clients(out: &mut String, s: &TraceStats) {
    let c = &s.clients;
    let more = if c.beyond > 0 { ">= " } else { "" };
    let _ = writeln!(
        out,
        "\nClients: {more}{} in all; {} make half of the requests, {} make nine in ten",
        c.distinct, c.half, c.nine_tenths
    );
    for (address, count) in &c.busiest {
        let _ = writeln!(out, "  {count:>12} {:>6}  {address}", percent(*count, s.requests));
    }
}

/// Writes the counts of unreadable packets and of packets other than DNS; zero counts are omitted.
fn unreadable_packets(out: &mut String, s: &TraceStats) {
    let p = &s.packets;
    let rows = [
        (p.other, "IP packets of other protocols and ports"),
        (p.not_ip, "frames without IP"),
        (p.unknown_link, "frames of an unknown link type"),
        (p.malformed, "IP packets whose headers cannot be read"),
        (p.fragments, "IP fragments"),
        (p.unfinished, "packets with missing fragments"),
        (p.tcp_gaps, "gaps in TCP streams"),
        (p.messages_cut, "messages whose end was not captured"),
        (p.messages_cut_headers, "messages whose header was captured in part"),
        (p.messages_headless, "messages shorter than a header"),
        (p.messages_malformed, "messages with fewer or more records than their header announces"),
    ];
    if rows.iter().any(|(count, _)| *count > 0) {
        let _ = writeln!(out, "\nBeside them, of {} packets:", p.packets);
    }
    for (count, what) in rows.iter().filter(|(count, _)| *count > 0) {
        let _ = writeln!(out, "  {count:>12}  {what}");
    }
    for (port, count) in &p.dns_ports {
        let _ = writeln!(
            out,
            "  {count:>12}  packets of port {port} that look like DNS: --dns-port {port} reads them"
        );
    }
}

/// Formats a share in percent; `-` if the whole is zero.
fn percent(part: u64, of: u64) -> String {
    number::percent(part, of).map_or("-".to_owned(), |percent| format!("{percent:.1}%"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::TraceRates;

    #[test]
    fn the_figures_of_the_source() {
        let stats = TraceStats {
            start: "2006-11-15T06:00:00Z".into(),
            duration_s: 172_800.0,
            requests_are: "replies".into(),
            requests: 414_931_073,
            failed: 160_878_000,
            query_requests: 354_053_073,
            query_failed: 100_000_000,
            rates: TraceRates {
                average: 414_931_073.0 / 172_800.0,
                p95_burst: 3_011.0,
                max_burst: 3_921.9,
                window_s: 1.0,
            },
            replies: TraceDirection { messages: 414_931_073, ..TraceDirection::default() },
            types: vec![TraceType {
                class: "IN".into(),
                name: "A".into(),
                queries: 0,
                replies: 251_892_742,
                failed: 107_157_854,
            }],
            ..TraceStats::default()
        };
        let text = trace(&stats);
        for line in [
            "Start: 2006-11-15T06:00:00Z, duration: 172800.00 seconds.",
            "414931073 requests (38.8% failed), counted by their replies",
            "354053073 of opcode QUERY (28.2% failed); 0 recursive",
            "Avg rate (requests/second) = 2401.2, 95%ile burst = 3011.0, Max burst = 3921.9",
            "     251892742  60.7%  A                   107157854 failed  (42.5%)",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }
}
