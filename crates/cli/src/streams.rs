//! A trial over connections: the clients' threads, one worker to a core, and what they bring home.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Barrier, OnceLock};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use engine::stream::{Failure, Mix};
use engine::{WaitMode, clock};
use load::{ClientPlan, Clients, ConnectionTally, Live, Plan, Population};
use measure::{Nanos, Pacing, Qps, Transport, Warning};
use record::{Connections, Times};
use streams::StreamEngine;
use streams::client::{Bytes, Carriage, Dialer, TlsDialer};
use streams::http::{Method, Resource};
use streams::tls::{ClientTls, TlsVersion, Verify};
use udp::{UdpFacts, sys};

use crate::args::{CloseArg, HttpMethodArg, LoadArgs, MixPart, PickArg, StreamArgs, TlsVersionArg};
use crate::options::WorkloadPlan;
use crate::tester::{Report, START_DELAY};

/// Queries outstanding over all connections of an open loop, by default.
const OUTSTANDING: u32 = 1 << 16;

/// Files that are open beside connections: standard streams, timers, a log.
const OTHER_FILES: u64 = 64;

/// The largest block that queries are padded to, bytes.
const MAX_PADDING: u16 = 512;

/// Checked: what connections carry the queries.
#[derive(Clone, Debug)]
pub(crate) struct StreamSetup {
    transports: Vec<MixPart>,
    dialers: Vec<Dialer>,
    mix: Mix,
    clients: u32,
    queries_per_connection: Option<u64>,
    outstanding: u32,
    opening: u32,
    connection_rate: Option<Qps>,
    open_first: bool,
    population: Population,
}

/// What the connections of one worker, or of all, were.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamReport {
    /// Of each transport.
    tallies: Vec<ConnectionTally>,
    bytes: Bytes,
}

impl StreamReport {
    pub(crate) fn merge(&mut self, other: &StreamReport) {
        self.tallies.resize_with(self.tallies.len().max(other.tallies.len()), Default::default);
        self.tallies.iter_mut().zip(&other.tallies).for_each(|(a, b)| a.merge(b));
        self.bytes.merge(&other.bytes);
    }

    /// Of all transports.
    fn tally(&self) -> ConnectionTally {
        let mut all = ConnectionTally::default();
        self.tallies.iter().for_each(|tally| all.merge(tally));
        all
    }
}

impl StreamSetup {
    /// Makes sense of the arguments; `None` for UDP whose clients nobody wants to tell apart.
    ///
    /// # Errors
    /// Arguments that go with another transport, numbers out of their range, files that cannot be read.
    pub(crate) fn new(
        args: &LoadArgs,
        target: SocketAddr,
        pacing: Pacing,
    ) -> anyhow::Result<Option<Self>> {
        let streams = &args.streams;
        let transports = streams.parts();
        check(streams, &transports)?;
        if !streams.wants_clients()
            && transports.iter().all(|part| part.transport == Transport::Udp)
        {
            return Ok(None);
        }
        if let Pacing::LockStep { .. } = pacing {
            bail!("--pacing lockstep is dns64perf's, which is over UDP; use --pacing window");
        }
        let clients = streams.clients.unwrap_or(8);
        if clients == 0 || streams.queries_per_connection == Some(0) {
            bail!("--clients and --queries-per-connection are 1 at least");
        }
        let workers = args.sockets.workers().len() as u32;
        let least = workers.max(transports.len() as u32);
        if clients < least {
            bail!(
                "{clients} clients for {workers} workers and {} transports: give each one at least",
                transports.len()
            );
        }
        let dialer = |part: &MixPart| {
            let mut target = target;
            part.port.into_iter().for_each(|port| target.set_port(port));
            dialer(args, part.transport, target)
        };
        let most = load::pipeline::MAX_OUTSTANDING;
        let outstanding = match (streams.outstanding, pacing) {
            (Some(n), _) if n == 0 || n > most => bail!("--outstanding {n}: 1 to {most}"),
            (Some(n), _) => n,
            (None, Pacing::Window { outstanding }) => outstanding.div_ceil(clients).min(most),
            (None, _) => (OUTSTANDING / clients).clamp(32, 1_024),
        };
        Ok(Some(StreamSetup {
            dialers: transports.iter().map(dialer).collect::<anyhow::Result<_>>()?,
            mix: Mix::new(&transports.iter().map(|part| part.share).collect::<Vec<_>>())
                .context("--transports: shares are 1 at least, 1000 together at most")?,
            transports,
            clients,
            queries_per_connection: streams.queries_per_connection,
            outstanding,
            opening: streams.opening.max(workers),
            connection_rate: streams.connection_rate,
            open_first: streams.queries_per_connection.is_none()
                && streams.close_idle.is_none()
                && !streams.on_demand,
            population: population(streams)?,
        }))
    }

