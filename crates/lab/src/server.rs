//! The server under test: the program of an adapter, configured and started in the DUT's host.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use experiment::file::Role;
use experiment::settings::Family;
use measure::Transport;
use wire::{Name, Namespace, Pref64};

use crate::adapter::detect::detect;
use crate::adapter::template::{self, Setting};
use crate::adapter::{Adapter, AdapterError, FileTemplate, Source, VersionQuery};
use crate::server::ready::{Ask, At, Over, Question, wait_ready};
use crate::server::zonefile::{loading_limit, reverse_zone};
use crate::testbed::enter::Lab;
use crate::testbed::leftovers;
use crate::testbed::place::Place;
use crate::testbed::process::{Launch, Process, ProcessError};
use crate::testbed::reserve::default_buffer;
use crate::testbed::{Host, PORT, Testbed, address_v4, address_v6};

pub mod authdns;
mod beside;
pub(crate) mod clients;
pub(crate) mod configure;
pub mod internet;
pub(crate) mod query_stream;
pub(crate) mod question_plan;
pub mod ready;
pub(crate) mod replication;
mod running;
pub mod signer;
mod task;
pub(crate) mod zone_load;
pub mod zonefile;

pub use self::running::Server;
use self::running::ServerProcess;

/// Port of a server behind another one, which is the first in its host.
const PORT_BEHIND: u16 = 5300;
/// Time within which a server must print its version.
const VERSION_LIMIT: Duration = Duration::from_secs(10);
/// Size of all caches: an eighth of the available memory, at most 512 MB. That is enough for some hundred thousand
/// names. Names that are all different fill it within seconds, so that a server is measured with full caches, not
/// while the kernel gives it new memory.
const CACHE_SIZE: (u64, u64) = (8, 512);

/// Task of a server under test.
#[derive(Clone, Debug)]
pub struct Service {
    /// Role in which the server is queried: a DNS64, a resolver or an authoritative server.
    pub role: Role,
    /// The names of the queries, unless `origin` is set.
    pub namespace: Namespace,
    /// Zone in place of the namespace's; absent if that is queried.
    pub origin: Option<Name>,
    /// Prefix under which a DNS64 synthesises, and which the answers are checked by.
    pub pref64: Pref64,
    /// Zone file of an authoritative server.
    pub zone_file: Option<PathBuf>,
    /// Query that shows whether the server is ready.
    pub ask: Ask,
    /// Number of threads; one for each core if absent.
    pub threads: Option<usize>,
    /// Further variables of its templates.
    pub variables: BTreeMap<String, String>,
}

/// Error while starting a server.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The adapter of the server does not support the task.
    #[error(transparent)]
    Adapter(#[from] AdapterError),
    /// The process of the server failed.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// A command that prepares the start of the server failed.
    #[error(transparent)]
    Preparation(#[from] crate::server::signer::SignError),
    /// The server's CPU time cannot be limited.
    #[error(transparent)]
    Limit(#[from] crate::testbed::limit::LimitError),
    /// Another process is in the server's host, or has its port.
    #[error("{0} is not started, since its host is not free: {1}")]
    Leftovers(String, #[source] io::Error),
    /// The server's configuration could not be written.
    #[error("cannot write {0}: {1}")]
    Io(String, #[source] io::Error),
    /// A template failed with the values of this run.
    #[error("{title}: line {line} of a template: {why}")]
    Template {
        /// Display name of the server.
        title: String,
        /// Line of the template, from 1.
        line: usize,
        /// The cause, in the words of the template engine.
        why: String,
    },
}

/// A server that is installed on this machine, with the server behind it.
#[derive(Clone, Debug)]
pub struct Installed {
    adapter: Adapter,
    program: PathBuf,
    version: Option<String>,
    behind: Option<Box<Installed>>,
}

/// Place of one process of a server, of which a run may start several.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instance<'a> {
    /// Name of the process's log, without the suffix.
    pub(crate) name: &'a str,
    /// Host of the process.
    pub(crate) host: Host,
    /// Directory of the server's configuration and state.
    pub(crate) state: &'a Path,
}

/// Program and its arguments, and variables added to its environment.
pub(crate) type CommandLine = (Vec<OsString>, Vec<(String, String)>);

/// Where servers are started: a testbed, the lab around it, and a directory for their files.
#[derive(Clone, Copy, Debug)]
pub struct LabEnv<'a> {
    /// Hosts and links of the servers and of their clients.
    pub testbed: &'a Testbed,
    /// The lab, whose interruption ends a wait for a server.
    pub lab: &'a Lab,
    /// Directory of the run, with a folder for each server.
    pub dir: &'a Path,
}

/// Task and place of a server that is started.
#[derive(Clone, Copy)]
struct Stage<'a> {
    service: &'a Service,
    env: LabEnv<'a>,
    /// Host of the process.
    host: Host,
    /// Number of the server among the servers in the host.
    number: u16,
}

impl Stage<'_> {
    /// Returns the host whose queries the server answers.
    fn client(&self) -> Host {
        if self.host == Host::Auth { Host::Dut } else { Host::Tester }
    }

    /// Returns the server's addresses, with its port.
    fn listening(&self, port: u16) -> Place {
        self.env.testbed.place(self.host, self.client(), port)
    }
}

