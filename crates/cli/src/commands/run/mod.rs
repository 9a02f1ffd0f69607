//! `dnsdyno run`: an experiment in the lab.

mod answers;
mod args;
mod hosts;
mod keeper;
mod live;
mod metrics;
mod plan;
mod trust;

use std::collections::BTreeMap;
use std::path::Path;

use experiment::{Experiment, VisitResult};
use lab::builds::TriedBuild;
use lab::built_in::{self, EXPERIMENTS};
use lab::host::Depth;
use lab::{
    Checked, CpuList, Entered, Event, Inputs, RemoteHosts, RunOptions, Testers, run_experiment,
};
use record::{
    CellRecord, CertificateFile, Check, EngineChoice, EngineKind, Form, HostFacts, Round, Run,
    Store,
};
use report::view::{cell_name, figure_name, quantity, skipped_name, span};
use streams::tls::Authority;

pub(crate) use self::args::{EXAMPLES, RunArgs};
use self::keeper::Keeper;
use self::live::{Board, LiveView};
use self::metrics::Listener;
use crate::arguments::certificate::shortened;
use crate::arguments::gate::GateArgs;
use crate::arguments::hosts::RunTesters;
use crate::arguments::json;
use crate::arguments::store::{self, RunRef, StoreArgs};
use crate::commands::host;
use crate::failure::Failure;
use crate::nearest::nearest;
use crate::output;
use crate::process::{command_line, outside};

pub(crate) fn run(args: RunArgs) -> Result<(), Failure> {
    if args.list {
        plan::list();
        return Ok(());
    }
    let resumed = args.resume.as_ref().map(|which| unfinished(&args.store, which)).transpose()?;
    if let Some(run) = resumed.as_ref().filter(|run| !run.plan.choices.built.is_empty()) {
        let (id, command) = (run.id.unwrap_or_default(), &run.plan.command);
        let why = format!("run {id} belongs to a history: continue it with {command}");
        return Err(Failure::input(anyhow::anyhow!(why)));
    }
    run_built(args, resumed, Vec::new()).map(drop)
}

/// Runs an experiment with built servers beside its own, or the rest of an interrupted run; returns
/// `None` in the process outside the lab, and if only the plan was requested.
pub(crate) fn run_built(
    args: RunArgs,
    resumed: Option<Run>,
    built: Vec<TriedBuild>,
) -> Result<Option<Run>, Failure> {
    let experiment = match &resumed {
        Some(run) => experiment_of(run)?,
        None => experiment(&args)?,
    };
    let testers = args.hosts.of_run()?;
    let inputs = Inputs::handed();
    let options = RunOptions { built, inputs, ..options(&args, testers.as_ref(), resumed)? };
    let checked = lab::check(&experiment, &options).map_err(failure)?;
    let servers: Vec<&str> = checked.adapters.iter().map(|a| a.name.as_str()).collect();
    args.gate.check(experiment.common().method, &servers).map_err(Failure::BadInput)?;
    answers::check(&experiment).map_err(Failure::input)?;
    if args.dry_run {
        plan::show(&checked, &options);
        return cores_are_here(&checked).map(|()| None);
    }
    output::try_writing([&args.json])?;
    if !args.no_store {
        args.store.open()?.try_writing().map_err(store::failure)?;
    }
    let approved = trust::ask(&experiment, &options, args.trust)?;
    args.quiet.apply();
    let plain = args.plain || args.quiet.quiet;
    // The lab has its own network, which cannot be reached from outside.
    let listener = args.metrics.map(Listener::open).transpose()?;
    let mut handed = listener.as_ref().map_or(Vec::new(), Listener::to_hand);
    handed.extend(live::live_view_variable(plain));
    handed.extend(approved);
    handed.extend(checked.inputs.to_hand());
    // The outer process keeps the reservation until the inner process has ended.
    let _reserved = args.wait.reserve(&checked.cores())?;
    let started = hosts::start(&options, testers.as_ref())?;
    handed.push(started.to_hand().map_err(Failure::run)?);
    // From here on this is the first process of a pid namespace; the process outside only waits.
    let lab = match lab::enter_with(&handed, checked.network()).map_err(Failure::run)? {
        Entered::Inside(lab) => lab,
        Entered::Outside(code) => {
            drop(started);
            return outside(code).map(|()| None);
        }
    };
    let remote_hosts = hosts::inherited(&lab, &options)?;
    let store = if args.no_store { None } else { Some(args.store.open()?) };
    let board = Board::new();
    let viewed = live::is_wanted(plain);
    let watcher = (viewed || listener.is_some()).then(|| board.watcher());
    let options =
        RunOptions { host: fingerprint(&options), watcher, remote_hosts, ..options.clone() };
    metrics::serve(listener, &board)?;
    // Without a live view the steps are printed as plain lines.
    let cpus = checked.tester_cores().cpus().to_vec();
    let view =
        viewed.then(|| LiveView::open(&board, lab.interrupted().clone(), cpus).ok()).flatten();
    let (store, json) = (store.as_ref(), args.json.as_deref());
    conduct(&lab, &checked, &options, store, &board, view, json).map(Some)
}

