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

/// Setting that names the transport of a cell, and the transport that the others are compared with.
const TRANSPORT: &str = "transport";
const UDP: &str = "udp";

/// Returns the capacity of a cell in percent of the same server's over UDP with equal settings;
/// `None` if one of the two is missing or both are lower bounds.
pub(crate) fn of_udp<'a>(
    cell: &CellRecord,
    mut cells: impl Iterator<Item = &'a CellRecord>,
) -> Option<String> {
    let other = |cell: &CellRecord| {
        let mut settings = cell.settings.clone();
        (settings.remove(TRANSPORT), settings)
    };
    let (transport, settings) = other(cell);
    transport?;
    let base = cells.find(|base| {
        let (over, others) = other(base);
        base.server == cell.server
            && base.over == cell.over
            && over.as_deref() == Some(UDP)
            && others == settings
    })?;
    let percent = 100.0 * cell.median_qps? / base.median_qps.filter(|udp| *udp > 0.0)?;
    let sign = match (cell.at_least, base.at_least) {
        _ if std::ptr::eq(cell, base) => "",
        (false, false) => "",
        (true, false) => ">= ",
        (false, true) => "<= ",
        (true, true) => return None,
    };
    Some(format!("{sign}{percent:.0} %"))
}

/// Returns a quantile (0 to 1) of the latency of the trials that represent a cell, in microseconds:
/// for several searches at the found rate nearest to the median, since latencies at different rates
/// cannot be merged. Where the record has no histograms, the percentiles of one trial are there all
/// the same, and those of several cannot be merged.
pub(crate) fn latency_us(cell: &CellRecord, quantile: f64) -> Option<f64> {
    if let Some(latency) = cell.merged(|t| &t.trial.latency_us) {
        return Some(latency.quantile(quantile).as_micros_f64());
    }
    match cell.representative()[..] {
        [one] => one.trial.latency_us.kept(quantile),
        _ => None,
    }
}

/// Returns the number at which that latency was measured: a rate in queries a second, or another
/// quantity that the search varies.
pub(crate) fn latency_rate(cell: &CellRecord) -> Option<f64> {
    let trial = cell.representative().pop()?;
    Some(if cell.method == "search" { trial.rate_qps } else { trial.trial.offered_qps })
}

/// Returns the rate at which a latency of a cell was measured, in words; `None` of other figures.
pub(crate) fn at_rate(cell: &CellRecord, figure: &str) -> Option<String> {
    let rate = latency_rate(cell).filter(|_| figure.starts_with("latency"))?;
    Some(format!("at {} queries/s", thousands(rate)))
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
    Some(trial.is_sustained() && goal.met(trial.wanted(), trial.bad(), &latency))
}

/// Rates of a search so far, in queries a second or another searched quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Bracket {
    /// Highest number at which the goal was met.
    pub(crate) passed: Option<f64>,
    /// Lowest number above the passed one at which the goal was missed.
    pub(crate) failed: Option<f64>,
}

impl Bracket {
    /// Returns the bracket of trials that are not void: pairs of a number and whether the goal was met.
    pub(crate) fn of(trials: impl Iterator<Item = (f64, bool)> + Clone) -> Self {
        let passed = trials.clone().filter(|t| t.1).map(|t| t.0).reduce(f64::max);
        let above = |at: &f64| passed.is_none_or(|passed| *at > passed);
        let failed = trials.filter(|t| !t.1).map(|t| t.0).filter(above).reduce(f64::min);
        Bracket { passed, failed }
    }

    /// Returns the description of the search so far: the numbers that passed and failed.
    pub(crate) fn words(&self, unit: &str) -> String {
        let number = |at: Option<f64>| at.map(thousands);
        match (number(self.passed), number(self.failed)) {
            (Some(passed), Some(failed)) => format!("{passed} {unit} passed, {failed} failed"),
            (Some(passed), None) => format!("{passed} {unit} passed, no higher rate failed"),
            (None, Some(failed)) => format!("no rate passed, {failed} {unit} failed"),
            (None, None) => "no trial has ended except void ones".to_owned(),
        }
    }
}

/// Returns the findings of an interrupted search, in words; `None` if none was interrupted.
pub(crate) fn interrupted(cell: &CellRecord) -> Option<String> {
    let of_it = || cell.trials.iter().filter(|t| t.repeat >= cell.repeats_made());
    if cell.method != "search" || of_it().next().is_none() {
        return None;
    }
    let valid = of_it().filter_map(|t| Some((t.rate_qps, met(cell, t)?)));
    let bracket = Bracket::of(valid).words(cell.capacity_unit());
    Some(format!("search {} was interrupted: {bracket}", cell.repeats_made() + 1))
}

/// Returns the number of deciding trials that were sustained: "5 of 5"; `None` if no trial has this
/// fact.
pub(crate) fn sustained(cell: &CellRecord) -> Option<String> {
    let deciding = cell.deciding();
    let known = deciding.iter().filter_map(|t| t.trial.outstanding);
    let (count, all) = known
        .fold((0, 0), |(count, all), numbers| (count + u32::from(numbers.is_sustained()), all + 1));
    (all > 0).then(|| format!("{count} of {all}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacities_are_compared_with_that_over_udp() {
        let cell = |server: &str, transport: &str, threads: &str, qps: f64, at_least: bool| {
            let settings = [(TRANSPORT, transport), ("threads", threads)];
            let settings = settings.map(|(key, value)| (key.to_owned(), value.to_owned()));
            let mut cell = CellRecord::new(server, settings.into(), "search");
            (cell.median_qps, cell.at_least) = (Some(qps), at_least);
            cell
        };
        let cells = [
            cell("a", "tls", "1", 400.0, false),
            cell("a", "udp", "1", 1_000.0, false),
            cell("a", "udp", "2", 2_000.0, true),
            cell("a", "tcp", "2", 500.0, false),
            cell("a", "tls", "2", 500.0, true),
            cell("a", "https", "1", 100.0, true),
            cell("b", "tls", "1", 100.0, false),
            CellRecord::new("a", Default::default(), "search"),
        ];
        let shown: Vec<_> =
            cells.iter().map(|cell| of_udp(cell, cells.iter()).unwrap_or_default()).collect();
        let wanted = ["40 %", "100 %", "100 %", "<= 25 %", "", ">= 10 %", "", ""];
        assert_eq!(shown, wanted);
    }
}
