//! `dnsdyno auth`: the AuthDNS as a server.

mod args;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ::auth::{AaaaPolicy, Auth, AuthConfig, AuthCounters, Fault, FaultSpec};
use anyhow::{Context, anyhow};
use engine::{SocketId, WaitMode, drive};
use streams::http::{ALPN_H2, ALPN_H3};
use streams::serve;
use streams::tcp;
use streams::tcp::{Carried, Listener};
use streams::tls::ALPN_DOQ;
use streams::tls::{ALPN_DOT, Authority, Identity, ServerTls, TlsError};
use udp::{UdpEngine, UdpOptions, sys};
use wire::Namespace;

use self::args::AaaaArg;
pub(crate) use self::args::{AuthArgs, EXAMPLES};
use crate::failure::Failure;
use crate::process::interruption;

/// Connections over TCP and TLS at once: as many clients as a load may have.
const MAX_CONNECTIONS: usize = 100_000;

/// A connection may be without a query for so long: many clients ask seldom.
const IDLE: Duration = Duration::from_secs(300);
/// So often a free port is looked for.
const PORT_ATTEMPTS: u32 = 16;

/// A running AuthDNS: its workers and its TCP thread.
pub(crate) struct Server {
    addresses: Vec<SocketAddr>,
    /// Where TLS, HTTPS and QUIC are spoken, with their names.
    private: Vec<(SocketAddr, &'static str)>,
    stop: Arc<AtomicBool>,
    workers: Vec<JoinHandle<anyhow::Result<AuthCounters>>>,
    tcp: JoinHandle<std::io::Result<()>>,
}

impl Server {
    /// Binds all sockets, then starts one worker on each of `cpus` (one anywhere without any).
    ///
    /// # Errors
    /// An address that cannot be bound, named.
    pub(crate) fn start(
        config: &AuthConfig,
        listen: &[SocketAddr],
        cpus: Option<&[usize]>,
        wait: WaitMode,
        options: UdpOptions,
        private: &[Private],
        stop: Arc<AtomicBool>,
    ) -> anyhow::Result<Self> {
        config.validate()?;
        let cpus: Vec<Option<usize>> =
            cpus.map_or(vec![None], |cpus| cpus.iter().copied().map(Some).collect());
        let share_port = cpus.len() > 1;
        // The first worker takes free ports where port 0 is asked for; TCP and the others join it.
        let (first, addresses, plain) = free_ports(listen, share_port, options)?;
        let mut engines = vec![first];
        for _ in 1..cpus.len() {
            engines.push(UdpEngine::server(&addresses, true, options)?);
        }
        let (mut listeners, mut addresses_private) = (Vec::new(), Vec::new());
        listeners.extend(plain.into_iter().map(Listener::Tcp));
        for private in private {
            let (address, more) = private.listen()?;
            addresses_private.push((address, private.name));
            listeners.extend(more);
        }
        let workers = engines
            .into_iter()
            .zip(Auth::workers(config, cpus.len()))
            .zip(cpus)
            .map(|((mut engine, mut auth), cpu)| {
                let stop = stop.clone();
                std::thread::spawn(move || {
                    if let Some(cpu) = cpu {
                        sys::pin_to_cpus(&[cpu]).context("--cpus")?;
                    }
                    sys::prepare_for_timing();
                    drive(&mut engine, &mut auth, wait, &stop)?;
                    Ok(auth.counters())
                })
            })
            .collect();
        let limits = tcp::TcpLimits {
            connections: MAX_CONNECTIONS,
            idle: IDLE,
            ..tcp::TcpLimits::default()
        };
        let tcp = {
            let (mut auth, stop) = (Auth::new(config.clone()), stop.clone());
            let tenths = u16::try_from(IDLE.as_millis() / 100).ok();
            let answer = move |message: &[u8], carried: Carried, reply: &mut Vec<u8>| {
                let idle = tenths.filter(|_| carried == Carried::Frame);
                auth.answer_stream(message, idle, reply);
            };
            std::thread::spawn(move || {
                tcp::serve(listeners, limits, answer, move || stop.load(Ordering::Relaxed))
            })
        };
        Ok(Server { addresses, private: addresses_private, stop, workers, tcp })
    }