/// Reads the experiment that the arguments name, in its form.
pub(crate) fn experiment(args: &RunArgs) -> Result<Experiment, Failure> {
    let cpus = args.cpus.iter().cloned().collect();
    in_form(read(args).map_err(Failure::BadInput)?, args.form(), args.repeats, &cpus)
}

/// Refuses an experiment whose cores this process does not have.
fn cores_are_here(checked: &Checked<'_>) -> Result<(), Failure> {
    let (plan, allowed) = (&checked.experiment.common().cpus, CpuList::allowed());
    for (host, wanted) in [("tester", &plan.tester), ("auth", &plan.auth), ("dut", &plan.dut)] {
        if checked.starts_remotely && host == "dut" {
            continue;
        }
        if let Some(cpu) = wanted.iter().find(|cpu| !allowed.cpus().contains(cpu)) {
            let why =
                format!("cpus.{host}: there is no core {cpu} for this process: it has {allowed}");
            return Err(Failure::input(anyhow::anyhow!(why)));
        }
    }
    Ok(())
}

/// Loads a run of the store that is not complete.
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

/// Returns the experiment of a run, in its form.
fn experiment_of(run: &Run) -> Result<Experiment, Failure> {
    let name = format!("run {}", run.id.unwrap_or_default());
    let experiment = Experiment::parse(&run.plan.text, Path::new(&name)).map_err(Failure::input)?;
    let experiment = experiment.in_folder(Path::new(&run.plan.folder));
    let choices = &run.plan.choices;
    in_form(experiment, run.plan.form(), choices.repeats, &choices.cpus)
}

/// Returns the experiment in a form, with the requested repeats and cores.
fn in_form(
    experiment: Experiment,
    form: Form,
    repeats: Option<u32>,
    cpus: &BTreeMap<String, Vec<usize>>,
) -> Result<Experiment, Failure> {
    let experiment = experiment.in_form(form).map_err(Failure::input)?;
    let experiment = experiment.on_cpus(cpus).map_err(Failure::input)?;
    match repeats {
        Some(repeats) => experiment.repeated(repeats).map_err(Failure::input),
        None => Ok(experiment),
    }
}

