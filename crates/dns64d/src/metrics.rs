//! Metrics for Prometheus and a health check, over HTTP on their own address.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::TcpListener;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use dns64::{ServerHealth, Statistics};
use measure::Transport;
use measure::exposition::{Exposition, MetricKind};
use streams::scrape::{Page, serve};
use tokio_util::sync::CancellationToken;

use crate::beat::Beat;
use crate::carrier::{Budget, Closed, Common, Places, Refusal, Shared, Traffic};
use crate::in_kernel::InKernel;
use crate::worker::{Status, WorkerHandle};
use crate::{dnstap, log};

/// Sources of metrics and statistics: workers, threads, streams, kernel.
#[derive(Clone)]
pub(crate) struct Source {
    pub(crate) workers: Vec<WorkerHandle>,
    pub(crate) beats: Vec<Beat>,
    pub(crate) places: Arc<Places>,
    pub(crate) budget: Budget,
    pub(crate) active: Shared,
    pub(crate) kernel: InKernel,
}

impl Source {
    /// Returns the source of the metrics: the shared state of the streams' threads, the threads'
    /// signs of life, and the kernel.
    pub(crate) fn new(common: &Common, beats: Vec<Beat>, kernel: InKernel) -> Self {
        let Common { workers, places, budget, active, .. } = common.clone();
        Source { workers, beats, places, budget, active, kernel }
    }

    /// Returns the state of all workers together, with what the kernel answered for them.
    pub(crate) fn status(&self) -> Status {
        let mut status = Status::of_all(&self.workers);
        self.kernel.add_to(&mut status);
        status
    }
}

/// Serves metrics until `end`.
///
/// # Errors
/// When the runtime cannot be made or the listener cannot be used.
pub(crate) fn run(
    listener: TcpListener,
    source: Source,
    end: CancellationToken,
) -> std::io::Result<()> {
    let started = Instant::now();
    let active = source.active.clone();
    let permits = move |client| {
        let active = active.lock().unwrap_or_else(PoisonError::into_inner);
        active.settings.config.metrics.permits(client)
    };
    let page = move |path: &str| match path {
        "/metrics" => Some(Page { ok: true, text: metrics(&source, started.elapsed()) }),
        "/health" => Some(health(&source)),
        _ => None,
    };
    serve(listener, page, permits, end.cancelled_owned())
}

/// Returns the health page: healthy if no thread hangs, a worker has an upstream server that is alive, and the server is in
/// service.
fn health(source: &Source) -> Page {
    let Source { workers, beats, places, .. } = source;
    let mut workers_alive = 0;
    let mut servers = BTreeMap::new();
    for status in workers.iter().map(WorkerHandle::status) {
        workers_alive += usize::from(status.health.iter().any(|s| s.alive && !s.forward));
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
        _ if places.is_draining() => "draining",
        0 => "no upstream server answers",
        _ => "ok",
    };
    for beat in late {
        let _ = writeln!(text, "{} hangs", beat.name);
    }
    Page { ok: summary == "ok", text: format!("{summary}\n{text}") }
}

/// Returns all metrics in Prometheus' text format.
fn metrics(source: &Source, up: Duration) -> String {
    let Status { counters, statistics, gauges, engine, lost, .. } = source.status();
    let of_worker = |(number, worker): (usize, &WorkerHandle)| {
        worker.status().health.into_iter().map(move |server| (number, server))
    };
    let servers: Vec<_> = source.workers.iter().enumerate().flat_map(of_worker).collect();
    let mut text = Exposition::default();
    let own = [
        ("socket_drops", "Datagrams dropped because a receive queue was full.", engine.dropped),
        ("send_errors", "Datagrams that the kernel refused to send.", engine.send_errors),
        (
            "stream_messages_lost",
            "Queries and answers of streams dropped because a queue was full.",
            lost,
        ),
        (
            "client_memory_refused",
            "Connections, queries and answers refused since their client network had its share of the memory.",
            source.budget.refused(),
        ),
        ("log_lines_lost", "Lines of the log that could not be written.", log::lost()),
        ("dnstap_frames", "Frames that the reader of dnstap has read.", dnstap::sent()),
        (
            "dnstap_frames_lost",
            "Frames that the reader of dnstap did not read in time.",
            dnstap::lost(),
        ),
    ];
    for (name, help, value) in counters.list().into_iter().chain(own).chain(source.kernel.list()) {
        text.single(&format!("dns64d_{name}_total"), MetricKind::Counter, help, value as f64);
    }
    let (used, all) = source.budget.used();
    for (name, help, value) in [
        ("stream_memory_bytes", "Octets reserved for streams.", used as f64),
        ("stream_memory_limit_bytes", "Octets that streams may reserve.", all as f64),
        ("uptime_seconds", "Seconds since the start.", up.as_secs_f64()),
        ("outstanding", "Pending questions.", gauges.outstanding as f64),
        ("waiters", "Clients that wait for a pending question.", gauges.waiters as f64),
        ("cache_bytes", "Octets in the cache.", gauges.cache_bytes as f64),
        ("cache_answers", "Answers in the cache.", gauges.cache_answers as f64),
    ] {
        text.single(&format!("dns64d_{name}"), MetricKind::Gauge, help, value);
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
        text.family(&name, MetricKind::Gauge, help);
        for (worker, server) in &servers {
            let (address, worker) = (server.address.to_string(), worker.to_string());
            text.sample(&name, &[("server", &address), ("worker", &worker)], value(server));
        }
    }
    nat64s(source, &mut text);
    answers(&statistics, &mut text);
    transports(&source.places, &mut text);
    text.finish()
}

