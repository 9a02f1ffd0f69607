//! `dnsdyno history`: an experiment over the revisions of a server, beside one fixed anchor.
//!
//! Each run of a history is an ordinary run of the store, whose servers are the anchor and built
//! revisions. Revisions in earlier runs are not measured again: ratios to the anchor can be joined,
//! as long as the speed of the anchor does not change.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

use anyhow::anyhow;
use clap::Args;
use experiment::Experiment;
use experiment::capacity::least_rounds;
use experiment::file::Role;
use lab::builds::Revision;
use record::testbed::User;
use record::{BuiltServer, CellRecord, Choices, Run, Skipped};
use report::view::setting_words;

use crate::arguments::build::{BuildArgs, Builds};
use crate::arguments::store;
use crate::commands::compare::outcome;
use crate::commands::run::{self, RunArgs};
use crate::failure::Failure;

/// Largest change of the anchor's capacity, as a share, with which ratios of two runs can be
/// compared.
const MAX_DRIFT: f64 = 0.1;
/// Text in the failure reason of a server when the disk is full.
const NO_SPACE: &str = "No space left on device";

pub(crate) const EXAMPLES: &str = "Examples:
  Each release of NSD since 4.3, from a copy of its repository, beside our AuthDNS
    dnsdyno history auth-scaling --quick --build nsd --repository /src/nsd --repository simdzone=/src/simdzone --revisions NSD_4_3_0_REL..NSD_4_12_0_REL

  Every tenth commit between two releases, by a recipe of your own
    dnsdyno history auth-scaling --quick --build mine --builds mine.toml --revisions v1.0..main --every 10

  Interrupted, or there is a new release: the same command measures what is left
    dnsdyno history auth-scaling --quick --build nsd --repository /src/nsd --revisions NSD_4_3_0_REL..NSD_4_13_0_REL

  As pages, with a line for each figure over the versions
    dnsdyno site public 7 8";

#[derive(Args, Clone, Debug)]
pub(crate) struct HistoryArgs {
    #[command(flatten)]
    build: BuildArgs,
    /// Revisions, with commas between them: tags, commits, versions of archives, A..B with both ends, or two days (2023-01-01..2024-12-31)
    #[arg(long, value_name = "LIST")]
    revisions: String,
    /// Measure only every N-th revision of a range, and its last one
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    every: u16,
    /// Measure also what earlier runs of the store have measured
    #[arg(long)]
    again: bool,
    #[command(flatten)]
    run: RunArgs,
}

/// Refuses options of `run` without an effect here.
fn refuse_unused(args: &RunArgs) -> Result<(), Failure> {
    let why = "--list and --resume are for `dnsdyno run`; the same command continues a history";
    let unused = args.list || args.resume.is_some();
    if unused { Err(Failure::input(anyhow!(why))) } else { Ok(()) }
}

pub(crate) fn run(args: HistoryArgs) -> Result<(), Failure> {
    refuse_unused(&args.run)?;
    let builds = args.build.open()?;
    let experiment = run::experiment(&args.run)?;
    let anchor = anchor(&args.run, &experiment)?;
    let mut revisions =
        builds.recipe.revisions(&args.revisions, args.every.into()).map_err(Failure::input)?;
    let earlier = if args.again || args.run.no_store {
        Vec::new()
    } else {
        earlier(&args.run, &builds, &experiment, &anchor)?
    };
    let (mut unfinished, earlier): (Vec<Run>, Vec<Run>) =
        earlier.into_iter().partition(is_unfinished);
    unfinished.truncate(1);
    let unfinished = unfinished.pop();
    match &unfinished {
        Some(run) => revisions = begun(run, &builds)?,
        None => {
            let known: BTreeSet<String> = earlier.iter().flat_map(measured_commits).collect();
            let not_built = |run| commits_of(run, |one| !one.is_built());
            let failed: BTreeSet<String> = earlier.iter().flat_map(not_built).collect();
            // In the lab a revision may have failed only now, and is a gap of this run too.
            let is_gap = |one: &Revision| {
                !lab::is_inside() && failed.contains(&one.commit) && builds.has_failed(one)
            };
            revisions.retain(|one| !known.contains(&one.commit) && !is_gap(one));
        }
    }
    if args.run.dry_run {
        revisions.iter().for_each(|one| println!("{}", builds.recipe.server_name(one)));
        return Ok(());
    }
    if revisions.is_empty() {
        println!("every revision is measured: `dnsdyno site DIR RUN...` shows them");
        return Ok(());
    }
    let built = match lab::is_inside() {
        true => builds.known(&revisions),
        false => builds.build(&revisions, &AtomicBool::new(false)),
    };
    let programs = built.iter().filter(|one| one.record.is_built());
    let mut servers = vec![anchor.clone()];
    servers.extend(programs.map(|one| one.record.name.clone()));
    if servers.len() == 1 {
        return Err(Failure::run(anyhow!("no revision could be built")));
    }
    let mut plan = args.run.clone();
    plan.servers.extend(servers);
    plan.gate.baseline = Some(anchor.clone());
    match run::run_built(plan, unfinished, built)? {
        Some(run) => report_drift(&run, &earlier, &anchor),
        None => Ok(()),
    }
}

