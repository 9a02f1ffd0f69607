//! `dnsdyno auth`: the AuthDNS as a server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ::auth::{AaaaPolicy, Auth, AuthConfig, AuthCounters};
use anyhow::{Context, anyhow};
use net::{SocketId, UdpEngine, UdpOptions, WaitMode, drive, sys, tcp};
use wire::Namespace;

use crate::args::{AaaaArg, AuthArgs};
use crate::failure::Failure;
use crate::load::interruption;

/// A running AuthDNS: its workers and its TCP thread.
pub(crate) struct Server {
    addresses: Vec<SocketAddr>,
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
        stop: Arc<AtomicBool>,
    ) -> anyhow::Result<Self> {
        config.validate()?;
        let cpus: Vec<Option<usize>> =
            cpus.map_or(vec![None], |cpus| cpus.iter().copied().map(Some).collect());
        let share_port = cpus.len() > 1;
        // The first worker takes free ports where port 0 is asked for; the others join it.
        let first = UdpEngine::server(listen, share_port, options)?;
        let addresses: Vec<SocketAddr> = (0..listen.len())
            .map(|i| first.local_address(SocketId(i as u16)))
            .collect::<Result<_, _>>()?;
        let mut engines = vec![first];
        for _ in 1..cpus.len() {
            engines.push(UdpEngine::server(&addresses, true, options)?);
        }
        let listeners = addresses.iter().map(|a| tcp::listen(*a)).collect::<Result<Vec<_>, _>>()?;
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
        let tcp = {
            let (mut auth, stop) = (Auth::new(config.clone()), stop.clone());
            let answer = move |message: &[u8], reply: &mut Vec<u8>| {
                reply.resize(::auth::MAX_REPLY, 0);
                let len = auth.answer(message, reply).unwrap_or(0);
                reply.truncate(len);
            };
            std::thread::spawn(move || {
                tcp::serve(listeners, tcp::TcpLimits::default(), answer, move || {
                    stop.load(Ordering::Relaxed)
                })
            })
        };
        Ok(Server { addresses, stop, workers, tcp })
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
    let stop = interruption()?;
    let options = UdpOptions {
        gso: !args.no_gso,
        gro: !args.no_gro,
        timestamps: false,
        ..UdpOptions::default()
    };
    let cpus = args.cpus.as_ref().map(|list| list.cpus());
    let server =
        Server::start(&config, &args.listen, cpus, args.wait.into(), options, stop.clone())
            .map_err(Failure::Failed)?;
    let listening: Vec<String> = server.addresses().iter().map(ToString::to_string).collect();
    println!("ready: {} on {} (UDP and TCP)", config.namespace.prefix(), listening.join(", "));
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
