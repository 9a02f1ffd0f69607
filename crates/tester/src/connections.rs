//! A trial over connections: the threads of the clients, one worker on each core, and their results.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use engine::stream::{Failure, MAX_SHARES, Mix};
use engine::{EngineCounters, WaitMode};
use ipnet::IpNet;
use load::{ClientPlan, ClientReplay, Clients, ConnectionTally, Live, Plan, Population};
use measure::{Nanos, Pacing, Qps, Slice, Transport, Warning};
use record::request::{Close, Connecting, Http, Pick, Tls, TransportShare, Workload};
use record::{Connections, Times, TrialRequest};
use streams::StreamEngine;
use streams::client::{Bytes, Carriage, Dialer, StreamCounts, TlsDialer};
use streams::http::{self, Resource};
use streams::tls::{ALPN_DOQ, ALPN_DOT, ClientTls, Verify};
use udp::{UdpFacts, sys};

use crate::connection_check::{check, check_numbers};
use crate::error::{Invalid, TesterError};
use crate::failures;
use crate::local_server::own_drops;
use crate::shares::{MOST_OF_CLIENT, room_in_open_loop, room_in_window, share_of};
use crate::sockets::{addresses, networks, workers};
use crate::worker::{Report, Start, WorkerTimes};
use crate::workload::WorkloadPlan;

/// Largest number of TLS sessions that are kept to be resumed.
const MAX_SESSIONS: usize = 1 << 16;

/// Number of open files other than connections: standard streams, timers, a log.
const OTHER_FILES: u64 = 64;

/// Checked settings of the connections that carry the queries.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionSetup {
    transports: Vec<TransportShare>,
    dialers: Vec<Dialer>,
    mix: Mix,
    pub(crate) clients: u32,
    pub(crate) queries_per_connection: Option<u64>,
    outstanding: u32,
    opening: u32,
    connection_rate: Option<Qps>,
    open_first: bool,
    population: Population,
    /// The kind of TCP connections for replies that are truncated over UDP.
    fallback: Option<usize>,
}

/// Results of the connections of one worker or of all workers.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectionReport {
    /// Tally of each transport, in the order of the request.
    tallies: Vec<ConnectionTally>,
    bytes: Bytes,
    streams: StreamCounts,
}

impl ConnectionReport {
    pub(crate) fn merge(&mut self, other: &ConnectionReport) {
        self.tallies.resize_with(self.tallies.len().max(other.tallies.len()), Default::default);
        self.tallies.iter_mut().zip(&other.tallies).for_each(|(a, b)| a.merge(b));
        self.bytes.merge(&other.bytes);
        self.streams.merge(&other.streams);
    }

    /// Returns the tally over all transports.
    fn tally(&self) -> ConnectionTally {
        let mut all = ConnectionTally::default();
        self.tallies.iter().for_each(|tally| all.merge(tally));
        all
    }
}

impl ConnectionSetup {
    /// Checks the connections of a request.
    ///
    /// # Errors
    /// With the field that needs another transport, has a number out of range, or names an unreadable file.
    pub(crate) fn new(request: &TrialRequest, connecting: &Connecting) -> Result<Self, Invalid> {
        check(connecting)?;
        let clients = connecting.clients;
        let (transports, fallback) = with_fallback(connecting);
        let workers = workers(&request.sockets).len() as u32;
        let sources = request.sockets.source.map_or(1, |from| addresses(from, usize::MAX).len());
        check_numbers(connecting, workers, sources)?;
        let dialer = |part: &TransportShare| {
            let mut target = request.target;
            part.port.into_iter().for_each(|port| target.set_port(port));
            let (sources, timeout) = (request.sockets.source, request.timeout);
            dialer(connecting, part.transport, target, sources, timeout)
        };
        let replayed = matches!(request.workload, Workload::Replay { .. });
        let outstanding = match (connecting.outstanding, request.pacing.outstanding()) {
            (Some(n), Some(window)) if n < window.div_ceil(clients) => {
                let needed = window.div_ceil(clients);
                let why = format!("a window of {window} on {clients} clients needs {needed}");
                return Err(Invalid::value("engine.streams.outstanding", why));
            }
            (Some(n), _) => n,
            // Each client has room for its outstanding queries in the file.
            (None, None) if replayed => MOST_OF_CLIENT,
            (None, Some(window)) => {
                room_in_window(window, clients, request.slice.workers(workers), connecting.pick)?
            }
            (None, None) => room_in_open_loop(clients),
        };
        let shares: Vec<u32> = connecting.transports.iter().map(|part| part.share).collect();
        let mix = Mix::new(&shares).ok_or_else(|| {
            let why = format!("each share is at least 1, their sum at most {MAX_SHARES}");
            Invalid::value("engine.streams.transports", why)
        })?;
        Ok(ConnectionSetup {
            dialers: transports.iter().map(dialer).collect::<Result<_, _>>()?,
            mix,
            transports,
            clients,
            queries_per_connection: connecting.queries_per_connection,
            outstanding,
            opening: connecting.opening.max(workers),
            connection_rate: connecting.connection_rate,
            open_first: connecting.queries_per_connection.is_none()
                && connecting.close_idle.is_none()
                && !connecting.on_demand
                && !replayed,
            population: population(connecting),
            fallback,
        })
    }

