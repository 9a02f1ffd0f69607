//! The verdict on a trial, made once, when all facts are known: those of the record are added to
//! the others, for [`Facts::verdict`].

use measure::limiter::{Limiter, MAX_FOREIGN, Void, Waits};
use measure::{Evidence, Facts, Goal, Histogram, Outstanding, Pacing, ScheduleTolerance, Warning};

use crate::SCHEMA;
use crate::connections::Connections;
use crate::request::TrialResult;
use crate::times::Times;
use crate::trial::{AuthDnsShare, Cpu, Trial, Voidness};

/// Largest share by which a load that kept its rate may have lasted longer than planned.
const RATE_ERROR: f64 = 0.01;
/// Quantile of the latencies that is the round trip of a server that is not overloaded.
const ROUND_TRIP: f64 = 0.05;

impl TrialResult {
    /// Makes the result of a trial whose verdict is open, with the further facts about it.
    pub fn new(trial: Trial, goal: Option<Goal>, facts: Facts) -> Self {
        TrialResult { schema: SCHEMA, trial, goal, facts, lockstep: None }
    }

    /// Returns the trial with its verdict: whether it met its goal, whether it is void, and what
    /// limited it. The caller does this once, when all facts are known.
    pub fn with_verdict(self) -> Trial {
        let TrialResult { mut trial, goal, facts, lockstep, .. } = self;
        let goal = goal.as_ref();
        trial.hold_to(goal);
        let own = [trial.nothing_sent(), trial.not_kept(goal), trial.stalled(goal)];
        let doubts: Vec<Void> = own.into_iter().flatten().chain(facts.doubts).collect();
        let late = doubts.iter().find_map(|doubt| match doubt {
            Void::ScheduleNotKept { late, .. } => Some(*late),
            _ => None,
        });
        // A merged trial is complete if no part has a known limiter: the shortfall of such a part
        // is not caused by the server.
        let complete = trial.is_complete() && facts.known.is_none();
        let mut evidence = Evidence { complete, ..trial.evidence(facts.evidence) };
        // Only a lock-step load waits for a lost query until its timeout, and only the links of the
        // testbed count their losses.
        if let Some(times) = lockstep.as_ref().filter(|_| trial.conditions.link.is_some()) {
            let lost = trial.lost_elsewhere();
            evidence.waits.lost = (lost, times.share_lost(lost, trial.conditions.timeout_s));
        }
        for warning in evidence.server_warnings() {
            // A merged trial has the warnings of its parts already.
            if !trial.warnings.contains(&warning) {
                trial.warnings.push(warning);
            }
        }
        let (passed, kept_its_rate) = (trial.passed, trial.kept_its_rate());
        let verdict =
            Facts { passed, kept_its_rate, doubts, evidence, known: facts.known }.verdict();
        match (&verdict.void, late) {
            (None, Some(share)) => trial.warnings.push(Warning::LateQueries { share }),
            (None, None) => {}
            // A void trial says nothing about the rates that the server answers.
            (Some(_), _) => {
                trial.warnings.retain(|w| !matches!(w, Warning::NotSustained { .. }));
            }
        }
        (trial.limiter, trial.limiter_proof) = (verdict.limiter, verdict.proof);
        trial.void = Voidness(verdict.void);
        if let Some(times) = lockstep {
            trial.experiment_times_ms = times.times_ms;
        }
        trial
    }
}

