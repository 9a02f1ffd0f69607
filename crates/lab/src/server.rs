//! A server under test: an adapter brought to life in the DUT's host.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use experiment::file::Role;
use wire::{Namespace, Pref64};

use crate::adapter::{Adapter, AdapterError, role_word};
use crate::enter::Lab;
use crate::process::{Launch, Process, ProcessError};
use crate::ready::{Ask, Question, wait_ready};
use crate::template::{self, Place, Setting};
use crate::testbed::{Host, Testbed, address_v4, address_v6};
use crate::zonefile::reverse_zone;

/// The port of servers and of the AuthDNS.
pub const PORT: u16 = 53;
/// How long a server may take to print its version.
const VERSION_LIMIT: Duration = Duration::from_secs(10);
/// What caches may take: a share of the memory that is free, and no more than this, megabytes. Enough for
/// some hundred thousand names; names that are all different fill it within seconds, so that a server is
/// measured with full caches, not while it is given new memory.
const CACHE: (u64, u64) = (8, 512);

/// What a server under test is to serve.
#[derive(Clone, Debug)]
pub struct Service {
    /// What it is.
    pub role: Role,
    /// The names.
    pub namespace: Namespace,
    /// The prefix of synthesised addresses.
    pub pref64: Pref64,
    /// The zone file of an authoritative server.
    pub zone_file: Option<PathBuf>,
    /// What its names are asked for, to see whether it is ready.
    pub ask: Ask,
}

/// Why a server is not up.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Its adapter does not fit.
    #[error(transparent)]
    Adapter(#[from] AdapterError),
    /// Its process is not as it should be.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// Its configuration could not be written.
    #[error("cannot write {path}: {source}")]
    Io {
        /// The file or directory.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// A template failed with the values of this run.
    #[error("{title}: line {line} of a template: {why}")]
    Template {
        /// The server.
        title: String,
        /// From 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
}

/// A server on this machine, ready to be started as often as need be.
#[derive(Clone, Debug)]
pub struct Installed {
    adapter: Adapter,
    program: PathBuf,
    version: Option<String>,
}

/// A server that is up and answers.
#[derive(Debug)]
pub struct Server {
    process: Process,
    adapter: Adapter,
}

impl Installed {
    /// Finds the server's program and asks for its version; `dir` is the directory of the run.
    ///
    /// # Errors
    /// When it is not installed, or does not run at all.
    pub fn find(adapter: &Adapter, testbed: &Testbed, dir: &Path) -> Result<Self, ServerError> {
        let program = unconfined(&adapter.program()?, dir)?;
        let mut command = vec![program.clone().into_os_string()];
        command.extend(adapter.version.arguments.iter().map(Into::into));
        let name = format!("{}-version", adapter.name);
        let mut process = Process::start(&Launch {
            name: &name,
            namespace: testbed.namespace(Host::Dut),
            cpus: testbed.cpus(Host::Dut),
            dir,
            command,
            environment: Vec::new(),
        })?;
        if process.wait(VERSION_LIMIT).is_none() {
            return Err(process.late("print its version", VERSION_LIMIT).into());
        }
        let printed = fs::read(process.log()).unwrap_or_default();
        let version = adapter.read_version(&String::from_utf8_lossy(&printed));
        Ok(Self { adapter: adapter.clone(), program, version })
    }

    /// Its adapter.
    pub fn adapter(&self) -> &Adapter {
        &self.adapter
    }

    /// Its version, if it told one.
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// Starts it in the DUT's host and waits until it answers right.
    ///
    /// # Errors
    /// When it does not come up; with the end of its log.
    pub fn start(
        &self,
        service: &Service,
        testbed: &Testbed,
        lab: &Lab,
        dir: &Path,
    ) -> Result<Server, ServerError> {
        let state = dir.join(&self.adapter.name);
        // From scratch each time: nothing of an earlier start is to be found.
        let _ = fs::remove_dir_all(&state);
        let io = |path: &Path| {
            let path = path.display().to_string();
            move |source| ServerError::Io { path, source }
        };
        fs::create_dir_all(&state).map_err(io(&state))?;
        let setting = self.setting(service, testbed, lab, &state);
        for file in &self.adapter.files {
            let path = state.join(&file.path);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent).map_err(io(parent))?;
            }
            fs::write(&path, self.render(file.text.get_ref(), &setting)?).map_err(io(&path))?;
        }
        let mut command = vec![self.program.clone().into_os_string()];
        for argument in &self.adapter.start.arguments {
            command.push(self.render(argument.get_ref(), &setting)?.into());
        }
        let mut environment = Vec::new();
        for (name, value) in &self.adapter.start.environment {
            environment.push((name.clone(), self.render(value.get_ref(), &setting)?));
        }
        let process = Process::start(&Launch {
            name: &self.adapter.name,
            namespace: testbed.namespace(Host::Dut),
            cpus: testbed.cpus(Host::Dut),
            dir: &state,
            command,
            environment,
        })?;
        let mut server = Server { process, adapter: self.adapter.clone() };
        server.wait_ready(service, testbed, lab.interrupted())?;
        server.process.hold_to_cpus()?;
        Ok(server)
    }

    fn render(&self, text: &str, setting: &Setting) -> Result<String, ServerError> {
        template::render(text, setting).map_err(|e| ServerError::Template {
            title: self.adapter.title.clone(),
            line: e.line,
            why: e.why,
        })
    }

    fn setting(&self, service: &Service, testbed: &Testbed, lab: &Lab, state: &Path) -> Setting {
        let place = |host, other| Place {
            v4: address_v4(host, other),
            v6: address_v6(host, other),
            port: PORT,
        };
        let threads = testbed.cpus(Host::Dut).count();
        let zone = service.namespace.zone().to_string();
        Setting {
            dir: state.display().to_string(),
            role: role_word(service.role),
            version: self.version.clone().unwrap_or_default(),
            threads,
            slabs: threads.next_power_of_two(),
            cache_mb: cache_mb(),
            privileged: lab.privileged(),
            zone: zone.trim_end_matches('.').to_owned(),
            reverse_zone: reverse_zone(&service.namespace),
            pref64: service.pref64.to_string(),
            listen: place(Host::Dut, Host::Tester),
            upstream: place(Host::Auth, Host::Dut),
            zone_file: service
                .zone_file
                .as_ref()
                .map(|path| path.display().to_string())
                .unwrap_or_default(),
        }
    }
}

