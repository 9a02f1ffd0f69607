//! The verdict on a trial. The Tester, the lab, agents and merges gather facts; one function judges
//! them, once.
//!
//! ```text
//! doubts ────┬─> the gravest one that the outcome does not excuse ──> void
//! evidence ──┴─> no doubt is left ──> the limiter, and what shows it
//! ```

use serde::{Deserialize, Serialize};

use crate::limiter::{Evidence, Limiter, Void};
use crate::proof::LimiterProof;

/// Facts about a trial, from which its verdict follows. The record adds whether it passed and kept
/// its rate, and its part of the evidence.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// Whether the trial met its goal; `None` without one.
    pub passed: Option<bool>,
    /// Whether all queries of a load at one rate left, the last of them when it was due or little later.
    pub kept_its_rate: bool,
    /// Reasons, in addition to the evidence, why the trial may be void.
    pub doubts: Vec<Void>,
    /// Measurements of the probes, which show a limiter or makes the trial void.
    pub evidence: Evidence,
    /// Limiter that the evidence does not show, with its proof: of several Testers, one whose own
    /// resources were used up limits the whole trial.
    pub known: Option<(Limiter, Option<LimiterProof>)>,
}

/// Verdict on a trial: whether it counts, and what limited it.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialVerdict {
    /// Reason why the trial is void; `None` if it is valid.
    pub void: Option<Void>,
    /// Limiter of the trial; for a void trial the cause of that.
    pub limiter: Limiter,
    /// Proof of the limiter; `None` where none is needed or found.
    pub proof: Option<LimiterProof>,
}

impl Facts {
    /// Decides whether the trial is void, and else what limited it.
    pub fn verdict(self) -> TrialVerdict {
        let doubts = self.doubts.iter().cloned().chain(self.evidence.doubts());
        let void = doubts.filter(|doubt| !self.explains(doubt)).min_by_key(Void::rank);
        let (limiter, proof) = match (&void, self.known) {
            (Some(void), _) => (void.limiter(), None),
            (None, Some(known)) => known,
            (None, None) => self.evidence.server_as_limit(),
        };
        TrialVerdict { void, limiter, proof }
    }

    /// Returns whether the outcome is valid in spite of a doubt.
    ///
    /// A rate that passed although its queries left unevenly passed: a stall and the burst after it
    /// are harder for a server than an even rate. So did one that passed, or was answered whole,
    /// while others were busy; if the queries of the latter left late, the lack of CPU is the
    /// reason. What others took of the server's cores, slow cores and stalls excuse a goal that was
    /// missed; a figure without a goal stands, as that of such a machine. So does a closed loop
    /// whose Tester starved, with that as its limiter.
    fn explains(&self, doubt: &Void) -> bool {
        let stands = self.kept_its_rate && self.passed == Some(true);
        let complete = self.evidence.complete;
        let closed = self.evidence.waits.places > 0;
        let late = || self.doubts.iter().any(|doubt| matches!(doubt, Void::ScheduleNotKept { .. }));
        match doubt {
            Void::ScheduleNotKept { .. } => stands,
            Void::Starved { .. } => {
                stands || (self.passed.is_none() && (complete || closed) && !late())
            }
            Void::NotSent { .. } => self.passed.unwrap_or(complete),
            Void::ForeignOnServer { .. }
            | Void::ServerWaited { .. }
            | Void::SlowCore { .. }
            | Void::Stalled { .. } => self.passed != Some(false),
            Void::Part { why, .. } => self.explains(why),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limiter::Waits;
    use crate::units::Nanos;

    #[test]
    fn a_disturbed_failure_is_no_verdict() {
        let dut = Evidence { dut_busy: Some(1.0), ..Evidence::default() };
        let starved = Evidence { foreign_busy: Some(0.4), ..dut.clone() };
        let closed = Waits { places: 16, ..Waits::default() };
        let closed = Evidence { waits: closed, ..starved.clone() };
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
            (Some(true), starved.clone(), false, Limiter::TesterCpu),
            (Some(true), hog(&done, 0.9), false, Limiter::Offered),
            (None, hog(&done, 0.9), false, Limiter::Offered),
            (None, hog(&dut, 0.3), false, Limiter::Dut),
            (None, closed, false, Limiter::TesterCpu),
            (None, starved, true, Limiter::TesterCpu),
            // Stopped each second: what it dropped is no proof against it.
            (
                Some(false),
                Evidence { dut_busy: Some(0.6), dut_drops: 900, ..Evidence::default() },
                false,
                Limiter::Unknown,
            ),
        ];
        for (passed, evidence, void, limiter) in table {
            let facts = Facts { passed, kept_its_rate: true, evidence, ..Facts::default() };
            let found = facts.clone().verdict();
            assert_eq!((found.void.is_some(), found.limiter), (void, limiter), "{facts:?}");
            // A valid trial that names a limiter has its proof.
            let nobody = [Limiter::Unknown, Limiter::Offered];
            assert_eq!(found.proof.is_some(), !void && !nobody.contains(&limiter), "{found:?}");
        }
    }

    /// All was answered: the queries that left late make the trial void, and the lack of CPU is why
    /// they did.
    #[test]
    fn a_starved_tester_whose_queries_were_late_is_named() {
        let late =
            Void::ScheduleNotKept { late: 0.84, tolerance: Nanos::from_millis(1), sent: 1.0 };
        let starved = Void::Starved { run_delay: 0.8, foreign: 0.0 };
        let [idle, waits] = [None, Some(0.8)].map(|tester_run_delay| Evidence {
            tester_run_delay,
            complete: true,
            ..Evidence::default()
        });
        let table = [
            (vec![late.clone()], &waits, None, Some(starved)),
            (vec![late.clone()], &idle, None, Some(late.clone())),
            (vec![late], &waits, Some(true), None),
            (vec![], &waits, None, None),
        ];
        for (doubts, evidence, passed, wanted) in table {
            let (evidence, kept_its_rate) = (evidence.clone(), true);
            let facts = Facts { passed, kept_its_rate, doubts, evidence, known: None };
            assert_eq!(facts.clone().verdict().void, wanted, "{facts:?}");
        }
    }
}
