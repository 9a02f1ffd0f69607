//! The servers around the one that is measured: its primary, others that follow that one, and what listens to their
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
use wire::Name;

use super::look::{has_keys, serial, sizes};
use super::material::Material;
use super::member::Member;
use super::part::{KEY, Signing};
use super::{ZONE, follower_address};
use crate::enter::{Lab, program};
use crate::process::{Launch, Process, ProcessError, TimeLimit};
use crate::server::{Server, ServerError};
use crate::testbed::{Host, PORT, Testbed, address_v4};

/// How long a server may take to serve its zone, and a secondary to be in step: so long, and a second more for so many
/// delegations.
const READY: Duration = Duration::from_secs(300);
const DELEGATIONS_PER_S: u64 = 2_000;
/// A primary that signs is taken to be done when its serial has not changed for so long, and ten times that with a zone
/// of a million delegations.
const STILL: Duration = Duration::from_secs(2);
/// How often servers that are not ready are looked at.
const LOOK: Duration = Duration::from_millis(50);
/// How long the sender may take to end: a last reply, and 10 s for what a secondary lags.
const SENDER_END: Duration = Duration::from_secs(60);
/// How long the listener may take to begin and to end.
const LISTENER: Duration = Duration::from_secs(20);
/// Queries whose sizes are looked at.
const SIZED: usize = 1_000;

/// Everything of a replication but the server that is measured.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) material: Material,
    /// How the primary's zone is signed.
    pub(crate) signing: Signing,
    /// Absent where the server that is measured has the zone itself.
    primary: Option<Server>,
    /// Those that follow the primary beside the server that is measured.
    others: Vec<Server>,
    /// Counts transfers; only where there is a primary.
    listener: Option<Process>,
    /// Sends updates while queries are sent.
    sender: Option<Process>,
    /// Updates of the stream that were sent.
    pub(crate) sent: u64,
    /// What became of each update, a file for each time they were sent as fast as acknowledged.
    pub(crate) outcomes: Vec<PathBuf>,
}

/// Processes of a role beside the server that is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Companions {
    pub(crate) role: &'static str,
    pub(crate) host: Host,
    pub(crate) pids: Vec<u32>,
}

/// Where a group is started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ground<'a> {
    pub(crate) testbed: &'a Testbed,
    pub(crate) lab: &'a Lab,
    pub(crate) dir: &'a Path,
}

impl Group {
    /// A group without a primary: the server that is measured has the zone itself.
    pub(crate) fn alone(material: Material, signing: Signing) -> Self {
        let (primary, others, listener, sender) = (None, Vec::new(), None, None);
        let outcomes = Vec::new();
        Group { material, signing, primary, others, listener, sender, sent: 0, outcomes }
    }

    /// Starts the listener, then `primary`, waits until it serves its zone, and starts `others`, which are not waited
    /// for.
    pub(crate) fn start(
        material: Material,
        primary: &Member,
        others: &[Member],
        ground: Ground<'_>,
    ) -> Result<Self, ServerError> {
        let Ground { testbed, lab, dir } = ground;
        let mut group = Group::alone(material, primary.part.signing);
        // From before the first transfer on.
        group.listener = Some(listen(1 + others.len(), ground)?);
        let mut server = primary.start(testbed, lab, dir)?;
        group.wait_serving(&mut server, None, ground)?;
        group.primary = Some(server);
        for member in others {
            group.others.push(member.start(testbed, lab, dir)?);
        }
        Ok(group)
    }

    /// Waits until `server`, the one that is measured, serves its zone, in step with its primary where it has one; and
    /// those beside it.
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

    /// Waits until a server has its zone, signed where it signs that itself; at the primary's own place, or at `at`.
    fn wait_serving(
        &self,
        server: &mut Server,
        at: Option<(Host, SocketAddr)>,
        ground: Ground<'_>,
    ) -> Result<(), ServerError> {
        let (client, address) = at.unwrap_or((Host::Auth, primary_address()));
        let zone = zone_name();
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
        let (zone, here) = (zone_name(), SocketAddr::new(IpAddr::V4(address), PORT));
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

    /// Whether processes of the group run in the auth host.
    pub(crate) fn uses_auth(&self) -> bool {
        self.primary.is_some()
    }

    /// Its processes, by role.
    pub(crate) fn companions(&self) -> Vec<Companions> {
        let of = |role, host, pids: Vec<u32>| Companions { role, host, pids };
        let servers =
            |servers: &[&Server]| servers.iter().flat_map(|server| server.pids()).collect();
        let primary: Vec<&Server> = self.primary.iter().collect();
        let others: Vec<&Server> = self.others.iter().collect();
        let processes = self.sender.iter().chain(&self.listener).map(Process::pid).collect();
        let all = [
            of("primary", Host::Auth, servers(&primary)),
            of("secondaries", Host::Dut, servers(&others)),
            of("updates", Host::Auth, processes),
        ];
        all.into_iter().filter(|companions| !companions.pids.is_empty()).collect()
    }

    /// Checks that its servers still run.
    pub(crate) fn check(&mut self) -> Result<(), ProcessError> {
        self.primary.iter_mut().chain(&mut self.others).try_for_each(Server::check)
    }

    /// The command line of the sender: from where the stream was left on, into `files`.
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

    /// The command line of a look-up of the updates that were acknowledged by `outcomes`.
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

    /// Where updates go.
    fn updated_address(&self) -> SocketAddr {
        if self.primary.is_some() { primary_address() } else { measured_address().1 }
    }

    /// Begins to send updates in the background.
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
        self.sender = Some(start("update-send", Host::Auth, command, ground).map_err(failed)?);
        Ok(())
    }