    /// How many workers it takes: a thread may have so many files open, and a connection of TCP is one.
    pub(crate) fn least_workers(&self, open_files: u64) -> usize {
        if self.transports.iter().all(|part| part.transport.uses_quic()) {
            return 1;
        }
        let each = open_files.saturating_sub(OTHER_FILES).max(1);
        u64::from(self.clients).div_ceil(each).min(u64::from(self.clients)) as usize
    }

    /// The share of `worker` among `workers`.
    fn plan(&self, plan: Plan) -> ClientPlan {
        let (worker, workers) = (plan.worker, plan.workers);
        let share_of = |worker: u32, n: u32| n / workers + u32::from(worker < n % workers);
        let share = |n| share_of(worker, n);
        let rate = self.connection_rate.map(|rate| rate.get() / f64::from(workers));
        ClientPlan {
            clients: share(self.clients),
            queries_per_connection: self.queries_per_connection,
            outstanding: self.outstanding,
            opening: share(self.opening).max(1),
            connection_rate: rate.and_then(Qps::new),
            population: self.population.clone(),
            first_client: (0..worker).map(|w| share_of(w, self.clients)).sum(),
            mix: self.mix.clone(),
            no_keepalive: self.transports.iter().map(|part| !part.transport.is_framed()).collect(),
            plan,
        }
    }

    /// The clients of a worker.
    ///
    /// # Errors
    /// What is wrong with the workload.
    pub(crate) fn clients(
        &self,
        workload: &WorkloadPlan,
        plan: Plan,
        live: Arc<Live>,
    ) -> anyhow::Result<Clients> {
        let workload = workload.worker(plan.worker, plan.workers)?;
        Ok(Clients::new(self.plan(plan), workload, live, self.open_first))
    }

    /// What stands for the sockets in the record's conditions.
    pub(crate) fn facts(&self, workers: usize) -> UdpFacts {
        UdpFacts { sockets: self.clients as usize / workers, ..UdpFacts::default() }
    }

    /// The transport, or all of a mix with their shares.
    pub(crate) fn describe(&self) -> String {
        let share = |part: &MixPart| format!("{}={}", part.transport.word(), part.share);
        match &self.transports[..] {
            [one] => one.transport.word().to_owned(),
            more => more.iter().map(share).collect::<Vec<_>>().join(","),
        }
    }

    /// The record of the connections.
    pub(crate) fn record(&self, report: &StreamReport) -> Connections {
        let all = self.record_of(self.clients, &report.tally(), &report.bytes);
        if self.transports.len() == 1 {
            return all;
        }
        let clients = |kind| (0..self.clients).filter(|&k| self.mix.kind(k) == kind).count() as u32;
        let parts = self.transports.iter().zip(&report.tallies).enumerate();
        let by_transport = parts.map(|(kind, (part, tally))| {
            let record = self.record_of(clients(kind), tally, &Bytes::default());
            (part.transport.word().to_owned(), record)
        });
        Connections { by_transport: by_transport.collect(), ..all }
    }

    fn record_of(&self, clients: u32, t: &ConnectionTally, bytes: &Bytes) -> Connections {
        let failed = Failure::ALL.iter().zip(t.failed).filter(|(_, count)| *count > 0);
        Connections {
            clients,
            queries_per_connection: self.queries_per_connection,
            outstanding: self.outstanding,
            attempts: t.attempts,
            established: t.established,
            resumed: t.resumed,
            resumption_rate: t.resumed as f64 / t.established.max(1) as f64,
            early_data: t.early_data,
            completed: t.completed,
            closed_idle: t.closed_idle,
            closed_by_server: t.closed_by_peer,
            failed: failed.map(|(why, count)| (why.reason().to_owned(), count)).collect(),
            slow: t.slow,
            lost_with_connection: t.lost_with_connection,
            unserved: t.unserved,
            peak: t.peak,
            open_at_end: t.open_at_end,
            connect_us: Times::from(&t.connect),
            handshake_us: Times::from(&t.handshake),
            first_query_us: Times::from(&t.first_query),
            steady_us: Times::from(&t.steady),
            bytes_sent: bytes.sent,
            bytes_received: bytes.received,
            writes: bytes.writes,
            reads: bytes.reads,
            by_transport: Default::default(),
        }
    }

