//! The verdicts on a merged trial: whether it is void, meets its goal, and what limited it.

use measure::{
    Evidence, Goal, Histogram, Limiter, LimiterProof, Nanos, Outstanding, Pacing,
    ScheduleTolerance, Void, Warning,
};

use super::part::{LostPart, MergeTerms, Part};
use crate::connections::Connections;
use crate::parts::{Merged, PartOutcome};
use crate::trial::{Trial, Voidness};

/// Share of the duration by which two parts may start apart: so much of a trial has not the whole rate.
const START_ERROR: f64 = 0.01;
/// Largest share of the duration by which the last query of a load that kept its rate may be late.
const RATE_ERROR: f64 = 0.01;
/// Quantile of the latencies that is the round trip of a server that is not overloaded.
const ROUND_TRIP: f64 = 0.05;

/// Limiters of a part that are limiters of the whole, in the order in which they are looked for.
const OF_A_PART: [Limiter; 8] = [
    Limiter::TesterCpu,
    Limiter::TesterSchedule,
    Limiter::TesterDrops,
    Limiter::TesterClients,
    Limiter::TesterInput,
    Limiter::Link,
    Limiter::AuthDns,
    Limiter::Dut,
];

/// The parts, and the merged histograms.
pub(super) struct Whole<'p> {
    pub(super) parts: &'p [Part],
    pub(super) terms: &'p MergeTerms,
    pub(super) latency: Histogram,
    pub(super) latency_from_send: Histogram,
    pub(super) schedule_error: Histogram,
}

impl Whole<'_> {
    /// Fills in the verdicts on `trial`, the sum of the parts.
    pub(super) fn conclude(&self, trial: &mut Trial) {
        let merged = self.merged(trial.duration_s);
        trial.outstanding = self.outstanding();
        trial.goal = self.terms.goal.as_ref().map(ToString::to_string);
        trial.passed = self.terms.goal.as_ref().map(|goal| {
            let met = goal.met(trial.wanted(), trial.bad(), &self.latency);
            met && !trial.stopped_early && trial.is_sustained()
        });
        let schedule = self.schedule(trial);
        let void = self.void(trial, &merged, schedule.clone());
        (trial.limiter, trial.limiter_proof) = self.limiter(trial, void.as_ref());
        if let (None, Some(Void::ScheduleNotKept { late, .. })) = (&void, schedule) {
            trial.warnings.push(Warning::LateQueries { share: late });
        }
        if let Some(Outstanding { middle, end, .. }) =
            trial.outstanding.filter(|numbers| !numbers.is_sustained())
        {
            trial.warnings.push(Warning::NotSustained { middle, end });
        }
        let unknown = |part: &PartOutcome| !part.void.is_void() && part.clock_error_us.is_none();
        if self.parts.len() > 1 && merged.parts.iter().any(unknown) {
            trial.warnings.push(Warning::ClocksNotChecked);
        }
        trial.void = Voidness(void);
        trial.merged = Some(merged);
    }

    fn pacing(&self) -> Option<Pacing> {
        self.parts[0].trial.conditions.pacing.get()
    }

    /// Returns the sum of the outstanding queries, if all parts counted them.
    fn outstanding(&self) -> Option<Outstanding> {
        let all: Option<Vec<Outstanding>> =
            self.parts.iter().map(|part| part.trial.outstanding).collect();
        Outstanding::sum(&all?)
    }

    /// Returns why the schedule of the whole was not kept.
    fn schedule(&self, trial: &Trial) -> Option<Void> {
        // A replay has no pacing, and a schedule.
        let open = self.pacing().is_none_or(Pacing::is_open_loop);
        let planned = if trial.stopped_early { trial.wanted() } else { trial.planned };
        let tolerance = ScheduleTolerance::default();
        open.then(|| tolerance.verdict(planned, trial.wanted(), &self.schedule_error)).flatten()
    }

    fn void(&self, trial: &Trial, merged: &Merged, schedule: Option<Void>) -> Option<Void> {
        if let Some(lost) = self.terms.lost.first() {
            let why = Box::new(Void::TesterLost { why: lost.why.clone() });
            return Some(Void::Part { part: lost.title(), why });
        }
        if trial.wanted() == 0 {
            return Some(Void::NothingSent);
        }
        let of_part = |wanted: fn(&Void) -> bool| {
            self.parts.iter().find_map(|part| {
                let why = part.trial.void.0.clone().filter(wanted)?;
                Some(Void::Part { part: part.title(), why: Box::new(why) })
            })
        };
        // As for one Tester: a rate that passed although it left unevenly passed, and one that was too slow for that failed.
        let stands = self.kept_its_rate(trial) && trial.passed == Some(true);
        let late = self.latest().or(schedule);
        of_part(|why| !matches!(why, Void::ScheduleNotKept { .. } | Void::Starved { .. }))
            .or_else(|| of_part(|why| matches!(why, Void::Starved { .. })).filter(|_| !stands))
            .or_else(|| late.filter(|_| !stands && !self.too_slow_although_late(trial)))
            .or_else(|| start_spread(merged))
            .or_else(|| self.stalled(trial))
    }

    /// Returns the verdict on the part with the largest share of late queries; `None` if all parts kept their schedules.
    ///
    /// A host that pauses can make others a little late; it is the one to name.
    fn latest(&self) -> Option<Void> {
        let late = |part: &Part| match &part.trial.void.0 {
            Some(why @ Void::ScheduleNotKept { late, .. }) => {
                Some((*late, part.title(), why.clone()))
            }
            _ => None,
        };
        let latest = self.parts.iter().rev().filter_map(late).max_by(|a, b| a.0.total_cmp(&b.0));
        latest.map(|(_, part, why)| Void::Part { part, why: Box::new(why) })
    }

    /// Whether the trial missed a bound on latency that it would have missed had all its queries left in time.
    fn too_slow_although_late(&self, trial: &Trial) -> bool {
        let (planned, late) = (trial.planned.max(trial.sent), self.schedule_error.max());
        self.terms.goal.as_ref().is_some_and(|goal| {
            goal.too_slow_although_late(planned, trial.lost, &self.latency, late)
        })
    }

    /// Whether all queries of a load at one rate left, the last of them when it was due or little later.
    fn kept_its_rate(&self, trial: &Trial) -> bool {
        let one_rate =
            matches!(self.pacing(), Some(Pacing::Constant { .. } | Pacing::Poisson { .. }));
        let late_s = self.schedule_error.max().as_secs_f64();
        one_rate && trial.wanted() >= trial.planned && late_s <= trial.duration_s * RATE_ERROR
    }

    /// Returns why a trial is void whose losses all happened during stalls of a host.
    fn stalled(&self, trial: &Trial) -> Option<Void> {
        let goal: &Goal = self.terms.goal.as_ref()?;
        if !trial.stopped_early && goal.met(trial.sent, trial.bad(), &self.latency) {
            return None;
        }
        let allowed = goal.allowed_losses(trial.planned.max(trial.sent));
        let round_trip = self.latency_from_send.quantile(ROUND_TRIP);
        trial.disturbances.void(trial.bad(), allowed, round_trip)
    }

    /// Returns the limiter of the whole: what ended in one part bounds all of them.
    fn limiter(&self, trial: &Trial, void: Option<&Void>) -> (Limiter, Option<LimiterProof>) {
        if let Some(void) = void {
            return (void.limiter(), None);
        }
        let of = |limiter| self.parts.iter().find(move |part| part.trial.limiter == limiter);
        if let Some(part) = OF_A_PART.into_iter().find_map(of) {
            return (part.trial.limiter, part.trial.limiter_proof.clone());
        }
        let complete = self.parts.iter().all(|part| part.trial.limiter == Limiter::Offered)
            && trial.passed != Some(false)
            && trial.is_sustained();
        let places = trial.connections.as_ref().map(Connections::places).unwrap_or_default();
        Evidence { complete, places, ..Evidence::default() }.accuse()
    }

    /// Returns what the trial was merged from, with the starts of the parts.
    fn merged(&self, duration_s: f64) -> Merged {
        let starts: Vec<Start> = self.parts.iter().map(Start::of).collect();
        let first = starts.iter().map(|start| start.at_us).fold(f64::INFINITY, f64::min);
        let early = starts.iter().map(|s| s.at_us - s.error_us.unwrap_or(0.0));
        let late = starts.iter().map(|s| s.at_us + s.error_us.unwrap_or(0.0));
        let spread = late.fold(f64::NEG_INFINITY, f64::max) - early.fold(f64::INFINITY, f64::min);
        let bound =
            self.terms.start_bound.map_or(duration_s * START_ERROR * 1e6, Nanos::as_micros_f64);
        let outcome = |(part, start): (&Part, &Start)| PartOutcome {
            name: part.name.clone(),
            slice: part.slice(),
            sent: part.trial.sent,
            valid: part.trial.valid,
            bad: part.trial.bad(),
            start_us: start.at_us - first,
            clock_error_us: start.error_us,
            schedule_error_p99_us: part.trial.schedule_error_us.p99,
            busy: part.trial.cpu.get("tester").map_or(0.0, |cpu| cpu.busy),
            clock: part.clock,
            void: part.trial.void.clone(),
            command: part.trial.conditions.command.clone(),
        };
        let mut parts: Vec<PartOutcome> = self.parts.iter().zip(&starts).map(outcome).collect();
        parts.extend(self.terms.lost.iter().map(lost_outcome));
        parts.sort_by_key(|part| part.slice);
        Merged {
            // One Tester has no spread, whatever its clock says.
            start_spread_us: if self.parts.len() > 1 { spread } else { 0.0 },
            start_bound_us: bound,
            parts,
        }
    }
}

