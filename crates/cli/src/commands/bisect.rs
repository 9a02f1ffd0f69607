//! `dnsdyno bisect`: which commit changed a figure of a server.

use std::collections::BTreeMap;

use anyhow::anyhow;
use clap::{Args, ValueEnum};
use experiment::Experiment;
use experiment::bisect::{Bisection, Compared, Obstacle, Pair, Sides, bisect};
use experiment::capacity::{pairs_of, speed_in};
use lab::builds::Revision;
use lab::{Entered, Lab, LabNetwork, RunOptions, run_experiment};
use measure::stats::OfRounds;
use record::{CellRecord, Decision, RESIDENT, Round, Run, Trial};
use report::view::{Align, align, quantity};
use serde_json::{Value, json};

use crate::arguments::build::{BuildArgs, Builds};
use crate::arguments::json;
use crate::commands::compare::outcome;
use crate::commands::run::{self, RunArgs};
use crate::failure::Failure;
use crate::output;
use crate::process::outside;

pub(crate) const EXAMPLES: &str = "Examples:
  Which commit between two releases changed how much CPU time an answer of NSD takes?
    dnsdyno bisect auth-scaling --quick --build nsd --repository /src/nsd --good NSD_4_8_0_REL --bad NSD_4_9_0_REL --metric cpu

The exit code is 0 if a commit was found, 4 if no difference or no single commit is shown, 1 if the bisection failed.";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Metric {
    /// Valid answers a second of closed loops.
    Capacity,
    /// CPU time of the server for each answer.
    Cpu,
    /// 99th percentile of the latency of closed loops.
    P99,
    /// Most resident memory of the server.
    Memory,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct BisectArgs {
    #[command(flatten)]
    build: BuildArgs,
    /// The revision before the change
    #[arg(long, value_name = "REVISION")]
    good: String,
    /// The revision after the change
    #[arg(long, value_name = "REVISION")]
    bad: String,
    /// The figure that changed, in either direction
    #[arg(long, value_enum, value_name = "FIGURE", default_value = "capacity")]
    metric: Metric,
    #[command(flatten)]
    run: RunArgs,
}

/// Refuses options of `run` that change nothing here.
fn refuse_unused(args: &RunArgs) -> Result<(), Failure> {
    let unused = [
        ("--list", args.list),
        ("--resume", args.resume.is_some()),
        ("--repeats", args.repeats.is_some()),
        ("--servers", !args.servers.is_empty()),
        ("--custom", !args.custom.is_empty()),
        ("--remote", !args.remote.is_empty()),
        ("--baseline", args.gate.baseline.is_some()),
        ("--fail-if", !args.gate.fail_if.is_empty()),
        ("--metrics", args.metrics.is_some()),
        ("--hosts", args.hosts.is_given()),
        ("--no-store", args.no_store),
        ("--store", args.store.store.is_some()),
    ];
    match unused.iter().find(|(_, given)| *given) {
        Some((option, _)) => Err(Failure::input(anyhow!(
            "a bisection compares two revisions at a time, and {option} changes nothing there: leave it out"
        ))),
        None => Ok(()),
    }
}

pub(crate) fn run(args: &BisectArgs) -> Result<(), Failure> {
    refuse_unused(&args.run)?;
    let builds = args.build.open()?;
    let commits = builds.recipe.commits(&args.good, &args.bad).map_err(Failure::input)?;
    if commits.len() < 2 {
        let why = format!("`{}` and `{}` are the same commit", args.good, args.bad);
        return Err(Failure::input(anyhow!(why)));
    }
    let mut experiment = run::experiment(&args.run)?;
    let method = experiment.common().method;
    if !method.is_capacity()
        || experiment.points.iter().any(|point| !point.settings.method.is_capacity())
    {
        return Err(Failure::input(anyhow!(
            "the method is `{}`, and a bisection compares rounds of the method `capacity`; --quick has it",
            method.word()
        )));
    }
    // Only the rounds of each point count.
    experiment.points.iter_mut().for_each(|point| point.settings.capacity.loads = false);
    let options = run::options(&args.run, None, None)?;
    let planned = builds.planned(&commits[0]);
    let (only, built) = (vec![planned.record.name.clone()], vec![planned]);
    let plan = RunOptions { only, built, ..options.clone() };
    let cores = lab::check(&experiment, &plan).map_err(run::failure)?.cores();
    if args.run.dry_run {
        commits.iter().for_each(|one| println!("{} {}", one.name, one.subject));
        return Ok(());
    }
    output::try_writing([&args.run.json])?;
    let _reserved = args.run.wait.reserve(&cores)?;
    let lab = match lab::enter_with(&[], LabNetwork::Own).map_err(Failure::run)? {
        Entered::Inside(lab) => lab,
        Entered::Outside(code) => return outside(code),
    };
    let last = commits.len() - 1;
    let mut rounds = StepRounds { lab, experiment, options, builds, commits, metric: args.metric };
    let bisected = bisect(last, &mut rounds).map_err(|obstacle| {
        Failure::run(match obstacle {
            Obstacle::Unusable(i) => {
                anyhow!("{} could not be built or measured", rounds.commits[i].name)
            }
            Obstacle::Failed(why) => anyhow!(why),
        })
    })?;
    print_outcome(args, &bisected, &rounds)
}

