//! The AuthDNS on threads: a worker with a UDP engine on each core, and a thread for connections.

use std::cell::RefCell;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use auth::{Auth, AuthConfig, AuthCounters, Streamed};
use engine::clock::monotonic;
use engine::{SocketId, WaitMode, drive};
use measure::Qps;
use streams::serve::{self, FaultPlan, Faults};
use streams::tcp::{self, Carried, Listener, TcpLimits};
use streams::tls::ServerTls;
use udp::{UdpEngine, UdpOptions, sys};

use crate::error::TesterError;

/// Largest number of connections at a time over TCP and TLS, as many as a load has clients.
const MAX_CONNECTIONS: usize = 100_000;
/// Time without a query after which a connection is closed; each client of a large load queries rarely.
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);
/// Largest number of queries outstanding on a connection of HTTP or QUIC, and of queries answered
/// together on a connection of TCP or TLS.
const MAX_PIPELINED: usize = 1_024;
/// Largest number of ports that are tried to find one that is free for UDP and for TCP.
const PORT_ATTEMPTS: u32 = 16;

/// Addresses, threads and sockets of an AuthDNS.
pub struct AuthListen {
    /// Addresses of DNS over UDP and TCP; port 0 requests a free port.
    pub plain: Vec<SocketAddr>,
    /// Addresses of encrypted transports, each with its certificates.
    pub encrypted: Vec<EncryptedListen>,
    /// Cores with a worker on each; if empty, there is one worker on any core.
    pub cpus: Vec<usize>,
    /// Method by which a worker waits for queries.
    pub wait: WaitMode,
    /// Options of the UDP sockets.
    pub udp: UdpOptions,
    /// Faults of connections on purpose.
    pub connections: ConnectionPlan,
}

/// Planned faults of the connections to an AuthDNS.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ConnectionPlan {
    /// Faults of queries over connections; none if absent.
    pub fault: Option<FaultPlan>,
    /// Largest number of connections at a time; more are closed at once. Unlimited if absent.
    pub most: Option<usize>,
    /// Largest number of connections that are accepted a second; more wait in the kernel's queue.
    pub rate: Option<Qps>,
}

impl ConnectionPlan {
    /// Returns the limits of the service.
    fn limits(self) -> TcpLimits {
        let interval =
            self.rate.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(1.0 / rate.get()));
        TcpLimits {
            connections: self.most.unwrap_or(MAX_CONNECTIONS),
            idle: IDLE_TIMEOUT,
            pipelined: MAX_PIPELINED,
            accept_interval: interval,
        }
    }
}

/// An address of an encrypted transport, with the certificates that are shown there.
pub struct EncryptedListen {
    /// Name of the transport in messages.
    pub name: &'static str,
    /// The address; port 0 requests a free port.
    pub address: SocketAddr,
    /// Certificates for connections over TCP; `None` if there are no such connections.
    pub tcp: Option<ServerTls>,
    /// Certificates for connections over QUIC; `None` if there are no such connections.
    pub quic: Option<ServerTls>,
}

