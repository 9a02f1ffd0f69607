//! `dnsdyno selftest`: the Measurer against the AuthDNS (RFC 8219 section 9.2).

mod args;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ::auth::{AaaaPolicy, AuthConfig};
use engine::WaitMode;
use experiment::certify::{RATE_FACTOR, TIMEOUT_FACTOR};
use lab::CpuList;
use measure::{Goal, Nanos, Pacing, Qps};
use record::request::{Names, Workload};
use record::testbed::Network;
use record::{Certificate, CertificateFile, Tested, TrialRecord, TrialRequest};
use tester::{AuthListen, AuthServer, Setup, udp_options};
use udp::UdpOptions;
use wire::Namespace;

pub(crate) use self::args::{EXAMPLES, SelftestArgs};
use crate::arguments::address::{ipv4_net, ipv6_net};
use crate::arguments::certificate::{shortened, tested};
use crate::commands::verify;
use crate::failure::Failure;
use crate::output;
use crate::process::command_line;
use crate::process::interruption;
use crate::progress;

pub(crate) fn run(mut args: SelftestArgs) -> Result<(), Failure> {
    let shortened = shortened()?;
    args.sockets.check().map_err(Failure::BadInput)?;
    let namespace = Namespace::with_default_zone(args.namespace);
    let names = namespace.size();
    let planned = args.rate.queries_in(args.duration);
    output::try_writing([&args.certificate, &args.json])?;
    let stop = interruption()?;
    let server = match args.target {
        Some(_) => None,
        None => Some(start_server(&mut args, &namespace)?),
    };
    let target = args
        .target
        .or_else(|| server.as_ref().map(|s| s.addresses()[0]))
        .expect("one of them is there");
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
        ..TrialRequest::new(target, Workload::Namespace(names), pacing)
    };
    let (live, progress) = progress::show(format!("self-test at {}", args.rate), None);
    let setup = Setup::new(request.clone(), command_line())?;
    let local = setup.target_is_local();
    let outcome = setup.run(&live, &stop)?;
    drop(progress);
    if let Some(server) = server {
        // The Measurer has seen what a worker could not do.
        let _ = server.stop();
    }
    let passed = outcome.trial.passed == Some(true) && !outcome.trial.void.is_void();
    let certificate = Certificate {
        certified_qps: if passed { args.rate.get() / RATE_FACTOR } else { 0.0 },
        self_test_qps: args.rate.get(),
        timeout_s: args.timeout.as_secs_f64(),
        duration_s: args.duration.as_secs_f64(),
        passed,
        shortened_s: shortened.map(Nanos::as_secs_f64),
        checks: Vec::new(),
        trials: vec![TrialRecord { repeat: 0, rate_qps: args.rate.get(), trial: outcome.trial }],
    };
    let kept = keep(&args, &certificate, &request, local);
    kept.and(tell(&args, &certificate))?;
    if passed { Ok(()) } else { Err(Failure::Silent) }
}

/// Writes the certificate file, if one is wanted. `local` says whether the AuthDNS is on this host.
fn keep(
    args: &SelftestArgs,
    certificate: &Certificate,
    request: &TrialRequest,
    local: bool,
) -> Result<(), Failure> {
    let Some(path) = &args.certificate else { return Ok(()) };
    let network = local.then_some(Network::Loopback);
    let tested = Tested { network, ..tested(request, local) };
    let file = verify::certificate(tested, certificate.certified_qps, Vec::new());
    let file = CertificateFile { self_test: Some(certificate.clone()), ..file };
    record::write(path, &file).map_err(Failure::run)
}

/// Prints the result and writes it to the file.
fn tell(args: &SelftestArgs, certificate: &Certificate) -> Result<(), Failure> {
    let json = args.json.as_deref();
    let self_test = record::SelfTest::from(certificate);
    let written = json.map_or(Ok(()), |path| record::write(path, &self_test)).map_err(Failure::run);
    if json == Some(std::path::Path::new("-")) {
        return written;
    }
    print!("{}", report::trial(&certificate.trials[0].trial));
    if certificate.passed {
        let timeout = Nanos((args.timeout.0 as f64 / TIMEOUT_FACTOR) as u64);
        let certified = Qps::new(certificate.certified_qps).unwrap_or_default();
        println!(
            "self-test passed: this Tester is certified for servers up to {certified} with a timeout of {timeout} (RFC 8219 section 9.2)"
        );
    } else {
        println!(
            "self-test failed: this Tester may not judge servers at {:.0} qps",
            args.rate.get() / RATE_FACTOR
        );
    }
    written
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
        stream_fault: None,
    };
    Ok(AuthServer::start(&config, &listen, Arc::new(AtomicBool::new(false)))?)
}
