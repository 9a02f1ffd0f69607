//! A whole experiment: testbed, self-test, then visit after visit.
//!
//! ```text
//! plan: cells (server x point), visits (cell x repeat, interleaved)
//!   └──> each visit: cores, settings of the machine ─> server up ─> warm-up ─> method ─> server down
//!            └──> Event::Trial, Event::Visited: the caller stores each at once
//! ```
//!
//! Results are kept also after an error: if a server does not start, or the run is interrupted, the
//! [`record::Run`] is marked incomplete and lists what is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path as FilePath, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use experiment::file::Role;
use experiment::{BenchError, Custom, Experiment, Method, Point, Settings};
use measure::{Link, Nanos, Path};
use record::testbed::{Network as Where, User};
use record::{
    BuildOutcome, CellRecord, CertificateFile, Choices, CustomHow, CustomServer, EngineChoice,
    FailIf, HostFacts, Plan, Run, SCHEMA, Skipped, TestbedFacts, Tested,
};
use udp::sys::is_own_address;

pub use self::error::RunError;
pub use self::event::Event;
use crate::adapter::Adapter;
use crate::adapter::builds::TriedBuild;
use crate::adapter::catalogue::Catalogue;
use crate::adapter::variables;
use crate::probe::host::{Depth, fingerprint, read_cpu};
use crate::probe::watch::Watcher;
use crate::remote::hosts::{RemoteDut, RemoteHosts};
use crate::runs::answers;
use crate::runs::attack;
use crate::runs::session::Session;
use crate::server::clients;
use crate::server::query_stream::{Inputs, QueryStream};
use crate::server::question_plan::QuestionPlan;
use crate::testbed::core_plan::{cpu_plan, given_plan};
use crate::testbed::cpus::{CpuList, CpuPlan};
use crate::testbed::enter::{Lab, LabNetwork};
use crate::testbed::reserve::{IdlePolling, default_buffer};
use crate::testbed::rundir::RunDir;
use crate::testbed::{Host, Testbed, TestbedPlan};

mod error;
mod event;
mod resumed;
mod testers;

/// Options of a run, from the command line.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Folder with further adapters.
    pub servers_dir: Option<PathBuf>,
    /// Servers to measure, which must be installed; all of the experiment's servers if empty.
    pub only: Vec<String>,
    /// Custom servers of the user, measured in addition to the experiment's.
    pub custom: Vec<(String, Custom)>,
    /// Servers that were built from revisions of their sources, measured in addition; those that failed to build are gaps.
    pub built: Vec<TriedBuild>,
    /// Kind of the testbed's links, instead of the experiment's.
    pub link: Option<Link>,
    /// Path of datagrams on the links, instead of the experiment's.
    pub path: Option<Path>,
    /// Engine of the queries over UDP, instead of the experiment's.
    pub engine: Option<EngineChoice>,
    /// Repeats of each measurement instead of the experiment's, which has them already.
    pub repeats: Option<u32>,
    /// Cores of roles, instead of the experiment's, for the record; already set in the experiment.
    pub cpus: BTreeMap<String, Vec<usize>>,
    /// Server that others are compared with; the first one if absent.
    pub baseline: Option<String>,
    /// Conditions of `--fail-if`: capacities become as precise as they need.
    pub fail_if: Vec<FailIf>,
    /// Seed of the order of names and of the order of visits.
    pub seed: u64,
    /// The Tester's certificate, instead of a self-test.
    pub certificate: Option<CertificateFile>,
    /// Whether the directory of the run, with configurations and logs, is kept.
    pub keep: bool,
    /// Folder for a capture of each visit, taken beside the server; none is taken if absent.
    pub capture: Option<PathBuf>,
    /// Command line, for the record.
    pub command: String,
    /// Version of dnsdyno, for the record.
    pub version: String,
    /// Commit of the program's sources, for the record.
    pub commit: Option<String>,
    /// Facts of the host, for the record; absent if they were not collected.
    pub host: Option<HostFacts>,
    /// Makes `ca.pem`, `server.pem` and `server.key` for names and addresses in a directory; its error is a message. Without it there is no TLS.
    pub certify: Option<Certify>,
    /// Hosts of `--dut` and `--hosts`, with their agents.
    pub remote_hosts: RemoteHosts,
    /// Contents of the experiment's files that the outer process has read; `None` in that process.
    pub inputs: Option<Inputs>,
    /// Watcher of the trials while they run.
    pub watcher: Option<Watcher>,
    /// Earlier part of this run, if it was interrupted.
    pub resumed: Option<Box<Run>>,
    /// Cells of servers of the same kind, whose windows the rounds of the method `capacity` use.
    pub alike: Vec<CellRecord>,
    /// Duration of every trial instead of the plan's, in nanoseconds; set by tests only.
    pub shortened: Option<Nanos>,
}

