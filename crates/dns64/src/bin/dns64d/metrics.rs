//! Metrics for Prometheus and a health check, over HTTP, on an address of their own.

use std::convert::Infallible;
use std::fmt::Write;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use dns64::{Counters, Gauges, ServerHealth};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::{TokioIo, TokioTimer};
use net::EngineCounters;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::worker::Line;

/// Connections at once.
const CONNECTIONS: usize = 16;
/// How long a request may take to come.
const PATIENCE: Duration = Duration::from_secs(5);

/// Serves until the end.
///
/// # Errors
/// When the runtime cannot be made or the listener not be used.
pub(crate) fn run(
    listener: TcpListener,
    lines: Vec<Line>,
    end: CancellationToken,
) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let started = Instant::now();
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let places = std::sync::Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = end.cancelled() => return Ok(()),
            };
            let Ok((stream, _)) = accepted else {
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            };
            let Ok(place) = places.clone().try_acquire_owned() else { continue };
            let lines = lines.clone();
            tokio::spawn(async move {
                let service = service_fn(|request| {
                    let response = respond(&request, &lines, started);
                    async move { Ok::<_, Infallible>(response) }
                });
                // The end of a connection, whatever its reason, is the asker's business.
                let _ = hyper::server::conn::http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(PATIENCE)
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
                drop(place);
            });
        }
    })
}

/// The response to a request.
fn respond(request: &Request<Incoming>, lines: &[Line], started: Instant) -> Response<Full<Bytes>> {
    let (status, text) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/metrics") => {
            (StatusCode::OK, metrics(lines, started.elapsed()))
        }
        (&Method::GET | &Method::HEAD, "/health") => health(lines),
        (&Method::GET | &Method::HEAD, _) => {
            (StatusCode::NOT_FOUND, "there is /metrics and /health\n".to_owned())
        }
        _ => (StatusCode::METHOD_NOT_ALLOWED, "GET only\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let kind = header::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// Healthy is a server that has a worker with a living upstream.
fn health(lines: &[Line]) -> (StatusCode, String) {
    let mut living = 0;
    let mut servers = std::collections::BTreeMap::new();
    for status in lines.iter().map(Line::status) {
        living += usize::from(status.health.iter().any(|server| server.alive));
        for server in status.health {
            *servers.entry(server.address).or_insert(false) |= server.alive;
        }
    }
    let mut text = String::new();
    for (address, alive) in servers {
        let _ = writeln!(text, "upstream {address}: {}", if alive { "alive" } else { "dead" });
    }
    if living > 0 {
        (StatusCode::OK, format!("ok\n{text}"))
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, format!("no upstream server answers\n{text}"))
    }
}

/// All metrics in Prometheus' text format.
fn metrics(lines: &[Line], up: Duration) -> String {
    let mut counters = Counters::default();
    let mut gauges = Gauges::default();
    let mut engine = EngineCounters::default();
    let mut servers: Vec<(usize, ServerHealth)> = Vec::new();
    for (worker, status) in lines.iter().map(Line::status).enumerate() {
        counters.merge(&status.counters);
        gauges.merge(&status.gauges);
        engine.merge(&status.engine);
        servers.extend(status.health.into_iter().map(|server| (worker, server)));
    }
    let mut text = String::new();
    let mut counter = |name: &str, help: &str, value: u64| {
        let _ = writeln!(
            text,
            "# HELP dns64d_{name}_total {help}\n# TYPE dns64d_{name}_total counter\ndns64d_{name}_total {value}"
        );
    };
    for (name, help, value) in counters.list() {
        counter(name, help, value);
    }
    counter("socket_drops", "Datagrams dropped because a receive queue was full.", engine.dropped);
    counter("send_errors", "Datagrams that the kernel would not take.", engine.send_errors);
    for (name, help, value) in [
        ("uptime_seconds", "Seconds since the start.", up.as_secs_f64()),
        ("outstanding", "Questions under way.", gauges.outstanding as f64),
        ("waiters", "Clients that wait for a question of somebody else.", gauges.waiters as f64),
        ("cache_bytes", "Octets in the cache.", gauges.cache_bytes as f64),
        ("cache_answers", "Answers in the cache.", gauges.cache_answers as f64),
    ] {
        let _ = writeln!(
            text,
            "# HELP dns64d_{name} {help}\n# TYPE dns64d_{name} gauge\ndns64d_{name} {value}"
        );
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
        let _ = writeln!(text, "# HELP dns64d_{name} {help}\n# TYPE dns64d_{name} gauge");
        for (worker, server) in &servers {
            let (address, value) = (server.address, value(server));
            let _ =
                writeln!(text, "dns64d_{name}{{server=\"{address}\",worker=\"{worker}\"}} {value}");
        }
    }
    text
}
