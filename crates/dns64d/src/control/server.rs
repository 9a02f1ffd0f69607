//! The server's side: requests of operators, a few at the same time.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use dns64::config::Change;
use dns64::{Domain, Dump, ServerHealth};
use measure::{Nanos, Transport};
use nix::sys::stat::{Mode, umask};
use serde_json::{Map, Value, json};
use streams::scrape::accept_each;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::request::{Flush, Request, parse};
use crate::beat::Beat;
use crate::event::Event;
use crate::log;
use crate::metrics::Source;
use crate::reading;
use crate::worker::{Order, Status};

const MAX_REQUEST: u64 = 4_096;
/// Longest wait for a request, and for a client that does not read.
const MAX_CLIENT_WAIT: Duration = Duration::from_secs(1);
/// Longest wait for a worker or the main thread.
const MAX_WORKER_WAIT: Duration = Duration::from_secs(15);
/// Highest number of connections at a time; the oldest gives way to a new one.
const CONNECTIONS: usize = 32;
/// Number of answers of a cache in one part of a dump.
const DUMP_PART: usize = 1_000;

/// Parts of the server from which requests are answered.
pub(crate) struct Server {
    /// Path of the socket, which is removed at the end.
    pub(crate) path: PathBuf,
    pub(crate) source: Source,
    /// Addresses at which the server listens, as text for `status`.
    pub(crate) listen: Vec<String>,
    /// Requests to the main thread.
    pub(crate) events: SyncSender<Event>,
    pub(crate) started: Instant,
}

/// Binds the socket; a file that a server left behind is replaced.
///
/// # Errors
/// When another server has it, when there is another file, or errors of the kernel.
pub(crate) fn listen(path: &Path) -> anyhow::Result<UnixListener> {
    let place = || format!("control.socket: {}", path.display());
    if let Ok(file) = std::fs::symlink_metadata(path) {
        if !file.file_type().is_socket() {
            bail!(
                "{}: there is a file that is no socket: remove it or write another path",
                place()
            );
        }
        if UnixStream::connect(path).is_ok() {
            bail!("{}: another server has this socket: stop it or write another path", place());
        }
        std::fs::remove_file(path).with_context(place)?;
    }
    // Only the owner may use the socket from the moment of its creation.
    let before = umask(Mode::from_bits_truncate(0o177));
    let listener = UnixListener::bind(path);
    umask(before);
    listener.with_context(place)
}

/// Answers requests until `end`.
///
/// # Errors
/// When the runtime cannot be made or the listener cannot be used.
pub(crate) fn run(
    listener: UnixListener,
    server: Server,
    end: &CancellationToken,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let server = Arc::new(server);
    let result = runtime.block_on(async {
        let listener = tokio::net::UnixListener::from_std(listener)?;
        let serve = |(stream, _)| {
            let server = server.clone();
            // An operator that disconnects affects no other connection.
            Some(async move { drop(server.serve(stream).await) })
        };
        let accept = async || listener.accept().await;
        accept_each(accept, CONNECTIONS, end.cancelled(), serve).await;
        Ok(())
    });
    // The user may not be allowed to; the next server replaces it.
    let _ = std::fs::remove_file(&server.path);
    result
}

impl Server {
    async fn serve(&self, stream: tokio::net::UnixStream) -> io::Result<()> {
        let (reader, mut writer) = stream.into_split();
        let mut line = String::new();
        let mut reader = BufReader::new(reader.take(MAX_REQUEST));
        timeout(MAX_CLIENT_WAIT, reader.read_line(&mut line)).await??;
        let request = match parse(&line) {
            Ok(request) => request,
            Err(error) => return write(&mut writer, &json!({"error": error})).await,
        };
        if request == Request::Dump {
            return self.dump(&mut writer).await;
        }
        let answer = self.answer(&request).await.unwrap_or_else(|error| json!({"error": error}));
        write(&mut writer, &answer).await
    }