/// Returns the options of the lab; a resumed run keeps its original options.
pub(crate) fn options(
    args: &RunArgs,
    testers: Option<&RunTesters>,
    resumed: Option<Run>,
) -> Result<RunOptions, Failure> {
    let mut options = RunOptions {
        servers_dir: args.servers_dir.clone(),
        only: args.servers.clone(),
        custom: args.custom.iter().chain(&args.remote).cloned().collect(),
        link: args.link,
        path: args.path,
        engine: engine(args.engine, testers)?,
        certificate: args
            .certificate
            .as_ref()
            .map(|path| CertificateFile::read(path).map_err(Failure::input))
            .transpose()?,
        remote_hosts: remote_hosts(args, testers)?,
        baseline: args.gate.baseline.clone(),
        fail_if: args.gate.fail_if.clone(),
        seed: args.seed,
        repeats: args.repeats,
        cpus: args.cpus.iter().cloned().collect(),
        capture: args.capture_dir.clone(),
        keep: args.keep_files,
        command: command_line(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: option_env!("DNSDYNO_COMMIT").map(str::to_owned),
        certify: Some(|dir, names| {
            let authority = Authority::new().map_err(|e| e.to_string())?;
            authority.write(dir, names).map_err(|e| e.to_string())
        }),
        shortened: shortened()?,
        ..RunOptions::default()
    };
    if let Some(run) = resumed {
        options.go_on(run);
    }
    Ok(options)
}

/// Returns the requested engine; slices of a load are sent by sockets.
fn engine(
    wanted: Option<EngineChoice>,
    testers: Option<&RunTesters>,
) -> Result<Option<EngineChoice>, Failure> {
    match (testers, wanted) {
        (None, engine) => Ok(engine),
        (Some(_), Some(EngineChoice::Kernel)) => {
            let why = "several Testers send with sockets; leave --engine kernel out";
            Err(Failure::input(anyhow::anyhow!(why)))
        }
        (Some(_), _) => Ok(Some(EngineChoice::Sockets)),
    }
}

/// Returns the remote hosts, without agents and servers.
fn remote_hosts(args: &RunArgs, testers: Option<&RunTesters>) -> Result<RemoteHosts, Failure> {
    let named =
        args.remote_hosts.with(testers.map(|testers| &testers.hosts)).map_err(Failure::BadInput)?;
    let testers = testers.map(|testers| Testers { count: testers.count, job: None });
    Ok(RemoteHosts { testers, ..named.hosts() })
}

/// Measures the host before the run and prints its warnings; `None` for a resumed run, which has the facts from its start.
fn fingerprint(options: &RunOptions) -> Option<HostFacts> {
    if options.resumed.is_some() {
        return None;
    }
    // A run whose trials a test shortens is no measurement, and needs no speeds.
    let depth = if options.shortened.is_some() { Depth::Facts } else { Depth::Quick };
    let host = host::take(depth);
    for warning in &host.warnings {
        eprintln!("host: {}", warning.with_advice());
    }
    Some(host)
}

/// Runs the experiment, stores it, and prints its results.
fn conduct(
    lab: &lab::Lab,
    checked: &Checked<'_>,
    options: &RunOptions,
    store: Option<&Store>,
    board: &Board,
    view: Option<LiveView>,
    json: Option<&Path>,
) -> Result<Run, Failure> {
    let recording = store.zip(options.resumed.as_ref()).and_then(|(store, run)| {
        let recording = store.resume(run.id?, &options.version);
        // Its conditions and its baseline may be others than those of the beginning.
        Some(recording.and_then(|mut recording| recording.plan(&run.plan).map(|()| recording)))
    });
    let recording = recording.transpose().map_err(store::failure)?;
    let mut keeper = store.map(|store| Keeper::new(store, recording, lab));
    let run = run_experiment(lab, checked, options, &mut |event| {
        if let Some(keeper) = &mut keeper {
            keeper.keep(&event);
        }
        board.see(&event);
        match &view {
            Some(_) => board.state().say(event_line(&event)),
            None => eprintln!("{}", event_line(&event)),
        }
    });
    drop(view);
    let complete = run.as_ref().is_ok_and(|run| run.complete);
    let mut kept = match keeper {
        Some(keeper) => keeper.finish(complete).map_err(store::failure),
        None => Ok(None),
    };
    let mut run = run.map_err(failure)?;
    run.decide();
    if let (Some(store), Ok(Some(id))) = (store, &kept) {
        // The stored run includes the measurements before an interruption.
        match store.load(*id) {
            Ok(whole) => {
                eprintln!("kept as run {id} in {}", store.path().display());
                run = whole;
            }
            Err(error) => kept = Err(store::failure(error)),
        }
    }
    let shown = json::show_run(json, &run, &format!("\n{}", report::heading(&run)));
    let all_known = run.results.iter().all(CellRecord::has_figure);
    let outcome =
        if run.complete && all_known { GateArgs::outcome(&run) } else { Err(Failure::Silent) };
    Failure::with_verdict(kept.map(drop).and(shown), outcome).map(|()| run)
}

/// Returns why an experiment did not begin.
pub(crate) fn failure(e: lab::RunError) -> Failure {
    if e.is_bad_input() { Failure::input(e) } else { Failure::run(e) }
}

/// Reads an experiment from a file, or a built-in one by its name.
fn read(args: &RunArgs) -> anyhow::Result<Experiment> {
    let path = args.experiment.as_deref().unwrap_or(Path::new(""));
    if path.exists() {
        return Ok(Experiment::read(path)?);
    }
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    match built_in::experiment(&name) {
        Some(text) => Ok(Experiment::parse(text, path)?),
        None => {
            let known: Vec<&str> = EXPERIMENTS.iter().map(|(name, _)| *name).collect();
            let nearest = nearest(&name, known.iter().copied());
            let hint = nearest.map_or(String::new(), |name| format!("; did you mean {name}?"));
            anyhow::bail!(
                "there is no experiment file {}, and none built in of that name{hint}; built in: {}",
                path.display(),
                known.join(", ")
            )
        }
    }
}

/// Returns the line for a step of the run.
fn event_line(event: &Event<'_>) -> String {
    match event {
        Event::Begun(plan) => {
            let facts: Vec<String> =
                plan.words().iter().map(|(what, how)| format!("{what} {how}")).collect();
            format!("testbed: {}", facts.join("; "))
        }
        Event::SelfTest(engine) => {
            let of = engine_words(*engine);
            format!("self-test of the Tester{of}: the Measurer against the AuthDNS")
        }
        Event::Engine { engine, why, .. } => format!("engine {engine}: {why}"),
        Event::Certified(engine, c) if c.passed => {
            let missed: Vec<&Check> = c.checks.iter().filter(|check| check.is_failed()).collect();
            let known = match (c.checks.len(), missed.len()) {
                (0, _) => String::new(),
                (all, missed) => format!("; {} of {all} known values found", all - missed),
            };
            let missed = missed.iter().map(|check| format!("\n  {}", report::check_line(check)));
            let of = engine_words(*engine);
            format!("certified for servers up to {:.0} qps{of}{known}", c.certified_qps)
                + &missed.collect::<String>()
        }
        Event::Certified(engine, _) => {
            format!("the Tester{} passed no self-test", engine_words(*engine))
        }
        Event::Planned(cells, expected) => {
            format!("{} cells, about {}", cells.len(), span(expected.as_secs_f64()))
        }
        Event::Visit { cell, repeat, number: (number, of), remaining } => format!(
            "[{number}/{of}, about {} left] {}, repeat {}",
            span(remaining.as_secs_f64()),
            cell_name(cell),
            repeat + 1
        ),
        Event::Serving(server, version) => {
            format!("  {server} {}", version.unwrap_or("(version not known)"))
        }
        Event::SelfTestTrial(record) => format!("  {}", report::trial_line(record, "qps")),
        Event::Trial(cell, record) => format!("  {}", report::trial_of_cell(cell, record)),
        Event::Visited { cell, repeat: (repeat, of), found } => {
            let words = words(found, cell.capacity_unit());
            format!("{}, {} of {of}: {words}", cell_name(cell), repeat + 1)
        }
        Event::SummedUp(cell) => {
            let capacity = cell.capacity.as_ref().map_or("none".to_owned(), |c| {
                let (low, high) = (c.low_qps, c.high_qps);
                format!("{:.0} ({low:.0} to {high:.0}), {}, {} rounds", c.qps, c.basis, c.rounds)
            });
            format!("{}: capacity {capacity}", cell_name(cell))
        }
        Event::Forgotten(cell, repeat) => {
            let name = cell_name(cell);
            format!("{name}: repeat {}, void or cut short before, is measured again", repeat + 1)
        }
        Event::Skipped(skipped) => {
            format!("{}: not measured: {}", skipped_name(skipped), skipped.why)
        }
        Event::Kept(dir) => format!("configurations and logs are kept in {}", dir.display()),
    }
}

/// Returns the engine in words; empty for the usual one.
fn engine_words(engine: EngineKind) -> String {
    if engine == EngineKind::Kernel { format!(" with the engine {engine}") } else { String::new() }
}

/// Returns a round in words: answers a second, and the CPU time of the server for each.
fn round_words(round: &Round) -> String {
    let cpu = round.cpu_us_per_answer.map(|us| format!(", {us:.1} us of CPU for each"));
    format!("{:.0} answers/s{}", round.qps, cpu.unwrap_or_default())
}

/// Returns the findings of a visit as text; `unit` is the unit of a search's rates.
fn words(found: &VisitResult, unit: &str) -> String {
    let with_unit = |text: &str| text.replace(" qps", &format!(" {unit}"));
    match found {
        VisitResult::Capacity(capacity) => with_unit(&capacity.verdict),
        VisitResult::Round(found) => round_words(&found.round),
        VisitResult::Void(void) => format!("void: {}", with_unit(&void.why)),
        VisitResult::Answers(diff) => {
            format!("{} of {} queries have equal answers", diff.equal, diff.asked)
        }
        VisitResult::Figures(figures) | VisitResult::Replicated { figures, .. } => {
            let words: Vec<String> = figures
                .iter()
                .map(|(name, unit, value)| {
                    format!("{} {}", figure_name(name), quantity(*value, unit))
                })
                .collect();
            words.join(", ")
        }
    }
}