    /// Where it listens.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Ends it when set.
    pub(crate) fn stop_flag(&self) -> &Arc<AtomicBool> {
        &self.stop
    }

    /// Whether a worker has ended by itself: something is wrong.
    fn has_failed(&self) -> bool {
        self.workers.iter().any(JoinHandle::is_finished)
    }

    /// Waits for the end; what the workers counted.
    ///
    /// # Errors
    /// What a worker could not mend.
    pub(crate) fn join(self) -> anyhow::Result<AuthCounters> {
        let mut sum = AuthCounters::default();
        for worker in self.workers {
            sum.merge(&worker.join().map_err(|_| anyhow!("a worker panicked"))??);
        }
        self.tcp.join().map_err(|_| anyhow!("the TCP thread panicked"))??;
        Ok(sum)
    }
}

/// Binds UDP and, on the same ports, TCP.
///
/// # Errors
/// An address that cannot be bound, named.
fn free_ports(
    listen: &[SocketAddr],
    share_port: bool,
    options: UdpOptions,
) -> anyhow::Result<(UdpEngine, Vec<SocketAddr>, Vec<TcpListener>)> {
    // A port that UDP finds free may be taken for TCP.
    let mut attempts = if listen.iter().any(|a| a.port() == 0) { PORT_ATTEMPTS } else { 1 };
    loop {
        let engine = UdpEngine::server(listen, share_port, options)?;
        let addresses: Vec<SocketAddr> = (0..listen.len())
            .map(|i| engine.local_address(SocketId(i as u16)))
            .collect::<Result<_, _>>()?;
        attempts -= 1;
        match addresses.iter().map(|address| tcp::listen(*address)).collect() {
            Ok(plain) => return Ok((engine, addresses, plain)),
            Err(error) if attempts == 0 => return Err(error.into()),
            Err(_) => {}
        }
    }
}

/// An address where a private transport is spoken, and what is shown there.
pub(crate) struct Private {
    name: &'static str,
    address: SocketAddr,
    /// Over TCP.
    tcp: Option<ServerTls>,
    /// Over UDP.
    quic: Option<ServerTls>,
}

impl Private {
    /// Where it listens, and with what.
    fn listen(&self) -> anyhow::Result<(SocketAddr, Vec<Listener>)> {
        // As for `free_ports`.
        let attempts = if self.address.port() == 0 { PORT_ATTEMPTS } else { 1 };
        let mut tries = (0..attempts).map(|_| self.listen_once());
        tries.find(Result::is_ok).unwrap_or_else(|| self.listen_once())
    }

