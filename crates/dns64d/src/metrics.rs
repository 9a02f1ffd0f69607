//! Metrics for Prometheus and a health check, over HTTP on their own address.

use std::fmt::Write;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use dns64::{Counters, Gauges, ServerHealth};
use engine::EngineCounters;
use measure::exposition::{Exposition, Kind};
use streams::scrape::{Page, serve};
use tokio_util::sync::CancellationToken;

use crate::beat::Beat;
use crate::log;
use crate::worker::WorkerHandle;

/// Serves metrics until `end`.
///
/// # Errors
/// When the runtime cannot be made or the listener cannot be used.
pub(crate) fn run(
    listener: TcpListener,
    workers: Vec<WorkerHandle>,
    beats: Vec<Beat>,
    end: CancellationToken,
) -> std::io::Result<()> {
    let started = Instant::now();
    let page = move |path: &str| match path {
        "/metrics" => Some(Page { ok: true, text: metrics(&workers, started.elapsed()) }),
        "/health" => Some(health(&workers, &beats)),
        _ => None,
    };
    serve(listener, page, end.cancelled_owned())
}

/// Returns the health page: healthy if no thread hangs and a worker has an upstream server that is alive.
fn health(workers: &[WorkerHandle], beats: &[Beat]) -> Page {
    let mut workers_alive = 0;
    let mut servers = std::collections::BTreeMap::new();
    for status in workers.iter().map(WorkerHandle::status) {
        workers_alive += usize::from(status.health.iter().any(|server| server.alive));
        for server in status.health {
            *servers.entry(server.address).or_insert(false) |= server.alive;
        }
    }
    let mut text = String::new();
    for (address, alive) in servers {
        let _ = writeln!(text, "upstream {address}: {}", if alive { "alive" } else { "dead" });
    }
    let mut late = beats.iter().filter(|beat| beat.is_late()).peekable();
    let summary = match workers_alive {
        _ if late.peek().is_some() => "a thread hangs",
        0 => "no upstream server answers",
        _ => "ok",
    };
    for beat in late {
        let _ = writeln!(text, "{} hangs", beat.name);
    }
    Page { ok: summary == "ok", text: format!("{summary}\n{text}") }
}

/// Returns all metrics in Prometheus' text format.
fn metrics(workers: &[WorkerHandle], up: Duration) -> String {
    let mut counters = Counters::default();
    let mut gauges = Gauges::default();
    let mut engine = EngineCounters::default();
    let mut lost = 0;
    let mut servers: Vec<(usize, ServerHealth)> = Vec::new();
    for (worker, status) in workers.iter().map(WorkerHandle::status).enumerate() {
        counters.merge(&status.counters);
        gauges.merge(&status.gauges);
        engine.merge(&status.engine);
        lost += status.lost;
        servers.extend(status.health.into_iter().map(|server| (worker, server)));
    }
    let mut text = Exposition::default();
    let own = [
        ("socket_drops", "Datagrams dropped because a receive queue was full.", engine.dropped),
        ("send_errors", "Datagrams that the kernel refused to send.", engine.send_errors),
        (
            "stream_messages_lost",
            "Queries and answers of streams dropped because a queue was full.",
            lost,
        ),
        ("log_lines_lost", "Lines of the log that could not be written.", log::lost()),
    ];
    for (name, help, value) in counters.list().into_iter().chain(own) {
        text.single(&format!("dns64d_{name}_total"), Kind::Counter, help, value as f64);
    }
    for (name, help, value) in [
        ("uptime_seconds", "Seconds since the start.", up.as_secs_f64()),
        ("outstanding", "Pending questions.", gauges.outstanding as f64),
        ("waiters", "Clients that wait for a question of another client.", gauges.waiters as f64),
        ("cache_bytes", "Octets in the cache.", gauges.cache_bytes as f64),
        ("cache_answers", "Answers in the cache.", gauges.cache_answers as f64),
    ] {
        text.single(&format!("dns64d_{name}"), Kind::Gauge, help, value);
    }
    type Value = fn(&ServerHealth) -> f64;
    let per_server: [(&str, &str, Value); 3] = [
        ("upstream_alive", "Whether an upstream server is alive.", |s| {
            f64::from(u8::from(s.alive))
        }),
        ("upstream_rtt_seconds", "Smoothed round trip time of a server.", |s| s.rtt.as_secs_f64()),
        ("upstream_source_ports", "Source ports in use to a server.", |s| s.ports as f64),
    ];
    for (name, help, value) in per_server {
        let name = format!("dns64d_{name}");
        text.family(&name, Kind::Gauge, help);
        for (worker, server) in &servers {
            let (address, worker) = (server.address.to_string(), worker.to_string());
            text.sample(&name, &[("server", &address), ("worker", &worker)], value(server));
        }
    }
    text.finish()
}
