//! The method: its trials, and the figures computed from them.

use measure::{Nanos, stats};
use record::{AttackKind, AttackOutcome, Trial};

use super::{DrillSpec, Drilled, Goodput};
use crate::bench::{BenchError, TrialSpec};
use crate::names::most_names;
use crate::settings::DrillSettings;
use crate::visit::{RunningVisit, VisitResult, figures, missing_table};

/// Name of the samples of the 99th percentile of latency, in microseconds.
const LATENCY_SERIES: &str = "latency.p99";

/// Time by which a sample may be late: the samples of half a second are read by a thread that may wait for its core.
const MAX_SAMPLE_DELAY: Nanos = Nanos::from_millis(250);

/// Medians of the half-second percentiles of latency in the parts of a drill, in microseconds; `None` of a part without replies.
#[derive(Clone, Copy, Debug)]
struct Latencies {
    before: Option<f64>,
    during: Option<f64>,
    after: Option<f64>,
}

impl Latencies {
    /// Computes the figures of a whole trial; a reduced trial has too few samples.
    fn of(trial: &Trial, drill: &DrillSettings) -> Self {
        let series = trial.probes.iter().find(|series| series.name == LATENCY_SERIES);
        let samples = series.map_or(&[][..], |series| &series.samples[..]);
        let between = |from: Nanos, until: Nanos| {
            let (from, until) =
                ((from + MAX_SAMPLE_DELAY).as_secs_f64(), (until + MAX_SAMPLE_DELAY).as_secs_f64());
            let within = samples.iter().filter(|(at, _)| *at > from && *at <= until);
            stats::median(&within.map(|(_, us)| *us).collect::<Vec<_>>())
        };
        let (begins, ends) = (drill.before, drill.before + drill.during);
        Latencies {
            before: between(Nanos::ZERO, begins),
            during: between(begins, ends),
            after: between(ends, drill.duration()),
        }
    }
}

/// Returns the figures of a drill.
fn found(
    drill: &DrillSettings,
    goodput: Goodput,
    attack: &AttackOutcome,
    latencies: Latencies,
) -> VisitResult {
    let percent = |share: f64| Some(100.0 * share);
    let recovered = goodput.recovery_s.map(|seconds| seconds as f64);
    let unrecovered = recovered.is_none().then(|| drill.after.as_secs_f64());
    let (queries, replies) = (attack.query_octets, attack.reply_octets);
    let amplified = drill.attack == AttackKind::Amplification && queries > 0;
    figures([
        ("goodput_before", "%", percent(goodput.before)),
        ("goodput_during", "%", percent(goodput.during)),
        ("goodput_after", "%", percent(goodput.after)),
        ("recovery", "s", recovered),
        ("not_recovered_within", "s", unrecovered),
        ("latency_p99_before", "us", latencies.before),
        ("latency_p99_during", "us", latencies.during),
        ("latency_p99_after", "us", latencies.after),
        ("amplification", "", amplified.then(|| replies as f64 / queries as f64)),
        ("attack_a_second", "", Some(attack.sent as f64 / drill.during.as_secs_f64())),
        ("attack_closed", "", drill.attack.connects().then_some(attack.closed as f64)),
    ])
}

impl RunningVisit<'_> {
    /// Runs a drill. A void drill is repeated with a restarted server, so that effects of the
    /// attack are not counted twice.
    pub(crate) fn drill(&mut self) -> Result<VisitResult, BenchError> {
        let drill = self.settings.drill.as_ref().ok_or_else(|| missing_table("drill"))?;
        let mut attacked = false;
        let (Drilled { trial, attack }, latencies) = self.valid(
            |visit| {
                if std::mem::replace(&mut attacked, true) {
                    visit.bench.start_anew()?;
                }
                visit.drill_once(drill)
            },
            |(drilled, _)| drilled.trial.void.0.as_ref(),
        )?;
        let goodput = Goodput::of_trial(&trial, drill.before, drill.during)
            .ok_or_else(|| BenchError::Failed("the load ended before the drill did".to_owned()))?;
        Ok(found(drill, goodput, &attack, latencies))
    }

    /// Runs a drill once; returns it with the latencies before, during and after the attack.
    fn drill_once(&mut self, drill: &DrillSettings) -> Result<(Drilled, Latencies), BenchError> {
        let pacing = self.settings.tester.pacing.at(drill.queries);
        let (first_name, names) = self.names(most_names(pacing, drill.duration()), false)?;
        let load = TrialSpec {
            first_name,
            names,
            ..TrialSpec::new(pacing, drill.duration(), drill.timeout)
        };
        let Drilled { mut trial, attack } = self.bench.drill(&DrillSpec {
            load,
            attack: drill.attack,
            rate: drill.rate,
            connections: drill.connections,
            begins: drill.before,
            lasts: drill.during,
        })?;
        let latencies = Latencies::of(&trial, drill);
        trial.compact().map_err(|error| BenchError::Failed(error.to_string()))?;
        let trial = self.notify(drill.queries.get(), trial);
        Ok((Drilled { trial, attack }, latencies))
    }
}
