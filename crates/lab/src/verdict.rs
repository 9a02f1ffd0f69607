//! Verdict of the probes on a trial: whether it is void, its limiter, and what shows it.

use measure::{Evidence, Limiter, LimiterProof, Void};
use record::{Connections, Trial};

use crate::probe::{HostUse, Observed};
use crate::testbed::{Host, Testbed};

/// What the probes say of a trial.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Verdict {
    /// Reason why it is void; `None` if it is valid.
    pub(crate) void: Option<Void>,
    /// What limited it.
    pub(crate) limiter: Limiter,
    /// What shows that; `None` where nothing needs to be shown, or nothing was found.
    pub(crate) proof: Option<LimiterProof>,
}

impl Verdict {
    /// Returns the verdict on a trial that `passed`, if it has a goal.
    ///
    /// A trial that passed, or whose queries were all answered, is valid, even if other processes were busy. A trial
    /// that failed while others used the cores of the Tester or the server says nothing about the server's limit. Nor does one that
    /// missed a goal on slow cores; a load without a goal has losses that no speed explains.
    pub(crate) fn new(passed: Option<bool>, evidence: &Evidence) -> Self {
        let valid = passed.unwrap_or(evidence.complete);
        let slow = evidence.slow_core().filter(|_| passed == Some(false));
        let disturbed = evidence.starved().or_else(|| evidence.server_disturbed()).or(slow);
        let void = disturbed.filter(|_| !valid);
        let (limiter, proof) = match &void {
            Some(void) => (void.limiter(), None),
            None => evidence.accuse(),
        };
        Verdict { void, limiter, proof }
    }
}

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
    /// Whether queries left by a schedule; a closed loop always has a limiter.
    pub(crate) open_loop: bool,
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
    let all_answered = trial.wanted() > 0 && trial.bad() == 0 && trial.unresolved == 0;
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
        complete: all_answered
            && known.open_loop
            && trial.passed != Some(false)
            && trial.is_sustained(),
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

    #[test]
    fn a_disturbed_failure_is_no_verdict() {
        let dut = Evidence { dut_busy: Some(1.0), ..Evidence::default() };
        let starved = Evidence { foreign_busy: Some(0.4), ..dut.clone() };
        let done = Evidence { complete: true, ..Evidence::default() };
        let hog =
            |evidence: &Evidence, share| Evidence { dut_foreign: Some(share), ..evidence.clone() };
        let waits = Evidence { dut_waited: Some(0.2), ..dut.clone() };
        let slow = Evidence { dut_slow: Some(0.2), ..dut.clone() };
        let table = [
            (Some(false), hog(&dut, 0.04), false, Limiter::Dut),
            (Some(false), hog(&dut, 0.1), true, Limiter::Unknown),
            (Some(false), hog(&dut, 0.3), true, Limiter::Unknown),
            (Some(false), waits.clone(), true, Limiter::Unknown),
            (Some(true), waits, false, Limiter::Dut),
            (Some(false), slow.clone(), true, Limiter::Unknown),
            (Some(true), slow.clone(), false, Limiter::Dut),
            (None, slow, false, Limiter::Dut),
            (Some(false), starved.clone(), true, Limiter::TesterCpu),
            (Some(true), starved, false, Limiter::TesterCpu),
            (Some(true), hog(&done, 0.9), false, Limiter::Offered),
            (None, hog(&done, 0.9), false, Limiter::Offered),
            (None, hog(&dut, 0.3), true, Limiter::Unknown),
            // Stopped each second: what it dropped is no proof against it.
            (
                Some(false),
                Evidence { dut_busy: Some(0.6), dut_drops: 900, ..Evidence::default() },
                false,
                Limiter::Unknown,
            ),
        ];
        for (passed, evidence, void, limiter) in table {
            let found = Verdict::new(passed, &evidence);
            assert_eq!((found.void.is_some(), found.limiter), (void, limiter), "{evidence:?}");
            // Who is accused by a valid trial is accused with a proof.
            let nobody = [Limiter::Unknown, Limiter::Offered];
            assert_eq!(found.proof.is_some(), !void && !nobody.contains(&limiter), "{found:?}");
        }
    }
}
