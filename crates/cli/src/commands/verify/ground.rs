//! The bench of `verify`: a server of a known behaviour in one namespace, the Tester in another, a capture beside the
//! server. Where namespaces are not allowed, all of them are on the loopback.
//!
//! ```text
//!   tester's namespace          server's namespace
//!   Measurer, first core ═════ AuthDNS and capture, last core
//! ```

use std::io::{Cursor, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use experiment::{Behaviour, Bench, BenchError, Capture, TrialSpec, TruthBench};
use lab::testbed::{PORT, address_v6};
use lab::{CpuList, CpuPlan, Host, Lab, RunDir, Testbed, TestbedPlan};
use measure::{Goal, Link, Nanos, Pacing, Path as WirePath, Qps};
use record::request::{self, Engine, Gso, Names, NamespaceExpect, Query, Sockets, Workload};
use record::testbed::Network;
use record::{Tested, Trial, TrialRequest};
use tester::{AuthListen, AuthServer, Setup, udp_options};
use udp::UdpOptions;
use udp::capture::{LiveCapture, Only, Until};
use udp::sys;

use super::captured::summary;
use crate::bench::OwnBench;
use crate::commands::auth;
use crate::failure::Failure;
use crate::process::command_line;

/// Names that are queried: more than any plan needs.
const NAMES: &str = "0.0.0.0/2";
/// Largest capture that is kept in memory, in octets: ten seconds at 100,000 queries a second and more.
const MAX_CAPTURE: u64 = 1 << 30;

/// Cores of the Tester and of the server.
#[derive(Clone, Debug)]
pub(super) struct Cores {
    pub(super) tester: CpuList,
    pub(super) server: CpuList,
}

impl Cores {
    /// Chooses the first and the last allowed core.
    pub(super) fn choose() -> Self {
        let allowed = CpuList::allowed();
        let one = |cpu: Option<&usize>| CpuList::new(cpu.copied()).unwrap_or(allowed.clone());
        Cores { tester: one(allowed.cpus().first()), server: one(allowed.cpus().last()) }
    }

    /// Returns both.
    pub(super) fn all(&self) -> CpuList {
        let all = self.tester.cpus().iter().chain(self.server.cpus());
        CpuList::new(all.copied()).expect("not empty")
    }

    fn are_shared(&self) -> bool {
        self.tester.shares_with(&self.server)
    }
}

/// Where the Tester and the server are.
pub(super) enum Place {
    /// Namespaces of their own, joined by a link.
    Namespaces(Box<Testbed>),
    /// The loopback of this host.
    Loopback,
}

impl Place {
    /// Builds the namespaces and the link.
    pub(super) fn namespaces(
        lab: &Lab,
        dir: &RunDir,
        cores: &Cores,
        link: Link,
        path: WirePath,
    ) -> Result<Self, Failure> {
        let (tester, dut) = (cores.tester.clone(), cores.server.clone());
        let cpus = CpuPlan { auth: tester.clone(), tester, dut };
        let plan = TestbedPlan { cpus, link, path };
        let testbed = Testbed::build(lab, dir.path(), &plan).map_err(Failure::run)?;
        Ok(Place::Namespaces(Box::new(testbed)))
    }

    /// Runs `work` where a host is.
    fn run<T: Send>(&self, host: Host, work: impl FnOnce() -> T + Send) -> Result<T, BenchError> {
        match self {
            Place::Loopback => Ok(work()),
            Place::Namespaces(testbed) => {
                testbed.namespace(host).run(work).map_err(|e| BenchError::Failed(e.to_string()))
            }
        }
    }

    /// Returns the server's address; port 0 stands for a free one.
    fn address(&self) -> SocketAddr {
        match self {
            Place::Loopback => "[::1]:0".parse().expect("an address"),
            Place::Namespaces(_) => {
                SocketAddr::new(address_v6(Host::Dut, Host::Tester).into(), PORT)
            }
        }
    }

    /// Returns the interface of the server.
    fn interface(&self) -> &'static str {
        match self {
            Place::Loopback => "lo",
            Place::Namespaces(_) => "to-tester",
        }
    }

    /// Returns how datagrams cross.
    fn path(&self) -> WirePath {
        match self {
            Place::Loopback => WirePath::Wire,
            Place::Namespaces(testbed) => testbed.path(),
        }
    }
}