impl Installed {
    /// Finds the server's program and queries its version; `dir` is the directory of the run.
    ///
    /// # Errors
    /// If it is not installed, or does not run.
    pub fn find(adapter: &Adapter, testbed: &Testbed, dir: &Path) -> Result<Self, ServerError> {
        if adapter.remote.is_some() {
            return Ok(Self::remote(adapter, None));
        }
        let program = unconfined(&adapter.program()?, dir)?;
        let query = adapter.version.as_ref();
        let version = query.map(|query| ask_version(adapter, query, &program, testbed, dir));
        let version = version.transpose()?.flatten();
        let behind = adapter.behind.as_deref().map(|behind| Self::find(behind, testbed, dir));
        let behind = behind.transpose()?.map(Box::new);
        Ok(Self { adapter: adapter.clone(), program, version, behind })
    }

    /// Makes the entry of a server that an agent has found on another host.
    pub(crate) fn remote(adapter: &Adapter, version: Option<String>) -> Self {
        Self { adapter: adapter.clone(), program: PathBuf::new(), version, behind: None }
    }

    /// Finds the server's program and its version outside of the lab, without the server behind it.
    ///
    /// # Errors
    /// If it is not installed.
    pub(crate) fn outside(adapter: &Adapter) -> Result<Self, ServerError> {
        let (program, version) = (adapter.program()?, detect(adapter).version);
        Ok(Self { adapter: adapter.clone(), program, version, behind: None })
    }

    /// Returns the adapter by which the server was found here.
    pub fn adapter(&self) -> &Adapter {
        &self.adapter
    }

    /// Returns the server's version, if it prints one.
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// Starts the server in the DUT's host, from scratch, and waits until it answers correctly.
    ///
    /// # Errors
    /// If it does not start; with the end of its log.
    pub fn start(&self, service: &Service, env: LabEnv<'_>) -> Result<Server, ServerError> {
        self.start_afresh(Stage { service, env, host: Host::Dut, number: 0 })
    }

    /// Starts the server with the state of its earlier start, such as a database of its zone.
    ///
    /// # Errors
    /// If it does not start; with the end of its log.
    pub fn start_again(&self, service: &Service, env: LabEnv<'_>) -> Result<Server, ServerError> {
        self.start_on(Stage { service, env, host: Host::Dut, number: 0 })
    }

    /// Starts the server in the auth host, from scratch, for a server under test that queries it.
    ///
    /// # Errors
    /// If it does not start; with the end of its log.
    pub(crate) fn start_upstream(
        &self,
        service: &Service,
        env: LabEnv<'_>,
    ) -> Result<Server, ServerError> {
        self.start_afresh(Stage { service, env, host: Host::Auth, number: 0 })
    }

    /// Removes the files of an earlier start, and starts it on a stage.
    fn start_afresh(&self, stage: Stage<'_>) -> Result<Server, ServerError> {
        let _ = fs::remove_dir_all(self.state(stage.env.dir));
        self.start_on(stage)
    }

    /// Starts the server on a stage, and waits until it answers correctly.
    fn start_on(&self, stage: Stage<'_>) -> Result<Server, ServerError> {
        clear_hosts(stage.env.testbed, &[stage.host], &self.adapter.title)?;
        let Place { v4, v6, port } = stage.listening(self.adapter.listen.port);
        let ip = if self.adapter.listen.ipv6 { IpAddr::V6(v6) } else { IpAddr::V4(v4) };
        self.check_free(stage.env.testbed, stage.host, &[SocketAddr::new(ip, port)])?;
        let mut server =
            Server { parts: Vec::new(), files: BTreeMap::new(), loaded: Duration::ZERO };
        self.add_to(&mut server, stage, port)?;
        Ok(server)
    }