    /// Returns whether some of the clients send datagrams, which have no flow control.
    pub(crate) fn has_datagrams(&self) -> bool {
        self.transports.iter().any(|part| part.transport == Transport::Udp)
    }

    /// Returns whether some of the clients have streams, which drop no query.
    pub(crate) fn has_streams(&self) -> bool {
        self.transports.iter().any(|part| part.transport != Transport::Udp)
    }

    /// Returns the least number of workers: a thread may have `open_files` open files, and a TCP connection is one.
    pub(crate) fn least_workers(&self, open_files: u64) -> usize {
        if self.transports.iter().all(|part| part.transport.uses_quic()) {
            return 1;
        }
        let each = open_files.saturating_sub(OTHER_FILES).max(1);
        let files = u64::from(self.clients) * if self.fallback.is_some() { 2 } else { 1 };
        files.div_ceil(each).min(u64::from(self.clients)) as usize
    }

    /// Returns the share of `worker` among `workers`.
    fn plan(&self, plan: Plan) -> ClientPlan {
        let (worker, workers) = (plan.worker, plan.workers);
        let share = |n| share_of(worker, workers, n);
        let own = self.clients_of(worker, workers);
        let rate = self.connection_rate.map(|rate| rate.get() / f64::from(workers));
        ClientPlan {
            clients: own.len() as u32,
            queries_per_connection: self.queries_per_connection,
            outstanding: self.outstanding,
            opening: share(self.opening).max(1),
            connection_rate: rate.and_then(Qps::new),
            population: self.population.clone(),
            first_client: own.start,
            mix: match self.fallback {
                Some(kind) => self.mix.with_companions(own.len() as u32, kind),
                None => self.mix.clone(),
            },
            no_keepalive: self.transports.iter().map(|part| !part.transport.is_framed()).collect(),
            plan,
        }
    }

    /// Returns the numbers of the clients of `worker` among `workers`.
    fn clients_of(&self, worker: u32, workers: u32) -> Range<u32> {
        let first = (0..worker).map(|w| share_of(w, workers, self.clients)).sum();
        first..first + share_of(worker, workers, self.clients)
    }

    /// Makes the clients of a worker.
    ///
    /// # Errors
    /// If the workload is invalid.
    pub(crate) fn clients(
        &self,
        workload: &WorkloadPlan,
        plan: Plan,
        live: Arc<Live>,
    ) -> Result<Clients, Invalid> {
        if let WorkloadPlan::Replay(replay) = workload {
            let (recording, speed, loops) = (replay.recording.clone(), replay.speed, replay.loops);
            let replay = ClientReplay { recording, speed, loops };
            return Ok(Clients::replaying(self.plan(plan), replay, live));
        }
        let workload = workload.worker(plan.worker, plan.workers)?;
        Ok(Clients::new(self.plan(plan), workload, live, self.open_first))
    }

    /// Returns the server's address of each transport.
    pub(crate) fn targets(&self) -> Vec<SocketAddr> {
        self.dialers.iter().map(|dialer| dialer.target).collect()
    }