    /// Doubts about the connections of a trial.
    pub(crate) fn warnings(&self, report: &StreamReport) -> Vec<Warning> {
        let tally = report.tally();
        let warning: [(Failure, fn(u64) -> Warning); 4] = [
            (Failure::Refused, |connections| Warning::ConnectionsRefused { connections }),
            (Failure::NoPort, |connections| Warning::NoPorts { connections }),
            (Failure::NoFile, |connections| Warning::NoFiles { connections }),
            (Failure::BadCertificate, |connections| Warning::BadCertificate { connections }),
        ];
        let failed = warning.map(|(why, warning)| (tally.failed[why.index()], warning));
        failed.into_iter().filter(|(n, _)| *n > 0).map(|(n, warning)| warning(n)).collect()
    }
}

/// Who the clients are.
fn population(streams: &StreamArgs) -> anyhow::Result<Population> {
    let padding = streams.pad.unwrap_or(0);
    if padding > MAX_PADDING {
        bail!("--pad {padding}: at most {MAX_PADDING}");
    }
    Ok(Population {
        random_order: streams.pick == Some(PickArg::Chance),
        close_idle: streams.close_idle,
        cookies: streams.cookies,
        subnets: streams.subnets.map(|source| source.networks()),
        keepalive: streams.keepalive,
        padding,
    })
}

/// Refuses what goes with none of the transports, or not with one of them.
fn check(streams: &StreamArgs, transports: &[MixPart]) -> anyhow::Result<()> {
    let any = |has: fn(Transport) -> bool| transports.iter().any(|part| has(part.transport));
    if let Some(flag) = streams.first_tls_flag()
        && !any(Transport::uses_tls)
    {
        bail!("{flag} goes with --transport {}", Transport::words(Transport::uses_tls));
    }
    if let Some(flag) = streams.first_http_flag()
        && !any(Transport::uses_http)
    {
        bail!("{flag} goes with --transport {}", Transport::words(Transport::uses_http));
    }
    if streams.fast_open && !any(Transport::uses_tcp) {
        bail!("--fast-open goes with --transport {}", Transport::words(Transport::uses_tcp));
    }
    if streams.keepalive && !any(Transport::is_framed) {
        bail!(
            "--keepalive goes with --transport {}: the others have no such option (RFC 7828, RFC 9250 section 5.5.2)",
            Transport::words(Transport::is_framed)
        );
    }
    if streams.proxy.is_some() && any(Transport::uses_quic) {
        bail!(
            "--proxy goes with --transport {}: no server takes the PROXY protocol in front of QUIC's packets",
            Transport::words(|t| !t.uses_quic())
        );
    }
    if streams.tls_version == Some(TlsVersionArg::V12) && any(Transport::uses_quic) {
        bail!("--tls-version 1.2: QUIC has TLS 1.3 only");
    }
    Ok(())
}

/// How connections come to be.
fn dialer(args: &LoadArgs, transport: Transport, target: SocketAddr) -> anyhow::Result<Dialer> {
    let streams = &args.streams;
    let sources: Vec<IpAddr> =
        args.sockets.source.map_or(Vec::new(), |source| source.addresses(usize::MAX));
    if let Some(first) = sources.first()
        && first.is_ipv4() != target.is_ipv4()
    {
        bail!("--source {first} and the target {target} are of different families");
    }
    let mut dialer = Dialer::tcp(target);
    dialer.sources = sources;
    dialer.timeout = Duration::from(streams.connect_timeout);
    dialer.fast_open = streams.fast_open && transport.uses_tcp();
    dialer.reset = streams.close == CloseArg::Reset;
    dialer.max_message = usize::from(streams.max_reply);
    if transport.uses_tls() {
        dialer.tls = Some(tls(streams, transport, target)?);
    }
    dialer.carriage = carriage(streams, transport, target)?;
    dialer.proxied = streams.proxy.map_or(Vec::new(), |clients| clients.addresses(usize::MAX));
    dialer.proxied_within = streams.proxy_within_tls;
    Ok(dialer)
}