    /// Checks that the server's addresses in `host` are free.
    pub(crate) fn check_free(
        &self,
        testbed: &Testbed,
        host: Host,
        addresses: &[SocketAddr],
    ) -> Result<(), ServerError> {
        let namespace = testbed.namespace(host);
        let mut free = addresses.iter().map(|at| leftovers::check_free(namespace, *at));
        let title = || self.adapter.title.clone();
        free.try_for_each(|free| free).map_err(|source| ServerError::Leftovers(title(), source))
    }

    /// Returns the address that the Tester queries: IPv6 if the server listens on it, as the clients of a DNS64 server
    /// in RFC 8219.
    pub fn address(&self) -> SocketAddr {
        if let Some(remote) = self.adapter.remote {
            return remote;
        }
        let ip = match self.adapter.listen.ipv6 {
            true => IpAddr::V6(address_v6(Host::Dut, Host::Tester)),
            false => IpAddr::V4(address_v4(Host::Dut, Host::Tester)),
        };
        SocketAddr::new(ip, self.adapter.listen.port)
    }

    /// Returns the address that the Tester queries over `family`.
    ///
    /// # Errors
    /// If it does not listen on IPv4, in words.
    pub(crate) fn address_over(&self, family: Family) -> Result<SocketAddr, String> {
        let listen = self.adapter.listen;
        match family {
            Family::Ipv6 => Ok(self.address()),
            Family::Ipv4 if listen.ipv4 => {
                Ok((address_v4(Host::Dut, Host::Tester), listen.port).into())
            }
            Family::Ipv4 => Err(format!("{} does not listen on IPv4", self.adapter.title)),
        }
    }

    /// Returns the directory of the server's configuration and state, in the directory of a run.
    pub fn state(&self, dir: &Path) -> PathBuf {
        dir.join(&self.adapter.name)
    }

    /// Starts the server behind this one, then this one, and waits until each is ready.
    fn add_to(&self, server: &mut Server, stage: Stage<'_>, port: u16) -> Result<(), ServerError> {
        let state = self.state(stage.env.dir);
        let behind = match &self.behind {
            None => None,
            Some(behind) => {
                // A server whose port cannot be configured keeps it.
                let own = behind.adapter.listen.port;
                let port = if own == PORT { PORT_BEHIND + stage.number } else { own };
                let env = LabEnv { dir: &state, ..stage.env };
                behind.add_to(server, Stage { env, ..stage }, port)?;
                Some(stage.listening(port))
            }
        };
        let setting = Setting { behind, ..self.setting(stage, &state, port) };
        let began = Instant::now();
        let process = self.launch(stage, &setting, &state, &mut server.files)?;
        server.parts.insert(0, ServerProcess { process, stop: self.adapter.stop.clone() });
        server.loaded = self.wait_ready(&mut server.parts[0].process, stage, port, began)?;
        server.parts[0].process.hold_to_cpus()?;
        Ok(())
    }

    /// Writes the server's configuration, adds the text to `files`, and starts its process.
    fn launch(
        &self,
        stage: Stage<'_>,
        setting: &Setting,
        state: &Path,
        files: &mut BTreeMap<String, String>,
    ) -> Result<Process, ServerError> {
        self.write_files(&self.adapter.files, setting, state, files)?;
        let instance = Instance { name: &self.adapter.name, host: stage.host, state };
        self.spawn(&instance, setting, stage.env.testbed)
    }