/// Rounds of revisions in the lab, a run for each comparison.
struct StepRounds {
    lab: Lab,
    experiment: Experiment,
    options: RunOptions,
    builds: Builds,
    commits: Vec<Revision>,
    metric: Metric,
}

impl StepRounds {
    /// Returns the commits between two revisions that could not be measured, with both ends left out.
    fn between(&self, compared: &Compared) -> &[Revision] {
        &self.commits[compared.before + 1..compared.after]
    }
}

impl Sides for StepRounds {
    fn pairs(&mut self, before: usize, after: usize, rounds: usize) -> Result<Vec<Pair>, Obstacle> {
        let failed = |e: &dyn std::fmt::Display| Obstacle::Failed(e.to_string());
        let sides = [before, after].map(|side| self.commits[side].clone());
        let built = self.builds.build(&sides, self.lab.interrupted());
        if self.lab.interrupted().load(std::sync::atomic::Ordering::Relaxed) {
            return Err(Obstacle::Failed("interrupted".to_owned()));
        }
        if let Some(gap) = built.iter().position(|one| !one.record.is_built()) {
            return Err(Obstacle::Unusable([before, after][gap]));
        }
        let names: Vec<String> = built.iter().map(|one| one.record.name.clone()).collect();
        let repeats = u32::try_from(rounds).unwrap_or(u32::MAX);
        let experiment = self.experiment.clone().repeated(repeats).map_err(|e| failed(&e))?;
        self.options.seed = self.options.seed.wrapping_add(1);
        let baseline = Some(names[0].clone());
        let only = names.clone();
        let options = RunOptions { only, baseline, built, ..self.options.clone() };
        let checked = lab::check(&experiment, &options).map_err(|e| failed(&e))?;
        let run = run_experiment(&self.lab, &checked, &options, &mut |_| ());
        let run = run.map_err(|e| failed(&e))?;
        if self.lab.interrupted().load(std::sync::atomic::Ordering::Relaxed) {
            return Err(Obstacle::Failed("interrupted".to_owned()));
        }
        // Both sides have cells at the same points, or cannot be compared.
        let cells = |name: &String| cells_of(&run, name).count();
        let found = cells_of(&run, &names[0]).all(|cell| !cell.windows.is_empty());
        if self.options.alike.is_empty() && found {
            // A few rounds choose a window by chance, and two windows differ by more than two revisions.
            self.options.alike = cells_of(&run, &names[0]).cloned().collect();
            let window = |cell: &CellRecord| cell.capacity.as_ref().map(|found| found.window);
            let mut ends = cells_of(&run, &names[0]).zip(cells_of(&run, &names[1]));
            if ends.any(|(before, after)| window(before) != window(after)) {
                return Ok(Vec::new());
            }
        }
        let most = names.iter().map(cells).max();
        for (name, side) in names.iter().zip([before, after]) {
            let skipped = run.skipped.iter().find(|skipped| skipped.server == *name);
            let skipped = skipped.filter(|_| cells(name) == 0);
            if let Some(skipped) = skipped {
                eprintln!("{name}: not measured: {}", skipped.why);
            }
            if skipped.is_some() || Some(cells(name)) < most {
                return Err(Obstacle::Unusable(side));
            }
        }
        let pairs = pairs(&run, &names, repeats, self.metric);
        let ratios: Vec<String> =
            pairs.iter().map(|pair| format!("{:.3}", pair.after / pair.before)).collect();
        eprintln!("{} against {}: {}", names[1], names[0], ratios.join(" "));
        Ok(pairs)
    }
}

/// Returns the cells of the server `name`.
fn cells_of<'r>(run: &'r Run, name: &'r str) -> impl Iterator<Item = &'r CellRecord> {
    run.results.iter().filter(move |cell| cell.server == name)
}

/// Returns the figures of two servers in the rounds that have both, the mean (geometric) of all points of the matrix.
fn pairs(run: &Run, names: &[String], rounds: u32, metric: Metric) -> Vec<Pair> {
    let points = cells_of(run, &names[0]).zip(cells_of(run, &names[1]));
    let points: Vec<_> = points.map(|(before, after)| figures(before, after, metric)).collect();
    let mean = |round: u32, of: fn(&(f64, f64)) -> f64| {
        let logs: Option<f64> = points.iter().map(|point| Some(of(point.get(&round)?).ln())).sum();
        Some((logs? / points.len() as f64).exp())
    };
    let pair =
        |round| Some(Pair { before: mean(round, |of| of.0)?, after: mean(round, |of| of.1)? });
    (0..rounds).filter_map(pair).filter(|pair| pair.before > 0.0 && pair.after > 0.0).collect()
}

