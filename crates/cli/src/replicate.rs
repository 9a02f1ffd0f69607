//! `dnsdyno run` of the experiments about updates: `role = "replication"`.
//!
//! ```text
//!   zone, updates, queries ──> primary (and a secondary) started ──> in step? ──> updates and queries ──> figures
//! ```
//!
//! One cell after the other, the servers started anew for each repeat, all in one network namespace of the lab.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::anyhow;
use lab::built_in;
use lab::catalogue::Catalogue;
use lab::detect::detect;
use lab::replication::Network;
use lab::replication::nodes::Kind;
use lab::replication::plan::{Method, ReplicationPlan};
use lab::{CpuList, Entered, RunDir};
use record::{CellRecord, Figure, Plan, Run, SCHEMA, Secondary, Skipped, Store, TestbedFacts};

use crate::args::RunArgs;
use crate::failure::Failure;
use crate::replicate_cell::{Figures, Material, Measured};
use crate::run::host_now;
use crate::store;
use crate::tester::command_line;

/// The zone of the experiments.
pub(crate) const ZONE: &str = "test";
/// The text of the experiment, if it is one about updates.
pub(crate) fn text(args: &RunArgs) -> Option<String> {
    let path = args.experiment.as_deref()?;
    if let Ok(text) = std::fs::read_to_string(path) {
        return ReplicationPlan::is_one(&text).then_some(text);
    }
    let name = path.file_stem()?.to_str()?;
    built_in::experiment(name).filter(|text| ReplicationPlan::is_one(text)).map(str::to_owned)
}

/// Runs it, keeps it, and shows what came of it.
pub(crate) fn run(args: &RunArgs, text: &str) -> Result<(), Failure> {
    let path = args.experiment.as_deref().unwrap_or(Path::new(""));
    let mut plan = ReplicationPlan::parse(text, path, args.quick).map_err(Failure::input)?;
    if !args.servers.is_empty() {
        plan.primaries.retain(|name| args.servers.contains(name));
        plan.secondaries
            .retain(|names| names.split('+').all(|name| args.servers.iter().any(|s| s == name)));
    }
    let cells = cells(&plan);
    if cells.is_empty() {
        return Err(Failure::input(anyhow!(
            "--servers leaves nothing to measure of {}",
            plan.name
        )));
    }
    if args.dry_run {
        println!("{}: {} cells, {} repeats each", plan.title, cells.len(), plan.repeats);
        cells.iter().for_each(|cell| println!("  {}", cell.describe()));
        return Ok(());
    }
    let lab = match lab::enter().map_err(Failure::run)? {
        Entered::Inside(lab) => lab,
        Entered::Outside(0) => return Ok(()),
        Entered::Outside(code) => std::process::exit(code.into()),
    };
    let network = Network::create().map_err(Failure::run)?;
    let dir = RunDir::create().map_err(Failure::run)?;
    let run = network
        .run(|| {
            conduct(
                &plan,
                &cells,
                text,
                args.quick,
                &Stage::new(&network, dir.path(), lab.interrupted()),
            )
        })
        .map_err(Failure::run)?
        .map_err(Failure::Failed)?;
    finish(args, run)
}

fn finish(args: &RunArgs, mut run: Run) -> Result<(), Failure> {
    if !args.no_store {
        let store: Store = args.store.open()?;
        let id = store.put(&run).map_err(store::failure)?;
        run.id = Some(id);
        eprintln!("kept as run {id} in {}", store.path().display());
    }
    if let Some(path) = &args.json {
        record::write(path, &run).map_err(Failure::run)?;
    }
    if args.json.as_deref() != Some(Path::new("-")) {
        print!("\n{}{}", report::heading(&run), report::run(&run));
    }
    if run.complete { Ok(()) } else { Err(Failure::Silent) }
}

/// A primary, perhaps secondaries, and a setting.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub(crate) primary: Kind,
    /// The first is asked; all are watched.
    pub(crate) secondaries: Vec<Kind>,
    pub(crate) rate: Option<String>,
    pub(crate) signed: bool,
}

