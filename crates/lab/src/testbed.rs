//! The testbed: three hosts, three links, and their settings in the kernel.
//!
//! Each pair of hosts has its own link. So the load never shares a link with the server's own queries to the AuthDNS,
//! and drops are counted on the link where they happen.
//!
//! | link | IPv4 | IPv6 | for |
//! |---|---|---|---|
//! | tester - dut | 10.9.0.1 - 10.9.0.2 | fd00:9::1 - fd00:9::2 | the load |
//! | dut - auth | 10.9.1.1 - 10.9.1.2 | fd00:9:1::1 - fd00:9:1::2 | the server's own queries |
//! | tester - auth | 10.9.2.1 - 10.9.2.2 | fd00:9:2::1 - fd00:9:2::2 | the self-test |
//!
//! The tester also owns every address of `SOURCES_V4` and `SOURCES_V6`, and the two other hosts have routes to
//! them: a load may have many client addresses. So does the auth host own `INTERNET`, for the dut: each server of an Internet in a
//! box has an address there.

pub(crate) mod capture;
pub(crate) mod control_group;
pub(crate) mod core_plan;
pub(crate) mod core_speed;
pub(crate) mod cpus;
pub(crate) mod daemon;
pub mod durability;
pub mod enter;
pub mod exec;
mod features;
pub(crate) mod leftovers;
pub(crate) mod limit;
mod link_mode;
mod links;
mod log_bound;
pub(crate) mod netns;
pub(crate) mod place;
pub(crate) mod process;
pub mod procfs;
pub(crate) mod reserve;
pub(crate) mod rundir;
pub(crate) mod short_link;
pub(crate) mod task;
pub(crate) mod tuning;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path as FilePath, PathBuf};

use experiment::settings::MAX_SECONDARIES;
use measure::stall::WatchedCore;
use measure::{Link, Path};
use nix::sched::sched_setaffinity;
use nix::unistd::Pid;
use udp::core_speed::WorkTimes;

use crate::testbed::core_speed::{in_trial, share_cores};
use crate::testbed::cpus::{CpuList, CpuPlan};
use crate::testbed::enter::Lab;
use crate::testbed::links::{End, HardwareAddress, LinkError, Net};
use crate::testbed::netns::Namespace;
use crate::testbed::place::Place;

/// Port of servers and of the AuthDNS.
pub const PORT: u16 = 53;
/// IPv4 source addresses of the tester beyond its links' own, with the prefix length.
pub(crate) const SOURCES_V4: (Ipv4Addr, u8) = (Ipv4Addr::new(10, 9, 128, 0), 17);
/// IPv6 source addresses of the tester beyond its links' own, with the prefix length.
pub(crate) const SOURCES_V6: (Ipv6Addr, u8) = (Ipv6Addr::new(0xfd00, 9, 0xffff, 0, 0, 0, 0, 0), 64);

/// Addresses of the servers of an Internet in a box, with the prefix length.
pub(crate) const INTERNET: (Ipv4Addr, u8) = (Ipv4Addr::new(10, 53, 0, 0), 16);

/// A host of the testbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// The host of the Measurer, which sends the queries.
    Tester,
    /// The host of the AuthDNS, which a resolver under test queries.
    Auth,
    /// Host of the server under test.
    Dut,
}

impl Host {
    /// All hosts, in the order of their indices.
    pub const ALL: [Host; 3] = [Host::Tester, Host::Auth, Host::Dut];

    /// Returns the host's position in [`Host::ALL`].
    pub(crate) fn index(self) -> usize {
        self as usize
    }

    /// Returns the host's name in errors and on the command line of `ip`: tester, auth or dut.
    pub fn name(self) -> &'static str {
        match self {
            Host::Tester => "tester",
            Host::Auth => "auth",
            Host::Dut => "dut",
        }
    }

    /// Returns the name of a host's interface on its link to `other`.
    pub(crate) fn interface(other: Host) -> String {
        format!("to-{}", other.name())
    }
}

/// Links: first and second host.
pub(crate) const LINKS: [(Host, Host); 3] =
    [(Host::Tester, Host::Dut), (Host::Dut, Host::Auth), (Host::Tester, Host::Auth)];

/// Returns the IPv4 address of `host` on its link to `other`.
///
/// # Panics
/// If the two are the same.
pub fn address_v4(host: Host, other: Host) -> Ipv4Addr {
    let (link, end) = place(host, other);
    Ipv4Addr::new(10, 9, link as u8, end)
}

