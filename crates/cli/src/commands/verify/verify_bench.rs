//! The bench of `verify`: a server of a known behaviour, the Tester against it, and a capture beside the server.

use std::io::Cursor;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use experiment::verify::{ServerCounts, Way};
use experiment::{Behaviour, Bench, BenchError, Capture, Captured, TrialSpec, TruthBench};
use lab::{Host, PacketCapture, Pair};
use measure::{Goal, Nanos, Pacing, Path as WirePath, Qps, Transport};
use record::request::{Connecting, Engine, Gso, InKernel, Names, Sockets, Workload};
use record::{EngineKind, Tested, Trial, TrialRequest};
use tester::{AuthListen, AuthServer, Setup, udp_options};
use trace::{CaptureError, Served};
use udp::UdpOptions;
use wire::Namespace;

use crate::bench::OwnBench;
use crate::commands::auth::{self, Described};
use crate::commands::search::{Axis, Varied};
use crate::failure::{Failure, in_one_line};
use crate::process::command_line;

/// Names that are queried: more than any plan needs.
const NAME_PREFIX: &str = "0.0.0.0/2";

/// Length of the steps in which the queries of trials are counted: no divisor of the delays that are checked.
const STEP_LENGTH: Nanos = Nanos::from_micros(7_300);

/// The bench: the hosts, the server that runs, and the Tester against it.
pub(crate) struct VerifyBench {
    pub(crate) pair: Pair,
    stop: Arc<AtomicBool>,
    running: Option<RunningPair>,
    /// Way of the queries that programs in the kernel send; `None` where they do not.
    way: Option<InKernel>,
    /// Engine of the trials over the sockets of the workers.
    engine: Engine,
    travels: Way,
    /// Whether the numbers of trials are connections a second.
    over: Axis,
    /// Whether the kernel timestamps replies. In a closed loop the place of a query is free when the Tester reads its reply.
    timestamps: bool,
}

/// A server and the Tester against it.
struct RunningPair {
    server: AuthServer,
    tester: OwnBench,
}

impl VerifyBench {
    pub(super) fn new(pair: Pair, stop: Arc<AtomicBool>) -> Self {
        let (running, way, engine) = (None, None, Engine::Udp);
        let (travels, over, timestamps) = (Way::SOCKETS, Axis::Rate, true);
        VerifyBench { pair, stop, running, way, engine, travels, over, timestamps }
    }

    /// Lets programs in the kernel send the queries.
    ///
    /// # Errors
    /// If the kernel refuses the programs.
    pub(crate) fn use_kernel(&mut self) -> Result<(), anyhow::Error> {
        let way = self.pair.receive_frames().map_err(anyhow::Error::msg)?;
        self.engine = Engine::Kernel(way.clone());
        self.way = Some(way);
        let setup = self.pair.run(Host::Tester, || {
            let setup = Setup::new(self.request(self.pair.address()), command_line())?;
            setup.probe_kernel()
        });
        Ok(setup??)
    }

    /// Returns the conditions of the trials.
    pub(super) fn tested(&self) -> Tested {
        let (network, link) = self.pair.network();
        let request = self.request(self.pair.address());
        Tested { network: Some(network), link, ..Tested::of(&request, self.pair.path()) }
    }

    pub(crate) fn end(&mut self) {
        if let Some(running) = self.running.take() {
            // The Measurer has seen what a worker could not do.
            let _ = running.server.stop();
        }
    }

    /// Returns the request that all trials begin with, as `load` and `search` make it.
    fn request(&self, target: SocketAddr) -> TrialRequest {
        let zone =
            Namespace::with_default_zone(NAME_PREFIX.parse().expect("a prefix")).zone().to_string();
        let (prefix, pref64) = (NAME_PREFIX.parse(), "2001:db8:64::/96".parse());
        let names = Names::embedded(prefix.expect("a prefix"), zone, pref64.expect("a prefix"));
        let workload = Workload::Namespace(Names { reuse: true, ..names });
        let whole = self.pair.path() == WirePath::HostOffload;
        let way = self.travels;
        let engine = way.clients.map_or_else(
            || self.engine.clone(),
            |clients| {
                let over = Connecting::over(way.transport);
                let queries_per_connection = way.per_connection;
                Engine::Streams(Box::new(Connecting { clients, queries_per_connection, ..over }))
            },
        );
        let sockets = Sockets {
            cpus: self.pair.cores.tester.cpus().to_vec(),
            gso: if whole { Gso::On } else { Gso::Off },
            gro: whole,
            timestamps: self.timestamps,
            shared_core: self.pair.cores.are_shared(),
            ..Sockets::default()
        };
        let pacing = Pacing::Constant { rate: Qps::new(1_000.0).expect("a rate") };
        TrialRequest {
            goal: Some(Goal::zero_loss()),
            sockets,
            dut_cpus: self.pair.cores.server.cpus().to_vec(),
            engine,
            step: Some(STEP_LENGTH),
            ..TrialRequest::new(target, workload, pacing)
        }
    }

    /// Starts a server of a behaviour for all transports that can have it.
    fn start(&self, behaviour: &Behaviour) -> Result<AuthServer, Failure> {
        let pool = format!("--namespace={NAME_PREFIX}");
        let any = SocketAddr::new(self.pair.address().ip(), 0);
        let streams = ["quic", "https"].into_iter().filter(|_| behaviour.duplicates == 0.0);
        let encrypted = streams.chain(["tls"]).map(|word| format!("--{word}={any}"));
        let arguments = ["--aaaa=always".to_owned(), pool].into_iter().chain(encrypted);
        let described = auth::described(arguments.chain(behaviour.arguments()))?;
        let Described { config, encrypted, connections } = described;
        let whole = self.pair.path() == WirePath::HostOffload;
        let listen = AuthListen {
            plain: vec![self.pair.address()],
            encrypted,
            cpus: self.pair.cores.server.cpus().to_vec(),
            wait: engine::WaitMode::Sleep,
            // Each datagram is a packet, so that the capture can count it.
            udp: UdpOptions {
                gso: whole,
                gro: whole,
                timestamps: config.is_timed(),
                ..udp_options(&Sockets::default())
            },
            connections,
        };
        let started = self.pair.run(Host::Dut, || {
            AuthServer::start(&config, &listen, Arc::new(AtomicBool::new(false)))
        });
        Ok(started.map_err(Failure::run)??)
    }