/// Adds the state of the NAT64 of each prefix. Several blocks may have the same prefix.
fn nat64s(source: &Source, text: &mut Exposition) {
    let settings = source.active.lock().unwrap_or_else(PoisonError::into_inner).settings.clone();
    let mut all = BTreeMap::new();
    for (prefix, works) in settings.policy.nat64s() {
        *all.entry(prefix.to_string()).or_insert(true) &= works;
    }
    let name = "dns64d_nat64_works";
    text.family(
        name,
        MetricKind::Gauge,
        "Whether the NAT64 of a prefix works, as far as is known.",
    );
    for (prefix, works) in all {
        text.sample(name, &[("prefix", &prefix)], f64::from(u8::from(works)));
    }
}

/// Adds the metrics of answers: by type, return code, prefix and latency.
fn answers(statistics: &Statistics, text: &mut Exposition) {
    let prefixes = statistics.prefixes().map(|(prefix, count)| (prefix.to_string(), count));
    for (name, label, help, counts) in [
        (
            "answers_by_type",
            "type",
            "Answers by the type of the question.",
            statistics.types().collect(),
        ),
        ("answers_by_rcode", "rcode", "Answers by return code.", statistics.rcodes().collect()),
        (
            "synthesised_by_prefix",
            "prefix",
            "Replies synthesised by prefix.",
            prefixes.collect::<Vec<_>>(),
        ),
    ] {
        let name = format!("dns64d_{name}_total");
        text.family(&name, MetricKind::Counter, help);
        for (word, count) in counts {
            text.sample(&name, &[(label, &word)], count as f64);
        }
    }
    let name = "dns64d_answer_seconds";
    text.family(name, MetricKind::Histogram, "Time from a query's arrival to its answer.");
    let classes = statistics.latencies();
    for class in &classes {
        let limit = class.limit.map_or("+Inf".into(), |limit| limit.as_secs_f64().to_string());
        text.sample(&format!("{name}_bucket"), &[("le", &limit)], class.answers as f64);
    }
    text.sample(&format!("{name}_sum"), &[], statistics.total_latency().as_secs_f64());
    let all = classes.last().map_or(0, |class| class.answers);
    text.sample(&format!("{name}_count"), &[], all as f64);
}

/// Adds the metrics of the transports with connections.
fn transports(places: &Places, text: &mut Exposition) {
    let all = || Transport::ALL.into_iter().filter(|transport| !transport.is_datagram());
    type Value = fn(&Traffic) -> &AtomicU64;
    let counts: [(&str, &str, Value); 5] = [
        ("connections", "Connections that were accepted.", |t| &t.accepted),
        ("handshakes", "Handshakes that succeeded.", |t| &t.handshakes),
        ("handshakes_failed", "Handshakes that failed.", |t| &t.failed_handshakes),
        ("retries", "QUIC clients that had to prove their address.", |t| &t.retries),
        ("stream_queries", "Queries by transport.", |t| &t.queries),
    ];
    for (name, help, value) in counts {
        let name = format!("dns64d_{name}_total");
        text.family(&name, MetricKind::Counter, help);
        for transport in all() {
            let value = value(places.traffic(transport)).load(Ordering::Relaxed);
            text.sample(&name, &[("transport", transport.word())], value as f64);
        }
    }
    let mut by_reason =
        |name: &str, help: &str, of: &dyn Fn(&Traffic) -> Vec<(&'static str, u64)>| {
            text.family(name, MetricKind::Counter, help);
            for transport in all() {
                for (reason, value) in of(places.traffic(transport)) {
                    let labels = [("transport", transport.word()), ("reason", reason)];
                    text.sample(name, &labels, value as f64);
                }
            }
        };
    by_reason("dns64d_connections_refused_total", "Connections that were refused.", &|traffic| {
        let count = |why: Refusal| traffic.refused[why as usize].load(Ordering::Relaxed);
        Refusal::ALL.map(|why| (why.word(), count(why))).into()
    });
    by_reason("dns64d_connections_closed_total", "Connections that ended.", &|traffic| {
        let count = |how: Closed| traffic.closed[how as usize].load(Ordering::Relaxed);
        Closed::ALL.map(|how| (how.word(), count(how))).into()
    });
    let name = "dns64d_connections_open";
    text.family(name, MetricKind::Gauge, "Open connections.");
    for transport in all() {
        text.sample(name, &[("transport", transport.word())], places.open(transport) as f64);
    }
}