/// Returns the IPv6 address of `host` on its link to `other`.
///
/// # Panics
/// If the two are the same.
pub fn address_v6(host: Host, other: Host) -> Ipv6Addr {
    let (link, end) = place(host, other);
    Ipv6Addr::new(0xfd00, 9, link, 0, 0, 0, 0, u16::from(end))
}

/// Returns the address of follower `number` (from 1), a further server in the DUT's host, on the link to `other`.
pub(crate) fn follower(number: usize, other: Host) -> Ipv4Addr {
    let [a, b, c, _] = address_v4(Host::Dut, other).octets();
    Ipv4Addr::new(a, b, c, FOLLOWERS + number as u8)
}

/// Number before the last octets of the followers' addresses.
const FOLLOWERS: u8 = 10;

/// Returns the number of the link between two hosts, and the end (1 or 2) of `host`.
fn place(host: Host, other: Host) -> (u16, u8) {
    for (link, (first, second)) in (0..).zip(LINKS) {
        if (first, second) == (host, other) {
            return (link, 1);
        }
        if (first, second) == (other, host) {
            return (link, 2);
        }
    }
    panic!("a host has no link to itself")
}

/// Settings of a network namespace that decide which ports its connections get, and when again.
const PORT_SETTINGS: [&str; 3] =
    ["net/ipv4/ip_local_port_range", "net/ipv4/tcp_tw_reuse", "net/ipv4/tcp_fin_timeout"];

/// Parts of a testbed: cores, links and the path of datagrams.
#[derive(Clone, Debug)]
pub struct TestbedPlan {
    /// Cores of each host, to which its processes are bound.
    pub cpus: CpuPlan,
    /// Kind of the links; if the kernel refuses it, the links are plain.
    pub link: Link,
    /// Path of datagrams on the links.
    pub path: Path,
}

/// Addresses of real hosts, in place of the links' addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// Addresses of the server under test, which has the port of its adapter.
    pub dut: Place,
    /// Addresses and port of each AuthDNS; there is one at least.
    pub auth: Vec<Place>,
}

/// Hosts and links, up and connected.
#[derive(Debug)]
pub struct Testbed {
    hosts: [Namespace; 3],
    cpus: CpuPlan,
    allowed: CpuList,
    // A `/proc` that shows the kernel's threads.
    host_proc: PathBuf,
    link: Link,
    path: Path,
    // Whether the ends of all links receive frames that programs send.
    frames: bool,
    // Addresses of this host and of the AuthDNS' host if the hosts are real ones; absent on links
    // of the testbed.
    places: Option<Places>,
    // Why the links are not of the requested kind.
    link_refused: Option<String>,
    refused: Vec<String>,
}

/// Error: a testbed could not be made.
#[derive(Debug, thiserror::Error)]
pub enum TestbedError {
    /// A namespace could not be made.
    #[error("cannot make the network namespace {0}: {1}; is this process inside the lab?")]
    Namespace(&'static str, #[source] io::Error),
    /// The kernel refused a link or an address.
    #[error(
        "{0}\n  the testbed needs veth links, IPv4 and IPv6 (kernel module veth; ipv6.disable=0)"
    )]
    Link(#[from] LinkError),
    /// A core does not exist, or this process may not use it.
    #[error("the {host} must run on cores {wanted}, but only {allowed} are allowed here")]
    Cpus {
        /// Name of the host: tester, auth or dut.
        host: &'static str,
        /// Cores that the plan gives the host.
        wanted: CpuList,
        /// Cores that this process may use.
        allowed: CpuList,
    },
}

impl Testbed {
    /// Builds the testbed; `dir` is a directory for temporary mounts.
    ///
    /// # Errors
    /// If a core of the plan is missing, or the kernel refuses a namespace, a link or an address.
    pub fn build(lab: &Lab, dir: &FilePath, plan: &TestbedPlan) -> Result<Self, TestbedError> {
        check_cpus(&plan.cpus, lab.allowed_cpus())?;
        let make = |host: Host| {
            Namespace::create(host.name())
                .map_err(|source| TestbedError::Namespace(host.name(), source))
        };
        let hosts = [make(Host::Tester)?, make(Host::Auth)?, make(Host::Dut)?];
        let mut testbed = Self::of(lab, hosts, plan.cpus.clone());
        for host in Host::ALL {
            testbed.tune(host);
            let owned: &[Net] = match host {
                Host::Tester => &[
                    (IpAddr::V4(SOURCES_V4.0), SOURCES_V4.1),
                    (IpAddr::V6(SOURCES_V6.0), SOURCES_V6.1),
                ],
                Host::Auth => &[(IpAddr::V4(INTERNET.0), INTERNET.1)],
                Host::Dut => &[],
            };
            links::loopback(testbed.namespace(host), owned)?;
        }
        for (first, second) in LINKS {
            let (a, b) = (testbed.namespace(first), testbed.namespace(second));
            links::connect(a, &Host::interface(second), b, &Host::interface(first))?;
            let ends = [(a, end(first, second)), (b, end(second, first))];
            ends.iter().try_for_each(|(host, end)| links::configure(host, end))?;
            ends.iter().try_for_each(|(host, end)| {
                links::wait_until_ready(host, &end.name, &end.addresses)
            })?;
        }
        testbed.set_links(plan.link, plan.path, dir);
        Ok(testbed)
    }

