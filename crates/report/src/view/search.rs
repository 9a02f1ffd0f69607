//! Results of searches: the value of each, the latency at the rate found, whether a trial met the goal.

use measure::Goal;
use record::{Capacity, CellRecord, TrialRecord};

use super::thousands;

/// Returns a rate, with the sign of a lower bound; `none` without one.
pub(crate) fn rate(qps: Option<f64>, at_least: bool, none: &str) -> String {
    let sign = if at_least { ">= " } else { "" };
    qps.map_or_else(|| none.to_owned(), |qps| format!("{sign}{}", thousands(qps)))
}

/// Returns the value of each search, in order; void repeats have none.
pub(crate) fn each_search(cell: &CellRecord) -> String {
    let value = |capacity: &Capacity| rate(capacity.qps, capacity.at_least, "none");
    cell.capacities.iter().map(value).collect::<Vec<_>>().join("; ")
}

/// Returns a quantile (0 to 1) of the latency at the rates that the searches found, in microseconds.
pub(crate) fn latency_us(cell: &CellRecord, quantile: f64) -> Option<f64> {
    let latency = cell.merged(|t| &t.trial.latency_us)?;
    Some(latency.quantile(quantile).as_micros_f64())
}

/// Returns whether a valid trial met the goal of its cell; `None` without a goal, and for a void trial. Trials that
/// are only added up to a verdict have no verdict of their own in the record.
pub(crate) fn met(cell: &CellRecord, record: &TrialRecord) -> Option<bool> {
    let trial = &record.trial;
    if trial.void.is_void() || trial.passed.is_some() {
        return trial.passed.filter(|_| !trial.void.is_void());
    }
    let goal: Goal = cell.goal.parse().ok()?;
    let latency = trial.latency_us.histogram().ok()?;
    Some(trial.is_sustained() && goal.met(trial.sent, trial.bad(), &latency))
}

/// Returns how many of the deciding trials were sustained: "5 of 5"; `None` if no trial says it.
pub(crate) fn sustained(cell: &CellRecord) -> Option<String> {
    let deciding = cell.deciding();
    let known = deciding.iter().filter_map(|t| t.trial.outstanding);
    let (count, all) = known
        .fold((0, 0), |(count, all), numbers| (count + u32::from(numbers.is_sustained()), all + 1));
    (all > 0).then(|| format!("{count} of {all}"))
}
