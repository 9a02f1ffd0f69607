//! `dnsdyno run`: an experiment in the lab.

use std::path::Path;

use experiment::Experiment;
use lab::{Entered, Event, RunOptions, run_experiment};

use crate::args::RunArgs;
use crate::failure::Failure;
use crate::search;
use crate::tester::command_line;

/// The experiments that come with the program, by file name.
const BUILT_IN: [(&str, &str); 1] =
    [("dns64-rfc8219", include_str!("../../../experiments/dns64-rfc8219.toml"))];

pub(crate) fn run(args: RunArgs) -> Result<(), Failure> {
    let experiment = read(&args.experiment).map_err(Failure::BadInput)?;
    let experiment = if args.quick { experiment.quick() } else { experiment };
    // From here on this is the first process of a pid namespace; the one outside only waits.
    let lab = match lab::enter().map_err(Failure::run)? {
        Entered::Inside(lab) => lab,
        Entered::Outside(0) => return Ok(()),
        Entered::Outside(code) => std::process::exit(code.into()),
    };
    let options = RunOptions {
        servers_dir: args.servers_dir.clone(),
        only: args.servers.clone(),
        no_steering: args.no_steering,
        seed: args.seed,
        keep: args.keep,
        command: command_line(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let run = run_experiment(&lab, &experiment, &options, &mut |event| tell(&event));
    let run =
        run.map_err(|e| if e.is_bad_input() { Failure::input(e) } else { Failure::run(e) })?;
    if let Some(path) = &args.json {
        record::write(path, &run).map_err(Failure::run)?;
    }
    if args.json.as_deref() != Some(Path::new("-")) {
        println!("\n{}: {}", experiment.name, experiment.title);
        print!("{}", report::run(&run));
    }
    if run.complete { Ok(()) } else { Err(Failure::Silent) }
}

/// The experiment of a file, or a built-in one by its name.
fn read(path: &Path) -> anyhow::Result<Experiment> {
    if path.exists() {
        return Ok(Experiment::read(path)?);
    }
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    match BUILT_IN.iter().find(|(built_in, _)| *built_in == name) {
        Some((_, text)) => Ok(Experiment::parse(text, path)?),
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
        Event::Testbed(facts) => {
            let facts: Vec<String> =
                facts.iter().map(|(what, how)| format!("{what} {how}")).collect();
            eprintln!("testbed: {}", facts.join("; "));
        }
        Event::SelfTest => eprintln!("self-test of the Tester: the Measurer against the AuthDNS"),
        Event::SelfTestTrial(record) => eprintln!("  {}", report::trial_line(record)),
        Event::Certified(c) if c.passed => {
            eprintln!("certified for servers up to {:.0} qps", c.certified_qps)
        }
        Event::Certified(_) => eprintln!("the Tester passed no self-test"),
        Event::Serving(server, version) => {
            eprintln!("{server} {}", version.unwrap_or("(version not known)"))
        }
        Event::Progress(step) => search::tell(step),
        Event::Skipped(skipped) => eprintln!("{}: not measured: {}", skipped.server, skipped.why),
        Event::Kept(dir) => eprintln!("configurations and logs are kept in {}", dir.display()),
    }
}