    /// Returns the socket facts for the conditions of the record.
    pub(crate) fn facts(&self, slice: Slice, workers: usize) -> UdpFacts {
        let clients = slice.share(self.clients.into()) as usize;
        UdpFacts { sockets: clients / workers, ..UdpFacts::default() }
    }

    /// Describes the transport, or all of a mix with their shares.
    pub(crate) fn describe(&self) -> String {
        let share = |part: &TransportShare| format!("{}={}", part.transport.word(), part.share);
        // TCP for truncated replies has no share.
        let parts: Vec<_> = self.transports.iter().filter(|part| part.share > 0).collect();
        match &parts[..] {
            [one] => one.transport.word().to_owned(),
            more => more.iter().map(|part| share(part)).collect::<Vec<_>>().join(","),
        }
    }

    /// Makes the record of the connections of a slice with `workers` workers.
    pub(crate) fn record(
        &self,
        report: &ConnectionReport,
        slice: Slice,
        workers: u32,
    ) -> Connections {
        // The number of a client within its worker decides its kind.
        let own: Vec<u32> = (0..workers)
            .flat_map(|worker| {
                let clients = self.clients_of(slice.worker(worker), slice.workers(workers));
                0..clients.len() as u32
            })
            .collect();
        // A server needs no place for a port that sends datagrams.
        let unanswered = |(part, tally): (&TransportShare, &ConnectionTally)| {
            if part.transport == Transport::Udp { 0 } else { tally.unanswered }
        };
        let parts = self.transports.iter().zip(&report.tallies);
        let all = self.record_of(own.len() as u32, &report.tally(), &report.bytes);
        let StreamCounts { refused, waited } = report.streams;
        let all = Connections {
            unanswered: parts.clone().map(unanswered).sum(),
            streams_refused: refused,
            streams_waited: waited,
            ..all
        };
        if self.transports.len() == 1 {
            return all;
        }
        let clients = |kind| match own.iter().filter(|&&k| self.mix.kind(k) == kind).count() {
            0 => own.len() as u32,
            some => some as u32,
        };
        let by_transport = parts.enumerate().map(|(kind, (part, tally))| {
            let record = self.record_of(clients(kind), tally, &Bytes::default());
            let record = Connections { unanswered: unanswered((part, tally)), ..record };
            (part.transport.word().to_owned(), record)
        });
        Connections { by_transport: by_transport.collect(), ..all }
    }

