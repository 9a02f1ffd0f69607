//! The servers around the server under test: its primary, other secondaries, and the listener that counts their
//! transfers.
//!
//! ```text
//!   auth host            10.9.1.2   primary ── NOTIFY ──> 10.9.1.1    the server measured    dut host
//!   update send, watch ─────┘          <── SOA?, IXFR ──  10.9.1.11.. others that follow
//! ```

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use experiment::{BenchError, Sizes};
use nix::sys::signal::Signal;
use record::{Transfers, UpdateRun};

use super::follower_address;
use super::look::{has_keys, serial, sizes};
use super::material::Material;
use super::member::Member;
use crate::adapter::part::{KEY, Signing};
use crate::probe::time_of_processes;
use crate::server::{Server, ServerError};
use crate::testbed::cpus::CpuList;
use crate::testbed::enter::{Lab, program};
use crate::testbed::process::{Launch, Process, ProcessError, TimeLimit};
use crate::testbed::{Host, PORT, Testbed, address_v4};

/// Time within which a server must serve its zone and a secondary be in step: this, and one second for each 2,000
/// delegations.
const READY: Duration = Duration::from_secs(300);
const DELEGATIONS_PER_S: u64 = 2_000;
/// Time for which the serial of a signing primary must not change until it counts as done; ten times that for a zone
/// of a million delegations.
const STILL: Duration = Duration::from_secs(2);
/// Interval between checks of servers that are not ready.
const LOOK: Duration = Duration::from_millis(50);
/// Time within which the sender must end: a last reply, and 10 s for the lag of a secondary.
const SENDER_END: Duration = Duration::from_secs(60);
/// Time within which the listener must start and end.
const LISTENER: Duration = Duration::from_secs(20);
/// Number of queries whose sizes are measured.
const SIZED: usize = 1_000;

/// All parts of a replication except the server under test.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) material: Material,
    /// How the primary's zone is signed.
    pub(crate) signing: Signing,
    /// The primary; absent if the server under test has the zone itself.
    primary: Option<Server>,
    /// Secondaries beside the server under test.
    others: Vec<Server>,
    /// Process that counts transfers; present if there is a primary.
    listener: Option<Process>,
    /// Process that sends updates while queries are sent.
    sender: Option<Process>,
    /// Cores of the sender; those of the auth host if absent.
    pub(crate) sender_cpus: Option<CpuList>,
    /// Number of updates of the stream that were sent.
    pub(crate) sent: u64,
    /// Files with the outcome of each update, one for each time they were sent as fast as acknowledged.
    pub(crate) outcomes: Vec<PathBuf>,
}

/// Processes of a role beside the server under test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Companions {
    pub(crate) role: &'static str,
    pub(crate) host: Host,
    pub(crate) cpus: CpuList,
    pub(crate) pids: Vec<u32>,
}

impl Companions {
    /// Returns the CPU time of each role's processes until now: seconds in user mode and in the kernel.
    pub(crate) fn times(all: &[Companions]) -> Vec<(&'static str, CpuList, (f64, f64))> {
        all.iter().map(|c| (c.role, c.cpus.clone(), time_of_processes(&c.pids))).collect()
    }
}

/// Place where a group is started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ground<'a> {
    pub(crate) testbed: &'a Testbed,
    pub(crate) lab: &'a Lab,
    pub(crate) dir: &'a Path,
}

impl Group {
    /// Makes a group without a primary: the server under test has the zone itself.
    pub(crate) fn alone(material: Material, signing: Signing) -> Self {
        let (primary, others, listener, sender) = (None, Vec::new(), None, None);
        let (sender_cpus, outcomes) = (None, Vec::new());
        let sent = 0;
        Group { material, signing, primary, others, listener, sender, sender_cpus, sent, outcomes }
    }

