//! `dnsdyno search`: the highest rate at which a goal is met.

mod args;

use std::path::Path;
use std::time::Instant;

use experiment::search::RESOLUTION;
use experiment::{BenchError, NameBudget, Progress, Repeats, RuleName, Search, conformance};
use measure::{Nanos, OpenPacing};
use record::request::{self, Engine};
use record::{Plan, Run, SCHEMA, TrialRequest};
use tester::{Setup, unix_now};

pub(crate) use self::args::{EXAMPLES, SearchArgs};
use crate::bench::OwnBench;
use crate::failure::Failure;
use crate::process::command_line;
use crate::process::interruption;

pub(crate) fn run(args: SearchArgs) -> Result<(), Failure> {
    let (search, repeats) = plan(&args)?;
    let sockets = args.sockets.request();
    let request = TrialRequest {
        version: request::VERSION,
        target: args.target,
        engine: Engine::Udp,
        workload: args.workload.request().map_err(Failure::BadInput)?,
        pacing: search.pacing.at(search.start),
        duration: search.duration,
        timeout: search.timeout,
        goal: Some(search.goal.clone()),
        early_stop: false,
        sockets,
        seed: args.workload.seed,
        live: None,
        dut_cpus: Vec::new(),
        auth_cpus: Vec::new(),
    };
    let setup = Setup::new(request, command_line())?;
    // Query files and generated names have no end: they may repeat names.
    let names = setup.names();
    let mut names = NameBudget::new(names.unwrap_or(u64::MAX), names.is_none() || !args.rfc8219);
    let mut bench = OwnBench { setup, stop: interruption()? };
    let (began, started) = (Instant::now(), unix_now());
    let repeats = Repeats { search, repeats, over_ipv6: args.target.is_ipv6() };
    let server = args.target.to_string();
    let (result, error) =
        repeats.run(&mut bench, &server, &mut names, None, &mut |step| tell(&step));
    let run = Run {
        schema: SCHEMA,
        plan: Plan {
            experiment: "search".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            command: command_line(),
            started_unix_s: started,
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
