//! The verdict on a recorded trial: the facts that its record has, for [`Facts::verdict`].

use measure::limiter::Void;
use measure::{
    Evidence, Facts, Goal, Histogram, Limiter, LimiterProof, Outstanding, Pacing,
    ScheduleTolerance, Warning,
};

use crate::times::Times;
use crate::trial::{Trial, Voidness};

/// Largest share by which a load that kept its rate may have lasted longer than planned.
const RATE_ERROR: f64 = 0.01;
/// Quantile of the latencies that is the round trip of a server that is not overloaded.
const ROUND_TRIP: f64 = 0.05;

impl Trial {
    /// Fills in the goal, and whether it was met; warns if the rate was not sustained.
    pub fn hold_to(&mut self, goal: Option<&Goal>) {
        let unsustained = self.outstanding.filter(|numbers| !numbers.is_sustained());
        self.warnings.extend(unsustained.map(|numbers| {
            let Outstanding { middle, end, .. } = numbers;
            Warning::NotSustained { middle, end }
        }));
        self.goal = goal.map(ToString::to_string);
        self.passed = goal.map(|goal| self.met(goal) && self.is_sustained());
    }

    /// Returns whether every query of an open loop got a valid answer in time, and no goal was missed. A closed loop always has a limiter.
    pub fn is_complete(&self) -> bool {
        self.wanted() > 0
            && self.bad() == 0
            && self.unresolved == 0
            && self.conditions.pacing.is_open_loop()
            && self.passed != Some(false)
            && self.is_sustained()
    }

    /// Judges the trial by what it was void for so far, further doubts, and what the probes saw. `known` is a limiter that these do not show.
    pub fn judge(
        &mut self,
        doubts: impl IntoIterator<Item = Void>,
        evidence: Evidence,
        known: Option<(Limiter, Option<LimiterProof>)>,
    ) {
        let doubts: Vec<Void> = self.void.0.take().into_iter().chain(doubts).collect();
        let late = doubts.iter().find_map(|doubt| match doubt {
            Void::ScheduleNotKept { late, .. } => Some(*late),
            _ => None,
        });
        let (passed, kept_its_rate) = (self.passed, self.kept_its_rate());
        let verdict = Facts { passed, kept_its_rate, doubts, evidence, known }.verdict();
        if let (None, Some(share)) = (&verdict.void, late) {
            self.warnings.push(Warning::LateQueries { share });
        }
        (self.limiter, self.limiter_proof) = (verdict.limiter, verdict.proof);
        self.void = Voidness(verdict.void);
    }

    /// Judges the trial anew with a further doubt, if there is one.
    pub fn doubt(&mut self, doubt: Option<Void>) {
        let known = Some((self.limiter, self.limiter_proof.take()));
        self.judge(doubt, Evidence::default(), known);
    }

    /// Returns the doubt of a trial that sent nothing.
    pub fn nothing_sent(&self) -> Option<Void> {
        (self.wanted() == 0).then_some(Void::NothingSent)
    }

    /// Returns the doubt of an open loop whose queries left too late or not all; one that missed its goal whatever they did has a warning
    /// instead. Of one that ended early only the queries due until then are required.
    pub fn not_kept(&mut self, goal: Option<&Goal>) -> Option<Void> {
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
    pub fn stalled(&self, goal: Option<&Goal>) -> Option<Void> {
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
        let planned_s = self.duration_s * (1.0 + RATE_ERROR);
        let in_time = self.last_sent_s.is_none_or(|last_s| last_s <= planned_s);
        one_rate && self.wanted() >= self.planned && in_time
    }
}

/// Returns the histogram of times; empty if it cannot be read.
fn read(times: &Times) -> Histogram {
    times.histogram().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use measure::Nanos;

    use super::*;

    /// A load of 1,000 queries in a second, a tenth of them 5 ms late; `lost` have no answer, and the last left at `last_sent_s`.
    fn late(lost: u64, last_sent_s: f64, goal: Option<&Goal>) -> Trial {
        let mut errors = Histogram::new();
        errors.record_many(Nanos::from_millis(5), 100);
        errors.record_many(Nanos::ZERO, 900);
        let mut trial = Trial {
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
        trial.hold_to(goal);
        let doubts = trial.not_kept(goal);
        assert!(doubts.is_some());
        trial.judge(doubts, Evidence { complete: lost == 0, ..Evidence::default() }, None);
        trial
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
            let trial = late(lost, last, goal);
            assert_eq!(trial.void.is_void(), void, "{what}: {:?}", trial.void);
            let limiter = if void { Limiter::TesterSchedule } else { Limiter::Offered };
            assert_eq!((trial.limiter, trial.warnings.len()), (limiter, usize::from(!void)));
        }
    }

    #[test]
    fn a_doubt_keeps_the_limiter_until_it_voids() {
        let mut trial = late(0, 1.0, Some(&Goal::zero_loss()));
        trial.doubt(None);
        assert_eq!((trial.limiter, trial.void.is_void()), (Limiter::Offered, false));
        trial.doubt(Some(Void::UpdatesRanOut { after_s: 1.0 }));
        assert_eq!((trial.limiter, trial.void.is_void()), (Limiter::Unknown, true));
        // What it was void for first stays.
        trial.doubt(Some(Void::Interrupted));
        assert_eq!(trial.void.0, Some(Void::UpdatesRanOut { after_s: 1.0 }));
    }
}
