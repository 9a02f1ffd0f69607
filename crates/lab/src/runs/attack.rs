//! The attacker of a drill: a process in the tester's host that attacks the server under test, and
//! no host outside of the lab.
//!
//! ```text
//! LabBench::drill ── AttackRequest, a pipe ──> dnsdyno __task attack: floods of queries, connections, handshakes
//! ```
//!
//! Three checks keep attacks in: an experiment that names a remote server is refused before anything starts, the bench attacks
//! only the address of the server under test in its own namespaces, and the attacker looks once more whether its network
//! leads anywhere else.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use experiment::{BenchError, Experiment, FileError, Method, Settings};
use record::{AttackOutcome, AttackRequest};

use crate::adapter::Adapter;
use crate::server::LabEnv;
use crate::server::replication::Companions;
use crate::testbed::cpus::CpuList;
use crate::testbed::process::{Launch, Process};
use crate::testbed::task::Task;
use crate::testbed::{Host, Testbed, address_v4, address_v6};

/// Role of the attacker in records.
pub(crate) const ATTACKER: &str = "attacker";
/// Time within which the attacker must end after the trial.
const END_LIMIT: Duration = Duration::from_secs(10);
/// Device of a host to itself.
const LOOPBACK: &str = "lo";
/// Allowed targets of attacks, in words.
pub(crate) const ONLY_HERE: &str =
    "drills are for servers that the lab starts in its own namespaces";

/// Checks that `target` is the server under test of a lab, and that the network of this process leads nowhere else.
///
/// # Errors
/// If it is not, with the reason.
pub fn attackable(target: SocketAddr) -> Result<(), String> {
    let read = |name: &str| fs::read_to_string(format!("/proc/thread-self/net/{name}"));
    let routes = read("route").map_err(|error| format!("/proc/thread-self/net/route: {error}"))?;
    // Absent if this kernel has no IPv6.
    let routes_v6 = read("ipv6_route").unwrap_or_default();
    check_target(target, &devices(&routes, &routes_v6))
}

/// Returns whether this is the address of the server under test on its link to the tester.
pub(crate) fn is_dut(address: IpAddr) -> bool {
    let (v4, v6) = (address_v4(Host::Dut, Host::Tester), address_v6(Host::Dut, Host::Tester));
    address == v4 || address == v6
}

/// Returns the devices of the routes in `/proc/net/route` and `/proc/net/ipv6_route`.
fn devices<'a>(v4: &'a str, v6: &'a str) -> Vec<&'a str> {
    let first = v4.lines().skip(1).filter_map(|line| line.split_ascii_whitespace().next());
    first.chain(v6.lines().filter_map(|line| line.split_ascii_whitespace().last())).collect()
}

/// Checks a target in a network with routes to these devices.
fn check_target(target: SocketAddr, devices: &[&str]) -> Result<(), String> {
    let refused = |why: &str| Err(format!("{target} is not attacked, since {why}: {ONLY_HERE}"));
    if !is_dut(target.ip()) {
        return refused("it is not the server under test of a lab");
    }
    let own = |device: &&&str| {
        **device == LOOPBACK || Host::ALL.iter().any(|host| Host::interface(*host) == **device)
    };
    match devices.iter().find(|device| !own(device)) {
        Some(device) => refused(&format!("this network leads outside, over the device {device}")),
        None => Ok(()),
    }
}

/// Checks that an experiment attacks no server outside of the lab: one at an address, or, with `remote`, one that is started on
/// another host.
///
/// # Errors
/// If it does, with the place of its method and the server.
pub(crate) fn check(
    experiment: &Experiment,
    adapters: &[Adapter],
    remote: bool,
) -> Result<(), FileError> {
    let drill = experiment.points.iter().find(|point| point.settings.method == Method::Drill);
    let Some(point) = drill else { return Ok(()) };
    let running = adapters.iter().find_map(|adapter| Some((&adapter.name, adapter.remote?)));
    let outside = match running {
        Some((name, address)) => format!("{name} at {address}"),
        None if remote => "a server on another host (--dut, --hosts)".to_owned(),
        None => return Ok(()),
    };
    let why = format!("{outside} is not attacked, since it is outside of the lab: {ONLY_HERE}");
    Err(experiment.bad(point, "method", why))
}

/// Returns the attacker's cores that `[cpus]` names; `None` for the cores of the auth host.
///
/// # Errors
/// If this host lacks one, in words.
pub(crate) fn cpus(settings: &Settings, allowed: &CpuList) -> Result<Option<CpuList>, String> {
    let wanted = CpuList::new(settings.cpus.attacker.iter().copied());
    match &wanted {
        Some(cpus) if !cpus.is_within(allowed) => Err(format!(
            "the attacker must run on cores {cpus}, but only {allowed} are allowed here"
        )),
        _ => Ok(wanted),
    }
}

/// The cores of an attacker.
#[derive(Clone, Debug)]
pub(crate) struct AttackerCores {
    pub(crate) cpus: CpuList,
    /// Whether the attacker runs only on idle cores, since it shares them with the Tester or the
    /// AuthDNS.
    pub(crate) yields: bool,
}