    /// Starts the listener and `primary`, waits until the primary serves its zone, and starts `others` without
    /// waiting for them.
    pub(crate) fn start(
        material: Material,
        primary: &Member,
        others: &[Member],
        ground: Ground<'_>,
    ) -> Result<Self, ServerError> {
        let Ground { testbed, lab, dir } = ground;
        let mut group = Group::alone(material, primary.part.signing);
        // The listener starts before the first transfer.
        group.listener = Some(listen(1 + others.len(), ground)?);
        let mut server = primary.start(testbed, lab, dir)?;
        group.wait_serving(&mut server, None, ground)?;
        group.primary = Some(server);
        for member in others {
            group.others.push(member.start(testbed, lab, dir)?);
        }
        Ok(group)
    }

    /// Waits until `server`, the server under test, and those beside it serve their zone, in step with their primary
    /// if there is one.
    pub(crate) fn wait(
        &mut self,
        server: &mut Server,
        ground: Ground<'_>,
    ) -> Result<(), ServerError> {
        if self.primary.is_none() {
            let at = measured_address();
            return self.wait_serving(server, Some(at), ground);
        }
        self.wait_in_step(server, follower_address(0), ground)?;
        let mut others = std::mem::take(&mut self.others);
        let all = (1..).zip(&mut others);
        let waited = { all }
            .try_for_each(|(i, server)| self.wait_in_step(server, follower_address(i), ground));
        self.others = others;
        waited
    }

    /// Waits until a server has its zone, signed if it signs the zone itself; at the primary's address, or at `at`.
    fn wait_serving(
        &self,
        server: &mut Server,
        at: Option<(Host, SocketAddr)>,
        ground: Ground<'_>,
    ) -> Result<(), ServerError> {
        let (client, address) = at.unwrap_or((Host::Auth, primary_address()));
        let zone = self.material.apex;
        let signs = self.signing == Signing::ByPrimary;
        let still = STILL.mul_f64(1.0 + self.material.delegations as f64 * 9e-6);
        let mut last = (None, Instant::now());
        self.wait_until(server, "serve its zone", ground, || {
            let look = || (serial(address, &zone), !signs || has_keys(address, &zone));
            let (now, signed) = ground.testbed.namespace(client).run(look).unwrap_or((None, false));
            if now != last.0 {
                last = (now, Instant::now());
            }
            now.is_some() && signed && (!signs || last.1.elapsed() > still)
        })
    }

    fn wait_in_step(
        &self,
        server: &mut Server,
        address: Ipv4Addr,
        ground: Ground<'_>,
    ) -> Result<(), ServerError> {
        let (zone, here) = (self.material.apex, SocketAddr::new(IpAddr::V4(address), PORT));
        self.wait_until(server, "be in step with its primary", ground, || {
            let look = || {
                serial(here, &zone).is_some_and(|own| Some(own) == serial(primary_address(), &zone))
            };
            ground.testbed.namespace(Host::Auth).run(look).unwrap_or(false)
        })
    }

    fn wait_until(
        &self,
        server: &mut Server,
        what: &str,
        ground: Ground<'_>,
        mut is_so: impl FnMut() -> bool,
    ) -> Result<(), ServerError> {
        let limit = READY + Duration::from_secs(self.material.delegations / DELEGATIONS_PER_S);
        let mut time_limit = TimeLimit::new(limit);
        while !is_so() {
            server.check()?;
            if ground.lab.interrupted().load(std::sync::atomic::Ordering::Relaxed) {
                return Err(server.interrupted().into());
            }
            if time_limit.is_over() {
                return Err(server.late(what, limit).into());
            }
            std::thread::sleep(LOOK);
        }
        Ok(server.hold_to_cpus()?)
    }

    /// Returns whether processes of the group run in the auth host.
    pub(crate) fn uses_auth(&self) -> bool {
        self.primary.is_some()
    }

