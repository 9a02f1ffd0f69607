//! Two hosts for the Tester and a server that it knows: namespaces joined by a link, or the loopback of this host where
//! namespaces are not allowed.
//!
//! ```text
//!   tester's namespace          server's namespace
//!   Measurer, first core ═════ server and capture, last core
//! ```

use std::io;
use std::net::SocketAddr;

use measure::{Link, Path};
use record::request::InKernel;
use record::testbed::Network;

use crate::runs::bench::measurer::way_to;
use crate::testbed::capture::PacketCapture;
use crate::testbed::cpus::{CpuList, CpuPlan};
use crate::testbed::enter::Lab;
use crate::testbed::rundir::RunDir;
use crate::testbed::{Host, PORT, Testbed, TestbedError, TestbedPlan, address_v6};

/// Cores of the Tester and of the server.
#[derive(Clone, Debug)]
pub struct PairCores {
    /// Cores of the Tester: the first allowed one.
    pub tester: CpuList,
    /// Cores of the server: the last allowed one.
    pub server: CpuList,
}

impl PairCores {
    /// Chooses the first and the last allowed core.
    pub fn choose() -> Self {
        let allowed = CpuList::allowed();
        let one = |cpu: Option<&usize>| CpuList::new(cpu.copied()).unwrap_or(allowed.clone());
        PairCores { tester: one(allowed.cpus().first()), server: one(allowed.cpus().last()) }
    }

    /// Returns the cores of both.
    pub fn all(&self) -> CpuList {
        let all = self.tester.cpus().iter().chain(self.server.cpus());
        CpuList::new(all.copied()).expect("not empty")
    }

    /// Returns whether the Tester and the server share a core.
    pub fn are_shared(&self) -> bool {
        self.tester.shares_with(&self.server)
    }
}

/// The hosts of the Tester and of the server.
pub struct Pair {
    /// Cores of the two hosts.
    pub cores: PairCores,
    /// Namespaces of the two hosts; `None` on the loopback.
    testbed: Option<Testbed>,
}

impl Pair {
    /// Makes a pair on the loopback of this host.
    pub fn on_loopback(cores: PairCores) -> Self {
        Pair { cores, testbed: None }
    }

    /// Builds the namespaces and the link.
    ///
    /// # Errors
    /// If the kernel refuses them.
    pub fn in_namespaces(
        lab: &Lab,
        dir: &RunDir,
        cores: PairCores,
        link: Link,
        path: Path,
    ) -> Result<Self, TestbedError> {
        let (tester, dut) = (cores.tester.clone(), cores.server.clone());
        let cpus = CpuPlan { auth: tester.clone(), tester, dut };
        let testbed = Testbed::build(lab, dir.path(), &TestbedPlan { cpus, link, path })?;
        Ok(Pair { cores, testbed: Some(testbed) })
    }

    /// Runs `work` in the namespace of a host.
    ///
    /// # Errors
    /// If the namespace cannot be entered.
    pub fn run<T: Send>(&self, host: Host, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        match &self.testbed {
            None => Ok(work()),
            Some(testbed) => testbed.namespace(host).run(work),
        }
    }

    /// Makes the link receive frames that programs send; returns the way of the Tester's queries to the server.
    ///
    /// # Errors
    /// If there is no link, or the kernel refuses.
    pub fn receive_frames(&mut self) -> Result<InKernel, String> {
        let why = "the loopback carries no frames of programs: run as root, without --loopback";
        let testbed = self.testbed.as_mut().ok_or_else(|| why.to_owned())?;
        testbed.receive_frames(true)?;
        Ok(way_to(Host::Dut))
    }

    /// Returns the server's address; port 0 means a free one.
    pub fn address(&self) -> SocketAddr {
        match &self.testbed {
            None => "[::1]:0".parse().expect("an address"),
            Some(_) => SocketAddr::new(address_v6(Host::Dut, Host::Tester).into(), PORT),
        }
    }

    /// Returns whether datagrams cross a wire or keep the host's offloads.
    pub fn path(&self) -> Path {
        self.testbed.as_ref().map_or(Path::Wire, Testbed::path)
    }

    /// Returns the network between the hosts, and the kind of its link.
    pub fn network(&self) -> (Network, Option<Link>) {
        match &self.testbed {
            None => (Network::Loopback, None),
            Some(testbed) => (Network::Namespaces, Some(testbed.link())),
        }
    }

    /// Returns why the link is not of the requested kind.
    pub fn link_refused(&self) -> Option<&str> {
        self.testbed.as_ref().and_then(Testbed::link_refused)
    }

    /// Starts a capture beside the server.
    ///
    /// # Errors
    /// The reason why there can be none.
    pub fn capture(&self) -> Result<PacketCapture<Vec<u8>>, String> {
        if self.path() == Path::HostOffload {
            return Err(
                "segmented messages cross the link whole, so that packets cannot be counted".into(),
            );
        }
        let interface =
            self.testbed.as_ref().map_or("lo".to_owned(), |_| Host::interface(Host::Tester));
        // On another core the capture would disturb more.
        PacketCapture::start(&interface, &self.cores.server, Vec::new(), |open| {
            self.run(Host::Dut, open)
        })
    }
}
