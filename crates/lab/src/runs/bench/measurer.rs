//! The Measurer as a process: it reads the request for a trial from its standard input and writes
//! the result to its standard output.
//!
//! ```text
//! settings of a point ──> base request ──┐
//!                                        ├──> TrialRequest ──JSON, a pipe──> dnsdyno __task measure ──> TrialResult
//! method: pacing, times, goal, names ────┘
//! ```

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use experiment::file::Role;
use experiment::settings::TesterSettings;
use experiment::{BenchError, Method, Point, TrialSpec};
use measure::{HttpMethod, Pacing, Path as LinkPath, Transport, WaitMode};
use record::request::{
    Close, Connecting, Engine, Gso, HardwareAddress, Http, InKernel, Names, Repeats, Sockets, Tls,
    Workload,
};
use record::{EngineKind, TrialRequest};
use wire::Namespace;

use super::LabBench;
use crate::server::clients::Replaying;
use crate::server::query_stream::Prepared;
use crate::server::question_plan::QuestionPlan;
use crate::testbed::{Host, SOURCES_V4, SOURCES_V6, hardware};

/// Number of clients above which a large part of the Tester's ports is in use.
const MANY_CLIENTS: u32 = 1_000;

impl QuestionPlan {
    /// Returns the request that all trials of `point` begin with, for the queries of `stream` or for names of the
    /// namespace; `authority` is the file with the certification authority whose certificates are accepted.
    pub(crate) fn request(
        &self,
        point: &Point,
        stream: Option<&Prepared>,
        seed: u64,
        target: SocketAddr,
        authority: Option<PathBuf>,
    ) -> TrialRequest {
        let authoritative = point.settings.role == Role::Authoritative;
        let w = &point.settings.workload;
        let namespace = || {
            let mut names = self.names(!authoritative, authoritative);
            let repeats = Repeats { share: w.repeat_share, names: w.repeat_names };
            names.repeats = (w.repeat_share > 0.0).then_some(repeats);
            Workload::Namespace(names)
        };
        let workload = stream.map_or_else(namespace, |stream| stream.workload(!authoritative));
        let tester = &point.settings.tester;
        if point.settings.method == Method::Clients {
            return of_clients(target, workload, tester, seed, authority);
        }
        base_request(target, workload, tester, seed, authority)
    }
}

/// Makes the request that all trials of a point of the matrix begin with; each trial replaces its pacing, times and
/// names. `authority` is the file with the certification authority whose certificates are accepted.
pub(crate) fn base_request(
    target: SocketAddr,
    workload: Workload,
    tester: &TesterSettings,
    seed: u64,
    authority: Option<PathBuf>,
) -> TrialRequest {
    let datagrams = tester.transport.is_datagram();
    let sockets = Sockets {
        // Over UDP each client is a port.
        count: tester
            .ports
            .or(tester.clients.filter(|_| datagrams).map(|n| n.try_into().unwrap_or(u16::MAX))),
        per_worker: tester.ports_per_thread,
        // Every trial sends with the same offloads, at every rate.
        gso: if tester.gso { Gso::On } else { Gso::Off },
        gro: tester.gro,
        ..Sockets::default()
    };
    let engine = match datagrams {
        true => Engine::Udp,
        false => Engine::Streams(Box::new(connecting(tester, authority))),
    };
    let pacing = Pacing::Window { outstanding: 1 };
    TrialRequest { engine, sockets, seed, ..TrialRequest::new(target, workload, pacing) }
}

/// Makes the base request of trials of clients, each with connections of its own, or with a port over UDP.
fn of_clients(
    target: SocketAddr,
    workload: Workload,
    tester: &TesterSettings,
    seed: u64,
    authority: Option<PathBuf>,
) -> TrialRequest {
    // The ports of a trial's thousands of connections are needed by the next trial.
    let connecting = Connecting { close: Close::Reset, ..connecting(tester, authority) };
    let engine = Engine::Streams(Box::new(connecting));
    TrialRequest { engine, ..base_request(target, workload, tester, seed, None) }
}

/// Returns a base request whose queries over UDP are carried by `engine`.
pub(crate) fn carried_by(engine: EngineKind, base: TrialRequest) -> TrialRequest {
    match engine {
        EngineKind::Kernel => TrialRequest { engine: Engine::Kernel(InKernel::default()), ..base },
        EngineKind::Sockets | EngineKind::Streams => base,
    }
}

/// Returns the way of the Tester's queries to another host.
pub(crate) fn way_to(other: Host) -> InKernel {
    InKernel {
        device: Some(Host::interface(other)),
        neighbour: Some(HardwareAddress(hardware(other, Host::Tester))),
    }
}

/// Returns the clients and connections of a load over streams.
fn connecting(tester: &TesterSettings, authority: Option<PathBuf>) -> Connecting {
    let usual = Connecting::over(tester.transport);
    let queries_per_connection = tester.queries_per_connection.map(u64::from);
    // A connection that is closed in order keeps its port for a minute (TIME_WAIT). With half of the Tester's ports
    // waiting, the next trial opened only 150 connections a second: the kernel searches all ports for a free one.
    let reset =
        queries_per_connection.is_some() || tester.clients.is_some_and(|n| n > MANY_CLIENTS);
    let private = authority.is_some();
    Connecting {
        clients: tester.clients.unwrap_or(usual.clients),
        queries_per_connection,
        outstanding: tester.outstanding,
        close_idle: tester.close_idle,
        fast_open: tester.fast_open,
        close: if reset { Close::Reset } else { Close::Fin },
        // Knot Resolver 5 refuses requests that are interleaved with the bodies of others.
        http: usual.http.map(|http| Http { method: HttpMethod::Get, ..http }),
        tls: usual.tls.map(|tls| Tls {
            ca: authority,
            version: tester.tls_version,
            resume: tester.resume && private,
            early_data: tester.early_data && private,
            ..tls
        }),
        ..usual
    }
}

