//! Runs in DNS-OARC's shared schema for tools of DNS performance, [dns-metrics], which kxdpgun writes too: an
//! object a line.
//!
//! - A `header` comes first, then an `event` that describes the run.
//! - Each trial is a `subid`: an `event` with its cell and rate, a `stats_periodic` for each second and a
//!   `stats_sum`. The schema leaves open where the counts stand: its text has `sent` and `received`, its
//!   examples and kxdpgun have `queries` and `responses`; both are written.
//! - Times are nanoseconds. Buckets are least time, largest time, count.
//! - Facts without a field in the schema are in `additional_info`, as kxdpgun writes them.
//!
//! [dns-metrics]: https://github.com/DNS-OARC/dns-metrics

use std::io::{self, Write};
use std::ops::Range;

use measure::{Histogram, Transport};
use serde_json::{Value, json};

use crate::{CellRecord, Run, Times, Trial, TrialRecord, cell_name};

/// Version of the schema, the one that kxdpgun 3.4 names.
const SCHEMA_VERSION: u32 = 20_240_530;

/// Writes `run` to `out`.
///
/// # Errors
/// The errors of `out`.
pub fn write_dns_metrics(run: &Run, mut out: impl Write) -> io::Result<()> {
    // The schema requires a string.
    let id = match run.id {
        Some(id) => id.to_string(),
        None => format!("{}-{:.0}", run.plan.experiment, run.plan.started_unix_s),
    };
    let mut line = |subid: Option<&str>, mut object: Value| {
        object["runid"] = id.clone().into();
        if let Some(subid) = subid {
            object["subid"] = subid.into();
        }
        serde_json::to_writer(&mut out, &object)?;
        out.write_all(b"\n")
    };
    line(None, header(run))?;
    let plan = &run.plan;
    let title = if plan.title.is_empty() { &plan.command } else { &plan.title };
    line(None, event(&format!("{}: {title}", plan.experiment)))?;
    let mut trial = 0;
    for cell in &run.results {
        for record in &cell.trials {
            trial += 1;
            let subid = trial.to_string();
            line(Some(&subid), event(&what(cell, record)))?;
            let since = record.trial.conditions.started_unix_s.unwrap_or(plan.started_unix_s);
            for (second, counts) in record.trial.series.iter().enumerate() {
                let since = since + second as f64;
                let answered = counts.valid + counts.invalid.values().sum::<u64>();
                line(
                    Some(&subid),
                    counted("stats_periodic", since..since + 1.0, counts.sent, answered),
                )?;
            }
            line(Some(&subid), summary(cell, record, since))?;
        }
    }
    Ok(())
}

fn header(run: &Run) -> Value {
    let timeout = run.results.iter().flat_map(|c| &c.trials).map(|t| t.trial.conditions.timeout_s);
    let mut header = json!({
        "type": "header",
        "schema_version": SCHEMA_VERSION,
        "generator": "dnsdyno",
        "generator_version": run.plan.version,
        "generator_params": run.plan.command.split_whitespace().collect::<Vec<_>>(),
        "time_units_per_sec": 1_000_000_000,
        "stats_interval": 1.0,
        "additional_info": {
            "experiment": run.plan.experiment,
            "testbed": run.plan.words(),
            "complete": run.complete,
        },
    });
    // The timeout of the first trial; other cells may have others.
    if let Some(timeout) = timeout.take(1).next() {
        header["timeout"] = timeout.into();
    }
    header
}

fn event(message: &str) -> Value {
    json!({"type": "event", "msg": message})
}

/// Returns the description of a trial in words.
fn what(cell: &CellRecord, record: &TrialRecord) -> String {
    let cell_name = cell_name(&cell.server, cell.server_version.as_deref(), &cell.settings);
    format!(
        "{cell_name}, {} {}, {} {}",
        cell.method,
        record.repeat,
        record.rate_qps,
        cell.capacity_unit()
    )
}

/// Converts seconds since 1970 to nanoseconds.
fn nanos(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

/// Returns the counts of queries and responses of a time span, in seconds since 1970.
fn counted(kind: &str, time: Range<f64>, queries: u64, responses: u64) -> Value {
    json!({
        "type": kind,
        "since": nanos(time.start),
        "until": nanos(time.end),
        "queries": queries,
        "responses": responses,
        "sent": {"queries": queries},
        "received": {"responses": responses},
    })
}

fn summary(cell: &CellRecord, record: &TrialRecord, since: f64) -> Value {
    let t = &record.trial;
    let mut sum = counted("stats_sum", since..since + t.duration_s, t.sent, t.answered);
    sum["timeouts"] = t.lost.into();
    sum["interrupted"] = t.unresolved.into();
    sum["unexpected"] = (t.unexpected + t.duplicates).into();
    sum["discarded"] = t.late.into();
    sum["response_rcodes"] = json!(t.rcodes);
    // The latencies of replies only: lost queries have none.
    sum["response_latency"] = latency(&t.latency_from_send_us);
    sum["conn_info"] = connections(t);
    sum["additional_info"] = json!({
        "server": cell.server,
        "server_version": cell.server_version,
        "settings": cell.settings,
        "method": cell.method,
        "repeat": record.repeat,
        "rate_qps": record.rate_qps,
        "engine": t.conditions.engine,
        "valid": t.valid,
        "invalid": t.invalid,
        "limiter": t.limiter.word(),
        "void": t.void.0.as_ref().map(ToString::to_string),
        "latency_from_due": latency(&t.latency_us),
        "schedule_error": latency(&t.schedule_error_us),
    });
    sum
}

fn latency(times: &Times) -> Value {
    let ns = |us: f64| (us * 1e3).round() as u64;
    let buckets: Vec<[u64; 3]> =
        times.histogram().map_or_else(|_| Vec::new(), |h: Histogram| h.spans().collect());
    json!({
        "avg": ns(times.mean),
        "min": ns(times.min),
        "max": ns(times.max),
        "stddev": ns(times.stdev),
        "buckets": buckets,
    })
}

fn connections(t: &Trial) -> Value {
    let Some(c) = &t.connections else {
        let errors = t.drops.tester_send;
        return json!({"type": "udp", "packets_sent": t.sent, "packets_received": t.answered, "socket_errors": errors});
    };
    let kind = match t.conditions.transport.parse::<Transport>() {
        Ok(Transport::Tcp) => "tcp",
        Ok(transport) if transport.uses_quic() => "quic_conn",
        _ => "tls_conn",
    };
    let failed: u64 = c.failed.values().sum();
    json!({
        "type": kind,
        "handshakes": c.established,
        "handshakes_failed": failed,
        "resumption": {"established": c.resumed},
    })
}