    fn listen_once(&self) -> anyhow::Result<(SocketAddr, Vec<Listener>)> {
        let (mut address, mut listeners) = (self.address, Vec::new());
        if let Some(tls) = &self.tcp {
            let socket = tcp::listen(address)?;
            address = socket.local_addr()?;
            listeners.push(Listener::Tls(socket, tls.clone()));
        }
        if let Some(tls) = &self.quic {
            let socket = serve::listen(address)?;
            address = socket.local_addr()?;
            listeners.push(Listener::Quic(socket, tls.clone()));
        }
        Ok((address, listeners))
    }
}

/// Where TLS, HTTPS and QUIC are spoken, and what is shown there: the certificate given, or one of an
/// authority that is made for it and written into a folder.
fn private(args: &AuthArgs) -> Result<Vec<Private>, TlsError> {
    let addresses = || args.tls.iter().chain(&args.https).chain(&args.quic);
    if addresses().next().is_none() {
        return Ok(Vec::new());
    }
    let identity = match (&args.tls_certificate, &args.tls_key) {
        (Some(certificate), Some(key)) => Identity::read(certificate, key)?,
        _ => own_identity(args, addresses().map(|address| address.ip().to_string()))?,
    };
    let shown = |alpn| ServerTls::new(identity.clone(), alpn, args.tls_early_data);
    let (dot, h2) = (shown(&[ALPN_DOT])?, shown(&[ALPN_H2])?);
    let (doq, h3) = (shown(&[ALPN_DOQ])?, shown(&[ALPN_H3])?);
    let spoken =
        |name, addresses: &[SocketAddr], tcp: Option<&ServerTls>, quic: Option<&ServerTls>| {
            let (tcp, quic) = (tcp.cloned(), quic.cloned());
            let private =
                |&address| Private { name, address, tcp: tcp.clone(), quic: quic.clone() };
            addresses.iter().map(private).collect::<Vec<_>>()
        };
    let mut all = spoken("TLS", &args.tls, Some(&dot), None);
    let h3 = cfg!(feature = "quic").then_some(&h3);
    all.extend(spoken("HTTPS", &args.https, Some(&h2), h3));
    all.extend(spoken("QUIC", &args.quic, None, Some(&doq)));
    Ok(all)
}

/// A certificate for the addresses that TLS is spoken on.
fn own_identity(
    args: &AuthArgs,
    addresses: impl Iterator<Item = String>,
) -> Result<Identity, TlsError> {
    let addresses: Vec<String> = addresses.collect();
    let names: Vec<&str> = addresses.iter().map(String::as_str).chain(["localhost"]).collect();
    let authority = Authority::new()?;
    match &args.tls_write {
        None => authority.identity(&names),
        Some(dir) => {
            authority.write(dir, &names)?;
            Identity::read(&dir.join("server.pem"), &dir.join("server.key"))
        }
    }
}

pub(crate) fn run(args: AuthArgs) -> Result<(), Failure> {
    let namespace = Namespace::new(args.namespace, args.zone).map_err(Failure::input)?;
    let aaaa = match (args.aaaa_share, args.aaaa) {
        (Some(share), _) => AaaaPolicy::Share(share),
        (None, AaaaArg::Always) => AaaaPolicy::Always,
        (None, AaaaArg::Never) => AaaaPolicy::Never,
    };
    let duplicate = args.duplicate.map(|share| FaultSpec { fault: Fault::Duplicate, share });
    let config = AuthConfig {
        pref64: args.pref64,
        aaaa,
        ttl: args.ttl,
        negative_ttl: args.negative_ttl,
        soa_ttl: args.soa_ttl,
        delay: args.delay,
        latency: args.latency,
        late: args.late,
        capacity: args.capacity,
        stall: args.stall,
        loss: args.loss,
        faults: args.fault.iter().copied().chain(duplicate).collect(),
        ..AuthConfig::new(namespace)
    };
    config.validate().map_err(Failure::input)?;
    sys::raise_open_files();
    let stop = interruption()?;
    let options = UdpOptions {
        gso: !args.no_gso,
        gro: !args.no_gro,
        // A capacity and a delay count from the arrival of a query, even if the worker comes to it later.
        timestamps: config.is_timed(),
        ..UdpOptions::default()
    };
    let cpus = args.cpus.as_ref().map(|list| list.cpus());
    let private = private(&args).map_err(Failure::input)?;
    let server = Server::start(
        &config,
        &args.listen,
        cpus,
        tester::wait_mode(args.wait.into()),
        options,
        &private,
        stop.clone(),
    )
    .map_err(Failure::Failed)?;
    let listening: Vec<String> = server.addresses().iter().map(ToString::to_string).collect();
    let private: String =
        server.private.iter().map(|(address, name)| format!(", {address} ({name})")).collect();
    println!(
        "ready: {} on {} (UDP and TCP){private}",
        config.namespace.prefix(),
        listening.join(", ")
    );
    let began = Instant::now();
    let limit = args.duration.map(Duration::from);
    while !stop.load(Ordering::Relaxed)
        && !server.has_failed()
        && limit.is_none_or(|limit| began.elapsed() < limit)
    {
        std::thread::sleep(Duration::from_millis(20));
    }
    stop.store(true, Ordering::Relaxed);
    let c = server.join().map_err(Failure::Failed)?;
    println!(
        "{} queries: {} answers, {} without data, {} NXDOMAIN, {} errors, {} ignored; {} faults, {} late, {} over the capacity, {} over the limit",
        c.queries,
        c.answers,
        c.nodata,
        c.nxdomain,
        c.errors,
        c.ignored,
        c.faults,
        c.late,
        c.over_capacity,
        c.overflow
    );
    Ok(())
}
