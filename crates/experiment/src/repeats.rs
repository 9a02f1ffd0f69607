//! Repeated searches: the repeat is the statistical unit (RFC 8219: at least 20; median, 1st and 99th percentile).

use std::collections::BTreeMap;

use measure::{Nanos, stats};
use record::{Capacity, CellRecord, Certificate, TrialRecord, VoidRepeat};

use crate::bench::{Bench, BenchError};
use crate::conformance::{Circumstances, differs};
use crate::names::NameBudget;
use crate::search::{Search, SearchTrace};

/// Number of repeats from which percentiles are reported (RFC 8219 section 9.2).
const ENOUGH_REPEATS: usize = 20;

/// Progress of a running method.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    /// A trial ended, whether it passed or not.
    Trial(&'a TrialRecord),
    /// One of the repeated searches ended with a result.
    Search {
        /// Number of the repeat, from 0.
        repeat: u32,
        /// Number of repeats that are planned.
        repeats: u32,
        /// Trials of the search, and the capacity that they show.
        trace: &'a SearchTrace,
    },
}

/// Repeated searches on one server.
#[derive(Clone, Debug)]
pub struct Repeats {
    /// Settings that all searches share; each repeat starts at another rate.
    pub search: Search,
    /// Number of searches, each with a capacity of its own.
    pub repeats: u32,
    /// Circumstances of the searches; whether names were used twice comes from the names themselves.
    pub circumstances: Circumstances,
}

/// A record, and the error that ended the repeats early.
type Measured = (CellRecord, Option<BenchError>);

impl Repeats {
    /// Runs all searches against `server`. An error keeps the results measured before it.
    pub fn run(
        &self,
        bench: &mut dyn Bench,
        server: &str,
        names: &mut NameBudget,
        certificate: Option<Certificate>,
        seen: &mut dyn FnMut(Progress<'_>),
    ) -> Measured {
        let (mut capacities, mut trials, mut error) = (Vec::new(), Vec::new(), None);
        let (mut void_repeats, mut whole) = (Vec::new(), 0);
        for repeat in 0..self.repeats {
            let mut note = |record: &TrialRecord| {
                seen(Progress::Trial(record));
                trials.push(record.clone());
            };
            match self.search.run(bench, names, repeat, &mut note) {
                Ok(trace) => {
                    seen(Progress::Search { repeat, repeats: self.repeats, trace: &trace });
                    match trace.void() {
                        Some(why) => {
                            void_repeats.push(VoidRepeat { repeat, why });
                            if trace.lacks_cores() {
                                break;
                            }
                        }
                        None => {
                            whole += 1;
                            capacities.push(trace.capacity);
                        }
                    }
                }
                Err(e) => {
                    let own = trials.iter().filter(|record| record.repeat == repeat);
                    let own: Vec<TrialRecord> = own.cloned().collect();
                    // Beside results of complete searches a partial result is useless.
                    if capacities.is_empty() {
                        capacities.extend(self.search.found_before(&e.to_string(), &own));
                    }
                    error = Some(e);
                    break;
                }
            }
        }
        let mut record = CellRecord {
            // A search that ended with an error does not count.
            repeats: whole,
            void_repeats,
            certificate,
            capacities,
            trials,
            ..CellRecord::new(server, BTreeMap::new(), "search")
        };
        let circumstances = Circumstances { names: names.used(), ..self.circumstances };
        sum_up(&mut record, &self.search, self.repeats, &circumstances);
        if let Some(error) = &error {
            record.differs.push(format!("ended before its time: {error}"));
            record.conforming = false;
        }
        (record, error)
    }
}

/// Computes the summary of the repeats in `record`, out of `planned` repeats.
pub(crate) fn sum_up(
    record: &mut CellRecord,
    search: &Search,
    planned: u32,
    circumstances: &Circumstances,
) {
    let found = record.found_qps();
    let highest = found.iter().copied().reduce(f64::max);
    let repeats = record.capacities.len() as u32;
    let (exact, bounds): (Vec<_>, Vec<_>) =
        record.capacities.iter().filter(|c| c.qps.is_some()).partition(|c| !c.at_least);
    let qps = |all: &[&Capacity]| all.iter().filter_map(|c| c.qps).collect::<Vec<f64>>();
    // Of several lower bounds the highest counts.
    let bound = qps(&bounds).into_iter().reduce(f64::max);
    let middle = stats::percentile(&qps(&exact), 50.0);
    record.at_least = match (middle, bound) {
        (Some(middle), Some(bound)) => bound > middle,
        _ => bound.is_some(),
    };
    record.median_qps = if record.at_least { bound } else { middle };
    // The 1st and 99th percentile of a few repeats would only be the smallest and the largest value.
    let percentile = |p| {
        if found.len() >= ENOUGH_REPEATS { stats::percentile(&found, p) } else { None }
    };
    (record.p01_qps, record.p99_qps) = (percentile(1.0), percentile(99.0));
    let certificate = record.certificate.as_ref();
    record.differs = differs(search, repeats, certificate, highest, circumstances);
    record.shortened_s = circumstances.shortened.map(Nanos::as_secs_f64);
    if repeats < planned {
        record.differs.push(format!("ended after {repeats} of {planned} searches"));
    }
    record.conforming = record.differs.is_empty();
    record.limiter = record.limiters().common().unwrap_or_default();
    record.goal = search.goal.to_string();
    record.rule = search.rule.name().to_string();
}