/// Returns the revisions of a run that is not complete, which is continued.
fn begun(run: &Run, builds: &Builds) -> Result<Vec<Revision>, Failure> {
    let (id, built) = (run.id.unwrap_or_default(), &run.plan.choices.built);
    if !lab::is_inside() {
        eprintln!("run {id} of this history is not complete: it is continued first");
    }
    let names: Vec<&str> = built.iter().map(|one| one.revision.as_str()).collect();
    let revisions = builds.recipe.revisions(&names.join(","), 1).map_err(Failure::input)?;
    let same = |one: &Revision| built.iter().any(|built| built.commit == one.commit);
    match revisions.iter().find(|one| !same(one)) {
        Some(moved) => Err(Failure::input(anyhow!(
            "`{}` is another commit since run {id} began: name commits, or measure all with --again",
            moved.name
        ))),
        None => Ok(revisions),
    }
}

/// Returns the name of the server that all revisions are compared with.
fn anchor(args: &RunArgs, experiment: &Experiment) -> Result<String, Failure> {
    let usual = match experiment.common().role {
        Role::Authoritative => Some("authdns"),
        Role::Dns64 => Some("dns64d"),
        Role::Resolver => None,
    };
    args.gate.baseline.clone().or(usual.map(str::to_owned)).ok_or_else(|| {
        Failure::input(anyhow!(
            "dnsdyno has no resolver of its own: name a fixed resolver with --baseline, with which the revisions are compared"
        ))
    })
}

/// Returns the runs of the store with the same recipe and experiment beside the same anchor, oldest first.
fn earlier(
    args: &RunArgs,
    builds: &Builds,
    experiment: &Experiment,
    anchor: &str,
) -> Result<Vec<Run>, Failure> {
    let Some(store) = args.store.existing()? else { return Ok(Vec::new()) };
    let prefix = format!("{}@", builds.recipe.name);
    let lines = store.runs().map_err(store::failure)?;
    let ours = lines.iter().filter(|line| {
        let has = line.servers.iter().any(|server| server.starts_with(&prefix));
        // A run without measurements has no servers in the list.
        line.experiment == experiment.common().name && (has || line.cells_done < line.cells)
    });
    let runs = ours.map(|line| store.load(line.id).map_err(store::failure));
    let mut runs = runs.collect::<Result<Vec<Run>, Failure>>()?;
    let wanted = run::options(args, args.hosts.of_run()?.as_ref(), None)?.choices();
    runs.retain(|run| {
        run.plan.choices.built.iter().any(|one| one.build == builds.recipe.name)
            && run.plan.text == experiment.text
            && run.plan.form() == experiment.form
            && is_joinable(run, &wanted, anchor, lab::is_privileged())
    });
    Ok(runs)
}

