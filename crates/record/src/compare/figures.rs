//! The figures of a cell that can be compared, each with its evidence of certainty.
//!
//! | cell | figures | how sure |
//! |---|---|---|
//! | with searches | `capacity` | the repeats, and the brackets of the searches |
//! | with figures of a method | these; beside a capacity they need not be known well | the repeats |
//! | with trials only | `valid` (share of the queries) | the count of its queries: a binomial interval |
//! | | `answered` (per second) | the repeats; for a single closed loop the seconds of its trial |
//! | | `p50`, `p90`, `p99` (microseconds) | the repeats; for a single trial the ranks of its histogram, and above the median only if asked for |
//! | | `cpu` (the server's time per answer), if asked for | the repeats |
//!
//! Only valid trials count.

use std::collections::{BTreeMap, BTreeSet};

use measure::stats::{self, RepeatWarning, Repeated};
use measure::{Histogram, Pacing};

use crate::{CellRecord, Trial};

/// Percentiles of latencies, by name.
const PERCENTILES: [(&str, f64); 3] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)];
/// Share by which latencies of single trials may differ: one trial does not show the spread over trials, and latencies
/// of a server change more from trial to trial than its rates.
const SINGLE_LATENCY_MARGIN: f64 = 0.5;
/// Smallest number of seconds of a trial that show the variation of its rate, without the first and
/// the last.
const ENOUGH_SECONDS: usize = 5;

/// Role of a figure in the decision of a comparison, unless a condition names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
    /// The figure decides whether the second run is slower, and whether the comparison is conclusive.
    Full,
    /// The figure may show that the second run is slower; its interval need not be narrow.
    SlowerOnly,
    /// The figure counts only if a condition names it.
    IfNamed,
}

/// Evidence of a figure within its trials, in addition to the repeats.
#[derive(Clone, Debug)]
pub(super) enum Within {
    /// The figure is a share: `good` of `total`.
    Share {
        /// Number of queries that count as good.
        good: u64,
        /// Number of all queries of the trials.
        total: u64,
    },
    /// The figure is a quantile (0 to 1) of these times.
    Quantile(Box<Histogram>, f64),
    /// The figure is the mean of these parts.
    Parts(Repeated),
}

/// Values of one figure of one cell.
#[derive(Clone, Debug)]
pub(super) struct Values {
    pub(super) unit: String,
    /// Median; the capacity of rounds is their trimmed mean.
    pub(super) value: f64,
    pub(super) repeated: Repeated,
    /// Evidence within the trials; used for shares, and without repeats.
    pub(super) within: Option<Within>,
    pub(super) weight: Weight,
    pub(super) at_least: bool,
    pub(super) doubts: Vec<RepeatWarning>,
}

impl Values {
    /// Returns the values; `None` without a positive one.
    fn new(unit: &str, values: &[f64], repeated: Repeated) -> Option<Self> {
        let value = stats::median(values).filter(|_| repeated.count() > 0)?;
        let doubts = stats::repeat_warnings(values);
        Some(Values {
            unit: unit.to_owned(),
            value,
            repeated,
            within: None,
            weight: Weight::Full,
            at_least: false,
            doubts,
        })
    }

    /// Returns whether the evidence within the trials decides a comparison with `other`.
    pub(super) fn is_decided_within(&self, other: &Values) -> bool {
        match (&self.within, &other.within) {
            (Some(Within::Share { .. }), Some(_)) => true,
            (Some(_), Some(_)) => self.repeated.count().min(other.repeated.count()) == 1,
            _ => false,
        }
    }

    /// Returns the interval of the value within the trials.
    pub(super) fn interval(&self, confidence: f64) -> Option<(f64, f64)> {
        match self.within.as_ref()? {
            Within::Share { good, total } => Some(stats::share_interval(*good, *total, confidence)),
            Within::Quantile(times, quantile) => {
                let (low, high) = stats::quantile_interval(times, *quantile, confidence)?;
                Some((low.as_micros_f64(), high.as_micros_f64()))
            }
            Within::Parts(parts) => {
                let own = stats::Scatter::default();
                let terms = stats::Terms { confidence, margin: 0.0, seed: 1 };
                // The parts against their own mean, which is known without error.
                let (low, high) = stats::ratio(parts, parts, own, &terms)?.interval?;
                Some((self.value * low, self.value * high))
            }
        }
    }