/// A running AuthDNS: its workers and its thread for connections.
pub struct AuthServer {
    addresses: Vec<SocketAddr>,
    encrypted: Vec<(SocketAddr, &'static str)>,
    stop: Arc<AtomicBool>,
    workers: Vec<JoinHandle<Result<AuthCounters, TesterError>>>,
    connections: JoinHandle<Result<AuthCounters, TesterError>>,
    /// Number of failures made on purpose over connections.
    stream_faults: Arc<AtomicU64>,
}

impl AuthServer {
    /// Binds all sockets, then starts the workers; they end when `stop` is set. `config` is valid.
    ///
    /// # Errors
    /// The first address that cannot be bound.
    pub fn start(
        config: &AuthConfig,
        listen: &AuthListen,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, TesterError> {
        let workers = listen.cpus.len().max(1);
        // The first worker binds free ports for port 0; TCP and the other workers use the same.
        let (first, addresses, plain) = bind(&listen.plain, workers > 1, listen.udp)?;
        let mut engines = vec![first];
        for _ in 1..workers {
            engines.push(UdpEngine::server(&addresses, true, listen.udp)?);
        }
        let mut listeners: Vec<Listener> = plain.into_iter().map(Listener::Tcp).collect();
        let mut encrypted = Vec::new();
        for at in &listen.encrypted {
            let (address, more) = at.bind()?;
            encrypted.push((address, at.name));
            listeners.extend(more);
        }
        let cpus = listen.cpus.iter().copied().map(Some).chain([None]);
        // The last `Auth` answers over connections.
        let mut auths = Auth::workers(config, workers + 1);
        let over_connections = auths.pop();
        let workers = engines.into_iter().zip(auths).zip(cpus);
        let wait = listen.wait;
        let workers = workers.map(|((mut engine, mut auth), cpu)| {
            let stop = stop.clone();
            std::thread::spawn(move || {
                if let Some(cpu) = cpu {
                    sys::pin_to_cpus(&[cpu]).map_err(TesterError::io("--cpus"))?;
                }
                sys::prepare_for_timing();
                drive(&mut engine, &mut auth, wait, &stop)?;
                Ok(auth.counters())
            })
        });
        let workers = workers.collect();
        let faults = Faults::new(listen.connections.fault);
        let stream_faults = faults.made();
        let auth = over_connections.unwrap_or_else(|| Auth::new(config.clone()));
        let limits = listen.connections.limits();
        // A worker that never sleeps leaves no time to others on its core.
        let cpus = if wait == WaitMode::Sleep { listen.cpus.clone() } else { Vec::new() };
        let stop_connections = stop.clone();
        let connections = std::thread::spawn(move || {
            if !cpus.is_empty() {
                sys::pin_to_cpus(&cpus).map_err(TesterError::io("--cpus"))?;
            }
            serve_connections(auth, listeners, limits, faults, &stop_connections)
        });
        Ok(AuthServer { addresses, encrypted, stop, workers, connections, stream_faults })
    }

    /// Returns the addresses of DNS over UDP and TCP, with their ports.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Returns the addresses of encrypted transports, with their ports, and the names of the transports.
    pub fn encrypted(&self) -> &[(SocketAddr, &'static str)] {
        &self.encrypted
    }

    /// Returns whether a worker has ended by itself, which it does after an error only.
    pub fn has_failed(&self) -> bool {
        self.workers.iter().any(JoinHandle::is_finished)
    }

    /// Returns the counter of failures made on purpose over connections.
    pub fn stream_faults(&self) -> Arc<AtomicU64> {
        self.stream_faults.clone()
    }

    /// Ends all threads; returns the sum of the workers' counts.
    ///
    /// # Errors
    /// The first error that ended a thread.
    pub fn stop(self) -> Result<AuthCounters, TesterError> {
        self.stop.store(true, Ordering::Relaxed);
        let mut sum = AuthCounters::default();
        for worker in self.workers {
            sum.merge(&worker.join().map_err(|_| TesterError::Panicked)??);
        }
        sum.merge(&self.connections.join().map_err(|_| TesterError::Panicked)??);
        Ok(sum)
    }
}

/// Answers queries of connections until `stop` is set; returns the counts.
fn serve_connections(
    auth: Auth,
    listeners: Vec<Listener>,
    limits: TcpLimits,
    faults: Faults,
    stop: &AtomicBool,
) -> Result<AuthCounters, TesterError> {
    // In the unit of the option edns-tcp-keepalive, 100 ms (RFC 7828).
    let idle_100ms = u16::try_from(limits.idle.as_millis() / 100).ok();
    let auth = Rc::new(RefCell::new(auth));
    let role = auth.clone();
    let answer = move |message: &[u8], carried: Carried, reply: &mut Vec<u8>| {
        let at = monotonic();
        let how = match carried {
            Carried::Frame { to, accepted } => {
                Streamed { at, accepted: Some(accepted), server: to, idle: idle_100ms }
            }
            Carried::Stream(_) => Streamed { at, ..Streamed::default() },
        };
        role.borrow_mut().answer_stream(how, message, reply)
    };
    sys::prepare_for_timing();
    let stop = || stop.load(Ordering::Relaxed);
    let connections = tcp::serve(listeners, limits, answer, faults, stop)?;
    let counted = auth.borrow().counters();
    Ok(AuthCounters { connections, ..counted })
}

/// Binds UDP and, on the same ports, TCP; returns the addresses with their ports.
fn bind(
    listen: &[SocketAddr],
    share_port: bool,
    options: UdpOptions,
) -> io::Result<(UdpEngine, Vec<SocketAddr>, Vec<TcpListener>)> {
    // A port that is free for UDP may be in use for TCP.
    let mut attempts = if listen.iter().any(|a| a.port() == 0) { PORT_ATTEMPTS } else { 1 };
    loop {
        let engine = UdpEngine::server(listen, share_port, options)?;
        let addresses: Vec<SocketAddr> = (0..listen.len())
            .map(|i| engine.local_address(SocketId(i as u16)))
            .collect::<Result<_, _>>()?;
        attempts -= 1;
        match addresses.iter().map(|address| tcp::listen(*address)).collect() {
            Ok(plain) => return Ok((engine, addresses, plain)),
            Err(error) if attempts == 0 => return Err(error),
            Err(_) => {}
        }
    }
}

impl EncryptedListen {
    /// Binds the sockets; returns the address with its port.
    fn bind(&self) -> io::Result<(SocketAddr, Vec<Listener>)> {
        // A port that is free for TCP may be in use for UDP.
        let attempts = if self.address.port() == 0 { PORT_ATTEMPTS } else { 1 };
        let mut tries = (0..attempts).map(|_| self.bind_once());
        tries.find(Result::is_ok).unwrap_or_else(|| self.bind_once())
    }

    fn bind_once(&self) -> io::Result<(SocketAddr, Vec<Listener>)> {
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
