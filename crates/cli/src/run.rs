//! `dnsdyno run`: an experiment in the lab.

use std::path::Path;

use experiment::{Experiment, Found};
use lab::host::Depth;
use lab::{Checked, Entered, Event, RunOptions, run_experiment};
use net::tls::Authority;
use record::{Run, Store};

use crate::args::RunArgs;
use crate::built_in::{self, BUILT_IN};
use crate::failure::Failure;
use crate::fingerprint;
use crate::keep::Keeper;
use crate::metrics::{Listener, Metrics};
use crate::plan;
use crate::replicate;
use crate::store::{self, RunRef, StoreArgs};
use crate::tester::command_line;

pub(crate) fn run(args: RunArgs) -> Result<(), Failure> {
    if args.list {
        plan::list();
        return Ok(());
    }
    if let Some(text) = replicate::text(&args) {
        return replicate::run(&args, &text);
    }
    let resumed = args.resume.as_ref().map(|which| unfinished(&args.store, which)).transpose()?;
    let experiment = match &resumed {
        Some(run) => again(run)?,
        None => {
            let experiment = read(&args).map_err(Failure::BadInput)?;
            if args.quick { experiment.quick() } else { experiment }
        }
    };
    let options = options(&args, resumed);
    let checked = lab::check(&experiment, &options).map_err(failure)?;
    if args.dry_run {
        plan::show(&checked);
        return Ok(());
    }
    // The lab has a network of its own, where nobody would find it.
    let listener = args.metrics.map(Listener::open).transpose()?;
    let variables = listener.as_ref().map_or(Vec::new(), Listener::variables);
    // From here on this is the first process of a pid namespace; the one outside only waits.
    let lab = match lab::enter_with(&variables).map_err(Failure::run)? {
        Entered::Inside(lab) => lab,
        Entered::Outside(0) => return Ok(()),
        Entered::Outside(code) => std::process::exit(code.into()),
    };
    let store = if args.no_store { None } else { Some(args.store.open()?) };
    let options = RunOptions { host: fingerprint(&options), ..options.clone() };
    let metrics = Metrics::serve(listener)?;
    conduct(&lab, &checked, &options, (store.as_ref(), &metrics), args.json.as_deref())
}

/// A run of the store that is not complete.
fn unfinished(store: &StoreArgs, which: &RunRef) -> Result<Run, Failure> {
    let store = store.must_exist()?;
    let run = store.load(which.id(&store)?).map_err(store::failure)?;
    let id = run.id.unwrap_or_default();
    if run.complete {
        return Err(Failure::input(anyhow::anyhow!("run {id} is complete: nothing is left to do")));
    }
    if run.plan.text.is_empty() {
        let why = "was not made by `dnsdyno run`: it has no experiment";
        return Err(Failure::input(anyhow::anyhow!("run {id} {why}")));
    }
    Ok(run)
}

/// The experiment of a run, in the form in which it was run.
fn again(run: &Run) -> Result<Experiment, Failure> {
    let name = format!("run {}", run.id.unwrap_or_default());
    let experiment = Experiment::parse(&run.plan.text, Path::new(&name)).map_err(Failure::input)?;
    Ok(if run.plan.quick { experiment.quick() } else { experiment })
}