    /// Returns the share by which two runs of the same server may differ in this figure.
    pub(super) fn margin(&self, asked: f64) -> f64 {
        match self.within {
            Some(Within::Quantile(..)) => asked.max(SINGLE_LATENCY_MARGIN),
            _ => asked,
        }
    }
}

/// Returns whether a valid trial of a cell has the server's whole CPU time, with the kernel's part.
pub(super) fn has_spent(cell: &CellRecord) -> bool {
    let valid = cell.trials.iter().filter(|t| !t.trial.void.is_void());
    valid.filter_map(|t| t.trial.cpu.get("dut")).any(|cpu| cpu.spent_s.is_some())
}

/// Returns the figures of a cell that can be compared, by name; `named` are figures of conditions.
/// CPU times are whole ones if both cells have such ([`has_spent`]), else those of the processes.
pub(super) fn figures(
    cell: &CellRecord,
    named: &BTreeSet<&str>,
    has_spent: bool,
) -> BTreeMap<String, Values> {
    let mut found = BTreeMap::new();
    let brackets = cell.capacities.iter().filter_map(|c| Some((c.qps?, c.failed_qps.or(c.qps)?)));
    let repeated = Repeated::bracketed(brackets);
    if let Some(mut values) = Values::new(cell.capacity_unit(), &cell.found_qps(), repeated) {
        values.at_least = cell.at_least;
        found.insert("capacity".to_owned(), values);
    }
    let has_capacity = !found.is_empty();
    let void = void_repeats(cell);
    let by_trials = cell.capacities.is_empty() && cell.repeats_its_trials();
    for (name, figure) in cell.figures.iter().filter(|_| !by_trials) {
        // A figure with a value for each repeat loses the values of void repeats.
        let per_repeat = figure.values.len() == void.len();
        let is_void = |repeat: usize| per_repeat && void[repeat];
        let valid = figure.values.iter().enumerate().filter(|(repeat, _)| !is_void(*repeat));
        let values: Vec<f64> = valid.map(|(_, value)| *value).collect();
        // A capacity is no median of its rounds.
        let capacity = cell.capacity.as_ref().filter(|_| name == "capacity");
        let repeated = match capacity {
            Some(_) => Repeated::of_rounds(&values),
            None => Repeated::new(&values),
        };
        let Some(mut values) = Values::new(&figure.unit, &values, repeated) else { continue };
        values.value = capacity.map_or(values.value, |capacity| capacity.qps);
        // A figure other than a capacity is often measured once.
        values.weight = if has_capacity { Weight::SlowerOnly } else { Weight::Full };
        found.insert(name.clone(), values);
    }
    if by_trials || (found.is_empty() && cell.capacities.is_empty() && cell.figures.is_empty()) {
        found = of_trials(cell, named, has_spent);
    }
    found
}

/// Returns whether all trials of a repeat are void, for each repeat; empty without trials.
fn void_repeats(cell: &CellRecord) -> Vec<bool> {
    let repeats = cell.trials.iter().map(|t| t.repeat as usize + 1).max().unwrap_or(0);
    let mut void = vec![true; repeats];
    for record in cell.trials.iter().filter(|t| !t.trial.void.is_void()) {
        void[record.repeat as usize] = false;
    }
    void
}

