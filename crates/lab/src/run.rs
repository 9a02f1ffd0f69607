//! A whole experiment: testbed, self-test, then server after server.
//!
//! What was measured is kept whatever happens: a server that does not start, or an interrupt, leaves
//! a [`record::Run`] that is marked incomplete and says what is missing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use experiment::file::Role;
use experiment::{BenchError, Experiment, NameBudget, Progress, Repeats, certify};
use record::{CellRecord, Certificate, Plan, Run, SCHEMA, Skipped, TrialRecord};
use wire::{Namespace, Pref64, Qtype};

use crate::adapter::{Adapter, AdapterError, role_word};
use crate::authdns::{self, Serves};
use crate::bench::{LabBench, Target};
use crate::catalogue::Catalogue;
use crate::cpus::{CpuList, CpuPlan};
use crate::enter::Lab;
use crate::process::ProcessError;
use crate::ready::Ask;
use crate::rundir::{RunDir, RunDirError};
use crate::server::{Installed, Server, ServerError, Service};
use crate::testbed::{Host, Steering, Testbed, TestbedError, TestbedPlan, address_v4, address_v6};
use crate::zonefile::{MAX_NAMES, ZoneError, ZoneRecords, write_zone};

/// The names of a self-test: enough for every rate and duration, and the AuthDNS computes them.
const SELF_TEST_NAMES: &str = "0.0.0.0/2";

/// What the command line says of a run.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// A directory of further adapters.
    pub servers_dir: Option<PathBuf>,
    /// Only these servers; they must be installed.
    pub only: Vec<String>,
    /// Do without receive packet steering, also where it is allowed.
    pub no_steering: bool,
    /// Seed of the names' order.
    pub seed: u64,
    /// Keep the directory of the run: configurations, logs.
    pub keep: bool,
    /// The command line, for the record.
    pub command: String,
    /// The version of dnsdyno, for the record.
    pub version: String,
}

