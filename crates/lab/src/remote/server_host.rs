//! The host of the parts that a remote Tester requests: the agent's side of
//! [`crate::remote::agent`], with the adapters, the readiness and the ends of processes of the lab.
//!
//! The parts run in this host's own network, at the addresses that the Tester names, and in the pid
//! namespace of the lab: leftover processes end with the agent.

use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use experiment::file::Role;
use nix::sys::signal::Signal;
use wire::Name;

use crate::adapter::AdapterError;
use crate::remote::error::Refusal;
use crate::remote::message::{LaunchedPart, Order, PartState, Reply};
use crate::remote::parts::{AuthDnsPart, Certified, Part, Place, QueriedNames, ServerPart, Source};
use crate::server::authdns::{self, Serves};
use crate::server::question_plan::QuestionPlan;
use crate::server::zone_load::memory;
use crate::server::zonefile::{ZoneError, write_zone};
use crate::server::{Installed, LabEnv, Server, ServerError, Service};
use crate::testbed::cpus::{CpuList, CpuPlan};
use crate::testbed::enter::Lab;
use crate::testbed::limit::CpuLimit;
use crate::testbed::process::Process;
use crate::testbed::procfs;
use crate::testbed::rundir::{RunDir, RunDirError};
use crate::testbed::{PORT, Places, Testbed, TestbedError};

/// Time within which the AuthDNS must end.
const STOP_GRACE: Duration = Duration::from_secs(5);
/// Placeholder for the address of an upstream server without one: templates require it.
const NO_UPSTREAM: Place = Place { v4: Ipv4Addr::LOCALHOST, v6: Ipv6Addr::LOCALHOST, port: PORT };

/// The agent's host, which runs one part at a time.
#[derive(Debug)]
pub struct ServerHost<'a> {
    lab: &'a Lab,
    dir: RunDir,
    found: Option<(Source, Installed)>,
    zone: Option<(QueriedNames, PathBuf)>,
    running: Option<RunningPart>,
}

/// A part that runs, with its cores and its limit.
#[derive(Debug)]
struct RunningPart {
    what: PartKind,
    cpus: CpuList,
    /// Limits the part's CPU time until it is dropped.
    limit: Option<CpuLimit>,
}

#[derive(Debug)]
enum PartKind {
    Server(Server),
    AuthDns {
        process: Process,
        /// Address and zone for the query of an AuthDNS's message count; absent if the query would
        /// change later replies.
        tells: Option<Box<(SocketAddr, Name)>>,
    },
}

impl<'a> ServerHost<'a> {
    /// Makes the host of a process in the lab.
    ///
    /// # Errors
    /// If there is no room for temporary files.
    pub fn new(lab: &'a Lab) -> Result<Self, RunDirError> {
        Ok(Self { lab, dir: RunDir::create()?, found: None, zone: None, running: None })
    }

    /// Carries out an order about parts; `None` for other orders.
    pub fn reply(&mut self, order: &Order) -> Option<Reply> {
        let reply = match order {
            Order::Find { source } => self
                .find(source)
                .map_err(Refusal::from)
                .map(|found| Reply::Found { version: found.version().map(str::to_owned) }),
            Order::Start(part) => {
                self.start(part).map(|launched| Reply::Started(Box::new(launched)))
            }
            Order::Collect => match self.collect() {
                Some(collected) => Ok(Reply::Collected(Box::new(collected))),
                None => Err("nothing was started".to_owned().into()),
            },
            Order::Stop => {
                self.stop();
                Ok(Reply::Stopped)
            }
            Order::RunTime => {
                let own = self.pids().first().copied();
                Ok(Reply::RunTime { ran_ns: own.map_or(0, procfs::run_time) })
            }
            _ => return None,
        };
        Some(reply.unwrap_or_else(Reply::Refused))
    }

    /// Returns the processes of the part, without their children.
    pub fn pids(&self) -> Vec<u32> {
        match self.running.as_ref().map(|running| &running.what) {
            None => Vec::new(),
            Some(PartKind::Server(server)) => server.pids(),
            Some(PartKind::AuthDns { process, .. }) => vec![process.pid()],
        }
    }