type Certify = fn(&FilePath, &[&str]) -> Result<(), String>;

impl RunOptions {
    /// Returns the choices of the command line, for the record and for [`RunOptions::go_on`].
    pub fn choices(&self) -> Choices {
        let custom = self.custom.iter().map(|(name, custom)| {
            let command = || CustomHow::Command(custom.command.clone());
            let how = custom.address.map_or_else(command, CustomHow::Address);
            CustomServer { name: name.clone(), how }
        });
        Choices {
            seed: Some(self.seed),
            servers: self.only.clone(),
            custom: custom.collect(),
            built: self.built.iter().map(|built| built.record.clone()).collect(),
            link: self.link,
            path: self.path,
            engine: self.engine,
            repeats: self.repeats,
            cpus: self.cpus.clone(),
            baseline: self.baseline.clone(),
            dut: self.remote_hosts.record(),
            testers: self.remote_hosts.testers.as_ref().map(|testers| testers.count),
        }
    }

    /// Returns the kind of links for settings: from the command line, the experiment or the resumed
    /// run. Without any it is `moderated` for capacities of authoritative servers if the lab may
    /// set it, else `plain` (docs/testbed.md has the measurements).
    pub(crate) fn link_of(&self, settings: &Settings, privileged: bool) -> Link {
        let authoritative = settings.role == Role::Authoritative;
        let moderated = authoritative && settings.method.is_capacity() && privileged;
        let usual = if moderated { Link::Moderated } else { Link::Plain };
        self.requested_link(settings).unwrap_or(usual)
    }

    /// Returns the requested kind of links, or those of a resumed run; `None` if the lab chooses.
    pub(crate) fn requested_link(&self, settings: &Settings) -> Option<Link> {
        let begun = || self.resumed.as_ref()?.plan.testbed.as_ref()?.link;
        self.link.or(settings.host.link).or_else(begun)
    }

    /// Sets the options of an interrupted run that is continued: its servers, seed, links, engine
    /// and repeats, and unless others are given its remote hosts, baseline and conditions.
    pub fn go_on(&mut self, mut run: Run) {
        let choices = run.plan.choices.clone();
        let custom = choices.custom.into_iter().map(|server| match server.how {
            CustomHow::Command(command) => (server.name, Custom::new(&command)),
            CustomHow::Address(address) => (server.name, Custom::at(address)),
        });
        self.custom = custom.collect();
        self.seed = choices.seed.unwrap_or(self.seed);
        (self.link, self.path, self.engine) = (choices.link, choices.path, choices.engine);
        (self.repeats, self.cpus) = (choices.repeats, choices.cpus);
        let given = self.remote_hosts.dut.is_some();
        if let Some(host) = choices.dut.filter(|_| !given) {
            let testers = self.remote_hosts.testers.take();
            self.remote_hosts = RemoteHosts { testers, ..RemoteHosts::recorded(host) };
        }
        if !choices.servers.is_empty() {
            self.only = choices.servers;
        }
        self.certificate = run.plan.certificate.clone();
        self.baseline = self.baseline.take().or(choices.baseline);
        run.plan.choices.baseline.clone_from(&self.baseline);
        if self.fail_if.is_empty() {
            self.fail_if.clone_from(&run.plan.fail_if);
        }
        run.plan.fail_if.clone_from(&self.fail_if);
        self.resumed = Some(Box::new(run));
    }
}

/// An experiment whose servers and workloads are valid.
#[derive(Debug)]
pub struct Checked<'e> {
    /// The experiment as read from its file.
    pub experiment: &'e Experiment,
    /// Adapters of the experiment's servers to measure, in its order.
    pub adapters: Vec<Adapter>,
    /// Adapters of the primaries and secondaries other than the servers under test.
    pub(crate) companions: Vec<Adapter>,
    /// Queried names at each point of the matrix.
    pub(crate) questions: Vec<QuestionPlan>,
    /// Stream of queries of each point that has one.
    pub(crate) streams: Vec<Option<QueryStream>>,
    /// Files with queries and zones that it names.
    pub inputs: Inputs,
    /// Whether the servers are started on another host.
    pub starts_remotely: bool,
}

