//! `dnsdyno run` of the experiments about updates: `role = "replication"`.
//!
//! ```text
//!   zone, updates, queries ──> primary (and a secondary) started ──> in step? ──> updates and queries ──> figures
//! ```
//!
//! One cell after the other, the servers started anew for each repeat, all in one network namespace of the lab.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, anyhow};
use lab::replication::nodes::{Kind, Role, Task};
use lab::replication::plan::{Method, ReplicationPlan};
use lab::replication::{KEY_ALGORITHM, KEY_NAME, KEY_SECRET, Network, Node};
use lab::{CpuList, Entered, RunDir};
use record::{CellRecord, Figure, Plan, Run, SCHEMA, Skipped, Store, Trial};
use update::{Generate, Key, UpdateReader, stream};
use wire::Name;
use zone::queries::Queries;
use zone::{Reader, TldZone};

use crate::args::{Cli, Command, RunArgs};
use crate::failure::Failure;
use crate::options::{self, WorkloadPlan};
use crate::store;
use crate::streams::StreamSetup;
use crate::tester::{Setup, command_line};
use crate::update::{Rate, acknowledged};
use crate::update_check::{Lag, average_sizes, check, has_records, serial, wait_ready, watch};
use crate::update_send::{Sender, Sent};

/// The zone of the experiments.
const ZONE: &str = "test";
/// How long a server may take to serve its zone, and a secondary to be in step.
const READY: Duration = Duration::from_secs(600);
/// A primary that signs is taken to be done when its serial has not changed for so long.
const STILL: Duration = Duration::from_secs(2);
/// How long a reply to an update is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most updates of one stream under queries.
const MOST_UPDATES: u64 = 200_000;
/// Queries of the file that is asked from.
const QUERIES: u64 = 200_000;
/// Queries whose sizes are looked at.
const SIZED: usize = 1_000;
/// The type DNSKEY.
const DNSKEY: u16 = 48;

/// The experiments that come with the program.
pub(crate) const BUILT_IN: [(&str, &str); 3] = [
    ("update-rate", include_str!("../../../experiments/update-rate.toml")),
    ("query-under-update", include_str!("../../../experiments/query-under-update.toml")),
    ("signed-unsigned", include_str!("../../../experiments/signed-unsigned.toml")),
];

/// The text of the experiment, if it is one about updates.
pub(crate) fn text(args: &RunArgs) -> Option<String> {
    let path = args.experiment.as_deref()?;
    if let Ok(text) = std::fs::read_to_string(path) {
        return ReplicationPlan::is_one(&text).then_some(text);
    }
    let name = path.file_stem()?.to_str()?;
    BUILT_IN.iter().find(|(built_in, _)| *built_in == name).map(|(_, text)| (*text).to_owned())
}

