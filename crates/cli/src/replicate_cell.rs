//! One cell of an experiment about updates: the servers started, in step, updated, asked and watched.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::net::{SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use lab::replication::nodes::{Role, Signing, Task};
use lab::replication::plan::{Method, ReplicationPlan};
use lab::replication::{KEY_ALGORITHM, KEY_NAME, KEY_SECRET, Network, Node};
use lab::signer::{self, Algorithm, Denial, Signer};
use record::Trial;
use update::{Generate, Key, UpdateReader, stream};
use wire::Name;
use zone::queries::Queries;
use zone::{Reader, TldZone};

use crate::args::{Cli, Command};
use crate::options::{self, WorkloadPlan};
use crate::replicate::{Cell, Stage, ZONE};
use crate::streams::StreamSetup;
use crate::tester::Setup;
use crate::transfers::TransferWatch;
use crate::update::acknowledged;
use crate::update_check::{Lag, average_sizes, check, has_records, serial, wait_ready, watch};
use crate::update_send::{Sender, Sent};

/// How long a server may take to serve its zone, and a secondary to be in step: so long, and a second more for so
/// many delegations.
const READY: Duration = Duration::from_secs(300);
const DELEGATIONS_A_SECOND: u64 = 2_000;
/// A primary that signs is taken to be done when its serial has not changed for so long, and ten times that with a zone
/// of a million delegations.
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

/// What all cells are measured with.
pub(crate) struct Material {
    zone_file: PathBuf,
    /// The same zone signed, where it is not the primary that signs it; or why there is none.
    signed: Option<Result<PathBuf, String>>,
    /// Updates to be sent in full, and updates during which the primary is killed.
    updates: PathBuf,
    last_updates: PathBuf,
    queries: PathBuf,
    delegations: u64,
}

impl Material {
    pub(crate) fn make(plan: &ReplicationPlan, dir: &Path) -> anyhow::Result<Self> {
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
        // Without updates nobody has to sign again, and all servers can have the same signed zone.
        let signs = plan.method == Method::SignedUnsigned && plan.signed.contains(&true);
        let signed = signs.then(|| sign(&zone_file, dir).map_err(|e| format!("{e:#}")));
        let delegations = plan.delegations;
        Ok(Material { zone_file, signed, updates, last_updates, queries, delegations })
    }
}

/// The zone signed as those of top-level domains are, by the first signer that is installed.
fn sign(input: &Path, dir: &Path) -> anyhow::Result<PathBuf> {
    let signer = Signer::installed().ok_or_else(|| {
        anyhow!("no signer is installed: apt-get install {}", Signer::ALL[0].package())
    })?;
    eprintln!("signing the zone with {}", signer.program());
    let (keys, output) = (dir.join("keys"), dir.join("signed-zone"));
    let signing = signer::Signing {
        signer,
        zone: &ZONE.parse()?,
        input,
        output: &output,
        keys: &keys,
        algorithm: Algorithm::EcdsaP256Sha256,
        denial: Denial::Nsec3OptOut,
    };
    signing.run()?;
    Ok(output)
}

/// Figures: name, unit, value.
pub(crate) type Figures = Vec<(String, &'static str, f64)>;

/// What a repeat found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Of the server that is measured, and of all.
    pub(crate) figures: Figures,
    /// Of each secondary by itself, in the cell's order.
    pub(crate) secondaries: Vec<Figures>,
}

/// One repeat of one cell.
pub(crate) struct Measured<'a> {
    pub(crate) plan: &'a ReplicationPlan,
    pub(crate) cell: &'a Cell,
    pub(crate) stage: &'a Stage<'a>,
    pub(crate) material: &'a Material,
}

