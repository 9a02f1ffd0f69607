//! The facts for the verdict on a merged trial: reasons to void it, and the limiters of its parts.

use measure::{Facts, Limiter, LimiterProof, Nanos, Outstanding, Void, Warning};

use super::part::{LostPart, MergeTerms, Part};
use crate::parts::{Merged, PartOutcome};
use crate::request::TrialResult;
use crate::trial::{Trial, Voidness};

/// Share of the duration by which two parts may differ in their start: meanwhile the rate is not
/// the full one.
const START_ERROR: f64 = 0.01;

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

/// The parts, and the terms of the merge.
pub(super) struct MergedParts<'p> {
    pub(super) parts: &'p [Part],
    pub(super) terms: &'p MergeTerms,
}

impl MergedParts<'_> {
    /// Makes the result of `trial`, the sum of the parts.
    pub(super) fn conclude(&self, mut trial: Trial) -> TrialResult {
        let merged = self.merged(trial.duration_s);
        trial.outstanding = self.outstanding();
        let doubts = self.doubts(&trial, &merged);
        let facts = Facts { doubts, known: self.limiter_of_a_part(), ..Facts::default() };
        let unknown = |part: &PartOutcome| !part.void.is_void() && part.clock_error_us.is_none();
        if self.parts.len() > 1 && merged.parts.iter().any(unknown) {
            trial.warnings.push(Warning::ClocksNotChecked);
        }
        trial.merged = Some(merged);
        TrialResult::new(trial, self.terms.goal.clone(), facts)
    }

    /// Returns the sum of the outstanding queries, if all parts counted them.
    fn outstanding(&self) -> Option<Outstanding> {
        let all: Option<Vec<Outstanding>> =
            self.parts.iter().map(|part| part.trial.outstanding).collect();
        Outstanding::sum(&all?)
    }

    /// Returns the reasons why the trial may be void. A late part or a starved Tester comes after
    /// all other reasons of the parts.
    fn doubts(&self, trial: &Trial, merged: &Merged) -> Vec<Void> {
        let lost = self.terms.lost.first().map(|lost| {
            let why = Box::new(Void::TesterLost { why: lost.why.clone() });
            Void::Part { part: lost.title(), why }
        });
        let of_parts = |wanted: fn(&Void) -> bool| {
            self.parts.iter().filter_map(move |part| {
                let why = part.trial.void.0.clone().filter(wanted)?;
                Some(Void::Part { part: part.title(), why: Box::new(why) })
            })
        };
        let goal = self.terms.goal.as_ref();
        let late = self.latest().filter(|_| !trial.too_slow_although_late(goal));
        let others =
            of_parts(|why| !matches!(why, Void::ScheduleNotKept { .. } | Void::Starved { .. }));
        let starved = of_parts(|why| matches!(why, Void::Starved { .. }));
        lost.into_iter()
            .chain(others)
            .chain(starved)
            .chain(late)
            .chain(start_spread(merged))
            .collect()
    }

    /// Returns the verdict on the part with the largest share of late queries; `None` if all parts kept their schedules.
    ///
    /// A host that pauses can make others a little late; this part is the one to name.
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

    /// Returns the limiter of a part that limits the whole: the end of one part's resources bounds
    /// all parts.
    fn limiter_of_a_part(&self) -> Option<(Limiter, Option<LimiterProof>)> {
        let of = |limiter| self.parts.iter().find(move |part| part.trial.limiter == limiter);
        let part = &OF_A_PART.into_iter().find_map(of)?.trial;
        Some((part.limiter, part.limiter_proof.clone()))
    }

    /// Returns the parts of the merged trial, with their starts.
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
            // One Tester has no spread.
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
        void: Voidness(Some(Void::TesterLost { why: lost.why.clone() })),
        ..PartOutcome::default()
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