impl LabBench<'_> {
    /// Returns the request for one trial.
    ///
    /// # Errors
    /// If the requested clients are not possible.
    pub(super) fn request(&self, spec: &TrialSpec) -> Result<TrialRequest, BenchError> {
        let mut request = self.base.clone();
        request.set_trial(spec);
        if let Workload::Namespace(names) = &mut request.workload {
            (names.first, names.names) = range(names, spec);
        }
        if let (Some(replayed), Some(number)) = (&self.replayed, spec.pacing.peak_rate()) {
            replayed.set(number, &mut request, spec, self.dir).map_err(BenchError::failed)?;
        }
        if matches!(request.engine, Engine::Kernel(_)) {
            request.engine = Engine::Kernel(self.way());
        }
        let whole = self.testbed.path() == LinkPath::HostOffload;
        if whole && matches!(request.engine, Engine::Udp) {
            request.sockets.gso = Gso::On;
        }
        if self.remote.outside.is_none() && self.has_sources(&request) {
            request.sockets.source = sources(request.target.is_ipv4()).parse().ok();
            // No replies are joined on a wire-like path. A moderated link would only delay them for
            // a joining socket, until the kernel's next tick: 4 ms.
            request.sockets.gro &= whole;
        }
        request.live = self.watcher.is_some().then(|| self.live_file());
        request.sockets.cpus = self.testbed.cpus(Host::Tester).cpus().to_vec();
        request.sockets.shared_core = self.shares_core();
        let cores = |host, uses: bool| match uses {
            true => self.testbed.cpus(host).cpus().to_vec(),
            false => Vec::new(),
        };
        request.dut_cpus = cores(Host::Dut, self.server.is_some());
        request.auth_cpus = cores(Host::Auth, self.uses_auth());
        if self.remote.testers.is_some() {
            // The AuthDNS is on another host than the Testers, so its cores are not shared.
            (request.auth_cpus, request.sockets.shared_core) = (Vec::new(), false);
            request.live = None;
        }
        if request.sockets.shared_core && spec.pacing.is_open_loop() {
            // The AuthDNS needs the core while the Measurer waits. A Measurer that sleeps wakes late: 99 % of its
            // queries leave within 0.9 ms instead of 0.1 ms, measured at 10,000 qps into Unbound.
            request.sockets.wait = WaitMode::Yield;
        }
        Ok(request)
    }

    /// Returns whether a request's queries come from many addresses: over UDP, and for clients with
    /// their own addresses. Over QUIC an address is a socket with large buffers, which clients
    /// share.
    fn has_sources(&self, request: &TrialRequest) -> bool {
        match &request.engine {
            Engine::Udp | Engine::Kernel(_) => true,
            Engine::Streams(connecting) => {
                let clients = self.replayed.as_ref().is_some_and(Replaying::has_clients);
                clients && !connecting.any(Transport::uses_quic)
            }
        }
    }

    /// Returns the way of queries that programs in the kernel send.
    fn way(&self) -> InKernel {
        if self.remote.outside.is_some() {
            return InKernel::default();
        }
        way_to(if self.server.is_some() { Host::Dut } else { Host::Auth })
    }

    /// Returns the queried names; `None` if a file contains the queries.
    pub(super) fn names(&self) -> Option<&Names> {
        match &self.base.workload {
            Workload::Namespace(names) => Some(names),
            _ => None,
        }
    }

    /// Returns whether a server gets a name only once, as long as its cache may have it.
    pub(super) fn asks_once(&self) -> bool {
        match &self.base.workload {
            Workload::Namespace(names) => !names.reuse,
            Workload::QueryFile { runs, .. } => runs.is_some(),
            _ => false,
        }
    }

    /// Returns the namespace of the queried names.
    pub(super) fn namespace(&self) -> Result<Namespace, BenchError> {
        let names =
            self.names().ok_or_else(|| BenchError::failed("this workload has no namespace"))?;
        let prefix = names.prefix.to_string().parse().map_err(BenchError::failed)?;
        let namespace = Namespace::new(prefix, names.zone.parse().map_err(BenchError::failed)?);
        Ok(namespace.map_err(BenchError::failed)?.with_padding(!names.unpadded))
    }
}

/// Returns the first name of a trial and the number of its names. A trial that may use names again
/// and needs more than there are uses all names.
fn range(names: &Names, spec: &TrialSpec) -> (u64, Option<u64>) {
    let left = names.size().saturating_sub(spec.first_name);
    if names.reuse && (spec.names == 0 || spec.names > left) {
        return (0, None);
    }
    (spec.first_name, Some(spec.names))
}

/// Returns the Tester's addresses for clients as a prefix, from the first one on: each socket has
/// its own. The address of the network itself is not used.
fn sources(v4: bool) -> String {
    if v4 {
        let (network, length) = SOURCES_V4;
        format!("{}/{length}", Ipv4Addr::from(u32::from(network) + 1))
    } else {
        let (network, length) = SOURCES_V6;
        format!("{}/{length}", Ipv6Addr::from(u128::from(network) + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_prefixes_of_the_testbed() {
        assert_eq!(sources(true), "10.9.128.1/17");
        assert_eq!(sources(false), "fd00:9:ffff::1/64");
        for v4 in [true, false] {
            let mut sockets = Sockets { source: sources(v4).parse().ok(), ..Sockets::default() };
            assert!(sockets.source.take().is_some(), "{v4}");
        }
    }
}
