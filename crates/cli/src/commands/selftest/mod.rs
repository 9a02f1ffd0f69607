//! `dnsdyno selftest`: the Measurer against the AuthDNS (RFC 8219 section 9.2).

mod args;
mod in_kernel;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ::auth::{AaaaPolicy, AuthConfig};
use engine::WaitMode;
use experiment::certify::{RATE_FACTOR, TIMEOUT_FACTOR};
use lab::CpuList;
use load::Live;
use measure::{Goal, Link, Nanos, Pacing, Qps};
use record::request::{Engine, Names, Workload};
use record::testbed::Network;
use record::{
    Certificate, CertificateFile, EngineChoice, Tested, TrialRecord, TrialRequest, TrialResult,
};
use tester::{AuthListen, AuthServer, ConnectionPlan, Setup, udp_options};
use udp::UdpOptions;
use wire::Namespace;

pub(crate) use self::args::{EXAMPLES, SelftestArgs};
use self::in_kernel::Chain;
use crate::arguments::address::{ipv4_net, ipv6_net};
use crate::arguments::certificate::{shortened, tested};
use crate::arguments::json;
use crate::commands::verify;
use crate::failure::Failure;
use crate::output;
use crate::process::command_line;
use crate::process::interruption;
use crate::progress;

pub(crate) fn run(mut args: SelftestArgs) -> Result<(), Failure> {
    args.quiet.apply();
    output::try_writing([&args.write_certificate, &args.json])?;
    let Certified { certificate, request, network } = certify(&mut args)?;
    let kept = keep(&args, &certificate, &request, network);
    kept.and(print_verdict(&args, &certificate))?;
    if certificate.passed { Ok(()) } else { Err(Failure::Silent) }
}

/// A self-test, with its request and the network between Measurer and AuthDNS; `None` for the
/// network of the machine.
pub(crate) struct Certified {
    pub(crate) certificate: Certificate,
    request: TrialRequest,
    network: Option<(Network, Option<Link>)>,
}

/// Makes the self-test.
///
/// # Errors
/// If the trial cannot run.
pub(crate) fn certify(args: &mut SelftestArgs) -> Result<Certified, Failure> {
    let shortened = shortened()?;
    args.sockets.check().map_err(Failure::BadInput)?;
    let namespace = Namespace::with_default_zone(args.namespace);
    let names = namespace.size();
    let planned = args.rate.queries_in(args.duration);
    let stop = interruption()?;
    let other_end = OtherEnd::start(args, &namespace)?;
    let (prefix, zone) = (ipv4_net(args.namespace), namespace.zone().to_string());
    // An authoritative server has no cache, so names may repeat.
    let names =
        Names { reuse: planned > names, ..Names::embedded(prefix, zone, ipv6_net(args.pref64)) };
    let pacing = Pacing::Constant { rate: args.rate };
    let request = TrialRequest {
        duration: shortened.unwrap_or(args.duration),
        timeout: args.timeout,
        goal: Some(Goal::zero_loss()),
        early_stop: true,
        sockets: args.sockets.request(),
        ..TrialRequest::new(other_end.target(), Workload::Namespace(names), pacing)
    };
    let (live, progress) =
        progress::show(format!("self-test at {}", args.rate), Some(args.duration), None);
    let FinishedTrial { request, network, outcome } = other_end.run(args, request, &live, &stop)?;
    drop(progress);
    let trial = outcome.with_verdict();
    let passed = trial.passed == Some(true) && !trial.void.is_void();
    let certificate = Certificate {
        engine: trial.conditions.engine,
        certified_qps: if passed { args.rate.get() / RATE_FACTOR } else { 0.0 },
        self_test_qps: args.rate.get(),
        timeout_s: args.timeout.as_secs_f64(),
        duration_s: args.duration.as_secs_f64(),
        passed,
        shortened_s: shortened.map(Nanos::as_secs_f64),
        checks: Vec::new(),
        trials: vec![TrialRecord { repeat: 0, rate_qps: args.rate.get(), trial }],
    };
    Ok(Certified { certificate, request, network })
}

/// Where the AuthDNS is that the Measurer queries.
enum OtherEnd {
    /// An AuthDNS that the user started, on this host or another.
    Remote(SocketAddr),
    /// An AuthDNS in this process, behind sockets.
    Server(AuthServer),
    /// An AuthDNS in the kernel, at the other end of a link.
    Chain(Box<Chain>),
}

/// A trial, with its request and the network between Measurer and AuthDNS; `None` for the network
/// of the machine.
struct FinishedTrial {
    request: TrialRequest,
    network: Option<(Network, Option<Link>)>,
    outcome: TrialResult,
}

