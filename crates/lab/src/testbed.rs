//! The testbed: three hosts, three links, and what the kernel allowed of their tuning.
//!
//! Each pair of hosts has a link of its own, so that what goes from the Measurer to the server
//! never mixes with what the server asks the AuthDNS, and drops are seen where they happen.
//!
//! | link | IPv4 | IPv6 | for |
//! |---|---|---|---|
//! | tester - dut | 10.9.0.1 - 10.9.0.2 | fd00:9::1 - fd00:9::2 | the load |
//! | dut - auth | 10.9.1.1 - 10.9.1.2 | fd00:9:1::1 - fd00:9:1::2 | the server's own questions |
//! | tester - auth | 10.9.2.1 - 10.9.2.2 | fd00:9:2::1 - fd00:9:2::2 | the self-test |
//!
//! The tester also owns every address of [`SOURCES_V4`] and [`SOURCES_V6`], and the two others know
//! the way back: a load may come from as many clients as it likes.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path as FilePath;

use measure::{Link, Path};
use nix::sched::sched_setaffinity;
use nix::unistd::Pid;

use crate::cpus::{CpuList, CpuPlan};
use crate::enter::Lab;
use crate::link_mode;
use crate::links::{self, End, Hardware, LinkError, Net};
use crate::netns::Namespace;

/// The port of servers and of the AuthDNS.
pub const PORT: u16 = 53;
/// IPv4 source addresses of the tester beyond its links' own, with the prefix length.
pub const SOURCES_V4: (Ipv4Addr, u8) = (Ipv4Addr::new(10, 9, 128, 0), 17);
/// IPv6 source addresses of the tester beyond its links' own, with the prefix length.
pub const SOURCES_V6: (Ipv6Addr, u8) = (Ipv6Addr::new(0xfd00, 9, 0xffff, 0, 0, 0, 0, 0), 64);

/// A host of the testbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// Where the Measurer runs.
    Tester,
    /// Where the AuthDNS runs.
    Auth,
    /// Where the server under test runs.
    Dut,
}

impl Host {
    /// Every host.
    pub const ALL: [Host; 3] = [Host::Tester, Host::Auth, Host::Dut];

    /// Its place in [`Host::ALL`].
    pub(crate) fn index(self) -> usize {
        self as usize
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Host::Tester => "tester",
            Host::Auth => "auth",
            Host::Dut => "dut",
        }
    }

    /// The name of its interface on the link to `other`.
    pub(crate) fn interface(other: Host) -> String {
        format!("to-{}", other.name())
    }
}

/// The links: first and second host.
pub(crate) const LINKS: [(Host, Host); 3] =
    [(Host::Tester, Host::Dut), (Host::Dut, Host::Auth), (Host::Tester, Host::Auth)];

/// The IPv4 address of `host` on its link to `other`.
///
/// # Panics
/// When the two are the same.
pub fn address_v4(host: Host, other: Host) -> Ipv4Addr {
    let (link, end) = place(host, other);
    Ipv4Addr::new(10, 9, link as u8, end)
}

/// The IPv6 address of `host` on its link to `other`.
///
/// # Panics
/// When the two are the same.
pub fn address_v6(host: Host, other: Host) -> Ipv6Addr {
    let (link, end) = place(host, other);
    Ipv6Addr::new(0xfd00, 9, link, 0, 0, 0, 0, u16::from(end))
}

/// The most servers that follow a primary beside the one under test.
pub(crate) const MOST_FOLLOWERS: usize = 7;

/// The address of follower `number` (from 1), a further server in the DUT's host, on the link to the auth host.
pub(crate) fn follower(number: usize) -> Ipv4Addr {
    let [a, b, c, _] = address_v4(Host::Dut, Host::Auth).octets();
    Ipv4Addr::new(a, b, c, FOLLOWERS + number as u8)
}

/// Followers have the addresses after this one.
const FOLLOWERS: u8 = 10;

/// The link between two hosts, and which end (1 or 2) `host` is.
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

