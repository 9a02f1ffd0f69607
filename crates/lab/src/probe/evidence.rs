//! Evidence of the probes on a trial, for its verdict.

use measure::Evidence;
use record::{Connections, Trial};

use crate::probe::{HostUse, Observed};
use crate::testbed::{Host, Testbed};

/// What is known of a trial's bench.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known<'a> {
    /// The cores of the hosts.
    pub(crate) testbed: &'a Testbed,
    /// Whether the AuthDNS runs on the Measurer's core.
    pub(crate) shared: bool,
    /// Whether the server under test is one of the lab.
    pub(crate) has_server: bool,
    /// Number of cores whose time the server may have at the most, if that is limited.
    pub(crate) cpu_limit: Option<f64>,
}

/// Returns the share (0 to 1) of what a server may use that it used on its `cores`. A server with one busy thread is at its limit,
/// however many cores it has; one that has used up the time of `cpu_limit` cores that it is given, too.
pub(crate) fn server_busy(server: &HostUse, cores: usize, cpu_limit: Option<f64>) -> f64 {
    match cpu_limit {
        Some(limit) => (server.busy * cores as f64 / limit).min(1.0),
        None => server.busy.max(server.busiest_thread),
    }
}

/// Returns the share (0 to 1) of the trial in which a server waited for others; `None` if that is not known, or the server is held
/// to its share and waits by design.
pub(crate) fn server_waited(server: &HostUse, cpu_limit: Option<f64>) -> Option<f64> {
    server.waited.filter(|_| cpu_limit.is_none())
}

/// Returns the share (0 to 1) of a trial's queries that got no valid answer in time.
pub(crate) fn unanswered(trial: &Trial) -> f64 {
    trial.bad() as f64 / trial.wanted().max(1) as f64
}

/// Collects the probes' evidence of a trial.
pub(crate) fn evidence(trial: &Trial, observed: &Observed, known: &Known<'_>) -> Evidence {
    let (tester, auth) = (observed.usage(Host::Tester), observed.usage(Host::Auth));
    let run_delay = trial.cpu.get("tester").and_then(|cpu| cpu.run_delay);
    let drops = |host| observed.receive_drops(host);
    let dut = observed.usage(Host::Dut);
    let of_server = |value| known.has_server.then_some(value);
    Evidence {
        // A Measurer never sleeps: its schedule shows whether it keeps up.
        tester_busy: None,
        // Waiting while the AuthDNS uses the core does not count as starvation.
        tester_run_delay: run_delay
            .map(|delay| if known.shared { (delay - auth.busy).max(0.0) } else { delay }),
        foreign_busy: Some(tester.foreign),
        tester_drops: trial.drops.tester_receive + drops(Host::Tester),
        authdns_busy: Some(auth.busy.max(auth.busiest_thread)),
        authdns_waited: known.shared.then_some(auth.run_delay),
        authdns_drops: drops(Host::Auth),
        authdns_host: None,
        dut_busy: of_server(server_busy(
            dut,
            known.testbed.cpus(Host::Dut).count(),
            known.cpu_limit,
        )),
        dut_foreign: of_server(dut.foreign),
        dut_waited: server_waited(dut, known.cpu_limit).filter(|_| known.has_server),
        dut_slow: None,
        unanswered: unanswered(trial),
        // The queries of a lab are in files.
        input_waited: 0.0,
        unserved: trial.without_room(),
        dut_drops: drops(Host::Dut),
        dut_not_taken: observed.connections_not_taken(Host::Dut),
        places: trial.connections.as_ref().map(Connections::places).unwrap_or_default(),
        link_drops: observed.link_drops,
        cpus: Host::ALL.map(|host| known.testbed.cpus(host).cpus().to_vec()),
        complete: trial.is_complete(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_held_to_its_share_waits_by_design() {
        let server =
            HostUse { busy: 0.25, busiest_thread: 0.3, waited: Some(0.6), ..HostUse::default() };
        let found = |limit| (server_busy(&server, 2, limit), server_waited(&server, limit));
        assert_eq!(found(None), (0.3, Some(0.6)));
        // Half a core of two is all that it has.
        assert_eq!(found(Some(0.5)), (1.0, None));
    }
}