impl Server {
    /// Where the Tester finds it: IPv6, as RFC 8219 has it for the clients of a DNS64 server.
    pub fn address() -> SocketAddr {
        SocketAddr::new(IpAddr::V6(address_v6(Host::Dut, Host::Tester)), PORT)
    }

    /// Its process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Stops it as its adapter says.
    pub fn stop(mut self) {
        let stop = &self.adapter.stop;
        self.process.stop(stop.signal, stop.timeout);
    }

    /// Waits until it answers right over IPv6 and over IPv4.
    fn wait_ready(
        &mut self,
        service: &Service,
        testbed: &Testbed,
        interrupted: &AtomicBool,
    ) -> Result<(), ServerError> {
        let questions = Question::ends(&service.namespace, service.ask);
        let client = testbed.namespace(Host::Tester);
        let v4 = SocketAddr::new(IpAddr::V4(address_v4(Host::Dut, Host::Tester)), PORT);
        for address in [Self::address(), v4] {
            let limit = self.adapter.ready.timeout;
            wait_ready(&mut self.process, client, address, &questions, limit, interrupted)?;
        }
        Ok(())
    }
}

/// A share of the memory that is free, megabytes.
fn cache_mb() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kilobytes = available.and_then(|rest| rest.split_ascii_whitespace().next()?.parse().ok());
    (kilobytes.unwrap_or(1_u64 << 20) / 1024 / CACHE.0).clamp(64, CACHE.1)
}

/// The program, or a copy of it where the machine's AppArmor confines it to its usual files.
///
/// A profile is attached by the program's path, and would forbid the directory of the run; a copy
/// under another path has none. Only the lab's own process is concerned, the machine's setting stays.
fn unconfined(program: &Path, dir: &Path) -> Result<PathBuf, ServerError> {
    let enabled = fs::read_to_string("/sys/module/apparmor/parameters/enabled");
    let name = program.display().to_string();
    let profile = Path::new("/etc/apparmor.d").join(name.trim_start_matches('/').replace('/', "."));
    if !enabled.is_ok_and(|text| text.trim() == "Y") || !profile.exists() {
        return Ok(program.to_owned());
    }
    let copy = dir.join("unconfined").join(program.file_name().unwrap_or_default());
    let made = fs::create_dir_all(dir.join("unconfined")).and_then(|()| fs::copy(program, &copy));
    made.map(|_| copy).map_err(|source| ServerError::Io { path: name, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_leave_room() {
        assert!((64..=CACHE.1).contains(&cache_mb()));
    }

    #[test]
    fn a_program_without_a_profile_stays() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(unconfined(Path::new("/bin/sh"), dir.path()).unwrap(), Path::new("/bin/sh"));
    }
}