    /// Writes the server's configuration files below `state`, and adds their text to `written`.
    pub(crate) fn write_files(
        &self,
        files: &[FileTemplate],
        setting: &Setting,
        state: &Path,
        written: &mut BTreeMap<String, String>,
    ) -> Result<(), ServerError> {
        let io = |path: &Path| {
            let path = path.display().to_string();
            move |source| ServerError::Io(path, source)
        };
        fs::create_dir_all(state).map_err(io(state))?;
        for file in files {
            let path = state.join(file.place());
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent).map_err(io(parent))?;
            }
            let text = self.render(file.text.get_ref(), setting)?;
            fs::write(&path, &text).map_err(io(&path))?;
            written.insert(file.path.clone(), text);
        }
        Ok(())
    }

    /// Writes `files` and starts the server's process as `instance`, without waiting until it is
    /// ready.
    pub(crate) fn launch_instance(
        &self,
        instance: &Instance<'_>,
        files: &[FileTemplate],
        setting: &Setting,
        testbed: &Testbed,
    ) -> Result<Server, ServerError> {
        let mut written = BTreeMap::new();
        self.write_files(files, setting, instance.state, &mut written)?;
        let process = self.spawn(instance, setting, testbed)?;
        let parts = vec![ServerProcess { process, stop: self.adapter.stop.clone() }];
        Ok(Server { parts, files: written, loaded: Duration::ZERO })
    }

    /// Starts the server's process on the cores of its host; does not wait until it is ready.
    fn spawn(
        &self,
        instance: &Instance<'_>,
        setting: &Setting,
        testbed: &Testbed,
    ) -> Result<Process, ServerError> {
        let (command, environment) = self.command(setting)?;
        let (namespace, cpus) = (testbed.namespace(instance.host), testbed.cpus(instance.host));
        let launch = Launch::new(instance.name, namespace, cpus, instance.state);
        let daemon = self.adapter.start.daemon;
        Ok(Process::start(&Launch { daemon, command, environment, ..launch })?)
    }

    /// Returns the server's command line and the variables added to its environment.
    pub(crate) fn command(&self, setting: &Setting) -> Result<CommandLine, ServerError> {
        let program = self.adapter.start.through.as_ref().unwrap_or(&self.program);
        let mut command = vec![program.clone().into_os_string()];
        for argument in &self.adapter.start.arguments {
            command.push(self.render(argument.get_ref(), setting)?.into());
        }
        let mut environment = Vec::new();
        for (name, value) in &self.adapter.start.environment {
            environment.push((name.clone(), self.render(value.get_ref(), setting)?));
        }
        Ok((command, environment))
    }

    /// Waits until the server answers correctly over IPv6 and IPv4, as far as it listens there.
    /// Returns the time from `began` until the first of them was ready.
    fn wait_ready(
        &self,
        process: &mut Process,
        stage: Stage<'_>,
        port: u16,
        began: Instant,
    ) -> Result<Duration, ServerError> {
        let Service { namespace, origin, ask, .. } = stage.service;
        let questions = Question::of(origin.as_ref(), namespace, *ask);
        let client = stage.env.testbed.namespace(stage.client());
        let loading = stage.service.zone_file.as_deref().map_or(Duration::ZERO, loading_limit);
        let limit = self.adapter.ready.timeout + loading;
        let interrupted = stage.env.lab.interrupted();
        let over = if self.adapter.listen.udp { Over::Udp } else { Over::Tcp };
        let listen = self.adapter.listen;
        let own = stage.listening(port);
        let v6 = listen.ipv6.then_some(IpAddr::V6(own.v6));
        let v4 = listen.ipv4.then_some(IpAddr::V4(own.v4));
        let mut first: Option<(SocketAddr, Duration)> = None;
        for address in v6.into_iter().chain(v4) {
            let key = if address.is_ipv6() { "ipv6" } else { "ipv4" };
            let other = first.map(|(other, _)| format!("; it had answered at {other}"));
            let mut remedy = other.unwrap_or_default();
            if !matches!(self.adapter.source, Source::Custom(..)) {
                remedy +=
                    &format!("; the key `{key} = false` of its table leaves this address out");
            }
            let at = At { server: SocketAddr::new(address, port), over, remedy };
            wait_ready(process, client, &at, &questions, limit, interrupted)?;
            first.get_or_insert((at.server, began.elapsed()));
        }
        Ok(first.map_or(Duration::ZERO, |(_, loaded)| loaded))
    }

    /// Renders a template of the server's adapter with the values of `setting`.
    pub(crate) fn render(&self, text: &str, setting: &Setting) -> Result<String, ServerError> {
        template::render(text, setting).map_err(|e| ServerError::Template {
            title: self.adapter.title.clone(),
            line: e.line,
            why: e.why,
        })
    }

    fn setting(&self, stage: Stage<'_>, state: &Path, port: u16) -> Setting {
        let Stage { service, env: LabEnv { testbed, lab, .. }, .. } = stage;
        let cpus = testbed.cpus(stage.host);
        let threads = service.threads.unwrap_or(cpus.count());
        let zone = service.origin.as_ref().unwrap_or(service.namespace.zone()).to_string();
        let zone_file = service.zone_file.as_ref().map(|path| path.display().to_string());
        let upstreams = testbed.upstreams();
        Setting {
            role: service.role,
            cpus: cpus.to_string(),
            threads,
            slabs: threads.next_power_of_two(),
            zone: zone.trim_end_matches('.').to_owned(),
            namespace: service.namespace.prefix().to_string(),
            reverse_zone: reverse_zone(&service.namespace),
            pref64: service.pref64.to_string(),
            listen: stage.listening(port),
            upstream: upstreams[0],
            upstreams,
            devices: [Host::Tester, Host::Auth].map(Host::interface).to_vec(),
            zone_file: zone_file.unwrap_or_default(),
            variables: self.adapter.with_defaults(&service.variables),
            ..self.common_setting(lab.privileged(), state)
        }
    }

    /// Returns the variables that do not depend on the task, and defaults for the others: an authoritative server with
    /// one thread and no zone.
    pub(crate) fn common_setting(&self, privileged: bool, state: &Path) -> Setting {
        Setting {
            dir: state.display().to_string(),
            program: self.program.display().to_string(),
            role: Role::Authoritative,
            version: self.version.clone().unwrap_or_default(),
            cpus: String::new(),
            threads: 1,
            slabs: 1,
            cache_mb: cache_mb(),
            buffer: default_buffer(),
            privileged,
            zone: String::new(),
            namespace: String::new(),
            reverse_zone: String::new(),
            pref64: String::new(),
            listen: listening(PORT),
            upstream: listening(PORT),
            upstreams: vec![listening(PORT)],
            devices: vec!["lo".to_owned()],
            behind: None,
            zone_file: String::new(),
            replication: None,
            variables: self.adapter.with_defaults(&BTreeMap::new()),
        }
    }
}