/// Returns the figures of two cells by the number of the rounds that have both.
fn figures(before: &CellRecord, after: &CellRecord, metric: Metric) -> BTreeMap<u32, (f64, f64)> {
    let of: fn(&CellRecord, &Round) -> Option<f64> = match metric {
        Metric::Capacity => return pairs_of(before, after),
        Metric::Cpu => |cell, round| Some(round.cpu_us_per_answer? * speed_in(cell)(round)),
        Metric::P99 => |cell, round| trial(cell, round)?.latency_us.kept(0.99),
        Metric::Memory => |cell, round| {
            let mut probes = trial(cell, round)?.probes.iter();
            let samples = &probes.find(|series| series.name == RESIDENT)?.samples;
            samples.iter().map(|(_, value)| *value).reduce(f64::max)
        },
    };
    let both = |round: &Round| {
        let other = after.rounds.iter().find(|other| other.round == round.round)?;
        Some((round.round, (of(before, round)?, of(after, other)?)))
    };
    before.rounds.iter().filter_map(both).collect()
}

/// Returns the last trial of a round, its closed loop.
fn trial<'c>(cell: &'c CellRecord, round: &Round) -> Option<&'c Trial> {
    cell.trials.iter().rfind(|trial| trial.repeat == round.round).map(|trial| &trial.trial)
}

impl Metric {
    /// Returns the name of the figure in words, and its unit.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Metric::Capacity => ("capacity", "qps"),
            Metric::Cpu => ("CPU time for each answer", "us"),
            Metric::P99 => ("latency p99 of closed loops", "us"),
            Metric::Memory => ("resident memory", "B"),
        }
    }
}

/// Prints the outcome, with the command that repeats its comparison.
fn print_outcome(
    args: &BisectArgs,
    bisected: &Bisection,
    rounds: &StepRounds,
) -> Result<(), Failure> {
    let (name, unit) = args.metric.words();
    let commit = |i: usize| &rounds.commits[i];
    let last = rounds.commits.len() - 1;
    let (compared, verdict, words) = match bisected {
        Bisection::Same(whole) => (whole, "same", format!("no difference is shown: {name}")),
        Bisection::Spread(whole) => {
            let words = format!(
                "{} and {} differ, but none of the {last} steps between them is shown to differ: {name}",
                commit(0).name,
                commit(last).name
            );
            (whole, "spread", words)
        }
        Bisection::Found { step, .. } => {
            let found = commit(step.after);
            let others = rounds.between(step).len();
            let others = match others {
                0 => String::new(),
                n => format!(" (or one of the {n} before it, which cannot be built or measured)"),
            };
            let words = format!("{} {}{others} changed: {name}", found.commit, found.subject);
            (step, "found", words)
        }
    };
    let row = |what: &str, figure: &OfRounds| {
        let shown = |value| quantity(value, unit);
        let (low, high) = (shown(figure.interval.low), shown(figure.interval.high));
        [what.to_owned(), shown(figure.value), format!("({low} to {high})")]
    };
    let ratio = &compared.ratio;
    let table = align(
        &[
            row(&commit(compared.before).name, &compared.before_figure),
            row(&commit(compared.after).name, &compared.after_figure),
            [
                "ratio".to_owned(),
                format!("{:.3}", ratio.value),
                format!(
                    "({:.3} to {:.3}), {} rounds",
                    ratio.interval.low, ratio.interval.high, compared.rounds
                ),
            ],
        ],
        &[Align::Left, Align::Right, Align::Left],
    );
    let form = args.run.form().option();
    let file = args.run.experiment.as_ref().map(|path| path.display().to_string());
    let repeat = format!(
        "dnsdyno history {}{form} {} --again --revisions {},{}",
        file.unwrap_or_default(),
        args.build.words(),
        commit(compared.before).name,
        commit(compared.after).name
    );
    let mut found = as_json(compared, rounds);
    found["verdict"] = verdict.into();
    found["repeat"] = repeat.as_str().into();
    let text = || format!("{words}\n{table}to repeat it: {repeat}\n");
    json::show(args.run.json.as_deref(), |path| record::write(path, &found), text)?;
    match bisected {
        Bisection::Found { .. } => Ok(()),
        _ => outcome(Decision::Inconclusive),
    }
}

/// Returns two revisions and their figures for programs.
fn as_json(compared: &Compared, rounds: &StepRounds) -> Value {
    let (name, unit) = rounds.metric.words();
    let figure = |of: &OfRounds| json!({ "value": of.value, "low": of.interval.low, "high": of.interval.high });
    let side = |i: usize, of: &OfRounds| {
        let Revision { name, commit, .. } = &rounds.commits[i];
        json!({ "revision": name, "commit": commit, "figure": figure(of) })
    };
    json!({
        "metric": name, "unit": unit, "rounds": compared.rounds,
        "before": side(compared.before, &compared.before_figure),
        "after": side(compared.after, &compared.after_figure),
        "ratio": figure(&compared.ratio),
    })
}