    /// Makes a testbed of this host alone, in its own network: parts that are started in it are at `places`, and others
    /// are on other hosts.
    ///
    /// # Errors
    /// If the network cannot be read.
    ///
    /// # Panics
    /// If there is no place of an AuthDNS.
    pub fn here(lab: &Lab, cpus: CpuPlan, places: Places) -> Result<Self, TestbedError> {
        assert!(!places.auth.is_empty(), "an AuthDNS has a place");
        let own = |name| move |source| TestbedError::Namespace(name, source);
        let make = |host: Host| Namespace::own().map_err(own(host.name()));
        let hosts = [make(Host::Tester)?, make(Host::Auth)?, make(Host::Dut)?];
        Ok(Self { path: Path::Wire, places: Some(places), ..Self::of(lab, hosts, cpus) })
    }

    /// Makes a testbed of these namespaces; this process moves off their cores.
    fn of(lab: &Lab, hosts: [Namespace; 3], cpus: CpuPlan) -> Self {
        let testbed = Self {
            hosts,
            cpus,
            allowed: lab.allowed_cpus().clone(),
            host_proc: lab.host_proc(),
            link: Link::Plain,
            path: Path::HostOffload,
            frames: false,
            places: None,
            link_refused: None,
            refused: Vec::new(),
        };
        testbed.step_aside();
        testbed
    }

    /// Returns the addresses of a server in `host` for the queries of `client`, with its port: a
    /// real AuthDNS has its own port.
    pub(crate) fn place(&self, host: Host, client: Host, port: u16) -> Place {
        match (&self.places, host) {
            (None, _) => Place { v4: address_v4(host, client), v6: address_v6(host, client), port },
            (Some(places), Host::Auth) => places.auth[0],
            (Some(places), Host::Dut | Host::Tester) => Place { port, ..places.dut },
        }
    }

    /// Returns the addresses and the port of each AuthDNS for the server under test; on links of the testbed there is one.
    pub(crate) fn upstreams(&self) -> Vec<Place> {
        match &self.places {
            None => vec![self.place(Host::Auth, Host::Dut, PORT)],
            Some(places) => places.auth.clone(),
        }
    }

    /// Returns whether its hosts have networks of their own, whose counters count no other traffic.
    pub(crate) fn has_networks(&self) -> bool {
        self.places.is_none()
    }

    /// Returns the namespace of a host.
    pub fn namespace(&self, host: Host) -> &Namespace {
        &self.hosts[host.index()]
    }

    /// Returns the cores of a host.
    pub fn cpus(&self, host: Host) -> &CpuList {
        match host {
            Host::Tester => &self.cpus.tester,
            Host::Auth => &self.cpus.auth,
            Host::Dut => &self.cpus.dut,
        }
    }

    /// Returns the time of the watchers' work on the cores of a host in a trial. `None` if it was
    /// not measured, or means nothing: the hosts are real ones, or others of the testbed's cores
    /// are threads of the same physical ones.
    pub(crate) fn core_speed(&self, host: Host, watched: &[WatchedCore]) -> Option<WorkTimes> {
        let own = self.cpus(host).cpus();
        let all: Vec<usize> =
            Host::ALL.iter().flat_map(|host| self.cpus(*host).cpus()).copied().collect();
        if !self.has_networks() || share_cores(own, &all) {
            return None;
        }
        in_trial(watched, own)
    }

    /// Returns the path of a `/proc` that shows the kernel's threads, where that is permitted.
    pub(crate) fn host_proc(&self) -> &FilePath {
        &self.host_proc
    }

    /// Returns the cores of all hosts.
    pub(crate) fn cpu_plan(&self) -> &CpuPlan {
        &self.cpus
    }

