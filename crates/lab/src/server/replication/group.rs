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
use update::Sender;

use super::follower_address;
use super::look::{has_keys, serial, sizes};
use super::material::Material;
use super::member::Member;
use crate::adapter::part::{KEY, Signing};
use crate::probe::time_of_processes;
use crate::server::{LabEnv, Server, ServerError};
use crate::testbed::cpus::CpuList;
use crate::testbed::process::{Launch, Process, ProcessError, TimeLimit};
use crate::testbed::task::Task;
use crate::testbed::{Host, PORT, Testbed, address_v4};

/// Time within which a server must serve its zone and a secondary be up to date: this, and one
/// second for each 2,000 delegations.
const READY_TIMEOUT: Duration = Duration::from_secs(300);
const DELEGATIONS_PER_S: u64 = 2_000;
/// Time for which the serial of a signing primary must not change until it counts as done; ten times that for a zone
/// of a million delegations.
const QUIET_TIME: Duration = Duration::from_secs(2);
/// Interval between checks of servers that are not ready.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Time within which a reply to an update counts.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
/// Time within which the sender must end: a last reply, and 10 s for the lag of a secondary.
const SENDER_END: Duration = Duration::from_secs(60);
/// Time within which the listener must start and end.
const LISTENER_LIMIT: Duration = Duration::from_secs(20);
/// Number of queries whose sizes are measured.
const SIZED_QUERIES: usize = 1_000;

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
    /// Cores of the sender; the cores of the auth host if absent.
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
        env: LabEnv<'_>,
    ) -> Result<Self, ServerError> {
        let mut group = Group::alone(material, primary.part.signing);
        // The listener starts before the first transfer.
        group.listener = Some(listen(1 + others.len(), env)?);
        let mut server = primary.start(env)?;
        group.wait_serving(&mut server, None, env)?;
        group.primary = Some(server);
        for member in others {
            group.others.push(member.start(env)?);
        }
        Ok(group)
    }

    /// Waits until `server`, the server under test, and the other servers of the group serve their
    /// zone, up to date with the primary if there is one.
    pub(crate) fn wait(&mut self, server: &mut Server, env: LabEnv<'_>) -> Result<(), ServerError> {
        if self.primary.is_none() {
            let at = measured_address();
            return self.wait_serving(server, Some(at), env);
        }
        self.wait_in_step(server, follower_address(0), env)?;
        let mut others = std::mem::take(&mut self.others);
        let all = (1..).zip(&mut others);
        let waited =
            { all }.try_for_each(|(i, server)| self.wait_in_step(server, follower_address(i), env));
        self.others = others;
        waited
    }

    /// Waits until a server serves its zone, signed if it signs the zone itself; queries go to the
    /// primary's address, or to `at`.
    fn wait_serving(
        &self,
        server: &mut Server,
        at: Option<(Host, SocketAddr)>,
        env: LabEnv<'_>,
    ) -> Result<(), ServerError> {
        let (client, address) = at.unwrap_or((Host::Auth, primary_address()));
        let zone = self.material.apex;
        let signs = self.signing == Signing::ByPrimary;
        let still = QUIET_TIME.mul_f64(1.0 + self.material.delegations as f64 * 9e-6);
        let mut last = (None, Instant::now());
        self.wait_until(server, "serve its zone", env, || {
            let look = || (serial(address, &zone), !signs || has_keys(address, &zone));
            let (now, signed) = env.testbed.namespace(client).run(look).unwrap_or((None, false));
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
        env: LabEnv<'_>,
    ) -> Result<(), ServerError> {
        let (zone, here) = (self.material.apex, SocketAddr::new(IpAddr::V4(address), PORT));
        self.wait_until(server, "be as current as its primary", env, || {
            let look = || {
                serial(here, &zone).is_some_and(|own| Some(own) == serial(primary_address(), &zone))
            };
            env.testbed.namespace(Host::Auth).run(look).unwrap_or(false)
        })
    }

    fn wait_until(
        &self,
        server: &mut Server,
        what: &str,
        env: LabEnv<'_>,
        mut is_so: impl FnMut() -> bool,
    ) -> Result<(), ServerError> {
        let limit =
            READY_TIMEOUT + Duration::from_secs(self.material.delegations / DELEGATIONS_PER_S);
        let mut time_limit = TimeLimit::new(limit);
        while !is_so() {
            server.check()?;
            if env.lab.interrupted().load(std::sync::atomic::Ordering::Relaxed) {
                return Err(server.interrupted().into());
            }
            if time_limit.is_over() {
                return Err(server.late(what, limit).into());
            }
            std::thread::sleep(CHECK_INTERVAL);
        }
        Ok(server.hold_to_cpus()?)
    }

    /// Returns whether processes of the group run in the auth host.
    pub(crate) fn uses_auth(&self) -> bool {
        self.primary.is_some()
    }

    /// Returns the processes of the group, by role.
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

    /// Checks that the servers of the group still run.
    pub(crate) fn check(&mut self) -> Result<(), ProcessError> {
        self.primary.iter_mut().chain(&mut self.others).try_for_each(Server::check)
    }

    /// Returns a sender that continues the stream after the updates already sent, as fast as they
    /// are acknowledged.
    pub(crate) fn sender(&self) -> Result<Sender, BenchError> {
        let key = format!("{}:{}:{}", KEY.algorithm, KEY.name, KEY.secret);
        Ok(Sender {
            server: self.updated_address(),
            tcp: false,
            key: Some(key.parse().map_err(BenchError::failed)?),
            timeout: REPLY_TIMEOUT,
            rate: None,
            window: 1,
            skip: self.sent,
            count: None,
            kill: None,
            watch: Vec::new(),
        })
    }

    /// Returns the task to send updates, with the outcome of each in a file.
    pub(crate) fn task(&self, sender: Sender, outcomes: PathBuf) -> Task {
        let updates = self.updates().to_owned();
        Task::Updates { sender: Box::new(sender), updates, outcomes }
    }

    pub(crate) fn updates(&self) -> &Path {
        self.material.updates.as_deref().unwrap_or(Path::new(""))
    }

    /// Returns the address that updates are sent to.
    pub(crate) fn updated_address(&self) -> SocketAddr {
        if self.primary.is_some() { primary_address() } else { measured_address().1 }
    }

    /// Starts to send updates in the background.
    pub(crate) fn begin(
        &mut self,
        per_second: Option<f64>,
        env: LabEnv<'_>,
    ) -> Result<(), BenchError> {
        let followers = 0..=self.others.len();
        let address = |number| SocketAddr::new(IpAddr::V4(follower_address(number)), PORT);
        let watch = followers.map(address).collect();
        let sender = Sender { rate: per_second, watch, ..self.sender()? };
        let task = self.task(sender, env.dir.join("update-outcomes"));
        let cpus = self.sender_cpus.as_ref().unwrap_or(env.testbed.cpus(Host::Auth));
        let namespace = env.testbed.namespace(Host::Auth);
        let launch = Launch::new("update-send", namespace, cpus, env.dir);
        self.sender = Some(Process::start_task(&launch, &task).map_err(BenchError::failed)?);
        Ok(())
    }

    /// Stops the updates that [`begin`](Self::begin) started; returns their outcomes.
    pub(crate) fn end(&mut self) -> Result<UpdateRun, BenchError> {
        let Some(mut sender) = self.sender.take() else {
            return Err(BenchError::failed("no updates are being sent"));
        };
        sender.stop(Signal::SIGTERM, SENDER_END);
        let run: UpdateRun = sender.result().map_err(BenchError::failed)?;
        self.sent += run.sent;
        Ok(run)
    }

    /// Returns the sizes of some queries to the server at `address` and of their replies, in octets.
    pub(crate) fn sizes(&self, address: SocketAddr, env: LabEnv<'_>) -> Result<Sizes, BenchError> {
        let queries = fs::File::open(&self.material.queries).map_err(BenchError::failed)?;
        let dnssec = self.signing != Signing::Unsigned;
        let look = || sizes(address, std::io::BufReader::new(queries), SIZED_QUERIES, dnssec);
        env.testbed
            .namespace(Host::Tester)
            .run(look)
            .and_then(|found| found)
            .map_err(BenchError::failed)
    }

    /// Returns the transfers until now; stops the listener.
    pub(crate) fn transfers(&mut self) -> Result<Option<Transfers>, BenchError> {
        let Some(mut listener) = self.listener.take() else { return Ok(None) };
        listener.stop(Signal::SIGTERM, LISTENER_LIMIT);
        listener.result().map(Some).map_err(BenchError::failed)
    }

    /// Stops the listener, the sender and all servers of the group.
    pub(crate) fn stop(self) {
        for mut process in self.sender.into_iter().chain(self.listener) {
            process.stop(Signal::SIGINT, LISTENER_LIMIT);
        }
        for server in self.others.into_iter().chain(self.primary) {
            server.stop();
        }
    }
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
fn listen(secondaries: usize, env: LabEnv<'_>) -> Result<Process, ServerError> {
    let task = Task::Transfers {
        interface: Host::interface(Host::Auth),
        secondaries: (0..secondaries).map(|number| follower_address(number).into()).collect(),
    };
    let LabEnv { testbed, dir, .. } = env;
    let (namespace, cpus) = (testbed.namespace(Host::Dut), testbed.cpus(Host::Auth));
    let launch = Launch::new("transfers", namespace, cpus, dir);
    // The log of an earlier listener would report this one as ready.
    let _ = fs::remove_file(dir.join("transfers.log"));
    let mut process = Process::start_task(&launch, &task)?;
    let mut time_limit = TimeLimit::new(LISTENER_LIMIT);
    // The listener writes a line when it is ready.
    while !fs::metadata(process.log()).is_ok_and(|log| log.len() > 0) {
        process.check()?;
        if time_limit.is_over() {
            return Err(process.late("listen to transfers", LISTENER_LIMIT).into());
        }
        std::thread::sleep(CHECK_INTERVAL);
    }
    Ok(process)
}
