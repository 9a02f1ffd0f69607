//! `dnsdyno auth`: the AuthDNS as a server.

mod args;
mod in_kernel;
mod internet;

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ::auth::{AaaaPolicy, AuthConfig, AuthCounters, Fault, FaultSpec};
use anyhow::anyhow;
use experiment::{Behaviour, VerifyPlan};
use lab::authdns::Serves;
use lab::{AuthAnswers, AuthTask};
use streams::http::{ALPN_H2, ALPN_H3};
use streams::tls::{ALPN_DOQ, ALPN_DOT, Authority, Identity, ServerTls, TlsError};
use tester::{AuthListen, AuthServer, ConnectionPlan, EncryptedListen};
use udp::{UdpOptions, sys};
use wire::Namespace;

use self::args::AuthEngine;
pub(crate) use self::args::{AuthArgs, EXAMPLES};
use self::internet::InternetArgs;
use crate::arguments::parsed::parsed;
use crate::failure::Failure;
use crate::process::interruption;

/// Addresses of TLS, HTTPS and QUIC, with the certificate that is given, or one of an authority that is made for it and
/// written into a folder.
fn encrypted(args: &AuthArgs) -> Result<Vec<EncryptedListen>, TlsError> {
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
    let listen_on =
        |name, addresses: &[SocketAddr], tcp: Option<&ServerTls>, quic: Option<&ServerTls>| {
            let (tcp, quic) = (tcp.cloned(), quic.cloned());
            let listen =
                |&address| EncryptedListen { name, address, tcp: tcp.clone(), quic: quic.clone() };
            addresses.iter().map(listen).collect::<Vec<_>>()
        };
    let mut all = listen_on("TLS", &args.tls, Some(&dot), None);
    let h3 = cfg!(feature = "quic").then_some(&h3);
    all.extend(listen_on("HTTPS", &args.https, Some(&h2), h3));
    all.extend(listen_on("QUIC", &args.quic, None, Some(&doq)));
    Ok(all)
}

/// Generates a certificate for the addresses of TLS.
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
    let mut config = config(&args)?;
    args.internet.check_listen(&args.listen)?;
    let log = args.internet.log()?;
    if let (Some(internet), Some(log)) = (&mut config.internet, &log) {
        internet.log = Some(log.log());
    }
    sys::raise_open_files();
    let stop = interruption()?;
    let connections = connections(&args);
    let listen = AuthListen {
        plain: args.listen.clone(),
        encrypted: encrypted(&args).map_err(Failure::input)?,
        cpus: args.cpus.as_ref().map_or(Vec::new(), |list| list.cpus().to_vec()),
        wait: args.wait_mode,
        udp: UdpOptions {
            gso: !args.no_gso,
            gro: !args.no_gro,
            // A capacity and a delay count from the arrival of a query, even if the worker reads it
            // later.
            timestamps: config.is_timed(),
            buffer: args.buffer,
        },
        connections,
    };
    let server = AuthServer::start(&config, &listen, stop.clone())?;
    let in_kernel = in_kernel::start(&args, &config, server.addresses())?;
    let listening: Vec<String> = server.addresses().iter().map(ToString::to_string).collect();
    let encrypted: String =
        server.encrypted().iter().map(|(address, name)| format!(", {address} ({name})")).collect();
    let what = match &config.internet {
        Some(internet) => format!("{} zones", internet.zones.count()),
        None => config.namespace.prefix().to_string(),
    };
    println!("ready: {what} on {} (UDP and TCP){encrypted}", listening.join(", "));
    let began = Instant::now();
    let limit = args.duration.map(Duration::from);
    while !stop.load(Ordering::Relaxed)
        && !server.has_failed()
        && limit.is_none_or(|limit| began.elapsed() < limit)
    {
        std::thread::sleep(Duration::from_millis(20));
    }
    let stream_faults = server.stream_faults();
    let internet = config.internet.take().is_some();
    let mut c = server.stop()?;
    if let Some(kernel) = in_kernel {
        let counters = kernel.counters().map_err(Failure::run)?;
        in_kernel::add(&mut c, &counters);
        println!(
            "{} of them in the kernel, which left {} to the sockets",
            counters.queries, counters.passed
        );
    }
    show(&c);
    if c.connections > 0 {
        println!("{} connections", c.connections);
    }
    if internet {
        println!("{} referrals to zones below", c.referrals);
    }
    if let Some(plan) = args.stream_fault {
        println!("{} faults over streams ({plan})", stream_faults.load(Ordering::Relaxed));
    }
    log.map_or(Ok(()), |log| log.finish(c.overflow))
}