/// The bench: the place, the server that runs, and the Tester against it.
pub(super) struct Ground {
    place: Place,
    cores: Cores,
    stop: Arc<AtomicBool>,
    running: Option<Running>,
}

/// A server and the Tester against it.
struct Running {
    server: AuthServer,
    tester: OwnBench,
    address: SocketAddr,
}

impl Ground {
    pub(super) fn new(place: Place, cores: Cores, stop: Arc<AtomicBool>) -> Self {
        Ground { place, cores, stop, running: None }
    }

    /// Returns the conditions of the trials.
    pub(super) fn tested(&self) -> Tested {
        let (network, link) = match &self.place {
            Place::Loopback => (Network::Loopback, None),
            Place::Namespaces(testbed) => (Network::Namespaces, Some(testbed.link())),
        };
        let request = self.request(self.place.address());
        Tested { network: Some(network), link, ..Tested::of(&request, self.place.path()) }
    }

    /// Returns why the link is not of the kind that was wanted.
    pub(super) fn link_refused(&self) -> Option<&str> {
        match &self.place {
            Place::Loopback => None,
            Place::Namespaces(testbed) => testbed.link_refused(),
        }
    }

    /// Stops the server.
    pub(super) fn end(&mut self) {
        if let Some(running) = self.running.take() {
            // The Measurer has seen what a worker could not do.
            let _ = running.server.stop();
        }
    }

    /// Returns the request that all trials begin with: that of `load` and `search`.
    fn request(&self, target: SocketAddr) -> TrialRequest {
        let whole = self.place.path() == WirePath::HostOffload;
        let names = Names {
            prefix: NAMES.parse().expect("a prefix"),
            zone: wire::Namespace::with_default_zone(NAMES.parse().expect("a prefix"))
                .zone()
                .to_string(),
            unpadded: false,
            qtype: wire::Qtype::AAAA.to_string(),
            expect: NamespaceExpect::Embedded("2001:db8:64::/96".parse().expect("a prefix")),
            first: 0,
            names: None,
            reuse: true,
            repeats: None,
            query: Query { recursion: false, edns: None },
        };
        let sockets = Sockets {
            cpus: self.cores.tester.cpus().to_vec(),
            gso: if whole { Gso::On } else { Gso::Off },
            shared_core: self.cores.are_shared(),
            ..Sockets::default()
        };
        TrialRequest {
            version: request::VERSION,
            target,
            engine: Engine::Udp,
            workload: Workload::Namespace(names),
            pacing: Pacing::Constant { rate: Qps::new(1_000.0).expect("a rate") },
            duration: Nanos::from_secs(1),
            timeout: Nanos::from_secs(1),
            goal: Some(Goal::zero_loss()),
            early_stop: false,
            sockets,
            seed: 1,
            live: None,
            dut_cpus: self.cores.server.cpus().to_vec(),
            auth_cpus: Vec::new(),
        }
    }

    fn start(&mut self, behaviour: &Behaviour) -> Result<Running, Failure> {
        let pool = format!("--namespace={NAMES}");
        let config = auth::config_of(
            ["--aaaa=always".to_owned(), pool].into_iter().chain(behaviour.arguments()),
        )?;
        let whole = self.place.path() == WirePath::HostOffload;
        let listen = AuthListen {
            plain: vec![self.place.address()],
            encrypted: Vec::new(),
            cpus: self.cores.server.cpus().to_vec(),
            wait: engine::WaitMode::Sleep,
            // Each datagram is a packet, so that the capture can count it.
            udp: UdpOptions {
                gso: whole,
                gro: whole,
                timestamps: config.is_timed(),
                ..udp_options(&Sockets::default())
            },
            stream_fault: None,
        };
        let started = self.place.run(Host::Dut, || {
            AuthServer::start(&config, &listen, Arc::new(AtomicBool::new(false)))
        });
        let server = started.map_err(Failure::run)??;
        let address = server.addresses()[0];
        let setup = Setup::new(self.request(address), command_line())?;
        let tester = OwnBench { setup, stop: self.stop.clone() };
        Ok(Running { server, tester, address })
    }

