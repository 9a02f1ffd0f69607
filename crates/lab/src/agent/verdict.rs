//! What the agent saw, in the record of a trial: the server's CPU and drops, and the verdict with them.

use measure::stall::{Side, WatchedCore};
use measure::{Evidence, Goal, Stall, Warning};
use record::request::WaitFor;
use record::{Trial, TrialRequest, Voidness};

use super::message::Seen;
use crate::verdict::{Verdict, server_busy, server_waited};

/// Quantile of the latencies that is the round trip of a server that is not overloaded.
const ROUND_TRIP: f64 = 0.05;

/// What is known of a trial beside its record.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    /// Whether queries left by a schedule; a closed loop always has a limiter.
    pub open_loop: bool,
    /// Whether the workers spin, so that their CPU time says nothing.
    pub spins: bool,
    /// Whether the AuthDNS shares the Measurer's core by design.
    pub shared_core: bool,
    /// The goal of the trial.
    pub goal: Option<Goal>,
    /// Number of cores whose time the server may have at the most, if that is limited.
    pub cpu_limit: Option<f64>,
}

impl Conditions {
    /// Returns the conditions of a request.
    pub fn of(request: &TrialRequest) -> Self {
        Conditions {
            open_loop: request.pacing.is_open_loop(),
            spins: request.sockets.wait == WaitFor::Spin,
            shared_core: request.sockets.shared_core,
            goal: request.goal.clone(),
            cpu_limit: None,
        }
    }
}

/// Adds what the agent on the AuthDNS' host saw to a trial; [`judge`] decides with it.
pub fn add_authdns(trial: &mut Trial, seen: &Seen) {
    trial.cpu.insert("authdns".to_owned(), seen.usage.record(&seen.cpus));
    trial.drops.authdns_receive += seen.receive_drops;
    for stall in &seen.disturbances.stalls {
        trial.disturbances.add_stall(Stall { side: Side::AuthDns, ..*stall });
    }
    let watched = seen.disturbances.watched.iter();
    let watched = watched.map(|core| WatchedCore { side: Side::AuthDns, ..*core });
    trial.disturbances.watched.extend(watched);
}

/// Adds what the agent saw to a trial, and decides anew whether it is void and what limited it.
pub fn judge(trial: &mut Trial, seen: &Seen, conditions: &Conditions) {
    let evidence = evidence(trial, seen, conditions);
    trial.cpu.insert("dut".to_owned(), seen.usage.record(&seen.cpus));
    trial.drops.dut_receive += seen.receive_drops;
    seen.disturbances.stalls.iter().for_each(|stall| trial.disturbances.add_stall(*stall));
    trial.disturbances.watched.extend_from_slice(&seen.disturbances.watched);
    let warnings: Vec<Warning> = evidence.server_warnings().into_iter().collect();
    trial.warnings.extend(warnings);
    if trial.void.is_void() {
        return;
    }
    let verdict = Verdict::new(trial.passed, &evidence);
    (trial.limiter, trial.limiter_proof) = (verdict.limiter, verdict.proof);
    trial.void = Voidness(verdict.void.or_else(|| stalled(trial, conditions.goal.as_ref()?)));
    if let Some(void) = &trial.void.0 {
        (trial.limiter, trial.limiter_proof) = (void.limiter(), None);
    }
}

fn evidence(trial: &Trial, seen: &Seen, conditions: &Conditions) -> Evidence {
    let tester = trial.cpu.get("tester").cloned().unwrap_or_default();
    let (usage, own) = (&seen.usage, !conditions.shared_core);
    let authdns = trial.cpu.get("authdns");
    // Waiting while the AuthDNS uses the core does not count as starvation.
    let beside = authdns.filter(|_| !own).map(|authdns| authdns.busy);
    let run_delay = tester.run_delay.filter(|_| own || beside.is_some());
    Evidence {
        tester_busy: (!conditions.open_loop && !conditions.spins).then_some(tester.busy),
        tester_run_delay: run_delay.map(|delay| (delay - beside.unwrap_or(0.0)).max(0.0)),
        foreign_busy: tester.foreign.filter(|_| own),
        tester_drops: trial.drops.tester_receive,
        authdns_busy: authdns.map(|authdns| authdns.busy),
        authdns_waited: authdns.filter(|_| !own).and_then(|authdns| authdns.run_delay),
        authdns_drops: trial.drops.authdns_receive,
        link_drops: trial.drops.link,
        dut_busy: Some(server_busy(usage, seen.cpus.len(), conditions.cpu_limit)),
        dut_foreign: Some(usage.foreign),
        dut_waited: server_waited(usage, conditions.cpu_limit),
        dut_drops: seen.receive_drops,
        cpus: [tester.cpus, authdns.map_or(Vec::new(), |a| a.cpus.clone()), seen.cpus.clone()],
        complete: trial.sent > 0
            && trial.bad() == 0
            && trial.unresolved == 0
            && conditions.open_loop
            && trial.passed != Some(false)
            && trial.is_sustained(),
    }
}

/// Returns why a trial is void that missed its goal by losses during stalls, those of the server's cores among them.
fn stalled(trial: &Trial, goal: &Goal) -> Option<measure::Void> {
    if trial.passed != Some(false) {
        return None;
    }
    let allowed = goal.allowed_losses(trial.planned.max(trial.sent));
    let round_trip = trial.latency_from_send_us.histogram().ok()?.quantile(ROUND_TRIP);
    trial.disturbances.void(trial.bad(), allowed, round_trip)
}
