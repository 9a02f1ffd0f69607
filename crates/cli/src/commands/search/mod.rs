//! `dnsdyno search`: the highest rate at which a goal is met.

mod args;

use std::path::Path;
use std::time::Instant;

use experiment::search::RESOLUTION;
use experiment::{
    Bench, BenchError, Circumstances, NameBudget, OneHost, Progress, Repeats, RuleName, Search,
    Shortened, conformance,
};
use measure::{Nanos, OpenPacing};
use record::request::{Engine, Gso};
use record::{CertificateFile, Plan, Run, SCHEMA, TrialRequest};
use tester::unix_now;

pub(crate) use self::args::{EXAMPLES, SearchArgs};
use crate::arguments::certificate::{shortened, tested};
use crate::bench::OwnBench;
use crate::failure::Failure;
use crate::process::command_line;
use crate::process::interruption;

pub(crate) fn run(args: SearchArgs) -> Result<(), Failure> {
    let shortened = shortened()?;
    let (mut search, repeats) = plan(&args)?;
    let request = request(&args, &search)?;
    let setup = args.engine.setup(request)?;
    let request = setup.request().clone();
    let local = setup.target_is_local();
    let certificate = args.certificate.read(&tested(&request, local))?;
    if let Some(file) = &certificate {
        stay_within(&mut search, file)?;
    }
    // Query files and generated names have no end: they may repeat names.
    let names = setup.names();
    let mut names = NameBudget::new(names.unwrap_or(u64::MAX), names.is_none() || !args.rfc8219);
    let mut own = OwnBench { setup, stop: interruption()? };
    let mut shorter;
    let bench: &mut dyn Bench = match shortened {
        Some(time) => {
            shorter = Shortened::new(&mut own, time);
            &mut shorter
        }
        None => &mut own,
    };
    let (began, started) = (Instant::now(), unix_now());
    let one_host = local.then(|| loopback(&request));
    let over_ipv6 = args.target.is_ipv6();
    let circumstances =
        Circumstances { over_ipv6, one_host, shortened, ..Circumstances::default() };
    let repeats = Repeats { search, repeats, circumstances };
    let server = args.target.to_string();
    let self_test = certificate.as_ref().and_then(|file| file.self_test.clone());
    let (result, error) =
        repeats.run(bench, &server, &mut names, self_test, &mut |step| tell(&step));
    let run = Run {
        schema: SCHEMA,
        plan: Plan {
            experiment: "search".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            command: command_line(),
            started_unix_s: started,
            certificate: certificate.map(|file| file.without_trials()),
            ..Plan::default()
        },
        elapsed_s: began.elapsed().as_secs_f64(),
        complete: error.is_none(),
        results: vec![result],
        ..Run::default()
    };
    if let Some(path) = &args.json {
        record::write(path, &run).map_err(Failure::run)?;
    }
    if args.json.as_deref() != Some(Path::new("-")) {
        print!("{}", report::run(&run));
    }
    args.keep.keep(&run)?;
    match error {
        Some(BenchError::Names(e)) => Err(Failure::BadInput(e.into())),
        Some(e) => Err(Failure::run(e)),
        None if run.results[0].median_qps.is_none() => Err(Failure::Silent),
        None => Ok(()),
    }
}

/// Returns the request that all trials begin with.
fn request(args: &SearchArgs, search: &Search) -> Result<TrialRequest, Failure> {
    let workload = args.workload.request().map_err(Failure::BadInput)?;
    Ok(TrialRequest {
        duration: search.duration,
        timeout: search.timeout,
        goal: Some(search.goal.clone()),
        sockets: args.sockets.request(),
        seed: args.workload.seed,
        engine: args.engine.apply(Engine::Udp).map_err(Failure::BadInput)?,
        ..TrialRequest::new(args.target, workload, search.pacing.at(search.start))
    })
}

/// Returns what lies between the Tester and a server at an address of this host.
fn loopback(request: &TrialRequest) -> OneHost {
    let gso = request.sockets.gso == Gso::On;
    let path = tested(request, true).path;
    OneHost { link: None, path, gso, gro: request.sockets.gro, tcp: false }
}

/// Limits a search to the rate that a certificate certifies.
fn stay_within(search: &mut Search, file: &CertificateFile) -> Result<(), Failure> {
    let certified = file.certified();
    if search.min.get() > certified.get() {
        let why = format!("--min {} is above the certified rate, {certified}", search.min);
        return Err(Failure::input(anyhow::anyhow!(
            "{why}; lower it, or certify the Tester for more"
        )));
    }
    if search.max.get() > certified.get() {
        eprintln!("searching up to {certified}: the Tester is certified for no more");
        search.max = certified;
        search.start = if search.start.get() > certified.get() { certified } else { search.start };
    }
    Ok(())
}

/// Returns the search and its number of repeats.
fn plan(args: &SearchArgs) -> Result<(Search, u32), Failure> {
    let bad = |why: &str| Err(Failure::BadInput(anyhow::anyhow!("{why}")));
    if !RESOLUTION.contains(&args.resolution) {
        let (least, most) = (RESOLUTION.start(), RESOLUTION.end());
        return bad(&format!("--resolution is a share from {least} to {most}"));
    }
    if args.repeats == 0 {
        return bad("--repeats 0: at least one search must run");
    }
    if args.min.get() > args.max.get() || args.start.get() > args.max.get() {
        return bad("--max is below --start or --min");
    }
    if args.duration == Nanos::ZERO || args.timeout == Nanos::ZERO {
        return bad("--duration and --timeout must be longer than 0");
    }
    let (duration, timeout, repeats) = if args.rfc8219 {
        (conformance::DURATION, conformance::TIMEOUT, conformance::REPEATS)
    } else {
        (args.duration, args.timeout, args.repeats)
    };
    let rule = if args.rfc8219 { RuleName::Rfc8219 } else { args.rule };
    let rule = rule.rule(&args.also, args.duration_sum, duration);
    let search = Search {
        rule: rule.map_err(|e| Failure::input(anyhow::anyhow!("--{}: {e}", e.setting)))?,
        goal: args.goal.clone(),
        start: args.start,
        min: args.min,
        max: args.max,
        resolution: args.resolution,
        duration,
        timeout,
        void_retries: 2,
        pacing: OpenPacing::Constant,
    };
    Ok((search, repeats))
}

/// Prints a line for each trial and each search on standard error.
pub(crate) fn tell(step: &Progress<'_>) {
    match step {
        Progress::Trial(record) => eprintln!("  {}", report::trial_line(record)),
        Progress::Search { repeat, repeats, trace } => {
            eprintln!("search {} of {repeats}: {}", repeat + 1, trace.capacity.verdict);
        }
    }
}