impl Cell {
    /// The server that is measured.
    fn server(&self) -> Kind {
        self.secondaries.first().copied().unwrap_or(self.primary)
    }

    fn settings(&self) -> BTreeMap<String, String> {
        let mut settings = BTreeMap::new();
        if !self.secondaries.is_empty() {
            settings.insert("primary".to_owned(), self.primary.name().to_owned());
        }
        if self.secondaries.len() > 1 {
            let beside: Vec<_> = self.secondaries[1..].iter().map(|kind| kind.name()).collect();
            settings.insert("beside".to_owned(), beside.join("+"));
        }
        if let Some(rate) = &self.rate {
            settings.insert("updates".to_owned(), rate.clone());
        }
        let signed = if self.signed { "yes" } else { "no" };
        settings.insert("signed".to_owned(), signed.to_owned());
        settings
    }

    fn describe(&self) -> String {
        let settings: Vec<String> =
            self.settings().iter().map(|(key, value)| format!("{key}={value}")).collect();
        format!("{} {}", self.server().name(), settings.join(" "))
    }
}

/// The cells of an experiment.
fn cells(plan: &ReplicationPlan) -> Vec<Cell> {
    let kinds = |names: &[String]| -> Vec<Kind> {
        names.iter().filter_map(|name| Kind::from_name(name)).collect()
    };
    let primaries = kinds(&plan.primaries);
    let groups: Vec<_> = plan.secondaries.iter().filter_map(|names| Kind::group(names)).collect();
    let mut cells = Vec::new();
    for &signed in &plan.signed {
        let mut add = |primary, secondaries: &[Kind], rate| {
            cells.push(Cell { primary, secondaries: secondaries.to_vec(), rate, signed });
        };
        match plan.method {
            Method::UpdateRate => primaries.iter().for_each(|&primary| add(primary, &[], None)),
            Method::QueryUnderUpdate => {
                for &primary in &primaries {
                    for secondaries in &groups {
                        for rate in &plan.rates {
                            add(primary, secondaries, Some(rate.clone()));
                        }
                    }
                }
            }
            Method::SignedUnsigned => {
                primaries.iter().for_each(|&primary| add(primary, &[], None));
                let Some(&first) = primaries.first() else { continue };
                groups.iter().for_each(|secondaries| add(first, secondaries, None));
            }
        }
    }
    cells
}

/// Where cells are measured.
pub(crate) struct Stage<'a> {
    pub(crate) network: &'a Network,
    pub(crate) dir: &'a Path,
    pub(crate) stop: &'a Arc<AtomicBool>,
    /// The cores of the Tester and the primary, and those of the servers that follow.
    pub(crate) cpus: [CpuList; 2],
}