/// Ends processes that earlier servers left in `hosts`, before the server `title` or its group starts there.
///
/// # Errors
/// If a process does not end.
pub(crate) fn clear_hosts(
    testbed: &Testbed,
    hosts: &[Host],
    title: &str,
) -> Result<(), ServerError> {
    let mut cleared = hosts.iter().map(|host| leftovers::end_all(testbed.namespace(*host)));
    cleared
        .try_for_each(|cleared| cleared)
        .map_err(|source| ServerError::Leftovers(title.to_owned(), source))
}

/// Returns the addresses of a server in the DUT's host, with its port.
fn listening(port: u16) -> Place {
    let (v4, v6) = (address_v4(Host::Dut, Host::Tester), address_v6(Host::Dut, Host::Tester));
    Place { v4, v6, port }
}

/// Returns the port of a server for `transport`.
pub(crate) fn transport_port(transport: Transport) -> u16 {
    if transport.uses_tls() { transport.default_port() } else { PORT }
}

/// Returns the size of all caches, in megabytes: see [`CACHE_SIZE`].
fn cache_mb() -> u64 {
    (crate::probe::host::available_memory() / (1 << 20) / CACHE_SIZE.0).clamp(64, CACHE_SIZE.1)
}

/// Runs the version query of a server in the DUT's host.
fn ask_version(
    adapter: &Adapter,
    query: &VersionQuery,
    program: &Path,
    testbed: &Testbed,
    dir: &Path,
) -> Result<Option<String>, ServerError> {
    let mut command = vec![program.as_os_str().to_owned()];
    command.extend(query.arguments.iter().map(Into::into));
    let name = format!("{}-version", adapter.name);
    let launch = Launch::new(&name, testbed.namespace(Host::Dut), testbed.cpus(Host::Dut), dir);
    let mut process = Process::start(&Launch { command, ..launch })?;
    if process.wait(VERSION_LIMIT).is_none() {
        return Err(process.late("print its version", VERSION_LIMIT).into());
    }
    let printed = fs::read(process.log()).unwrap_or_default();
    Ok(query.read(&String::from_utf8_lossy(&printed)))
}

/// Returns the program, or the path of a copy if an AppArmor profile of this machine confines it to its usual files.
///
/// A profile applies to the program's path and would forbid the directory of the run; the copy has another path and no
/// profile. The machine's settings do not change.
fn unconfined(program: &Path, dir: &Path) -> Result<PathBuf, ServerError> {
    let enabled = fs::read_to_string("/sys/module/apparmor/parameters/enabled");
    let name = program.display().to_string();
    let profile = Path::new("/etc/apparmor.d").join(name.trim_start_matches('/').replace('/', "."));
    if !enabled.is_ok_and(|text| text.trim() == "Y") || !profile.exists() {
        return Ok(program.to_owned());
    }
    let copy = dir.join("unconfined").join(program.file_name().unwrap_or_default());
    let made = fs::create_dir_all(dir.join("unconfined")).and_then(|()| fs::copy(program, &copy));
    made.map(|_| copy).map_err(|source| ServerError::Io(name, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_leave_room() {
        assert!((64..=CACHE_SIZE.1).contains(&cache_mb()));
    }

    #[test]
    fn a_program_without_a_profile_stays() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(unconfined(Path::new("/bin/sh"), dir.path()).unwrap(), Path::new("/bin/sh"));
    }
}
