//! `dnsdyno auth`: the AuthDNS as a server.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ::auth::{AaaaPolicy, Auth, AuthConfig, AuthCounters};
use anyhow::{Context, anyhow};
use net::tcp::Listener;
use net::tls::{ALPN_DOT, Authority, Identity, ServerTls, TlsError};
use net::{SocketId, UdpEngine, UdpOptions, WaitMode, drive, sys, tcp};
use wire::Namespace;

use crate::args::{AaaaArg, AuthArgs};
use crate::failure::Failure;
use crate::load::interruption;

/// Connections over TCP and TLS at once: as many clients as a load may have.
const MAX_CONNECTIONS: usize = 100_000;

/// So often a free port is looked for.
const PORT_ATTEMPTS: u32 = 16;

/// A running AuthDNS: its workers and its TCP thread.
pub(crate) struct Server {
    addresses: Vec<SocketAddr>,
    /// Where TLS is spoken.
    private: Vec<SocketAddr>,
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
        tls: &[(SocketAddr, ServerTls)],
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
        let (mut listeners, mut private) = (Vec::new(), Vec::new());
        listeners.extend(plain.into_iter().map(|socket| Listener::new(socket, None)));
        for (address, tls) in tls {
            let socket = tcp::listen(*address)?;
            private.push(socket.local_addr()?);
            listeners.push(Listener::new(socket, Some(tls.clone())));
        }
        let workers = engines
            .into_iter()
            .zip(cpus)
            .map(|(mut engine, cpu)| {
                let (config, stop) = (config.clone(), stop.clone());
                std::thread::spawn(move || {
                    if let Some(cpu) = cpu {
                        sys::pin_to_cpus(&[cpu]).context("--cpus")?;
                    }
                    sys::prepare_for_timing();
                    let mut auth = Auth::new(config);
                    drive(&mut engine, &mut auth, wait, &stop)?;
                    Ok(auth.counters())
                })
            })
            .collect();
        let limits = tcp::TcpLimits { connections: MAX_CONNECTIONS, ..tcp::TcpLimits::default() };
        let tcp = {
            let (mut auth, stop) = (Auth::new(config.clone()), stop.clone());
            let answer = move |message: &[u8], reply: &mut Vec<u8>| {
                reply.resize(::auth::MAX_REPLY, 0);
                let len = auth.answer(message, reply).unwrap_or(0);
                reply.truncate(len);
            };
            std::thread::spawn(move || {
                tcp::serve(listeners, limits, answer, move || stop.load(Ordering::Relaxed))
            })
        };
        Ok(Server { addresses, private, stop, workers, tcp })
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

/// Where TLS is spoken, and what is shown there: the certificate given, or one of an authority that is
/// made for it and written into a folder.
fn tls(args: &AuthArgs) -> Result<Vec<(SocketAddr, ServerTls)>, Failure> {
    if args.tls.is_empty() {
        return Ok(Vec::new());
    }
    let shown = match (&args.tls_certificate, &args.tls_key) {
        (Some(certificate), Some(key)) => {
            ServerTls::from_files(certificate, key, &[ALPN_DOT], args.tls_early_data)
        }
        _ => own_identity(args)
            .and_then(|identity| ServerTls::new(identity, &[ALPN_DOT], args.tls_early_data)),
    };
    let shown = shown.map_err(Failure::input)?;
    Ok(args.tls.iter().map(|address| (*address, shown.clone())).collect())
}

/// A certificate for the addresses that TLS is spoken on.
fn own_identity(args: &AuthArgs) -> Result<Identity, TlsError> {
    let addresses: Vec<String> = args.tls.iter().map(|a| a.ip().to_string()).collect();
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
    let config = AuthConfig {
        pref64: args.pref64,
        aaaa,
        ttl: args.ttl,
        negative_ttl: args.negative_ttl,
        soa_ttl: args.soa_ttl,
        delay: args.delay,
        loss: args.loss,
        faults: args.fault.clone(),
        ..AuthConfig::new(namespace)
    };
    config.validate().map_err(Failure::input)?;
    sys::raise_open_files();
    let stop = interruption()?;
    let options = UdpOptions {
        gso: !args.no_gso,
        gro: !args.no_gro,
        timestamps: false,
        ..UdpOptions::default()
    };
    let cpus = args.cpus.as_ref().map(|list| list.cpus());
    let tls = tls(&args)?;
    let server =
        Server::start(&config, &args.listen, cpus, args.wait.into(), options, &tls, stop.clone())
            .map_err(Failure::Failed)?;
    let listening: Vec<String> = server.addresses().iter().map(ToString::to_string).collect();
    let private: Vec<String> = server.private.iter().map(ToString::to_string).collect();
    let tls =
        if private.is_empty() { String::new() } else { format!(", {} (TLS)", private.join(", ")) };
    println!("ready: {} on {} (UDP and TCP){tls}", config.namespace.prefix(), listening.join(", "));
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
        "{} queries: {} answers, {} without data, {} NXDOMAIN, {} errors, {} ignored; {} faults, {} over the limit",
        c.queries, c.answers, c.nodata, c.nxdomain, c.errors, c.ignored, c.faults, c.overflow
    );
    Ok(())
}