impl Checked<'_> {
    /// Returns the network that the lab must be in for its servers: a remote server is outside.
    pub fn network(&self) -> LabNetwork {
        let remote = self.adapters.iter().any(|adapter| adapter.remote.is_some());
        if remote || self.starts_remotely { LabNetwork::Outside } else { LabNetwork::Own }
    }

    /// Returns the cores that the hosts of the lab use, at all points of the matrix.
    pub fn cores(&self) -> CpuList {
        let (allowed, points) = (CpuList::allowed(), &self.experiment.points);
        if self.starts_remotely {
            let plans = points.iter().map(|point| given_plan(&point.settings, &allowed));
            let here = plans.flat_map(|plan| CpuPlan { dut: plan.tester.clone(), ..plan }.all());
            return CpuList::new(here).unwrap_or(allowed);
        }
        let plans = points.iter().filter_map(|point| cpu_plan(&point.settings, &allowed).ok());
        CpuList::new(plans.flat_map(|plan| plan.all())).unwrap_or(allowed)
    }

    /// Returns the cores of the Measurer.
    pub fn tester_cores(&self) -> CpuList {
        given_plan(self.experiment.common(), &CpuList::allowed()).tester
    }

    /// Returns the absolute path at which the relative ones of its files begin; empty if it names no file.
    fn folder(&self) -> String {
        let here =
            (!self.inputs.files().is_empty()).then(std::env::current_dir).and_then(Result::ok);
        let folder = here.map(|here| here.join(self.experiment.folder()));
        folder.map_or(String::new(), |path| path.display().to_string())
    }

    /// Returns why no server can be measured at a point, as far as that is known before the run.
    pub fn cannot(&self, point: &Point) -> Option<String> {
        if !self.starts_remotely {
            return cpu_plan(&point.settings, &CpuList::allowed()).err();
        }
        let measured = |adapter: &&Adapter| point.settings.measures(&adapter.name);
        let adapters = self.adapters.iter().filter(measured);
        let each = adapters.map(|adapter| self.bound_to_this_host(adapter, point));
        each.collect::<Option<Vec<_>>>()?.into_iter().next()
    }

    /// Returns why a server at a point needs the testbed, and cannot run on another host.
    pub(crate) fn bound_to_this_host(&self, adapter: &Adapter, point: &Point) -> Option<String> {
        let settings = &point.settings;
        if variables::has_programs(adapter, point) {
            let why = "the server's programs in the kernel run on the links of the testbed only";
            return Some(why.to_owned());
        }
        let here = [Method::ZoneLoad, Method::Generators, Method::Drill];
        if settings.method.replicates() || here.contains(&settings.method) {
            return Some(format!("the method {} runs on this host only", settings.method.word()));
        }
        if settings.workload.has_zone() || settings.workload.internet.is_some() {
            return Some("its zones are not copied to another host".to_owned());
        }
        variables::varies(adapter, &self.experiment.points, |s| s.host.link)
            .then(|| "links cannot be varied on real hosts".to_owned())
    }

    /// Returns whether a server can be measured as far as is known before the run: it runs already, or on another host, or is
    /// installed here.
    pub fn reaches(&self, adapter: &Adapter) -> bool {
        self.starts_remotely || adapter.remote.is_some() || adapter.program().is_ok()
    }

    /// Returns the number of servers with a cell at a point, by its number: 0 at a point that
    /// cannot be measured.
    pub fn servers_at(&self, point: usize) -> usize {
        let points = &self.experiment.points;
        let is_bound = |adapter: &Adapter| {
            self.starts_remotely && self.bound_to_this_host(adapter, &points[point]).is_some()
        };
        let has_cell = |adapter: &&Adapter| {
            let left_out = variables::is_left_out(adapter, points, point);
            self.reaches(adapter) && !left_out && !is_bound(adapter)
        };
        match self.cannot(&points[point]) {
            Some(_) => 0,
            None => self.adapters.iter().filter(has_cell).count(),
        }
    }
}