/// Returns whether the ratios of a run are to the anchor, under the requested conditions; a run as
/// root has other links and idle cores than a run as an ordinary user.
fn is_joinable(run: &Run, wanted: &Choices, anchor: &str, privileged: bool) -> bool {
    let begun = &run.plan.choices;
    let user = run.plan.testbed.as_ref().and_then(|testbed| testbed.user);
    if user.is_some_and(|user| (user == User::Root) != privileged) {
        return false;
    }
    // A ratio does not depend on the seed, the repeats and the servers.
    let conditions = Choices {
        seed: wanted.seed,
        repeats: wanted.repeats,
        servers: wanted.servers.clone(),
        built: wanted.built.clone(),
        // The anchor; older runs do not record it.
        baseline: wanted.baseline.clone(),
        ..begun.clone()
    };
    conditions == *wanted && begun.servers.iter().any(|server| server == anchor)
}

/// Returns whether a run was interrupted: a built revision has void rounds, or fewer rounds than
/// the minimum or than another revision. A revision that could not be measured is a gap and does
/// not count.
fn is_unfinished(run: &Run) -> bool {
    let made = |cell: &CellRecord| cell.repeats_made();
    let most = run.results.iter().map(made).max().unwrap_or(0);
    let of_rounds = run.results.iter().any(|cell| !cell.rounds.is_empty());
    let most = if of_rounds { most.max(least_rounds(&run.results)) } else { most };
    let built = run.plan.choices.built.iter();
    let mut open = built.filter(|one| !is_gap(run, one)).filter(|one| {
        let mut cells = run.results.iter().filter(|cell| cell.server == one.name).peekable();
        cells.peek().is_none() || cells.any(|cell| made(cell) < most)
    });
    !run.complete && open.next().is_some()
}

/// Returns whether a run found that a revision cannot be built or measured. A build that failed on
/// a full disk is repeated.
fn is_gap(run: &Run, built: &BuiltServer) -> bool {
    let passing = |why: &str| why == "interrupted" || why.contains(NO_SPACE);
    let failed = |gap: &Skipped| gap.server == built.name && !passing(&gap.why);
    !built.is_built() || run.skipped.iter().any(failed)
}

/// Returns the commits that a run has measured, or built and not been able to measure.
fn measured_commits(run: &Run) -> BTreeSet<String> {
    commits_of(run, |one| one.is_built() && is_gap(run, one) || has_figures(run, one))
}

/// Returns whether a run has figures of a revision.
fn has_figures(run: &Run, built: &BuiltServer) -> bool {
    run.results.iter().any(|cell| cell.server == built.name)
}

/// Returns the commits of a run's revisions for which `is_one` is true.
fn commits_of(run: &Run, is_one: impl Fn(&BuiltServer) -> bool) -> BTreeSet<String> {
    let built = run.plan.choices.built.iter().filter(|one| is_one(one));
    built.map(|one| one.commit.clone()).collect()
}

/// Returns the runs that have figures of a revision which no later one has.
fn still_needed<'r>(run: &Run, earlier: &'r [Run]) -> Vec<&'r Run> {
    let with_figures = |run| commits_of(run, |one| has_figures(run, one));
    let mut again = with_figures(run);
    let mut needed: Vec<&Run> = Vec::new();
    for before in earlier.iter().rev() {
        let own = with_figures(before);
        if !own.is_subset(&again) {
            needed.insert(0, before);
        }
        again.extend(own);
    }
    needed
}

/// Prints the change of the anchor's speed since the earlier runs, if it is too large for ratios.
fn report_drift(run: &Run, earlier: &[Run], anchor: &str) -> Result<(), Failure> {
    let is_anchor = |cell: &&CellRecord| cell.server == anchor;
    let mut moved = false;
    for before in still_needed(run, earlier) {
        for old in before.results.iter().filter(is_anchor) {
            let mut cells = run.results.iter().filter(is_anchor);
            let Some(new) = cells.find(|new| new.settings == old.settings) else { continue };
            let Some(change) = drift(old, new) else { continue };
            moved = true;
            eprintln!(
                "the anchor {anchor} changed by {:+.0} % since run {} ({}): the revisions of that run cannot be joined with these; \
                 measure them with --again",
                100.0 * change,
                before.id.unwrap_or_default(),
                setting_words(&new.settings),
            );
        }
    }
    if moved { outcome(record::Decision::Inconclusive) } else { Ok(()) }
}

