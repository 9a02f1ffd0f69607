//! The statistics as a record.

use std::time::{Duration, UNIX_EPOCH};

use measure::{Histogram, Nanos};
use record::{
    Quantiles, SCHEMA, TraceCode, TraceDirection, TracePackets, TraceRates, TraceSeries,
    TraceStats, TraceType,
};
use wire::{Opcode, Rcode};

use super::{Direction, Stats, TypeCount};

/// Number of the busiest clients that are listed.
const MAX_BUSIEST: usize = 10;
/// Width of a range of message lengths, in octets.
const SIZE_STEP: usize = 64;

impl Stats {
    /// Returns the record of the statistics, with the counts of the capture and the length of the windows in which bursts
    /// were counted; the names of the captures are left to the caller.
    pub fn summary(&self, counts: &TracePackets, window: Nanos) -> TraceStats {
        summary(self, counts, window)
    }
}

fn summary(stats: &Stats, counts: &TracePackets, window: Nanos) -> TraceStats {
    let requests = stats.requests();
    let era = stats.era();
    let duration_s = era.duration().as_secs_f64();
    let (bin, first, [queries, replies]) = era.series();
    let rates = if stats.by_replies() { &era.replies } else { &era.queries };
    let (query, unread) = (usize::from(Opcode::QUERY.0), &stats.counts.packets);
    TraceStats {
        schema: SCHEMA,
        start: if stats.messages == 0 { String::new() } else { time(era.first) },
        duration_s,
        requests_are: if stats.by_replies() { "replies" } else { "queries" }.to_owned(),
        requests: requests.counts.messages,
        unanswered: stats.unanswered(),
        latency_s: latency(&stats.latency),
        other_times: stats.eras.others().into_iter().map(|(at, count)| (time(at), count)).collect(),
        rates: TraceRates {
            average: if duration_s > 0.0 { rates.messages() as f64 / duration_s } else { 0.0 },
            p95_burst: rates.quantile(0.95),
            max_burst: rates.max(),
            window_s: window.as_secs_f64(),
        },
        query_requests: requests.opcodes[query],
        recursion_desired: match stats.by_replies() {
            true => stats.counts.recursive_replies,
            false => stats.recursion_desired,
        },
        queries: direction(&stats.queries),
        replies: direction(&stats.replies),
        packets: TracePackets {
            messages_headless: unread.messages_headless,
            messages_cut_headers: unread.messages_cut_headers,
            messages_malformed: unread.messages_malformed,
            ..counts.clone()
        },
        types: types(stats),
        return_codes: codes(stats.rcodes.iter().zip(0u16..), |code| Rcode(code).to_string()),
        opcodes: codes(
            requests.opcodes.iter().zip(0u16..).filter(|(_, code)| *code != 0),
            |code| format!("opcode {}", Opcode(code as u8)),
        ),
        clients: stats.clients.spread(MAX_BUSIEST),
        series: TraceSeries { bin_s: bin.as_secs_f64(), start: time(first), queries, replies },
        ..stats.counts.clone()
    }
}

/// Returns the distribution of times, in seconds.
fn latency(times: &Histogram) -> Quantiles {
    let at = |quantile| times.quantile(quantile).as_secs_f64();
    let (count, mean) = (times.count(), times.mean_ns() / 1e9);
    match count {
        0 => Quantiles::default(),
        _ => Quantiles {
            count,
            mean,
            p10: at(0.1),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            max: at(1.0),
        },
    }
}

fn direction(d: &Direction) -> TraceDirection {
    let steps = d.sizes.chunks(SIZE_STEP).zip(0u64..);
    let steps = steps.map(|(sizes, step)| (step * SIZE_STEP as u64, sizes.iter().sum::<u64>()));
    TraceDirection {
        size_mean: d.mean_size(),
        size_p50_p95_p99_max: [0.5, 0.95, 0.99, 1.0].map(|q| d.size_quantile(q) as u64),
        sizes: steps.filter(|(_, messages)| *messages > 0).collect(),
        ..d.counts.clone()
    }
}

fn types(stats: &Stats) -> Vec<TraceType> {
    let row = |class: String, name: String, count: TypeCount| TraceType {
        class,
        name,
        queries: count.queries,
        replies: count.replies,
        failed: count.failed,
    };
    let mut rows: Vec<TraceType> = stats
        .types()
        .into_iter()
        .map(|(kind, count)| match kind {
            Some((class, qtype)) => row(class.to_string(), qtype.to_string(), count),
            None => row("other".to_owned(), "(further types)".to_owned(), count),
        })
        .collect();
    if stats.no_question.queries + stats.no_question.replies > 0 {
        rows.push(row(String::new(), String::new(), stats.no_question));
    }
    rows
}

/// Returns the codes that occurred, the most frequent first.
fn codes<'a>(
    counts: impl Iterator<Item = (&'a u64, u16)>,
    name: impl Fn(u16) -> String,
) -> Vec<TraceCode> {
    let some = counts.filter(|(count, _)| **count > 0);
    let mut all: Vec<_> =
        some.map(|(count, code)| TraceCode { name: name(code), count: *count }).collect();
    all.sort_by_key(|code| std::cmp::Reverse(code.count));
    all
}

/// Returns a time since 1970 as RFC 3339.
fn time(at: Nanos) -> String {
    humantime::format_rfc3339_nanos(UNIX_EPOCH + Duration::from_nanos(at.0)).to_string()
}