/// What of the testbed is to be chosen.
#[derive(Clone, Debug)]
pub struct TestbedPlan {
    /// The hosts' cores.
    pub cpus: CpuPlan,
    /// The kind of its links; plain ones are taken where the kernel refuses another.
    pub link: Link,
    /// Whether each datagram is a packet on them.
    pub path: Path,
}

/// The hosts and links, up and connected.
#[derive(Debug)]
pub struct Testbed {
    hosts: [Namespace; 3],
    cpus: CpuPlan,
    allowed: CpuList,
    link: Link,
    path: Path,
    // Why the links are not of the kind that was asked for.
    link_refused: Option<String>,
    refused: Vec<String>,
}

/// Why there is no testbed.
#[derive(Debug, thiserror::Error)]
pub enum TestbedError {
    /// A namespace could not be made.
    #[error("cannot make the network namespace {name}: {source}; is this process inside the lab?")]
    Namespace {
        /// Its name.
        name: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// A link or address was refused.
    #[error(
        "{0}\n  the testbed needs veth links, IPv4 and IPv6 (kernel module veth; ipv6.disable=0)"
    )]
    Link(#[from] LinkError),
    /// A core that is not there, or not for us.
    #[error("the {host} is to run on cores {wanted}, but only {allowed} are allowed here")]
    Cpus {
        /// The host.
        host: &'static str,
        /// The cores planned.
        wanted: CpuList,
        /// The cores that are allowed.
        allowed: CpuList,
    },
}

impl Testbed {
    /// Builds the testbed; `dir` is a directory of its own for passing mounts.
    ///
    /// # Errors
    /// When a core of the plan is not there, or the kernel refuses a namespace, a link or an address.
    pub fn build(lab: &Lab, dir: &FilePath, plan: &TestbedPlan) -> Result<Self, TestbedError> {
        let allowed = lab.allowed_cpus().clone();
        check_cpus(&plan.cpus, &allowed)?;
        let make = |host: Host| {
            Namespace::create(host.name())
                .map_err(|source| TestbedError::Namespace { name: host.name(), source })
        };
        let hosts = [make(Host::Tester)?, make(Host::Auth)?, make(Host::Dut)?];
        let mut testbed = Self {
            hosts,
            cpus: plan.cpus.clone(),
            allowed,
            link: Link::Plain,
            path: Path::HostOffload,
            link_refused: None,
            refused: Vec::new(),
        };
        testbed.step_aside();
        for host in Host::ALL {
            testbed.tune(host);
            let owned: &[Net] = match host {
                Host::Tester => &[
                    (IpAddr::V4(SOURCES_V4.0), SOURCES_V4.1),
                    (IpAddr::V6(SOURCES_V6.0), SOURCES_V6.1),
                ],
                _ => &[],
            };
            links::loopback(testbed.namespace(host), owned)?;
        }
        for (first, second) in LINKS {
            let (a, b) = (testbed.namespace(first), testbed.namespace(second));
            links::connect(a, &Host::interface(second), b, &Host::interface(first))?;
            links::configure(a, &end(first, second))?;
            links::configure(b, &end(second, first))?;
        }
        testbed.set_links(plan.link, plan.path, dir);
        Ok(testbed)
    }

    /// The namespace of a host.
    pub fn namespace(&self, host: Host) -> &Namespace {
        &self.hosts[host.index()]
    }

    /// The cores of a host.
    pub fn cpus(&self, host: Host) -> &CpuList {
        match host {
            Host::Tester => &self.cpus.tester,
            Host::Auth => &self.cpus.auth,
            Host::Dut => &self.cpus.dut,
        }
    }

    /// The cores of all hosts.
    pub fn cpu_plan(&self) -> &CpuPlan {
        &self.cpus
    }

    /// Moves the hosts to other cores, for what is started from now on; the links follow at once.
    ///
    /// # Errors
    /// When a core is not there.
    pub fn move_to(&mut self, cpus: CpuPlan, dir: &FilePath) -> Result<(), TestbedError> {
        check_cpus(&cpus, &self.allowed)?;
        self.cpus = cpus;
        self.step_aside();
        if self.link.bills_receiver() {
            let link = self.link;
            // A link that polls on another core stops that first.
            self.set_links(Link::Plain, self.path, dir);
            self.set_links(link, self.path, dir);
        }
        Ok(())
    }

