//! Runs in the formats of other programs: of services that watch for regressions, of test reports, of plotters, and as tables for documents.

mod bencher;
mod hlog;
mod junit;
mod open_metrics;
mod svg;

use measure::stats;
use record::{CellRecord, Figure, Run, capacity_numbers};

pub use self::bencher::{Better, bencher, github_benchmark};
pub use self::hlog::hlog;
pub use self::junit::junit;
pub use self::open_metrics::open_metrics;
pub use self::svg::{Drawing, svg};
use crate::results::{CAPACITY, Results};
use crate::table::{Field, Table};
use crate::view::search::latency_us;
use crate::view::thousands;

/// Latencies of a capacity, by name.
const LATENCIES: [(&str, f64); 3] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)];

/// Returns the table of a run's results.
fn table(run: &Run) -> Table {
    Results::of(run, run.results.iter().collect()).all()
}

/// Returns the results of a run as a table in Markdown (GitHub's), below the decision of its conditions.
pub fn markdown(run: &Run) -> String {
    let verdict = run.gate.as_ref().map(|gate| format!("{}\n\n", gate.line()));
    verdict.unwrap_or_default() + &table(run).markdown()
}

/// Returns the results of a run as a `tabular` of LaTeX, with the rules of the package booktabs.
pub fn latex(run: &Run) -> String {
    table(run).latex()
}

/// Returns the results of a run as comma-separated values, with the intervals of capacities.
pub fn csv(run: &Run) -> String {
    let mut table = table(run);
    if run.results.iter().any(|cell| cell.capacity.is_some()) {
        for (i, (head, _)) in capacity_numbers(&run.results[0]).iter().enumerate() {
            let number = |cell: &CellRecord| Field::number(capacity_numbers(cell)[i].1, thousands);
            table.numbers(head, 0, run.results.iter().map(number).collect());
        }
    }
    table.csv()
}

/// A figure of a cell, measured once or several times.
pub(crate) struct Measure {
    /// Name of the figure, such as `capacity`.
    pub(crate) name: String,
    /// Unit of its values; empty for a plain number.
    pub(crate) unit: String,
    /// The figure: the median of the values, or the capacity of rounds.
    pub(crate) value: f64,
    /// One value of each repeat, at least one.
    pub(crate) values: Vec<f64>,
}

impl Measure {
    /// Returns the measure; `None` without values.
    fn new(name: &str, unit: &str, values: Vec<f64>) -> Option<Self> {
        let value = stats::median(&values)?;
        Some(Measure { name: name.to_owned(), unit: unit.to_owned(), value, values })
    }

    fn lowest(&self) -> f64 {
        self.values.iter().copied().fold(f64::INFINITY, f64::min)
    }

    fn highest(&self) -> f64 {
        self.values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }

    /// Returns whether more is better, as for rates and shares of good answers; for times, memory
    /// and CPU less is better.
    fn more_is_better(&self) -> bool {
        matches!(self.unit.as_str(), "qps" | "pps" | "1/s" | "share" | "clients" | "connections/s")
    }
}

/// Returns the figures of a cell: the capacity of its searches with the latency there, or the
/// figures of its method.
pub(crate) fn measures(cell: &CellRecord) -> Vec<Measure> {
    let capacity = Measure::new(CAPACITY, cell.capacity_unit(), cell.found_qps());
    let latency = |(name, quantile): (&str, f64)| {
        Measure::new(name, "us", latency_us(cell, quantile).into_iter().collect())
    };
    let latencies = LATENCIES.into_iter().filter_map(latency);
    let latencies = latencies.filter(|_| capacity.is_some()).collect::<Vec<_>>();
    let other = |(name, figure): (&String, &Figure)| {
        let measure = Measure::new(name, &figure.unit, figure.values.clone())?;
        let of_rounds = cell.capacity.as_ref().filter(|_| name == CAPACITY);
        Some(Measure { value: of_rounds.map_or(measure.value, |found| found.qps), ..measure })
    };
    let others = cell.figures.iter().filter_map(other);
    capacity.into_iter().chain(latencies).chain(others).collect()
}
