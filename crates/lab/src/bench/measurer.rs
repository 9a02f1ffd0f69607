//! The Measurer as a process: the request for a trial on its standard input, the result in a file.
//!
//! ```text
//! settings of a point ──> base request ──┐
//!                                        ├──> TrialRequest ──JSON, a pipe──> dnsdyno __measure FILE ──> TrialResult
//! method: pacing, times, goal, names ────┘
//! ```

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use experiment::TrialSpec;
use experiment::settings::TesterSettings;
use measure::{Nanos, Pacing};
use record::TrialRequest;
use record::request::{
    self, Close, Connecting, Engine, Gso, Http, HttpMethod, Names, Sockets, Tls, WaitFor, Workload,
};
use wire::Namespace;

use super::{LabBench, failed};
use crate::enter::program;
use crate::exec::MEASURE_COMMAND;
use crate::testbed::Host;

/// Number of clients above which a large part of the Tester's ports is in use.
const MANY: u32 = 1_000;

/// Makes the request that all trials of a point of the matrix begin with; `authority` is the file of those whose certificates are
/// believed. Its pacing, times and names are those of no trial yet.
pub(crate) fn base_request(
    target: SocketAddr,
    workload: Workload,
    tester: &TesterSettings,
    seed: u64,
    authority: Option<PathBuf>,
) -> TrialRequest {
    let datagrams = tester.transport.is_datagram();
    let sockets = Sockets {
        // A client of UDP is a port.
        count: tester
            .ports
            .or(tester.clients.filter(|_| datagrams).map(|n| n.try_into().unwrap_or(u16::MAX))),
        // All trials send in the same way, whatever their rates.
        gso: if tester.gso { Gso::On } else { Gso::Off },
        gro: tester.gro,
        ..Sockets::default()
    };
    let engine = match datagrams {
        true => Engine::Udp,
        false => Engine::Streams(Box::new(connecting(tester, authority))),
    };
    TrialRequest {
        version: request::VERSION,
        target,
        engine,
        workload,
        pacing: Pacing::Window { outstanding: 1 },
        duration: Nanos::from_secs(1),
        timeout: Nanos::from_secs(1),
        goal: None,
        sockets,
        seed,
        live: None,
        dut_cpus: Vec::new(),
    }
}

/// What loads over connections have beside.
fn connecting(tester: &TesterSettings, authority: Option<PathBuf>) -> Connecting {
    let usual = Connecting::over(tester.transport);
    let queries_per_connection = tester.queries_per_connection.map(u64::from);
    // The Tester's ports must not wait a minute after each connection. With half of them waiting the next trial
    // got 150 a second: the kernel looks through all of them for one that is free.
    let reset = queries_per_connection.is_some() || tester.clients.is_some_and(|n| n > MANY);
    let private = authority.is_some();
    Connecting {
        clients: tester.clients.unwrap_or(usual.clients),
        queries_per_connection,
        outstanding: tester.outstanding,
        close: if reset { Close::Reset } else { Close::Fin },
        // Knot Resolver 5 refuses requests that are interleaved with the bodies of others.
        http: usual.http.map(|http| Http { method: HttpMethod::Get, ..http }),
        tls: usual.tls.map(|tls| Tls {
            ca: authority,
            resume: tester.resume && private,
            early_data: tester.early_data && private,
            ..tls
        }),
        ..usual
    }
}

impl LabBench<'_> {
    /// The request for one trial.
    pub(super) fn request(&self, spec: &TrialSpec) -> TrialRequest {
        let mut request = self.base.clone();
        request.set_trial(spec);
        if let Workload::Namespace(names) = &mut request.workload {
            (names.first, names.names) = match names.reuse {
                // A range that ends with the namespace, wherever the budget's count has come to.
                true => (spec.first_name % names.size(), None),
                false => (spec.first_name, Some(spec.names)),
            };
        }
        request.live = self.watcher.is_some().then(|| self.live_file());
        request.sockets.cpus = self.testbed.cpus(Host::Tester).cpus().to_vec();
        request.sockets.shared_core = self.shares_core();
        if request.sockets.shared_core && spec.pacing.is_open_loop() {
            // The AuthDNS needs the core while the Measurer waits. Asleep, the Measurer comes back late:
            // with 99 % within 0.9 ms instead of 0.1 ms, measured at 10,000 qps into Unbound.
            request.sockets.wait = WaitFor::Yield;
        }
        request
    }

    /// The names that are asked for, where it is not a file that says so.
    pub(super) fn names(&self) -> Option<&Names> {
        match &self.base.workload {
            Workload::Namespace(names) => Some(names),
            _ => None,
        }
    }

    /// The namespace of the names that are asked for.
    pub(super) fn namespace(&self) -> Result<Namespace, experiment::BenchError> {
        let names = self.names().ok_or_else(|| failed("this workload has no namespace"))?;
        let prefix = names.prefix.to_string().parse().map_err(failed)?;
        Namespace::new(prefix, names.zone.parse().map_err(failed)?).map_err(failed)
    }
}

/// The command that runs the trial which is requested on its standard input, and writes the result to `result`.
pub(super) fn command(result: &Path) -> Vec<OsString> {
    vec![program().into(), MEASURE_COMMAND.into(), result.into()]
}