    /// Starts a capture beside the server; `None` with the reason if it is not allowed.
    fn listen(&self) -> Result<Listening, String> {
        if self.place.path() == WirePath::HostOffload {
            return Err(
                "segmented messages cross the link whole, so that a packet is no query".into()
            );
        }
        let stop = Arc::new(AtomicBool::new(false));
        let until = Until { duration: None, stop: stop.clone() };
        let interface = self.place.interface();
        let opened = self.place.run(Host::Dut, || LiveCapture::open(interface, Only::Ip, until));
        let live = opened.map_err(|e| e.to_string())?.map_err(|e| match e.kind() {
            std::io::ErrorKind::PermissionDenied => {
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
        Ok(Listening { stop, reader, lost })
    }
}

/// A capture that is being taken.
struct Listening {
    stop: Arc<AtomicBool>,
    reader: JoinHandle<std::io::Result<Vec<u8>>>,
    lost: Arc<std::sync::atomic::AtomicU64>,
}

impl Listening {
    /// Ends the capture and summarises it.
    fn end(self, server: SocketAddr) -> Result<experiment::Captured, String> {
        // What was sent last is read within the interval at which an idle capture looks for its end.
        std::thread::sleep(std::time::Duration::from_millis(60));
        self.stop.store(true, Ordering::Relaxed);
        let read = self.reader.join().map_err(|_| "the capture panicked".to_owned())?;
        let bytes = read.map_err(|e| format!("the capture failed: {e}"))?;
        let whole = (bytes.len() as u64) < MAX_CAPTURE;
        let source = Box::new(Cursor::new(bytes));
        let mut capture =
            trace::Capture::new(source, Path::new("capture")).map_err(|e| e.to_string())?;
        let mut found = summary(&mut capture, server).map_err(|e| e.to_string())?;
        found.dropped = self.lost.load(Ordering::Relaxed);
        if whole { Ok(found) } else { Err("the capture is larger than is kept".to_owned()) }
    }
}

/// Makes a failure to start a server an error of the bench.
fn failed(failure: Failure) -> BenchError {
    match failure {
        Failure::BadInput(e) | Failure::Failed(e) => BenchError::Failed(format!("{e:#}")),
        Failure::Silent | Failure::Verdict(_) => BenchError::Failed("it failed".to_owned()),
    }
}

impl Bench for Ground {
    fn trial(&mut self, spec: &TrialSpec) -> Result<Trial, BenchError> {
        let Some(running) = &mut self.running else {
            return Err(BenchError::Failed("no server was started".to_owned()));
        };
        self.place.run(Host::Tester, || running.tester.trial(spec))?
    }

    fn pause(&mut self, time: Nanos) {
        if let Some(running) = &mut self.running {
            running.tester.pause(time);
        }
    }
}

impl TruthBench for Ground {
    fn serve(&mut self, behaviour: &Behaviour) -> Result<(), BenchError> {
        self.end();
        self.running = Some(self.start(behaviour).map_err(failed)?);
        Ok(())
    }

    fn captured(&mut self, spec: &TrialSpec) -> Result<(Trial, Capture), BenchError> {
        let listening = self.listen();
        let trial = self.trial(spec)?;
        let address = self.running.as_ref().map(|running| running.address);
        let address = address.expect("the trial had a server");
        let taken = listening.and_then(|listening| listening.end(address));
        Ok((trial, taken.map_or_else(Capture::Missing, Capture::Taken)))
    }
}
