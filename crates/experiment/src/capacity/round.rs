//! A round: what a closed loop shows about the server and the Tester.

use measure::limiter::MAX_RUN_DELAY;
use measure::stats::median;
use measure::{Nanos, OpenPacing, Transport};
use record::{CellRecord, Round, Trial, TrialRecord};

use crate::bench::Bench;
use crate::names::NameBudget;
use crate::settings::CapacitySettings;

/// Confidence (0 to 1) of the intervals of capacities and ratios.
pub(super) const CONFIDENCE: f64 = 0.95;
/// Share of its available CPU time above which a server, or the Tester, is at its limit.
pub(super) const SATURATED: f64 = 0.9;
/// Share of the server's cores, or of the Tester's, above which use by others is reported.
pub(super) const OTHERS: f64 = 0.03;
/// Share of the capacity offered to find whether the demand falls with the load.
pub(super) const HALF: f64 = 0.5;
/// Share of the queries up to which a window counts as free of losses.
pub(super) const LOSS: f64 = 0.001;
/// Time before the whole seconds that count, and length of the steps in which answers are counted.
pub(super) const LEAD_TIME: Nanos = Nanos::from_millis(300);
pub(super) const STEP: Nanos = Nanos::from_millis(50);

/// A round of a cell that is to be made.
pub struct NextRound<'a> {
    /// Settings of the method, with the results of earlier rounds.
    pub settings: &'a CapacitySettings,
    /// Spacing of the queries of open loops.
    pub pacing: OpenPacing,
    /// Number of the round, from 0.
    pub round: u32,
    /// Number of rounds after which the cell ends in any case.
    pub rounds: u32,
    /// Bench that runs the trials, with the server started.
    pub bench: &'a mut dyn Bench,
    /// Names of the zone that no trial has used yet.
    pub names: &'a mut NameBudget,
    /// Function that gets each stored trial.
    pub seen: &'a mut dyn FnMut(&TrialRecord),
    /// Function that gets the most answers a second after each loop that tried a window.
    pub tried: &'a mut dyn FnMut(f64),
}

/// Returns the round of a closed loop.
pub(crate) fn round_of(trial: &Trial, round: u32) -> Round {
    // A loop that ran out of names ends with its last replies.
    let valid = trial.valid_while_sending.unwrap_or(trial.valid);
    let (valid, seconds) = (valid as f64, trial.duration_s.max(1e-9));
    let (dut, tester) = (trial.cpu.get("dut"), trial.cpu.get("tester"));
    let spent = dut.and_then(|dut| Some((dut, dut.spent_s?)));
    let programs = dut.and_then(|dut| dut.programs);
    Round {
        round,
        qps: answers_after_lead(trial).unwrap_or(valid / seconds),
        cpu_us_per_answer: spent.filter(|_| valid > 0.0).map(|(_, spent_s)| spent_s * 1e6 / valid),
        programs_us_per_answer: programs.filter(|_| valid > 0.0).map(|p| p.ran_s * 1e6 / valid),
        work_ns: dut.and_then(|dut| dut.work_ns),
        full_speed_work_ns: dut.and_then(|dut| dut.full_speed_work_ns),
        cores: spent.map(|(dut, _)| dut.cores()),
        busy: dut.and_then(|dut| dut.used(seconds)),
        busiest_thread: dut
            .filter(|dut| dut.threads > Some(1) || dut.cores() > 1.0)
            .and_then(|dut| dut.busiest_thread),
        tester_busy: trial.tester_busy().zip(tester).map(|(busy, tester)| busy / tester.left()),
        foreign: dut.and_then(|dut| dut.foreign),
        tester_foreign: tester.and_then(|tester| match dut.and_then(|dut| dut.foreign) {
            Some(_) => tester.foreign,
            // One of the other processes may be the server, but each of them delays the sending of
            // a loop.
            None => tester.run_delay.filter(|delay| *delay > MAX_RUN_DELAY),
        }),
        unanswered: (trial.bad() - trial.dropped_here()) as f64 / trial.sent.max(1) as f64,
        connections_per_answer: connections_per_answer(trial),
    }
}

