//! Two hosts for the Tester and a server that it knows: namespaces joined by a link, or the loopback of this host where
//! namespaces are not allowed.
//!
//! ```text
//!   tester's namespace          server's namespace
//!   Measurer, first core ═════ server and capture, last core
//! ```

use std::io::{self, Read};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use measure::{Link, Path};
use record::request::InKernel;
use record::testbed::Network;
use udp::capture::{LiveCapture, Only, Until};
use udp::sys;

use crate::runs::bench::measurer::way_to;
use crate::testbed::cpus::{CpuList, CpuPlan};
use crate::testbed::enter::Lab;
use crate::testbed::rundir::RunDir;
use crate::testbed::{Host, PORT, Testbed, TestbedError, TestbedPlan, address_v6};

/// Largest capture that is kept in memory, in octets: ten seconds at 100,000 queries a second and more.
const MAX_CAPTURE: u64 = 1 << 30;
/// Time after a trial in which an idle capture reads what was sent last.
const LAST_READ: Duration = Duration::from_millis(60);

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

    /// Returns the server's address; port 0 stands for a free one.
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

    /// Returns why the link is not of the kind that was wanted.
    pub fn link_refused(&self) -> Option<&str> {
        self.testbed.as_ref().and_then(Testbed::link_refused)
    }

    /// Starts a capture beside the server.
    ///
    /// # Errors
    /// The reason why there can be none.
    pub fn capture(&self) -> Result<PairCapture, String> {
        if self.path() == Path::HostOffload {
            return Err(
                "segmented messages cross the link whole, so that a packet is no query".into()
            );
        }
        let interface =
            self.testbed.as_ref().map_or("lo".to_owned(), |_| Host::interface(Host::Tester));
        let stop = Arc::new(AtomicBool::new(false));
        let until = Until { duration: None, stop: stop.clone() };
        let opened = self.run(Host::Dut, || LiveCapture::open(&interface, Only::Ip, until));
        let live = opened.map_err(|e| e.to_string())?.map_err(|e| match e.kind() {
            io::ErrorKind::PermissionDenied => {
                format!("no right to capture on {interface} (CAP_NET_RAW)")
            }
            _ => format!("cannot capture on {interface}: {e}"),
        })?;
        let (lost, cpus) = (live.lost(), self.cores.server.cpus().to_vec());
        let reader = std::thread::spawn(move || {
            // On another core it would only disturb more.
            let _ = sys::pin_to_cpus(&cpus);
            let mut bytes = Vec::new();
            live.take(MAX_CAPTURE).read_to_end(&mut bytes).map(|_| bytes)
        });
        Ok(PairCapture { stop, reader, lost })
    }
}

/// A capture that is being taken.
pub struct PairCapture {
    stop: Arc<AtomicBool>,
    reader: JoinHandle<io::Result<Vec<u8>>>,
    lost: Arc<AtomicU64>,
}

impl PairCapture {
    /// Ends the capture; returns it as a pcap file, and the number of packets that it lost.
    ///
    /// # Errors
    /// The reason why it is of no use.
    pub fn end(self) -> Result<(Vec<u8>, u64), String> {
        std::thread::sleep(LAST_READ);
        self.stop.store(true, Ordering::Relaxed);
        let read = self.reader.join().map_err(|_| "the capture panicked".to_owned())?;
        let bytes = read.map_err(|e| format!("the capture failed: {e}"))?;
        if bytes.len() as u64 >= MAX_CAPTURE {
            return Err("the capture is larger than is kept".to_owned());
        }
        Ok((bytes, self.lost.load(Ordering::Relaxed)))
    }
}