/// What is told while an experiment runs.
#[derive(Debug)]
pub enum Event<'a> {
    /// The testbed is up: its properties.
    Testbed(&'a BTreeMap<String, String>),
    /// The self-test begins.
    SelfTest,
    /// A trial of the self-test ended.
    SelfTestTrial(&'a TrialRecord),
    /// The self-test ended.
    Certified(&'a Certificate),
    /// A server is up; its title and version.
    Serving(&'a str, Option<&'a str>),
    /// A trial or a search on the server ended.
    Progress(Progress<'a>),
    /// A server was not measured, or not wholly.
    Skipped(&'a Skipped),
    /// The directory of the run is kept here.
    Kept(&'a Path),
}

/// Why an experiment could not begin.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A value of the workload is wrong.
    #[error("the workload's {what} `{found}`: {why}")]
    Workload {
        /// Which value.
        what: &'static str,
        /// As it was given.
        found: String,
        /// What is wrong.
        why: String,
    },
    /// A server asked for by name is not part of the experiment.
    #[error("the experiment has no server `{name}`; it has {known}")]
    NotInExperiment {
        /// The name asked for.
        name: String,
        /// Those it has.
        known: String,
    },
    /// An adapter is wrong, or not there.
    #[error(transparent)]
    Adapter(#[from] AdapterError),
    /// The zone cannot be made.
    #[error(transparent)]
    Zone(#[from] ZoneError),
    /// There is no directory.
    #[error(transparent)]
    Dir(#[from] RunDirError),
    /// There is no testbed.
    #[error(transparent)]
    Testbed(#[from] TestbedError),
    /// The AuthDNS does not come up.
    #[error(transparent)]
    AuthDns(#[from] ProcessError),
    /// The self-test could not be run.
    #[error("the self-test could not be run: {0}")]
    SelfTest(BenchError),
}

impl RunError {
    /// Whether what was asked for makes no sense (exit code 2), rather than that it failed (1).
    pub fn is_bad_input(&self) -> bool {
        match self {
            RunError::Workload { .. } | RunError::NotInExperiment { .. } => true,
            RunError::Adapter(e) => !matches!(e, AdapterError::NotInstalled { .. }),
            RunError::Zone(e) => matches!(e, ZoneError::TooLarge { .. }),
            RunError::Testbed(e) => matches!(e, TestbedError::Cpus { .. }),
            RunError::Dir(_) | RunError::AuthDns(_) | RunError::SelfTest(_) => false,
        }
    }
}

/// The experiment's workload, understood.
#[derive(Clone, Copy, Debug)]
struct Asked {
    namespace: Namespace,
    qtype: Qtype,
    pref64: Pref64,
}

impl Asked {
    fn new(experiment: &Experiment) -> Result<Self, RunError> {
        let w = &experiment.workload;
        let bad = |what, found: &str, why: String| RunError::Workload {
            what,
            found: found.to_owned(),
            why,
        };
        let prefix = w
            .namespace
            .parse()
            .map_err(|e: wire::Ipv4PrefixError| bad("namespace", &w.namespace, e.to_string()))?;
        let namespace = Namespace::with_default_zone(prefix);
        let pref64 = w
            .pref64
            .parse()
            .map_err(|e: wire::Pref64Error| bad("pref64", &w.pref64, e.to_string()))?;
        let qtype = match (w.qtype.parse().ok(), experiment.role) {
            (Some(Qtype::AAAA), _) => Qtype::AAAA,
            (Some(Qtype::A), Role::Authoritative | Role::Resolver) => Qtype::A,
            (_, Role::Dns64) => {
                return Err(bad("type", &w.qtype, "a DNS64 server is asked for AAAA".to_owned()));
            }
            (_, Role::Resolver | Role::Authoritative) => {
                let why = "the names have A or AAAA records".to_owned();
                return Err(bad("type", &w.qtype, why));
            }
        };
        let asked = Self { namespace, qtype, pref64 };
        asked.check_size(experiment).map_err(|why| bad("namespace", &w.namespace, why))?;
        Ok(asked)
    }

    /// Whether there are names for the very first trial; an authority may be asked the same again.
    fn check_size(&self, experiment: &Experiment) -> Result<(), String> {
        let size = self.namespace.size();
        if experiment.role == Role::Authoritative {
            let fits = size <= MAX_NAMES;
            return fits.then_some(()).ok_or_else(|| {
                format!("{size} names; a generated zone has at most {MAX_NAMES}, as 10.0.0.0/12")
            });
        }
        let needed = experiment.search.start.queries_in(experiment.search.duration);
        (needed <= size).then_some(()).ok_or_else(|| {
            format!(
                "{size} names are too few for the first trial: {} for {} are {needed} queries, each \
                 for another name; take a shorter prefix (10.0.0.0/8 has 2^24 names)",
                experiment.search.start, experiment.search.duration
            )
        })
    }

    /// What the server under test is asked.
    fn target(&self, role: Role, seed: u64) -> Target {
        let authoritative = role == Role::Authoritative;
        Target {
            address: Server::address(),
            namespace: self.namespace,
            qtype: self.qtype,
            expect_pref64: (self.qtype == Qtype::AAAA).then_some(self.pref64),
            reuse_names: authoritative,
            recursion: !authoritative,
            seed,
        }
    }

    /// What each name must be answered with.
    fn ask(&self) -> Ask {
        if self.qtype == Qtype::A { Ask::A } else { Ask::Aaaa(self.pref64) }
    }
}

/// Runs `experiment` in the lab.
///
/// # Errors
/// When it cannot begin. What fails later is in the run's `skipped`, and the run is incomplete.
pub fn run_experiment(
    lab: &Lab,
    experiment: &Experiment,
    options: &RunOptions,
    tell: &mut dyn FnMut(Event<'_>),
) -> Result<Run, RunError> {
    let asked = Asked::new(experiment)?;
    let catalogue = Catalogue::load(options.servers_dir.as_deref())?;
    let adapters = chosen(experiment, options, &catalogue)?;
    let plan = TestbedPlan { cpus: cpu_plan(experiment), steering: !options.no_steering };
    let mut dir = RunDir::create()?;
    let started = SystemTime::now();
    let began = Instant::now();
    let testbed = Testbed::build(lab, dir.path(), &plan)?;
    let mut run = Run {
        schema: SCHEMA,
        plan: Plan {
            experiment: experiment.name.clone(),
            title: experiment.title.clone(),
            version: options.version.clone(),
            command: options.command.clone(),
            started_unix_s: started.duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64()),
            testbed: describe(&testbed, lab),
            ..Plan::default()
        },
        complete: true,
        ..Run::default()
    };
    tell(Event::Testbed(&run.plan.testbed));
    let session = Session { lab, experiment, options, asked, testbed: &testbed, dir: &dir };
    match session.run(&adapters, &mut run, tell) {
        Ok(()) => {}
        Err(RunError::SelfTest(BenchError::Interrupted)) => run.complete = false,
        Err(e) => return Err(e),
    }
    run.complete &= !run.results.is_empty();
    run.elapsed_s = began.elapsed().as_secs_f64();
    drop(testbed);
    if options.keep {
        tell(Event::Kept(dir.keep()));
    }
    Ok(run)
}

/// The adapters of the experiment's servers, all of them checked before anything is started.
fn chosen<'c>(
    experiment: &Experiment,
    options: &RunOptions,
    catalogue: &'c Catalogue,
) -> Result<Vec<&'c Adapter>, RunError> {
    for name in &options.only {
        catalogue.get(name)?;
        if !experiment.servers.contains(name) {
            let (name, known) = (name.clone(), experiment.servers.join(", "));
            return Err(RunError::NotInExperiment { name, known });
        }
    }
    let wanted = experiment
        .servers
        .iter()
        .filter(|name| options.only.is_empty() || options.only.contains(name));
    let mut adapters = Vec::new();
    for name in wanted {
        let adapter = catalogue.get(name)?;
        adapter.check_role(experiment.role)?;
        if options.only.contains(name) {
            adapter.program()?;
        }
        adapters.push(adapter);
    }
    Ok(adapters)
}

/// The cores that the experiment gives each host.
fn cpu_plan(experiment: &Experiment) -> CpuPlan {
    // A checked experiment names a core for each.
    let list = |cpus: &[usize]| CpuList::new(cpus.iter().copied()).unwrap_or(CpuList::allowed());
    let cpus = &experiment.cpus;
    CpuPlan { tester: list(&cpus.tester), auth: list(&cpus.auth), dut: list(&cpus.dut) }
}

/// The testbed in words.
fn describe(testbed: &Testbed, lab: &Lab) -> BTreeMap<String, String> {
    let steering = match testbed.steering() {
        Steering::On => "on: each host pays for what it receives".to_owned(),
        Steering::Off => "off: the sender's core does the receiver's work".to_owned(),
        Steering::Refused(why) => {
            format!("refused ({why}): the sender's core does the receiver's work")
        }
    };
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let mut words = BTreeMap::from([
        ("namespaces".to_owned(), "tester, auth, dut on veth links".to_owned()),
        ("user".to_owned(), if lab.privileged() { "root" } else { "user namespace" }.to_owned()),
        ("packet steering".to_owned(), steering),
        ("tester cpus".to_owned(), testbed.cpus(Host::Tester).to_string()),
        ("auth cpus".to_owned(), testbed.cpus(Host::Auth).to_string()),
        ("dut cpus".to_owned(), testbed.cpus(Host::Dut).to_string()),
        ("kernel".to_owned(), kernel.trim().to_owned()),
        ("cpu".to_owned(), model.map_or("", |(_, model)| model.trim()).to_owned()),
    ]);
    if !testbed.refused().is_empty() {
        words.insert("refused settings".to_owned(), testbed.refused().join("; "));
    }
    words
}

/// A run in progress.
struct Session<'a> {
    lab: &'a Lab,
    experiment: &'a Experiment,
    options: &'a RunOptions,
    asked: Asked,
    testbed: &'a Testbed,
    dir: &'a RunDir,
}

impl Session<'_> {
    /// Certifies the Tester, then measures server after server.
    fn run(
        &self,
        adapters: &[&Adapter],
        run: &mut Run,
        tell: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), RunError> {
        let zone_file = self.zone_file()?;
        let certificate = self.certify(tell)?;
        tell(Event::Certified(&certificate));
        for adapter in adapters {
            if self.is_interrupted() {
                run.complete = false;
                break;
            }
            let shortfall = match self.measure(adapter, zone_file.as_deref(), &certificate, tell) {
                Ok((record, error)) => {
                    run.results.push(record);
                    error.map(|e| (e.to_string(), false))
                }
                // What is not installed was not planned, unless it was asked for by name.
                Err(e @ ServerError::Adapter(AdapterError::NotInstalled { .. })) => {
                    Some((e.to_string(), true))
                }
                Err(e) => Some((e.to_string(), false)),
            };
            if let Some((why, complete)) = shortfall {
                let skipped = Skipped { server: adapter.name.clone(), why, ..Skipped::default() };
                tell(Event::Skipped(&skipped));
                run.skipped.push(skipped);
                run.complete &= complete;
            }
        }
        Ok(())
    }

    fn is_interrupted(&self) -> bool {
        self.lab.interrupted().load(std::sync::atomic::Ordering::Relaxed)
    }

    /// The zone of authoritative servers, made once for all of them.
    fn zone_file(&self) -> Result<Option<PathBuf>, RunError> {
        if self.experiment.role != Role::Authoritative {
            return Ok(None);
        }
        let path = self.dir.path().join("zone");
        let records = match self.asked.qtype {
            Qtype::A => ZoneRecords::A,
            _ => ZoneRecords::Aaaa(self.asked.pref64),
        };
        let server = (address_v4(Host::Dut, Host::Tester), address_v6(Host::Dut, Host::Tester));
        write_zone(&path, &self.asked.namespace, records, server)?;
        Ok(Some(path))
    }

    /// The self-test: the Measurer against the AuthDNS over their own link.
    fn certify(&self, tell: &mut dyn FnMut(Event<'_>)) -> Result<Certificate, RunError> {
        tell(Event::SelfTest);
        let namespace =
            Namespace::with_default_zone(SELF_TEST_NAMES.parse().expect("a prefix of IPv4"));
        let (pref64, serves) = (self.asked.pref64, Serves::SelfTest);
        let (testbed, dir) = (self.testbed, self.dir.path());
        let authdns = authdns::start(serves, &namespace, pref64, testbed, self.lab, dir)?;
        let target = Target {
            address: serves.addresses()[0],
            namespace,
            qtype: Qtype::AAAA,
            expect_pref64: Some(pref64),
            reuse_names: false,
            recursion: false,
            seed: self.options.seed,
        };
        let mut bench = LabBench::self_test(self.lab, testbed, dir, target, authdns);
        let search = &self.experiment.search;
        let certificate = certify(
            &mut bench,
            search.max,
            search.duration,
            search.timeout,
            namespace.size(),
            &mut |trial| tell(Event::SelfTestTrial(trial)),
        );
        bench.stop();
        certificate.map_err(RunError::SelfTest)
    }

    /// All searches on one server.
    fn measure(
        &self,
        adapter: &Adapter,
        zone_file: Option<&Path>,
        certificate: &Certificate,
        tell: &mut dyn FnMut(Event<'_>),
    ) -> Result<(CellRecord, Option<BenchError>), ServerError> {
        let (role, asked) = (self.experiment.role, &self.asked);
        let authoritative = role == Role::Authoritative;
        let dir = self.dir.path();
        let installed = Installed::find(adapter, self.testbed, dir)?;
        let authdns = if authoritative {
            None
        } else {
            // A resolver makes up nothing: what it is asked for must be there.
            let share = self.experiment.workload.aaaa_share;
            let aaaa_share = if role == Role::Resolver { 1.0 } else { share };
            let serves = Serves::Dut { aaaa_share };
            let (namespace, pref64) = (&asked.namespace, asked.pref64);
            Some(authdns::start(serves, namespace, pref64, self.testbed, self.lab, dir)?)
        };
        let service = Service {
            role,
            namespace: asked.namespace,
            pref64: asked.pref64,
            zone_file: zone_file.map(Path::to_owned),
            ask: asked.ask(),
        };
        let target = asked.target(role, self.options.seed);
        let both = (&installed, &service);
        let mut bench = LabBench::start(self.lab, self.testbed, dir, target, authdns, both)?;
        tell(Event::Serving(&adapter.title, installed.version()));
        let repeats = Repeats {
            search: self.experiment.search(),
            repeats: self.experiment.search.repeats,
            over_ipv6: target.address.is_ipv6(),
        };
        // An authority remembers nothing, so that its names never run out.
        let names = if authoritative { u64::MAX } else { asked.namespace.size() };
        let mut names = NameBudget::new(names, false);
        let (mut record, error) = repeats.run(
            &mut bench,
            &adapter.name,
            &mut names,
            Some(certificate.clone()),
            &mut |step| tell(Event::Progress(step)),
        );
        bench.stop();
        record.server_version = installed.version().map(str::to_owned);
        record.settings.insert("role".to_owned(), role_word(role).to_owned());
        let cores = self.testbed.cpus(Host::Dut).count();
        record.settings.insert("cores".to_owned(), cores.to_string());
        if authoritative {
            record.conforming = false;
            record.differs.push("the server is authoritative, not a DNS64 server".to_owned());
        }
        Ok((record, error))
    }
}