/// Returns how many connections a trial opened for each valid answer, without connections opened
/// before; `None` for trials that keep their connections, over datagrams, and over several
/// transports, whose connections differ.
fn connections_per_answer(trial: &Trial) -> Option<f64> {
    let connections = trial.connections.as_ref().filter(|c| c.by_transport.is_empty())?;
    connections.queries_per_connection?;
    let counts = trial.valid > 0 && trial.conditions.transport != Transport::Udp.word();
    let opened = connections.established.saturating_sub(connections.clients.into());
    counts.then(|| opened as f64 / trial.valid as f64)
}

/// Returns the valid answers a second of a trial after its first [`LEAD_TIME`]; `None` without
/// steps.
fn answers_after_lead(trial: &Trial) -> Option<f64> {
    let steps = trial.steps.as_ref()?;
    let counted =
        steps.steps.get((LEAD_TIME.0 / STEP.0) as usize..).filter(|steps| !steps.is_empty())?;
    let answered: u64 = counted.iter().map(|step| step.answered).sum();
    let valid = trial.valid as f64 / trial.answered.max(1) as f64;
    Some(answered as f64 * valid / (counted.len() as f64 * steps.length_s))
}

/// Returns the median of a value of the rounds; `None` if a round lacks it.
pub(super) fn middle<'r>(
    rounds: impl IntoIterator<Item = &'r Round>,
    of: impl Fn(&Round) -> Option<f64>,
) -> Option<f64> {
    median(&rounds.into_iter().map(of).collect::<Option<Vec<f64>>>()?)
}

/// Returns the share of its available CPU time that the server used; with a saturated thread at
/// least the busy share of that thread.
pub(super) fn used(round: &Round) -> Option<f64> {
    let full_thread = round.busiest_thread.filter(|share| *share >= SATURATED);
    Some(round.busy?.max(full_thread.unwrap_or(0.0)))
}

/// Returns the answers a second at which the server's CPU would be used up at the full speed of its cores: cores / demand, with several
/// threads at most answers / busiest thread.
pub(super) fn limit_of(round: &Round, speed: f64) -> Option<f64> {
    let by_demand = round.cores? * 1e6 / round.cpu_us_per_answer?;
    let by_thread = round.busiest_thread.filter(|share| *share > 0.0);
    let by_thread = by_thread.map_or(f64::MAX, |share| round.qps / share.min(1.0));
    Some(by_demand.min(by_thread.max(round.qps)) / speed)
}

/// Returns the speed of the server's cores in a round, as a share of their full speed: the highest that any round of the cell saw.
pub fn speed_in(cell: &CellRecord) -> impl Fn(&Round) -> f64 + use<> {
    let full = cell.rounds.iter().filter_map(|round| round.full_speed_work_ns).min();
    move |round| full.and_then(|full| round.core_speed(full)).unwrap_or(1.0)
}

#[cfg(test)]
mod tests {
    use record::{Cpu, EngineKind};

    use super::*;

    #[test]
    fn what_the_testers_own_device_dropped_is_no_unanswered_query() {
        let mut trial = Trial { sent: 100, answered: 80, valid: 70, lost: 20, ..Trial::default() };
        trial.drops.tester_send = 15;
        let unanswered = |trial: &Trial| (round_of(trial, 0).unanswered * 100.0).round();
        assert_eq!(
            unanswered(&trial),
            30.0,
            "a socket does not count as sent what it does not take"
        );
        trial.conditions.engine = Some(EngineKind::Kernel);
        assert_eq!(unanswered(&trial), 15.0);
        trial.drops.tester_receive = 10;
        assert_eq!(unanswered(&trial), 10.0, "ten of them are no valid answers");
    }

    #[test]
    fn beside_an_unknown_server_others_are_what_the_tester_waited_for() {
        for (run_delay, others) in [(0.5, 0.5), (0.05, 0.0)] {
            let tester = Cpu { run_delay: Some(run_delay), foreign: Some(0.3), ..Cpu::default() };
            let cpu = [("tester".to_owned(), tester)].into();
            assert_eq!(round_of(&Trial { cpu, ..Trial::default() }, 0).others(), others);
        }
    }
}