/// Checks an experiment completely before anything is started.
///
/// # Errors
/// [`RunError::File`] with the place, or the error of a server.
pub fn check<'e>(
    experiment: &'e Experiment,
    options: &RunOptions,
) -> Result<Checked<'e>, RunError> {
    options.check_engine(experiment)?;
    let mut catalogue = Catalogue::load(options.servers_dir.as_deref())?;
    let common = experiment.common();
    let custom = common.custom.iter().chain(options.custom.iter().map(|(name, c)| (name, c)));
    for (name, custom) in custom {
        catalogue.add(Adapter::custom(name, common.role, custom)?);
    }
    if !options.built.is_empty() && options.remote_hosts.starts() {
        return Err(RunError::Remote(
            "programs that are built here also run here: leave --dut out".to_owned(),
        ));
    }
    for built in &options.built {
        let adapter = built.adapter(&catalogue, common.role)?;
        adapter.into_iter().for_each(|adapter| catalogue.add(adapter));
    }
    let adapters = chosen(experiment, options, &catalogue)?;
    let questions =
        experiment.points.iter().map(|point| QuestionPlan::new(experiment, point, &adapters));
    let questions = questions.collect::<Result<Vec<_>, _>>()?;
    let mut inputs = options.inputs.clone().unwrap_or_default();
    let streams = experiment.points.iter().zip(&questions);
    let streams = streams
        .map(|(point, asked)| QueryStream::new(experiment, point, &asked.namespace, &mut inputs));
    let streams = streams.collect::<Result<Vec<_>, _>>()?;
    let unchecked = options.inputs.is_none();
    for (point, stream) in experiment.points.iter().zip(&streams).filter(|_| unchecked) {
        let file = stream.as_ref().and_then(QueryStream::replayed);
        clients::check(experiment, point, file)?;
    }
    answers::note_known(experiment, &mut inputs)?;
    if let Some(run) = &options.resumed {
        resumed::check(run, experiment, inputs.files())?;
    }
    variables::check(experiment, &adapters)?;
    let hosts = &options.remote_hosts;
    let outside = hosts.starts() || hosts.testers.is_some();
    attack::check(experiment, &adapters, outside)?;
    answers::check(experiment, &adapters, outside)?;
    let companions = companions(experiment, &adapters, &catalogue)?;
    let remote = adapters.iter().filter(|adapter| adapter.remote.is_some()).count();
    let running = adapters.iter().find(|adapter| adapter.remote.is_some());
    match (&hosts.dut, running) {
        (Some(dut), Some(adapter)) if dut.starts => {
            return Err(RunError::Runs(adapter.title.clone()));
        }
        (Some(dut), _) if !dut.starts && remote != 1 => return Err(RunError::Dut(remote)),
        _ => {}
    }
    let (resumed, given) = (options.resumed.as_deref(), options.certificate.is_some());
    testers::check(experiment, &adapters, hosts, resumed, given)?;
    if let Some(file) = &options.certificate {
        certified(file, experiment, &adapters, options).map_err(RunError::Certificate)?;
    }
    let starts_remotely = hosts.starts();
    Ok(Checked { experiment, adapters, companions, questions, streams, inputs, starts_remotely })
}

/// Checks that a certificate is for the trials at every point of an experiment.
fn certified(
    file: &CertificateFile,
    experiment: &Experiment,
    adapters: &[Adapter],
    options: &RunOptions,
) -> Result<(), String> {
    let host = fingerprint(Depth::Facts, &CpuList::allowed());
    for point in &experiment.points {
        let (tester, path) =
            (&point.settings.tester, options.path.unwrap_or(point.settings.host.path));
        let engine = options.certified_engine(experiment, point);
        for adapter in adapters {
            let path = match adapter.remote {
                Some(address) if is_own_address(address) && tester.gso => Path::HostOffload,
                Some(_) => Path::Wire,
                None if options.remote_hosts.starts() => Path::Wire,
                None => path,
            };
            let transport = tester.transport.to_string();
            file.covers(&Tested { network: None, link: None, path, engine, transport }, &host)?;
        }
    }
    Ok(())
}