/// Returns the figures of a cell that has only trials.
fn of_trials(
    cell: &CellRecord,
    named: &BTreeSet<&str>,
    has_spent: bool,
) -> BTreeMap<String, Values> {
    let valid = cell.trials.iter().filter(|t| !t.trial.void.is_void());
    let records: Vec<_> = valid.collect();
    let trials: Vec<&Trial> = records.iter().map(|t| &t.trial).collect();
    let mut found = BTreeMap::new();
    let values = |unit: &str, of: &dyn Fn(&Trial) -> f64| {
        let values: Vec<f64> = trials.iter().map(|trial| of(trial)).collect();
        Values::new(unit, &values, Repeated::new(&values))
    };
    if let Some(mut answered) = values("qps", &|t| t.replies_qps()) {
        if let [single] = trials[..] {
            answered.within = seconds(single).map(Within::Parts);
            // An open loop is offered its rate, so its share of valid replies is the whole result.
            let is_closed = matches!(single.conditions.pacing.get(), Some(Pacing::Window { .. }));
            answered.weight = if is_closed { Weight::Full } else { Weight::IfNamed };
        }
        found.insert("answered".to_owned(), answered);
    }
    let is_open = trials.iter().all(|trial| trial.conditions.pacing.is_open_loop());
    if is_open && records.windows(2).any(|pair| pair[0].rate_qps != pair[1].rate_qps) {
        // Steps of several rates have no common share and no common latency.
        return found;
    }
    // The latency of closed loops follows from their answers.
    let is_usual = is_open || trials.len() == 1;
    let counts = |name: &str| named.contains(name) || is_usual && name != "p90";
    let share = share_of_valid(&trials).filter(|_| counts("valid"));
    found.extend(share.map(|v| ("valid".to_owned(), v)));
    for (name, quantile) in PERCENTILES {
        if !counts(name) {
            continue;
        }
        found.extend(latency(&trials, quantile).map(|v| (name.to_owned(), v)));
    }
    if named.contains("cpu") {
        let per_answer = |t: &&Trial| {
            let cpu = t.cpu.get("dut").filter(|_| t.valid > 0)?;
            let time_s = if has_spent { cpu.spent_s? } else { cpu.user_s + cpu.system_s };
            Some(time_s * 1e6 / t.valid as f64)
        };
        let each: Vec<f64> = trials.iter().filter_map(per_answer).collect();
        let cpu = Values::new("us/answer", &each, Repeated::new(&each));
        found.extend(cpu.map(|v| ("cpu".to_owned(), Values { weight: Weight::IfNamed, ..v })));
    }
    found
}

/// Returns the share of queries with a valid reply in time, over all trials; zero is a value too.
fn share_of_valid(trials: &[&Trial]) -> Option<Values> {
    let sum = |of: fn(&Trial) -> u64| trials.iter().map(|trial| of(trial)).sum::<u64>();
    // A drop on the Tester's own host is no failed answer.
    let (good, total) = (sum(|t| t.valid), sum(|t| t.wanted() - t.dropped_here().min(t.sent)));
    (total > 0).then(|| Values {
        unit: "share".to_owned(),
        value: good as f64 / total as f64,
        repeated: Repeated::new(&vec![1.0; trials.len()]),
        within: Some(Within::Share { good, total }),
        weight: Weight::Full,
        at_least: false,
        doubts: Vec::new(),
    })
}

/// Returns a quantile of the latency; lost queries count with the timeout.
fn latency(trials: &[&Trial], quantile: f64) -> Option<Values> {
    let of = |t: &&Trial| match quantile {
        0.5 => t.latency_us.p50,
        0.9 => t.latency_us.p90,
        _ => t.latency_us.p99,
    };
    let values: Vec<f64> = trials.iter().map(of).collect();
    let mut found = Values::new("us", &values, Repeated::new(&values))?;
    found.weight = Weight::SlowerOnly;
    if let [single] = trials {
        let times = single.latency_us.histogram().ok();
        found.within = times.map(|times| Within::Quantile(Box::new(times), quantile));
        if quantile > 0.5 {
            // The slowest queries of a trial come together, after a stall for instance: their number says little about
            // how sure the quantile is.
            found.weight = Weight::IfNamed;
        }
    }
    Some(found)
}

/// Returns the valid replies in each whole second of a trial, without the first and the last; `None` if there are too
/// few.
fn seconds(trial: &Trial) -> Option<Repeated> {
    let all = trial.seconds_of_sending();
    let inner = all.get(1..all.len().saturating_sub(1))?;
    let rates: Vec<f64> = inner.iter().map(|second| second.valid as f64).collect();
    let repeated = Repeated::new(&rates);
    (repeated.count() >= ENOUGH_SECONDS).then_some(repeated)
}