impl Trial {
    /// Returns the evidence for a limiter: what the record's facts, added to `seen`, the
    /// measurements of the probes.
    fn evidence(&self, seen: Evidence) -> Evidence {
        let cpu = |role: &str| self.cpu.get(role);
        let (tester, authdns, dut) = (cpu("tester"), cpu("authdns"), cpu("dut"));
        let worst = self.worst_authdns();
        let cpus = |cpu: Option<&Cpu>| cpu.map_or(Vec::new(), |cpu| cpu.cpus.clone());
        let of_authdns = worst.map_or_else(|| cpus(authdns), |worst| worst.cpus.clone());
        let closed = !self.conditions.pacing.is_open_loop();
        Evidence {
            // The schedule of an open loop shows whether the load is on time.
            tester_busy: self.tester_busy().filter(|_| closed),
            tester_drops: self.drops.tester_receive,
            authdns_busy: worst.map(|worst| worst.busy).or(authdns.map(Cpu::busiest)),
            authdns_drops: worst.map_or(self.drops.authdns_receive, |worst| worst.receive_drops),
            authdns_host: worst.filter(|_| self.authdns.len() > 1).map(|worst| worst.host.clone()),
            dut_busy: dut.map(Cpu::busiest).or(seen.dut_busy),
            dut_foreign: dut.and_then(|cpu| cpu.foreign),
            // A server with a limit on its CPU time waits by design.
            dut_waited: dut.filter(|cpu| cpu.limit_cores.is_none()).and_then(|cpu| cpu.waited),
            unanswered: self.bad() as f64 / self.wanted().max(1) as f64,
            unserved: self.without_room(),
            dut_drops: self.drops.dut_receive,
            dut_not_taken: self.drops.dut_not_taken,
            places: self.connections.as_ref().map(Connections::places).unwrap_or_default(),
            waits: self.waits().unwrap_or_default(),
            link_drops: self.drops.link,
            cpus: [cpus(tester), of_authdns, cpus(dut)],
            ..seen
        }
    }

    /// Returns the busy share of the Tester's cores: by the Measurer, and by the AuthDNS if it has
    /// the same cores.
    pub fn tester_busy(&self) -> Option<f64> {
        let tester = self.cpu.get("tester")?;
        // An AuthDNS of an agent has the cores of its own host.
        let is_beside = |auth: &&Cpu| self.authdns.is_empty() && auth.cpus == tester.cpus;
        let auth = self.cpu.get("authdns").filter(is_beside);
        Some(tester.busy + auth.map_or(0.0, |auth| auth.busy))
    }

    /// Returns the warning about a process, other than the server, that used so much of the Tester's cores that a trial is void
    /// for lack of them; such a process does so at every rate.
    pub fn tester_core_user(&self) -> Option<&Warning> {
        let starved = matches!(self.void.0, Some(Void::Starved { .. }));
        let uses = |warning: &&Warning| matches!(warning, Warning::CoreTaken { is_server: false, share, .. } if *share > MAX_FOREIGN);
        self.warnings.iter().find(uses).filter(|_| starved)
    }

    /// Names what limited a closed loop on a resolver that had `queries` at name servers at a time,
    /// where no probe showed it.
    pub fn limit_by_name_servers(&mut self, queries: f64) {
        let waits = self.waits().filter(|_| self.limiter == Limiter::Unknown);
        if let Some((limiter, proof)) = waits.and_then(|waits| waits.at_name_servers(queries)) {
            (self.limiter, self.limiter_proof) = (limiter, Some(proof));
        }
    }

    /// Sets the rates of sent and answered queries; the answers came within `answering_s` seconds,
    /// or within the time of sending if that is longer.
    pub fn set_rates(&mut self, answering_s: f64) {
        let rate = |count: u64, time_s: f64| if time_s > 0.0 { count as f64 / time_s } else { 0.0 };
        let sending_s = self.sending_s();
        self.offered_qps = rate(self.sent, sending_s);
        let answering_s = answering_s.max(self.fallen_behind_s());
        self.answered_qps = rate(self.answered, sending_s.max(answering_s));
    }

    /// Returns the time in seconds that a server takes for its answers that fell behind an open
    /// loop, at the rate that it had while queries were sent; 0 for other loads.
    pub(crate) fn fallen_behind_s(&self) -> f64 {
        if self.is_sustained() { 0.0 } else { self.at_rate_of_sending_s() }
    }

    /// Returns the time in seconds that the valid answers take at the rate of those that came
    /// within the planned duration: infinite if none came, 0 if that is unknown.
    pub(crate) fn at_rate_of_sending_s(&self) -> f64 {
        let within = self.valid_while_sending.filter(|_| self.valid > 0);
        within.map_or(0.0, |n| self.duration_s * self.valid as f64 / n as f64)
    }