impl Measured<'_> {
    pub(crate) fn measure(&self) -> anyhow::Result<Found> {
        let dir = tempfile::tempdir_in(self.stage.dir)?;
        // From before the first transfer on.
        let followers = self.cell.secondaries.len();
        let transfers = (followers > 0).then(|| TransferWatch::start(followers)).transpose()?;
        let mut nodes = self.start(dir.path())?;
        let mut found = match self.plan.method {
            Method::UpdateRate => self.update_rate(&mut nodes[0], dir.path()),
            Method::QueryUnderUpdate => self.under_update(&nodes),
            Method::SignedUnsigned => self.sizes(&nodes),
        }?;
        if let Some(transfers) = transfers {
            let (all, mut each) = transfers.finish()?;
            found.figures.extend(all);
            each.iter_mut().zip(&mut found.secondaries).for_each(|(to, from)| to.append(from));
            found.secondaries = each;
        }
        Ok(found)
    }

    /// Starts the primary and the secondaries, and waits until they serve the same zone.
    fn start(&self, dir: &Path) -> anyhow::Result<Vec<Node>> {
        let kinds = &self.cell.secondaries;
        let first = self.cell.primary;
        if let Some(kind) = kinds.iter().find(|kind| !kind.follows(first)) {
            return Err(anyhow!(
                "{} does not read the transfers of {}",
                kind.title(),
                first.title()
            ));
        }
        let followers: Vec<SocketAddrV4> =
            (1u8..).zip(kinds).map(|(number, _)| Network::address(number)).collect();
        let (signing, zone_file) = match &self.material.signed {
            _ if !self.cell.signed => (Signing::Unsigned, &self.material.zone_file),
            None => (Signing::ByPrimary, &self.material.zone_file),
            Some(Ok(file)) => (Signing::InFile, file),
            Some(Err(why)) => return Err(anyhow!("{why}")),
        };
        let role = Role::Primary { secondaries: &followers, zone_file, signing };
        let network = self.stage.network;
        // Without a secondary it is the primary that is asked.
        let cpus = &self.stage.cpus[usize::from(followers.is_empty())];
        let address = Network::address(0);
        let task = Task { role, zone: ZONE, address };
        let primary = Node::start(network, self.cell.primary, &task, &dir.join("primary"), cpus)?;
        let mut nodes = vec![primary];
        self.wait_serving(&mut nodes[0])?;
        for (number, (&kind, &follower)) in (1..).zip(kinds.iter().zip(&followers)) {
            let role = Role::Secondary { primary: address };
            let task = Task { role, zone: ZONE, address: follower };
            let dir = dir.join(format!("secondary-{number}"));
            nodes.push(Node::start(network, kind, &task, &dir, &self.stage.cpus[1])?);
        }
        for node in &mut nodes[1..] {
            let here = node.address();
            self.wait_until(node, "be in step with its primary", || {
                serial(here, ZONE).is_some_and(|s| Some(s) == serial(address.into(), ZONE))
            })?;
        }
        Ok(nodes)
    }

    fn wait_serving(&self, node: &mut Node) -> anyhow::Result<()> {
        let zone: Name = ZONE.parse()?;
        let address = node.address();
        wait_ready(address, &zone, self.patience(), || {
            anyhow::ensure!(!self.stage.is_interrupted(), "interrupted");
            Ok(node.check()?)
        })?;
        if !self.cell.signed || self.material.signed.is_some() {
            return Ok(());
        }
        let mut last = (serial(address, ZONE), Instant::now());
        let still = STILL.mul_f64(1.0 + self.material.delegations as f64 * 9e-6);
        self.wait_until(node, "sign its zone", || {
            let now = serial(address, ZONE);
            if now != last.0 {
                last = (now, Instant::now());
            }
            has_records(address, ZONE, DNSKEY) && last.1.elapsed() > still
        })
    }

    /// How long the servers may take with a zone of this size.
    fn patience(&self) -> Duration {
        READY + Duration::from_secs(self.material.delegations / DELEGATIONS_A_SECOND)
    }

    fn wait_until(
        &self,
        node: &mut Node,
        what: &str,
        mut is_so: impl FnMut() -> bool,
    ) -> anyhow::Result<()> {
        let patience = self.patience();
        let until = Instant::now() + patience;
        while !is_so() {
            anyhow::ensure!(!self.stage.is_interrupted(), "interrupted");
            node.check()?;
            let title = node.kind().title();
            anyhow::ensure!(Instant::now() < until, "{title} did not {what} within {patience:?}");
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
        let address = primary.address();
        let look_up = |path: &Path, wanted: &HashSet<u64>| {
            check(address, UpdateReader::open(path)?, |number| wanted.contains(&number))
        };
        let not_done = look_up(&self.material.updates, &first)?.gone;
        sender.kill = primary.pid().map(|pid| (pid, self.plan.killed_after));
        let (last, second) = self.send(&sender, &self.material.last_updates, dir)?;
        anyhow::ensure!(last.killed, "the primary could not be killed");
        primary.kill();
        primary.start_again(self.stage.network)?;
        self.wait_serving(primary).context("after SIGKILL")?;
        let found = look_up(&self.material.updates, &first)?;
        let after = look_up(&self.material.last_updates, &second)?;
        let acknowledged = sent.tally.acknowledged() as f64;
        let latency = &sent.tally.latency;
        let figures = [
            ("updates", "1/s", acknowledged / sent.seconds.max(1e-9)),
            ("latency_p50", "s", latency.quantile(0.5).as_secs_f64()),
            ("latency_p99", "s", latency.quantile(0.99).as_secs_f64()),
            ("not_acknowledged", "", sent.tally.sent as f64 - acknowledged),
            ("acknowledged_but_not_done", "", not_done as f64),
            ("looked_up_after_SIGKILL", "", (found.acknowledged + after.acknowledged) as f64),
            ("gone_after_SIGKILL", "", (found.gone + after.gone) as f64),
        ];
        let figures = figures.map(|(name, unit, value)| (name.to_owned(), unit, value)).into();
        Ok(Found { figures, secondaries: Vec::new() })
    }

    fn under_update(&self, nodes: &[Node]) -> anyhow::Result<Found> {
        let rate = match self.cell.rate.as_deref() {
            None | Some("0") => None,
            Some("max") => Some(None),
            Some(text) => {
                let rate: measure::UpdateRate = text.parse()?;
                Some(rate.per_second(self.material.delegations))
            }
        };
        let followers = &nodes[1..];
        let asked = nodes.get(1).unwrap_or(&nodes[0]).address();
        let Some(rate) = rate else {
            let figures = vec![("qps".to_owned(), "qps", valid_qps(&self.load(asked)?))];
            return Ok(Found { figures, secondaries: Vec::new() });
        };
        let mut sender = self.sender(nodes[0].address(), rate)?;
        // One at a time is watched: what is acknowledged meanwhile is not.
        let (watched, seen): (Vec<_>, Vec<_>) = followers.iter().map(|_| sync_channel(0)).unzip();
        sender.watch = watched;
        let enough = AtomicBool::new(false);
        let (trial, sent, lags) = std::thread::scope(|scope| {
            let updates = UpdateReader::open(&self.material.updates)?;
            let enough = &enough;
            let watchers: Vec<_> = followers
                .iter()
                .map(Node::address)
                .zip(seen)
                .map(|(address, seen)| scope.spawn(move || watch(address, seen, enough)))
                .collect();
            let sending = scope.spawn(move || {
                let sent = sender.run(updates, &mut std::io::sink(), enough);
                // The watcher ends when nobody sends to it any more.
                drop(sender);
                sent
            });
            let trial = self.load(asked);
            enough.store(true, Ordering::Relaxed);
            let sent = sending.join().map_err(|_| anyhow!("the sender panicked"))?;
            let lags = watchers
                .into_iter()
                .map(|watcher| watcher.join().map_err(|_| anyhow!("the watcher panicked")))
                .collect::<anyhow::Result<Vec<Lag>>>()?;
            anyhow::Ok((trial?, sent, lags))
        })?;
        let acknowledged = sent.tally.acknowledged() as f64;
        let mut figures = vec![
            ("qps".to_owned(), "qps", valid_qps(&trial)),
            ("updates_done".to_owned(), "1/s", acknowledged / sent.seconds.max(1e-9)),
            ("not_acknowledged".to_owned(), "", sent.tally.sent as f64 - acknowledged),
        ];
        let secondaries: Vec<Figures> = lags.iter().map(lag_figures).collect();
        // The first is the one asked, which the whole row is about.
        figures.extend(secondaries.first().into_iter().flatten().cloned());
        Ok(Found { figures, secondaries })
    }

    fn sizes(&self, nodes: &[Node]) -> anyhow::Result<Found> {
        let asked = nodes.get(1).unwrap_or(&nodes[0]).address();
        let trial = self.load(asked)?;
        let file = BufReader::new(File::open(&self.material.queries)?);
        let (query, reply) = average_sizes(asked, file, SIZED, self.cell.signed)?;
        let figures = vec![
            ("qps".to_owned(), "qps", valid_qps(&trial)),
            ("query_octets".to_owned(), "octets", query),
            ("reply_octets".to_owned(), "octets", reply),
        ];
        Ok(Found { figures, secondaries: Vec::new() })
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
        let target = args.target.or_port(args.streams.port());
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

/// How far a secondary was behind.
fn lag_figures(lag: &Lag) -> Figures {
    let counts = [("lag_watched", lag.times.count() + lag.unseen), ("lag_unseen", lag.unseen)];
    let counts = counts.map(|(name, n)| (name.to_owned(), "", n as f64));
    let times = [("lag_p50", 0.5), ("lag_p99", 0.99)]
        .map(|(name, quantile)| (name.to_owned(), "s", lag.times.quantile(quantile).as_secs_f64()));
    let known = if lag.times.count() > 0 { &times[..] } else { &[] };
    counts.iter().chain(known).cloned().collect()
}

/// Valid answers a second.
fn valid_qps(trial: &Trial) -> f64 {
    if trial.answered == 0 {
        0.0
    } else {
        trial.answered_qps * trial.valid as f64 / trial.answered as f64
    }
}
