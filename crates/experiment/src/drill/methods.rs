//! The method: what is run, and the figures that are made of it.

use measure::{Nanos, stats};
use record::{AttackKind, AttackOutcome, Trial};

use super::{DrillSpec, Drilled, Goodput};
use crate::bench::{BenchError, TrialSpec};
use crate::names::most_names;
use crate::settings::DrillSettings;
use crate::visit::{Found, Visiting, figures, without};

/// Name of the samples of the 99th percentile of latency, in microseconds.
const LATENCY: &str = "latency.p99";

/// Returns the median of the half-second percentiles of latency between two times from the start of a trial, in microseconds.
fn latency_us(trial: &Trial, from: Nanos, until: Nanos) -> Option<f64> {
    let series = trial.probes.iter().find(|series| series.name == LATENCY)?;
    let within = |at: f64| at > from.as_secs_f64() && at <= until.as_secs_f64();
    let values = series.samples.iter().filter(|(at, _)| within(*at)).map(|(_, us)| *us);
    stats::median(&values.collect::<Vec<_>>())
}

/// Returns the figures of a drill.
fn found(drill: &DrillSettings, trial: &Trial, attack: &AttackOutcome) -> Option<Found> {
    let seconds = |time: Nanos| time.as_secs_f64().round() as usize;
    let goodput = Goodput::of(&trial.series, seconds(drill.before), seconds(drill.during))?;
    let percent = |share: f64| Some(100.0 * share);
    let recovered = goodput.recovery_s.map(|seconds| seconds as f64);
    let unrecovered = recovered.is_none().then(|| drill.after.as_secs_f64());
    let (from, until) = (drill.before, drill.before + drill.during);
    let (queries, replies) = (attack.query_octets, attack.reply_octets);
    let amplified = drill.attack == AttackKind::Amplification && queries > 0;
    Some(figures([
        ("goodput_before", "%", percent(goodput.before)),
        ("goodput_during", "%", percent(goodput.during)),
        ("goodput_after", "%", percent(goodput.after)),
        ("recovery", "s", recovered),
        ("not_recovered_within", "s", unrecovered),
        ("latency_p99_before", "us", latency_us(trial, Nanos::ZERO, from)),
        ("latency_p99_during", "us", latency_us(trial, from, until)),
        ("latency_p99_after", "us", latency_us(trial, until, drill.duration())),
        ("amplification", "", amplified.then(|| replies as f64 / queries as f64)),
        ("attack_a_second", "", Some(attack.sent as f64 / drill.during.as_secs_f64())),
        ("attack_closed", "", drill.attack.connects().then_some(attack.closed as f64)),
    ]))
}

impl Visiting<'_> {
    /// Runs a drill.
    pub(crate) fn drill(&mut self) -> Result<Found, BenchError> {
        let drill = self.settings.drill.as_ref().ok_or_else(|| without("drill"))?;
        let pacing = self.settings.tester.pacing.at(drill.queries);
        let wanted = most_names(pacing, drill.duration());
        let Drilled { trial, attack } = self.valid(
            |visit| {
                let (first_name, names) = visit.names(wanted, false)?;
                let load = TrialSpec {
                    pacing,
                    duration: drill.duration(),
                    timeout: drill.timeout,
                    goal: None,
                    early_stop: false,
                    first_name,
                    names,
                };
                let Drilled { trial, attack } = visit.bench.drill(&DrillSpec {
                    load,
                    attack: drill.attack,
                    rate: drill.rate,
                    connections: drill.connections,
                    begins: drill.before,
                    lasts: drill.during,
                })?;
                let trial = visit.notify(drill.queries.get(), trial);
                Ok(Drilled { trial, attack })
            },
            |drilled| drilled.trial.void.0.as_ref(),
        )?;
        found(drill, &trial, &attack)
            .ok_or_else(|| BenchError::Failed("the load ended before the drill did".to_owned()))
    }
}