    /// Returns the replies in time per second of [`answering_s`](Self::answering_s), or 0; in an
    /// older record `answered_qps` is larger where the server fell behind.
    pub fn replies_qps(&self) -> f64 {
        self.answered_qps.min(self.answered as f64 / self.fallen_behind_s())
    }

    /// Returns the time within which the answers came, in seconds: that of sending, in a closed
    /// loop up to the last reply, and longer for a server that fell behind.
    pub fn answering_s(&self) -> f64 {
        let (sending_s, time_s) = (self.sending_s(), self.answered as f64 / self.replies_qps());
        // A quotient of rounded numbers is not the time of sending to the last bit.
        if time_s.is_finite() && time_s > sending_s * (1.0 + 1e-9) { time_s } else { sending_s }
    }

    /// Returns the time for which queries were sent, in seconds: as planned, or longer where they
    /// left late.
    pub fn sending_s(&self) -> f64 {
        let end_s = self.duration_s * (1.0 + RATE_ERROR);
        self.last_sent_s.filter(|last_s| *last_s > end_s).unwrap_or(self.duration_s)
    }

    /// Returns the causes of waiting of a closed loop's queries; `None` for an open one, and for
    /// several loops together.
    fn waits(&self) -> Option<Waits> {
        let places =
            self.conditions.pacing.get()?.outstanding().filter(|_| self.merged.is_none())?;
        let of_replies = &self.latency_from_send_us;
        let delayed = |warning: &Warning| match warning {
            Warning::DelayedReplies { share } => Some(*share),
            _ => None,
        };
        Some(Waits {
            places,
            duration_s: self.duration_s,
            replies: of_replies.count,
            mean_us: of_replies.mean,
            least_us: Some(of_replies.min).filter(|_| self.connections.is_none()),
            delayed: self.warnings.iter().find_map(delayed).unwrap_or(0.0),
            lost: (0, 0.0),
        })
    }

    /// Returns the AuthDNS that bounds all of several hosts: the one that dropped most, or the
    /// busiest if none dropped.
    fn worst_authdns(&self) -> Option<&AuthDnsShare> {
        let worse = |a: &&AuthDnsShare, b: &&AuthDnsShare| {
            let by_drops = a.receive_drops.cmp(&b.receive_drops);
            by_drops.then_with(|| a.busy.total_cmp(&b.busy))
        };
        // If two are equal, the first one.
        self.authdns.iter().rev().max_by(worse)
    }

    /// Fills in the goal, and whether it was met; warns if the rate was not sustained.
    fn hold_to(&mut self, goal: Option<&Goal>) {
        let unsustained = self.outstanding.filter(|numbers| !numbers.is_sustained());
        self.warnings.extend(unsustained.map(|numbers| {
            let Outstanding { middle, end, .. } = numbers;
            Warning::NotSustained { middle, end }
        }));
        self.goal = goal.map(ToString::to_string);
        self.passed = goal.map(|goal| self.met(goal) && self.is_sustained());
    }

    /// Returns whether every query of an open loop got a valid answer in time, and no goal was missed. A closed loop always has a limiter.
    fn is_complete(&self) -> bool {
        self.wanted() > 0
            && self.bad() == 0
            && self.unresolved == 0
            && self.conditions.pacing.is_open_loop()
            && self.passed != Some(false)
            && self.is_sustained()
    }

    /// Returns the doubt of a trial that sent no query.
    fn nothing_sent(&self) -> Option<Void> {
        (self.wanted() == 0).then_some(Void::NothingSent)
    }

    /// Returns the doubt of an open loop that sent queries too late or not at all; if it would
    /// have missed its goal in time as well, a warning takes the place of the doubt. In a loop that
    /// ended early only the queries due until then are required.
    fn not_kept(&mut self, goal: Option<&Goal>) -> Option<Void> {
        let (open, errors) = (self.conditions.pacing.is_open_loop(), read(&self.schedule_error_us));
        let planned = if self.stopped_early { self.wanted() } else { self.planned };
        let doubt = ScheduleTolerance::default().verdict(planned, self.wanted(), &errors);
        let doubt = doubt.filter(|_| open)?;
        if !self.too_slow_although_late(goal) {
            return Some(doubt);
        }
        if let Void::ScheduleNotKept { late: share, .. } = doubt {
            self.warnings.push(Warning::LateQueries { share });
        }
        None
    }