/// What carries messages on a connection.
fn carriage(
    streams: &StreamArgs,
    transport: Transport,
    target: SocketAddr,
) -> anyhow::Result<Carriage> {
    let name = streams.tls_name.as_ref().map_or_else(
        || if target.is_ipv4() { target.ip().to_string() } else { format!("[{}]", target.ip()) },
        String::clone,
    );
    let resource = Resource {
        authority: if target.port() == 443 { name } else { format!("{name}:{}", target.port()) },
        path: streams.http_path.clone().unwrap_or_else(|| streams::http::PATH.to_owned()),
        method: match streams.http_method {
            Some(HttpMethodArg::Get) => Method::Get,
            Some(HttpMethodArg::Post) | None => Method::Post,
        },
    };
    if transport.uses_http() && !resource.is_valid() {
        bail!("--http-path {}: no path of a URI; /dns-query is one", resource.path);
    }
    Ok(match transport {
        Transport::Udp => Carriage::Datagrams,
        Transport::Tcp | Transport::Tls => Carriage::Framed,
        Transport::Https => Carriage::Http2(resource),
        Transport::Quic => Carriage::Quic,
        Transport::Http3 => Carriage::Http3(resource),
    })
}

/// How TLS is spoken.
fn tls(
    streams: &StreamArgs,
    transport: Transport,
    target: SocketAddr,
) -> anyhow::Result<TlsDialer> {
    let early_data = streams.early_data;
    let asked = ClientTls {
        verify: streams.ca.clone().map_or(Verify::Nothing, Verify::Authorities),
        version: match streams.tls_version {
            None => TlsVersion::Any,
            Some(TlsVersionArg::V12) => TlsVersion::V12,
            Some(TlsVersionArg::V13) => TlsVersion::V13,
        },
        alpn: match &streams.alpn {
            None => vec![alpn(transport).to_vec()],
            Some(text) => {
                text.split(',').filter(|p| !p.is_empty()).map(|p| p.as_bytes().to_vec()).collect()
            }
        },
        sessions: if streams.resume || early_data { OUTSTANDING as usize } else { 0 },
        early_data,
    };
    let name = streams.tls_name.clone().unwrap_or_else(|| target.ip().to_string());
    let name = name
        .clone()
        .try_into()
        .map_err(|_| anyhow!("--tls-name {name}: neither a host name nor an address"))?;
    TlsDialer::new(&asked, name).context("--ca")
}

/// The application protocol of a transport.
fn alpn(transport: Transport) -> &'static [u8] {
    match transport {
        Transport::Udp | Transport::Tcp | Transport::Tls => streams::tls::ALPN_DOT,
        Transport::Https => streams::http::ALPN_H2,
        Transport::Quic => streams::tls::ALPN_DOQ,
        Transport::Http3 => streams::http::ALPN_H3,
    }
}

/// One worker's thread.
pub(crate) fn worker(
    streams: &StreamSetup,
    clients: Clients,
    cpu: Option<usize>,
    wait: WaitMode,
    (barrier, start): (&Barrier, &OnceLock<Nanos>),
    stop: &AtomicBool,
) -> anyhow::Result<Report> {
    let prepared = prepare(streams, clients, cpu, stop);
    // All come here, whatever befell them: the others wait.
    barrier.wait();
    let mut engine = prepared?;
    let start = *start.get_or_init(|| clock::monotonic() + START_DELAY);
    engine.role(|clients| clients.begin(start));
    let (began, cpu_before, delay_before) =
        (clock::monotonic(), clock::thread_cpu_time(), sys::thread_run_delay());
    engine.drive(wait, stop)?;
    let run_delay =
        sys::thread_run_delay().zip(delay_before).map(|(after, before)| after.since(before));
    let (cpu, elapsed) =
        (clock::thread_cpu_time().since(cpu_before), clock::monotonic().since(began));
    let bytes = engine.bytes();
    let result = engine.into_role().into_result();
    Ok(Report {
        tally: result.tally,
        times: Vec::new(),
        counters: engine::EngineCounters::default(),
        cpu,
        run_delay,
        elapsed,
        streams: Some(StreamReport { tallies: result.connections, bytes }),
    })
}

/// An engine on its core, its connections open if they are to be.
fn prepare(
    streams: &StreamSetup,
    clients: Clients,
    cpu: Option<usize>,
    stop: &AtomicBool,
) -> anyhow::Result<StreamEngine<Clients>> {
    if let Some(cpu) = cpu {
        sys::pin_to_cpus(&[cpu]).context("--cpus")?;
    }
    sys::prepare_for_timing();
    if streams.least_workers(sys::open_files()) > 1 {
        sys::own_open_files().context("a worker's own table of open files")?;
    }
    let connections = streams.clients as usize;
    let mut engine =
        StreamEngine::new(streams.dialers.clone(), streams.mix.clone(), connections, clients)?;
    if streams.open_first {
        engine.drive(WaitMode::Sleep, stop)?;
    }
    Ok(engine)
}