    /// Returns its processes, by role.
    pub(crate) fn companions(&self, testbed: &Testbed) -> Vec<Companions> {
        let of = |role, host, pids: Vec<u32>| {
            let cpus = testbed.cpus(host).clone();
            Companions { role, host, cpus, pids }
        };
        let servers =
            |servers: &[&Server]| servers.iter().flat_map(|server| server.pids()).collect();
        let primary: Vec<&Server> = self.primary.iter().collect();
        let others: Vec<&Server> = self.others.iter().collect();
        let pids = |process: &Option<Process>| process.iter().map(Process::pid).collect();
        let mut sender = of("updates", Host::Auth, pids(&self.sender));
        sender.cpus = self.sender_cpus.clone().unwrap_or(sender.cpus);
        let all = [
            of("primary", Host::Auth, servers(&primary)),
            of("secondaries", Host::Dut, servers(&others)),
            sender,
            of("transfers", Host::Auth, pids(&self.listener)),
        ];
        all.into_iter().filter(|companions| !companions.pids.is_empty()).collect()
    }

    /// Checks that its servers still run.
    pub(crate) fn check(&mut self) -> Result<(), ProcessError> {
        self.primary.iter_mut().chain(&mut self.others).try_for_each(Server::check)
    }

    /// Returns the command line of the sender: it continues the stream after the updates already sent, into `files`.
    pub(crate) fn send_command(&self, json: &Path, outcomes: &Path) -> Vec<std::ffi::OsString> {
        let (primary, updates) = (self.updated_address().to_string(), self.updates());
        let key = format!("{}:{}:{}", KEY.algorithm, KEY.name, KEY.secret);
        let mut command: Vec<std::ffi::OsString> = vec![program().into()];
        command.extend(["update", "send", &primary].map(Into::into));
        command.push(updates.into());
        command.extend(["--key", &key, "--skip", &self.sent.to_string(), "--json"].map(Into::into));
        command.push(json.into());
        command.push("--outcomes".into());
        command.push(outcomes.into());
        command
    }

    /// Returns the command line that looks up the updates acknowledged in `outcomes`.
    pub(crate) fn check_command(&self, outcomes: &Path, json: &Path) -> Vec<std::ffi::OsString> {
        let (primary, updates) = (self.updated_address().to_string(), self.updates());
        let mut command: Vec<std::ffi::OsString> = vec![program().into()];
        command.extend(["update", "check", &primary].map(Into::into));
        command.extend([updates.into(), "--outcomes".into(), outcomes.into()]);
        command.extend(["--json".into(), json.into()]);
        command
    }

    fn updates(&self) -> &Path {
        self.material.updates.as_deref().unwrap_or(Path::new(""))
    }

    /// Returns the address that updates are sent to.
    fn updated_address(&self) -> SocketAddr {
        if self.primary.is_some() { primary_address() } else { measured_address().1 }
    }

    /// Starts to send updates in the background.
    pub(crate) fn begin(
        &mut self,
        per_second: Option<f64>,
        ground: Ground<'_>,
    ) -> Result<(), BenchError> {
        let (json, outcomes) = sender_files(ground.dir);
        let _ = fs::remove_file(&json);
        let mut command = self.send_command(&json, &outcomes);
        if let Some(rate) = per_second {
            command.extend(["--rate".into(), rate.to_string().into()]);
        }
        for number in 0..=self.others.len() {
            let address = SocketAddr::new(IpAddr::V4(follower_address(number)), PORT);
            command.extend(["--watch".into(), address.to_string().into()]);
        }
        let cpus = self.sender_cpus.as_ref().unwrap_or(ground.testbed.cpus(Host::Auth));
        let name = "update-send";
        self.sender =
            Some(start(name, Host::Auth, cpus, command, ground).map_err(BenchError::failed)?);
        Ok(())
    }

    /// Stops what [`begin`](Self::begin) started.
    pub(crate) fn end(&mut self, ground: Ground<'_>) -> Result<UpdateRun, BenchError> {
        let Some(mut sender) = self.sender.take() else {
            return Err(BenchError::failed("no updates are being sent"));
        };
        sender.stop(Signal::SIGTERM, SENDER_END);
        let (json, _) = sender_files(ground.dir);
        if !json.exists() {
            return Err(BenchError::failed(format!(
                "the sender of updates wrote no result\n{}",
                sender.tail()
            )));
        }
        let run: UpdateRun = record::read(&json).map_err(BenchError::failed)?;
        self.sent += run.sent;
        Ok(run)
    }