    /// Returns whether the trial missed a bound on latency that it would have missed had all its queries left in time.
    pub(crate) fn too_slow_although_late(&self, goal: Option<&Goal>) -> bool {
        let (planned, late) = (self.planned.max(self.sent), read(&self.schedule_error_us).max());
        let latency = read(&self.latency_us);
        goal.is_some_and(|goal| goal.too_slow_although_late(planned, self.lost, &latency, late))
    }

    /// Returns the doubt of a trial that missed its goal by losses that all happened during stalls of a host.
    fn stalled(&self, goal: Option<&Goal>) -> Option<Void> {
        let goal = goal.filter(|goal| !self.met(goal))?;
        let allowed = goal.allowed_losses(self.planned.max(self.sent));
        let round_trip = read(&self.latency_from_send_us).quantile(ROUND_TRIP);
        self.disturbances.void(self.bad(), allowed, round_trip)
    }

    /// Whether the losses and the latencies are within a goal.
    fn met(&self, goal: &Goal) -> bool {
        !self.stopped_early && goal.met(self.wanted(), self.bad(), &read(&self.latency_us))
    }

    /// Whether all queries of a load at one rate left, the last of them when it was due or little later.
    fn kept_its_rate(&self) -> bool {
        let one_rate = matches!(
            self.conditions.pacing.get(),
            None | Some(Pacing::Constant { .. } | Pacing::Poisson { .. })
        );
        one_rate && self.wanted() >= self.planned && self.sending_s() <= self.duration_s
    }
}

impl Cpu {
    /// Returns the share (0 to 1) of its available CPU time that the role used. A role with one
    /// busy thread is at its limit, however many cores it has; so is one that has used up its CPU
    /// quota.
    fn busiest(&self) -> f64 {
        match self.limit_cores {
            Some(limit) => (self.busy * self.cpus.len() as f64 / limit).min(1.0),
            None => self.busy.max(self.busiest_thread.unwrap_or(0.0)),
        }
    }
}