    /// Moves the hosts to other cores: processes that are started later, and the links at once.
    ///
    /// # Errors
    /// If a core is missing.
    pub(crate) fn move_to(&mut self, cpus: CpuPlan, dir: &FilePath) -> Result<(), TestbedError> {
        check_cpus(&cpus, &self.allowed)?;
        self.cpus = cpus;
        self.step_aside();
        if self.link.bills_receiver() {
            let link = self.link;
            // A link first stops polling on its old core.
            self.set_links(Link::Plain, self.path, dir);
            self.set_links(link, self.path, dir);
        }
        Ok(())
    }

    /// Sets the mode of all links. If the kernel refuses it, they are plain, and [`link_refused`](Self::link_refused)
    /// returns why.
    pub fn set_links(&mut self, link: Link, path: Path, dir: &FilePath) {
        self.link_refused = None;
        if (link, path) == (self.link, self.path) {
            return;
        }
        let Err(why) = link_mode::apply(self, link, path, dir) else {
            (self.link, self.path) = (link, path);
            return;
        };
        self.link_refused = Some(why);
        (self.link, self.path) = match link_mode::apply(self, Link::Plain, path, dir) {
            Ok(()) => (Link::Plain, path),
            // The kernel creates links in this mode.
            Err(_) => (Link::Plain, Path::HostOffload),
        };
    }

    /// Makes the ends of all links receive frames that programs send (XDP), or leaves them as their kind of link has it.
    ///
    /// # Errors
    /// If the kernel refuses it, with the host.
    pub(crate) fn receive_frames(&mut self, on: bool) -> Result<(), String> {
        if on != self.frames {
            link_mode::receive_frames(self, on || self.link == Link::Moderated)?;
            self.frames = on;
        }
        Ok(())
    }

    /// Returns whether frames that programs send arrive: the queries are then sent, and the AuthDNS answers, in the kernel.
    pub(crate) fn receives_frames(&self) -> bool {
        self.frames
    }

    /// Returns the kind of the links.
    pub fn link(&self) -> Link {
        self.link
    }

    /// Returns the path of datagrams on the links.
    pub fn path(&self) -> Path {
        self.path
    }

    /// Returns why the links are not of the requested kind; `None` if they are.
    pub fn link_refused(&self) -> Option<&str> {
        self.link_refused.as_deref()
    }

    /// Checks that the links still receive on the cores of their hosts.
    ///
    /// # Errors
    /// A core that polls too often or too rarely, in words.
    pub(crate) fn check_links(&self) -> Result<(), String> {
        if self.link == Link::Moderated { link_mode::check_seats(self) } else { Ok(()) }
    }

    /// Returns the cores of the lab itself.
    pub(crate) fn lab_cpus(&self) -> CpuList {
        self.cpus.for_lab(&self.allowed, &self.cpus.dut.with_siblings())
    }

    /// Moves the lab's own process to its cores.
    fn step_aside(&self) {
        if let Some(set) = self.lab_cpus().to_set() {
            // A lab that cannot move still measures, with a little more noise.
            let _ = sched_setaffinity(Pid::from_raw(0), &set);
        }
    }

    /// Returns the settings (`name = value`) that the kernel refused; steps that need them may fail
    /// later.
    pub fn refused(&self) -> &[String] {
        &self.refused
    }

    /// Returns the settings of the tester's network namespace that decide about its ports, by name.
    pub(crate) fn port_settings(&self) -> BTreeMap<String, String> {
        let read = || {
            let value = |path: &&str| fs::read_to_string(format!("/proc/sys/{path}")).ok();
            let entry = |path: &&str| {
                let value = value(path)?.split_whitespace().collect::<Vec<_>>().join(" ");
                Some((path.replace('/', "."), value))
            };
            PORT_SETTINGS.iter().filter_map(entry).collect()
        };
        self.namespace(Host::Tester).run(read).unwrap_or_default()
    }