impl<'a> Stage<'a> {
    fn new(network: &'a Network, dir: &'a Path, stop: &'a Arc<AtomicBool>) -> Self {
        let allowed = CpuList::allowed();
        let (first, rest) = allowed.cpus().split_at(1);
        let rest = if rest.is_empty() { first } else { rest };
        let list = |cpus: &[usize]| CpuList::new(cpus.iter().copied()).unwrap_or(allowed.clone());
        Stage { network, dir, stop, cpus: [list(first), list(rest)] }
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Says figures and keeps them, each a value of its own.
fn keep(of: &str, figures: Figures, to: &mut BTreeMap<String, Figure>) {
    for (name, unit, value) in figures {
        eprintln!("  {of}{name} {}", report::view::quantity(value, unit));
        let figure = to.entry(name).or_insert_with(|| Figure::new(unit, Vec::new()));
        figure.values.push(value);
    }
}

fn conduct(
    plan: &ReplicationPlan,
    cells: &[Cell],
    text: &str,
    quick: bool,
    stage: &Stage<'_>,
) -> anyhow::Result<Run> {
    let (began, started) = (Instant::now(), SystemTime::now());
    let mut run = Run {
        schema: SCHEMA,
        plan: Plan {
            experiment: plan.name.clone(),
            title: plan.title.clone(),
            text: text.to_owned(),
            quick,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            command: command_line(),
            started_unix_s: started.duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64()),
            testbed: Some(TestbedFacts {
                network: Some(record::testbed::Network::Loopback),
                tester_cpus: stage.cpus[0].cpus().to_vec(),
                dut_cpus: stage.cpus[1].cpus().to_vec(),
                other: [("zone".to_owned(), format!("{} delegations", plan.delegations))].into(),
                ..TestbedFacts::default()
            }),
            host: Some(host_now()),
            ..Plan::default()
        },
        complete: true,
        ..Run::default()
    };
    eprintln!("making a zone of {} delegations, updates and queries", plan.delegations);
    let material = Material::make(plan, stage.dir)?;
    let catalogue = Catalogue::load(None)?;
    'cells: for cell in cells {
        let mut record = CellRecord::new(cell.server().name(), cell.settings(), plan.method.word());
        let version = |kind: Kind| detect(catalogue.get(kind.name()).ok()?).version;
        record.server_version = version(cell.server());
        record.secondaries = { (1..).zip(&cell.secondaries) }
            .map(|(number, &kind)| Secondary {
                server: kind.name().to_owned(),
                server_version: version(kind),
                address: Network::address(number).ip().to_string(),
                figures: BTreeMap::new(),
            })
            .collect();
        for repeat in 0..plan.repeats {
            eprintln!("{}, repeat {} of {}", cell.describe(), repeat + 1, plan.repeats);
            let measured = Measured { plan, cell, stage, material: &material };
            let found = measured.measure();
            if stage.is_interrupted() {
                run.complete = false;
                run.results.push(record);
                break 'cells;
            }
            match found {
                Ok(found) => {
                    keep("", found.figures, &mut record.figures);
                    for (figures, to) in found.secondaries.into_iter().zip(&mut record.secondaries)
                    {
                        keep(
                            &format!("{} at {}: ", to.server, to.address),
                            figures,
                            &mut to.figures,
                        );
                    }
                    record.repeats += 1;
                }
                Err(error) => {
                    eprintln!("  skipped: {error:#}");
                    let (server, settings) = (record.server.clone(), record.settings.clone());
                    run.skipped.push(Skipped { server, settings, why: format!("{error:#}") });
                    break;
                }
            }
        }
        if record.repeats > 0 {
            run.results.push(record);
        }
    }
    run.complete &= !run.results.is_empty();
    run.elapsed_s = began.elapsed().as_secs_f64();
    Ok(run)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name and text of each built-in experiment about updates.
    fn experiments() -> impl Iterator<Item = (&'static str, &'static str)> {
        built_in::EXPERIMENTS.iter().copied().filter(|(_, text)| ReplicationPlan::is_one(text))
    }

    #[test]
    fn each_built_in_makes_sense_in_both_forms() {
        assert_eq!(experiments().count(), 3);
        for (name, text) in experiments() {
            assert!(ReplicationPlan::is_one(text), "{name}");
            for quick in [false, true] {
                let plan = ReplicationPlan::parse(text, Path::new(name), quick).expect(name);
                assert_eq!(plan.name, name);
                assert!(!cells(&plan).is_empty(), "{name}");
            }
        }
    }

    #[test]
    fn bad_files_are_refused_with_the_reason() {
        let good = built_in::experiment("update-rate").expect("an experiment");
        for (from, to, part) in [
            ("\"knot\"", "\"nsd\"", "`nsd` takes no dynamic updates"),
            ("\"knot\"", "\"not\"", "`not` is not a server here: bind9, knot, nsd"),
            ("repeats = 5", "repeats = 0", "`repeats` is a number from 1 to 100"),
            ("repeats = 5", "repeat = 5", "x.toml:14:1: unknown field `repeat`"),
        ] {
            let error =
                ReplicationPlan::parse(&good.replacen(from, to, 1), Path::new("x.toml"), false);
            let error = error.expect_err(part).to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