    /// Returns the sizes of some queries to the server at `address` and of their replies, in octets.
    pub(crate) fn sizes(
        &self,
        address: SocketAddr,
        ground: Ground<'_>,
    ) -> Result<Sizes, BenchError> {
        let queries = fs::File::open(&self.material.queries).map_err(BenchError::failed)?;
        let dnssec = self.signing != Signing::Unsigned;
        let look = || sizes(address, std::io::BufReader::new(queries), SIZED, dnssec);
        ground
            .testbed
            .namespace(Host::Tester)
            .run(look)
            .and_then(|found| found)
            .map_err(BenchError::failed)
    }

    /// Returns the transfers until now; stops the listener.
    pub(crate) fn transfers(
        &mut self,
        ground: Ground<'_>,
    ) -> Result<Option<Transfers>, BenchError> {
        let Some(mut listener) = self.listener.take() else { return Ok(None) };
        listener.stop(Signal::SIGTERM, LISTENER);
        let json = ground.dir.join(TRANSFERS);
        if !json.exists() {
            return Err(BenchError::failed(format!(
                "transfers were not counted\n{}",
                listener.tail()
            )));
        }
        record::read(&json).map(Some).map_err(BenchError::failed)
    }

    /// Stops its processes.
    pub(crate) fn stop(self) {
        for mut process in self.sender.into_iter().chain(self.listener) {
            process.stop(Signal::SIGINT, LISTENER);
        }
        for server in self.others.into_iter().chain(self.primary) {
            server.stop();
        }
    }
}

/// File of the listener's result.
const TRANSFERS: &str = "transfers.json";

/// Returns the file of the sender's result, and that of the outcome of each update.
fn sender_files(dir: &Path) -> (PathBuf, PathBuf) {
    (dir.join("updates.json"), dir.join("update-outcomes"))
}

/// Returns the address of a primary that is not the server under test.
fn primary_address() -> SocketAddr {
    SocketAddr::new(IpAddr::V4(address_v4(Host::Auth, Host::Dut)), PORT)
}

/// Returns where the server under test is queried if it has the zone itself, and from which host.
fn measured_address() -> (Host, SocketAddr) {
    let address = IpAddr::V4(address_v4(Host::Dut, Host::Tester));
    (Host::Tester, SocketAddr::new(address, PORT))
}

/// Starts the listener for the transfers of `secondaries` secondaries on the link to the primary; returns when it
/// listens.
fn listen(secondaries: usize, ground: Ground<'_>) -> Result<Process, ServerError> {
    let json = ground.dir.join(TRANSFERS);
    let _ = fs::remove_file(&json);
    let interface = Host::interface(Host::Auth);
    let mut command: Vec<std::ffi::OsString> = vec![program().into()];
    command.extend(["trace", "transfers", &interface].map(Into::into));
    for number in 0..secondaries {
        command.extend(["--secondary".into(), follower_address(number).to_string().into()]);
    }
    command.extend(["--json".into(), json.into()]);
    let cpus = ground.testbed.cpus(Host::Auth);
    let mut process = start("transfers", Host::Dut, cpus, command, ground)?;
    let mut time_limit = TimeLimit::new(LISTENER);
    // The listener writes a line when it is ready.
    while !fs::metadata(process.log()).is_ok_and(|log| log.len() > 0) {
        process.check()?;
        if time_limit.is_over() {
            return Err(process.late("listen to transfers", LISTENER).into());
        }
        std::thread::sleep(LOOK);
    }
    Ok(process)
}

/// Starts a process beside the servers in a host, on the cores `cpus`.
pub(super) fn start(
    name: &str,
    host: Host,
    cpus: &CpuList,
    command: Vec<std::ffi::OsString>,
    ground: Ground<'_>,
) -> Result<Process, ProcessError> {
    // The log of an earlier start would say that it is ready.
    let _ = fs::remove_file(ground.dir.join(format!("{name}.log")));
    Process::start(&Launch {
        name,
        namespace: ground.testbed.namespace(host),
        cpus,
        dir: ground.dir,
        daemon: false,
        command,
        environment: Vec::new(),
    })
}
