//! A run in OpenMetrics' text format (version 1.0): figures as gauges, latencies as histograms, which can be merged.

use measure::exposition::{Exposition, MetricKind};
use record::{CellRecord, Run};

use super::measures;
use crate::view::labels;

/// Upper bounds of the buckets, in microseconds: 1, 2 and 5 of each power of ten.
const BOUNDS_US: [f64; 19] = [
    10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6,
    5e6, 1e7,
];

/// Returns a run as OpenMetrics.
pub fn open_metrics(run: &Run) -> String {
    let mut page = Exposition::default();
    page.family(
        "dnsdyno_figure",
        MetricKind::Gauge,
        "A figure of a cell, one sample for each repeat; the label `unit` names its unit.",
    );
    for cell in &run.results {
        for measure in measures(cell) {
            for (repeat, value) in measure.values.iter().enumerate() {
                let repeat = repeat.to_string();
                let own = [
                    ("figure", measure.name.as_str()),
                    ("unit", &measure.unit),
                    ("repeat", &repeat),
                ];
                sample(&mut page, "dnsdyno_figure", cell, &own, *value);
            }
        }
    }
    let help = "Latency from due to reply of the trials that decide, lost queries as long as their timeout.";
    page.family("dnsdyno_latency_seconds", MetricKind::Histogram, help);
    for cell in &run.results {
        let Some(times) = cell.merged(|t| &t.trial.latency_us) else { continue };
        for bound in BOUNDS_US {
            let below: u64 = times
                .buckets()
                .take_while(|(time, _)| time.as_micros_f64() <= bound)
                .map(|(_, n)| n)
                .sum();
            let le = (bound / 1e6).to_string();
            sample(&mut page, "dnsdyno_latency_seconds_bucket", cell, &[("le", &le)], below as f64);
        }
        let count = times.count() as f64;
        sample(&mut page, "dnsdyno_latency_seconds_bucket", cell, &[("le", "+Inf")], count);
        sample(&mut page, "dnsdyno_latency_seconds_sum", cell, &[], times.mean_ns() / 1e9 * count);
        sample(&mut page, "dnsdyno_latency_seconds_count", cell, &[], count);
    }
    page.finish() + "# EOF\n"
}

fn sample(page: &mut Exposition, name: &str, cell: &CellRecord, own: &[(&str, &str)], value: f64) {
    let of_cell = labels(cell);
    let of_cell = of_cell.iter().map(|(label, text)| (label.as_str(), text.as_str()));
    let all: Vec<_> = of_cell.chain(own.iter().copied()).collect();
    page.sample(name, &all, value);
}