impl AttackerCores {
    /// Returns the place on `cpus`, or on the cores of the auth host.
    pub(crate) fn on(cpus: Option<&CpuList>, testbed: &Testbed) -> Self {
        let cpus = cpus.unwrap_or(testbed.cpus(Host::Auth)).clone();
        let shared = [Host::Tester, Host::Auth].map(|host| cpus.shares_with(testbed.cpus(host)));
        AttackerCores { cpus, yields: shared.contains(&true) }
    }
}

/// A running attacker; killed when dropped.
#[derive(Debug)]
pub(crate) struct Attacker {
    process: Process,
    cpus: CpuList,
}

impl Attacker {
    /// Starts the attacker on the cores of `place`.
    pub(crate) fn start(
        request: AttackRequest,
        place: &AttackerCores,
        env: LabEnv<'_>,
    ) -> Result<Self, BenchError> {
        let (task, cpus) = (Task::Attack(Box::new(request)), place.cpus.clone());
        let namespace = env.testbed.namespace(Host::Tester);
        let launch = Launch::new(ATTACKER, namespace, &cpus, env.dir);
        let process = Process::start_task(&launch, &task).map_err(BenchError::failed)?;
        Ok(Attacker { process, cpus })
    }

    /// Returns the attacker's process, for the CPU time of each role.
    pub(crate) fn companion(&self) -> Companions {
        let pids = vec![self.process.pid()];
        Companions { role: ATTACKER, host: Host::Tester, cpus: self.cpus.clone(), pids }
    }

    /// Waits for the end of the attacker, after the trial; returns its traffic.
    pub(crate) fn outcome(mut self) -> Result<AttackOutcome, BenchError> {
        if self.process.wait(END_LIMIT).is_none() {
            return Err(BenchError::failed(self.process.late("end its attack", END_LIMIT)));
        }
        self.process.result().map_err(BenchError::failed)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;

    const ROUTES: &str =
        "Iface\tDestination\tGateway\nto-dut\t0000090A\t00000000\nto-auth\t0002090A\t00000000\n";
    const ROUTES_V6: &str = "fd000009000000000000000000000000 40 0 00 0 00000100 1 0 1    to-dut\n0 0 0 00 0 ffffffff 1 0 200200       lo\n";

    #[test]
    fn a_target_outside_is_refused() {
        let outside = ROUTES.replace("to-auth", "eth0");
        let table = [
            ("10.9.0.2:53", ROUTES, None),
            ("[fd00:9::2]:853", ROUTES, None),
            ("10.9.1.2:53", ROUTES, Some("it is not the server under test")),
            ("127.0.0.1:53", ROUTES, Some("it is not the server under test")),
            ("192.0.2.1:53", ROUTES, Some("it is not the server under test")),
            ("10.9.0.2:53", outside.as_str(), Some("leads outside, over the device eth0")),
        ];
        for (target, routes, why) in table {
            let target = target.parse().expect(target);
            match (check_target(target, &devices(routes, ROUTES_V6)), why) {
                (found, None) => assert_eq!(found, Ok(()), "{target}"),
                (found, Some(why)) => {
                    let error = found.expect_err(why);
                    assert!(error.contains(why) && error.contains("its own namespaces"), "{error}");
                }
            }
        }
    }

    #[test]
    fn cores_of_the_attacker_are_those_that_there_are() {
        let text = "name = \"x\"\ntitle = \"X\"\nrole = \"dns64\"\nmethod = \"closed\"\n[cpus]\nattacker = [0, 2]\n";
        let experiment = Experiment::parse(text, Path::new("x.toml")).expect("valid");
        let of = |allowed: &str| cpus(experiment.common(), &allowed.parse().expect("cores"));
        assert_eq!(of("0-3").expect("there"), "0,2".parse().ok());
        let error = of("0-1").expect_err("no core 2");
        assert!(error.contains("on cores 0,2, but only 0-1 are allowed"), "{error}");
        let (text, _) = text.split_once("[cpus]").expect("a table");
        let experiment = Experiment::parse(text, Path::new("x.toml")).expect("valid");
        assert_eq!(cpus(experiment.common(), &"0".parse().expect("a core")), Ok(None));
    }

    proptest! {
        #[test]
        fn any_table_of_routes_is_read(v4 in "[ a-z0-9\t\n]{0,200}", v6 in "(?s).{0,200}") {
            let devices = devices(&v4, &v6);
            prop_assert!(devices.iter().all(|device| !device.is_empty()));
            prop_assert!(check_target("192.0.2.1:53".parse().expect("an address"), &devices).is_err());
        }

        #[test]
        fn a_route_that_leads_outside_is_found(device in "[a-z]{2,8}[0-9]", v6: bool) {
            let target = "[fd00:9::2]:53".parse().expect("an address");
            let (mut v4_routes, mut v6_routes) = (ROUTES.to_owned(), ROUTES_V6.to_owned());
            prop_assert_eq!(check_target(target, &devices(&v4_routes, &v6_routes)), Ok(()));
            if v6 {
                v6_routes += &format!("2001 40 0 00 0 00000100 1 0 1 {device}\n");
            } else {
                v4_routes += &format!("{device}\t00000000\t0100007F\n");
            }
            let error = check_target(target, &devices(&v4_routes, &v6_routes)).expect_err("outside");
            prop_assert!(error.contains(&device), "{}", error);
        }
    }
}