/// Runs it, keeps it, and shows what came of it.
pub(crate) fn run(args: &RunArgs, text: &str) -> Result<(), Failure> {
    let path = args.experiment.as_deref().unwrap_or(Path::new(""));
    let mut plan = ReplicationPlan::parse(text, path, args.quick).map_err(Failure::input)?;
    if !args.servers.is_empty() {
        plan.primaries.retain(|name| args.servers.contains(name));
        plan.secondaries.retain(|name| args.servers.contains(name));
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

/// A primary, perhaps a secondary, and a setting.
#[derive(Clone, Debug)]
struct Cell {
    primary: Kind,
    secondary: Option<Kind>,
    rate: Option<String>,
    signed: bool,
}

impl Cell {
    /// The server that is measured.
    fn server(&self) -> Kind {
        self.secondary.unwrap_or(self.primary)
    }

    fn settings(&self) -> BTreeMap<String, String> {
        let mut settings = BTreeMap::new();
        if self.secondary.is_some() {
            settings.insert("primary".to_owned(), self.primary.name().to_owned());
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
    let (primaries, secondaries) = (kinds(&plan.primaries), kinds(&plan.secondaries));
    let mut cells = Vec::new();
    for &signed in &plan.signed {
        let mut add = |primary, secondary, rate| {
            cells.push(Cell { primary, secondary, rate, signed });
        };
        match plan.method {
            Method::UpdateRate => primaries.iter().for_each(|&primary| add(primary, None, None)),
            Method::QueryUnderUpdate => {
                for &primary in &primaries {
                    for &secondary in &secondaries {
                        for rate in &plan.rates {
                            add(primary, Some(secondary), Some(rate.clone()));
                        }
                    }
                }
            }
            Method::SignedUnsigned => {
                primaries.iter().for_each(|&primary| add(primary, None, None));
                let Some(&first) = primaries.first() else { continue };
                secondaries.iter().for_each(|&secondary| add(first, Some(secondary), None));
            }
        }
    }
    cells
}

/// Where cells are measured.
struct Stage<'a> {
    network: &'a Network,
    dir: &'a Path,
    stop: &'a Arc<AtomicBool>,
    /// The cores of the Tester and the primary, and those of the server that is asked.
    cpus: [CpuList; 2],
}

impl<'a> Stage<'a> {
    fn new(network: &'a Network, dir: &'a Path, stop: &'a Arc<AtomicBool>) -> Self {
        let allowed = CpuList::allowed();
        let (first, rest) = allowed.cpus().split_at(1);
        let rest = if rest.is_empty() { first } else { rest };
        let list = |cpus: &[usize]| CpuList::new(cpus.iter().copied()).unwrap_or(allowed.clone());
        Stage { network, dir, stop, cpus: [list(first), list(rest)] }
    }

    fn is_interrupted(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
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
    let cpus = |number: usize| stage.cpus[number].to_string();
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
            testbed: BTreeMap::from([
                ("network".to_owned(), "one namespace, its loopback".to_owned()),
                ("zone".to_owned(), format!("{} delegations", plan.delegations)),
                ("Tester and primary".to_owned(), format!("cores {}", cpus(0))),
                ("server asked".to_owned(), format!("cores {}", cpus(1))),
            ]),
            ..Plan::default()
        },
        complete: true,
        ..Run::default()
    };
    eprintln!("making a zone of {} delegations, updates and queries", plan.delegations);
    let material = Material::make(plan, stage.dir)?;
    'cells: for cell in cells {
        let mut record = CellRecord::new(cell.server().name(), cell.settings(), plan.method.word());
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
                Ok(figures) => {
                    for (name, unit, value) in figures {
                        eprintln!("  {name} {}", report::quantity(value, unit));
                        let figure = record.figures.entry(name.to_owned());
                        figure.or_insert_with(|| Figure::new(unit, Vec::new())).values.push(value);
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

/// What all cells are measured with.
struct Material {
    zone_file: PathBuf,
    /// Updates to be sent in full, and updates during which the primary is killed.
    updates: PathBuf,
    last_updates: PathBuf,
    queries: PathBuf,
    delegations: u64,
}

impl Material {
    fn make(plan: &ReplicationPlan, dir: &Path) -> anyhow::Result<Self> {
        let file = |name: &str| dir.join(name);
        let (zone_file, queries) = (file("zone"), file("queries"));
        let (updates, last_updates) = (file("updates"), file("last-updates"));
        let mut zone = TldZone::new(ZONE.parse()?, plan.delegations, 1);
        // More is refused by BIND's default policy for signing.
        zone.ttl = 86_400;
        zone.write(&mut File::create(&zone_file)?)?;
        let (first, last) = match plan.method {
            Method::UpdateRate => (plan.updates, 2 * plan.killed_after),
            // Two of three updates need a delegation with nothing below it.
            _ => ((plan.delegations / 2).min(MOST_UPDATES), 0),
        };
        let mut outs =
            [BufWriter::new(File::create(&updates)?), BufWriter::new(File::create(&last_updates)?)];
        for out in &mut outs {
            stream::begin(out)?;
        }
        let mut made = 0;
        Generate::new(first + last, 1).run(Reader::open(&zone_file, None)?, |update| {
            made += 1;
            stream::write(&mut outs[usize::from(made > first)], update)
        })?;
        outs.iter_mut().try_for_each(|out| out.flush())?;
        let asked = Queries {
            count: QUERIES,
            range: wire::LabelRange::default(),
            missing: 0.1,
            www: 0.5,
            exponent: 0.9,
            seed: 1,
        };
        let mut out = BufWriter::new(File::create(&queries)?);
        asked.write(Reader::open(&zone_file, None)?, &mut out)?;
        let delegations = plan.delegations;
        Ok(Material { zone_file, updates, last_updates, queries, delegations })
    }
}

/// A figure: name, unit, value.
type Found = Vec<(&'static str, &'static str, f64)>;

/// One repeat of one cell.
struct Measured<'a> {
    plan: &'a ReplicationPlan,
    cell: &'a Cell,
    stage: &'a Stage<'a>,
    material: &'a Material,
}

impl Measured<'_> {
    fn measure(&self) -> anyhow::Result<Found> {
        let dir = tempfile::tempdir_in(self.stage.dir)?;
        let mut nodes = self.start(dir.path())?;
        match self.plan.method {
            Method::UpdateRate => self.update_rate(&mut nodes[0], dir.path()),
            Method::QueryUnderUpdate => self.under_update(&nodes),
            Method::SignedUnsigned => self.sizes(&nodes),
        }
    }

    /// Starts the primary and the secondary, and waits until they serve the same zone.
    fn start(&self, dir: &Path) -> anyhow::Result<Vec<Node>> {
        let addresses = [Network::address(0), Network::address(1)];
        let followers = if self.cell.secondary.is_some() { &addresses[1..] } else { &[] };
        let role = Role::Primary {
            secondaries: followers,
            zone_file: &self.material.zone_file,
            signed: self.cell.signed,
        };
        let network = self.stage.network;
        // Without a secondary it is the primary that is asked.
        let cpus = &self.stage.cpus[usize::from(followers.is_empty())];
        let task = Task { role, zone: ZONE, address: addresses[0] };
        let primary = Node::start(network, self.cell.primary, &task, &dir.join("primary"), cpus)?;
        let mut nodes = vec![primary];
        self.wait_serving(&mut nodes[0])?;
        if let Some(kind) = self.cell.secondary {
            let role = Role::Secondary { primary: addresses[0] };
            let task = Task { role, zone: ZONE, address: addresses[1] };
            nodes.push(Node::start(
                network,
                kind,
                &task,
                &dir.join("secondary"),
                &self.stage.cpus[1],
            )?);
            let (first, second) = (nodes[0].address(), nodes[1].address());
            self.wait_until(&mut nodes[1], "be in step with its primary", || {
                serial(second, ZONE).is_some_and(|s| Some(s) == serial(first, ZONE))
            })?;
        }
        Ok(nodes)
    }

    fn wait_serving(&self, node: &mut Node) -> anyhow::Result<()> {
        let zone: Name = ZONE.parse()?;
        let address = node.address();
        wait_ready(address, &zone, READY, || {
            anyhow::ensure!(!self.stage.is_interrupted(), "interrupted");
            Ok(node.check()?)
        })?;
        if !self.cell.signed {
            return Ok(());
        }
        let mut last = (serial(address, ZONE), Instant::now());
        self.wait_until(node, "sign its zone", || {
            let now = serial(address, ZONE);
            if now != last.0 {
                last = (now, Instant::now());
            }
            has_records(address, ZONE, DNSKEY) && last.1.elapsed() > STILL
        })
    }

    fn wait_until(
        &self,
        node: &mut Node,
        what: &str,
        mut is_so: impl FnMut() -> bool,
    ) -> anyhow::Result<()> {
        let until = Instant::now() + READY;
        while !is_so() {
            anyhow::ensure!(!self.stage.is_interrupted(), "interrupted");
            node.check()?;
            let title = node.kind().title();
            anyhow::ensure!(Instant::now() < until, "{title} did not {what} within {READY:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    fn sender(&self, server: SocketAddr, rate: Option<f64>) -> anyhow::Result<Sender> {
        let key: Key = format!("{KEY_ALGORITHM}:{KEY_NAME}:{KEY_SECRET}").parse()?;
        let (timeout, tcp, window) = (PATIENCE, false, 1);
        Ok(Sender {
            server,
            tcp,
            key: Some(key),
            timeout,
            rate,
            window,
            kill: None,
            watch: Vec::new(),
        })
    }

    /// Sends a stream, and gives the numbers of the updates acknowledged too.
    fn send(
        &self,
        sender: &Sender,
        updates: &Path,
        dir: &Path,
    ) -> anyhow::Result<(Sent, HashSet<u64>)> {
        let path = dir.join("outcomes");
        let mut outcomes = BufWriter::new(File::create(&path)?);
        let sent = sender.run(UpdateReader::open(updates)?, &mut outcomes, self.stage.stop);
        outcomes.flush()?;
        drop(outcomes);
        if let Some(why) = sent.ended_by.as_ref().filter(|_| !sent.killed) {
            return Err(anyhow!("the updates ended early: {why}"));
        }
        Ok((sent, acknowledged(&path)?))
    }

    fn update_rate(&self, primary: &mut Node, dir: &Path) -> anyhow::Result<Found> {
        let mut sender = self.sender(primary.address(), None)?;
        let (sent, first) = self.send(&sender, &self.material.updates, dir)?;
        sender.kill = primary.pid().map(|pid| (pid, self.plan.killed_after));
        let (last, second) = self.send(&sender, &self.material.last_updates, dir)?;
        anyhow::ensure!(last.killed, "the primary could not be killed");
        primary.kill();
        primary.start_again(self.stage.network)?;
        self.wait_serving(primary).context("after SIGKILL")?;
        let look_up = |path: &Path, wanted: &HashSet<u64>| {
            check(primary.address(), UpdateReader::open(path)?, |number| wanted.contains(&number))
        };
        let found = look_up(&self.material.updates, &first)?;
        let after = look_up(&self.material.last_updates, &second)?;
        let acknowledged = sent.tally.acknowledged() as f64;
        let latency = &sent.tally.latency;
        Ok(vec![
            ("updates", "1/s", acknowledged / sent.seconds.max(1e-9)),
            ("latency_p50", "s", latency.quantile(0.5).as_secs_f64()),
            ("latency_p99", "s", latency.quantile(0.99).as_secs_f64()),
            ("not_acknowledged", "", sent.tally.sent as f64 - acknowledged),
            ("looked_up_after_SIGKILL", "", (found.acknowledged + after.acknowledged) as f64),
            ("gone_after_SIGKILL", "", (found.gone + after.gone) as f64),
        ])
    }

    fn under_update(&self, nodes: &[Node]) -> anyhow::Result<Found> {
        let rate = match self.cell.rate.as_deref() {
            None | Some("0") => None,
            Some("max") => Some(None),
            Some(text) => {
                let rate: Rate = text.parse().map_err(|e: String| anyhow!(e))?;
                Some(Some(rate.of(self.material.delegations)))
            }
        };
        let secondary = nodes.last().map(Node::address).unwrap_or(nodes[0].address());
        let Some(rate) = rate else {
            return Ok(vec![("qps", "qps", valid_qps(&self.load(secondary)?))]);
        };
        let mut sender = self.sender(nodes[0].address(), rate)?;
        // One at a time is watched: what is acknowledged meanwhile is not.
        let (watched, seen) = sync_channel(0);
        sender.watch = vec![watched];
        let enough = AtomicBool::new(false);
        let (trial, sent, lag) = std::thread::scope(|scope| {
            let updates = UpdateReader::open(&self.material.updates)?;
            let watcher = scope.spawn(|| watch(secondary, seen, &enough));
            let enough = &enough;
            let sending = scope.spawn(move || {
                let sent = sender.run(updates, &mut std::io::sink(), enough);
                // The watcher ends when nobody sends to it any more.
                drop(sender);
                sent
            });
            let trial = self.load(secondary);
            enough.store(true, Ordering::Relaxed);
            let sent = sending.join().map_err(|_| anyhow!("the sender panicked"))?;
            let lag: Lag = watcher.join().map_err(|_| anyhow!("the watcher panicked"))?;
            anyhow::Ok((trial?, sent, lag))
        })?;
        let acknowledged = sent.tally.acknowledged() as f64;
        let mut found = vec![
            ("qps", "qps", valid_qps(&trial)),
            ("updates_done", "1/s", acknowledged / sent.seconds.max(1e-9)),
            ("not_acknowledged", "", sent.tally.sent as f64 - acknowledged),
            ("lag_watched", "", (lag.times.count() + lag.unseen) as f64),
            ("lag_unseen", "", lag.unseen as f64),
        ];
        if lag.times.count() > 0 {
            found.push(("lag_p50", "s", lag.times.quantile(0.5).as_secs_f64()));
            found.push(("lag_p99", "s", lag.times.quantile(0.99).as_secs_f64()));
        }
        Ok(found)
    }

    fn sizes(&self, nodes: &[Node]) -> anyhow::Result<Found> {
        let asked = nodes.last().map(Node::address).unwrap_or(nodes[0].address());
        let trial = self.load(asked)?;
        let file = BufReader::new(File::open(&self.material.queries)?);
        let (query, reply) = average_sizes(asked, file, SIZED, self.cell.signed)?;
        Ok(vec![
            ("qps", "qps", valid_qps(&trial)),
            ("query_octets", "octets", query),
            ("reply_octets", "octets", reply),
        ])
    }

    /// Queries from a closed loop; with DO when the zone is signed.
    fn load(&self, server: SocketAddr) -> anyhow::Result<Trial> {
        let (server, window) = (server.to_string(), self.plan.window.to_string());
        let queries = self.material.queries.display().to_string();
        let cpus = self.stage.cpus[0].to_string();
        let mut words = vec!["dnsdyno", "load", &server, "--queries", &queries, "--no-recursion"];
        words.extend(["--pacing", "window", "--window", &window, "--cpus", &cpus]);
        words.extend(["--duration", &self.plan.duration]);
        if self.cell.signed {
            words.push("--dnssec");
        }
        if self.stage.cpus[0].shares_with(&self.stage.cpus[1]) {
            words.push("--shared-core");
        }
        let cli = <Cli as clap::Parser>::try_parse_from(words)?;
        let Command::Load(args) = cli.command else { return Err(anyhow!("not a load")) };
        let pacing = options::pacing(&args)?;
        let target = args.target.or_port(args.streams.transport.port());
        let setup = Setup {
            target,
            streams: StreamSetup::new(&args, target, pacing)?,
            workload: WorkloadPlan::new(&args.workload)?,
            pacing,
            duration: args.duration,
            timeout: args.timeout,
            goal: args.goal.clone(),
            seed: args.workload.seed,
            sockets: args.sockets.clone(),
        };
        Ok(setup.run(&Arc::new(load::Live::default()), self.stage.stop)?.trial)
    }
}

/// Valid answers a second.
fn valid_qps(trial: &Trial) -> f64 {
    if trial.answered == 0 {
        0.0
    } else {
        trial.answered_qps * trial.valid as f64 / trial.answered as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_built_in_makes_sense_in_both_forms() {
        for (name, text) in BUILT_IN {
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
        let (_, good) = BUILT_IN[0];
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