    /// Returns the number of messages that an AuthDNS has received since its start, including the
    /// query of this call; `None` for other parts, and without a reply.
    pub fn queries(&self) -> Option<u64> {
        match self.running.as_ref().map(|running| &running.what) {
            Some(PartKind::AuthDns { tells: Some(tells), .. }) => {
                authdns::messages(tells.0, &tells.1).ok()
            }
            _ => None,
        }
    }

    /// Returns the cores of the part; without a part the cores of this process.
    pub fn cpus(&self) -> CpuList {
        let own = || self.lab.allowed_cpus().clone();
        self.running.as_ref().map_or_else(own, |running| running.cpus.clone())
    }

    /// Stops the part according to its adapter.
    pub fn stop(&mut self) {
        let Some(running) = self.running.take() else { return };
        // Without its CPU limit the server can stop in time.
        drop(running.limit);
        match running.what {
            PartKind::Server(server) => server.stop(),
            PartKind::AuthDns { mut process, .. } => {
                process.stop(Signal::SIGTERM, STOP_GRACE);
            }
        }
    }

    fn start(&mut self, part: &Part) -> Result<LaunchedPart, Refusal> {
        self.stop();
        match part {
            Part::Server(part) => self.start_server(part),
            Part::AuthDns(part) => self.start_authdns(part),
        }
    }

    fn start_server(&mut self, part: &ServerPart) -> Result<LaunchedPart, Refusal> {
        let installed = self.find(&part.source)?;
        if let Some(why) =
            part.variables.iter().find_map(|(n, v)| installed.adapter().refuses(n, v))
        {
            return Err(why.into());
        }
        let plan = QuestionPlan::of(&part.names)?.for_server(installed.adapter());
        let cpus = part.cpus.of(self.lab.allowed_cpus())?;
        if part.upstreams.is_empty() {
            return Err("the order names no AuthDNS".to_owned().into());
        }
        let places = Places { dut: part.listen, auth: part.upstreams.clone() };
        let testbed = self.testbed(&cpus, places)?;
        let certified = part.certificate.as_ref().map(|c| self.write_certificate(c)).transpose()?;
        let (transport, given) = (part.transport, part.variables.clone());
        let variables = installed
            .variables(transport, part.clients, given, certified.as_deref())
            .map_err(Refusal::Cannot)?;
        let loads = part.role == Role::Authoritative && installed.adapter().loads_zones();
        let service = Service {
            role: part.role,
            namespace: plan.namespace,
            origin: None::<Name>,
            pref64: plan.pref64,
            zone_file: loads.then(|| self.zone(&part.names, &plan)).transpose()?,
            ask: plan.ask(),
            threads: part.threads,
            variables,
        };
        let env = LabEnv { testbed: &testbed, lab: self.lab, dir: self.dir.path() };
        let server = installed.start(&service, env)?;
        let limit = part.cpu_limit.map(|cores| {
            CpuLimit::apply(&server.pids(), cores, cpus.count()).map_err(|e| e.to_string())
        });
        let limit = limit.transpose()?;
        let launched = LaunchedPart {
            files: server.files().clone(),
            loaded_s: server.loaded().as_secs_f64(),
            cpus: cpus.cpus().to_vec(),
            limited: limit.as_ref().map(|limit| limit.means().to_owned()),
        };
        self.running = Some(RunningPart { what: PartKind::Server(server), cpus, limit });
        Ok(launched)
    }