/// Returns the outcome of a part of which there is no trial.
fn lost_outcome(lost: &LostPart) -> PartOutcome {
    PartOutcome {
        name: lost.name.clone(),
        slice: lost.slice,
        sent: 0,
        valid: 0,
        bad: 0,
        start_us: 0.0,
        clock_error_us: None,
        schedule_error_p99_us: 0.0,
        busy: 0.0,
        clock: None,
        void: Voidness(Some(Void::TesterLost { why: lost.why.clone() })),
        command: String::new(),
    }
}

/// Start of a part on the clock of its host.
struct Start {
    /// Microseconds after the agreed start; without one, since 1970.
    at_us: f64,
    /// Largest error of the clock, in microseconds, if it is known.
    error_us: Option<f64>,
}

impl Start {
    fn of(part: &Part) -> Self {
        let conditions = &part.trial.conditions;
        match conditions.agreed_start {
            Some(start) => Start { at_us: start.error_us, error_us: start.clock_error_us },
            None => {
                let unix_s = conditions.started_unix_s.unwrap_or(0.0);
                Start { at_us: unix_s * 1e6, error_us: None }
            }
        }
    }
}

/// Returns that the parts started too far apart, if they did.
fn start_spread(merged: &Merged) -> Option<Void> {
    let time = |us: f64| Nanos::from_secs_f64(us / 1e6);
    (merged.start_spread_us > merged.start_bound_us).then(|| Void::StartSpread {
        spread: time(merged.start_spread_us),
        bound: time(merged.start_bound_us),
    })
}