    /// Returns the Tester against a server.
    fn tester(&self, server: &AuthServer) -> Result<OwnBench, Failure> {
        let request = self.request(self.address(server));
        // The programs use the routes of the Tester's host.
        let setup = self.pair.run(Host::Tester, || Setup::new(request, command_line()));
        let setup = setup.map_err(Failure::run)??;
        let varied = Varied { over: self.over, queries: 1, ..Varied::default() };
        Ok(OwnBench::new(setup, varied, self.stop.clone()))
    }

    /// Returns the address of a server for the queries as they travel.
    fn address(&self, server: &AuthServer) -> SocketAddr {
        let name = match self.travels.transport {
            Transport::Udp | Transport::Tcp => return server.addresses()[0],
            Transport::Tls => "TLS",
            Transport::Https | Transport::Http3 => "HTTPS",
            Transport::Quic => "QUIC",
        };
        let at = server.encrypted().iter().find(|(_, of)| *of == name);
        at.map_or(server.addresses()[0], |(address, _)| *address)
    }

    /// Makes a new Tester, if a server runs.
    fn renew(&mut self) -> Result<(), BenchError> {
        let Some(RunningPair { server, .. }) = &self.running else { return Ok(()) };
        let tester = self.tester(server).map_err(failed)?;
        if let Some(running) = &mut self.running {
            running.tester = tester;
        }
        Ok(())
    }
}

/// Ends a capture and summarises it.
fn taken(capture: PacketCapture<Vec<u8>>, server: SocketAddr) -> Result<Captured, String> {
    let (bytes, dropped) = capture.end()?;
    let source = Box::new(Cursor::new(bytes));
    let mut capture =
        trace::Capture::new(source, Path::new("capture")).map_err(|e| e.to_string())?;
    let found = summary(&mut capture, server).map_err(|e| e.to_string())?;
    Ok(Captured { dropped, ..found })
}

/// Returns the summary of a capture for the judgement.
pub(super) fn summary(
    capture: &mut trace::Capture,
    server: SocketAddr,
) -> Result<Captured, CaptureError> {
    let served = Served::read(capture, server)?;
    Ok(Captured::new(&served.arrivals, served.replies, served.latency))
}

/// Makes a failure to start a server an error of the bench.
fn failed(failure: Failure) -> BenchError {
    match failure {
        Failure::BadInput(e) | Failure::Failed(e) => BenchError::Failed(in_one_line(&e)),
        Failure::Silent | Failure::Verdict(_) => BenchError::Failed("it failed".to_owned()),
    }
}

impl Bench for VerifyBench {
    fn trial(&mut self, spec: &TrialSpec) -> Result<Trial, BenchError> {
        if self.timestamps != spec.pacing.is_open_loop() {
            self.timestamps = spec.pacing.is_open_loop();
            self.renew()?;
        }
        let Some(running) = &mut self.running else {
            return Err(BenchError::Failed("no server was started".to_owned()));
        };
        let inside = self.pair.run(Host::Tester, || running.tester.trial(spec));
        inside.map_err(|e| BenchError::Failed(e.to_string()))?
    }

    fn pause(&mut self, time: Nanos) {
        if let Some(running) = &mut self.running {
            running.tester.pause(time);
        }
    }
}

impl TruthBench for VerifyBench {
    fn serve(&mut self, behaviour: &Behaviour) -> Result<(), BenchError> {
        self.end();
        let server = self.start(behaviour).map_err(failed)?;
        let tester = self.tester(&server).map_err(failed)?;
        self.running = Some(RunningPair { server, tester });
        Ok(())
    }

    fn use_engine(&mut self, engine: EngineKind) -> Result<(), BenchError> {
        self.engine = match (engine, &self.way) {
            (EngineKind::Kernel, Some(way)) => Engine::Kernel(way.clone()),
            (EngineKind::Sockets, _) => Engine::Udp,
            _ => return Err(BenchError::Failed(format!("no engine {engine} for this"))),
        };
        Ok(())
    }

    fn use_way(&mut self, way: Way) -> Result<(), BenchError> {
        self.travels = way;
        self.renew()
    }

    fn search_connections(&mut self, connections: bool) -> Result<(), BenchError> {
        self.over = if connections { Axis::Connections } else { Axis::Rate };
        self.renew()
    }

    fn server_counts(&mut self) -> Result<ServerCounts, BenchError> {
        let Some(RunningPair { server, .. }) = self.running.take() else {
            return Ok(ServerCounts::default());
        };
        let counted = server.stop().map_err(|e| BenchError::Failed(e.to_string()))?;
        Ok(ServerCounts { queries: counted.queries, connections: counted.connections })
    }

    fn captured_trial(&mut self, spec: &TrialSpec) -> Result<(Trial, Capture), BenchError> {
        let capture = self.pair.capture();
        let trial = self.trial(spec)?;
        let address = self.running.as_ref().map(|running| self.address(&running.server));
        let address = address.expect("a server ran during the trial");
        let captured = capture.and_then(|capture| taken(capture, address));
        Ok((trial, captured.map_or_else(Capture::Missing, Capture::Taken)))
    }
}