    fn start_authdns(&mut self, part: &AuthDnsPart) -> Result<LaunchedPart, Refusal> {
        let plan = QuestionPlan::of(&part.names)?;
        let cpus = part.cpus.of(self.lab.allowed_cpus())?;
        let testbed = self.testbed(&cpus, Places { dut: NO_UPSTREAM, auth: vec![part.listen] })?;
        let began = Instant::now();
        let env = LabEnv { testbed: &testbed, lab: self.lab, dir: self.dir.path() };
        let started = authdns::start(part.serves, &plan.namespace, plan.pref64, env);
        let process = started.map_err(|e| e.to_string())?;
        let (loaded_s, listed) = (began.elapsed().as_secs_f64(), cpus.cpus().to_vec());
        // Of a known behaviour each reply counts.
        let at = (part.listen.v4, part.listen.port).into();
        let tells = (part.serves != Serves::Truth).then(|| Box::new((at, *plan.namespace.zone())));
        self.running =
            Some(RunningPart { what: PartKind::AuthDns { process, tells }, cpus, limit: None });
        Ok(LaunchedPart { loaded_s, cpus: listed, ..LaunchedPart::default() })
    }

    /// Returns the state of the part; `None` without one.
    fn collect(&mut self) -> Option<PartState> {
        let memory = memory(&self.pids())[0].1;
        let (alive, log) = match &mut self.running.as_mut()?.what {
            PartKind::Server(server) => (server.check().is_ok(), server.tail()),
            PartKind::AuthDns { process, .. } => (process.check().is_ok(), process.tail()),
        };
        Some(PartState { alive, log: log.0, memory })
    }

    /// Returns the server's program; the last one is remembered.
    fn find(&mut self, source: &Source) -> Result<Installed, ServerError> {
        if let Some((known, found)) = &self.found
            && known == source
        {
            return Ok(found.clone());
        }
        let adapter = source.adapter()?;
        let testbed = Testbed::here(
            self.lab,
            plan(self.lab.allowed_cpus()),
            Places { dut: NO_UPSTREAM, auth: vec![NO_UPSTREAM] },
        );
        let io = |e: TestbedError| {
            ServerError::Io("the network".to_owned(), std::io::Error::other(e.to_string()))
        };
        let found = Installed::find(&adapter, &testbed.map_err(io)?, self.dir.path())?;
        self.found = Some((source.clone(), found.clone()));
        Ok(found)
    }

    /// Makes a testbed of this host for a part.
    fn testbed(&self, cpus: &CpuList, places: Places) -> Result<Testbed, String> {
        Testbed::here(self.lab, plan(cpus), places).map_err(|e| e.to_string())
    }

    /// Writes a certificate with its key; returns their directory.
    fn write_certificate(&self, certified: &Certified) -> Result<PathBuf, String> {
        let dir = self.dir.path().join("certificates");
        let write = |name: &str, text: &str| fs::write(dir.join(name), text);
        fs::create_dir_all(&dir)
            .and_then(|()| write("server.pem", &certified.certificate))
            .and_then(|()| write("server.key", &certified.key))
            .map_err(|e| format!("{}: {e}", dir.display()))?;
        Ok(dir)
    }

    /// Returns the zone file of the queried names; the last zone is reused.
    fn zone(&mut self, names: &QueriedNames, plan: &QuestionPlan) -> Result<PathBuf, Refusal> {
        if let Some((known, path)) = &self.zone
            && known == names
        {
            return Ok(path.clone());
        }
        let path = self.dir.path().join("zone");
        let written = write_zone(Path::new(&path), &plan.namespace, plan.records());
        written.map_err(|error| match error {
            ZoneError::TooLarge { .. } => Refusal::Cannot(error.to_string()),
            other => Refusal::Failed(other.to_string()),
        })?;
        self.zone = Some((names.clone(), path.clone()));
        Ok(path)
    }
}

impl From<ServerError> for Refusal {
    fn from(error: ServerError) -> Self {
        match error {
            ServerError::Adapter(AdapterError::NotInstalled { .. }) => {
                Refusal::Cannot(error.to_string())
            }
            other => Refusal::Failed(other.to_string()),
        }
    }
}

/// Returns the plan of a host whose part has the cores `cpus`: the Tester has none here.
fn plan(cpus: &CpuList) -> CpuPlan {
    let none = CpuList::new([usize::MAX]).expect("one core");
    CpuPlan { tester: none, auth: cpus.clone(), dut: cpus.clone() }
}

impl Drop for ServerHost<'_> {
    fn drop(&mut self) {
        self.stop();
    }
}