/// Runs a checked experiment in the lab.
///
/// # Errors
/// If it cannot begin. Later failures are in the run's `skipped`, and the run is incomplete.
pub fn run_experiment(
    lab: &Lab,
    checked: &Checked<'_>,
    options: &RunOptions,
    notify: &mut dyn FnMut(Event<'_>),
) -> Result<Run, RunError> {
    let common = checked.experiment.common();
    let mut dir = RunDir::create()?;
    let idle = IdlePolling::hold();
    if let Some(run) = &options.resumed {
        resumed::note_speeds(run, lab.full_speed(), read_cpu().model.as_deref());
    }
    let (started, began) = (SystemTime::now(), Instant::now());
    let cpus = match options.remote_hosts.starts() {
        true => options.remote_hosts.plan(common),
        false => cpu_plan(common, lab.allowed_cpus())
            .unwrap_or_else(|_| given_plan(common, lab.allowed_cpus())),
    };
    let remote_dut =
        RemoteDut::new(lab, &options.remote_hosts, common).map_err(RunError::Remote)?;
    let link = options.link_of(common, lab.privileged());
    let path = options.path.unwrap_or(common.host.path);
    let plan = TestbedPlan { cpus, link, path };
    let testbed = Testbed::build(lab, dir.path(), &plan)?;
    let mut run = Run {
        schema: SCHEMA,
        plan: Plan {
            experiment: common.name.clone(),
            title: common.title.clone(),
            text: checked.experiment.text.clone(),
            version: options.version.clone(),
            commit: options.commit.clone(),
            command: options.command.clone(),
            started_unix_s: started.duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64()),
            choices: options.choices(),
            testbed: Some(describe(
                &testbed,
                lab,
                checked.experiment,
                idle.is_some(),
                remote_dut.as_ref(),
            )),
            host: options.host.clone(),
            certificate: options.certificate.as_ref().map(CertificateFile::without_trials),
            folder: checked.folder(),
            inputs: checked.inputs.files().to_vec(),
            fail_if: options.fail_if.clone(),
            ..Plan::in_form(checked.experiment.form)
        },
        complete: true,
        ..Run::default()
    };
    notify(Event::Begun(&run.plan));
    note_gaps(options, &mut run, notify);
    let mut session = Session::new(lab, checked, options, testbed, dir.path(), idle, remote_dut);
    let ended = session.run(&mut run, notify);
    run.elapsed_s = began.elapsed().as_secs_f64();
    drop(session);
    // After an error the logs are most useful.
    if options.keep {
        notify(Event::Kept(dir.keep()));
    }
    match ended {
        Ok(()) => {}
        Err(RunError::SelfTest(BenchError::Interrupted)) => run.complete = false,
        Err(e) => return Err(e),
    }
    run.complete &= !run.results.is_empty();
    Ok(run)
}