/// Returns the relative change of the anchor's capacity if it exceeds [`MAX_DRIFT`] and its
/// intervals.
fn drift(before: &CellRecord, now: &CellRecord) -> Option<f64> {
    let (before, now) = (before.capacity.as_ref()?, now.capacity.as_ref()?);
    let apart = now.high_qps < before.low_qps || before.high_qps < now.low_qps;
    let change = now.qps / before.qps - 1.0;
    (apart && change.abs() > MAX_DRIFT).then_some(change)
}

#[cfg(test)]
mod tests {
    use record::{BuildOutcome, EngineChoice, ServerCapacity, TestbedFacts};

    use super::*;

    fn cell(qps: f64, width: f64) -> CellRecord {
        let capacity = ServerCapacity {
            qps,
            low_qps: qps * (1.0 - width),
            high_qps: qps * (1.0 + width),
            ..ServerCapacity::default()
        };
        CellRecord { capacity: Some(capacity), ..CellRecord::new("authdns", [].into(), "capacity") }
    }

    /// A run of two servers: the anchor, and a revision for each commit.
    fn run_of(commits: &[&str]) -> Run {
        let mut run = Run::default();
        run.plan.choices.servers.push("authdns".to_owned());
        for commit in commits {
            let name = format!("nsd@{commit}");
            run.plan.choices.built.push(BuiltServer {
                name: name.clone(),
                build: "nsd".to_owned(),
                revision: (*commit).to_owned(),
                commit: (*commit).to_owned(),
                subject: String::new(),
                committed_unix_s: None,
                outcome: BuildOutcome::Program("/x".into()),
            });
            run.results.push(CellRecord::new(&name, [].into(), "capacity"));
        }
        run
    }

    #[test]
    fn runs_are_joined_by_the_same_anchor_under_the_same_conditions() {
        let mut run = run_of(&["a"]);
        let wanted = |engine| Choices { seed: Some(7), engine, ..Choices::default() };
        assert!(is_joinable(&run, &wanted(None), "authdns", true));
        assert!(!is_joinable(&run, &wanted(None), "knot", true));
        assert!(!is_joinable(&run, &wanted(Some(EngineChoice::Kernel)), "authdns", true));
        let of_root = TestbedFacts { user: Some(User::Root), ..TestbedFacts::default() };
        run.plan.testbed = Some(of_root);
        let joined = [true, false].map(|root| is_joinable(&run, &wanted(None), "authdns", root));
        assert_eq!(joined, [true, false]);
    }

    #[test]
    fn a_run_whose_revisions_were_measured_again_is_not_needed() {
        let earlier = [run_of(&["a", "b"]), run_of(&["c"]), run_of(&["a"])];
        let needed = |now: &[&str]| -> Vec<usize> {
            let found = still_needed(&run_of(now), &earlier);
            found.iter().map(|run| run.results.len()).collect()
        };
        assert_eq!(needed(&["d"]), [2, 1, 1]);
        assert_eq!(needed(&["b", "c"]), [1]);
        assert_eq!(needed(&["a", "b", "c"]), [0usize; 0]);
    }

    #[test]
    fn an_anchor_that_moved_is_told() {
        for (before, now, width, wanted) in [
            (100.0, 101.0, 0.02, None),
            (100.0, 107.0, 0.02, None),
            (100.0, 120.0, 0.2, None),
            (100.0, 80.0, 0.02, Some(-0.2)),
        ] {
            let found = drift(&cell(before, width), &cell(now, width));
            let equal = match (found, wanted) {
                (Some(found), Some(wanted)) => f64::abs(found - wanted) < 1e-9,
                (found, wanted) => found == wanted,
            };
            assert!(equal, "{before} {now} {width}: {found:?}");
        }
        assert_eq!(drift(&CellRecord::new("authdns", [].into(), "load"), &cell(1.0, 0.1)), None);
    }
}