impl OtherEnd {
    /// Starts the AuthDNS, unless the arguments name one.
    fn start(args: &mut SelftestArgs, namespace: &Namespace) -> Result<Self, Failure> {
        if let Some(target) = args.target {
            return Ok(OtherEnd::Remote(target));
        }
        args.engine.apply(Engine::Udp).map_err(Failure::BadInput)?;
        let mut with_kernel = args.clone();
        match (args.engine.engine, Chain::start) {
            (EngineChoice::Sockets, _) => {}
            (EngineChoice::Kernel, start) => {
                return Ok(OtherEnd::Chain(Box::new(start(args, namespace)?)));
            }
            (EngineChoice::Auto, start) => match start(&mut with_kernel, namespace) {
                Ok(chain) => {
                    *args = with_kernel;
                    return Ok(OtherEnd::Chain(Box::new(chain)));
                }
                Err(Failure::BadInput(why)) => eprintln!("engine sockets: {why}"),
                Err(failure) => return Err(failure),
            },
        }
        Ok(OtherEnd::Server(start_server(args, namespace)?))
    }

    /// Returns the address of the AuthDNS.
    fn target(&self) -> SocketAddr {
        match self {
            OtherEnd::Remote(target) => *target,
            OtherEnd::Server(server) => server.addresses()[0],
            OtherEnd::Chain(_) => Chain::target(),
        }
    }

    fn run(
        self,
        args: &SelftestArgs,
        request: TrialRequest,
        live: &Arc<Live>,
        stop: &Arc<AtomicBool>,
    ) -> Result<FinishedTrial, Failure> {
        if let OtherEnd::Chain(chain) = &self {
            let request = chain.direct(request)?;
            let outcome = chain.run(&request, live, stop)?;
            return Ok(FinishedTrial { request, network: Some(Chain::network()), outcome });
        }
        let engine = args.engine.apply(Engine::Udp).map_err(Failure::BadInput)?;
        let setup = match &self {
            OtherEnd::Remote(_) => {
                let setup = args.engine.setup(TrialRequest { engine, ..request })?;
                args.check.ask(&setup, None, stop)?;
                setup
            }
            _ => Setup::new(request, command_line())?,
        };
        let outcome = setup.run(live, stop)?;
        let network = setup.target_is_local().then_some((Network::Loopback, None));
        if let OtherEnd::Server(server) = self {
            // The Measurer has already reported errors of the AuthDNS.
            let _ = server.stop();
        }
        Ok(FinishedTrial { request: setup.request().clone(), network, outcome })
    }
}

/// Writes the certificate file, if the arguments name one.
fn keep(
    args: &SelftestArgs,
    certificate: &Certificate,
    request: &TrialRequest,
    network: Option<(Network, Option<Link>)>,
) -> Result<(), Failure> {
    let Some(path) = &args.write_certificate else { return Ok(()) };
    let local = network.is_some();
    let (network, link) = network.unzip();
    let tested = Tested { network, link: link.flatten(), ..tested(request, local) };
    let file = verify::certificate(tested, certificate.certified_qps, Vec::new());
    let file = CertificateFile { self_test: Some(certificate.clone()), ..file };
    record::write(path, &file).map_err(Failure::run)
}

/// Prints the result and writes it to the file.
fn print_verdict(args: &SelftestArgs, certificate: &Certificate) -> Result<(), Failure> {
    let self_test = record::SelfTest::from(certificate);
    let trial = report::trial(&certificate.trials[0].trial);
    let verdict = if certificate.passed {
        let timeout = Nanos((args.timeout.0 as f64 / TIMEOUT_FACTOR) as u64);
        let certified = Qps::new(certificate.certified_qps).unwrap_or_default();
        format!(
            "passed: this Tester is certified for servers up to {certified} with a timeout of {timeout} (RFC 8219 section 9.2)"
        )
    } else {
        let rate = args.rate.get() / RATE_FACTOR;
        format!("failed: this Tester is not good enough for servers at {rate:.0} qps")
    };
    let write = |path: &std::path::Path| record::write(path, &self_test);
    json::show(args.json.as_deref(), write, || format!("{trial}self-test {verdict}\n"))
}

/// Starts an AuthDNS in this process, on its own cores.
fn start_server(args: &mut SelftestArgs, namespace: &Namespace) -> Result<AuthServer, Failure> {
    let allowed = CpuList::allowed();
    let cpus = args.auth_cpus.clone().or_else(|| CpuList::new(allowed.cpus().last().copied()));
    if args.sockets.cpus.is_none() && allowed.count() > 1 {
        args.sockets.cpus = CpuList::new(allowed.cpus().first().copied());
    }
    let shares =
        cpus.as_ref().zip(args.sockets.cpus.as_ref()).is_some_and(|(a, b)| a.shares_with(b));
    args.sockets.shared_core |= shares;
    let config =
        AuthConfig { aaaa: AaaaPolicy::Always, pref64: args.pref64, ..AuthConfig::new(*namespace) };
    let options = UdpOptions { timestamps: false, ..udp_options(&args.sockets.request()) };
    let wait = if shares { WaitMode::Sleep } else { WaitMode::Auto };
    let listen = AuthListen {
        plain: vec!["[::1]:0".parse().expect("an address")],
        encrypted: Vec::new(),
        cpus: cpus.as_ref().map_or(Vec::new(), |list| list.cpus().to_vec()),
        wait,
        udp: options,
        connections: ConnectionPlan::default(),
    };
    Ok(AuthServer::start(&config, &listen, Arc::new(AtomicBool::new(false)))?)
}