/// Notes the servers that could not be built; a store does not record them for a resumed run.
fn note_gaps(options: &RunOptions, run: &mut Run, notify: &mut dyn FnMut(Event<'_>)) {
    for built in &options.built {
        if let BuildOutcome::NotBuilt(why) = &built.record.outcome {
            let (server, settings) = (built.record.name.clone(), BTreeMap::new());
            let gap = Skipped { server, settings, why: why.clone() };
            notify(Event::Skipped(&gap));
            if !run.skipped.contains(&gap) {
                run.skipped.push(gap);
            }
        }
    }
}

/// Returns the adapters of the primaries and secondaries beside the experiment's `servers`, each
/// checked for its role.
fn companions(
    experiment: &Experiment,
    servers: &[Adapter],
    catalogue: &Catalogue,
) -> Result<Vec<Adapter>, RunError> {
    let mut all: Vec<Adapter> = Vec::new();
    for point in &experiment.points {
        let (r, method) = (&point.settings.replication, point.settings.method);
        let bad = |key: &str, why: String| RunError::File(experiment.bad(point, key, why));
        let mut add = |adapter: &Adapter| {
            if !all.iter().any(|known| known.name == adapter.name) {
                all.push(adapter.clone());
            }
        };
        if let Some(name) = authority(&point.settings) {
            let key = "workload.authority";
            let adapter = catalogue.get(name).map_err(|e| bad(key, e.to_string()))?;
            adapter.check_role(Role::Authoritative).map_err(|e| bad(key, e.to_string()))?;
            add(adapter);
        }
        if !method.replicates() {
            continue;
        }
        let check = |key: &str, adapter: &Adapter, updated: bool| {
            if adapter.remote.is_some() {
                let why = format!("{} is remote: it cannot be started with a zone", adapter.name);
                return Err(bad(key, why));
            }
            let table = adapter.replicating().map_err(|e| bad(key, e.to_string()))?;
            let why =
                || format!("{} takes no dynamic updates: it can be a secondary", adapter.title);
            (table.updates || !updated).then_some(()).ok_or_else(|| bad(key, why()))
        };
        for server in servers {
            check("servers", server, method == Method::UpdateRate)?;
        }
        let beside = r.secondaries.iter().map(|name| ("replication.secondaries", name, false));
        let primary = r.primary.iter().map(|name| ("replication.primary", name, true));
        for (key, name, updated) in primary.chain(beside) {
            let adapter = catalogue.get(name).map_err(|e| bad(key, e.to_string()))?;
            check(key, adapter, updated)?;
            add(adapter);
        }
    }
    Ok(all)
}

/// Returns the name of the server that serves the zone behind the servers of a point; `None` if the
/// AuthDNS does.
pub(crate) fn authority(settings: &Settings) -> Option<&str> {
    let wanted = settings.role != Role::Authoritative && settings.workload.has_zone();
    wanted.then_some(settings.workload.authority.as_str())
}

/// Returns the adapters of the servers to measure, each checked for its role.
fn chosen(
    experiment: &Experiment,
    options: &RunOptions,
    catalogue: &Catalogue,
) -> Result<Vec<Adapter>, RunError> {
    let common = experiment.common();
    let built = options.built.iter().map(|built| &built.record);
    let built = built.filter(|one| one.is_built());
    let custom = options.custom.iter().map(|(name, _)| name).chain(built.map(|one| &one.name));
    // Built servers are compared with the baseline, whether the experiment has it or not.
    let baseline = options.baseline.iter().filter(|_| !options.built.is_empty());
    let mut seen = BTreeSet::new();
    let all = common.servers.iter().chain(custom).chain(baseline);
    let servers: Vec<String> = all.filter(|&name| seen.insert(name)).cloned().collect();
    if servers.is_empty() {
        return Err(RunError::NoServer);
    }
    for name in &options.only {
        catalogue.get(name)?;
        if !servers.contains(name) {
            let (name, known) = (name.clone(), servers.join(", "));
            return Err(RunError::NotInExperiment { name, known });
        }
    }
    let wanted =
        servers.iter().filter(|name| options.only.is_empty() || options.only.contains(name));
    let mut adapters = Vec::new();
    for name in wanted {
        let adapter = catalogue.get(name)?;
        adapter.check_role(common.role)?;
        if options.only.contains(name) && !options.remote_hosts.starts() {
            adapter.program()?;
        }
        adapters.push(adapter.clone());
    }
    Ok(adapters)
}

/// Returns the facts of the testbed for the record.
fn describe(
    testbed: &Testbed,
    lab: &Lab,
    experiment: &Experiment,
    idle_polling: bool,
    remote_dut: Option<&RemoteDut>,
) -> TestbedFacts {
    let cpu = read_cpu();
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok();
    let cpus = |host| testbed.cpus(host).cpus().to_vec();
    let vary = experiment.points.iter().any(|point| point.settings.dut.cores.is_some());
    TestbedFacts {
        network: Some(Where::Namespaces).filter(|_| remote_dut.is_none()),
        user: Some(if lab.privileged() { User::Root } else { User::UserNamespace }),
        link: Some(testbed.link()).filter(|_| remote_dut.is_none()),
        link_refused: testbed.link_refused().map(str::to_owned),
        path: Some(testbed.path()).filter(|_| remote_dut.is_none()),
        virtual_machine: cpu.virtual_machine,
        receive_buffer: Some(default_buffer()),
        idle_polling,
        tester_cpus: cpus(Host::Tester),
        auth_cpus: cpus(Host::Auth),
        dut_cpus: match remote_dut {
            _ if vary => Vec::new(),
            Some(remote_dut) => remote_dut.dut_cpus(),
            None => cpus(Host::Dut),
        },
        dut_cpus_vary: vary,
        kernel: kernel.map(|release| release.trim().to_owned()),
        cpu: cpu.model,
        port_settings: testbed.port_settings(),
        refused_settings: testbed.refused().to_vec(),
    }
}

#[cfg(test)]
mod tests;
