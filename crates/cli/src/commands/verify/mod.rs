//! `dnsdyno verify`: compares the Tester's findings with known values and with a capture beside the
//! server.

mod args;
mod verify_bench;

use std::path::Path;

use anyhow::anyhow;
use experiment::verify::against_capture;
use experiment::{Verified, VerifyPlan, verify};
use lab::host::Depth;
use lab::{EnterError, Entered, Lab, LabNetwork, Pair, PairCores, RunDir};
use measure::{Link, Pacing, Path as WirePath, Qps};
use record::certificate::CERTIFICATE_VERSION;
use record::{CertificateFile, Check, CheckVerdict, EngineKind, Tested, Trial};
use tester::unix_now;
use trace::Capture;

pub(crate) use self::args::{EXAMPLES, VerifyArgs};
pub(crate) use self::verify_bench::VerifyBench;
use self::verify_bench::summary;
use crate::arguments::json;
use crate::commands::host;
use crate::failure::Failure;
use crate::output;
use crate::process::{command_line, interruption, outside};

pub(crate) fn run(args: &VerifyArgs) -> Result<(), Failure> {
    args.quiet.apply();
    if let (Some(trial), Some(capture)) = (&args.trial, &args.capture) {
        return foreign(args, trial, capture);
    }
    let plan = plan(args)?;
    output::try_writing([&args.write_certificate, &args.json])?;
    with_bench(args, &[], |bench| conduct(args, &plan, bench))
}

/// Calls `then` with the requested bench: in a process inside new namespaces, which receives
/// `handed`, if these are possible.
pub(crate) fn with_bench(
    args: &VerifyArgs,
    handed: &[(&str, String)],
    then: impl FnOnce(VerifyBench) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let cores = PairCores::choose();
    let _reserved = args.wait.reserve(&cores.all())?;
    match enter(args, handed)? {
        ReexecutionSide::Outside(code) => outside(code),
        ReexecutionSide::Loopback(why) => {
            if args.engine == EngineKind::Kernel {
                return Err(Failure::input(anyhow!("--engine kernel needs namespaces: {why}")));
            }
            eprintln!("verify: on the loopback of this host: {why}");
            then(VerifyBench::new(Pair::on_loopback(cores), interruption()?))
        }
        ReexecutionSide::Inside(lab) => {
            let dir = RunDir::create().map_err(Failure::run)?;
            let (link, path) =
                (args.link.unwrap_or(Link::Plain), args.path.unwrap_or(WirePath::Wire));
            let pair = Pair::in_namespaces(&lab, &dir, cores, link, path).map_err(Failure::run)?;
            let mut bench = VerifyBench::new(pair, lab.interrupted().clone());
            if args.engine == EngineKind::Kernel {
                if path == WirePath::HostOffload {
                    let why = "--engine kernel sends each query as a packet: its path is wire";
                    return Err(Failure::input(anyhow!(why)));
                }
                bench.use_kernel().map_err(Failure::input)?;
            }
            then(bench)
        }
    }
}

/// The side of the lab's re-execution, or the loopback.
enum ReexecutionSide {
    Inside(Lab),
    Outside(u8),
    /// The reason why the loopback is used.
    Loopback(String),
}

/// Enters new namespaces; stays outside if the kernel refuses them.
fn enter(args: &VerifyArgs, handed: &[(&str, String)]) -> Result<ReexecutionSide, Failure> {
    if args.loopback {
        return Ok(ReexecutionSide::Loopback("--loopback".to_owned()));
    }
    match lab::enter_with(handed, LabNetwork::Own) {
        Ok(Entered::Inside(lab)) => Ok(ReexecutionSide::Inside(lab)),
        Ok(Entered::Outside(code)) => Ok(ReexecutionSide::Outside(code)),
        Err(e @ EnterError::Namespaces { .. }) if args.link.is_none() && args.path.is_none() => {
            Ok(ReexecutionSide::Loopback(e.to_string()))
        }
        Err(e) => Err(Failure::run(e)),
    }
}