/// Prints what the AuthDNS has counted.
fn show(c: &AuthCounters) {
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
}

/// An AuthDNS of this process that was described by arguments of `dnsdyno auth`.
pub(crate) struct Described {
    pub(crate) config: AuthConfig,
    pub(crate) encrypted: Vec<EncryptedListen>,
    pub(crate) connections: ConnectionPlan,
}

/// Runs the AuthDNS that a task of the lab describes.
pub(crate) fn of_lab(task: AuthTask) -> Result<(), Failure> {
    let AuthTask { listen, cpus, wait: wait_mode, gro, device, answers } = task;
    let args = match answers {
        AuthAnswers::Namespace { prefix, zone, pref64, serves, remember } => {
            let behaviour = match serves {
                Serves::Truth => VerifyPlan::behaviour(),
                Serves::SelfTest | Serves::Dut { .. } => Behaviour::default(),
            };
            AuthArgs {
                namespace: prefix.parse().map_err(Failure::input)?,
                zone: zone.parse().map_err(Failure::input)?,
                pref64: pref64.parse().map_err(Failure::input)?,
                aaaa: match serves {
                    Serves::SelfTest | Serves::Truth => AaaaPolicy::Always,
                    Serves::Dut { aaaa_share, .. } if aaaa_share > 0.0 => {
                        AaaaPolicy::Share(aaaa_share)
                    }
                    Serves::Dut { .. } => AaaaPolicy::Never,
                },
                remember,
                traps: matches!(serves, Serves::Dut { drilled: true, .. }),
                ..parsed(behaviour.arguments())?
            }
        }
        AuthAnswers::Internet { folder, log, delays, loss, truncated } => {
            let fault = FaultSpec { fault: Fault::Truncate, share: truncated };
            let fault = Some(fault).filter(|fault| fault.share > 0.0).into_iter().collect();
            let internet = InternetArgs::of_lab(folder, log, delays);
            AuthArgs { internet, loss, fault, ..parsed([""; 0])? }
        }
    };
    let engine = if device.is_some() { AuthEngine::Kernel } else { AuthEngine::Sockets };
    let (cpus, device) = (Some(cpus), device.into_iter().collect());
    run(AuthArgs { listen, cpus, wait_mode, no_gro: !gro, engine, device, ..args })
}

/// Returns the AuthDNS with these arguments of `dnsdyno auth`.
pub(crate) fn described(arguments: impl Iterator<Item = String>) -> Result<Described, Failure> {
    let args: AuthArgs = parsed(arguments)?;
    let encrypted = encrypted(&args).map_err(Failure::input)?;
    Ok(Described { config: config(&args)?, encrypted, connections: connections(&args) })
}

/// Returns the faults of connections on purpose.
fn connections(args: &AuthArgs) -> ConnectionPlan {
    ConnectionPlan { fault: args.stream_fault, most: args.max_connections, rate: args.accept_rate }
}

/// Returns the configuration of the arguments.
fn config(args: &AuthArgs) -> Result<AuthConfig, Failure> {
    let namespace = Namespace::new(args.namespace, args.zone).map_err(Failure::input)?;
    let aaaa = args.aaaa_share.map_or(args.aaaa, AaaaPolicy::Share);
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
        faults: args.fault.clone(),
        remember: args.remember,
        internet: args.internet.config()?,
        traps: args.traps,
        ..AuthConfig::new(namespace)
    };
    config.validate().map_err(Failure::input)?;
    let twice = config.faults.iter().any(|spec| spec.fault == Fault::Duplicate);
    if twice && let Some(at) = args.https.iter().chain(&args.quic).next() {
        let why = format!("{at} (HTTPS or QUIC): a stream has one query and one reply");
        let remedy = "leave out --https and --quic, or replies that are sent twice";
        return Err(Failure::input(anyhow!("--fault duplicate: {why}; {remedy}")));
    }
    Ok(config)
}