    /// Puts all links into a mode; plain ones are taken where the kernel refuses another, and
    /// [`link_refused`](Self::link_refused) then says why.
    pub fn set_links(&mut self, link: Link, path: Path, dir: &FilePath) {
        if (link, path) == (self.link, self.path) {
            return;
        }
        self.link_refused = None;
        let Err(why) = link_mode::apply(self, link, path, dir) else {
            (self.link, self.path) = (link, path);
            return;
        };
        self.link_refused = Some(why);
        (self.link, self.path) = match link_mode::apply(self, Link::Plain, path, dir) {
            Ok(()) => (Link::Plain, path),
            // As the kernel makes links.
            Err(_) => (Link::Plain, Path::HostOffload),
        };
    }

    /// The kind of the links.
    pub fn link(&self) -> Link {
        self.link
    }

    /// Whether each datagram is a packet on the links.
    pub fn path(&self) -> Path {
        self.path
    }

    /// Why the links are not of the kind that was asked for; `None` where they are.
    pub fn link_refused(&self) -> Option<&str> {
        self.link_refused.as_deref()
    }

    /// Checks that the links still receive where they should.
    ///
    /// # Errors
    /// Says which core receives how often.
    pub(crate) fn check_links(&self) -> Result<(), String> {
        if self.link == Link::Moderated { link_mode::check_seats(self) } else { Ok(()) }
    }

    /// Keeps the lab itself off the cores of the server under test, where there are others.
    fn step_aside(&self) {
        let others = self.allowed.cpus().iter().filter(|cpu| !self.cpus.dut.cpus().contains(cpu));
        let set = CpuList::new(others.copied()).and_then(|others| others.to_set());
        if let Some(set) = set {
            // A matter of noise only: a lab that may not move still measures.
            let _ = sched_setaffinity(Pid::from_raw(0), &set);
        }
    }

    /// Settings of the kernel (`name = value`) that were refused; what they are for may fail later.
    pub fn refused(&self) -> &[String] {
        &self.refused
    }

    /// Sets what the kernel keeps per network namespace.
    fn tune(&mut self, host: Host) {
        let settings = [
            // Port 53 for whoever runs the server.
            ("net/ipv4/ip_unprivileged_port_start", "0"),
            // A resolver's random source ports, and a load's many sockets.
            ("net/ipv4/ip_local_port_range", "1024 65535"),
            // Sockets may be bound to any address of the source prefixes.
            ("net/ipv4/ip_nonlocal_bind", "1"),
            ("net/ipv6/ip_nonlocal_bind", "1"),
            // Also where the machine itself does without.
            ("net/ipv6/conf/all/disable_ipv6", "0"),
            ("net/ipv6/conf/default/disable_ipv6", "0"),
            // Link-local addresses are usable at once, and routers are not waited for.
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

/// What is set at `host`'s end of its link to `other`.
fn end(host: Host, other: Host) -> End {
    let routes = if other == Host::Tester {
        vec![
            ((IpAddr::V4(SOURCES_V4.0), SOURCES_V4.1), IpAddr::V4(address_v4(other, host))),
            ((IpAddr::V6(SOURCES_V6.0), SOURCES_V6.1), IpAddr::V6(address_v6(other, host))),
        ]
    } else {
        Vec::new()
    };
    let addresses = |host, other| {
        let followers = if (host, other) == (Host::Dut, Host::Auth) { MOST_FOLLOWERS } else { 0 };
        let own = [IpAddr::V4(address_v4(host, other)), address_v6(host, other).into()];
        let followers = (1..=followers).map(|number| IpAddr::V4(follower(number)));
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

/// The hardware address of `host` on its link to `other`: locally administered, then the IPv4 address.
fn hardware(host: Host, other: Host) -> Hardware {
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
    fn only_the_tester_has_clients_behind_it() {
        assert!(end(Host::Dut, Host::Auth).routes.is_empty());
        let routes = end(Host::Dut, Host::Tester).routes;
        assert_eq!(routes[1].1.to_string(), "fd00:9::1");
    }
}