/// What the lab is told; a run that is taken up again goes on as it began.
fn options(args: &RunArgs, resumed: Option<Run>) -> RunOptions {
    let mut options = RunOptions {
        servers_dir: args.servers_dir.clone(),
        only: args.servers.clone(),
        custom: args.custom.clone(),
        no_steering: args.no_steering,
        seed: args.seed,
        keep: args.keep,
        command: command_line(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        certify: Some(|dir, names| {
            let authority = Authority::new().map_err(|e| e.to_string())?;
            authority.write(dir, names).map_err(|e| e.to_string())
        }),
        ..RunOptions::default()
    };
    if let Some(run) = resumed {
        options.go_on(run);
    }
    options
}

/// The host as it is before the run. A run that is taken up again has its own.
fn fingerprint(options: &RunOptions) -> serde_json::Value {
    if options.resumed.is_some() {
        return serde_json::Value::Null;
    }
    host_now()
}

/// The host as it is now; its warnings are told.
pub(crate) fn host_now() -> serde_json::Value {
    let host = fingerprint::take(Depth::Quick);
    for warning in host["warnings"].as_array().into_iter().flatten().filter_map(|w| w.as_str()) {
        eprintln!("host: {warning}");
    }
    host
}

/// Runs the experiment, keeps it, and shows what came of it.
fn conduct(
    lab: &lab::Lab,
    checked: &Checked<'_>,
    options: &RunOptions,
    (store, metrics): (Option<&Store>, &Metrics),
    json: Option<&Path>,
) -> Result<(), Failure> {
    let recording = match (store, options.resumed.as_ref().and_then(|run| run.id)) {
        (Some(store), Some(id)) => {
            Some(store.resume(id, &options.version).map_err(store::failure)?)
        }
        _ => None,
    };
    let mut keeper = store.map(|store| Keeper::new(store, recording, lab));
    let run = run_experiment(lab, checked, options, &mut |event| {
        if let Some(keeper) = &mut keeper {
            keeper.keep(&event);
        }
        metrics.see(&event);
        tell(&event);
    });
    let complete = run.as_ref().is_ok_and(|run| run.complete);
    let id = match keeper {
        Some(keeper) => keeper.finish(complete).map_err(store::failure)?,
        None => None,
    };
    let mut run = run.map_err(failure)?;
    if let (Some(store), Some(id)) = (store, id) {
        // As it is kept: with what was measured before an interruption, and the seam.
        run = store.load(id).map_err(store::failure)?;
        eprintln!("kept as run {id} in {}", store.path().display());
    }
    if let Some(path) = json {
        record::write(path, &run).map_err(Failure::run)?;
    }
    if json != Some(Path::new("-")) {
        print!("\n{}{}", report::heading(&run), report::run(&run));
    }
    if run.complete { Ok(()) } else { Err(Failure::Silent) }
}

fn failure(e: lab::RunError) -> Failure {
    if e.is_bad_input() { Failure::input(e) } else { Failure::run(e) }
}

/// The experiment of a file, or a built-in one by its name.
fn read(args: &RunArgs) -> anyhow::Result<Experiment> {
    let path = args.experiment.as_deref().unwrap_or(Path::new(""));
    if path.exists() {
        return Ok(Experiment::read(path)?);
    }
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    match built_in::text(&name) {
        Some(text) => Ok(Experiment::parse(text, path)?),
        None => {
            let known = BUILT_IN.map(|(name, _)| name).join(", ");
            anyhow::bail!(
                "there is no experiment file {}, and none built in of that name; built in: {known}",
                path.display()
            )
        }
    }
}

/// A line for each step, on standard error.
fn tell(event: &Event<'_>) {
    match event {
        Event::Begun(plan) => {
            let facts: Vec<String> =
                plan.testbed.iter().map(|(what, how)| format!("{what} {how}")).collect();
            eprintln!("testbed: {}", facts.join("; "));
        }
        Event::SelfTest => eprintln!("self-test of the Tester: the Measurer against the AuthDNS"),
        Event::SelfTestTrial(record) => eprintln!("  {}", report::trial_line(record)),
        Event::Certified(c) if c.passed => {
            eprintln!("certified for servers up to {:.0} qps", c.certified_qps)
        }
        Event::Certified(_) => eprintln!("the Tester passed no self-test"),
        Event::Planned(cells, expected) => {
            eprintln!("{} cells, about {}", cells.len(), plan::minutes(*expected));
        }
        Event::Visit { cell, repeat, number: (number, of), remaining } => eprintln!(
            "[{number}/{of}, about {} left] {}, repeat {}",
            plan::minutes(*remaining),
            report::cell_name(cell),
            repeat + 1
        ),
        Event::Serving(server, version) => {
            eprintln!("  {server} {}", version.unwrap_or("(version not known)"))
        }
        Event::Trial(_, record) => eprintln!("  {}", report::trial_line(record)),
        Event::Visited { cell, repeat: (repeat, of), found } => {
            eprintln!("{}, {} of {of}: {}", cell.server, repeat + 1, words(found));
        }
        Event::Forgotten(cell, repeat) => {
            eprintln!("{}: repeat {} was cut short and is done anew", cell.server, repeat + 1);
        }
        Event::Skipped(skipped) => {
            eprintln!("{}: not measured: {}", report::skipped_name(skipped), skipped.why);
        }
        Event::Kept(dir) => eprintln!("configurations and logs are kept in {}", dir.display()),
    }
}

/// What a visit found, in words.
fn words(found: &Found) -> String {
    match found {
        Found::Capacity(capacity) => capacity.verdict.clone(),
        Found::Figures(figures) => {
            let words: Vec<String> = figures
                .iter()
                .map(|(name, unit, value)| {
                    format!("{} {}", name.replace('_', " "), report::quantity(*value, unit))
                })
                .collect();
            words.join(", ")
        }
    }
}