    /// Answers a request with one document.
    async fn answer(&self, request: &Request) -> Result<Value, String> {
        match request {
            Request::Status => Ok(self.status()),
            Request::Stats => Ok(self.stats()),
            Request::Flush(what) => {
                let removed = self.flush(what).await?;
                tracing::info!(removed, "answers removed from the cache");
                Ok(json!({"removed": removed}))
            }
            Request::Dump => Err("a dump is sent as many documents".into()),
            Request::Drain { undo } => {
                self.source.places.drain(!undo);
                tracing::info!("{}", if *undo { "in service" } else { "draining" });
                Ok(json!({"state": self.state()}))
            }
            Request::Log { level } => {
                log::set_level((*level).into());
                Ok(json!({"log": level}))
            }
            Request::Reload { dry_run } => self.reload(*dry_run).await,
        }
    }

    fn state(&self) -> &'static str {
        match self.source.places.is_draining() {
            true => "draining",
            false if self.source.beats.iter().any(Beat::is_late) => "hanging",
            false => "ready",
        }
    }

    fn status(&self) -> Value {
        let Source { workers, places, budget, .. } = &self.source;
        let Status { gauges, statistics, health, .. } = self.source.status();
        let mut servers: Vec<Vec<ServerHealth>> = Vec::new();
        for server in health {
            match servers.iter_mut().find(|all| all[0].address == server.address) {
                Some(all) => all.push(server),
                None => servers.push(vec![server]),
            }
        }
        let upstream = servers.iter().map(|seen| {
            let alive = seen.iter().filter(|server| server.alive).count();
            let known: Vec<u64> = seen.iter().map(|s| s.rtt.0).filter(|rtt| *rtt > 0).collect();
            let rtt = known.iter().sum::<u64>() as f64 / known.len().max(1) as f64;
            json!({
                "server": seen[0].address.to_string(),
                "alive_for_workers": alive,
                "rtt_ms": (!known.is_empty()).then_some(milliseconds(Nanos(rtt as u64))),
                "source_ports": seen.iter().map(|server| server.ports).sum::<usize>(),
            })
        });
        let (used, limit) = budget.used();
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "state": self.state(),
            "uptime_seconds": self.started.elapsed().as_secs(),
            "workers": workers.len(),
            "listen": self.listen,
            "prefixes": statistics.prefixes().map(|(prefix, _)| prefix.to_string()).collect::<Vec<_>>(),
            "upstream": upstream.collect::<Vec<_>>(),
            "outstanding": gauges.outstanding,
            "cache": {"answers": gauges.cache_answers, "octets": gauges.cache_bytes},
            "stream_memory": {"octets": used, "limit": limit},
            "connections": by_transport(|transport| places.open(transport) as u64),
        })
    }

    fn stats(&self) -> Value {
        let Status { counters, statistics, .. } = self.source.status();
        let object = |counts: &mut dyn Iterator<Item = (String, u64)>| {
            Value::Object(counts.map(|(name, count)| (name, count.into())).collect())
        };
        let load = |transport| {
            let queries = &self.source.places.traffic(transport).queries;
            queries.load(std::sync::atomic::Ordering::Relaxed)
        };
        let mut queries = by_transport(load);
        queries.insert("udp".into(), counters.queries_udp.into());
        let classes = statistics.latencies();
        let answers = classes.last().map_or(0, |class| class.answers);
        let up_to = classes.iter().map(
            |class| json!({"up_to_ms": class.limit.map(milliseconds), "answers": class.answers}),
        );
        let latency = |share| statistics.latency(share).map(milliseconds);
        json!({
            "counters": object(&mut counters.list().into_iter().map(|(name, _, n)| (name.into(), n))),
            "queries_by_transport": queries,
            "answers_by_type": object(&mut statistics.types()),
            "answers_by_rcode": object(&mut statistics.rcodes()),
            "synthesised_by_prefix":
                object(&mut statistics.prefixes().map(|(prefix, n)| (prefix.to_string(), n))),
            "latency": {
                "answers": answers,
                "mean_ms": milliseconds(Nanos(statistics.total_latency().0 / answers.max(1))),
                "p50_below_ms": latency(0.5),
                "p99_below_ms": latency(0.99),
                "histogram": up_to.collect::<Vec<_>>(),
            },
        })
    }

    /// Removes answers from all caches; returns the number of removed answers.
    async fn flush(&self, what: &Flush) -> Result<usize, String> {
        let name =
            |name: &String| name.parse::<wire::Name>().map_err(|error| format!("{name}: {error}"));
        let domain = match what {
            Flush::Name { name: text } => Domain::Name(name(text)?),
            Flush::Zone { name: text } => Domain::Zone(name(text)?),
            Flush::All => Domain::Zone(wire::Name::ROOT),
        };
        let mut waiting: Vec<oneshot::Receiver<usize>> = Vec::new();
        self.source.kernel.flush(|generation| {
            for worker in &self.source.workers {
                let (done, removed) = oneshot::channel();
                let domain = Box::new(domain.clone());
                worker.order_as(generation, Order::Flush { domain, done });
                waiting.push(removed);
            }
        });
        let mut all = 0;
        for removed in waiting {
            all += answer_of(removed).await?;
        }
        Ok(all)
    }

    /// Writes all answers of all caches, in parts.
    async fn dump(&self, writer: &mut (impl AsyncWriteExt + Unpin)) -> io::Result<()> {
        for (number, worker) in self.source.workers.iter().enumerate() {
            let mut from = Some(0);
            while let Some(place) = from {
                let (done, part) = oneshot::channel();
                worker.order(Order::Dump { from: place, most: DUMP_PART, done });
                let Dump { answers, next } = match answer_of(part).await {
                    Ok(part) => part,
                    Err(error) => return write(writer, &json!({"error": error})).await,
                };
                from = next;
                let answers = answers.iter().map(|answer| {
                    json!({
                        "name": answer.name.to_string(),
                        "type": answer.qtype.to_string(),
                        "rcode": answer.rcode.to_string(),
                        "seconds": answer.seconds,
                        "records": answer.records,
                        "octets": answer.octets,
                        "do": answer.dnssec,
                        "cd": answer.checking_disabled,
                    })
                });
                let part = json!({"worker": number, "answers": answers.collect::<Vec<_>>()});
                write(writer, &part).await?;
            }
        }
        Ok(())
    }

    /// Lets the main thread read the configuration again, and use it unless this is a dry run.
    async fn reload(&self, dry_run: bool) -> Result<Value, String> {
        let (done, result) = oneshot::channel();
        let sent = self
            .events
            .try_send(Event::Reload(reading::ReloadRequest { asked: Some(done), dry_run }));
        sent.map_err(|_| "the server is busy: try again".to_owned())?;
        let changes = answer_of(result).await??;
        let rows = changes.into_iter().map(|Change { key, before, after, needs_restart }| {
            let effect = if needs_restart { "after a restart" } else { "now" };
            json!({"setting": key, "before": before, "after": after, "takes_effect": effect})
        });
        Ok(json!({"changes": rows.collect::<Vec<_>>()}))
    }
}

/// Waits for the answer of another thread.
async fn answer_of<T>(answer: oneshot::Receiver<T>) -> Result<T, String> {
    let answered = timeout(MAX_WORKER_WAIT, answer).await.ok().and_then(Result::ok);
    answered.ok_or_else(|| "a thread of the server does not answer".to_owned())
}

/// Returns a count for each transport with connections.
fn by_transport(count: impl Fn(Transport) -> u64) -> Map<String, Value> {
    let all = Transport::ALL.into_iter().filter(|transport| !transport.is_datagram());
    all.map(|transport| (transport.word().to_owned(), count(transport).into())).collect()
}

/// Returns a time in milliseconds, to the microsecond.
fn milliseconds(time: Nanos) -> f64 {
    (time.0 / 1_000) as f64 / 1_000.0
}

/// Writes a document as one line.
async fn write(writer: &mut (impl AsyncWriteExt + Unpin), document: &Value) -> io::Result<()> {
    timeout(MAX_CLIENT_WAIT, writer.write_all(format!("{document}\n").as_bytes())).await?
}
