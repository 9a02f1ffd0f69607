//! Verdict of the probes on a trial: whether it is void, and its limiter.

use measure::limiter::MAX_FOREIGN;
use measure::{Evidence, Limiter, Void};
use record::Trial;

use crate::probe::Observed;
use crate::testbed::Host;

/// Returns the reason why a trial is void, if it is, and its limiter.
///
/// A trial that passed is valid, even if other processes were busy. A trial that failed while others used the cores
/// of the Tester or the server says nothing about the server's limit.
pub(crate) fn verdict(
    passed: Option<bool>,
    evidence: &Evidence,
    foreign: f64,
) -> (Option<Void>, Limiter) {
    if passed == Some(true) {
        return (None, evidence.limiter());
    }
    if let Some(starved) = evidence.starved() {
        let limiter = starved.limiter();
        return (Some(starved), limiter);
    }
    if foreign > MAX_FOREIGN {
        let void = Void::ForeignOnServer { share: foreign };
        let limiter = void.limiter();
        return (Some(void), limiter);
    }
    (None, evidence.limiter())
}

/// Collects the probes' evidence of a trial.
pub(crate) fn evidence(
    trial: &Trial,
    observed: &Observed,
    shared: bool,
    has_server: bool,
) -> Evidence {
    let (tester, auth) = (observed.usage(Host::Tester), observed.usage(Host::Auth));
    let run_delay = trial.cpu.get("tester").and_then(|cpu| cpu.run_delay);
    let drops = |host| observed.receive_drops(host);
    let dut = observed.usage(Host::Dut);
    Evidence {
        // A Measurer never sleeps: its schedule shows whether it keeps up.
        tester_busy: None,
        // Waiting while the AuthDNS uses the core does not count as starvation.
        tester_run_delay: run_delay
            .map(|delay| if shared { (delay - auth.busy).max(0.0) } else { delay }),
        foreign_busy: Some(tester.foreign),
        tester_drops: trial.drops.tester_receive.max(drops(Host::Tester)),
        authdns_busy: Some(auth.busy.max(auth.busiest_thread)),
        authdns_drops: drops(Host::Auth),
        // A server with one busy thread is at its limit, however many cores it has.
        dut_busy: has_server.then_some(dut.busy.max(dut.busiest_thread)),
        dut_drops: drops(Host::Dut),
        link_drops: observed.link_drops,
        complete: trial.sent > 0 && trial.bad() == 0 && trial.unresolved == 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disturbed_failure_is_no_verdict() {
        let dut = Evidence { dut_busy: Some(1.0), ..Evidence::default() };
        let starved = Evidence { foreign_busy: Some(0.4), ..dut.clone() };
        let done = Evidence { complete: true, ..Evidence::default() };
        let table = [
            (Some(false), &dut, 0.1, false, Limiter::Dut),
            (Some(false), &dut, 0.3, true, Limiter::Unknown),
            (Some(false), &starved, 0.0, true, Limiter::TesterCpu),
            (Some(true), &starved, 0.0, false, Limiter::TesterCpu),
            (Some(true), &done, 0.9, false, Limiter::Offered),
            (None, &dut, 0.3, true, Limiter::Unknown),
        ];
        for (passed, evidence, foreign, void, limiter) in table {
            let (why, found) = verdict(passed, evidence, foreign);
            assert_eq!(
                (why.is_some(), found),
                (void, limiter),
                "{passed:?} {evidence:?} {foreign}"
            );
        }
    }
}
