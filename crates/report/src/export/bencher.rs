//! Figures for services that watch a project's benchmarks for regressions.

use record::Run;
use serde_json::{Map, Value, json};

use super::{Measure, measures};
use crate::view::cell_name;

/// Selection of figures for a list of github-action-benchmark, which has one direction for a whole
/// list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Figures of which more is better: rates.
    Bigger,
    /// Figures of which less is better: times, memory, CPU.
    Smaller,
}

/// Returns a run in the [Bencher Metric Format](https://bencher.dev/docs/reference/bencher-metric-format/): for each cell each
/// figure's value, with the lowest and highest value of the repeats.
pub fn bencher(run: &Run) -> Value {
    let metric = |measure: &Measure| {
        let mut metric = json!({ "value": measure.value });
        if measure.values.len() > 1 {
            metric["lower_value"] = measure.lowest().into();
            metric["upper_value"] = measure.highest().into();
        }
        // The format has no field for the unit.
        let unit =
            if measure.unit.is_empty() { String::new() } else { format!(" ({})", measure.unit) };
        (format!("{}{unit}", measure.name.replace('_', "-")), metric)
    };
    let cell = |cell| {
        let metrics: Map<String, Value> = measures(cell).iter().map(metric).collect();
        (cell_name(cell), Value::Object(metrics))
    };
    Value::Object(
        run.results.iter().map(cell).filter(|(_, metrics)| *metrics != json!({})).collect(),
    )
}

/// Returns a run as
/// [github-action-benchmark](https://github.com/benchmark-action/github-action-benchmark) reads it
/// with its tools `customBiggerIsBetter` and `customSmallerIsBetter`.
pub fn github_benchmark(run: &Run, better: Better) -> Value {
    let mut entries = Vec::new();
    for cell in &run.results {
        let wanted = |measure: &Measure| measure.more_is_better() == (better == Better::Bigger);
        for measure in measures(cell).into_iter().filter(wanted) {
            entries.push(json!({
                "name": format!("{}: {}", cell_name(cell), measure.name.replace('_', " ")),
                "unit": measure.unit,
                "value": measure.value,
                "range": format!("{} to {}", measure.lowest(), measure.highest()),
                "extra": format!("{} of {} repeats\n{}", measure.values.len(), cell.repeats_made(), run.plan.command),
            }));
        }
    }
    Value::Array(entries)
}