/// Returns the plan for the arguments.
pub(crate) fn plan(args: &VerifyArgs) -> Result<VerifyPlan, Failure> {
    let mut plan = if args.quick { VerifyPlan::quick() } else { VerifyPlan::full() };
    let (min, max) = (plan.search.min.get(), 4.0 * plan.search.max.get());
    if let Some(bad) = args.capacities.iter().find(|qps| !(min..=max).contains(&qps.get())) {
        let why = "the capacity must be between";
        return Err(Failure::input(anyhow!("--capacities {bad}: {why} {min:.0} and {max:.0} qps")));
    }
    if !args.capacities.is_empty() {
        plan.capacities.clone_from(&args.capacities);
        let highest = plan
            .capacities
            .iter()
            .copied()
            .fold(plan.search.max, |a, b| if b.get() > a.get() { b } else { a });
        plan.search.max = highest;
    }
    (plan.repeats, plan.wrong) = (args.repeats, args.wrong_truth);
    if plan.wrong > 0.0 {
        // One transport is enough to show that wrong values are detected.
        (plan.ways, plan.windows) = (Vec::new(), Vec::new());
    }
    Ok(if args.engine == EngineKind::Kernel { plan.for_kernel() } else { plan })
}

/// Makes the checks, prints them, and writes the files.
fn conduct(args: &VerifyArgs, plan: &VerifyPlan, mut bench: VerifyBench) -> Result<(), Failure> {
    let tested = bench.tested();
    eprintln!("verify: {tested}");
    if let Some(why) = bench.pair.link_refused() {
        eprintln!("verify: other links were refused: {why}");
    }
    let verified = verify(plan, &mut bench, &mut |check| {
        // Checks of every transport are printed at once only if they fail.
        if !(check.is_of_way() && check.verdict == CheckVerdict::Passed) {
            eprintln!("  {}", report::check_line(check));
        }
    });
    bench.end();
    let Verified { checks, certified_qps, coverage, error } = verified;
    let file = CertificateFile { coverage, ..certificate(tested, certified_qps, checks) };
    // Each of these is done even if another one fails.
    let path = args.write_certificate.as_deref();
    let written = path.map_or(Ok(()), |path| record::write(path, &file)).map_err(Failure::run);
    let write = |path: &Path| record::write(path, &file);
    written.and(json::show(args.json.as_deref(), write, || report::certificate(&file)))?;
    match error {
        Some(e) => Err(Failure::run(e)),
        None => conclude(args, &file),
    }
}

/// Makes a certificate of this host, now.
pub(crate) fn certificate(
    tested: Tested,
    certified_qps: f64,
    checks: Vec<Check>,
) -> CertificateFile {
    CertificateFile {
        version: CERTIFICATE_VERSION,
        certified_qps,
        tested,
        coverage: Vec::new(),
        made_unix_s: unix_now(),
        made_by: env!("CARGO_PKG_VERSION").to_owned(),
        command: command_line(),
        host: host::take(Depth::Facts),
        self_test: None,
        checks,
    }
}

/// Returns the exit code of the checks: 1 if one failed, or if a requested certificate certifies no
/// rate.
fn conclude(args: &VerifyArgs, file: &CertificateFile) -> Result<(), Failure> {
    let failed = file.checks.iter().filter(|check| check.is_failed()).count();
    if failed > 0 {
        return Err(Failure::run(anyhow!(
            "{failed} of {} values are beyond their bounds, and no disturbance of the machine explains this",
            file.checks.len()
        )));
    }
    if args.write_certificate.is_some() && file.certified_qps <= 0.0 {
        return Err(Failure::run(anyhow!(
            "no measured capacity was within its bounds, so there is no rate to certify: try again when the machine is idle"
        )));
    }
    Ok(())
}

/// Compares a trial with a capture that others took.
fn foreign(args: &VerifyArgs, trial: &Path, file: &Path) -> Result<(), Failure> {
    let record: Trial = record::read(trial).map_err(Failure::input)?;
    let target = record.conditions.target.parse().ok();
    let server = args.server.or(target).ok_or_else(|| {
        Failure::input(anyhow!("{}: its target is no address; give --server", trial.display()))
    })?;
    let mut capture = Capture::open(file).map_err(Failure::input)?;
    let captured = summary(&mut capture, server).map_err(Failure::input)?;
    if captured.queries == 0 {
        let why = format!("there is no query to {server}: name the server with --server");
        return Err(Failure::input(anyhow!("{}: {why}", file.display())));
    }
    let planned = record.planned as f64 / record.duration_s;
    let rate = match record.conditions.pacing.get() {
        Some(Pacing::Constant { .. }) => Qps::new(planned),
        _ => None,
    };
    let checks = against_capture(&record, rate, captured);
    let write = |path: &Path| record::write(path, &checks);
    json::show(args.json.as_deref(), write, || report::checks(&checks))?;
    let failed = checks.iter().filter(|check| check.is_failed()).count();
    if failed == 0 {
        return Ok(());
    }
    Err(Failure::run(anyhow!("{failed} of {} values differ from the capture", checks.len())))
}