/// Returns the histogram of times; empty if it cannot be read.
fn read(times: &Times) -> Histogram {
    times.histogram().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use measure::{Limiter, Nanos};

    use super::*;

    /// A load of 1,000 queries in a second, a tenth of them 5 ms late; `lost` have no answer, and the last left at `last_sent_s`.
    fn late(lost: u64, last_sent_s: f64, goal: Option<&Goal>) -> TrialResult {
        let mut errors = Histogram::new();
        errors.record_many(Nanos::from_millis(5), 100);
        errors.record_many(Nanos::ZERO, 900);
        let trial = Trial {
            planned: 1_000,
            sent: 1_000,
            answered: 1_000 - lost,
            valid: 1_000 - lost,
            lost,
            duration_s: 1.0,
            last_sent_s: Some(last_sent_s),
            schedule_error_us: Times::from(&errors),
            ..Trial::default()
        };
        TrialResult::new(trial, goal.cloned(), Facts::default())
    }

    #[test]
    fn a_rate_that_passed_although_its_queries_were_late_stands() {
        let goal = &Goal::zero_loss();
        let table = [
            ("all answered", Some(goal), 0, 1.005, false),
            ("one lost", Some(goal), 1, 1.005, true),
            ("all answered, but at a lower rate", Some(goal), 0, 1.2, true),
            ("without a goal", None, 0, 1.005, true),
        ];
        for (what, goal, lost, last, void) in table {
            let trial = late(lost, last, goal).with_verdict();
            assert_eq!(trial.void.is_void(), void, "{what}: {:?}", trial.void);
            let limiter = if void { Limiter::TesterSchedule } else { Limiter::Offered };
            assert_eq!((trial.limiter, trial.warnings.len()), (limiter, usize::from(!void)));
        }
    }

    #[test]
    fn a_void_trial_does_not_say_that_its_rate_was_too_high() {
        for is_void in [true, false] {
            let mut result = late(1, 1.2, None);
            result.trial.outstanding = Some(Outstanding { middle: 1.0, end: 895.0, allowed: 9.0 });
            if !is_void {
                result.trial.schedule_error_us = Times::default();
            }
            let trial = result.with_verdict();
            let said = |warning: &Warning| matches!(warning, Warning::NotSustained { .. });
            assert_eq!(trial.void.is_void(), is_void, "{:?}", trial.void);
            assert_eq!(trial.warnings.iter().any(said), !is_void, "{:?}", trial.warnings);
        }
    }

    #[test]
    fn a_rate_is_of_the_time_that_sending_took() {
        for (last_s, answering_s, sent, answered) in [
            (0.999, 0.0, 1_000.0, 1_000.0),
            (1.005, 0.0, 1_000.0, 1_000.0),
            (2.5, 0.0, 400.0, 400.0),
            (0.999, 4.0, 1_000.0, 250.0),
        ] {
            let mut trial = late(0, last_s, None).trial;
            trial.set_rates(answering_s);
            let rates = [trial.offered_qps, trial.answered_qps, trial.valid_qps()];
            assert_eq!(rates, [sent, answered, answered], "{last_s}");
        }
    }

    #[test]
    fn answers_after_the_sending_are_not_of_the_rate_of_a_server_that_fell_behind() {
        for (allowed, answered_qps) in [(400.0, 1_000.0), (399.0, 600.0)] {
            let mut trial = late(0, 1.0, None).trial;
            trial.outstanding = Some(Outstanding { middle: 200.0, end: 400.0, allowed });
            trial.valid_while_sending = Some(600);
            trial.answered_qps = 1_000.0;
            let of_older = [trial.replies_qps(), trial.valid_qps()];
            trial.set_rates(0.0);
            assert_eq!([trial.answered_qps, trial.valid_qps()], [answered_qps; 2], "{allowed}");
            assert_eq!(of_older, [answered_qps; 2], "{allowed}");
        }
    }

    #[test]
    fn the_rate_while_sending_is_of_the_planned_duration_and_may_be_zero() {
        for (within, last_sent_s, answered_qps) in [(400, 1.5, 400.0), (0, 1.0, 0.0)] {
            let mut trial = late(0, last_sent_s, None).trial;
            trial.outstanding = Some(Outstanding { middle: 200.0, end: 400.0, allowed: 9.0 });
            trial.valid_while_sending = Some(within);
            trial.set_rates(0.0);
            assert_eq!([trial.answered_qps, trial.valid_qps()], [answered_qps; 2], "{within}");
            assert!(trial.answering_s() <= 2.5, "{within}: {} s", trial.answering_s());
        }
    }

    #[test]
    fn the_gravest_of_several_doubts_is_named() {
        let (after_s, lost) = (1.0, Box::new(Void::TesterLost { why: "it died".to_owned() }));
        let ran_out = Void::UpdatesRanOut { after_s };
        let (spread, bound) = (Nanos::from_millis(2), Nanos::from_millis(1));
        let apart = Void::StartSpread { spread, bound };
        let lost = Void::Part { part: "2/2".to_owned(), why: lost };
        let mut all = vec![ran_out];
        for void in [None, Some(apart), Some(Void::NothingSent), Some(lost)] {
            all.extend(void);
            let wanted = all.last().cloned();
            let mut result = late(0, 1.0, Some(&Goal::zero_loss()));
            result.facts.doubts.clone_from(&all);
            assert_eq!(result.with_verdict().void.0, wanted);
        }
    }

    #[test]
    fn a_server_that_is_held_to_its_share_waits_by_design() {
        let evidence = |limit_cores| {
            let (busiest_thread, waited) = (Some(0.3), Some(0.6));
            let cpus = vec![0, 1];
            let cpu =
                Cpu { busy: 0.25, busiest_thread, waited, limit_cores, cpus, ..Cpu::default() };
            let trial = Trial { cpu: [("dut".to_owned(), cpu)].into(), ..Trial::default() };
            let Evidence { dut_busy, dut_waited, .. } = trial.evidence(Evidence::default());
            (dut_busy, dut_waited)
        };
        assert_eq!(evidence(None), (Some(0.3), Some(0.6)));
        // Half a core of two is all that it has.
        assert_eq!(evidence(Some(0.5)), (Some(1.0), None));
    }
}