    /// Sets the kernel's variables of a host's network namespace.
    fn tune(&mut self, host: Host) {
        let settings = [
            // An ordinary user may open port 53.
            ("net/ipv4/ip_unprivileged_port_start", "0"),
            // Resolvers need many source ports, and so does a load.
            ("net/ipv4/ip_local_port_range", "1024 65535"),
            // A client that connects again and again uses ports of closed connections after a second (seed 004).
            ("net/ipv4/tcp_tw_reuse", "1"),
            ("net/ipv4/tcp_fin_timeout", "20"),
            // Sockets may be bound to any address of the source prefixes.
            ("net/ipv4/ip_nonlocal_bind", "1"),
            ("net/ipv6/ip_nonlocal_bind", "1"),
            // IPv6 is on in the testbed, even if it is off on the machine.
            ("net/ipv6/conf/all/disable_ipv6", "0"),
            ("net/ipv6/conf/default/disable_ipv6", "0"),
            // Link-local addresses are usable at once, and nothing waits for routers.
            ("net/ipv6/conf/default/accept_dad", "0"),
            ("net/ipv6/conf/default/accept_ra", "0"),
            ("net/ipv4/conf/all/rp_filter", "0"),
            ("net/ipv4/conf/default/rp_filter", "0"),
        ];
        let write = || {
            let failed = settings.iter().filter_map(|(path, value)| {
                fs::write(format!("/proc/sys/{path}"), value)
                    .err()
                    .map(|e| format!("{} = {value} ({}): {e}", path.replace('/', "."), host.name()))
            });
            failed.collect::<Vec<_>>()
        };
        match self.namespace(host).run(write) {
            Ok(failed) => self.refused.extend(failed),
            Err(e) => self.refused.push(format!("{}: {e}", host.name())),
        }
    }
}

/// Checks that this process may run on every core of the plan.
fn check_cpus(plan: &CpuPlan, allowed: &CpuList) -> Result<(), TestbedError> {
    for (host, wanted) in [("tester", &plan.tester), ("auth", &plan.auth), ("dut", &plan.dut)] {
        if !wanted.is_within(allowed) {
            let (wanted, allowed) = (wanted.clone(), allowed.clone());
            return Err(TestbedError::Cpus { host, wanted, allowed });
        }
    }
    Ok(())
}

/// Returns the settings of `host`'s end of its link to `other`.
fn end(host: Host, other: Host) -> End {
    let gateway = || IpAddr::V4(address_v4(other, host));
    let routes = match (host, other) {
        (_, Host::Tester) => vec![
            ((IpAddr::V4(SOURCES_V4.0), SOURCES_V4.1), gateway()),
            ((IpAddr::V6(SOURCES_V6.0), SOURCES_V6.1), IpAddr::V6(address_v6(other, host))),
        ],
        (Host::Dut, Host::Auth) => vec![((IpAddr::V4(INTERNET.0), INTERNET.1), gateway())],
        _ => Vec::new(),
    };
    let addresses = |host, other| {
        let followers = if host == Host::Dut { MAX_SECONDARIES } else { 0 };
        let own = [IpAddr::V4(address_v4(host, other)), address_v6(host, other).into()];
        let followers = (1..=followers).map(|number| IpAddr::V4(follower(number, other)));
        own.into_iter().chain(followers).collect::<Vec<_>>()
    };
    let with_length = |address: IpAddr| (address, if address.is_ipv4() { 24 } else { 64 });
    End {
        name: Host::interface(other),
        hardware: hardware(host, other),
        neighbours: (addresses(other, host), hardware(other, host)),
        addresses: addresses(host, other).into_iter().map(with_length).collect(),
        routes,
    }
}

/// Returns the hardware address of `host` on its link to `other`: locally administered, with the IPv4 address.
pub(crate) fn hardware(host: Host, other: Host) -> HardwareAddress {
    let [a, b, c, d] = address_v4(host, other).octets();
    [0x02, 0, a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_the_plan() {
        use Host::*;
        let table = [
            (Tester, Dut, "10.9.0.1", "fd00:9::1"),
            (Dut, Tester, "10.9.0.2", "fd00:9::2"),
            (Dut, Auth, "10.9.1.1", "fd00:9:1::1"),
            (Auth, Dut, "10.9.1.2", "fd00:9:1::2"),
            (Tester, Auth, "10.9.2.1", "fd00:9:2::1"),
            (Auth, Tester, "10.9.2.2", "fd00:9:2::2"),
        ];
        for (host, other, v4, v6) in table {
            assert_eq!(address_v4(host, other).to_string(), v4);
            assert_eq!(address_v6(host, other).to_string(), v6);
        }
    }

    #[test]
    fn clients_are_behind_the_tester_and_an_internet_behind_the_authdns() {
        let routes = end(Host::Dut, Host::Auth).routes;
        let internet: Net = ("10.53.0.0".parse().unwrap(), 16);
        assert_eq!(routes, [(internet, "10.9.1.2".parse().unwrap())]);
        assert!(end(Host::Auth, Host::Dut).routes.is_empty());
        assert!(end(Host::Tester, Host::Auth).routes.is_empty());
        let routes = end(Host::Dut, Host::Tester).routes;
        assert_eq!(routes[1].1.to_string(), "fd00:9::1");
    }
}