    fn record_of(&self, clients: u32, t: &ConnectionTally, bytes: &Bytes) -> Connections {
        let failed = Failure::ALL.iter().zip(t.failed).filter(|(_, count)| *count > 0);
        let queries_failed = t.queries_failed.iter();
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
            failed: failed.map(|(why, count)| (why.word().to_owned(), count)).collect(),
            slow: t.slow,
            lost_with_connection: t.lost_with_connection,
            queries_failed: queries_failed
                .map(|(why, &count)| (why.reason().into_owned(), count))
                .collect(),
            turned_away: t.turned_away,
            resent: t.resent,
            asked_over_tcp: t.asked_over_tcp,
            streams_refused: 0,
            streams_waited: 0,
            unserved: t.unserved,
            peak: t.peak,
            open_at_end: t.open_at_end,
            unanswered: t.unanswered,
            served_peak: t.served_peak,
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

    /// Returns the warnings about the connections of a trial with this pacing.
    pub(crate) fn warnings(&self, report: &ConnectionReport, pacing: Pacing) -> Vec<Warning> {
        let is_tcp = |part: &TransportShare| part.transport.uses_tcp();
        let gap = match pacing {
            Pacing::Constant { rate }
                if self.transports.iter().all(is_tcp) && !self.population.random_order =>
            {
                Some(Nanos((f64::from(self.clients) / rate.get() * 1e9) as u64))
            }
            _ => None,
        };
        failures::warnings(&report.tally(), report.streams, gap)
    }
}

/// Returns the transports, with TCP for truncated replies over UDP if the request requires it, and
/// the kind of its connections.
fn with_fallback(connecting: &Connecting) -> (Vec<TransportShare>, Option<usize>) {
    let mut transports = connecting.transports.clone();
    if !connecting.tcp_fallback {
        return (transports, None);
    }
    let tcp = transports.iter().position(|part| part.transport == Transport::Tcp);
    let kind = tcp.unwrap_or(transports.len());
    if tcp.is_none() {
        let udp = transports.iter().find(|part| part.transport == Transport::Udp);
        let port = udp.and_then(|part| part.port);
        transports.push(TransportShare { transport: Transport::Tcp, port, share: 0 });
    }
    (transports, Some(kind))
}

/// Makes the population of clients.
fn population(connecting: &Connecting) -> Population {
    Population {
        random_order: connecting.pick == Pick::Chance,
        close_idle: connecting.close_idle,
        cookies: connecting.cookies,
        tcp_fallback: connecting.tcp_fallback,
        resends: connecting.resends,
        retry: connecting.retry,
        subnets: connecting.subnets.map(networks),
        keepalive: connecting.keepalive,
        padding: connecting.padding,
    }
}

/// Makes the dialer of single connections to `target`, whose queries have this timeout. `connecting` has this transport alone.
///
/// # Errors
/// If the transport does not have a field of `connecting`, or a field names an unreadable file; the error names the field.
pub fn dialer_alone(
    connecting: &Connecting,
    target: SocketAddr,
    timeout: Nanos,
) -> Result<Dialer, Invalid> {
    check(connecting)?;
    let transport = connecting.transports.first().map_or(Transport::Tcp, |part| part.transport);
    dialer(connecting, transport, target, None, timeout)
}

/// Makes the dialer of connections of a transport.
fn dialer(
    connecting: &Connecting,
    transport: Transport,
    target: SocketAddr,
    sources: Option<IpNet>,
    timeout: Nanos,
) -> Result<Dialer, Invalid> {
    let all = |prefix| addresses(prefix, usize::MAX);
    let mut dialer = Dialer::tcp(target);
    dialer.sources = sources.map_or_else(Vec::new, all);
    dialer.timeout = Duration::from(connecting.connect_timeout);
    dialer.fast_open = connecting.fast_open && transport.uses_tcp();
    dialer.reset = connecting.close == Close::Reset;
    dialer.write = connecting.write;
    dialer.query_timeout = Some(Duration::from(timeout));
    dialer.max_message = usize::from(connecting.max_reply);
    let (carriage, protocol) = carriage(connecting, transport, target)?;
    dialer.carriage = carriage;
    if transport.uses_tls() {
        let asked = connecting.tls.clone().unwrap_or_default();
        dialer.tls = Some(tls(&asked, protocol, target)?);
    }
    if let Some(proxy) = connecting.proxy {
        dialer.proxied = all(proxy.clients);
        dialer.proxied_within = proxy.within_tls;
    }
    Ok(dialer)
}

/// Returns the framing of a connection's messages, and the application protocol that TLS offers for
/// it.
fn carriage(
    connecting: &Connecting,
    transport: Transport,
    target: SocketAddr,
) -> Result<(Carriage, &'static [u8]), Invalid> {
    let resource = || resource(connecting, target);
    Ok(match transport {
        Transport::Udp => (Carriage::Datagrams, &[]),
        Transport::Tcp => (Carriage::Framed, &[]),
        Transport::Tls => (Carriage::Framed, ALPN_DOT),
        Transport::Https => (Carriage::Http2(resource()?), http::ALPN_H2),
        Transport::Quic => (Carriage::Quic, ALPN_DOQ),
        Transport::Http3 => (Carriage::Http3(resource()?), http::ALPN_H3),
    })
}

/// Returns the URI of HTTP requests.
fn resource(connecting: &Connecting, target: SocketAddr) -> Result<Resource, Invalid> {
    let Http { method, path } = connecting.http.clone().unwrap_or_default();
    let name = connecting.tls.as_ref().and_then(|tls| tls.name.clone()).unwrap_or_else(|| {
        if target.is_ipv4() { target.ip().to_string() } else { format!("[{}]", target.ip()) }
    });
    let resource = Resource {
        authority: if target.port() == 443 { name } else { format!("{name}:{}", target.port()) },
        path: path.unwrap_or_else(|| http::PATH.to_owned()),
        method,
    };
    if resource.is_valid() {
        return Ok(resource);
    }
    let why = format!("{}: not a path of a URI, such as /dns-query", resource.path);
    Err(Invalid::value("engine.streams.http.path", why))
}

/// Makes the TLS settings, with `protocol` if the request names none.
fn tls(tls: &Tls, protocol: &[u8], target: SocketAddr) -> Result<TlsDialer, Invalid> {
    let words = |all: &[String]| all.iter().map(|word| word.as_bytes().to_vec()).collect();
    let asked = ClientTls {
        verify: tls.ca.clone().map_or(Verify::Nothing, Verify::Authorities),
        version: tls.version,
        alpn: tls.alpn.as_deref().map_or_else(|| vec![protocol.to_vec()], words),
        sessions: if tls.resume || tls.early_data { MAX_SESSIONS } else { 0 },
        early_data: tls.early_data,
    };
    let name = tls.name.clone().unwrap_or_else(|| target.ip().to_string());
    let name = name.clone().try_into().map_err(|_| {
        let why = format!("{name}: neither a host name nor an address");
        Invalid::value("engine.streams.tls.name", why)
    })?;
    TlsDialer::new(&asked, name).map_err(|why| Invalid::value("engine.streams.tls.ca", why))
}

/// Runs the thread of one worker.
pub(crate) fn worker(
    streams: &ConnectionSetup,
    clients: Clients,
    cpu: Option<usize>,
    wait: WaitMode,
    start: &Start,
    stop: &AtomicBool,
) -> Result<Report, TesterError> {
    let prepared = prepare(streams, clients, cpu, stop);
    // Every worker reaches the barrier, also after an error: the others wait for it.
    start.wait();
    let mut engine = prepared?;
    let start = start.time(stop)?;
    engine.role(|clients| clients.begin(start));
    let before = WorkerTimes::now();
    let spun = engine.drive(wait, stop)?;
    let spent = WorkerTimes::since(before, spun);
    let (bytes, counts) = (engine.bytes(), engine.streams());
    let over_udp = |part: &TransportShare| !part.transport.uses_tcp();
    // Before the sockets are closed.
    let drops = match streams.transports.iter().any(over_udp) {
        true => own_drops(&streams.targets()),
        false => BTreeMap::new(),
    };
    let result = engine.into_role().into_result();
    Ok(Report {
        tally: result.tally,
        spans: Vec::new(),
        counters: EngineCounters::default(),
        drops,
        spent,
        connections: Some(ConnectionReport { tallies: result.connections, bytes, streams: counts }),
    })
}

/// Returns the dialer of a worker's clients: each has the address that belongs to its number among
/// the clients of all workers.
fn own_addresses(mut dialer: Dialer, clients: &Clients) -> Dialer {
    // A companion has the address of its client.
    let least = if clients.has_companions() { clients.count() } else { 0 };
    for addresses in [&mut dialer.sources, &mut dialer.proxied] {
        let number = |conn: usize| clients.number_of(conn as u32) as usize;
        let nth = |conn| addresses.get(number(conn) % addresses.len().max(1)).copied();
        *addresses = (0..addresses.len().max(least)).filter_map(nth).collect();
    }
    dialer
}

/// Makes an engine on its core, with open connections if the request requires them.
fn prepare(
    streams: &ConnectionSetup,
    clients: Clients,
    cpu: Option<usize>,
    stop: &AtomicBool,
) -> Result<StreamEngine<Clients>, TesterError> {
    if let Some(cpu) = cpu {
        sys::pin_to_cpus(&[cpu]).map_err(TesterError::io("--cpus"))?;
    }
    sys::prepare_for_timing();
    if streams.least_workers(sys::open_files()) > 1 {
        sys::own_open_files().map_err(TesterError::io("a worker's own table of open files"))?;
    }
    let dialers = streams.dialers.iter().map(|dialer| own_addresses(dialer.clone(), &clients));
    let (dialers, connections, mix) = (dialers.collect(), clients.count(), clients.mix().clone());
    let mut engine = StreamEngine::new(dialers, mix, connections, clients)?;
    if streams.open_first {
        engine.drive(WaitMode::Sleep, stop)?;
    }
    Ok(engine)
}