    /// Ends what [`begin`](Self::begin) began.
    pub(crate) fn end(&mut self, ground: Ground<'_>) -> Result<UpdateRun, BenchError> {
        let Some(mut sender) = self.sender.take() else {
            return Err(failed("no updates are being sent"));
        };
        sender.stop(Signal::SIGINT, SENDER_END);
        let (json, _) = sender_files(ground.dir);
        if !json.exists() {
            return Err(failed(format!(
                "the sender of updates wrote no result\n{}",
                sender.tail()
            )));
        }
        let run: UpdateRun = record::read(&json).map_err(failed)?;
        self.sent += run.sent;
        Ok(run)
    }

    /// Octets of some queries to the server at `address` and of their replies.
    pub(crate) fn sizes(
        &self,
        address: SocketAddr,
        ground: Ground<'_>,
    ) -> Result<Sizes, BenchError> {
        let queries = fs::File::open(&self.material.queries).map_err(failed)?;
        let dnssec = self.signing != Signing::Unsigned;
        let look = || sizes(address, std::io::BufReader::new(queries), SIZED, dnssec);
        ground.testbed.namespace(Host::Tester).run(look).and_then(|found| found).map_err(failed)
    }

    /// The transfers until now; the listener ends.
    pub(crate) fn transfers(
        &mut self,
        ground: Ground<'_>,
    ) -> Result<Option<Transfers>, BenchError> {
        let Some(mut listener) = self.listener.take() else { return Ok(None) };
        listener.stop(Signal::SIGINT, LISTENER);
        let json = ground.dir.join(TRANSFERS);
        if !json.exists() {
            return Err(failed(format!("transfers were not counted\n{}", listener.tail())));
        }
        record::read(&json).map(Some).map_err(failed)
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

/// The listener's result.
const TRANSFERS: &str = "transfers.json";

/// The sender's result, and what became of each update.
fn sender_files(dir: &Path) -> (PathBuf, PathBuf) {
    (dir.join("updates.json"), dir.join("update-outcomes"))
}

/// Where a primary is that is not the server measured.
fn primary_address() -> SocketAddr {
    SocketAddr::new(IpAddr::V4(address_v4(Host::Auth, Host::Dut)), PORT)
}

/// Where the server measured is asked when it has the zone itself, and from where.
fn measured_address() -> (Host, SocketAddr) {
    let address = IpAddr::V4(address_v4(Host::Dut, Host::Tester));
    (Host::Tester, SocketAddr::new(address, PORT))
}

fn zone_name() -> Name {
    ZONE.parse().expect("a name")
}

/// Listens to the transfers of so many secondaries on the link to the primary; when this returns, it listens.
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
    let mut process = start("transfers", Host::Dut, command, ground)?;
    let mut time_limit = TimeLimit::new(LISTENER);
    // It writes a line when it listens.
    while !fs::metadata(process.log()).is_ok_and(|log| log.len() > 0) {
        process.check()?;
        if time_limit.is_over() {
            return Err(process.late("listen to transfers", LISTENER).into());
        }
        std::thread::sleep(LOOK);
    }
    Ok(process)
}

/// Starts a process of this program in a host, on the cores of the Tester's side.
fn start(
    name: &str,
    host: Host,
    command: Vec<std::ffi::OsString>,
    ground: Ground<'_>,
) -> Result<Process, ProcessError> {
    // Its log of an earlier start would say that it listens.
    let _ = fs::remove_file(ground.dir.join(format!("{name}.log")));
    Process::start(&Launch {
        name,
        namespace: ground.testbed.namespace(host),
        cpus: ground.testbed.cpus(Host::Auth),
        dir: ground.dir,
        command,
        environment: Vec::new(),
    })
}

fn failed(error: impl std::fmt::Display) -> BenchError {
    BenchError::Failed(error.to_string())
}
